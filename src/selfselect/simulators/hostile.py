"""Data that breaks careless software: rare alternatives, ties, huge scales, collinearity."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from selfselect.errors import OptionError
from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["KINDS", "hostile"]


def _rare(
    n_rows: int, rng: np.random.Generator
) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """One alternative is chosen in about one row of a hundred."""
    table = pd.DataFrame({"x": rng.standard_normal(n_rows)})
    return {
        "usual": {"Intercept": 3.3, "x": 0.5},
        "rare": {"Intercept": 0.0, "x": 0.7},
    }, table


def _ties(
    n_rows: int, rng: np.random.Generator
) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """Two alternatives with the same equation: choices are all but coin tosses."""
    table = pd.DataFrame({"x": rng.standard_normal(n_rows)})
    same = {"Intercept": 1.0, "x": 1.0}
    return {"a": same, "b": dict(same), "c": {"Intercept": 1.0, "x": -1.0}}, table


def _huge(
    n_rows: int, rng: np.random.Generator
) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """Covariates of size 1e9 and 1e-9, a year as it is written, intercepts to match."""
    table = pd.DataFrame(
        {
            "big": 1e9 * (1 + 0.1 * rng.standard_normal(n_rows)),
            "small": 1e-9 * rng.standard_normal(n_rows),
            "year": rng.integers(1990, 2020, n_rows).astype(float),
        }
    )
    return {
        "a": {"Intercept": -200.0, "big": 1e-8, "small": 1e9, "year": 0.1},
        "b": {"Intercept": 190.0, "big": -1e-8, "small": 5e8, "year": -0.085},
    }, table


def _collinear(
    n_rows: int, rng: np.random.Generator
) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """Two covariates that agree to four digits."""
    x = rng.standard_normal(n_rows)
    table = pd.DataFrame({"x": x, "almost_x": x + 1e-4 * rng.standard_normal(n_rows)})
    return {
        "a": {"Intercept": 0.0, "x": 1.0, "almost_x": 0.5},
        "b": {"Intercept": 0.2, "x": -1.0, "almost_x": 0.0},
    }, table


KINDS: dict[
    str,
    Callable[[int, np.random.Generator], tuple[dict[str, dict[str, float]], pd.DataFrame]],
] = {"rare": _rare, "ties": _ties, "huge": _huge, "collinear": _collinear}


def hostile(kind: str = "rare", n_rows: int = 4_000, *, seed: int = 0) -> Sample:
    """Simulate data that are numerically difficult although the model is correct.

    Parameters
    ----------
    kind : ``rare``, an alternative chosen in 1% of rows; ``ties``, two alternatives with one
        equation; ``huge``, covariates from 1e-9 to 1e9; ``collinear``, two covariates that agree
        to four digits.
    n_rows : how many rows.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import hostile
    >>> sorted(hostile("rare", 1_000, seed=1).data["chosen"].unique())
    ['rare', 'usual']
    """
    if kind not in KINDS:
        raise OptionError(f"There is no hostile data {kind!r}. Use one of {', '.join(KINDS)}.")
    check_sizes(n_rows)
    coefficients, table = KINDS[kind](n_rows, generator(seed, 13))
    return simulate(coefficients, table, seed=seed)

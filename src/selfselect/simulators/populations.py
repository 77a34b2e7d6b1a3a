"""Samples of people who choose: villages, normal noise, curved rules, hostile data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.rules import ConvexRule
from selfselect.seeds import generator
from selfselect.simulators.sample import Sample, check_sizes, simulate

# Roy's village: everyone either hunts or fishes, whichever earns more.


def village(n_rows: int = 2_000, *, seed: int = 0) -> Sample:
    """Simulate villagers who hunt or fish, whichever earns them more (Roy 1951).

    Height helps in hunting and hardly in fishing; weight is the opposite. Those who hunt happened
    to be good at it, so among hunters even the short ones earn well, and least squares understates
    the effect of height.

    Parameters
    ----------
    n_rows : how many villagers.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import village
    >>> sorted(village(100, seed=1).data["job"].unique())
    ['fishing', 'hunting']
    """
    check_sizes(n_rows)
    rng = generator(seed, 1951)
    height = rng.normal(170.0, 10.0, n_rows)
    weight = 70.0 + 0.5 * (height - 170.0) + rng.normal(0.0, 9.0, n_rows)
    return simulate(
        {
            "hunting": {"Intercept": -120.0, "height": 1.2, "weight": -0.3},
            "fishing": {"Intercept": 10.0, "height": 0.1, "weight": 0.6},
        },
        pd.DataFrame({"height": height.round(1), "weight": weight.round(1)}),
        scales={"hunting": 14.0, "fishing": 9.0},
        outcome="income",
        chosen="job",
        seed=seed,
    )


# Gaussian covariates and random coefficients: the setting of the theory.


def gaussian(
    n_rows: int = 5_000,
    n_covariates: int = 5,
    n_alternatives: int = 3,
    *,
    intercept: bool = True,
    norm: float = 1.0,
    scales: Any = 1.0,
    rule: Any = "max",
    seed: int = 0,
) -> Sample:
    """Simulate independent standard normal covariates and random coefficients.

    Parameters
    ----------
    n_rows, n_covariates, n_alternatives : sizes. Alternatives are named a, b, c, ...
    intercept : whether equations have one; they are small, so that no alternative dominates.
    norm : Euclidean length of each alternative's slopes.
    scales : of the noise.
    rule : which alternative is chosen.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import gaussian
    >>> gaussian(100, 2, 2, seed=1).data.shape
    (100, 4)
    """
    check_sizes(n_rows, n_covariates=n_covariates, n_alternatives=n_alternatives)
    rng = generator(seed, 7)
    names = [f"x{i + 1}" for i in range(n_covariates)]
    labels = [_letters(j) for j in range(n_alternatives)]
    slopes = rng.standard_normal((n_alternatives, n_covariates))
    slopes *= norm / np.linalg.norm(slopes, axis=1, keepdims=True)
    constants = 0.3 * rng.standard_normal(n_alternatives)
    coefficients = {
        label: {
            **({"Intercept": float(constants[j])} if intercept else {}),
            **dict(zip(names, map(float, slopes[j]), strict=True)),
        }
        for j, label in enumerate(labels)
    }
    covariates = pd.DataFrame(rng.standard_normal((n_rows, n_covariates)), columns=names)
    return simulate(coefficients, covariates, scales=scales, rule=rule, seed=seed)


def _letters(number: int) -> str:
    """Name alternatives a, b, ..., z, aa, ab, ..."""
    name = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        name = chr(ord("a") + rest) + name
    return name


# A rule with curved explaining sets: neither boxes nor polyhedra.


Array = NDArray[np.float64]

COEFFICIENTS = {
    "a": {"Intercept": 0.6, "x1": 0.8, "x2": -0.3},
    "b": {"Intercept": 0.4, "x1": -0.5, "x2": 0.6},
    "c": {"Intercept": 0.3, "x1": 0.3, "x2": 0.5},
    "d": {"Intercept": 0.4, "x1": -0.6, "x2": -0.4},
}


@dataclass(frozen=True)
class _CurvedChoice:
    """The choice of the curved rule, as a function with a parameter."""

    weight: float

    def __call__(self, latent: Array) -> NDArray[np.intp]:
        first, second, third, fourth = latent.T
        with np.errstate(over="ignore"):
            ahead = np.exp(first) >= np.exp(second) + self.weight * (third + fourth)
        chosen = np.where(ahead, 0, 1)
        chosen[fourth > 1.0] = 3
        chosen[third > 1.0] = 2
        return chosen


def curved_rule(weight: float = 0.5) -> ConvexRule:
    r"""Return the curved rule of four alternatives, known by its `choose` alone.

    The third is chosen if its outcome exceeds 1, else the fourth if its own does, else the first if
    :math:`e^{y_1} \ge e^{y_2} + w (y_3 + y_4)`, else the second. Every explaining set is convex.

    Parameters
    ----------
    weight : :math:`w`, at least zero.

    Examples
    --------
    >>> import selfselect as ss
    >>> bool(ss.rules.check(ss.simulators.curved_rule(), 4))
    True
    """
    return ConvexRule(_CurvedChoice(weight), label="chosen by the curved rule of four alternatives")


def curved(n_rows: int = 2_000, *, scale: float = 1.0, seed: int = 0) -> Sample:
    """Simulate two covariates and four alternatives of which the curved rule chooses one.

    Parameters
    ----------
    n_rows : how many rows.
    scale : of the noise.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import curved
    >>> curved(100, seed=1).data.shape
    (100, 4)
    """
    check_sizes(n_rows)
    covariates = generator(seed, 11).standard_normal((n_rows, 2))
    table = {"x1": covariates[:, 0], "x2": covariates[:, 1]}
    return simulate(COEFFICIENTS, table, scales=scale, rule=curved_rule(), seed=seed)


# Data that breaks careless software: rare alternatives, ties, huge scales, collinearity.


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

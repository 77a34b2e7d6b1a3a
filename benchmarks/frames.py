"""Fits from a frame with the printed page, and statsmodels' least squares per group."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss
from benchmarks.problems import Arrays


def frame_of(data: Arrays) -> tuple[str, pd.DataFrame]:
    """Return a formula and a frame: numbers, and the chosen alternative as text."""
    names = [f"x{i + 1}" for i in range(data.covariates.shape[1])]
    frame = pd.DataFrame(data.covariates, columns=names)
    frame["y"] = data.outcome
    frame["job"] = np.array(list("abcdefghij"))[data.chosen]
    return f"y ~ {' + '.join(names)}", frame


def fit(formula: str, frame: pd.DataFrame, **options: Any) -> Any:
    result = ss.fit(formula, frame, chosen="job", **options)
    assert result.converged
    return result


def page(formula: str, frame: pd.DataFrame) -> str:
    return str(fit(formula, frame).summary())


def has_statsmodels() -> bool:
    return importlib.util.find_spec("statsmodels") is not None


def statsmodels_pages(formula: str, frame: pd.DataFrame) -> list[str]:
    """Fit least squares to the rows of each group, by formula, and print each summary."""
    import statsmodels.formula.api as smf

    return [str(smf.ols(formula, own).fit().summary()) for _, own in frame.groupby("job")]

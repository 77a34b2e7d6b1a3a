"""Predictions for rows: latent means, chances, expected outcomes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import MissingRowsWarning, OptionError
from selfselect.problem.expectations import Expectations, expectations
from selfselect.problem.problem import Problem
from selfselect.problem.simulated import simulated_expectations

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["KINDS", "latent_means", "predict", "row_expectations"]

Array = NDArray[np.float64]

KINDS = ("latent", "chance", "outcome", "given_seen")


def predict(fit: FitResult, data: Any, kind: str) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    if data is None:
        rows = fit.rows
        index = pd.RangeIndex(len(rows)) if fit.row_labels is None else fit.row_labels
        complete = np.ones(len(rows), dtype=bool)
    else:
        coded = fit.coding.code(data, with_known=kind != "latent")
        rows, index, complete = coded.rows, coded.index, coded.complete
        if not complete.all():
            warnings.warn(
                f"{(~complete).sum()} of {len(index)} rows have a missing covariate; their "
                "predictions are missing.",
                MissingRowsWarning,
                stacklevel=3,
            )
    values, columns = _values(fit, rows, kind)
    full = np.full((len(index), values.shape[1]), np.nan)
    full[complete] = values
    if kind == "outcome":
        return pd.Series(full[:, 0], index=index, name=fit.problem.equations.outcome)
    return pd.DataFrame(full, index=index, columns=columns)


def _values(fit: FitResult, rows: Rows, kind: str) -> tuple[Array, pd.Index[Any]]:
    labels = fit.problem.equations.alternatives
    names = pd.Index(labels, name="alternative")
    if kind == "latent":
        return latent_means(fit.problem, fit.values, rows), names
    expected = row_expectations(fit.problem, fit.values, rows)
    if kind == "chance":
        return expected.chance, names
    if kind == "outcome":
        return expected.outcome[:, None], names
    pairs = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    return expected.given_seen.reshape(len(rows), -1), pairs


def latent_means(problem: Problem, reported: Array, rows: Rows) -> Array:
    """Return the mean (n, k) of every latent outcome."""
    means = np.zeros((len(rows), problem.equations.n_alternatives))
    for j, (equation, coefficients) in enumerate(
        zip(problem.equations.each, problem.layout.coefficients_of(reported), strict=True)
    ):
        for column, coefficient in zip(equation.columns, coefficients, strict=True):
            if column == 0:
                means[:, j] += coefficient
            else:
                means[:, j] += coefficient * rows.covariates[:, column - 1]
    return means


def row_expectations(problem: Problem, reported: Array, rows: Rows) -> Expectations:
    """Integrate over the latent outcomes of rows at given parameters, by simulation if need be."""
    means = latent_means(problem, reported, rows)
    scales = problem.layout.scales_of(reported)
    if problem.sampled:
        return simulated_expectations(
            problem.ordered_rule, means, scales, problem.correlation, rows.known
        )
    return expectations(problem.ordered_rule, means, scales, rows.known)

"""Estimates beside least squares, and beside a Roy model of the same data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.multinomial.two_steps import recorded_rows
from selfselect.results.tables import labels_index

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult
    from selfselect.results.fit_result import FitResult

__all__ = ["comparison_table"]

Array = NDArray[np.float64]


def _naive(fit: MultinomialResult, j: int) -> tuple[Array, Array]:
    """Return least squares on the rows of an alternative, with robust (HC1) errors."""
    rows = fit.own_rows()
    assert rows.chosen is not None and rows.outcome is not None
    own = recorded_rows(rows, j)
    weights = np.ones(len(own)) if rows.weights is None else rows.weights[own]
    x = fit.model.outcome_design(rows, j, own)
    bread = np.linalg.pinv(x.T @ (x * weights[:, None]))
    coefficients = bread @ (x.T @ (weights * rows.outcome[own]))
    left_over = rows.outcome[own] - x @ coefficients
    repeated = fit.facts.weights_kind == "frequency"
    squared = weights if repeated else weights**2
    count = float(weights.sum() if repeated else (weights > 0).sum())
    meat = x.T @ (x * (squared * left_over**2)[:, None])
    factor = count / max(count - x.shape[1], 1.0)
    return coefficients, np.sqrt(np.diag(factor * bread @ meat @ bread))


def comparison_table(fit: MultinomialResult, roy: FitResult | None) -> pd.DataFrame:
    """Return naive and corrected coefficients, and those of a Roy model, side by side."""
    labels: list[tuple[Any, str]] = []
    naive: list[Array] = []
    errors: list[Array] = []
    for j, equation in enumerate(fit.model.equations.each):
        labels += [(equation.alternative, term) for term in equation.terms]
        own, own_errors = _naive(fit, j)
        naive.append(own)
        errors.append(own_errors)
    corrected = pd.DataFrame({"estimate": fit.params, "std_error": fit.bse})
    index = labels_index(labels)
    table = pd.DataFrame(
        {"naive": np.concatenate(naive), "naive_se": np.concatenate(errors)}, index=index
    )
    table["corrected"] = corrected["estimate"].reindex(index)
    table["corrected_se"] = corrected["std_error"].reindex(index)
    table["difference under the model"] = table["corrected"] - table["naive"]
    if not fit.model.correction.levels:
        constants = table.index.get_level_values("term") == "Intercept"
        table.loc[constants, ["corrected", "corrected_se", "difference under the model"]] = np.nan
    if roy is None:
        return table
    _refuse_other_data(fit, roy)
    other = pd.DataFrame({"estimate": roy.params, "std_error": roy.bse})
    table["roy"] = other["estimate"].reindex(index)
    table["roy_se"] = other["std_error"].reindex(index)
    return table


def _refuse_other_data(fit: MultinomialResult, roy: FitResult) -> None:
    problem = getattr(roy, "problem", None)
    if problem is None or problem.noise.selected:
        raise OptionError("Give a fit of selfselect.fit to compare with.")
    ours = (fit.model.equations.outcome, fit.facts.n_rows, fit.facts.outcome_range)
    theirs = (problem.equations.outcome, roy.facts.n_rows, roy.facts.outcome_range)
    if ours != theirs or set(map(str, fit.alternatives)) != set(
        map(str, problem.equations.alternatives)
    ):
        raise OptionError(
            "The fit to compare with is of other rows, outcomes or alternatives. Fit both to the "
            "same data."
        )

"""Tables of a fit with a selection equation, beside those that every fit has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from selfselect.results.tables import DIFFERENCE, labels_index

if TYPE_CHECKING:
    from selfselect.classics.result import SelectionResult

__all__ = ["comparison_table", "glance_table"]


def glance_table(fit: SelectionResult) -> pd.DataFrame:
    """Return one row that describes the whole fit."""
    return pd.DataFrame(
        [
            {
                "model": fit.model,
                "method": fit.method,
                "nobs": fit.nobs,
                "n_parameters": fit.n_parameters,
                "llf": fit.llf,
                "aic": fit.aic,
                "bic": fit.bic,
                "converged": fit.converged,
                "covariance": fit.covariance.kind,
                "df": fit.covariance.df if np.isfinite(fit.covariance.df) else np.nan,
                "independence_p_value": fit.independence_test().p_value,
            }
        ]
    )


def comparison_table(fit: SelectionResult) -> pd.DataFrame:
    """Return least squares that ignores selection beside the estimates, coefficients only."""
    labels, naive, naive_se = [], [], []
    for equation in fit.design.equations:
        side, weights = equation.side, equation.weights
        total = float(len(equation.outcome) if weights is None else weights.sum())
        gram = side.basis.T @ (side.basis if weights is None else side.basis * weights[:, None])
        variance = equation.unit**2 * total / (total - len(side.terms))
        errors = side.carry @ np.linalg.inv(gram) @ side.carry.T * variance
        labels += [(equation.label, term) for term in side.terms]
        naive += list(side.carry @ equation.naive)
        naive_se += list(np.sqrt(np.diag(errors)))
    index = labels_index(labels)
    table = pd.DataFrame({"naive": naive, "naive_se": naive_se}, index=index)
    table["corrected"] = fit.params[index]
    table["corrected_se"] = fit.bse[index]
    table[DIFFERENCE] = table["corrected"] - table["naive"]
    return table

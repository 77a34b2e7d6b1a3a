"""Tables of a fit with a selection equation, beside those that every fit has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.classics.covariance import plain_sandwich
from selfselect.classics.design import OutcomeEquation
from selfselect.results.tables import DIFFERENCE, labels_index

if TYPE_CHECKING:
    from selfselect.classics.result import SelectionResult

__all__ = ["comparison_table", "glance_table"]

Array = NDArray[np.float64]


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
        side, errors = equation.side, _naive_covariance(fit, equation)
        labels += [(equation.label, term) for term in side.terms]
        naive += list(side.carry @ equation.naive)
        naive_se += list(np.sqrt(np.diag(side.carry @ errors @ side.carry.T)))
    index = labels_index(labels)
    table = pd.DataFrame({"naive": naive, "naive_se": naive_se}, index=index)
    table["corrected"] = fit.params[index]
    table["corrected_se"] = fit.bse[index]
    table[DIFFERENCE] = table["corrected"] - table["naive"]
    return table


def _naive_covariance(fit: SelectionResult, equation: OutcomeEquation) -> Array:
    """Return the covariance of least squares, of the kind that the fit has, in internal units."""
    design, basis, weights = fit.design, equation.side.basis, equation.weights
    total = float(len(equation.outcome) if weights is None else weights.sum())
    weighted = basis if weights is None else basis * weights[:, None]
    inverse = np.linalg.inv(basis.T @ weighted)
    factor = total / (total - basis.shape[1])
    if fit.covariance.kind == "observed":
        return inverse * (equation.unit**2 * factor)
    influence = np.zeros((len(design.positive), basis.shape[1]))
    residual = equation.standardised * equation.unit
    influence[equation.rows] = (weighted * residual[:, None]) @ inverse
    return plain_sandwich(influence, design) * factor

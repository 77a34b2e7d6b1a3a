"""Tidy tables of a fit, as pandas objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.inference.statistics import normal_quantile, two_sided_p_values
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.shared_shock import LOADING
from selfselect.problem.parameters import COMMON, SCALE, Reported
from selfselect.rules.base import Label

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "DIFFERENCE",
    "coefficient_table",
    "comparison_table",
    "glance_table",
    "labelled_matrix",
    "labelled_series",
    "naive_table",
]

Array = NDArray[np.float64]

DIFFERENCE = "difference under the model"


def labels_index(labels: Sequence[tuple[Label, str]]) -> pd.MultiIndex:
    """Return parameters' labels as an index of alternative and term."""
    return pd.MultiIndex.from_tuples(list(labels), names=["alternative", "term"])


def labelled_series(
    values: Array, labels: Sequence[tuple[Label, str]], name: str
) -> pd.Series[float]:
    """Return values indexed by alternative and term."""
    return pd.Series(values, index=labels_index(labels), name=name)


def labelled_matrix(matrix: Array, labels: Sequence[tuple[Label, str]]) -> pd.DataFrame:
    """Return a square matrix indexed by alternative and term on both sides."""
    index = labels_index(labels)
    return pd.DataFrame(matrix, index=index, columns=index)


def _intervals(reported: Reported, covariance: Array, level: float) -> tuple[Array, Array, Array]:
    """Return standard errors and both ends of the intervals."""
    if not 0 < level < 1:
        raise OptionError(f"level={level!r} is not a confidence level. Use one between 0 and 1.")
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(covariance))
    reach = normal_quantile(level) * errors
    low, high = reported.values - reach, reported.values + reach
    is_scale = np.array([term == SCALE for _, term in reported.labels])
    is_correlation = np.array([term == CORRELATION for _, term in reported.labels])
    # On Fisher's scale intervals of correlations stay within -1 and 1.
    r = reported.values[is_correlation]
    with np.errstate(divide="ignore", invalid="ignore"):
        turned = np.arctanh(r), reach[is_correlation] / (1.0 - r**2)
    low[is_correlation] = np.tanh(turned[0] - turned[1])
    high[is_correlation] = np.tanh(turned[0] + turned[1])
    factor = np.exp(reach[is_scale] / reported.values[is_scale])
    low[is_scale] = reported.values[is_scale] / factor
    high[is_scale] = reported.values[is_scale] * factor
    return errors, low, high


def coefficient_table(reported: Reported, covariance: Array, level: float) -> pd.DataFrame:
    """Return one row per parameter.

    A scale is positive by definition: that it be zero is no hypothesis, so its statistic and
    p-value are missing. So are those of one loading for all: at zero its sign is lost and its
    estimate is not normal; `lr_test` against independent noise tests it.
    """
    errors, low, high = _intervals(reported, covariance, level)
    untested = [
        term == SCALE or (label, term) == (COMMON, LOADING) for label, term in reported.labels
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(untested, np.nan, reported.values / errors)
    return pd.DataFrame(
        {
            "alternative": [alternative for alternative, _ in reported.labels],
            "term": [term for _, term in reported.labels],
            "estimate": reported.values,
            "std_error": errors,
            "statistic": statistic,
            "p_value": two_sided_p_values(statistic),
            "conf_low": low,
            "conf_high": high,
        }
    )


def glance_table(fit: FitResult) -> pd.DataFrame:
    """Return one row that describes the whole fit."""
    test = fit.independence_test()
    return pd.DataFrame(
        [
            {
                "nobs": fit.nobs,
                "n_alternatives": fit.problem.equations.n_alternatives,
                "n_parameters": fit.n_parameters,
                "llf": fit.llf,
                "aic": fit.aic,
                "bic": fit.bic,
                "converged": fit.converged,
                "n_steps": fit.n_steps,
                "covariance": fit.covariance.kind,
                "independence_p_value": test.p_value,
            }
        ]
    )


def naive_table(fit: FitResult) -> pd.DataFrame:
    """Return naive estimates and standard errors, one row per coefficient and scale."""
    naive = fit.naive_fit
    labels: list[tuple[Label, str]] = []
    estimate: list[float] = []
    errors: list[float] = []
    for j, equation in enumerate(fit.problem.equations.each):
        labels += [(equation.alternative, term) for term in (*equation.estimated, SCALE)]
        estimate += [*naive.coefficients[j], naive.scales[j]]
        errors += [*naive.std_errors[j], float("nan")]
    return pd.DataFrame({"estimate": estimate, "std_error": errors}, index=labels_index(labels))


def comparison_table(fit: FitResult) -> pd.DataFrame:
    """Return naive and corrected estimates side by side, coefficients only and then scales."""
    naive = naive_table(fit)
    corrected = coefficient_table(fit.reported, fit.covariance.matrix, 0.95)
    corrected.index = labels_index(fit.reported.labels)
    scales = dict(zip(fit.problem.equations.alternatives, fit.scales.to_numpy(), strict=True))
    # A shared coefficient stands in the table of parameters once, and here with each who has it.
    label_of = {
        (equation.alternative, term): fit.reported.labels[place]
        for equation, places in zip(
            fit.problem.equations.each, fit.problem.layout.reported_places, strict=True
        )
        for term, place in zip(equation.estimated, places, strict=False)
    }
    estimate, errors = [], []
    for label in naive.index:
        alternative, term = label
        found = label_of.get(label, label)
        if found in corrected.index:
            estimate.append(float(corrected["estimate"][found]))
            errors.append(float(corrected["std_error"][found]))
        else:
            common = (COMMON, SCALE)
            estimate.append(float(scales[alternative]))
            errors.append(
                float(corrected["std_error"][common])
                if term == SCALE and common in corrected.index
                else float("nan")
            )
    table = pd.DataFrame(
        {
            "naive": naive["estimate"],
            "naive_se": naive["std_error"],
            "corrected": estimate,
            "corrected_se": errors,
        }
    )
    table[DIFFERENCE] = table["corrected"] - table["naive"]
    return table

"""Tidy tables of a fit, as pandas objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import check_level, interval_reach, two_sided_p_values
from selfselect.noises.base import COMMON
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.shapes.base import SHAPE_TERM
from selfselect.noises.shared_shock import LOADING
from selfselect.problem.parameters import LOG_SCALE, SCALE, Reported
from selfselect.rules.base import Label

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]


def counted(n_rows: int) -> str:
    """Return a number of rows in words: 1 row, 2 rows."""
    return f"{n_rows} row{'' if n_rows == 1 else 's'}"


class Tables:
    """A result made of tables: its repr is one line that names them, and printing it shows all."""

    def __repr__(self) -> str:
        sizes = []
        for name, one in vars(self).items():
            table = one.table if hasattr(one, "to_blocks") else one
            if isinstance(table, pd.DataFrame | pd.Series):
                sizes.append(f".{name} ({counted(len(table))})")
        return f"<{type(self).__name__}: {', '.join(sizes)}; print it to read>"


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


@dataclass(frozen=True, eq=False)
class OwnScales:
    """Parameters on the scales where the normal approximation is better.

    Attributes
    ----------
    is_scale, is_correlation : (m,) which are logarithms there, and which are Fisher's z.
    moved, slope : (m,) where they stand on those scales, and the derivatives of that.
    """

    is_scale: NDArray[np.bool_]
    is_correlation: NDArray[np.bool_]
    moved: Array
    slope: Array

    @classmethod
    def of(cls, labels: Sequence[tuple[Any, str]], values: Array) -> OwnScales:
        """Return parameters with these labels and values on their own scales."""
        terms = np.array([str(term) for _, term in labels])
        positive = np.isin(terms, [SCALE, f"{SHAPE_TERM}degrees"])
        positive |= np.char.startswith(terms, f"{SHAPE_TERM}spread")
        turned = terms == CORRELATION
        moved, slope = values.copy(), np.ones_like(values)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved[positive], slope[positive] = np.log(values[positive]), 1.0 / values[positive]
            moved[turned] = np.arctanh(values[turned])
            slope[turned] = 1.0 / (1.0 - values[turned] ** 2)
        return cls(positive, turned, moved, slope)

    def interval(self, reach: Array) -> tuple[Array, Array]:
        """Return both ends (m,) of intervals of that half-width (m,), made on their own scales."""
        with np.errstate(invalid="ignore"):
            low, high = self.moved - reach * self.slope, self.moved + reach * self.slope
        return self.back(low), self.back(high)

    def back(self, moved: Array) -> Array:
        """Return values (m,) that stand there on their own scales."""
        values = moved.copy()
        with np.errstate(over="ignore"):
            values[self.is_scale] = np.exp(moved[self.is_scale])
        values[self.is_correlation] = np.tanh(moved[self.is_correlation])
        return values


def coefficient_table(
    reported: Reported,
    covariance: Covariance,
    level: float,
    ends: tuple[Array, Array] | None = None,
) -> pd.DataFrame:
    """Return one row per parameter.

    Intervals of scales are made on the log scale, those of correlations on Fisher's, where they
    stay within -1 and 1; so are a correlation's statistic and p-value. A scale is positive by
    definition: that it be zero is no hypothesis, so its statistic and p-value are missing. So are
    those of one loading for all: at zero its sign is lost and its estimate is not normal; `lr_test`
    against independent noise tests it. So are those of a shape's parameters, for which zero means
    nothing; intervals of its spreads and degrees of freedom are made on the log scale.

    Parameters
    ----------
    reported, covariance : the estimates, and their errors with the distribution they refer to.
    level : of the intervals.
    ends : lower and upper ends of intervals made otherwise, in place of those from the covariance.
    """
    check_level(level)
    values, terms = reported.values, np.array([term for _, term in reported.labels])
    of_shape = np.char.startswith(terms.astype(str), SHAPE_TERM)
    own = OwnScales.of(reported.labels, values)
    untested = own.is_scale | of_shape | [label == (COMMON, LOADING) for label in reported.labels]
    # Of a log scale, the constant being zero means no more than a scale of one does.
    untested |= terms == f"{LOG_SCALE}{INTERCEPT}"
    errors = np.sqrt(np.diag(covariance.shown))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(untested, np.nan, own.moved / (own.slope * errors))
    if ends is None:
        low, high = own.interval(interval_reach(level, covariance.df) * errors)
    else:
        low, high = ends
    return pd.DataFrame(
        {
            "alternative": [alternative for alternative, _ in reported.labels],
            "term": [term for _, term in reported.labels],
            "estimate": values,
            "std_error": errors,
            "statistic": statistic,
            "p_value": two_sided_p_values(statistic, covariance.df),
            "conf_low": low,
            "conf_high": high,
        }
    )


def glance(fit: FitResult) -> pd.DataFrame:
    """One row for the whole fit."""
    test = fit.independence_test()
    kind = {"model": fit.model, "method": fit.method} if fit.problem.noise.selected else {}
    return pd.DataFrame(
        [
            kind
            | {
                "nobs": fit.nobs,
                "n_alternatives": fit.problem.equations.n_alternatives,
                "n_parameters": fit.n_parameters,
                "llf": fit.llf,
                "aic": fit.aic,
                "bic": fit.bic,
                "converged": fit.converged,
                "n_steps": fit.n_steps,
                "covariance": fit.covariance.kind,
                "df": fit.covariance.df if np.isfinite(fit.covariance.df) else np.nan,
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


def _one_scale_each(fit: FitResult) -> dict[Label, float]:
    """Return the scale of every alternative; nan where it moves with covariates."""
    layout = fit.problem.layout
    scales = layout.central_scales(fit.values)
    scales[[one is not None for one in layout.spread_of]] = np.nan
    return dict(zip(fit.problem.equations.alternatives, scales.tolist(), strict=True))


def comparison_table(fit: FitResult) -> pd.DataFrame:
    """Return naive and corrected estimates side by side, coefficients only and then scales."""
    naive = naive_table(fit)
    corrected = coefficient_table(fit.reported, fit.covariance, 0.95)
    corrected.index = labels_index(fit.reported.labels)
    scales = _one_scale_each(fit)
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

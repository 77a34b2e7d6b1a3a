"""Test results as values, and the tail probabilities they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.special import chdtrc, erfc, fdtrc, ndtri, stdtr, stdtrit

__all__ = [
    "TestResult",
    "chi_square_test",
    "cluster_sums_test",
    "impossible_test",
    "interval_ends",
    "interval_reach",
    "p_value_in_words",
    "two_sided_p_values",
    "undecided_test",
    "wald_statistic_test",
]

Array = NDArray[np.float64]

FLAG_LEVEL = 0.99
"""Confidence at which a test is called a rejection, by `TestResult.rejects` and on every page. At
95% the three tests of a page would flag one sound fit in seven, at 99% one in thirty."""


@dataclass(frozen=True)
class TestResult:
    """What a test found, or why it could not be done, or why its statistic has no p-value.

    Attributes
    ----------
    name : which test.
    null : the hypothesis that is tested.
    statistic, df, p_value : chi-square statistic, its degrees of freedom, tail probability; nan
        where they are not known. An F statistic where there is a `df_residual`.
    reason : why the test, or its p-value, cannot be had; None where both were.
    replications : samples drawn from the fitted model that the p-value is a rank among; 0 where
        it is the tail of a chi-square or of F.
    df_residual : degrees of freedom below an F statistic; None for a chi-square.
    law : what the statistic is called where it is neither; else empty.
    """

    name: str
    null: str
    statistic: float
    df: int
    p_value: float
    reason: str | None = None
    replications: int = 0
    df_residual: float | None = None
    law: str = ""

    # pytest collects classes named Test*; this is not one of its.
    __test__ = False

    @property
    def possible(self) -> bool:
        """Whether the test could be done, and has a p-value."""
        return self.reason is None

    @property
    def undecided(self) -> bool:
        """Whether the statistic is known, but not how often chance makes it as large."""
        return self.reason is not None and not np.isnan(self.statistic)

    def rejects(self, level: float = FLAG_LEVEL) -> bool:
        """Whether the null is rejected at confidence `level`. False where there is no p-value."""
        return self.possible and self.p_value <= 1.0 - level

    def __str__(self) -> str:
        if self.undecided:
            return (
                f"{self.name} (null: {self.null}): statistic {self.statistic:.4g}, no verdict: "
                f"{self.reason}."
            )
        if self.reason is not None:
            return f"{self.name}: not tested, {self.reason}."
        by = ""
        if self.replications:
            enough = round(1.0 / (1.0 - FLAG_LEVEL)) - 1
            few = f"; {enough} could reject" if self.replications < enough else ""
            by = f" (parametric bootstrap, {self.replications} samples{few})"
        law = self.law or f"chi2({self.df})"
        if self.df_residual is not None:
            law = f"F({self.df}, {round(self.df_residual, 2):g})"
        return (
            f"{self.name} (null: {self.null}): {law} = {self.statistic:.4g}, "
            f"{p_value_in_words(self.p_value)}{by}"
        )

    def _repr_html_(self) -> str:
        from selfselect.report.page import Page

        return Page(self.name, (), (), (), (str(self),)).to_html()


def format_p_value(p_value: float) -> str:
    """Write a tail probability with three decimals, small ones as a bound."""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def p_value_in_words(p_value: float) -> str:
    """Write a tail probability inside a sentence: ``p = 0.012`` or ``p <0.001``."""
    shown = format_p_value(p_value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def chi_square_test(name: str, statistic: float, df: int, null: str) -> TestResult:
    """Make the result of a test whose statistic is chi-square under the null."""
    return TestResult(name, null, statistic, df, float(chdtrc(df, statistic)))


def impossible_test(name: str, reason: str) -> TestResult:
    """Make the result of a test that cannot be done."""
    return TestResult(name, "", float("nan"), 0, float("nan"), reason)


def wald_statistic_test(
    name: str, statistic: float, df: int, null: str, df_residual: float
) -> TestResult:
    """Make the result of a Wald test: chi-square, or F where clusters leave few degrees of freedom.

    Parameters
    ----------
    name, null : of the test.
    statistic : the Wald statistic, chi-square with `df` degrees of freedom in large samples.
    df_residual : those of the covariance it is made of, `Covariance.df`.
    """
    if np.isinf(df_residual):
        return chi_square_test(name, statistic, df, null)
    share = statistic / df
    return TestResult(
        name, null, share, df, float(fdtrc(df, df_residual, share)), df_residual=df_residual
    )


def cluster_sums_test(
    name: str, statistic: float, df: int, null: str, n_clusters: int
) -> TestResult:
    r"""Make the result of a test that sums of clusters have mean zero, standardised by themselves.

    With :math:`S = \sum_g u_g` and :math:`V = \frac{G}{G-1} \sum_g u_g u_g'` the statistic
    :math:`S'V^{-1}S` cannot exceed G - 1, so few clusters never reach the tail of a chi-square.
    Hotelling: :math:`F = \frac{G-d}{d} \frac{S'V^{-1}S}{G - 1 - S'V^{-1}S}` is F with d and G - d
    degrees of freedom where the sums are normal.

    Parameters
    ----------
    name, null : of the test.
    statistic, df : S'V⁻¹S, and the length d of S.
    n_clusters : how many clusters there are.
    """
    left = n_clusters - df
    if left < 1:
        return impossible_test(
            name, f"{n_clusters} clusters are too few for a test of {df} restrictions"
        )
    rest = max(n_clusters - 1.0 - statistic, 1e-300)
    f = left / df * statistic / rest
    return TestResult(name, null, f, df, float(fdtrc(df, left, f)), df_residual=left)


def undecided_test(name: str, statistic: float, df: int, null: str, reason: str) -> TestResult:
    """Make the result of a test whose statistic has no known distribution under the null."""
    return TestResult(name, null, statistic, df, float("nan"), reason)


def two_sided_p_values(statistic: Array, df: float = float("inf")) -> Array:
    """Return two-sided tail probabilities of the normal, or of Student's t with `df`."""
    size = np.abs(statistic)
    tail = erfc(size / np.sqrt(2.0)) if np.isinf(df) else 2.0 * stdtr(df, -size)
    return np.asarray(tail)


def interval_ends(
    estimate: Array,
    errors: Array,
    level: float,
    df: float = float("inf"),
    *,
    share: Any = False,
    above: Any = -np.inf,
) -> tuple[Array, Array]:
    """Return the ends of intervals of confidence `level`.

    Parameters
    ----------
    estimate, errors : estimates and their standard errors, of one shape.
    level, df : as in `interval_reach`.
    share : which estimates lie between 0 and 1; their intervals, made on the logit scale, do too.
    above : bounds that estimates exceed, minus infinity where there is none; their intervals, made
        on the scale of the logarithm of the distance, exceed them too.
    """
    reach = interval_reach(level, df) * errors
    low, high = estimate - reach, estimate + reach
    bound = np.broadcast_to(above, estimate.shape)
    bounded = np.isfinite(bound) & (estimate > bound)
    distance = estimate[bounded] - bound[bounded]
    with np.errstate(over="ignore"):
        factor = np.exp(reach[bounded] / distance)
        low[bounded] = bound[bounded] + distance / factor
        high[bounded] = bound[bounded] + distance * factor
    is_share = np.broadcast_to(share, estimate.shape) & (estimate > 0) & (estimate < 1)
    p = estimate[is_share]
    odds, factor = p / (1.0 - p), np.exp(np.minimum(reach[is_share] / (p * (1.0 - p)), 700.0))
    low[is_share] = odds / (factor + odds)
    high[is_share] = odds / (1.0 / factor + odds)
    return low, high


def interval_reach(level: float, df: float = float("inf")) -> float:
    """Return the half-width, in standard errors, of an interval of confidence `level`.

    It is that of the normal, or of Student's t with `df` degrees of freedom.
    """
    tail = 0.5 + 0.5 * level
    return float(ndtri(tail) if np.isinf(df) else stdtrit(df, tail))

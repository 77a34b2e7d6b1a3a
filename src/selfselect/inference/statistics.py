"""Tests as values, and chi-square tests of sums whose spread few draws tell."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.tails import chdtrc, erfc, fdtrc, ndtri, stdtr, stdtrit

Array = NDArray[np.float64]


# Test results as values, and the tail probabilities they need.


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

    def replaces(self, other: TestResult | None, level: float = FLAG_LEVEL) -> bool:
        """Whether a page of that level shows this bootstrap test, and not another or its own.

        A test of few samples cannot reject, so it leaves standing what does not need them; and one
        of fewer samples leaves standing one of more.
        """
        known = 0 if other is None else other.replications
        return self.replications >= max(known, samples_to_reject(level))

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
            enough = samples_to_reject()
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


def samples_to_reject(level: float = FLAG_LEVEL) -> int:
    """Return how many samples a rank among them needs to reject at confidence `level`."""
    return round(1.0 / (1.0 - level)) - 1


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


def percentile_ends(draws: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of intervals that are percentiles of bootstrap draws (b, q).

    They are missing where there are no draws, or a draw is missing.
    """
    if not len(draws):
        return np.full(draws.shape[1], np.nan), np.full(draws.shape[1], np.nan)
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0, method="weibull")
    return low, high


def percentile_p_values(draws: Array) -> Array:
    """Return two-sided p-values of zero: intervals of percentiles leave it out above 1 - p."""
    b, below, above = len(draws), (draws <= 0.0).sum(axis=0), (draws >= 0.0).sum(axis=0)
    found = np.minimum(2.0 * (1.0 + np.minimum(below, above)) / (b + 1.0), 1.0)
    return np.where((b > 0) & np.isfinite(draws).all(axis=0), found, np.nan)


def check_level(level: float) -> None:
    """Refuse what is no confidence level."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise OptionError(f"level={level!r} is not a confidence level. Use one between 0 and 1.")


def interval_reach(level: float, df: float = float("inf")) -> float:
    """Return the half-width, in standard errors, of an interval of confidence `level`.

    It is that of the normal, or of Student's t with `df` degrees of freedom.
    """
    tail = 0.5 + 0.5 * level
    return float(ndtri(tail) if np.isinf(df) else stdtrit(df, tail))


# Tests of sums whose spread is known from rows drawn from the fitted model.
#
# A variance :math:`\hat V` of p sums that is known from m draws makes :math:`u' \hat V^{-1} u` too
# large, on average by :math:`m / (m - p - 1)` (inverse Wishart), and q scores that are fitted to
# the same draws leave too little, a part :math:`1 - q / m`. How many draws of normal sums the
# drawn rows are worth is measured: the products of two halves of them differ by :math:`\lVert \hat
# V^{-1/2} D \hat V^{-1/2} \rVert^2 = p(p + 1) / m` on average. Rare alternatives and moments of
# high order make m small.


NEGLIGIBLE, MOST = 0.15, 0.75
"""Excess of a statistic, in standard deviations of its chi-square: up to the first it is left as
it is, since that of few sums is not known well; above the second its own error is too large."""

ALIKE = 1e-9
"""Relative eigenvalue below which a combination of sums is taken to be constant."""


def excess_of_draws(spread: tuple[Array, Array], scores: tuple[Array, Array]) -> float:
    """Return the part of a statistic that comes from drawn rows being few for so many sums.

    Each pair is products of all drawn rows, and how those of two halves of them differ: of what
    scores leave of the sums, and of the scores.
    """
    size, of_scores = len(spread[0]), len(scores[0])
    left = 1.0 - (size + 1.0) / _worth(*spread)
    return float(1.0 - max(left, 0.0) * max(1.0 - of_scores / _worth(*scores), 0.0))


def _worth(total: Array, difference: Array) -> float:
    """Return how many draws of normal numbers tell their products as well as these rows do."""
    spread = np.sqrt(np.maximum(np.diag(total), 0.0))
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
    values, axes = np.linalg.eigh(total * np.outer(scale, scale))
    kept = values > ALIKE * values[-1]
    if not kept.any():
        return float("inf")
    turn = (axes[:, kept] / np.sqrt(values[kept])).T * scale
    squares = float(((turn @ difference @ turn.T) ** 2).sum())
    size = int(kept.sum())
    return size * (size + 1.0) / squares if squares > 0.0 else float("inf")


def drawn_spread_test(
    name: str, statistic: float, df: int, null: str, excess: float, instead: str
) -> TestResult:
    """Make the result of a chi-square test, without what drawn rows add to its statistic.

    Parameters
    ----------
    name, statistic, df, null : of the test.
    excess : part of the statistic, from `excess_of_draws`.
    instead : what to do where that part is too large to be known.
    """
    deviations = excess * np.sqrt(0.5 * df)
    if deviations > MOST:
        reason = (
            f"{df} sums are too many for the simulated rows that measure their spread, and "
            f"chi-square critical values would be wrong; {instead}"
        )
        return undecided_test(name, statistic, df, null, reason)
    if deviations > NEGLIGIBLE:
        statistic *= 1.0 - excess
    return chi_square_test(name, statistic, df, null)

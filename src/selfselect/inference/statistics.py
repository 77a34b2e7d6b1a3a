"""Test results as values, and the tail probabilities they need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

__all__ = [
    "TestResult",
    "chi_square_test",
    "impossible_test",
    "normal_quantile",
    "two_sided_p_values",
    "undecided_test",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TestResult:
    """What a test found, or why it could not be done, or why its statistic has no p-value.

    Attributes
    ----------
    name : which test.
    null : the hypothesis that is tested.
    statistic, df, p_value : chi-square statistic, its degrees of freedom, tail probability; nan
        where they are not known.
    reason : why the test, or its p-value, cannot be had; None where both were.
    replications : samples drawn from the fitted model that the p-value is a rank among; 0 where
        it is the tail of a chi-square.
    """

    name: str
    null: str
    statistic: float
    df: int
    p_value: float
    reason: str | None = None
    replications: int = 0

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

    def rejects(self, level: float = 0.95) -> bool:
        """Whether the null is rejected at confidence `level`. False where there is no p-value."""
        return self.possible and self.p_value < 1.0 - level

    def __str__(self) -> str:
        if self.undecided:
            return (
                f"{self.name} (null: {self.null}): statistic {self.statistic:.4g}, no verdict: "
                f"{self.reason}."
            )
        if self.reason is not None:
            return f"{self.name}: not possible, {self.reason}."
        by = f" (parametric bootstrap, {self.replications} samples)" if self.replications else ""
        return (
            f"{self.name} (null: {self.null}): chi2({self.df}) = {self.statistic:.4g}, "
            f"p = {format_p_value(self.p_value)}{by}"
        )


def format_p_value(p_value: float) -> str:
    """Write a tail probability with three decimals, small ones as a bound."""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def chi_square_test(name: str, statistic: float, df: int, null: str) -> TestResult:
    """Make the result of a test whose statistic is chi-square under the null."""
    return TestResult(name, null, statistic, df, float(chdtrc(df, statistic)))


def impossible_test(name: str, reason: str) -> TestResult:
    """Make the result of a test that cannot be done."""
    return TestResult(name, "", float("nan"), 0, float("nan"), reason)


def undecided_test(name: str, statistic: float, df: int, null: str, reason: str) -> TestResult:
    """Make the result of a test whose statistic has no known distribution under the null."""
    return TestResult(name, null, statistic, df, float("nan"), reason)


def two_sided_p_values(statistic: Array) -> Array:
    """Return two-sided normal tail probabilities."""
    return 2.0 * ndtr(-np.abs(statistic))


def normal_quantile(level: float) -> float:
    """Return the half-width, in standard errors, of a normal interval of confidence `level`."""
    return float(ndtri(0.5 + 0.5 * level))

r"""Tests of sums whose spread is known from rows drawn from the fitted model.

A variance :math:`\hat V` of p sums that is known from m draws makes :math:`u' \hat V^{-1} u` too
large, on average by :math:`m / (m - p - 1)` (inverse Wishart), and q scores that are fitted to the
same draws leave too little, a part :math:`1 - q / m`. How many draws of normal sums the drawn rows
are worth is measured: the products of two halves of them differ by
:math:`\lVert \hat V^{-1/2} D \hat V^{-1/2} \rVert^2 = p(p + 1) / m` on average. Rare alternatives
and moments of high order make m small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.inference.statistics import TestResult, chi_square_test, undecided_test

__all__ = ["drawn_spread_test", "excess_of_draws"]

Array = NDArray[np.float64]

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

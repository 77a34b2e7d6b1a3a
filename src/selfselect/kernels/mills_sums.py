r"""Sums over rows of log masses of the normal, at arguments linear in the parameters.

A row is beyond one end, of mass :math:`\Phi(a)` (`SignedRows`), or between two, of mass
:math:`\Phi(a) - \Phi(b)` (`IntervalRows`). Both give the sum, its slope and minus its curvature in
the direction that the arguments are linear in, and the same slope row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import interval_terms, mills_terms

__all__ = ["IntervalRows", "MillsSums", "SignedRows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MillsSums:
    """Weighted sums over rows of a log mass that depends on parameters b (m,).

    Attributes
    ----------
    log_mass : of the log mass.
    pull : (m,) its slope in b.
    curvature : (m, m) minus its curvature; zeros where that was not wanted.
    """

    log_mass: float
    pull: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows v (m, n), one column each, with the sign of what was recorded, at arguments a = v'b.

    `weights` says how much each counts, and is None where every row counts once.
    """

    values: Array
    weights: Array | None

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at arguments along `direction` (m,)."""
        native = extension()
        if native is None:
            return self.at_by_numpy(direction, curved=curved)
        size = len(self.values)
        pull, curvature = np.empty(size), np.zeros((size, size))
        log_mass = native.signed_rows(
            self.values, self.weights, direction, pull, curvature if curved else None
        )
        return MillsSums(log_mass, pull, curvature)

    def at_by_numpy(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Do the same by NumPy: the oracle of the compiled function."""
        mills = mills_terms(direction @ self.values)
        log_cdf, ratio, slope = mills.log_cdf, mills.ratio, mills.slope
        if self.weights is not None:
            log_cdf, ratio, slope = (self.weights * one for one in (log_cdf, ratio, slope))
        size = len(self.values)
        curvature = (self.values * slope) @ self.values.T if curved else np.zeros((size, size))
        return MillsSums(float(log_cdf.sum()), self.values @ ratio, curvature)

    def each(self, direction: Array) -> tuple[Array, Array]:
        """Return the log mass (n,) of every row, and its slope (m, n) in the direction."""
        mills = mills_terms(direction @ self.values)
        return mills.log_cdf, self.values * mills.ratio

    def moments(self, direction: Array) -> tuple[Array, Array]:
        """Return mean (n,) of normal noise that the rows show, and one less its variance.

        The mean has the sign of the rows.
        """
        mills = mills_terms(direction @ self.values)
        return mills.ratio, mills.slope


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Rows w (m - 2, n) between two ends: a = w'b + b_lower, b = w'b + b_upper, a > b.

    The direction b (m,) has the numbers of both ends behind the first `n_before` of the others.
    """

    values: Array
    weights: Array | None
    n_before: int

    def _ends(self, direction: Array) -> tuple[Array, Array]:
        n = self.n_before
        base = np.delete(direction, (n, n + 1)) @ self.values
        return base + direction[n], base + direction[n + 1]

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at ends along `direction` (m,); -inf where ends change places."""
        size, n = len(direction), self.n_before
        pull, curvature = np.zeros(size), np.zeros((size, size))
        if not direction[n] > direction[n + 1]:
            return MillsSums(-np.inf, pull, curvature)
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        log_mass, at_a, at_b = terms.log_mass, terms.upper_density, terms.lower_density
        weights = 1.0 if self.weights is None else self.weights
        others = np.delete(np.arange(size), (n, n + 1))
        mean = at_a - at_b
        pull[others] = self.values @ (weights * mean)
        pull[n], pull[n + 1] = (weights * at_a).sum(), -(weights * at_b).sum()
        if curved:
            by_a, by_b = weights * at_a * (a + mean), -weights * at_b * (b + mean)
            curvature[np.ix_(others, others)] = (self.values * (by_a + by_b)) @ self.values.T
            for place, by in ((n, by_a), (n + 1, by_b)):
                curvature[others, place] = curvature[place, others] = self.values @ by
            crossed = float((weights * at_a * at_b).sum())
            curvature[n, n], curvature[n + 1, n + 1] = by_a.sum() + crossed, by_b.sum() + crossed
            curvature[n, n + 1] = curvature[n + 1, n] = -crossed
        return MillsSums(float((weights * log_mass).sum()), pull, curvature)

    def each(self, direction: Array) -> tuple[Array, Array]:
        """Return the log mass (n,) of every row, and its slope (m, n) in the direction."""
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        mean = terms.upper_density - terms.lower_density
        ends = np.vstack([terms.upper_density, -terms.lower_density])
        return terms.log_mass, np.insert(self.values * mean, [self.n_before] * 2, ends, axis=0)

    def moments(self, direction: Array) -> tuple[Array, Array]:
        """Return mean (n,) of normal noise that the rows show, and one less its variance."""
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        mean = terms.upper_density - terms.lower_density
        return mean, terms.upper_density * (a + mean) - terms.lower_density * (b + mean)

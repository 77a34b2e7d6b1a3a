r"""Sums over rows of log masses of the normal, at arguments linear in the parameters.

A row is beyond one end, of mass :math:`\Phi(a)` (`SignedRows`), or between two, of mass
:math:`\Phi(a) - \Phi(b)` (`IntervalRows`). Both give the sum, its slope and minus its curvature in
the direction that the arguments are linear in, and the same slope row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """Where the entries of a direction stand if both ends come last."""
        n, m = self.n_before, len(self.values)
        return np.array([*range(n), m, m + 1, *range(n, m)], dtype=np.intp)

    def _ends(self, direction: Array) -> tuple[Array, Array]:
        n = self.n_before
        base = np.concatenate([direction[:n], direction[n + 2 :]]) @ self.values
        return base + direction[n], base + direction[n + 1]

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at ends along `direction` (m,); -inf where ends change places."""
        size, n, m = len(direction), self.n_before, len(self.values)
        if not direction[n] > direction[n + 1]:
            return MillsSums(-np.inf, np.zeros(size), np.zeros((size, size)))
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        at_a, at_b, weights = terms.upper_density, terms.lower_density, self.weights
        # By the lower end, and by the upper one; the other entries move both.
        slopes = np.stack([at_a, -at_b])
        mean = at_a - at_b
        counted = slopes if weights is None else slopes * weights
        log_mass = terms.log_mass.sum() if weights is None else weights @ terms.log_mass
        pull = np.concatenate([self.values @ (counted[0] + counted[1]), counted.sum(axis=1)])
        curvature = np.zeros((size, size))
        if curved:
            bends = counted * (np.stack([a, b]) + mean)
            curvature[:m, :m] = (self.values * (bends[0] + bends[1])) @ self.values.T
            curvature[m:, :m] = bends @ self.values.T
            curvature[:m, m:] = curvature[m:, :m].T
            crossed = float(counted[0] @ at_b)
            curvature[m:, m:] = np.diag(bends.sum(axis=1)) + crossed * np.array([[1, -1], [-1, 1]])
            curvature = curvature[self._order[:, None], self._order]
        return MillsSums(float(log_mass), pull[self._order], curvature)

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

"""Confidence limits of bounds, of one sample or the best of several.

A share has the limits of Clopper and Pearson, which cover for every number of rows; a quantile has
those that follow from them, order statistics; a mean those of the normal or t distribution. The
best of several bounds is that of Chernozhukov, Lee and Rosen (2013): every bound is moved outwards
by its own imprecision before the best is taken, and only bounds that may be the best count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from selfselect.inference.statistics import interval_reach
from selfselect.kernels.special import bdtrik, betaincinv, erfc, ndtri

__all__ = ["Bound", "Limit", "MeanBound", "QuantileBound", "ShareBound", "best_of"]

Array = NDArray[np.float64]

Side = Literal["lower", "upper"]

REACH = 0.1
"""Bounds that may be the best are all kept with chance 1 - REACH / log(rows)."""


class Bound(Protocol):
    """A bound estimated from some rows."""

    @property
    def estimate(self) -> float:
        """The bound itself."""

    def limit(self, side: Side, tail: float) -> float:
        """Return the limit that the true bound exceeds (or falls below) with chance `tail`."""


@dataclass(frozen=True)
class Limit:
    """A bound and its confidence limit, moved outwards."""

    estimate: float
    confidence: float


def upper_share(share: Array | float, rows: float, tail: float) -> Array:
    """Return the upper limit of Clopper and Pearson."""
    count = np.minimum(np.asarray(share, float), 1.0) * rows
    whole = count >= rows * (1.0 - 1e-12)
    limit = betaincinv(count + 1.0, np.where(whole, 1.0, rows - count), 1.0 - tail)
    return np.where(whole, 1.0, limit)


def lower_share(share: Array | float, rows: float, tail: float) -> Array:
    """Return the lower limit of Clopper and Pearson."""
    return 1.0 - upper_share(1.0 - np.asarray(share, float), rows, tail)


@dataclass(frozen=True)
class ShareBound:
    """A share of rows, such as a distribution function at one value."""

    estimate: float
    rows: float

    def limit(self, side: Side, tail: float) -> float:
        """Return a limit of the share."""
        find = upper_share if side == "upper" else lower_share
        return float(find(self.estimate, self.rows, tail))


@dataclass(frozen=True)
class MeanBound:
    """A mean of rows; infinite where one of them is."""

    estimate: float
    error: float
    df: float

    def limit(self, side: Side, tail: float) -> float:
        """Return a limit of the mean."""
        if not np.isfinite(self.estimate):
            return self.estimate
        reach = interval_reach(1.0 - 2.0 * tail, self.df) * self.error
        return self.estimate + (reach if side == "upper" else -reach)


@dataclass(frozen=True, eq=False)
class QuantileBound:
    """A quantile of one end of the rows' intervals.

    Attributes
    ----------
    quantile : between 0 and 1.
    values : the grid, increasing from minus infinity.
    shares : of the rows with an end at or below each value.
    between : whether there are ends between a value and the one before it, where a lower bound is
        taken one step below; in the last entry, whether there are any beyond the grid.
    rows : how many independent rows that rests on.
    outward : the side to which a quantile between two values is rounded.
    limits : the lowest and highest value that is possible.
    """

    quantile: float
    values: Array
    shares: Array
    between: NDArray[np.bool_]
    rows: float
    outward: Side
    limits: tuple[float, float]

    @property
    def estimate(self) -> float:
        """The quantile of the rows."""
        return self._value(self._place)

    @property
    def rounding(self) -> float:
        """How far the quantile of the rows may be rounded; zero where it is known exactly."""
        place = self._place
        if not 1 < place < len(self.values) or not self.between[place]:
            return 0.0
        return float(self.values[place] - self.values[place - 1])

    @property
    def _place(self) -> int:
        return int(np.searchsorted(self.shares, self.quantile - 1e-12))

    def limit(self, side: Side, tail: float) -> float:
        """Return the value at which the limit of the share reaches the quantile."""
        # A larger share means a smaller quantile. The limits of Clopper and Pearson reach it where
        # the binomial distribution of the quantile reaches the tail.
        if side == "lower":
            count = max(float(bdtrik(tail, self.rows, self.quantile)), 0.0)
        else:
            count = float(bdtrik(1.0 - tail, self.rows, self.quantile)) + 1.0
        return self._value(int(np.searchsorted(self.shares, count / self.rows)))

    def _value(self, place: int) -> float:
        """Return a value of the grid, or what is possible where the ends do not reach so far."""
        place = min(place, len(self.values))
        if self.outward == "lower" and self.between[place]:
            place -= 1
        found = float(self.values[place]) if place < len(self.values) else np.inf
        # What is just below a value is counted apart from it, and rounded to it.
        if self.outward == "upper" and place + 1 < len(self.values):
            following = float(self.values[place + 1])
            found = following if np.nextafter(found, np.inf) == following else found
        return min(max(found, self.limits[0]), self.limits[1])


def best_of(bounds: Sequence[Bound], side: Side, tail: float, n_rows: float) -> Limit:
    """Return the sharpest of several bounds: the smallest upper one, or the largest lower one.

    Parameters
    ----------
    bounds : of samples that do not overlap.
    side : of which they are bounds.
    tail : chance that the limit is not outside of the true bound.
    n_rows : in all.
    """
    sign = 1.0 if side == "upper" else -1.0
    inward: Side = "lower" if side == "upper" else "upper"
    if len(bounds) == 1:
        return Limit(bounds[0].estimate, bounds[0].limit(side, tail))
    first = REACH / np.log(max(n_rows, 3.0)) / len(bounds)
    second = 0.5 * erfc(2.0 * ndtri(1.0 - first) / np.sqrt(2.0))
    best = min(sign * one.limit(side, first) for one in bounds)
    near = [one for one in bounds if sign * one.limit(inward, second) <= best]
    middle = 1.0 - 0.5 ** (1.0 / len(near))
    return Limit(
        sign * min(sign * one.limit(side, middle) for one in near) if len(near) > 1
        else near[0].estimate,
        sign * min(sign * one.limit(side, tail / len(near)) for one in near),
    )  # fmt: skip

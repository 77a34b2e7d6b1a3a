"""Bounds as results: what was asked, their limits, and what a fit says of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.inference.statistics import TestResult, interval_reach
from selfselect.kernels.tails import bdtrik, betaincinv, erfc, ndtri
from selfselect.results.tables import Tables

if TYPE_CHECKING:
    from selfselect.plots.base import Picture
    from selfselect.report.page import Block, Page

Array = NDArray[np.float64]


# What a user asks of bounds, checked.


@dataclass(frozen=True, eq=False)
class BoundsAsked:
    """What a user asks of bounds.

    Attributes
    ----------
    quantiles : between 0 and 1.
    points : values of distribution functions; None to have them chosen.
    support : as given.
    level : of confidence.
    """

    quantiles: tuple[float, ...]
    points: Any
    support: Any
    level: float


def read_asked(quantiles: Any, points: Any, support: Any, level: float) -> BoundsAsked:
    """Check what was given."""
    given = np.atleast_1d(np.asarray(quantiles, dtype=object)).tolist()
    if not given or not all(_number(q) and 0.0 < q < 1.0 for q in given):
        raise OptionError(f"quantiles={quantiles!r} must be numbers between 0 and 1.")
    if points is not None:
        listed = np.atleast_1d(np.asarray(points, dtype=object)).tolist()
        if not listed or not all(_number(y) and np.isfinite(y) for y in listed):
            raise OptionError(f"points={points!r} must be values of the outcome.")
        points = [float(y) for y in listed]
    if not (_number(level) and 0.0 < level < 1.0):
        raise OptionError(f"level={level!r} must lie between 0 and 1, as 0.95 does.")
    return BoundsAsked(tuple(float(q) for q in given), points, support, float(level))


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


# Bounds as a result: tables, tests, a page and the parametric answer beside them.


INSIDE = (
    "A correct model with this rule lies inside the bounds whatever its noise: a fit outside "
    "them is misspecified, a fit inside them is not confirmed."
)

LEVELS = (
    "Bounds hold for any distribution and correlation of the noise. Intervals cover both bounds, "
    "separately for each quantity."
)


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Tables):
    """What the rule alone says of potential outcomes and of the difference of two.

    Attributes
    ----------
    distribution : bounds of distribution functions, at the values ``at``.
    quantiles : bounds of quantiles; infinite where the rule and the support set no limit.
    means : bounds of means; finite on both sides only with a support.
    tests : of the rule, where there is an instrument.
    level : of the intervals ``conf_low`` to ``conf_high``, which cover both bounds.
    by : names of the columns that cells are made of.
    n_rows : rows in all.
    warnings, notes : sentences.

    The tables name cells, then ``of``, an outcome or a difference. Where they are of a fit, the
    column ``fit`` is what it says of the same number.
    """

    distribution: pd.DataFrame
    quantiles: pd.DataFrame
    means: pd.DataFrame
    tests: tuple[TestResult, ...]
    level: float
    by: tuple[str, ...]
    n_rows: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def outside(self) -> pd.DataFrame:
        """Return what a fit says that lies outside the confidence limits of the bounds."""
        kept = []
        for what in ("means", "quantiles", "distribution"):
            table: pd.DataFrame = getattr(self, what)
            if "fit" not in table:
                return pd.DataFrame()
            out = (table["fit"] < table["conf_low"]) | (table["fit"] > table["conf_high"])
            kept.append(table[out].assign(what=what))
        return pd.concat(kept, ignore_index=True)

    def plot(self, of: Sequence[str] | None = None, *, axes: Any = None) -> Picture:
        """Draw the bounds of distributions as bands; see `selfselect.plots.bounds`."""
        from selfselect.plots.bounds import bounds

        return bounds(self, of, axes=axes)

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Page

        facts = (("Rows", f"{self.n_rows}"), ("Confidence", f"{100 * self.level:g}%"))
        tests = tuple(str(one) + "." for one in self.tests)
        notes = (*tests, LEVELS, *self.notes)
        if "fit" in self.means:
            notes = (*notes, INSIDE)
        blocks = (*self._blocks("means", []), *self._blocks("quantiles", ["quantile"]))
        return Page("What the rule alone implies", self.warnings, facts, blocks, notes)

    def _blocks(self, what: str, keys: list[str]) -> tuple[Block, ...]:
        from selfselect.report.page import Block

        table: pd.DataFrame = getattr(self, what)
        numbers = [name for name in ("lower", "upper", "conf_low", "conf_high", "fit")
                   if name in table]  # fmt: skip
        tail = 50.0 * (1.0 - self.level)
        shown = {"conf_low": f"[{tail:g}%", "conf_high": f"{100 - tail:g}%]"}
        header = ("", *(shown.get(name, name) for name in numbers))
        outer = [*self.by, "of"] if keys else list(self.by)
        inner = keys or ["of"]
        groups = table.groupby(outer, sort=False, observed=True) if outer else [((), table)]
        blocks = []
        for values, own in groups:
            pairs = zip(outer, values, strict=True)
            named = ", ".join(str(v) if name == "of" else f"{name} = {v}" for name, v in pairs)
            lines = tuple(
                (
                    " ".join(str(one[key]) for key in inner),
                    *(_written(one[name]) for name in numbers),
                )
                for _, one in own.iterrows()
            )
            title = {"means": "Mean", "quantiles": "Quantiles of"}[what]
            blocks.append(
                Block(
                    f"{title}{', ' if what == 'means' and named else ' '}{named}".strip(),
                    header,
                    lines,
                )
            )
        return tuple(blocks)

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _written(value: float) -> str:
    from selfselect.report.page import format_number

    if np.isnan(value):
        return ""
    return format_number(value) if np.isfinite(value) else ("-inf" if value < 0 else "inf")


# Confidence limits of bounds, of one sample or the best of several.
#
# A share has the limits of Clopper and Pearson, which cover for every number of rows; a quantile
# has those that follow from them, order statistics; a mean those of the normal or t distribution.
# The best of several bounds is that of Chernozhukov, Lee and Rosen (2013): every bound is moved
# outwards by its own imprecision before the best is taken, and only bounds that may be the best
# count.


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

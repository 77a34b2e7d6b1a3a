"""What each row says of every outcome and difference, by cells of rows that say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.panels import weighted_quantiles
from selfselect.data.rows import Rows, counted_rows
from selfselect.engines.base import Engine
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, MAYBE, OBSERVED
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules import compares_scores, has_bounds
from selfselect.rules.base import by_alternative

Array = NDArray[np.float64]


# What each row says of every outcome, and of the difference of two: an interval.
#
# The rule gives every row a box: the observed outcome, and limits of the others. An alternative
# that was not available, and one of which the row says nothing, may have any outcome.


DIGITS = 12
"""Significant digits of a difference: what costs cancel to is the same number in every row."""


def why_no_bounds(problem: Problem) -> str | None:
    """Say why a rule alone says nothing of the outcomes that were not chosen; None where it does.

    The reasons are those of the model, not of the rows.
    """
    if problem.index == "unknown":
        return (
            "the chosen alternative was not recorded, so no row shows which alternative its "
            "outcome belongs to. Bounds need `chosen`"
        )
    if problem.noise.selected:
        return (
            "a selection equation selects by an index of its own, which puts no limit on the "
            "outcome that was not observed. Bounds need a rule that compares outcomes, such as "
            "selfselect.fit has"
        )
    if problem.equations.costs:
        named = ", ".join(repr(one.alternative) for one in problem.equations.costs)
        return (
            f"the cost of {named} is estimated, so the limits of the other outcomes are not known "
            "without the model. Give costs as numbers or columns"
        )
    if not has_bounds(problem.ordered_rule):
        return (
            f"{type(problem.rule).__name__} has no `bounds`: the outcomes that explain a choice "
            "are no box, so a row limits no single outcome. Use a rule with `bounds`, such as "
            "'max', 'min' or rules.MonotoneArgmax"
        )
    return None


@dataclass(frozen=True, eq=False)
class Targets:
    """Outcomes, and differences of two of them.

    Attributes
    ----------
    problem : alternatives and rule.
    support : by alternative (lowest, highest) outcome that is possible; infinite where unknown.
    """

    problem: Problem
    support: Array

    @classmethod
    def of(cls, problem: Problem, support: Any) -> Targets:
        """Refuse rules that bound nothing, and read the support."""
        reason = why_no_bounds(problem)
        if reason is not None:
            raise UnsupportedError(f"There are no bounds: {reason}.")
        return cls(problem, read_support(support, problem.equations.alternatives))

    @property
    def n_alternatives(self) -> int:
        """How many alternatives there are."""
        return self.problem.equations.n_alternatives

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The differences: first less second."""
        return tuple(combinations(range(self.n_alternatives), 2))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the outcomes, then of the differences."""
        labels = [str(label) for label in self.problem.equations.alternatives]
        return (*labels, *(f"{labels[j]} - {labels[m]}" for j, m in self.pairs))

    def ends(self, batch: Batch) -> tuple[Array, Array]:
        """Return the lowest and the highest value (n, targets) that each row allows."""
        lower, upper = self._boxes(batch)
        first, second = (list(side) for side in zip(*self.pairs, strict=True))
        least, most = lower[:, first] - upper[:, second], upper[:, first] - lower[:, second]
        decimals = _decimals(self.problem)
        # Adding zero makes negative zeros positive ones.
        return (
            np.hstack([lower, np.round(least, decimals) + 0.0]),
            np.hstack([upper, np.round(most, decimals) + 0.0]),
        )

    @cached_property
    def limits(self) -> Array:
        """The lowest and highest value (2, targets) that is possible; infinite where unknown."""
        first, second = (list(side) for side in zip(*self.pairs, strict=True))
        least, most = self.support
        limits = np.array([least[first] - most[second], most[first] - least[second]])
        return np.hstack([self.support, np.round(limits, _decimals(self.problem)) + 0.0])

    def latent(self, outcomes: Array) -> Array:
        """Return values (n, targets) of potential outcomes (n, k)."""
        first, second = (list(side) for side in zip(*self.pairs, strict=True))
        return np.hstack([outcomes, outcomes[:, first] - outcomes[:, second]])

    def _boxes(self, batch: Batch) -> tuple[Array, Array]:
        observation, rows = batch.observation, batch.rows
        status = observation.status
        limit = np.broadcast_to(observation.limit, status.shape)
        lower = np.where(
            (status == OBSERVED) | (status == ABOVE) | (status == BETWEEN), limit, -np.inf
        )
        upper = np.where((status == OBSERVED) | (status == BELOW), limit, np.inf)
        if observation.upper is not None:
            upper = np.where(status == BETWEEN, observation.upper, upper)
        partly = np.flatnonzero((status == MAYBE).any(axis=1))
        if len(partly):
            lower[partly], upper[partly] = _partly_recorded(self.problem, rows.take(partly))
        outside = (upper < self.support[0]) | (lower > self.support[1])
        if outside.any():
            place = int(np.flatnonzero(outside.any(axis=0))[0])
            raise DataError(
                f"The support of {self.names[place]!r} excludes outcomes of "
                f"{int(outside[:, place].sum())} rows that were recorded, or that the rule "
                "implies. Give a support that holds them all."
            )
        return np.maximum(lower, self.support[0]), np.minimum(upper, self.support[1])


def _partly_recorded(problem: Problem, rows: Rows) -> tuple[Array, Array]:
    """Return boxes of rows that lack their outcome or their choice: the hull of all that may be."""
    assert rows.outcome is not None and rows.chosen is not None
    k, n_rows = problem.equations.n_alternatives, len(rows)
    between = np.full((n_rows, 2), np.nan) if rows.between is None else rows.between
    lacking = np.isnan(rows.outcome)
    least = np.where(lacking, np.where(np.isnan(between[:, 0]), -np.inf, between[:, 0]), 0.0)
    most = np.where(lacking, np.where(np.isnan(between[:, 1]), np.inf, between[:, 1]), 0.0)
    least[~lacking] = most[~lacking] = rows.outcome[~lacking]
    may = np.ones((n_rows, k), dtype=bool) if rows.possible is None else rows.possible.copy()
    if rows.known.available is not None:
        may &= rows.known.available
    decided = rows.chosen >= 0
    may[decided] = rows.chosen[decided, None] == np.arange(k)
    lower, upper = np.full((n_rows, k), np.inf), np.full((n_rows, k), -np.inf)
    for choice in range(k):
        which = np.flatnonzero(may[:, choice])
        if len(which):
            one = _box_given(problem, rows.take(which), choice, least[which], most[which])
            lower[which] = np.minimum(lower[which], one[0])
            upper[which] = np.maximum(upper[which], one[1])
    return lower, upper


def _box_given(
    problem: Problem, rows: Rows, choice: int, least: Array, most: Array
) -> tuple[Array, Array]:
    """Return boxes where `choice` was chosen with an outcome between two values.

    Where a rule compares scores, its limits move one way with the outcome, so those of both ends
    hold all between. Another rule may do anything in between.
    """
    rule, shape = problem.ordered_rule, (len(rows), problem.equations.n_alternatives)
    chosen = np.full(len(rows), choice, dtype=np.intp)
    lower, upper = np.full(shape, np.inf), np.full(shape, -np.inf)
    for outcome in (least, most):
        with np.errstate(all="ignore"):
            low, high = rule.bounds(chosen, outcome, rows.known)
        # What a transform does not define is no limit.
        lower = np.minimum(lower, np.where(np.isnan(low), -np.inf, low))
        upper = np.maximum(upper, np.where(np.isnan(high), np.inf, high))
    if not compares_scores(problem.rule):
        unknown = least < most
        lower[unknown], upper[unknown] = -np.inf, np.inf
    if rows.known.available is not None:
        lower[~rows.known.available], upper[~rows.known.available] = -np.inf, np.inf
    lower[:, choice], upper[:, choice] = least, most
    return lower, upper


def _decimals(problem: Problem) -> int:
    """Return the decimals that a difference of outcomes keeps, the same in every row."""
    units = problem.units
    return DIGITS - int(np.ceil(np.log10(abs(units.outcome_shift) + 10.0 * units.outcome_unit)))


def read_support(support: Any, alternatives: tuple[Any, ...]) -> Array:
    """Return the lowest and highest outcome (2, k) that are possible."""
    every = np.tile(np.array([[-np.inf], [np.inf]]), (1, len(alternatives)))
    if support is None:
        return every
    given = support if isinstance(support, Mapping) else dict.fromkeys(alternatives, support)
    for label, pair in by_alternative(given, alternatives, what="support").items():
        every[:, alternatives.index(label)] = _pair(pair)
    return every


def _pair(pair: Any) -> tuple[float, float]:
    example = "Give (lowest, highest) numbers, None where there is no limit, as in (0, None)"
    if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise OptionError(f"The support {pair!r} is no pair. {example}.")
    ends = []
    for value, open_end in zip(pair, (-np.inf, np.inf), strict=True):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and (not number or np.isnan(value)):
            raise OptionError(f"The support {pair!r} holds {value!r}. {example}.")
        ends.append(open_end if value is None else float(value))
    if ends[0] >= ends[1]:
        raise OptionError(f"The support {pair!r} is empty. {example}.")
    return ends[0], ends[1]


# Cells of rows: combinations of the values of columns, and of groups of an instrument's.

Indices = NDArray[np.intp]

FEWEST = 30
"""Rows below which a cell is no sample: an interval of its distribution would say nothing."""

MOST_LEVELS = 50
"""Values of a column of cells."""

MOST_CELLS = 500
"""Cells in all."""

GROUPS = 5
"""Groups that an instrument of many numbers is cut into."""


@dataclass(frozen=True, eq=False)
class CellFactor:
    """A column that tells cells apart.

    Attributes
    ----------
    name : of the column.
    levels : what each code stands for.
    way : the place of its codes among those of `Rows.clusters`; None for a covariate.
    order : (levels,) which level each of those codes is.
    covariate : the place of its values among the covariates; None for labels.
    values : the number of each level, or the upper edges of groups of numbers.
    grouped : whether numbers are cut into groups.
    """

    name: str
    levels: tuple[Any, ...]
    way: int | None = None
    order: Indices | None = None
    covariate: int | None = None
    values: Array | None = None
    grouped: bool = False

    def codes(self, rows: Rows) -> Indices:
        """Return the level of each row."""
        if self.covariate is None:
            assert rows.clusters is not None and self.way is not None and self.order is not None
            return self.order[rows.clusters.reshape(len(rows), -1)[:, self.way]]
        assert self.values is not None
        found = np.searchsorted(self.values, rows.covariates[:, self.covariate])
        return np.minimum(found, len(self.levels) - 1)


def number_factor(name: str, covariate: int, engine: Engine, *, instrument: bool) -> CellFactor:
    """Make a factor of a numeric column: its values, or groups of an instrument's many values."""

    def met(batch: Batch) -> Counter[float]:
        own = counted_rows(batch.rows).covariates[:, covariate]
        return Counter(np.unique(own)[: MOST_LEVELS + 1].tolist())

    values = np.array(sorted(engine.sum(met)))
    if len(values) <= (2 * GROUPS if instrument else MOST_LEVELS):
        return CellFactor(name, tuple(map(_plain, values)), covariate=covariate, values=values)
    if not instrument:
        raise DataError(
            f"The column {name!r} of by= has more than {MOST_LEVELS} values, too many for cells. "
            "Cut it into groups first, or go along it: along="
            f"{name!r}."
        )
    sample = engine.sample(20_000, np.random.default_rng(0)).rows
    levels = np.arange(1, GROUPS) / GROUPS
    edges = np.unique(weighted_quantiles(sample.covariates[:, covariate], levels, sample.weights))
    shown = [f"{edge:.4g}" for edge in edges]
    texts = [f"<= {shown[0]}", *(f"{a} to {b}" for a, b in pairwise(shown))]
    texts.append(f"> {shown[-1]}")
    return CellFactor(name, tuple(texts), covariate=covariate, values=edges, grouped=True)


def label_factor(name: str, way: int, levels: Sequence[Any], *, instrument: bool) -> CellFactor:
    """Make a factor of a column of labels, coded beside the clusters."""
    if len(levels) > MOST_LEVELS:
        what = "instrument=" if instrument else "by="
        raise DataError(
            f"The column {name!r} of {what} has {len(levels)} values, more than {MOST_LEVELS}. "
            "Join them into fewer first."
        )
    # Sorted where they can be: neighbours are alike.
    place = sorted(range(len(levels)), key=lambda i: (str(type(levels[i])), levels[i]))
    order = np.empty(len(levels), dtype=np.intp)
    order[place] = np.arange(len(levels))
    return CellFactor(name, tuple(levels[i] for i in place), way=way, order=order)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells by columns, each cut further by an instrument where there is one.

    Attributes
    ----------
    by : the columns.
    instrument : the last factor, or None.
    lookup : (n_codes,) the cell of each combination, where some were joined; None where none were.
    """

    by: tuple[CellFactor, ...]
    instrument: CellFactor | None = None
    lookup: Indices | None = None

    @property
    def factors(self) -> tuple[CellFactor, ...]:
        """All factors, the instrument last."""
        return self.by if self.instrument is None else (*self.by, self.instrument)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each factor has."""
        return tuple(len(factor.levels) for factor in self.factors)

    @property
    def n_codes(self) -> int:
        """Combinations of all levels, met or not; fewer where some were joined."""
        if self.lookup is not None:
            return int(self.lookup.max()) + 1
        return int(np.prod(self.sizes, dtype=float))

    def check(self) -> None:
        """Refuse more combinations than can be told apart."""
        if self.n_codes > MOST_CELLS:
            named = " x ".join(f"{one.name!r} ({len(one.levels)})" for one in self.factors)
            raise DataError(
                f"{named} make {self.n_codes} cells, more than {MOST_CELLS}. Name fewer columns, "
                "or join their values."
            )

    def codes(self, rows: Rows) -> Indices:
        """Return the cell of each row."""
        code = np.zeros(len(rows), dtype=np.intp)
        for factor, size in zip(self.factors, self.sizes, strict=True):
            code = code * size + factor.codes(rows)
        return code if self.lookup is None else self.lookup[code]

    def groups(self) -> list[tuple[tuple[Any, ...], list[int]]]:
        """Return the values of `by` with the codes of their cells, one per value of z."""
        inner = 1 if self.instrument is None else len(self.instrument.levels)
        outer = tuple(len(factor.levels) for factor in self.by)
        found = []
        for place, values in enumerate(np.ndindex(*outer)):
            named = tuple(f.levels[v] for f, v in zip(self.by, values, strict=True))
            found.append((named, [place * inner + z for z in range(inner)]))
        return found


@dataclass(frozen=True, eq=False)
class CellGroup:
    """Rows with the same values of `by`: one cell, or one per group of the instrument's values.

    Attributes
    ----------
    values : of `by`.
    cells : places of the cells.
    texts : the instrument's values in each of them.
    """

    values: tuple[Any, ...]
    cells: tuple[int, ...]
    texts: tuple[str, ...]


def merge_cells(
    cells: Cells, counts: Array
) -> tuple[Cells, tuple[CellGroup, ...], tuple[str, ...]]:
    """Drop cells that no row is in, and join values of the instrument that few rows have.

    A function of an instrument is an instrument, so its values may be joined; cells of `by` with
    too few rows are refused by name.

    Parameters
    ----------
    cells : as they were asked for.
    counts : (n_codes,) effective rows of each.

    Returns
    -------
    the joined cells, their groups, and sentences on what was joined.
    """
    lookup = np.zeros(cells.n_codes, dtype=np.intp)
    found: list[CellGroup] = []
    small: list[str] = []
    n_cells = n_joined = 0
    for values, codes in cells.groups():
        met = [code for code in codes if counts[code] > 0]
        if not met:
            continue
        if counts[met].sum() < FEWEST:
            named = ", ".join(f"{f.name} = {v}" for f, v in zip(cells.by, values, strict=True))
            small.append(f"{named or 'all rows'} ({counts[met].sum():.0f} rows)")
            continue
        joined = _join(met, counts)
        for place, group in enumerate(joined):
            lookup[group] = n_cells + place
        texts = tuple(
            "" if cells.instrument is None
            else ", ".join(str(cells.instrument.levels[code - codes[0]]) for code in group)
            for group in joined
        )  # fmt: skip
        found.append(CellGroup(values, tuple(range(n_cells, n_cells + len(joined))), texts))
        n_cells += len(joined)
        n_joined += len(met) - len(joined)
    if small:
        raise DataError(
            f"Too few rows, fewer than {FEWEST}, are in {len(small)} "
            f"{'cell' if len(small) == 1 else 'cells'}: "
            f"{'; '.join(small[:5])}{'; ...' if len(small) > 5 else ''}. Join values of by=, or "
            "leave those rows out."
        )
    notes = []
    if n_joined and cells.instrument is not None:
        notes.append(
            f"{n_joined} values of {cells.instrument.name} with fewer than {FEWEST} rows are "
            "joined with their neighbours, which a valid instrument allows."
        )
    return replace(cells, lookup=lookup), tuple(found), tuple(notes)


def _join(codes: list[int], counts: Array) -> list[list[int]]:
    """Join codes with the next ones until each group has rows enough."""
    groups: list[list[int]] = [[]]
    for code in codes:
        if groups[-1] and counts[groups[-1]].sum() >= FEWEST:
            groups.append([])
        groups[-1].append(code)
    if len(groups) > 1 and counts[groups[-1]].sum() < FEWEST:
        last = groups.pop()
        groups[-1] += last
    return groups


def _plain(value: float) -> Any:
    return int(value) if value == int(value) else float(value)

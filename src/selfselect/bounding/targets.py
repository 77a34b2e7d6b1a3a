"""What each row says of every outcome, and of the difference of two: an interval.

The rule gives every row a box: the observed outcome, and limits of the others. An alternative that
was not available, and one of which the row says nothing, may have any outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, MAYBE, OBSERVED
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules import compares_scores, has_bounds
from selfselect.rules._labels import by_alternative

__all__ = ["Targets", "read_support", "why_no_bounds"]

Array = NDArray[np.float64]

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

"""Rows that are evaluated together: what each says of every alternative, and sums that add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.columns import first_rows
from selfselect.data.rows import Rows
from selfselect.errors import RuleError
from selfselect.kernels.known_index import (
    ABOVE,
    BELOW,
    BETWEEN,
    EITHER,
    INSIDE,
    MAYBE,
    OBSERVED,
    UNKNOWN,
)
from selfselect.plain import archived
from selfselect.rules.base import HasBounds, Label

if TYPE_CHECKING:
    from selfselect.data.equations import Equations
    from selfselect.problem.problem import Problem
    from selfselect.problem.units import Units

Array = NDArray[np.float64]


# What each row says of each alternative: the rule's bounds, made ready for the kernels.

Codes = NDArray[np.int8]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

FAR = 30
"""How far an outcome with one limit may lie from zero: sinh(30) standard deviations."""


@dataclass(frozen=True, eq=False)
class Observation:
    """What was learnt of every alternative in every row.

    Attributes
    ----------
    status : (n, k) codes of `selfselect.kernels.known_index`.
    limit : (n, k), or (n, 1) where all alternatives share it: the outcome where chosen, the bound
        where below or above it, the lower bound where between two.
    upper : (n, k) upper bound where between two; None where no row has that status.
    """

    status: Codes
    limit: Array
    upper: Array | None = None

    @classmethod
    def of_nothing(cls, n_rows: int) -> Observation:
        """Return that of rows of which only the covariates are read."""
        return cls(np.empty((n_rows, 0), dtype=np.int8), np.empty((n_rows, 0)))

    def take(self, which: slice | Indices) -> Observation:
        """Keep the rows `which`; a slice makes views, not copies."""
        return Observation(
            self.status[which],
            self.limit[which],
            None if self.upper is None else self.upper[which],
        )

    def limit_of(self, alternative: int) -> Array:
        """Return the limit (n,) of one alternative."""
        return self.limit[:, alternative if self.limit.shape[1] > 1 else 0]


def observe(rule: HasBounds, rows: Rows, alternatives: Sequence[Label]) -> Observation:
    """Turn the recorded choices and outcomes into an observation of every alternative."""
    assert rows.outcome is not None and rows.chosen is not None
    shape = (len(rows), len(alternatives))
    lower, upper = rule.bounds(rows.chosen, rows.outcome, rows.known)
    if rows.known.available is None and _is_outcome(rows.outcome, upper, lower, -np.inf):
        return _observe_one_side(rows.chosen, rows.outcome, len(alternatives), BELOW)
    if rows.known.available is None and _is_outcome(rows.outcome, lower, upper, np.inf):
        return _observe_one_side(rows.chosen, rows.outcome, len(alternatives), ABOVE)
    bounded_below, bounded_above = lower > -np.inf, upper < np.inf
    kind = np.select(
        [bounded_below & bounded_above, bounded_above, bounded_below],
        [np.int8(BETWEEN), np.int8(BELOW), np.int8(ABOVE)],
        np.int8(UNKNOWN),
    )
    status = np.broadcast_to(kind, shape).copy()
    if rows.known.available is not None:
        status[~rows.known.available] = UNKNOWN
    status[np.arange(shape[0]), rows.chosen] = OBSERVED
    open_to = True if rows.known.available is None else rows.known.available
    _refuse_impossible(status, lower, upper, open_to, alternatives)

    limit = np.where(bounded_below, lower, upper)
    if limit.shape[1] != 1 or not np.array_equal(limit[:, 0], rows.outcome):
        limit = np.broadcast_to(limit, shape).copy()
        limit[np.arange(shape[0]), rows.chosen] = rows.outcome
    has_two = bool((kind == BETWEEN).any()) and bool((status == BETWEEN).any())
    return Observation(status, limit, np.broadcast_to(upper, shape) if has_two else None)


def _is_outcome(outcome: Array, bound: Array, other: Array, infinite: float) -> bool:
    """Say whether a bound is the outcome itself, finite in every row, and the other side open."""
    open_side = not any(other.strides) and other.size and other.flat[0] == infinite
    same = (
        bound.shape == (len(outcome), 1)
        and bound.strides[0] == outcome.strides[0]
        and bound.ctypes.data == outcome.ctypes.data
    )
    # A sum is finite only if all its parts are; one that overflows is looked at the long way.
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(open_side and same and np.isfinite(outcome.sum()))


def _observe_one_side(
    chosen: Indices, outcome: Array, n_alternatives: int, side: int
) -> Observation:
    """Observe the usual case: all others lie on one side of the outcome, which every row has."""
    assert OBSERVED == 0
    status = np.empty((n_alternatives, len(outcome)), dtype=np.int8)
    for j in range(n_alternatives):
        np.multiply(chosen != j, side, out=status[j], casting="unsafe")
    return Observation(status.T, outcome[:, None])


def observe_partial(rule: HasBounds, rows: Rows, alternatives: Sequence[Label]) -> Observation:
    """Observe the rows that have outcome and choice; the others' entries are all `MAYBE`."""
    assert rows.outcome is not None and rows.chosen is not None
    _refuse_unexplained(rule, rows, len(alternatives))
    whole = np.flatnonzero(~np.isnan(rows.outcome) & (rows.chosen >= 0))
    shape = (len(rows), len(alternatives))
    status, limit = np.full(shape, MAYBE, dtype=np.int8), np.zeros(shape)
    if len(whole):
        found = observe(rule, rows.take(whole), alternatives)
        if found.upper is not None:
            raise RuleError(
                f"{type(rule).__name__} bounds outcomes on both sides, which is possible only "
                "where outcome and choice are recorded in every row."
            )
        status[whole], limit[whole] = found.status, found.limit
    return Observation(status, limit)


def _refuse_unexplained(rule: HasBounds, rows: Rows, k: int) -> None:
    """Refuse rows that lack something and that no choice and no outcome explains."""
    assert rows.outcome is not None and rows.chosen is not None
    known = ~np.isnan(rows.outcome)
    low = high = np.where(rows.chosen < 0, rows.outcome, np.nan)
    if rows.between is not None:
        low = np.where(known, low, rows.between[:, 0])
        high = np.where(known, high, rows.between[:, 1])
    unit = np.nanstd(rows.outcome) if known.any() else 1.0
    # A row without any limit has outcomes enough.
    left = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    for far in unit * np.sinh(np.arange(FAR)):
        for away in (far, -far):
            left = left[~_explained(rule, rows, left, np.fmax(np.fmin(away, high), low), k)]
    if len(left):
        impossible = np.isin(np.arange(len(rows)), left)
        raise RuleError(
            f"Under this rule {len(left)} rows could not have been recorded as they were "
            f"({first_rows(impossible)}): whatever may have been chosen there, no outcome of "
            "another loses against it. Check the rule, its transforms, its costs, and what is "
            "known of the choice and the outcome of those rows."
        )


def _explained(rule: HasBounds, rows: Rows, which: Indices, outcome: Array, k: int) -> Mask:
    """Say in which rows others may lose against an outcome (n,) of one that may be chosen."""
    assert rows.chosen is not None
    part, found = rows.take(which), np.zeros(len(which), dtype=bool)
    assert part.chosen is not None
    for j in range(k):
        may = (part.chosen < 0) | (part.chosen == j)
        for open_to in (part.possible, part.known.available):
            if open_to is not None:
                may &= open_to[:, j]
        here = np.flatnonzero(may & ~found)
        known = part.known.take(here)
        lower, upper = rule.bounds(np.full(len(here), j), outcome[which[here]], known)
        empty = np.broadcast_to(np.isneginf(upper) | np.isposinf(lower), (len(here), k)).copy()
        empty[:, j] = False
        if known.available is not None:
            empty &= known.available
        found[here] = ~empty.any(axis=1)
    return found


def observe_unknown(rows: Rows, n_alternatives: int) -> Observation:
    """Turn outcomes that may be any available alternative's into an observation."""
    assert rows.outcome is not None
    status = np.full((len(rows), n_alternatives), MAYBE, dtype=np.int8)
    if rows.known.available is not None:
        status[~rows.known.available] = UNKNOWN
    return Observation(status, rows.outcome[:, None])


def observe_ranked(rows: Rows, n_alternatives: int) -> Observation:
    """Turn choices by rank into an observation: of the others only the number above is known."""
    assert rows.outcome is not None and rows.chosen is not None
    if rows.known.available is not None:
        raise RuleError(
            "A rank among alternatives of which some are not available is not defined. Use Ranked "
            "without `available`."
        )
    status = np.full((len(rows), n_alternatives), EITHER, dtype=np.int8)
    status[np.arange(len(rows)), rows.chosen] = OBSERVED
    return Observation(status, rows.outcome[:, None])


def observe_inside(rows: Rows, n_alternatives: int, boxes: bool = False) -> Observation:
    """Turn choices by a general rule into an observation: the others explain it together.

    `boxes` says that an outcome of an alternative that is not open has no part in the choice.
    """
    assert rows.outcome is not None and rows.chosen is not None
    status = np.full((len(rows), n_alternatives), INSIDE, dtype=np.int8)
    if rows.known.available is not None:
        status[~rows.known.available] = UNKNOWN
    lacks = None if boxes or rows.known.described is None else ~rows.known.described.all(axis=1)
    if lacks is not None and ((status[lacks] == INSIDE).sum(axis=1) > 1).any():
        raise RuleError(
            "A rule without `bounds` may weigh every outcome, and cases without a row for an "
            "alternative do not say its covariates. Give them that row, or leave them out."
        )
    status[np.arange(len(rows)), rows.chosen] = OBSERVED
    return Observation(status, rows.outcome[:, None])


def _refuse_impossible(
    status: Codes, lower: Array, upper: Array, open_to: Mask | bool, alternatives: Sequence[Label]
) -> None:
    # A bound that is not a number fails the comparison too.
    empty = ~((lower < upper) & (upper > -np.inf) & (lower < np.inf))
    if not empty.any():
        return
    empty = np.broadcast_to(empty, status.shape) & (status != OBSERVED) & open_to
    impossible = empty.any(axis=1)
    if impossible.any():
        label = alternatives[int(np.flatnonzero(empty[np.flatnonzero(impossible)[0]])[0])]
        raise RuleError(
            f"Under this rule {impossible.sum()} rows could not have been recorded as they were "
            f"({first_rows(impossible)}): no outcome of {label!r} explains the choice. Check the "
            "rule, its transforms and its costs against those rows."
        )


# Batches of rows, and evaluations of them. Evaluation + evaluation = evaluation.

Backend = Literal["numpy", "fused", "joint"]

Read = TypeVar("Read")


@dataclass(frozen=True, eq=False)
class RowsAsRead:
    """The rows of a batch as a function of a likelihood reads them, of equations in units."""

    read: Callable[[Problem, Rows], Any]
    equations: Equations
    units: Units
    rows: Any

    def is_of(self, problem: Problem) -> bool:
        """Say whether a problem has these equations and units."""
        return self.equations is problem.equations and self.units is problem.units


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows with what was observed in them: the unit an engine hands to a task.

    `start` is the position of the first row among those of the engine: what a task keeps from one
    pass to the next, such as Markov chains, it keeps by row.
    """

    rows: Rows
    observation: Observation
    backend: Backend = "numpy"
    start: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def readings(self) -> list[RowsAsRead]:
        """What likelihoods made of these rows, for passes to come."""
        return []

    def read(self, problem: Problem, read: Callable[[Problem, Rows], Read]) -> Read:
        """Return what a likelihood makes of these rows; made once for equations and units."""
        for known in self.readings:
            if known.read is read and known.is_of(problem):
                return known.rows
        rows = read(problem, self.rows)
        self.readings.append(RowsAsRead(read, problem.equations, problem.units, rows))
        return rows

    def take(self, which: slice | NDArray[np.intp]) -> Batch:
        """Keep the rows `which`; a slice makes views, not copies."""
        first = which.start or 0 if isinstance(which, slice) else 0
        return Batch(
            self.rows.take(which), self.observation.take(which), self.backend, self.start + first
        )


@archived("evaluation")
@dataclass(frozen=True, eq=False)
class Evaluation:
    """The log-likelihood of some rows, its score and Hessian in the natural parameters."""

    loglik: float
    score: Array
    hessian: Array

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(
            self.loglik + other.loglik, self.score + other.score, self.hessian + other.hessian
        )


@archived("parts")
class Parts(tuple[Any, ...]):
    """Several sums carried through one pass; adding adds part by part."""

    def __add__(self, other: Any) -> Parts:
        return Parts(a + b for a, b in zip(self, other, strict=True))

    def plain(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {"parts": tuple(self)}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Parts:
        """Rebuild it from a file."""
        return cls(values["parts"])

"""Checking a rule by random probing: whether its oracles agree and its slices are convex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.rules.base import (
    NO_ROW_DATA,
    Array,
    HasBounds,
    HasProjection,
    Indices,
    RowData,
    SelectionRule,
)
from selfselect.seeds import generator

INSIDE = 1e-7
"""Slack, relative to the size of the outcomes, within which a bound counts as met: bounds come
through transforms and their inverses, and a point on a boundary may fall either way."""


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Latent outcomes at which a rule violates its contract.

    Attributes
    ----------
    promise : the promise that is broken, in words.
    latent : (k,) the latent outcomes at fault.
    chosen : the alternative chosen there, or the one whose explaining set is at fault.
    outcome : its outcome.
    """

    promise: str
    latent: Array
    chosen: int
    outcome: float


@dataclass(frozen=True, eq=False)
class RuleCheck:
    """The result of checking a rule: true if no violation was found."""

    n_probes: int
    counterexample: Counterexample | None

    def __bool__(self) -> bool:
        return self.counterexample is None

    def __str__(self) -> str:
        if self.counterexample is None:
            return f"No fault found in {self.n_probes} random probes."
        found = self.counterexample
        return (
            f"{found.promise} Latent outcomes {np.array2string(found.latent, precision=4)}, "
            f"alternative {found.chosen} chosen with outcome {found.outcome:.4g}."
        )


def check(
    rule: SelectionRule,
    n_alternatives: int,
    *,
    n_probes: int = 2_000,
    scale: float = 2.0,
    seed: int = 0,
) -> RuleCheck:
    """Check a rule at random latent outcomes and return the first violation.

    Checked are: `choose` returns one valid index per row and the same one for the same outcomes;
    a rule with `bounds` chooses an alternative exactly inside its bounds; `project` leaves latent
    outcomes of the explaining set alone, lands in it at the nearest point, and is idempotent; and
    slices look convex (the middle of two points of an explaining set is in the set).

    Parameters
    ----------
    rule : the rule.
    n_alternatives : the number of alternatives to probe it with.
    n_probes : how many random rows.
    scale : spread of the random latent outcomes: the units in which the rule is interesting.
    seed : of the random draws.

    Examples
    --------
    >>> import selfselect as ss
    >>> bool(ss.rules.check(ss.rules.Maximum(), 3))
    True
    """
    rng = generator(seed)
    latent = scale * rng.standard_normal((n_probes, n_alternatives))
    other = scale * rng.standard_normal((n_probes, n_alternatives))
    probe = _Probe(rule, latent)
    for find in (_bad_choice, _bad_bounds, _bad_projection, _bad_convexity):
        fault = find(probe, other)
        if fault is not None:
            return RuleCheck(n_probes, fault)
    return RuleCheck(n_probes, None)


def check_rows(
    rule: SelectionRule,
    first: Array,
    second: Array,
    chosen: Indices,
    outcome: Array,
    rows: RowData,
    rng: np.random.Generator,
) -> RuleCheck:
    """Probe a rule at latent outcomes that explain given rows.

    Parameters
    ----------
    rule : the rule.
    first, second : (n, k) two points of every row's explaining set.
    chosen, outcome, rows : what was recorded.
    rng : of the points between them.
    """
    probe = _Probe(rule, first, rows)
    fault = probe.fault(
        probe.chosen != chosen, first, "choose gives two answers for the same outcomes."
    )
    share = rng.random((len(first), 1))
    between = first + share * (second - first)
    between[np.arange(len(between)), chosen] = outcome
    fault = fault or probe.fault(
        ~probe.chooses_same(between),
        between,
        "The explaining set is not convex: it holds two points, but not one between them.",
    )
    for find in (_bad_bounds, _bad_projection):
        fault = fault or find(probe, first + 2.0 * (second - first))
    return RuleCheck(len(first), fault)


class _Probe:
    """A rule, random latent outcomes, and the alternatives it chooses there."""

    def __init__(self, rule: Any, latent: Array, rows: RowData = NO_ROW_DATA) -> None:
        self.rule = rule
        self.latent = latent
        self.rows = rows
        self.chosen = np.asarray(rule.choose(latent, rows))

    @property
    def outcome(self) -> Array:
        return chosen_outcome(self.latent, self.chosen)

    def chooses_same(self, latent: Array) -> NDArray[np.bool_]:
        """Say in which rows the same alternative is chosen at other latent outcomes."""
        return np.asarray(self.rule.choose(latent, self.rows) == self.chosen)

    def fault(self, where: NDArray[np.bool_], latent: Array, promise: str) -> Counterexample | None:
        if not where.any():
            return None
        row = int(np.flatnonzero(where)[0])
        return Counterexample(
            promise, latent[row].copy(), int(self.chosen[row]), float(self.outcome[row])
        )

    def swap_others(self, other: Array) -> Array:
        """Replace all outcomes but the recorded one."""
        swapped = other.copy()
        swapped[np.arange(len(swapped)), self.chosen] = self.outcome
        return swapped


def chosen_outcome(latent: Array, chosen: Indices) -> Array:
    """Return the outcome of the chosen alternative of each row."""
    outcome: Array = np.take_along_axis(latent, chosen[:, None], axis=1)[:, 0]
    return outcome


def _bad_choice(probe: _Probe, other: Array) -> Counterexample | None:
    del other
    chosen, n_alternatives = probe.chosen, probe.latent.shape[1]
    if chosen.shape != (len(probe.latent),) or not np.issubdtype(chosen.dtype, np.integer):
        return Counterexample(
            f"choose must return one integer per row; it returned {chosen.dtype} of shape "
            f"{chosen.shape}.",
            probe.latent[0],
            -1,
            float("nan"),
        )
    invalid = (chosen < 0) | (chosen >= n_alternatives)
    if invalid.any():
        row = int(np.flatnonzero(invalid)[0])
        return Counterexample(
            f"choose must return an index from 0 to {n_alternatives - 1}.",
            probe.latent[row],
            int(chosen[row]),
            float("nan"),
        )
    return probe.fault(
        ~probe.chooses_same(probe.latent),
        probe.latent,
        "choose gives two answers for the same outcomes.",
    )


def _bad_bounds(probe: _Probe, other: Array) -> Counterexample | None:
    if not isinstance(probe.rule, HasBounds):
        return None
    lower, upper = probe.rule.bounds(probe.chosen, probe.outcome, probe.rows)
    others = np.arange(probe.latent.shape[1])[None, :] != probe.chosen[:, None]

    def margin(latent: Array) -> Array:
        """Distance of the worst coordinate to its bound: positive inside the box."""
        with np.errstate(invalid="ignore"):
            room = np.minimum(latent - lower, upper - latent)
        return np.where(others, room, np.inf).min(axis=1)

    slack = INSIDE * (1.0 + np.abs(probe.latent).max())
    fault = probe.fault(
        margin(probe.latent) < -slack,
        probe.latent,
        "The alternative is chosen outside the bounds that explain it.",
    )
    if fault is not None:
        return fault
    swapped = probe.swap_others(other)
    inside, same = margin(swapped), probe.chooses_same(swapped)
    return probe.fault(
        (inside > slack) & ~same,
        swapped,
        "The alternative is not chosen although all others are within their bounds.",
    ) or probe.fault(
        (inside < -slack) & same,
        swapped,
        "The alternative is chosen although another outcome is outside its bounds.",
    )


def _bad_projection(probe: _Probe, other: Array) -> Counterexample | None:
    if not isinstance(probe.rule, HasProjection):
        return None
    slack = INSIDE * (1.0 + np.abs(probe.latent).max())

    def project(latent: Array) -> Array:
        return np.asarray(probe.rule.project(latent, probe.chosen, probe.outcome, probe.rows))

    still = project(probe.latent)
    fault = probe.fault(
        np.abs(still - probe.latent).max(axis=1) > slack,
        probe.latent,
        "project moves latent outcomes that already explain the choice.",
    )
    if fault is not None:
        return fault
    once = project(other)
    twice = project(once)
    nudged = probe.swap_others(once + 1e-4 * (probe.latent - once))
    fault = probe.fault(
        np.abs(twice - once).max(axis=1) > slack, other, "project is not idempotent."
    ) or probe.fault(
        ~probe.chooses_same(nudged), once, "project lands outside the set that explains the choice."
    )
    # From the nearest point Pz of a convex set no other point s of it lies on the side of z.
    for inside in (probe.latent, project(other[::-1])):
        towards = ((other - once) * (inside - once)).sum(axis=1)
        room = np.linalg.norm(other - once, axis=1) * np.linalg.norm(inside - once, axis=1)
        fault = fault or probe.fault(
            towards > slack * (1.0 + room),
            other,
            "project does not land at the nearest point of the set that explains the choice.",
        )
    return fault


def _bad_convexity(probe: _Probe, other: Array) -> Counterexample | None:
    """Look for two points of one explaining set whose middle is not in it."""
    swapped = probe.swap_others(other)
    both = probe.chooses_same(swapped)
    middle = 0.5 * (probe.latent + swapped)
    return probe.fault(
        both & ~probe.chooses_same(middle),
        middle,
        "The explaining set is not convex: two of its points have a middle outside it.",
    )

"""A row as a sum of all that may have been, with costs that are estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED
from selfselect.likelihoods._nodes import Silent, nodes_of
from selfselect.noises.shapes import Shape
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules.base import factors_of

Array = NDArray[np.float64]


# Estimated costs of a batch of rows.

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Costs:
    """Estimated costs of a batch.

    Attributes
    ----------
    design : per alternative (n, q_j) covariates of its cost, in internal units.
    places : per alternative positions of its coefficients among the natural parameters.
    value : (n, k) costs.
    sign : 1 where costs are taken off outcomes that are sought large, -1 where they are added to
        outcomes that are sought small.
    """

    design: list[Array]
    places: list[Indices]
    value: Array
    sign: float


def costs_of(problem: Problem, natural: Array, rows: Rows) -> Costs | None:
    """Return the estimated costs of rows; None where no cost is estimated."""
    equations = problem.equations
    if not equations.costs:
        return None
    k = equations.n_alternatives
    design = [np.empty((len(rows), 0)) for _ in range(k)]
    places = [np.empty(0, dtype=np.intp) for _ in range(k)]
    value = np.zeros((len(rows), k))
    # Those of the costs are the last of the extras.
    place = len(natural) - sum(len(cost.terms) for cost in equations.costs)
    for cost in equations.costs:
        j = equations.alternatives.index(cost.alternative)
        # Only scaled, not centred: a cost without a constant has none to take the shift up.
        columns = [
            np.ones(len(rows)) if c == 0 else rows.covariates[:, c - 1] / problem.units.unit[c]
            for c in cost.columns
        ]
        design[j] = np.column_stack(columns)
        places[j] = np.arange(place, place + len(columns))
        value[:, j] = design[j] @ natural[places[j]]
        place += len(columns)
    return Costs(design, places, value, problem.cost_sign)


def cost_values(problem: Problem, natural: Array, rows: Rows) -> Array | float:
    """Return estimated costs (n, k) in units of the outcome, as they are taken off outcomes."""
    costs = costs_of(problem, natural, rows)
    return 0.0 if costs is None else costs.sign * problem.units.outcome_unit * costs.value


# Rows as sums of atoms: all the ways in which what was recorded may have come about.
#
# An atom is a chosen alternative and its outcome. A row whose choice and outcome were both
# recorded is one atom. Where the choice was not recorded there is one for each that may be the
# chosen one; where the outcome was not, it is integrated over: the likelihood
#
# .. math:: \sum_j \int f_j(y) \, P(\text{others explain it} \mid y)\,dy
#
# becomes a sum over points y with weights. Nodes are placed where the density is at the parameters
# in hand (see `_nodes`) and then held: derivatives are taken under the integral. Of two
# alternatives that are compared as they are the narrower outcome is integrated over, with the
# other beyond it where that was chosen: points that are fine enough for the narrower one and reach
# as far as the wider would be very many.

Mask = NDArray[np.bool_]
Sides = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Atoms:
    """Atoms of some rows, those of a row next to each other.

    Attributes
    ----------
    rows : (m,) the rows of the batch they belong to.
    first : (m,) where each of those rows' atoms begin.
    row : (n,) position in `rows` of each atom.
    chosen : (n,) the alternative that has an outcome at the point.
    member : (n,) the chosen alternative; another one where that is beyond the point.
    side : (n, k) on which side of its limit each other alternative lies; 0 where it may be
        anywhere.
    limit : (n, k) outcome of the chosen one, limits of the others, in internal units.
    log_weight : (n,) logarithm of the weight of the point; None where each row is one atom.
    """

    rows: Indices
    first: Indices
    row: Indices
    chosen: Indices
    member: Indices
    side: Sides
    limit: Array
    log_weight: Array | None


def atoms_of(
    problem: Problem,
    shapes: Sequence[Shape],
    mean: Array,
    spread: Array,
    finest: Array,
    batch: Batch,
) -> list[Atoms]:
    """Return the atoms of a batch: rows that are one atom first, then the others.

    Parameters
    ----------
    problem : the model.
    shapes : of each alternative's noise.
    mean : (n, k) means of the outcomes, in internal units.
    spread : (n, k) their spreads, or (1, k) where all rows have the same: standard deviations for
        normal noise, scales for noise of another shape.
    finest : (n, k) or (1, k) the distances over which the factors of an integrand change.
    batch : rows.
    """
    rows, status = batch.rows, batch.observation.status
    plain = (status == OBSERVED).any(axis=1)
    groups = []
    if plain.any():
        groups.append(_plain(problem, batch, np.flatnonzero(plain)))
    if not plain.all():
        which = np.flatnonzero(~plain)
        candidates = _candidates(batch, which, problem.equations.n_alternatives)
        assert rows.outcome is not None
        recorded = ~np.isnan(rows.outcome[which])
        if recorded.any():
            part = which[recorded]
            groups.append(_several(problem, batch, part, candidates[recorded]))
        if not recorded.all():
            part = which[~recorded]
            groups.append(
                _integrated(
                    problem,
                    batch,
                    part,
                    candidates[~recorded],
                    Silent(
                        problem,
                        shapes,
                        mean[part],
                        np.broadcast_to(spread, mean.shape)[part],
                        np.broadcast_to(finest, mean.shape)[part],
                        rows.known.take(part),
                        *_limits(problem, batch, part),
                    ),
                )
            )
    return groups


def _plain(problem: Problem, batch: Batch, which: Indices) -> Atoms:
    observation = batch.observation if len(which) == len(batch) else batch.observation.take(which)
    status, k = observation.status, problem.equations.n_alternatives
    side = np.zeros(status.shape, dtype=np.int8)
    side[status == BELOW] = 1
    side[status == ABOVE] = -1
    limit = np.broadcast_to(observation.limit, (len(which), k))
    # What may be anywhere has an infinite limit, and derivatives are products with limits.
    limit = problem.units.limits(np.where(np.isfinite(limit), limit, 0.0))
    each = np.arange(len(which))
    chosen = (status == OBSERVED).argmax(axis=1)
    return Atoms(which, each, each, chosen, chosen, side, limit, None)


def _candidates(batch: Batch, which: Indices, k: int) -> Mask:
    """Say which alternatives may be the chosen one, (m, k)."""
    rows = batch.rows
    candidates = np.ones((len(which), k), dtype=bool)
    if rows.possible is not None:
        candidates &= rows.possible[which]
    if rows.known.available is not None:
        candidates &= rows.known.available[which]
    if rows.chosen is not None:
        chosen = rows.chosen[which]
        recorded = np.flatnonzero(chosen >= 0)
        candidates[recorded] = False
        candidates[recorded, chosen[recorded]] = True
    return candidates


def _several(problem: Problem, batch: Batch, which: Indices, candidates: Mask) -> Atoms:
    """Make one atom for each that may have been chosen with the recorded outcome."""
    assert batch.rows.outcome is not None
    row, chosen = np.nonzero(candidates)
    outcome = batch.rows.outcome[which[row]]
    beyond = np.zeros(len(which), dtype=bool)
    return _joined(problem, batch, which, row, chosen, outcome, np.zeros(len(row)), beyond)


def _limits(problem: Problem, batch: Batch, which: Indices) -> tuple[Array, Array]:
    """Return the limits (m,) of outcomes that were not recorded, in internal units."""
    between = batch.rows.between
    low, high = np.full((2, len(which)), np.nan) if between is None else between[which].T
    low, high = problem.units.limits(low), problem.units.limits(high)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _integrated(
    problem: Problem, batch: Batch, which: Indices, candidates: Mask, silent: Silent
) -> Atoms:
    """Make atoms over the range of outcomes that were not recorded."""
    units = problem.units
    beyond = silent.open_ended & _narrower_is_other(candidates, silent)
    over = candidates ^ beyond[:, None]
    parts = []
    for j in range(over.shape[1]):
        mine = np.flatnonzero(over[:, j])
        if len(mine):
            row, outcome, log_weight = nodes_of(silent, j, mine)
            parts.append((row, np.full(len(row), j), outcome, log_weight))
    row, chosen, outcome, log_weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    outcome = outcome * units.outcome_unit + units.outcome_shift
    return _joined(
        problem, batch, which, row[order], chosen[order], outcome[order], log_weight[order], beyond
    )


def _narrower_is_other(candidates: Mask, silent: Silent) -> Mask:
    """Say in which rows (m,) the other of two alternatives is narrower than the chosen one."""
    factors = factors_of(silent.problem.ordered_rule, candidates.shape[1])
    if candidates.shape[1] != 2 or factors is None:
        return np.zeros(len(candidates), dtype=bool)
    spread, available = silent.spread * np.abs(factors), silent.known.available
    narrower = (candidates[:, 0] & (spread[:, 1] < spread[:, 0])) | (
        candidates[:, 1] & (spread[:, 0] < spread[:, 1])
    )
    recorded = candidates.sum(axis=1) == 1
    both = np.ones_like(recorded) if available is None else available.all(axis=1)
    return np.asarray(narrower & recorded & both)


def _joined(
    problem: Problem,
    batch: Batch,
    which: Indices,
    row: Indices,
    chosen: Indices,
    outcome: Array,
    log_weight: Array,
    beyond: Mask,
) -> Atoms:
    """Ask the rule what explains each atom; in rows of `beyond` (m,) what does not."""
    rule: Any = problem.ordered_rule
    k = problem.equations.n_alternatives
    known = batch.rows.known.take(which[row])
    lower, upper = (
        np.broadcast_to(one, (len(row), k)) for one in rule.bounds(chosen, outcome, known)
    )
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise UnsupportedError(
            "Outcomes that were not recorded are integrated over the whole line, where the "
            f"transforms of {type(problem.rule).__name__} are not all defined. Leave those rows "
            "out, or use transforms that are defined everywhere."
        )
    below, above = upper < np.inf, lower > -np.inf
    each = np.arange(len(row))
    # A transform may reach so few values that no outcome of an alternative loses against the point.
    empty = np.isneginf(upper) | np.isposinf(lower)
    empty[each, chosen] = False
    side = below.astype(np.int8) - above.astype(np.int8)
    side[empty] = 0
    both = below & above
    both[each, chosen] = False
    if known.available is not None:
        side[~known.available], empty[~known.available] = 0, False
        both &= known.available
    if both.any():
        raise UnsupportedError(
            f"{type(problem.rule).__name__} bounds outcomes on both sides, which is possible only "
            "where outcome and choice are recorded in every row."
        )
    never = empty.any(axis=1)
    limit = np.where(below, upper, lower)
    limit[each, chosen] = outcome
    limit = problem.units.limits(np.where(np.isfinite(limit), limit, 0.0))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    member = chosen
    if beyond.any():
        turned = beyond[row]
        side = np.where(turned[:, None], -side, side)
        member = np.where(turned, 1 - chosen, chosen)
        # What no outcome of the other is beyond does not come about; what every one is, does.
        never = np.where(turned, ~side.any(axis=1) & ~never, never)
    log_weight = np.where(never, -np.inf, log_weight)
    return Atoms(which, first, row, chosen, member, side, limit, log_weight)

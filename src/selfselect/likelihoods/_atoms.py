r"""Rows as sums of atoms: all the ways in which what was recorded may have come about.

An atom is a chosen alternative and its outcome. A row whose choice and outcome were both recorded
is one atom. Where the choice was not recorded there is one for each that may be the chosen one;
where the outcome was not, it is integrated over: the likelihood

.. math:: \sum_j \int f_j(y) \, P(\text{others explain it} \mid y)\,dy

becomes a sum over points y with weights. Nodes are placed where the density is at the parameters
in hand and then held: derivatives are taken under the integral. Of two alternatives the narrower
outcome is integrated over, with the other beyond it where that was chosen: points that are fine
enough for the narrower one and reach as far as the wider would be very many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.kernels.status import ABOVE, BELOW, OBSERVED
from selfselect.noises.shapes import Grid, Shape
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules.base import RowData

__all__ = ["Atoms", "atoms_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Sides = NDArray[np.int8]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


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
    narrowest: Array,
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
    narrowest : (n,) or (1,) the distance over which the narrowest factor of an integrand changes.
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
                    shapes,
                    mean[part],
                    np.broadcast_to(spread, mean.shape)[part],
                    np.broadcast_to(narrowest, len(mean))[part],
                )
            )
    return groups


def _plain(problem: Problem, batch: Batch, which: Indices) -> Atoms:
    observation = batch.observation if len(which) == len(batch) else batch.observation.take(which)
    status, k = observation.status, problem.equations.n_alternatives
    side = np.zeros(status.shape, dtype=np.int8)
    side[status == BELOW] = 1
    side[status == ABOVE] = -1
    limit = problem.units.limits(np.broadcast_to(observation.limit, (len(which), k)))
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


def _integrated(
    problem: Problem,
    batch: Batch,
    which: Indices,
    candidates: Mask,
    shapes: Sequence[Shape],
    mean: Array,
    spread: Array,
    narrowest: Array,
) -> Atoms:
    """Make atoms over the range of outcomes that were not recorded."""
    between = batch.rows.between
    units = problem.units
    low = np.full(len(which), -np.inf)
    high = np.full(len(which), np.inf)
    if between is not None:
        low, high = units.limits(between[which, 0]), units.limits(between[which, 1])
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    open_ended = np.isneginf(low) & np.isposinf(high)
    beyond = open_ended & _narrower_is_other(candidates, spread, batch.rows.known.take(which))
    over = candidates ^ beyond[:, None]
    parts = []
    for j, shape in enumerate(shapes):
        out = np.maximum(low - mean[:, j], mean[:, j] - high) / spread[:, j]
        far = ~open_ended & (out > shape.grid.far)
        kinds = [(open_ended, _trapezoids), (~open_ended & ~far, _panels), (far, _tails)]
        if shape.grid.stretched:
            kinds = [(np.ones_like(far), _stretched)]
        for of_kind, make in kinds:
            mine = np.flatnonzero(over[:, j] & of_kind)
            if len(mine):
                outcome, log_weight = make(
                    shape, mean[mine, j], spread[mine, j], narrowest[mine], low[mine], high[mine]
                )
                n_nodes = outcome.shape[1]
                parts.append(
                    (
                        np.repeat(mine, n_nodes),
                        np.full(outcome.size, j),
                        outcome.ravel(),
                        log_weight.ravel(),
                    )
                )
    row, chosen, outcome, log_weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    outcome = outcome * units.outcome_unit + units.outcome_shift
    return _joined(
        problem, batch, which, row[order], chosen[order], outcome[order], log_weight[order], beyond
    )


def _narrower_is_other(candidates: Mask, spread: Array, known: RowData) -> Mask:
    """Say in which rows (m,) the other of two alternatives is narrower than the chosen one."""
    if candidates.shape[1] != 2:
        return np.zeros(len(candidates), dtype=bool)
    narrower = (candidates[:, 0] & (spread[:, 1] < spread[:, 0])) | (
        candidates[:, 1] & (spread[:, 0] < spread[:, 1])
    )
    recorded = candidates.sum(axis=1) == 1
    both = np.ones_like(recorded) if known.available is None else known.available.all(axis=1)
    return np.asarray(narrower & recorded & both)


def _trapezoids(
    shape: Shape, mean: Array, spread: Array, narrowest: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return equidistant points (n, nodes) around the mean, and logarithms of their weights."""
    del low, high
    grid = shape.grid
    steepest = float((spread / narrowest).max())
    n_nodes = int(np.ceil(2.0 * grid.reach * steepest / grid.step)) + 1
    at, step = np.linspace(-grid.reach, grid.reach, min(n_nodes, grid.most), retstep=True)
    outcome = mean[:, None] + spread[:, None] * at
    return outcome, np.repeat(np.log(step * spread)[:, None], len(at), axis=1)


def _panels(
    shape: Shape, mean: Array, spread: Array, narrowest: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return Gauss-Legendre points between limits, as far as there is any density."""
    grid = shape.grid
    start = np.maximum(low, mean - grid.reach * spread)
    width = np.minimum(high, mean + grid.reach * spread) - start
    share, weight = _shares(float((width / narrowest).max()) / grid.panel, grid)
    with np.errstate(divide="ignore"):
        return start[:, None] + width[:, None] * share, np.log(width[:, None] * weight)


def _tails(
    shape: Shape, mean: Array, spread: Array, narrowest: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return points dense at the nearer limit, as far as the tail reaches."""
    upper = low > mean
    limit = np.where(upper, low, high)
    width = spread * shape.tail_reach((limit - mean) / spread)
    width = np.minimum(width, high - low)
    panels = 2.0 * float((width / narrowest).max()) / shape.grid.panel
    share, weight = _shares(max(panels, 4.0), shape.grid)
    away = width[:, None] * share**2
    outcome = limit[:, None] + np.where(upper, 1.0, -1.0)[:, None] * away
    return outcome, np.log(width[:, None] * weight * 2.0 * share)


def _stretched(
    shape: Shape, mean: Array, spread: Array, narrowest: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return Gauss-Legendre points in u, of outcomes that are sinh(u) spreads from the mean."""
    grid = shape.grid
    ends = [
        np.arcsinh(np.clip((end - mean) / spread, -grid.reach, grid.reach)) for end in (low, high)
    ]
    width = ends[1] - ends[0]
    share, weight = _shares(float((width * spread / narrowest).max()) / grid.panel, grid)
    u = ends[0][:, None] + width[:, None] * share
    with np.errstate(divide="ignore"):
        outcome = mean[:, None] + spread[:, None] * np.sinh(u)
        return outcome, np.log(np.cosh(u) * (spread * width)[:, None] * weight)


def _shares(panels: float, grid: Grid) -> tuple[Array, Array]:
    """Return Gauss-Legendre points and weights of panels that share the interval [0, 1]."""
    n_panels = int(np.clip(np.ceil(panels), 1, grid.most // len(NODES)))
    edges = np.linspace(0.0, 1.0, n_panels + 1)
    share = (edges[:-1, None] + (0.5 / n_panels) * (1.0 + NODES)).ravel()
    return share, np.tile(0.5 * WEIGHTS / n_panels, n_panels)


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
    side = below.astype(np.int8) - above.astype(np.int8)
    if known.available is not None:
        side[~known.available] = 0
    limit = np.where(below, upper, lower)
    each = np.arange(len(row))
    limit[each, chosen] = outcome
    limit = problem.units.limits(np.where(np.isfinite(limit), limit, 0.0))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    member = chosen
    if beyond.any():
        turned = beyond[row]
        side = np.where(turned[:, None], -side, side)
        member = np.where(turned, 1 - chosen, chosen)
        # What no outcome of the other is beyond does not come about.
        log_weight = np.where(turned & ~side.any(axis=1), -np.inf, log_weight)
    return Atoms(which, first, row, chosen, member, side, limit, log_weight)

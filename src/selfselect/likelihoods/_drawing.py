"""Outcomes drawn from a model for rows, recorded as those of the rows were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.problem.problem import Problem

__all__ = [
    "draw_rows",
    "draw_selected",
    "latent_outcomes",
    "recording_obstacles",
    "selection_limits",
    "why_not_recorded_alike",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def latent_outcomes(problem: Problem, natural: Array, rows: Rows, noise: Array) -> Array:
    """Return all outcomes (n, k) of rows, from noise (n, k) in units of each row's own scales."""
    units, h = problem.units, natural[problem.layout.inverse_scale_positions]
    means = problem.locations(natural, problem.designs(rows)) / h
    noisy = means + noise / problem.inverse_scales(natural, rows)
    return np.asarray(units.outcome_shift + units.outcome_unit * noisy)


def draw_rows(
    problem: Problem, rows: Rows, latent: Array, costs: Array | float, rng: Generator
) -> Rows:
    """Return rows with the outcomes (n, k) of a draw, of which the rule says which are observed.

    Parameters
    ----------
    problem, rows : the model, and the rows as they were recorded.
    latent : (n, k) all outcomes.
    costs : (n, k) estimated costs, to be taken off before outcomes are compared.
    rng : decides what goes unrecorded.
    """
    chosen = problem.ordered_rule.choose(latent - costs, rows.known)
    outcome = latent[np.arange(len(rows)), chosen]
    if problem.partial:
        return _recorded_alike(rows, outcome, chosen, rng)
    return replace(rows, outcome=outcome, chosen=None if problem.index == "unknown" else chosen)


def selection_limits(problem: Problem, natural: Array, rows: Rows) -> tuple[Array, Array]:
    """Return between which values (n, k) of its noise the selection selects each alternative."""
    selection, layout = problem.equations.selection, problem.layout
    assert selection is not None
    gamma = natural[layout.n_natural - len(selection.columns) :]
    z = problem.units.design(rows.covariates, selection.columns[: selection.n_slopes])
    index = z @ gamma[: selection.n_slopes]
    # Without cut points of its own an index selects by its sign.
    cuts = gamma[selection.n_slopes :] if selection.n_cuts else np.zeros(1)
    shape = (len(rows), problem.equations.n_alternatives)
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    for j, ends in enumerate(problem.ordered_rule.intervals(problem.equations.alternatives)):
        for limit, cut in zip((lower, upper), ends, strict=True):
            if cut is not None:
                limit[:, j] = -(index + cuts[cut])
    return lower, upper


def draw_selected(rows: Rows, latent: Array, chosen: Indices, rng: Generator) -> Rows:
    """Return rows with the outcomes that were selected, of which as many go unrecorded as did.

    `chosen` is -1 where a selection equation selects none.
    """
    assert rows.outcome is not None and rows.chosen is not None
    lost = chosen < 0
    silent = np.isnan(rows.outcome) & (rows.chosen >= 0)
    if silent.any():
        lost |= _lost(rows.chosen, silent, chosen, rng)
    outcome = np.where(lost, np.nan, latent[np.arange(len(rows)), chosen])
    return replace(rows, outcome=outcome, chosen=chosen)


def recording_obstacles(rows: Rows) -> Array:
    """Count rows of which not everything says what of a draw would go unrecorded.

    Those without a choice that some alternatives cannot be; those without limits that are
    recorded; those with limits that are not; those that are recorded within their limits.
    """
    found = np.zeros(4)
    if rows.possible is not None:
        open_to = (
            rows.possible
            if rows.known.available is None
            else (rows.possible | ~rows.known.available)
        )
        lost = np.ones(len(rows), dtype=bool) if rows.chosen is None else rows.chosen < 0
        found[0] = (lost & ~open_to.all(axis=1)).sum()
    if rows.between is None:
        return found
    assert rows.outcome is not None
    recorded = ~np.isnan(rows.outcome)
    limited = ~np.isnan(rows.between).all(axis=1)
    inside = _inside(rows, rows.outcome) & recorded & limited
    found[1:] = (~limited & recorded).sum(), (limited & ~recorded).sum(), inside.sum()
    return found


def why_not_recorded_alike(obstacles: Array) -> str | None:
    """Say why draws could not go unrecorded as rows did; None where they can."""
    excluded, without_limits, limited, inside = obstacles
    if excluded:
        return (
            "some rows restrict which alternatives may have been chosen, and simulated rows "
            "cannot reproduce that"
        )
    if without_limits and limited:
        return "limits are known only in rows without an outcome, so simulated rows have none"
    if inside:
        return (
            "some recorded outcomes lie within their limits, so limits do not determine which "
            "are missing"
        )
    return None


def _inside(rows: Rows, outcome: Array) -> Mask:
    """Say which outcomes lie within the limits of their rows."""
    assert rows.between is not None
    low, high = np.nan_to_num(rows.between[:, 0], nan=-np.inf), rows.between[:, 1]
    return (low < outcome) & (outcome < np.nan_to_num(high, nan=np.inf, posinf=np.inf))


def _lost(recorded: Indices, silent: Mask, chosen: Indices, rng: Generator) -> Mask:
    """Say which outcomes go unrecorded: silent ones, or as often as those of the same choice.

    Rows whose choice is drawn again as it was `recorded` are silent where they were.
    """
    known = recorded >= 0
    k = max(int(recorded.max()), int(chosen.max())) + 1
    counts = np.bincount(recorded[known], minlength=k)
    share = np.bincount(recorded[known], silent[known], minlength=k) / np.maximum(counts, 1)
    drawn = rng.uniform(size=len(chosen)) < share[chosen]
    return np.where(chosen == recorded, silent, drawn)


def _recorded_alike(rows: Rows, outcome: Array, chosen: Indices, rng: Generator) -> Rows:
    """Leave unrecorded what the rows lack: by their limits, else as often as where it was chosen.

    A row whose choice is drawn again as it was recorded lacks its outcome where it did.
    """
    assert rows.outcome is not None
    silent = np.isnan(rows.outcome)
    if rows.between is not None:
        limited = ~np.isnan(rows.between).all(axis=1)
        lost = np.where(limited, _inside(rows, outcome), silent)
    elif rows.chosen is None:
        lost = silent
    else:
        lost = np.where(rows.chosen >= 0, _lost(rows.chosen, silent, chosen, rng), silent)
    return replace(
        rows,
        outcome=np.where(lost, np.nan, outcome),
        chosen=None if rows.chosen is None else np.where(rows.chosen < 0, -1, chosen),
        # Of a choice that is drawn anew, what was possible is known only where all was.
        possible=None if rows.possible is None else np.ones_like(rows.possible),
    )

"""Degenerate optima of the unknown index: an equation through single rows, its scale at zero."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods import Batch, row_terms, sum_chances
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers.status import Ending, Status

__all__ = [
    "Degeneracy",
    "collapsed",
    "expected_counts",
    "find_collapse",
    "find_degeneracy",
    "thin_at",
    "thin_equation",
]

Array = NDArray[np.float64]

ROWS_PER_PARAMETER, CHANCE_ROWS_PER_PARAMETER = 2.0, 5.0
"""Rows per parameter below which an equation has collapsed, and below which it may be chance."""

AT_FLOOR = 1.001
"""A scale within this factor of the floor has run into it."""


SHRUNK = 1e5
"""Times by which a scale that moves is smaller than at the centre, in rows where it collapsed."""


@dataclass(frozen=True)
class Degeneracy:
    """An equation that explains too few rows to be one.

    Attributes
    ----------
    sentence : which alternative collapsed onto which row.
    unbounded : whether its scale ran into the floor: without it the likelihood has no bound.
    """

    sentence: str
    unbounded: bool


def find_degeneracy(
    space: SearchSpace, engine: Engine, coordinates: Array, *, part: Engine | None = None
) -> Degeneracy | None:
    """Say which alternative collapsed onto which row, or None where none did.

    An alternative has collapsed where its scale ran into the floor, or where it is expected to
    have been chosen in fewer than two rows per parameter: any plane fits so few. Where that many
    are in a `part` of the rows already, no pass over all is needed.
    """
    problem, layout = space.problem, space.problem.layout
    natural = space.natural(coordinates)
    if not np.isfinite(natural).all():
        return Degeneracy("the search ran off to infinity.", True)
    expected = np.full(len(layout.sizes), np.inf)
    if problem.index == "unknown":
        expected = _expected_rows(problem, engine, natural, ROWS_PER_PARAMETER, part)
    scales = 1.0 / natural[layout.inverse_scale_positions]
    for j, equation in enumerate(problem.equations.each):
        floored = space.free_scales > 1 and scales[j] <= AT_FLOOR * space.floor
        empty = expected[j] < ROWS_PER_PARAMETER * (problem.equations.own_terms[j] + 1)
        if floored or empty:
            row = int(np.argmax(engine.collect(partial(_pull, problem, natural, j))))
            what = "its scale fell to the floor" if floored else "hardly any row is its own"
            return Degeneracy(
                f"alternative {equation.alternative!r} collapsed ({what}); the row that drew it "
                f"most is row {row} of the searched ones.",
                floored,
            )
    return None


def thin_equation(
    space: SearchSpace, engine: Engine, coordinates: Array, *, part: Engine | None = None
) -> str | None:
    """Say which alternative with a scale of its own rests on so few rows that it may be chance.

    A handful of rows that happen to lie close to a plane makes an optimum too, of a small scale.
    `part` is as for `find_degeneracy`.
    """
    return thin_at(space.problem, engine, space.natural(coordinates), part=part)


def thin_at(
    problem: Problem, engine: Engine, natural: Array, *, part: Engine | None = None
) -> str | None:
    """Say the same of natural parameters."""
    if problem.index == "known" or not _own_scales(problem):
        return None
    rows = _expected_rows(problem, engine, natural, CHANCE_ROWS_PER_PARAMETER, part)
    parameters = np.array(problem.equations.own_terms) + 1
    thinnest = int(np.argmin(rows / parameters))
    if rows[thinnest] >= CHANCE_ROWS_PER_PARAMETER * parameters[thinnest]:
        return None
    label = problem.equations.each[thinnest].alternative
    alike = "noise=Independent(scale='common')" if problem.noise.gaussian else "scale='common'"
    return (
        f"Alternative {label!r} rests on {rows[thinnest]:.0f} rows, for {parameters[thinnest]} "
        "parameters: with a scale of its own it may be no more than rows that happen to lie close "
        f"to a plane. Compare with {alike}."
    )


def _own_scales(problem: Problem) -> bool:
    """Say whether every alternative has a scale of its own that is estimated."""
    layout = problem.layout
    return layout.scales is None and not layout.common and len(layout.sizes) > 1


def find_collapse(problem: Problem, engine: Engine, free: Array) -> Ending | None:
    """Return an ending that names an alternative whose scale fell to zero in some rows, or None.

    So it may end where scales move with covariates: an equation passes through a handful of rows,
    and nothing bounds the likelihood as their scale shrinks. Where the choice was not recorded, an
    alternative may rest on too few rows as a whole.
    """
    layout = problem.layout
    if not layout.spreads:
        return None
    shrunk = engine.sum(partial(_count_shrunk, problem, layout.natural(free)))
    if shrunk.any():
        label = problem.equations.alternatives[int(shrunk.argmax())]
        sentence = (
            f"The scale of {label!r} collapsed: of the rows in which it was chosen, "
            f"{shrunk.max():.0f} have a scale below 1/{SHRUNK:,.0f} of that at the centre of all, "
            "and its equation passes through their outcomes. The likelihood has no bound there. "
            "Leave terms out of its log scale, or merge categories that have few rows."
        )
        return Ending(Status.STOPPED, {"sentence": sentence})
    reason = collapsed(problem, engine, layout.natural(free))
    return None if reason is None else Ending(Status.STOPPED, {"sentence": reason})


def collapsed(problem: Problem, engine: Engine, natural: Array) -> str | None:
    """Say which alternative has fewer rows of its own than any plane fits; None where none has.

    Only where the choice was not recorded can it come to that.
    """
    layout = problem.layout
    if problem.index == "known":
        return None
    rows = expected_counts(problem, engine, natural) * engine.n_rows / engine.weight_total
    moving = [0 if one is None else len(one.places) for one in layout.spread_of]
    parameters = np.array(problem.equations.own_terms) + 1 + moving
    thinnest = int(np.argmin(rows / parameters))
    if rows[thinnest] >= ROWS_PER_PARAMETER * parameters[thinnest]:
        return None
    label = problem.equations.each[thinnest].alternative
    fewer = "scales that move with fewer covariates, or " if layout.spreads else ""
    return (
        f"Alternative {label!r} collapsed: {rows[thinnest]:.1f} rows are its own, for "
        f"{parameters[thinnest]} parameters. Use {fewer}scale='common'."
    )


def _count_shrunk(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Count the rows (k,) of each alternative in which its scale is next to nothing."""
    log_factors = problem.log_factors(natural, problem.spread_designs(batch.rows))
    assert log_factors is not None
    if batch.rows.chosen is None:
        mine = row_terms(problem, natural, batch).chance > 0.5
    else:
        mine = batch.rows.chosen[:, None] == np.arange(log_factors.shape[1])
    if batch.rows.weights is not None:
        mine &= (batch.rows.weights > 0)[:, None]
    return np.asarray((mine & (log_factors > np.log(SHRUNK))).sum(axis=0), dtype=float)


def expected_counts(problem: Problem, engine: Engine, natural: Array) -> Array:
    """Return the weight (k,) of the rows in which each alternative is expected to be chosen."""
    return engine.sum(partial(sum_chances, problem, natural))


def _expected_rows(
    problem: Problem, engine: Engine, natural: Array, per_parameter: float, part: Engine | None
) -> Array:
    """Return in how many rows (k,) each alternative is expected to have been chosen.

    They are those of a part where it has `per_parameter` of them already: all have no fewer.
    """
    wanted = per_parameter * (np.array(problem.equations.own_terms) + 1)
    # Weights may be of any size: rows are counted in units of the mean one.
    unit = engine.n_rows / engine.weight_total
    if part is not None and part.n_rows < engine.n_rows:
        rows = unit * expected_counts(problem, part, natural)
        if (rows >= wanted).all():
            return rows
    return unit * expected_counts(problem, engine, natural)


def _pull(problem: Problem, natural: Array, alternative: int, batch: Batch) -> Array:
    """Return how strongly each row speaks for an alternative: membership times closeness."""
    counts = True if batch.rows.weights is None else batch.rows.weights > 0
    rows = row_terms(problem, natural, batch)
    with np.errstate(divide="ignore"):
        chance = np.log(rows.chance[:, alternative])
    return np.where(counts, chance - 0.5 * rows.standardised[:, alternative] ** 2, -np.inf)

"""Starts of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.likelihoods import Batch
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.problem.units import by_columns
from selfselect.solvers._search import Place, SearchSpace, find_subspace
from selfselect.solvers._start import any_deficient, gram_matrices
from selfselect.solvers.paper.base import MomentMethod
from selfselect.solvers.paper.moment_methods import TwoModels

Array = NDArray[np.float64]


# Where a search starts: moments, random cells of the covariates, random places, annealing.


ANNEALING = (2.0, 1.0, 0.5, 0.25)
"""Scales of the annealed starts, in units of the least-squares residuals' spread."""

STIR = 0.1
"""Size of the perturbation between stages, in the same units: equal equations are a saddle."""

LOG_SCATTER = (np.log(0.7), np.log(2.8))
"""Logarithms of the least and the largest scatter of random starts, in the same units."""

RIDGE = 1.0
"""Rows' worth of a penalty on least squares in a cell: what its rows do not determine is flat."""

STAGE_STEPS = 15
SUBSPACE_STEPS = 150

Streams = Sequence[Generator]
"""A random stream for each start."""

Start = Callable[[SearchSpace, Engine, Streams], list[Place]]
"""Makes as many starts as there are streams."""


def _scattered(space: SearchSpace, rng: Generator, size: float) -> list[Array]:
    """Scatter all equations around least squares, centred so that their mean stays there."""
    moves = [rng.standard_normal(len(w)) / np.sqrt(len(w)) for w in space.naive]
    if len(moves) > 1 and len({len(move) for move in moves}) == 1:
        centre = np.mean(moves, axis=0)
        moves = [move - centre for move in moves]
    return [w + size * space.spread * move for w, move in zip(space.naive, moves, strict=True)]


def _as_place(coordinates: Array) -> Place:
    return Place(coordinates, -np.inf, 0)


def random_start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
    """Start from equations scattered at random around least squares, near to it or far."""
    del engine
    scale = 0.7 * space.spread
    return [
        _as_place(space.join(_scattered(space, rng, np.exp(rng.uniform(*LOG_SCATTER))), scale))
        for rng in rngs
    ]


def cells_start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
    """Start from least squares of each alternative on a random cell of the covariates.

    Cells are those in which each of k random linear functions of the covariates is largest: for two
    alternatives the sides of a random hyperplane. Where one equation is best is such a cell.
    """
    equations = space.problem.equations
    directions = []
    for rng in rngs:
        own = int(rng.integers(equations.n_alternatives))
        size = (len(equations.each[own].columns), equations.n_alternatives)
        directions.append((own, rng.standard_normal(size)))
    sums = engine.sum(partial(_cell_grams, space, directions))
    k, ridge = equations.n_alternatives, RIDGE * space.weight / engine.n_rows
    return [
        _as_place(space.join(_solved(space, list(sums[at : at + k]), ridge), 0.7 * space.spread))
        for at in range(0, len(sums), k)
    ]


def _cell_grams(space: SearchSpace, directions: list[tuple[int, Array]], batch: Batch) -> Parts:
    """Return for each start and alternative the Gram matrix of [covariates, outcome] of its cell.

    A start's cells come from random directions (p, k) in the whitened covariates of one equation.
    """
    problem, rows = space.problem, batch.rows
    assert rows.outcome is not None
    outcome = problem.units.limits(rows.outcome)

    def join(columns: tuple[int, ...]) -> Array:
        return np.column_stack([problem.units.design(rows.covariates, columns), outcome])

    joined = by_columns(problem.equations, join)
    parts = []
    for own, direction in directions:
        turned: Any = direction
        if problem.layout.ties is None:
            turned = np.asarray(np.linalg.solve(space.roots[own].T, direction), dtype=float)
        cell = (joined[own][:, :-1] @ turned).argmax(axis=1)
        for j, both in enumerate(joined):
            inside = np.flatnonzero(cell == j)
            mine = both[inside]
            weighted = mine if rows.weights is None else mine * rows.weights[inside, None]
            parts.append(mine.T @ weighted)
    return Parts(parts)


def _solved(space: SearchSpace, grams: list[Array], ridge: float) -> list[Array]:
    """Return least squares in search coordinates, with a penalty on their squares."""
    ties = space.problem.layout.ties
    pairs = (
        [(gram[:-1, :-1], gram[:-1, -1]) for gram in grams]
        if ties is None
        else [ties.gather_grams(grams)]
    )
    solved = []
    for root, (gram, towards) in zip(space.roots, pairs, strict=True):
        half = np.linalg.solve(root, gram)
        white = np.linalg.solve(root, half.T) + ridge * np.eye(len(root))
        solved.append(np.linalg.solve(white, np.linalg.solve(root, towards)))
    return solved


def annealed_start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
    """Start from almost equal equations under large noise, and let the noise shrink in stages."""
    begun = [space.join(_scattered(space, rng, 0.3), 0.25 * space.spread) for rng in rngs]
    coordinates, n_evaluations = np.array(begun), np.zeros(len(begun), dtype=int)
    for factor in ANNEALING:
        held = space.climb(engine, coordinates, max_steps=STAGE_STEPS, scale=factor * space.spread)
        coordinates = np.array([place.coordinates for place in held])
        n_evaluations += [place.n_evaluations for place in held]
        for place, rng in zip(coordinates, rngs, strict=True):
            stir = rng.standard_normal(space.n_coefficients) / np.sqrt(len(space.naive[0]))
            place[: space.n_coefficients] += STIR * factor * space.spread * stir
    return [
        Place(place, -np.inf, int(count))
        for place, count in zip(coordinates, n_evaluations, strict=True)
    ]


def subspace_start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
    """Start from a search within the few directions in which equations can differ.

    For Gaussian covariates all coefficients lie in least squares plus a subspace of k - 1
    dimensions (see `find_subspace`). Elsewhere the subspace is only a guess, like any start.
    """
    n_alternatives = len(space.roots)
    directions = find_subspace(space, engine, "residual").directions[:, : n_alternatives - 1]
    starts = []
    for rng in rngs:
        simplex = rng.standard_normal((n_alternatives, directions.shape[1]))
        simplex -= simplex.mean(axis=0)
        coefficients = [
            w + space.spread * directions @ corner
            for w, corner in zip(space.naive, simplex, strict=True)
        ]
        starts.append(space.join(coefficients, 0.7 * space.spread))
    within = _stacked(space, directions)
    return space.climb(engine, np.array(starts), max_steps=SUBSPACE_STEPS, within=within)


def _stacked(space: SearchSpace, directions: Array) -> Array:
    """Return the basis that moves every alternative within `directions`, constant and scales."""
    size = len(space.naive[0])
    constant = np.linalg.solve(space.roots[0], _constant_column(space, size))
    own = np.column_stack([directions, constant]) if constant.any() else directions
    total = space.n_coefficients + space.free_scales
    n_alternatives = len(space.roots)
    basis = np.zeros((total, n_alternatives * own.shape[1] + space.free_scales))
    for j in range(n_alternatives):
        basis[j * size : (j + 1) * size, j * own.shape[1] : (j + 1) * own.shape[1]] = own
    scales = np.arange(space.free_scales)
    basis[space.n_coefficients + scales, n_alternatives * own.shape[1] + scales] = 1.0
    return basis


def _constant_column(space: SearchSpace, size: int) -> Array:
    """Return X'1/n of the first equation: the direction of a constant before whitening."""
    equation = space.problem.equations.each[0]
    if not equation.has_intercept:
        return np.zeros(size)
    root = space.roots[0]
    return (root @ root.T)[:, equation.columns.index(0)]


@dataclass(frozen=True)
class Recipe:
    """A named way to start, and whether it needs the same covariates in every equation."""

    name: str
    start: Start
    same_covariates: bool = False


def own_rows_start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
    """Start from least squares of each alternative on the rows where it was chosen, perturbed."""
    grams = list(engine.sum(partial(_own_grams, space)))
    solved = _solved(space, grams, RIDGE * space.weight / engine.n_rows)
    return [
        _as_place(
            space.join(
                [
                    w + STIR * space.spread * rng.standard_normal(len(w)) / np.sqrt(len(w))
                    for w in solved
                ],
                0.7 * space.spread,
            )
        )
        for rng in rngs
    ]


def _own_grams(space: SearchSpace, batch: Batch) -> Parts:
    problem, rows = space.problem, batch.rows
    assert rows.outcome is not None and rows.chosen is not None
    weights = np.ones(len(batch)) if rows.weights is None else rows.weights
    outcome = problem.units.limits(rows.outcome)
    parts = []
    for j, equation in enumerate(problem.equations.each):
        own = rows.chosen == j
        design = problem.units.design(rows.covariates[own], equation.columns)
        joined = np.column_stack([design, outcome[own]])
        parts.append(joined.T @ (joined * weights[own, None]))
    return Parts(parts)


def moment_start(method: MomentMethod) -> Start:
    """Return a start at what a moment method estimates."""

    def start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
        return [_as_place(method.coordinates(space, engine, rng)) for rng in rngs]

    return start


CYCLE = (
    Recipe("subspace", subspace_start, same_covariates=True),
    Recipe("annealed", annealed_start),
    Recipe("cells", cells_start),
    Recipe("random", random_start),
)
"""One cycle of starts. With few rows of real data each finds optima that the others hardly do."""


def given_start(problem: Problem, coefficients: Sequence[Sequence[float]]) -> Start:
    """Return a start at coefficients in the user's units; those that are shared are averaged."""
    layout, equations = problem.layout, problem.equations.each
    wanted = tuple(len(equation.estimated) for equation in equations)
    if tuple(map(len, coefficients)) != wanted:
        raise OptionError(
            f"start= has lists of {', '.join(str(len(one)) for one in coefficients)} coefficients; "
            f"the equations have {', '.join(map(str, wanted))}, the intercept first where there is "
            "one, and none for an offset."
        )
    each = [
        np.append(given, [1.0] * equation.has_offset)
        for given, equation in zip(coefficients, equations, strict=True)
    ]

    def start(space: SearchSpace, engine: Engine, rngs: Streams) -> list[Place]:
        del engine
        scales = np.full(len(each), 0.7 * space.spread * problem.units.outcome_unit)
        return [_as_place(space.locate(layout.collect(each, scales))) for _ in rngs]

    return start


def recipes_for(
    problem: Problem, n_starts: int, given: Any = None, *, all_open: bool = True
) -> list[Recipe]:
    """Return the recipes of `n_starts` starts, a given moment method's or coefficients first.

    `all_open` says whether every alternative is available in every row.
    """
    same = len({equation.columns for equation in problem.equations.each}) == 1
    same &= not problem.equations.restricted
    moments = same and problem.index == "unknown"
    cycle = [recipe for recipe in CYCLE if moments or not recipe.same_covariates]
    if problem.index == "known" and not problem.equations.restricted:
        cycle = [Recipe("own rows", own_rows_start), *cycle]
    recipes = [cycle[i % len(cycle)] for i in range(n_starts)]
    constants = any(equation.has_intercept for equation in problem.equations.each)
    if given is not None and not isinstance(given, MomentMethod):
        recipes[0] = Recipe("given", given_start(problem, given))
    elif given is not None:
        recipes[0] = Recipe(type(given).__name__, moment_start(given))
    elif moments and all_open and problem.equations.n_alternatives == 2 and not constants:
        recipes[0] = Recipe("closed form", moment_start(TwoModels()), same_covariates=True)
    return recipes


# Random equations under independent normal noise, from which other noise may begin.


FLOOR = 0.01
"""Smallest scale, as a fraction of the least-squares residuals'; no start is near to it."""


def random_places(problem: Problem, part: Engine, rng: Generator, count: int) -> list[Array]:
    """Return the natural parameters of equations scattered at random around least squares."""
    grams = gram_matrices(problem, part)
    if not count or any_deficient(problem, grams):
        return []
    space = SearchSpace.build(problem, grams, weight=part.weight_total, floor=FLOOR)
    seeds = SeedSequence(int(rng.integers(2**63))).spawn(count)
    starts = random_start(space, part, [np.random.default_rng(seed) for seed in seeds])
    return [space.natural(start.coordinates) for start in starts]

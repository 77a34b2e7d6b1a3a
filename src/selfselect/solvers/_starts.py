"""Where the search for an unknown index starts: moments, random simplices, annealing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import OptionError
from selfselect.problem.evaluation import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._moment_method import MomentMethod
from selfselect.solvers._search import Place, SearchSpace
from selfselect.solvers._subspace import find_subspace
from selfselect.solvers.two_models import TwoModels

__all__ = ["Recipe", "Start", "recipes_for"]

Array = NDArray[np.float64]

ANNEALING = (2.0, 1.0, 0.5, 0.25)
"""Scales of the annealed starts, in units of the least-squares residuals' spread."""

STIR = 0.1
"""Size of the perturbation between stages, in the same units: equal equations are a saddle."""

STAGE_STEPS = 15
SUBSPACE_STEPS = 150

Start = Callable[[SearchSpace, Engine, Generator], Place]


def _scattered(space: SearchSpace, rng: Generator, size: float) -> list[Array]:
    """Scatter all equations around least squares, centred so that their mean stays there."""
    moves = [rng.standard_normal(len(w)) / np.sqrt(len(w)) for w in space.naive]
    if len(moves) > 1 and len({len(move) for move in moves}) == 1:
        centre = np.mean(moves, axis=0)
        moves = [move - centre for move in moves]
    return [w + size * space.spread * move for w, move in zip(space.naive, moves, strict=True)]


def _as_place(coordinates: Array) -> Place:
    return Place(coordinates, -np.inf, 0)


def random_start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
    """Start from equations scattered at random around least squares."""
    del engine
    return _as_place(space.join(_scattered(space, rng, 1.0), 0.7 * space.spread))


def annealed_start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
    """Start from almost equal equations under large noise, and let the noise shrink in stages."""
    coordinates = space.join(_scattered(space, rng, 0.3), 0.25 * space.spread)
    n_evaluations = 0
    for factor in ANNEALING:
        held = space.climb(engine, coordinates, max_steps=STAGE_STEPS, scale=factor * space.spread)
        n_evaluations += held.n_evaluations
        stir = rng.standard_normal(space.n_coefficients) / np.sqrt(len(space.naive[0]))
        coordinates = held.coordinates.copy()
        coordinates[: space.n_coefficients] += STIR * factor * space.spread * stir
    return Place(coordinates, -np.inf, n_evaluations)


def subspace_start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
    """Start from a search within the few directions in which equations can differ.

    For Gaussian covariates all coefficients lie in least squares plus a subspace of k - 1
    dimensions (see `find_subspace`). Elsewhere the subspace is only a guess, like any start.
    """
    n_alternatives = len(space.roots)
    directions = find_subspace(space, engine, "residual").directions[:, : n_alternatives - 1]
    simplex = rng.standard_normal((n_alternatives, directions.shape[1]))
    simplex -= simplex.mean(axis=0)
    coefficients = [
        w + space.spread * directions @ corner
        for w, corner in zip(space.naive, simplex, strict=True)
    ]
    start = space.join(coefficients, 0.7 * space.spread)
    found = space.climb(engine, start, max_steps=SUBSPACE_STEPS, within=_stacked(space, directions))
    return found


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


def own_rows_start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
    """Start from least squares of each alternative on the rows where it was seen, stirred."""
    sums = engine.sum(partial(_own_grams, space))
    coefficients = []
    for root, gram in zip(space.roots, sums, strict=True):
        solved = np.linalg.lstsq(gram[:-1, :-1], gram[:-1, -1], rcond=1e-10)[0]
        stir = rng.standard_normal(len(solved)) / np.sqrt(len(solved))
        coefficients.append(root.T @ solved + STIR * space.spread * stir)
    return _as_place(space.join(coefficients, 0.7 * space.spread))


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


def closed_form_start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
    """Start from the closed form of two alternatives."""
    return _as_place(TwoModels().coordinates(space, engine, rng))


CYCLE = (
    Recipe("subspace", subspace_start, same_covariates=True),
    Recipe("annealed", annealed_start),
    Recipe("random", random_start),
    Recipe("annealed", annealed_start),
)
"""One cycle of starts: half of them annealed, a quarter from moments, a quarter at random."""


def given_start(problem: Problem, coefficients: Sequence[Sequence[float]]) -> Start:
    """Return a start at coefficients in the user's units."""
    layout = problem.layout
    if tuple(map(len, coefficients)) != layout.sizes:
        wanted = ", ".join(map(str, layout.sizes))
        raise OptionError(
            f"start= has lists of {', '.join(str(len(one)) for one in coefficients)} coefficients; "
            f"the equations have {wanted}, the intercept first where there is one."
        )

    def start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
        del engine, rng
        scale = 0.7 * space.spread * problem.units.outcome_unit
        own_scale = layout.scales is None and not layout.common
        reported = [value for one in coefficients for value in (*one, *[scale] * own_scale)]
        reported += [scale] * layout.common
        return _as_place(space.locate(layout.read(np.array(reported))))

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

        def start(space: SearchSpace, engine: Engine, rng: Generator) -> Place:
            return _as_place(given.coordinates(space, engine, rng))

        recipes[0] = Recipe(type(given).__name__, start)
    elif moments and all_open and problem.equations.n_alternatives == 2 and not constants:
        recipes[0] = Recipe("closed form", closed_form_start, same_covariates=True)
    return recipes

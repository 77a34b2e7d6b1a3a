"""Where the search for an unknown index starts: moments, random simplices, annealing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.evaluation import Batch
from selfselect.problem.problem import Problem
from selfselect.solvers._search import Place, SearchSpace

__all__ = ["STARTS", "Start", "residual_directions"]

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
    if len({len(move) for move in moves}) == 1:
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
    dimensions (see `residual_directions`). Elsewhere the subspace is only a guess, like any start.
    """
    n_alternatives = len(space.roots)
    directions = residual_directions(space, engine)[0][:, : n_alternatives - 1]
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


def residual_directions(space: SearchSpace, engine: Engine) -> tuple[Array, Array]:
    r"""Return the directions in which equations differ, by residual pHd, with their eigenvalues.

    By Stein's identity, for Gaussian covariates whitened to x and residuals e of least squares,
    :math:`E[e (xx' - I)] = \sum_{i<j} q_{ij} (w_i - w_j)(w_i - w_j)'` with positive q under the
    maximum rule and negative under the minimum: its range has dimension k - 1.

    Returns
    -------
    directions : (p, p) orthonormal columns in search coordinates, the strongest first.
    eigenvalues : (p,) theirs, positive where they point the way the rule says.
    """
    total = engine.sum(partial(_residual_moments, space))
    side = space.problem.side
    values, vectors = np.linalg.eigh(side * total)
    return vectors[:, ::-1], values[::-1]


def _residual_moments(space: SearchSpace, batch: Batch) -> Array:
    rows, problem = batch.rows, space.problem
    assert rows.outcome is not None
    equation = problem.equations.each[0]
    design = problem.units.design(rows.covariates, equation.columns)
    white = np.linalg.solve(space.roots[0], design.T).T
    residual = problem.units.limits(rows.outcome) - white @ space.naive[0]
    if rows.weights is not None:
        residual = residual * rows.weights
    # Least squares with a constant leaves residuals of mean zero, so E[e I] vanishes.
    return white.T @ (white * residual[:, None])


@dataclass(frozen=True)
class Recipe:
    """A named way to start, and whether it needs the same covariates in every equation."""

    name: str
    start: Start
    same_covariates: bool = False


RECIPES = (
    Recipe("subspace", subspace_start, same_covariates=True),
    Recipe("annealed", annealed_start),
    Recipe("random", random_start),
    Recipe("annealed", annealed_start),
)
"""One cycle of starts: half of them annealed, a quarter from moments, a quarter at random."""


def recipes_for(problem: Problem, n_starts: int) -> list[Recipe]:
    """Return the recipes of `n_starts` starts."""
    same = len({equation.columns for equation in problem.equations.each}) == 1
    usable = [recipe for recipe in RECIPES if same or not recipe.same_covariates]
    return [usable[i % len(usable)] for i in range(n_starts)]


STARTS = tuple(dict.fromkeys(recipe.name for recipe in RECIPES))

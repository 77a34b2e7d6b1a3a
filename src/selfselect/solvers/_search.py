r"""Search of a likelihood with many optima: quasi-Newton climbs in well-conditioned coordinates.

Climbs move in *search coordinates*: the coefficients of each alternative after whitening its
covariates, in units of the outcome, and the logarithms of the inverse scales. In them the
likelihood is about equally curved in all directions whatever the covariates look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.evaluation import evaluate
from selfselect.problem.problem import Problem

__all__ = ["Place", "SearchSpace"]

Array = NDArray[np.float64]

MEMORY = 20
"""Corrections that L-BFGS remembers."""

FLAT = 1e-9
"""Relative gain of the log-likelihood per step at which a climb ends."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a climb ended: search coordinates, log-likelihood, and evaluations it took."""

    coordinates: Array
    loglik: float
    n_evaluations: int


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Coordinates for climbing, made from the covariates' second moments.

    Attributes
    ----------
    problem : the model.
    roots : per alternative the lower Cholesky root of X'X/n, in internal units.
    naive : per alternative the least-squares coefficients in search coordinates.
    spread : residual standard deviation of least squares, in internal units.
    floor : smallest scale that is allowed, in internal units.
    """

    problem: Problem
    roots: tuple[Array, ...]
    naive: tuple[Array, ...]
    spread: float
    floor: float

    @classmethod
    def build(cls, problem: Problem, grams: list[Array], *, floor: float) -> SearchSpace:
        """Make coordinates from Gram matrices of [covariates, outcome] of each alternative.

        `floor` is the smallest allowed scale as a fraction of the least-squares residuals'.
        """
        weight = float(sum_of_weights(problem, grams))
        roots: list[Array] = []
        naive: list[Array] = []
        spreads: list[float] = []
        for gram in grams:
            root: Any = np.linalg.cholesky(gram[:-1, :-1] / weight)
            coordinates: Any = np.linalg.solve(root, gram[:-1, -1] / weight)
            roots.append(root)
            naive.append(coordinates)
            spreads.append(gram[-1, -1] / weight - coordinates @ coordinates)
        spread = float(np.sqrt(max(min(spreads), 1e-12)))
        return cls(problem, tuple(roots), tuple(naive), spread, floor * spread)

    @cached_property
    def free_scales(self) -> int:
        """How many scales are searched for: none, one, or one per alternative."""
        layout = self.problem.layout
        if layout.scales is not None:
            return 0
        return 1 if layout.common else len(layout.sizes)

    @cached_property
    def n_coefficients(self) -> int:
        """How many of the coordinates are coefficients; they come first."""
        return sum(self.problem.layout.sizes)

    def join(self, coefficients: list[Array], scale: float) -> Array:
        """Make coordinates of coefficients per alternative and one scale for all."""
        return np.concatenate([*coefficients, np.full(self.free_scales, -np.log(scale))])

    def natural(self, coordinates: Array, *, scale: float | None = None) -> Array:
        """Return natural parameters; `scale` overrides the scales, for annealing."""
        layout = self.problem.layout
        h = self._inverse_scales(coordinates, scale)
        natural = np.empty(int(layout.starts[-1]))
        for j, (root, w) in enumerate(zip(self.roots, self._split(coordinates), strict=True)):
            natural[layout.starts[j] : layout.inverse_scale_positions[j]] = h[j] * np.linalg.solve(
                root.T, w
            )
            natural[layout.inverse_scale_positions[j]] = h[j]
        return natural

    def free(self, coordinates: Array) -> Array:
        """Return free parameters."""
        return self.problem.layout.gather(self.natural(coordinates))

    def locate(self, free: Array) -> Array:
        """Return the coordinates of free parameters."""
        layout = self.problem.layout
        natural = layout.natural(free)
        h = natural[layout.inverse_scale_positions]
        coefficients = [
            root.T @ natural[layout.starts[j] : layout.inverse_scale_positions[j]] / h[j]
            for j, root in enumerate(self.roots)
        ]
        scales = np.log(h[: self.free_scales])
        return np.concatenate([*coefficients, scales])

    def _split(self, coordinates: Array) -> list[Array]:
        return np.split(
            coordinates[: self.n_coefficients], np.cumsum(self.problem.layout.sizes)[:-1]
        )

    def _inverse_scales(self, coordinates: Array, scale: float | None) -> Array:
        layout = self.problem.layout
        n_alternatives = len(layout.sizes)
        if scale is not None:
            return np.full(n_alternatives, 1.0 / scale)
        if layout.scales is not None:
            return self.problem.units.outcome_unit / layout.scales
        return np.broadcast_to(np.exp(coordinates[self.n_coefficients :]), (n_alternatives,))

    def objective(
        self, coordinates: Array, engine: Engine, scale: float | None
    ) -> tuple[float, Array]:
        """Return minus the mean log-likelihood and its gradient."""
        layout = self.problem.layout
        natural = self.natural(coordinates, scale=scale)
        task = partial(evaluate, self.problem, natural, curvature="none")
        evaluation: Any = engine.sum(task)
        gradient = np.zeros_like(coordinates)
        place = 0
        for j, root in enumerate(self.roots):
            own = slice(layout.starts[j], layout.inverse_scale_positions[j])
            h = natural[own.stop]
            along_g = evaluation.score[own]
            gradient[place : place + len(root)] = h * np.linalg.solve(root, along_g)
            place += len(root)
            if scale is None and self.free_scales:
                # g = h w moves with h as well.
                slope = h * evaluation.score[own.stop] + natural[own] @ along_g
                gradient[self.n_coefficients + (j if self.free_scales > 1 else 0)] += slope
        n_rows = engine.n_rows
        return -evaluation.loglik / n_rows, -gradient / n_rows

    def climb(
        self,
        engine: Engine,
        start: Array,
        *,
        max_steps: int,
        scale: float | None = None,
        within: Array | None = None,
    ) -> Place:
        """Climb by L-BFGS.

        Parameters
        ----------
        engine : rows.
        start : coordinates.
        max_steps : steps at most.
        scale : holds all scales at this value.
        within : (m, r) basis of coordinate directions to stay within, for searches in a subspace.
        """
        from scipy.optimize import minimize

        n_evaluations = 0

        def objective(moved: Array) -> tuple[float, Array]:
            nonlocal n_evaluations
            n_evaluations += 1
            place = moved if within is None else start + within @ moved
            value, gradient = self.objective(place, engine, scale)
            if not np.isfinite(value):
                return 1e300, np.zeros_like(moved)
            return value, gradient if within is None else within.T @ gradient

        bounds = None
        if within is None:
            highest = -np.log(self.floor)
            bounds = [(None, None)] * self.n_coefficients + [(None, highest)] * self.free_scales
        found = minimize(
            objective,
            start if within is None else np.zeros(within.shape[1]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_steps, "maxcor": MEMORY, "ftol": FLAT, "gtol": 1e-7},
        )
        coordinates = found.x if within is None else start + within @ found.x
        return Place(coordinates, -float(found.fun) * engine.n_rows, n_evaluations)


def sum_of_weights(problem: Problem, grams: list[Array]) -> float:
    """Return the total weight of the rows behind Gram matrices.

    With a constant in some equation it is that entry; without any, second moments stand on
    their own scale and any positive number will do.
    """
    for equation, gram in zip(problem.equations.each, grams, strict=True):
        if equation.has_intercept:
            constant = equation.columns.index(0)
            return float(gram[constant, constant])
    return float(max(gram[-1, -1] for gram in grams))

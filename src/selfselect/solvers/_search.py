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
from selfselect.problem.ties import Ties
from selfselect.solvers._lbfgs import minimise

__all__ = ["Place", "SearchSpace"]

Array = NDArray[np.float64]

FLAT = 1e-9
"""Relative gain of the log-likelihood per step at which a climb ends."""

FARTHEST = 50.0
"""Logarithms of inverse scales beyond this are held there, so that no trial step overflows."""


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
    roots : per alternative the lower Cholesky root of X'X/n, in internal units; one root for all
        where they share coefficients.
    naive : the least-squares coefficients in search coordinates, likewise.
    spread : residual standard deviation of least squares, in internal units.
    floor : smallest scale that is allowed, in internal units.
    weight : total weight of the rows it is made from.
    """

    problem: Problem
    roots: tuple[Array, ...]
    naive: tuple[Array, ...]
    spread: float
    floor: float
    weight: float

    @classmethod
    def build(
        cls, problem: Problem, grams: list[Array], *, weight: float, floor: float
    ) -> SearchSpace:
        """Make coordinates from Gram matrices of [covariates, outcome] of each alternative.

        `weight` is the total weight of the rows behind them, `floor` the smallest allowed scale
        as a fraction of the least-squares residuals'.
        """
        roots: list[Array] = []
        naive: list[Array] = []
        spreads: list[float] = []
        if problem.layout.ties is not None:
            return cls._build_tied(problem, problem.layout.ties, grams, weight, floor)
        for gram in grams:
            root: Any = np.linalg.cholesky(gram[:-1, :-1] / weight)
            coordinates: Any = np.linalg.solve(root, gram[:-1, -1] / weight)
            roots.append(root)
            naive.append(coordinates)
            spreads.append(gram[-1, -1] / weight - coordinates @ coordinates)
        spread = float(np.sqrt(max(min(spreads), 1e-12)))
        return cls(problem, tuple(roots), tuple(naive), spread, floor * spread, weight)

    @classmethod
    def _build_tied(
        cls, problem: Problem, ties: Ties, grams: list[Array], weight: float, floor: float
    ) -> SearchSpace:
        """Make coordinates of the coefficients that are moved, whitened together."""
        total, towards = ties.gather_grams(grams)
        root: Any = np.linalg.cholesky(total / weight)
        naive: Any = np.linalg.solve(root, towards / weight)
        v = ties.coefficients(np.linalg.solve(root.T, naive))
        residuals = [np.append(-v[ties.alternative == j], 1.0) for j in range(len(grams))]
        left = [float(r @ gram @ r) / weight for r, gram in zip(residuals, grams, strict=True)]
        spread = float(np.sqrt(max(min(left), 1e-12)))
        return cls(problem, (root,), (naive,), spread, floor * spread, weight)

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
        return sum(len(root) for root in self.roots)

    @cached_property
    def exchangeable(self) -> bool:
        """Whether alternatives may change places: unknown index, the same covariates in all."""
        same = len({equation.columns for equation in self.problem.equations.each}) == 1
        return same and self.problem.index == "unknown"

    def block(self, alternative: int) -> slice:
        """Return where the coefficients of an alternative are among the coordinates."""
        ends = np.cumsum(self.problem.layout.sizes)
        return slice(
            int(ends[alternative]) - self.problem.layout.sizes[alternative], int(ends[alternative])
        )

    @cached_property
    def _inverse_roots(self) -> tuple[Array, ...]:
        """Inverses of the roots.

        A climb needs them twice per evaluation. Solving anew each time goes through a threaded
        LAPACK, which slows climbs down manyfold where several are under way.
        """
        return tuple(np.asarray(np.linalg.inv(root)) for root in self.roots)

    def join(self, coefficients: list[Array], scale: float) -> Array:
        """Make coordinates of coefficients per alternative and one scale for all."""
        return np.concatenate([*coefficients, np.full(self.free_scales, -np.log(scale))])

    def natural(self, coordinates: Array, *, scale: float | None = None) -> Array:
        """Return natural parameters; `scale` overrides the scales, for annealing."""
        layout = self.problem.layout
        h = self._inverse_scales(coordinates, scale)
        natural = np.empty(int(layout.starts[-1]))
        for j, v in enumerate(self._coefficients(coordinates)):
            natural[layout.starts[j] : layout.inverse_scale_positions[j]] = h[j] * v
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
        each = [
            natural[layout.starts[j] : layout.inverse_scale_positions[j]] / h[j]
            for j in range(len(h))
        ]
        if layout.ties is not None:
            each = [layout.ties.nearest(np.concatenate(each))]
        coefficients = [root.T @ one for root, one in zip(self.roots, each, strict=True)]
        scales = np.log(h[: self.free_scales])
        return np.concatenate([*coefficients, scales])

    def _coefficients(self, coordinates: Array) -> list[Array]:
        """Return the coefficients of every alternative, in internal units."""
        ends = np.cumsum([len(root) for root in self.roots])[:-1]
        parts = np.split(coordinates[: self.n_coefficients], ends)
        each = [inverse.T @ w for inverse, w in zip(self._inverse_roots, parts, strict=True)]
        ties = self.problem.layout.ties
        if ties is None:
            return each
        return np.split(ties.coefficients(each[0]), np.cumsum(self.problem.layout.sizes)[:-1])

    def _along_coordinates(self, slopes: list[Array]) -> Array:
        """Turn derivatives in the coefficients of every alternative into those in coordinates."""
        ties = self.problem.layout.ties
        if ties is not None:
            slopes = [ties.matrix.T @ np.concatenate(slopes)]
        return np.concatenate(
            [inverse @ one for inverse, one in zip(self._inverse_roots, slopes, strict=True)]
        )

    def _inverse_scales(self, coordinates: Array, scale: float | None) -> Array:
        layout = self.problem.layout
        n_alternatives = len(layout.sizes)
        if scale is not None:
            return np.full(n_alternatives, 1.0 / scale)
        if layout.scales is not None:
            return self.problem.units.outcome_unit / layout.scales
        logs = np.clip(coordinates[self.n_coefficients :], -FARTHEST, FARTHEST)
        return np.broadcast_to(np.exp(logs), (n_alternatives,))

    def objective(
        self, coordinates: Array, engine: Engine, scale: float | None
    ) -> tuple[float, Array]:
        """Return minus the log-likelihood per unit of weight, and its gradient."""
        layout = self.problem.layout
        natural = self.natural(coordinates, scale=scale)
        task = partial(evaluate, self.problem, natural, curvature="none")
        evaluation: Any = engine.sum(task)
        gradient = np.zeros_like(coordinates)
        slopes = []
        for j in range(len(layout.sizes)):
            own = slice(layout.starts[j], layout.inverse_scale_positions[j])
            h = natural[own.stop]
            along_g = evaluation.score[own]
            slopes.append(h * along_g)
            if scale is None and self.free_scales:
                # g = h w moves with h as well.
                slope = h * evaluation.score[own.stop] + natural[own] @ along_g
                gradient[self.n_coefficients + (j if self.free_scales > 1 else 0)] += slope
        gradient[: self.n_coefficients] = self._along_coordinates(slopes)
        return -evaluation.loglik / self.weight, -gradient / self.weight

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

        def objective(moved: Array) -> tuple[float, Array]:
            place = moved if within is None else start + within @ moved
            value, gradient = self.objective(place, engine, scale)
            if not np.isfinite(value):
                return np.inf, np.zeros_like(moved)
            return value, gradient if within is None else within.T @ gradient

        upper = None
        if within is None:
            upper = np.full(len(start), np.inf)
            upper[self.n_coefficients :] = -np.log(self.floor)
        found = minimise(
            objective,
            start if within is None else np.zeros(within.shape[1]),
            max_steps=max_steps,
            first_step=self.spread**2,
            flat=FLAT,
            upper=upper,
        )
        coordinates = found.place if within is None else start + within @ found.place
        return Place(coordinates, -found.value * self.weight, found.n_evaluations)

"""Coordinates of a search, and subspaces that hold the slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.likelihoods import Batch, evaluate, evaluate_places
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.problem.units import Ties
from selfselect.solvers._lbfgs import minimise

Array = NDArray[np.float64]


# Search of a likelihood with many optima: quasi-Newton climbs in well-conditioned coordinates.
#
# Climbs move in *search coordinates*: the coefficients of each alternative after whitening its
# covariates, in units of the outcome, and the logarithms of the inverse scales. In them the
# likelihood is about equally curved in all directions whatever the covariates look like.


One = TypeVar("One")

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

    @cached_property
    def _own(self) -> tuple[slice, ...]:
        """Where the coefficients under each root are among the coordinates."""
        ends = np.cumsum([len(root) for root in self.roots]).tolist()
        return tuple(slice(*cut) for cut in zip([0, *ends], ends, strict=False))

    @cached_property
    def _at_g(self) -> NDArray[np.intp]:
        """Where the g of all alternatives are among natural parameters."""
        at_h = self.problem.layout.inverse_scale_positions
        return np.setdiff1d(np.arange(int(self.problem.layout.starts[-1])), at_h)

    @cached_property
    def _alternative(self) -> NDArray[np.intp]:
        """The alternative of each g."""
        sizes = self.problem.layout.sizes
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def _belongs(self) -> Array:
        """Ones where a g (rows) is of an alternative (columns)."""
        return (self._alternative[:, None] == np.arange(len(self.problem.layout.sizes))) * 1.0

    @cached_property
    def _scale_of(self) -> NDArray[np.intp]:
        """Which of the scales that are searched for each alternative has."""
        count = len(self.problem.layout.sizes)
        return np.arange(count) if self.free_scales > 1 else np.zeros(count, dtype=np.intp)

    def next_to(
        self, coordinates: Array, alternative: int, other: int, distance: float, rng: Generator
    ) -> Array:
        """Return a place at which an alternative's equation lies next to that of another one.

        The direction is random, the distance in search coordinates. Both alternatives have the same
        covariates.
        """
        ties = self.problem.layout.ties
        moved = coordinates.copy()
        if ties is None:
            own = self._own[alternative]
            size = own.stop - own.start
            moved[own] = coordinates[self._own[other]] + distance * _direction(size, rng)
            return moved
        v = self._coefficients(coordinates)
        v[ties.alternative == alternative] = v[ties.alternative == other]
        u = ties.nearest(v)
        alone = ties.alone(alternative)
        if len(alone):
            root = self.roots[0]
            own_root: Any = np.linalg.cholesky((root @ root.T)[np.ix_(alone, alone)])
            u[alone] += distance * np.linalg.solve(own_root.T, _direction(len(alone), rng))
        moved[self._own[0]] = self.roots[0].T @ u
        return moved

    @cached_property
    def inverse_roots(self) -> tuple[Array, ...]:
        """Inverses of the roots.

        A climb needs them twice per evaluation. Solving anew each time goes through a threaded
        LAPACK, which slows climbs down manyfold where several are under way.
        """
        return tuple(np.asarray(np.linalg.inv(root)) for root in self.roots)

    def join(self, coefficients: list[Array], scale: float) -> Array:
        """Make coordinates of coefficients per alternative and one scale for all."""
        return np.concatenate([*coefficients, np.full(self.free_scales, -np.log(scale))])

    def natural(self, coordinates: Array, *, scale: float | None = None) -> Array:
        """Return natural parameters (..., N) of coordinates (..., m).

        `scale` overrides the scales, for annealing.
        """
        layout = self.problem.layout
        h = self._inverse_scales(coordinates, scale)
        natural = np.empty((*coordinates.shape[:-1], int(layout.starts[-1])))
        natural[..., self._at_g] = h[..., self._alternative] * self._coefficients(coordinates)
        natural[..., layout.inverse_scale_positions] = h
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

    def _coefficients(self, coordinates: Array) -> Array:
        """Return the coefficients (..., m) of all alternatives, stacked, in internal units."""
        each = np.concatenate(
            [
                coordinates[..., own] @ inverse
                for inverse, own in zip(self.inverse_roots, self._own, strict=True)
            ],
            axis=-1,
        )
        ties = self.problem.layout.ties
        return each if ties is None else ties.coefficients(each)

    def _along_coordinates(self, slopes: Array) -> Array:
        """Turn derivatives in the coefficients of all alternatives into those in coordinates."""
        ties = self.problem.layout.ties
        if ties is not None:
            slopes = slopes @ ties.matrix
        return np.concatenate(
            [
                slopes[..., own] @ inverse.T
                for inverse, own in zip(self.inverse_roots, self._own, strict=True)
            ],
            axis=-1,
        )

    def _inverse_scales(self, coordinates: Array, scale: float | None) -> Array:
        layout = self.problem.layout
        shape = (*coordinates.shape[:-1], len(layout.sizes))
        if scale is not None:
            return np.full(shape, 1.0 / scale)
        if layout.scales is not None:
            return np.broadcast_to(self.problem.units.outcome_unit / layout.scales, shape)
        logs = coordinates[..., self.n_coefficients :]
        h: Array = np.exp(np.minimum(np.maximum(logs, -FARTHEST), FARTHEST))
        return h[..., self._scale_of]

    def objective(
        self, coordinates: Array, engine: Engine, scale: float | None
    ) -> tuple[Array, Array]:
        """Return minus the log-likelihoods (s,) per unit of weight, and gradients (s, m).

        Coordinates are those of s places, (s, m).
        """
        natural = self.natural(coordinates, scale=scale)
        logliks, scores = self._evaluate(natural, engine)
        at_h = self.problem.layout.inverse_scale_positions
        h, along_g = natural[:, at_h], scores[:, self._at_g]
        gradient = np.zeros_like(coordinates)
        slopes = self._along_coordinates(h[:, self._alternative] * along_g)
        gradient[:, : self.n_coefficients] = slopes
        if scale is None and self.free_scales:
            # g = h w moves with h as well.
            along_h = h * scores[:, at_h] + (natural[:, self._at_g] * along_g) @ self._belongs
            if self.free_scales == 1:
                along_h = along_h.sum(axis=1, keepdims=True)
            gradient[:, self.n_coefficients :] = along_h
        return -logliks / self.weight, -gradient / self.weight

    def _evaluate(self, naturals: Array, engine: Engine) -> tuple[Array, Array]:
        """Return log-likelihoods and scores at natural parameters (s, N)."""
        if len(naturals) == 1:
            # Alone a place may be evaluated on a graphics card.
            task = partial(evaluate, self.problem, naturals[0], curvature="none")
            evaluation: Any = engine.sum(task)
            return np.array([evaluation.loglik]), evaluation.score[None]
        sums: Any = engine.sum(partial(evaluate_places, self.problem, naturals))
        return sums[0], sums[1]

    def climb(
        self,
        engine: Engine,
        starts: Array,
        *,
        max_steps: int,
        scale: float | None = None,
        within: Array | None = None,
    ) -> list[Place]:
        """Climb by L-BFGS from each of several starts.

        Parameters
        ----------
        engine : rows.
        starts : (s, m) coordinates.
        max_steps : steps at most.
        scale : holds all scales at this value.
        within : (m, r) basis of coordinate directions to stay within, for searches in a subspace.
        """

        def objective(moved: Array, which: NDArray[np.intp]) -> tuple[Array, Array]:
            places = moved if within is None else starts[which] + moved @ within.T
            values, gradients = self.objective(places, engine, scale)
            wild = ~np.isfinite(values)
            if wild.any():
                values[wild], gradients[wild] = np.inf, 0.0
            return values, gradients if within is None else gradients @ within

        upper = None
        if within is None:
            upper = np.full(starts.shape[1], np.inf)
            upper[self.n_coefficients :] = -np.log(self.floor)
        found = minimise(
            objective,
            starts if within is None else np.zeros((len(starts), within.shape[1])),
            max_steps=max_steps,
            first_step=self.spread**2,
            flat=FLAT,
            upper=upper,
        )
        ended = found.places if within is None else starts + found.places @ within.T
        return [
            Place(place, float(-value * self.weight), int(count))
            for place, value, count in zip(ended, found.values, found.n_evaluations, strict=True)
        ]


def grouped(starts: Sequence[One], engine: Engine) -> list[list[One]]:
    """Group starts, by rows and engine alone, into those that climb side by side."""
    size = max(1, engine.rows_at_once // max(engine.n_rows, 1))
    return [list(starts[at : at + size]) for at in range(0, len(starts), size)]


def _direction(size: int, rng: Generator) -> Array:
    """Return a random direction, about 1 long."""
    return rng.standard_normal(size) / np.sqrt(size)


# The subspace that holds the coefficients, by the paper's matrix or by residual pHd.


@dataclass(frozen=True, eq=False)
class Subspace:
    """Directions in search coordinates with their eigenvalues, the strongest first.

    Attributes
    ----------
    directions : (p, p) orthonormal columns.
    eigenvalues : (p,) for a scree plot: those of noise scatter around zero.
    """

    directions: Array
    eigenvalues: Array


def find_subspace(
    space: SearchSpace, engine: Engine, method: Literal["paper", "residual"]
) -> Subspace:
    r"""Find the directions in which coefficients lie.

    ``paper``: the top eigenvectors of :math:`E[\max(0, y)^2 (xx' - I)]`, which span
    :math:`w_1, ..., w_k` (section 4.2). ``residual``: those of :math:`E[e (xx' - I)]` with the
    residuals e of least squares, which span the differences of the w (dimension k - 1), at about
    half the error. Both suppose covariates that are normal with mean zero; with an intercept
    ``paper`` sees outcomes less their mean.
    """
    if method not in ("paper", "residual"):
        raise OptionError(f"subspace={method!r} is not possible: use 'residual' or 'paper'.")
    total, weighted, trace = engine.sum(partial(_weighted_moments, space, method))
    matrix = weighted / total - trace / total * np.eye(len(weighted))
    values, vectors = np.linalg.eigh(matrix)
    return Subspace(vectors[:, ::-1], values[::-1])


def coefficient_basis(
    space: SearchSpace, engine: Engine, method: Literal["paper", "residual"], size: int
) -> Array:
    """Return an orthonormal basis (p, size) of a subspace that holds the coefficients themselves.

    Residual directions hold only their differences, so least squares, their mean, joins them.
    """
    directions = find_subspace(space, engine, method).directions
    if method == "paper":
        return directions[:, :size]
    joined = np.column_stack([space.naive[0], directions[:, : size - 1]])
    return np.asarray(np.linalg.qr(joined)[0])


def _weighted_moments(space: SearchSpace, method: str, batch: Batch) -> Parts:
    white, outcome, weights = white_rows(space, batch)
    if method == "paper":
        factor = weights * np.maximum(0.0, outcome) ** 2
    else:
        factor = weights * (outcome - space.problem.side * (white @ space.naive[0]))
    return Parts((float(weights.sum()), white.T @ (white * factor[:, None]), float(factor.sum())))


def white_rows(space: SearchSpace, batch: Batch) -> tuple[Array, Array, Array]:
    """Return whitened covariates, outcomes as if the largest were observed, and weights."""
    rows, problem = batch.rows, space.problem
    assert rows.outcome is not None
    design = problem.units.design(rows.covariates, problem.equations.each[0].columns)
    white = design @ space.inverse_roots[0].T
    weights = np.ones(len(batch)) if rows.weights is None else rows.weights
    return white, problem.side * problem.units.limits(rows.outcome), weights

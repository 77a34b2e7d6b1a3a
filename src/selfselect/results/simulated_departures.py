"""The simulations behind `Departures`: the model fitted to outcomes whose noise departs.

Rows are those of the data, a sample of them or several times over, and random numbers are always
the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory, RowsInMemory
from selfselect.errors import DataError, RuleError, UnsupportedError
from selfselect.inference.simulation import draw_outcomes, noise_moments, steady_columns
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED, UNKNOWN
from selfselect.kernels.tails import chdtrc, ndtri
from selfselect.likelihoods import Batch, row_terms
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.problem.problem import Problem
from selfselect.results.memberships import row_residuals
from selfselect.results.naive import Naive, fit_naive
from selfselect.solvers import choose_solver

Array = NDArray[np.float64]

CLOSE = 1e-3
"""Distance to its optimum, in standard errors, at which a simulation's fit stops."""

STEPS = 5
"""Simulations by which spread or correlation is found."""

ADDED = 0.01
"""Chance of a mismatch below which a departure is added: those that are added in vain do harm to
the answer, those that are missed at this level are small."""

ACCOUNTED = 0.5
"""Share of a mismatch that may be left where other departures are said to account for it."""

FOUND = 0.5
"""Mismatch of a moment, in its standard errors, at which the search for a departure ends."""

FARTHEST = {"spread": 1.0, "correlation": 0.95}
"""Largest that are tried: change of the log-scale per standard deviation of a covariate, and
correlation."""

FEW = 5.0
"""Residuals at risk that the normal shape counts for where the product limit knows little."""


@dataclass(frozen=True, eq=False)
class SimulatedWorld:
    """One simulation: what the model and least squares make of it, and its moments."""

    slopes: Array
    naive: Array
    moments: Array


class Simulation:
    """The rows, random numbers and moments that all simulations of a fit share.

    Parameters
    ----------
    problem, engine, free : model, rows and estimate.
    n_rows : rows of every simulation.

    Raises
    ------
    UnsupportedError
        Where something cannot be simulated; the message is the end of a sentence.
    """

    def __init__(self, problem: Problem, engine: Engine, free: Array, n_rows: int) -> None:
        self.problem, self.free, self.begin = problem, free, free
        self.natural = problem.layout.natural(free)
        self.k = problem.equations.n_alternatives
        self.pairs = list(combinations(range(self.k), 2))
        self.n_spread = sum(map(len, steady_columns(problem)))
        rng = np.random.default_rng(0)
        part = engine.sample(n_rows, rng).rows
        self.data: RowsInMemory = Memory().load(problem, part)
        self.weights = _weights(part)
        self.rows = part.take(np.resize(np.arange(len(part)), n_rows))
        strata = np.column_stack([rng.permutation(n_rows) for _ in range(self.k)])
        self.normal = ndtri((strata + rng.uniform(size=(n_rows, self.k))) / n_rows)
        self.solver: Any = replace(choose_solver(problem, None)[0], tol=CLOSE)  # type: ignore[type-var]
        self.limit, self.status = self._observed()
        self.accounted = False

    def _observed(self) -> tuple[Array, NDArray[np.int8]]:
        """Return standardised outcomes or limits, and which of them they are."""
        problem, batch = self.problem, self.data.batch
        status = batch.observation.status
        limit = np.empty((len(batch), self.k))
        designs = problem.designs(batch.rows)
        for j, design in enumerate(designs):
            start, at_h = problem.layout.starts[j], problem.layout.inverse_scale_positions[j]
            own = problem.units.limits(batch.observation.limit_of(j))
            limit[:, j] = self.natural[at_h] * own - design @ self.natural[start:at_h]
        limit *= problem.inverse_scales(self.natural, batch.rows)
        limit /= self.natural[problem.layout.inverse_scale_positions]
        if not np.isin(status, (OBSERVED, BELOW, ABOVE, UNKNOWN)).all():
            raise UnsupportedError("outcomes that were not observed have no limit on one side each")
        return limit, status

    def search(self, *, dependent: bool) -> tuple[Array, SimulatedWorld, SimulatedWorld]:
        """Add departures until the simulation has the moments of the data.

        Parameters
        ----------
        dependent : whether a test finds that alternatives are not independent. Then correlation
            is added unless other departures account for what it found.

        Returns
        -------
        tuple
            The size of departures, the simulation without any, and the one with them.
        """
        rows = self._row_moments(self.data, self.natural)
        own = self.weights @ rows / self.weights.sum()
        information, error = self._precision(rows)
        places = {"spread": slice(0, self.n_spread), "correlation": slice(self.n_spread, len(own))}
        size = np.zeros(len(own))
        plain = self._world(self.normal)
        world = self._world(self._noise(size))
        before = _miss(own, plain, places["correlation"], error)
        left = {kind: place for kind, place in places.items() if place.stop > place.start}
        while True:
            misses = {kind: _miss(own, world, place, error) for kind, place in left.items()}
            chances = {
                kind: float(chdtrc(left[kind].stop - left[kind].start, miss))
                for kind, miss in misses.items()
            }
            needed = [
                kind
                for kind in left
                if chances[kind] <= ADDED
                or (dependent and kind == "correlation" and misses[kind] > ACCOUNTED * before)
            ]
            if not needed:
                break
            kind = min(needed, key=lambda one: (chances[one], -misses[one]))
            place = left.pop(kind)
            size, world = self._match(kind, place, own, information, error, size, world)
        self.accounted = "correlation" in left
        return size, plain, world

    def correlations(self, size: Array) -> Array:
        """Return the correlation of every pair among departures of a size."""
        return size[self.n_spread :]

    def describe(self, size: Array) -> list[tuple[float, float, float]]:
        """Return skewness, excess kurtosis and range of the scale of every alternative's noise."""
        factors = self._factors(size)
        made = []
        for j, (edges, mass) in enumerate(self._margins(size)):
            z = 0.5 * (edges[1:] + edges[:-1])
            z = z - mass @ z
            variance = float(mass @ z**2)
            low, high = np.quantile(factors[:, j], [0.05, 0.95])
            skewness, kurtosis = mass @ z**3 / variance**1.5, mass @ z**4 / variance**2 - 3.0
            made.append((float(skewness), float(kurtosis), float(high / low)))
        return made

    def _match(
        self,
        kind: str,
        place: slice,
        own: Array,
        information: Array,
        error: Array,
        size: Array,
        world: SimulatedWorld,
    ) -> tuple[Array, SimulatedWorld]:
        """Change one kind of departure until the simulation has its moments."""
        step = np.linalg.pinv(information[place, place])
        spread = np.sqrt(np.diag(error))[place]
        best = (size, world)
        for _ in range(STEPS):
            miss = own[place] - world.moments[place]
            if np.abs(miss / spread).max() < FOUND:
                break
            after = size.copy()
            after[place] = np.clip(size[place] + step @ miss, -FARTHEST[kind], FARTHEST[kind])
            moved = after[place] - size[place]
            if not moved.any():
                break
            try:
                found = self._world(self._noise(after))
            except UnsupportedError:
                break
            change = found.moments[place] - world.moments[place]
            # Broyden: the step that would have been right.
            along = step @ change
            if abs(moved @ along) > 1e-12:
                step = step + np.outer(moved - along, moved @ step) / (moved @ along)
            size, world = after, found
            if _miss(own, world, place, error) < _miss(own, best[1], place, error):
                best = (size, world)
        return best

    # one simulation

    def _world(self, noise: Array) -> SimulatedWorld:
        problem = self.problem
        try:
            rng = np.random.default_rng(0)
            drawn = draw_outcomes(problem, self.natural, self.rows, rng, noise=noise).record()
            engine = Memory().load(problem, drawn)
            found = self.solver.solve(problem, engine, rng=rng, start=self.begin, progress=False)
        except (DataError, RuleError) as error:
            raise UnsupportedError(str(error)) from error
        if not found.converged:
            raise UnsupportedError(f"a simulated sample could not be fitted ({found.ending})")
        # The next simulation is mostly much like this one.
        self.begin = found.free
        natural = problem.layout.natural(found.free)
        weights = _weights(drawn)
        moments = weights @ self._row_moments(engine, natural) / weights.sum()
        naive = naive_slopes(problem, fit_naive(problem, engine))
        return SimulatedWorld(slopes_of(problem, natural), naive, moments)

    def _row_moments(self, engine: RowsInMemory, natural: Array) -> Array:
        """Return what each row says of spread and correlation (n, m)."""
        return engine.collect(partial(_moments, self.problem, natural, self.pairs))

    def _precision(self, moments: Array) -> tuple[Array, Array]:
        """Return moments per departure, to first order, and the covariance of mean moments."""
        problem, batch = self.problem, self.data.batch
        scores = row_terms(problem, self.natural, batch).score
        scores = problem.layout.pull_back_vector(scores, self.free)
        weighted = scores * self.weights[:, None]
        slope = np.linalg.lstsq(weighted.T @ scores, weighted.T @ moments, rcond=None)[0]
        freed = moments - scores @ slope
        information = freed.T @ (freed * self.weights[:, None]) / self.weights.sum()
        terms = freed * self.weights[:, None]
        if batch.rows.clusters is not None:
            first = batch.rows.clusters.reshape(len(batch), -1)[:, 0]
            terms = np.column_stack([np.bincount(first, one) for one in terms.T])
        # The simulation has chance errors too, as those of its rows.
        factor = 1.0 + len(batch) / len(self.rows)
        return information, factor * terms.T @ terms / self.weights.sum() ** 2

    # noise

    def _noise(self, size: Array) -> Array:
        """Turn normal numbers into noise with the shape of residuals and departures of a size."""
        correlation = np.eye(self.k)
        for (j, m), value in zip(self.pairs, self.correlations(size), strict=True):
            correlation[j, m] = correlation[m, j] = value
        joined = self.normal @ _root(correlation).T
        factors = self._factors(size)
        factors = factors[np.resize(np.arange(len(factors)), len(self.rows))]
        noise = np.empty_like(joined)
        for j, (edges, mass) in enumerate(self._margins(size)):
            below = np.concatenate([[0.0], np.cumsum(mass)])
            noise[:, j] = factors[:, j] * np.interp(NORMAL.cdf(joined[:, j]), below, edges)
        return noise

    def _factors(self, size: Array) -> Array:
        """Return what the scale of every alternative is multiplied by in the rows of the data."""
        factors = np.ones((len(self.data.rows), self.k))
        end = 0
        for j, columns in enumerate(steady_columns(self.problem)):
            start, end = end, end + len(columns)
            if size[start:end].any():
                design = self.problem.units.design(self.data.rows.covariates, columns)
                log_scale = design @ size[start:end]
                factors[:, j] = np.exp(np.clip(log_scale - log_scale.mean(), -3.0, 3.0))
        return factors

    def _margins(self, size: Array) -> list[tuple[Array, Array]]:
        """Return the distribution of every alternative's noise, freed of its moving spread."""
        scaled = self.limit / self._factors(size)
        return [
            _product_limit(scaled[:, j], self.status[:, j], self.weights) for j in range(self.k)
        ]


def _product_limit(limit: Array, status: NDArray[np.int8], weights: Array) -> tuple[Array, Array]:
    """Return edges of bins and the mass of noise in each, by the product limit.

    Where few residuals are at risk the hazard is drawn towards the normal one.
    """
    side = -1.0 if (status == BELOW).any() else 1.0
    use = (status != UNKNOWN) & (weights > 0)
    time, weights = side * limit[use], weights[use] / weights[use].mean()
    observed = status[use] == OBSERVED
    most = max(6.0, float(np.abs(time[observed]).max(initial=0.0)) + 0.1)
    outer = np.geomspace(5.0, most, 20)[1:]
    edges = np.concatenate([-outer[::-1], np.linspace(-5.0, 5.0, 201), outer])
    place = np.clip(np.searchsorted(edges, time) - 1, 0, len(edges) - 2)
    died = np.bincount(place, weights * observed, len(edges) - 1)
    lost = np.bincount(place, weights * ~observed, len(edges) - 1)
    at_risk = np.cumsum((died + lost)[::-1])[::-1] - 0.5 * lost
    survival = NORMAL.cdf(-edges)
    normal = 1.0 - survival[1:] / np.maximum(survival[:-1], 1e-300)
    hazard = np.clip((died + FEW * normal) / (at_risk + FEW), 0.0, 1.0)
    hazard[-1] = 1.0
    mass = -np.diff(np.concatenate([[1.0], np.cumprod(1.0 - hazard)]))
    return (edges, mass) if side > 0 else (-edges[::-1], mass[::-1])


def _moments(problem: Problem, natural: Array, pairs: list[tuple[int, int]], batch: Batch) -> Array:
    residuals = row_residuals(problem, natural, batch)
    products = [residuals[:, j] * residuals[:, m] for j, m in pairs]
    spread = noise_moments(problem, natural, batch)["heteroskedasticity"]
    return np.column_stack([spread, *products])


def slope_places(problem: Problem) -> list[tuple[int, int]]:
    """Return alternative and place of every estimated slope."""
    return [
        (j, place)
        for j, one in enumerate(problem.equations.each)
        for place, column in enumerate(one.columns[: len(one.estimated)])
        if column != 0
    ]


def slope_units(problem: Problem) -> Array:
    """Return the internal slope of a slope of one in the user's units."""
    each, units = problem.equations.each, problem.units
    columns = [each[j].columns[place] for j, place in slope_places(problem)]
    return units.unit[columns] / units.outcome_unit


def slopes_of(problem: Problem, natural: Array) -> Array:
    """Return all estimated slopes in internal units, in which covariates vary alike."""
    layout = problem.layout
    return np.array(
        [
            natural[layout.starts[j] + place] / natural[layout.inverse_scale_positions[j]]
            for j, place in slope_places(problem)
        ]
    )


def naive_slopes(problem: Problem, naive: Naive) -> Array:
    """Return those of least squares, in the same units and order."""
    found = np.array([naive.coefficients[j][place] for j, place in slope_places(problem)])
    return found * slope_units(problem)


def _root(correlation: Array) -> Array:
    """Return a root of the correlation matrix, or of the nearest one that is safely positive."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < 0.02:
        correlation = (vectors * np.maximum(values, 0.02)) @ vectors.T
        size = np.sqrt(np.diag(correlation))
        correlation = correlation / np.outer(size, size)
    return np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)


def _miss(own: Array, world: SimulatedWorld, place: slice, error: Array) -> float:
    miss = own[place] - world.moments[place]
    return float(miss @ np.linalg.pinv(error[place, place]) @ miss)


def _weights(rows: Rows) -> Array:
    return np.ones(len(rows)) if rows.weights is None else rows.weights

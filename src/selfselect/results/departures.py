r"""What the departures of the noise that a fit shows do to its slopes, by simulation.

A test says that the noise is not as assumed, not whether that matters. So outcomes are simulated
from the fit with noise as the residuals show it, the model is fitted to them, and its slopes are
compared with those the outcomes were made from. The noise of the simulation departs in steps:

* *shape*: each alternative's noise has the distribution of its residuals by Kaplan and Meier's
  product limit, since outcomes that were not observed are censored at a known limit.
* *spread* :math:`\sigma_j e^{\delta_j'x}` and *correlation* (a Gaussian copula): added where the
  shape alone does not reproduce the moments by which the tests look for them, and changed until
  the simulation does.

Rows are those of the data, a sample of them or several times over, and random numbers are always
the same, those of a simulation without departures too: what they share cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from selfselect.data.rows import Rows
from selfselect.engines.memory import Memory, RowsInMemory
from selfselect.errors import DataError, RuleError
from selfselect.inference.moments import noise_moments
from selfselect.inference.simulation import draw_outcomes
from selfselect.inference.specification import why_not
from selfselect.inference.statistics import FLAG_LEVEL
from selfselect.kernels.status import ABOVE, BELOW, SEEN, UNKNOWN
from selfselect.problem.evaluation import Batch, find_memberships, score_blocks
from selfselect.problem.problem import Problem
from selfselect.results.naive import fit_naive
from selfselect.results.residuals import row_residuals
from selfselect.results.tables import labelled_series
from selfselect.solvers import choose_solver
from selfselect.solvers._order import groups_alike, match_alternatives

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Departures", "measure_departures"]

Array = NDArray[np.float64]

ROWS = 10_000
"""Rows of a simulation; slopes are then known to a few percent of what selection does to them."""

CLOSE = 1e-3
"""Distance to its optimum, in standard errors, at which a simulation's fit stops."""

STEPS = 5
"""Simulations by which spread or correlation is found."""

FOUND = 0.5
"""Mismatch of a moment, in its standard errors, at which the search for a departure ends."""

FARTHEST = {"spread": 1.0, "correlation": 0.95}
"""Largest size that is tried: of log-scale per standard deviation of a covariate; of correlation."""

FEW = 5.0
"""Residuals at risk that the normal shape counts for where the product limit knows little."""

SMALL = 0.25
"""Share of least squares' error below which that of the corrected slopes is called small."""

UNEXPLAINED = 1 / 3
"""Share of the difference from least squares that the simulation fails to reproduce, from which
the rule is in doubt: noise of any kind that was tried leaves less."""


@dataclass(frozen=True, eq=False)
class Departures:
    """What noise as the residuals show it does to the slopes.

    Attributes
    ----------
    noise : by alternative, skewness and excess kurtosis of the noise, and the factor by which the
        spread of its scale over the rows exceeds none: 1 where it is constant.
    correlations : of the noise by pair of alternatives; zero where none is needed to explain the
        residuals.
    slopes : by alternative and term, the estimate, its standard error, the error of the corrected
        slope in the simulation and that of least squares there.
    in_errors : size of the corrected slopes' error in their standard errors (root mean squares,
        covariates in units of their spread).
    of_naive : the same as a share of the error of least squares.
    unexplained : share of the difference from least squares that the simulation does not have.
    """

    noise: pd.DataFrame
    correlations: pd.Series[float]
    slopes: pd.DataFrame
    in_errors: float
    of_naive: float
    unexplained: float

    @property
    def explained(self) -> bool:
        """Whether noise of some kind accounts for what the fit shows; else the rule is in doubt."""
        return self.unexplained < UNEXPLAINED

    @property
    def small(self) -> bool:
        """Whether the slopes' error is below a standard error or a quarter of least squares'."""
        return self.explained and (self.in_errors < 1.0 or self.of_naive < SMALL)

    @property
    def sentence(self) -> str:
        """What it comes to, in words."""
        if not self.explained:
            return (
                "LARGE: no noise that was tried gives least squares and corrected slopes that "
                f"differ as here ({100 * self.unexplained:.0f}% of the difference is left), so "
                "the rule itself is in doubt."
            )
        word = "SMALL" if self.small else "LARGE"
        said = (
            f"{word}: simulated with noise as the residuals show it{self._with()}, corrected "
            f"slopes are off by {self.in_errors:.2g} standard errors, "
        )
        if self.of_naive >= 1.0:
            return said + f"{self.of_naive:.2g} times as much as least squares."
        return said + f"{100 * self.of_naive:.0f}% of the error of least squares."

    def _with(self) -> str:
        kinds = []
        if len(self.correlations) and (self.correlations != 0).any():
            low, high = self.correlations.min(), self.correlations.max()
            size = f"{high:+.2g}" if len(self.correlations) == 1 else f"{low:+.2g} to {high:+.2g}"
            kinds.append(f"correlation {size}")
        if (self.noise["spread"] > 1.0).any():
            kinds.append("moving spread")
        return f" ({', '.join(kinds)})" if kinds else ""

    def __str__(self) -> str:
        tables = [self.noise, self.slopes]
        if (self.correlations != 0).any():
            tables.insert(1, self.correlations.to_frame())
        return "\n\n".join([self.sentence, *(str(table.round(4)) for table in tables)])


@dataclass(frozen=True, eq=False)
class World:
    """One simulation: what the model and least squares make of it, and its moments."""

    slopes: Array
    naive: Array
    moments: Array


def why_not_measured(fit: FitResult) -> str | None:
    """Say why departures cannot be simulated, or None where they can."""
    problem = fit.problem
    reason = why_not(problem, fit.solution, "normality")
    if reason is None and problem.rank is not None:
        reason = "an outcome of a given rank leaves open on which side the others lie"
    if reason is None and not any(_moving(problem)):
        reason = "no equation has a covariate, so there is no slope to go wrong"
    return reason


def measure_departures(fit: FitResult, n_rows: int = ROWS) -> Departures | str:
    """Simulate the departures that a fit shows, or say why that cannot be done."""
    reason = why_not_measured(fit)
    if reason is not None:
        return reason
    try:
        return _Simulation(fit, n_rows).measure()
    except _CannotSimulateError as error:
        return str(error)


class _CannotSimulateError(Exception):
    """The sentence says why."""


class _Simulation:
    """The rows, random numbers and moments that all simulations of a fit share."""

    def __init__(self, fit: FitResult, n_rows: int) -> None:
        self.fit, self.problem, self.free = fit, fit.problem, fit.solution.free
        self.natural = self.problem.layout.natural(self.free)
        self.k = self.problem.equations.n_alternatives
        self.pairs = list(combinations(range(self.k), 2))
        rng = np.random.default_rng(0)
        part = fit.engine_of_rows().sample(n_rows, rng).rows
        self.data: RowsInMemory = Memory().load(self.problem, part)
        self.groups = groups_alike(self.problem, self.data)
        self.weights = _weights(part)
        self.rows = part.take(np.tile(np.arange(len(part)), -(-n_rows // len(part))))
        n = len(self.rows)
        strata = np.column_stack([rng.permutation(n) for _ in range(self.k)])
        self.normal = ndtri((strata + rng.uniform(size=(n, self.k))) / n)
        self.solver: Any = replace(choose_solver(self.problem, None)[0], tol=CLOSE)  # type: ignore[type-var]
        self.sizes = _moving(self.problem)
        self.limit, self.status, self.seen = self._observed()

    def _observed(self) -> tuple[Array, NDArray[np.int8], Array]:
        """Return standardised limits, their kind, and the chance that each is the outcome."""
        problem, batch = self.problem, self.data.batch
        status = batch.observation.status.copy()
        limit = np.empty((len(batch), self.k))
        for j, equation in enumerate(problem.equations.each):
            start, at_h = problem.layout.starts[j], problem.layout.inverse_scale_positions[j]
            design = problem.units.design(batch.rows.covariates, equation.columns)
            own = problem.units.limits(batch.observation.limit_of(j))
            limit[:, j] = self.natural[at_h] * own - design @ self.natural[start:at_h]
        if problem.index == "unknown":
            chance = self.data.collect(lambda one: find_memberships(problem, self.natural, one).chance)
            status[status != UNKNOWN] = BELOW if problem.side > 0 else ABOVE
            return limit, status, chance
        if not np.isin(status, (SEEN, BELOW, ABOVE, UNKNOWN)).all():
            raise _CannotSimulateError("outcomes that were not observed are bounded on both sides")
        return limit, status, (status == SEEN).astype(np.float64)

    def measure(self) -> Departures:
        """Add departures until the simulation has the moments of the data."""
        rows = self._row_moments(self.data, self.natural)
        own = self.weights @ rows / self.weights.sum()
        inverse, error = self._precision(rows)
        n_spread = sum(self.sizes)
        places = {"spread": slice(0, n_spread), "correlation": slice(n_spread, len(own))}
        size = np.zeros(len(own))
        plain = self._world(self.normal)
        world = self._world(self._noise(size))
        left = [kind for kind in places if places[kind].stop > places[kind].start]
        while left:
            chance = {
                kind: _tail(own[places[kind]] - world.moments[places[kind]], error, places[kind])
                for kind in left
            }
            kind = min(left, key=lambda one: chance[one])
            if chance[kind] > 1.0 - FLAG_LEVEL:
                break
            left.remove(kind)
            size, world = self._match(kind, places[kind], own, inverse, error, size, world)
        return self._result(size, plain, world)

    def _match(
        self,
        kind: str,
        place: slice,
        own: Array,
        inverse: Array,
        error: Array,
        size: Array,
        world: World,
    ) -> tuple[Array, World]:
        """Change one kind of departure until the simulation has its moments."""
        step = np.linalg.pinv(np.linalg.pinv(inverse[place, place]))
        spread = np.sqrt(np.diag(error))[place]
        best = (size, world)
        for _ in range(STEPS):
            miss = own[place] - world.moments[place]
            if np.abs(miss / spread).max() < FOUND:
                break
            after = size.copy()
            after[place] = np.clip(
                size[place] + step @ miss, -FARTHEST[kind], FARTHEST[kind]
            )
            moved = after[place] - size[place]
            if not moved.any():
                break
            found = self._world(self._noise(after))
            change = found.moments[place] - world.moments[place]
            # Broyden: the step that would have been right.
            along = step @ change
            if abs(moved @ along) > 1e-12:
                step = step + np.outer(moved - along, moved @ step) / (moved @ along)
            size, world = after, found
            if _miss(own, world, place, error) < _miss(own, best[1], place, error):
                best = (size, world)
        return best

    def _result(self, size: Array, plain: World, world: World) -> Departures:
        problem, fit = self.problem, self.fit
        truth, unit = _slopes(problem, self.natural), _slope_units(problem)
        bias, naive = world.slopes - plain.slopes, world.naive - truth
        gap = _naive_slopes(problem, fit.naive_fit) - truth
        labels, places = _slope_labels(problem), problem.layout.reported_places
        variances = np.diag(fit.covariance.matrix)
        errors = np.sqrt([variances[places[j][place]] for j, place in _terms(problem)])
        here = world.naive - world.slopes
        noise = []
        factors = self._factors(size)
        for j, (edges, mass) in enumerate(self._margins(size)):
            z = 0.5 * (edges[1:] + edges[:-1])
            z = z - mass @ z
            second = mass @ z**2
            low, high = np.quantile(factors[:, j], [0.05, 0.95])
            noise.append((mass @ z**3 / second**1.5, mass @ z**4 / second**2 - 3.0, high / low))
        alternatives = problem.equations.alternatives
        names = [f"{alternatives[j]} & {alternatives[m]}" for j, m in self.pairs]
        return Departures(
            pd.DataFrame(
                noise,
                index=pd.Index(alternatives, name="alternative"),
                columns=["skewness", "kurtosis", "spread"],
            ),
            pd.Series(size[sum(self.sizes) :], index=pd.Index(names, name="pair"), name="correlation"),
            pd.DataFrame(
                {
                    "estimate": truth / unit,
                    "std_error": errors,
                    "error": bias / unit,
                    "least squares": naive / unit,
                },
                index=labelled_series(truth, labels, "").index,
            ),
            _rms(bias) / _rms(errors * unit),
            _rms(bias) / _rms(naive),
            _rms(here - gap) / _rms(gap),
        )

    # one simulation

    def _world(self, noise: Array) -> World:
        problem = self.problem
        try:
            drawn = draw_outcomes(problem, self.natural, self.rows, noise)
            engine = Memory().load(problem, drawn)
            found = self.solver.solve(
                problem, engine, rng=np.random.default_rng(0), start=self.free, progress=False
            )
        except (DataError, RuleError) as error:
            raise _CannotSimulateError(str(error)) from error
        if not found.converged:
            raise _CannotSimulateError(f"a simulated sample could not be fitted ({found.status})")
        natural = problem.layout.natural(
            match_alternatives(problem, self.groups, found.free, self.free)
        )
        weights = _weights(drawn)
        moments = weights @ self._row_moments(engine, natural) / weights.sum()
        naive = _naive_slopes(problem, fit_naive(problem, engine))
        return World(_slopes(problem, natural), naive, moments)

    def _row_moments(self, engine: RowsInMemory, natural: Array) -> Array:
        """Return what each row says of spread and correlation (n, m)."""
        return engine.collect(partial(_moments, self.problem, natural, self.pairs))

    def _precision(self, moments: Array) -> tuple[Array, Array]:
        """Return departures per moment, to first order, and the covariance of mean moments."""
        problem, batch = self.problem, self.data.batch
        scores = np.column_stack(score_blocks(problem, self.natural, batch))
        scores = problem.layout.pull_back_vector(scores, self.free)
        weighted = scores * self.weights[:, None]
        slope = np.linalg.lstsq(weighted.T @ scores, weighted.T @ moments, rcond=None)[0]
        freed = moments - scores @ slope
        information = freed.T @ (freed * self.weights[:, None]) / self.weights.sum()
        terms = freed * self.weights[:, None]
        if batch.rows.clusters is not None:
            first = batch.rows.clusters.reshape(len(batch), -1)[:, 0]
            terms = np.column_stack([np.bincount(first, one) for one in terms.T])
        return np.linalg.pinv(information), terms.T @ terms / self.weights.sum() ** 2

    # noise

    def _noise(self, size: Array) -> Array:
        """Turn normal numbers into noise with the shape of residuals and departures of a size."""
        correlation = np.eye(self.k)
        for (j, m), value in zip(self.pairs, size[sum(self.sizes) :], strict=True):
            correlation[j, m] = correlation[m, j] = value
        joined = self.normal @ _root(correlation).T
        factors = self._factors(size)
        factors = np.tile(factors, (-(-len(self.rows) // len(factors)), 1))[: len(self.rows)]
        noise = np.empty_like(joined)
        for j, (edges, mass) in enumerate(self._margins(size)):
            below = np.concatenate([[0.0], np.cumsum(mass)])
            noise[:, j] = factors[:, j] * np.interp(ndtr(joined[:, j]), below, edges)
        return noise

    def _factors(self, size: Array) -> Array:
        """Return what the scale of every alternative is multiplied by in the rows of the data."""
        factors = np.ones((len(self.data.rows), self.k))
        end = 0
        for j, equation in enumerate(self.problem.equations.each):
            columns = tuple(column for column in equation.columns if column != 0)
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
            _product_limit(scaled[:, j], self.status[:, j], self.seen[:, j], self.weights)
            for j in range(self.k)
        ]


def _product_limit(
    limit: Array, status: NDArray[np.int8], seen: Array, weights: Array
) -> tuple[Array, Array]:
    """Return edges of bins and the mass of noise in each, by the product limit.

    Where few residuals are at risk the hazard is drawn towards the normal one.
    """
    side = -1.0 if (status == BELOW).any() else 1.0
    use = (status != UNKNOWN) & (weights > 0)
    time, weights, seen = side * limit[use], weights[use] / weights[use].mean(), seen[use]
    most = max(6.0, float(np.abs(time[seen > 0.5]).max(initial=0.0)) + 0.1)
    outer = np.linspace(5.0, most, max(3, int(4 * (most - 5.0))))[1:]
    edges = np.concatenate([-outer[::-1], np.linspace(-5.0, 5.0, 201), outer])
    place = np.clip(np.searchsorted(edges, time) - 1, 0, len(edges) - 2)
    died = np.bincount(place, weights * seen, len(edges) - 1)
    lost = np.bincount(place, weights * (1.0 - seen), len(edges) - 1)
    at_risk = np.cumsum((died + lost)[::-1])[::-1] - 0.5 * lost
    survival = ndtr(-edges)
    normal = 1.0 - survival[1:] / np.maximum(survival[:-1], 1e-300)
    hazard = np.clip((died + FEW * normal) / (at_risk + FEW), 0.0, 1.0)
    hazard[-1] = 1.0
    mass = -np.diff(np.concatenate([[1.0], np.cumprod(1.0 - hazard)]))
    return (edges, mass) if side > 0 else (-edges[::-1], mass[::-1])


def _moments(
    problem: Problem, natural: Array, pairs: list[tuple[int, int]], batch: Batch
) -> Array:
    residuals = row_residuals(problem, natural, batch)
    products = [residuals[:, j] * residuals[:, m] for j, m in pairs]
    spread = noise_moments(problem, natural, batch)["heteroskedasticity"]
    return np.column_stack([spread, *products])


def _moving(problem: Problem) -> list[int]:
    """Count the covariates of every equation."""
    return [sum(column != 0 for column in one.columns) for one in problem.equations.each]


def _terms(problem: Problem) -> list[tuple[int, int]]:
    """Return alternative and place of every estimated slope."""
    return [
        (j, place)
        for j, one in enumerate(problem.equations.each)
        for place, column in enumerate(one.columns[: len(one.estimated)])
        if column != 0
    ]


def _slope_labels(problem: Problem) -> list[tuple[Any, str]]:
    each = problem.equations.each
    return [(each[j].alternative, each[j].terms[place]) for j, place in _terms(problem)]


def _slope_units(problem: Problem) -> Array:
    """Return the internal slope of a slope of one in the user's units."""
    each, units = problem.equations.each, problem.units
    columns = [each[j].columns[place] for j, place in _terms(problem)]
    return units.unit[columns] / units.outcome_unit


def _slopes(problem: Problem, natural: Array) -> Array:
    layout = problem.layout
    return np.array(
        [
            natural[layout.starts[j] + place] / natural[layout.inverse_scale_positions[j]]
            for j, place in _terms(problem)
        ]
    )


def _naive_slopes(problem: Problem, naive: Any) -> Array:
    found = np.array([naive.coefficients[j][place] for j, place in _terms(problem)])
    return found * _slope_units(problem)


def _root(correlation: Array) -> Array:
    """Return a root of the correlation matrix, or of the nearest one that is safely positive."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < 0.02:
        correlation = (vectors * np.maximum(values, 0.02)) @ vectors.T
        size = np.sqrt(np.diag(correlation))
        correlation = correlation / np.outer(size, size)
    return np.linalg.cholesky(correlation)


def _tail(miss: Array, error: Array, place: slice) -> float:
    """Return the chance of a mismatch as large where there is none."""
    return float(chdtrc(len(miss), miss @ np.linalg.pinv(error[place, place]) @ miss))


def _miss(own: Array, world: World, place: slice, error: Array) -> float:
    miss = own[place] - world.moments[place]
    return float(miss @ np.linalg.pinv(error[place, place]) @ miss)


def _weights(rows: Rows) -> Array:
    return np.ones(len(rows)) if rows.weights is None else rows.weights


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))

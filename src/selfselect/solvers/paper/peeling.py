r"""Identification by peeling (Theorem 2): all coefficients from the distribution function itself.

This is not an estimator but the paper's proof made to run: given the exact conditional
distribution function of the outcome, it recovers one coefficient vector after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.kernels.tails import gammaln
from selfselect.kernels.tails import log_cdf as normal_log_cdf
from selfselect.seeds import generator

Array = NDArray[np.float64]

LogCdf = Callable[[Array, Array], Array]
"""log P(y <= t | x) for rows x (m, d) and values t (m,), vectorised."""


NEXT_TO_NOTHING = 1e-14
"""Chance of outcomes beyond the grid on which moments are integrated."""

FINER, LONGEST = 1.25, 1e7
"""Factor by which that grid is widened until it is wide enough, and its widest."""

FIRST_DISTANCE, LAST_DISTANCE, STEADY = 16.0, 1e6, 1e-8
"""How far out a vector is read off, at first and at last, and when it stays."""

PROBES, SAME_DISTRIBUTION = 2_000, 1e-3
"""Places at which the distribution function of what was recovered is compared with the given one,
and the largest difference."""


@dataclass(frozen=True)
class Population:
    """A self-selection model known through its distribution function, with unit noise.

    Attributes
    ----------
    log_cdf : log P(y <= t | x).
    n_covariates, n_alternatives : sizes.
    """

    log_cdf: LogCdf
    n_covariates: int
    n_alternatives: int

    @classmethod
    def of(cls, coefficients: Array) -> Population:
        """Return the population of the maximum rule with coefficients (k, d)."""
        w = np.atleast_2d(np.asarray(coefficients, dtype=float))

        def log_cdf(x: Array, t: Array) -> Array:
            return np.asarray(normal_log_cdf(t[:, None] - x @ w.T).sum(axis=1))

        return cls(log_cdf, w.shape[1], w.shape[0])

    def without(self, vector: Array) -> Population:
        """Return the population of the other alternatives, shifted so that `vector` is zero."""
        inner = self.log_cdf

        def log_cdf(x: Array, t: Array) -> Array:
            return np.minimum(inner(x, t + x @ vector) - normal_log_cdf(t), 0.0)

        return Population(log_cdf, self.n_covariates, self.n_alternatives - 1)


@dataclass(frozen=True)
class Peeling:
    r"""Recover all coefficients of a population, the longest first.

    On the line :math:`x = sv` the normalised moment of high order of the outcome tends to
    :math:`F(v) = \sqrt{\max_j (w_j'v)^2 + 1}`, whose maximiser is the direction of the longest
    vector. Its sign is decided on the shifted model, in which a wrong sign doubles the length. Then
    the vector is subtracted, the distribution function divided by Φ, and the rest is a model with
    one alternative fewer.

    Parameters
    ----------
    order : of the moment; the larger, the closer to the limit (200 gives F within 0.4%).
    tries : random directions the maximisation starts from.
    seed : of those.
    """

    order: int = 200
    tries: int = 60
    seed: int = 0

    def recover(self, population: Population) -> Array:
        """Return the coefficients (k, d).

        Raises
        ------
        UnsupportedError
            where what was recovered does not have the distribution function it was recovered from.
        """
        found: list[Array] = []
        origin = np.zeros(population.n_covariates)
        rest = population
        for _ in range(population.n_alternatives):
            vector = self._longest(rest)
            found.append(origin + vector)
            origin = origin + vector
            rest = rest.without(vector)
        self._check(population, np.array(found))
        return np.array(found)

    def _check(self, population: Population, found: Array) -> None:
        """Refuse vectors whose distribution function is another one."""
        rng = np.random.default_rng(self.seed)
        x = rng.standard_normal((PROBES, population.n_covariates))
        t = (x @ found.T).max(axis=1) + rng.uniform(-2.0, 3.0, PROBES)
        wanted, have = population.log_cdf(x, t), Population.of(found).log_cdf(x, t)
        apart = float(np.abs(np.exp(wanted) - np.exp(have)).max())
        if not apart < SAME_DISTRIBUTION:
            raise UnsupportedError(
                "Peeling recovered vectors whose distribution function differs from the given one "
                f"by up to {apart:.2g}: a moment of order {self.order} does not tell the vectors "
                "of this population apart. Try a larger `order` or more `tries`; separability "
                "(assumption A of the paper) must hold."
            )

    def limit(self, population: Population, direction: Array) -> float:
        """Return the approximation of F(v) by the moment of the given order."""
        return float(np.exp(self._log_root_moment(population, direction)))

    def _longest(self, population: Population) -> Array:
        """Return the longest coefficient vector of a population."""
        if population.n_alternatives == 1:
            return _mean_slope(population)
        direction, spread = self._best_direction(population)
        # The moment of k maxima is between 1/2 and k times the largest one's.
        length = float(np.sqrt(max(spread**2 - 1.0, 0.0)))
        shifted = self.limit(_shifted(population, length * direction), direction)
        doubled = np.sqrt(4.0 * length**2 + 1.0)
        wrong = abs(shifted - doubled) < 0.05 * doubled
        return _read_off(population, -direction if wrong else direction)

    def _best_direction(self, population: Population) -> tuple[Array, float]:
        from scipy.optimize import minimize

        rng = generator(self.seed)
        tries = rng.standard_normal((self.tries, population.n_covariates))
        tries /= np.linalg.norm(tries, axis=1, keepdims=True)
        values = [self._log_root_moment(population, v) for v in tries]

        def objective(free: Array) -> float:
            return -self._log_root_moment(population, free / np.linalg.norm(free))

        found: Any = minimize(
            objective, tries[int(np.argmax(values))], method="Nelder-Mead",
            options={"xatol": 1e-5, "fatol": 1e-10, "maxiter": 2_000},
        )  # fmt: skip
        return found.x / np.linalg.norm(found.x), float(np.exp(-found.fun))

    def _log_root_moment(self, population: Population, direction: Array) -> float:
        """Return log of (E[y^p | x on the line v] / (p - 1)!!)^(1/p), by quadrature in logs."""
        p = self.order
        reach = 2.2 * np.sqrt(p)
        s = np.linspace(-reach, reach, 121)
        farthest = _farthest(population, reach * np.array([direction, -direction]))
        t = np.linspace(-farthest, farthest, 401)
        grid_s, grid_t = np.meshgrid(s, t, indexing="ij")
        x = grid_s.reshape(-1, 1) * direction
        log_cdf = population.log_cdf(x, grid_t.ravel()).reshape(grid_s.shape)
        # E[y^p] = integral of p |t|^(p-1) times the tail beyond t, on either side.
        with np.errstate(divide="ignore"):
            log_tail = np.where(grid_t > 0, np.log(-np.expm1(log_cdf)), log_cdf)
            log_power = np.log(p) + (p - 1) * np.log(np.abs(grid_t))
        log_all = log_tail + log_power - 0.5 * grid_s**2 - 0.5 * np.log(2.0 * np.pi)
        top = log_all.max()
        cell = (s[1] - s[0]) * (t[1] - t[0])
        log_moment = top + np.log(np.exp(log_all - top).sum() * cell)
        log_double_factorial = gammaln(p + 1) - 0.5 * p * np.log(2.0) - gammaln(0.5 * p + 1)
        return float((log_moment - log_double_factorial) / p)


def _shifted(population: Population, vector: Array) -> Population:
    inner = population.log_cdf
    return Population(
        lambda x, t: inner(x, t + x @ vector),
        population.n_covariates,
        population.n_alternatives,
    )


def _farthest(population: Population, x: Array) -> float:
    """Return a bound that outcomes at x (m, d) exceed, on either side, next to never."""
    bound = 1.0
    while bound < LONGEST:
        beyond = np.full(len(x), bound)
        above, below = population.log_cdf(x, beyond), population.log_cdf(x, -beyond)
        if (above > -NEXT_TO_NOTHING).all() and (below < np.log(NEXT_TO_NOTHING)).all():
            return bound
        bound *= FINER
    raise UnsupportedError(
        f"Peeling found outcomes beyond {LONGEST:g} noise scales: these vectors are too long for "
        "it. Measure covariates in larger units."
    )


def _median(population: Population, x: Array) -> float:
    """Return the median outcome at covariates x (d,)."""
    from scipy.optimize import brentq

    bound = _farthest(population, x[None, :])

    def above(t: float) -> float:
        return float(population.log_cdf(x[None, :], np.array([t]))[0]) - float(np.log(0.5))

    return float(brentq(above, -bound, bound, xtol=1e-12 * bound, rtol=1e-14))


def _read_off(population: Population, direction: Array) -> Array:
    """Return the vector that is longest in a direction, from medians far out there.

    Far along it the outcome is that vector's, whatever the others do, so medians differ as its
    means do. How far is far enough shows in that going farther changes nothing.
    """
    distance, before = FIRST_DISTANCE, None
    while distance < LAST_DISTANCE:
        centre = distance * direction
        middle = _median(population, centre)
        vector = np.array(
            [
                (_median(population, centre + unit) - middle)
                for unit in np.eye(population.n_covariates)
            ]
        )
        if before is not None and np.abs(vector - before).max() < STEADY * (
            1.0 + float(np.linalg.norm(vector))
        ):
            return vector
        before, distance = vector, 4.0 * distance
    raise UnsupportedError(
        "Peeling found two vectors that are as good as equally long in one direction, but not "
        "equal: it cannot tell them apart."
    )


def _mean_slope(population: Population) -> Array:
    """Return the coefficients of a single alternative: the median of y at each unit vector."""
    return np.array([_median(population, unit) for unit in np.eye(population.n_covariates)])

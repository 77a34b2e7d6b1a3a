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
from scipy.special import gammaln, log_ndtr

from selfselect.seeds import generator

__all__ = ["Peeling", "Population"]

Array = NDArray[np.float64]

LogCdf = Callable[[Array, Array], Array]
"""log P(y <= t | x) for rows x (m, d) and values t (m,), vectorised."""


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
            return np.asarray(log_ndtr(t[:, None] - x @ w.T).sum(axis=1))

        return cls(log_cdf, w.shape[1], w.shape[0])

    def without(self, vector: Array) -> Population:
        """Return the population of the other alternatives, shifted so that `vector` is zero."""
        inner = self.log_cdf

        def log_cdf(x: Array, t: Array) -> Array:
            return np.minimum(inner(x, t + x @ vector) - log_ndtr(t), 0.0)

        return Population(log_cdf, self.n_covariates, self.n_alternatives - 1)


@dataclass(frozen=True)
class Peeling:
    r"""Recover all coefficients of a population, the longest first.

    On the line :math:`x = sv` the normalised moment of high order of the outcome tends to
    :math:`F(v) = \sqrt{\max_j (w_j'v)^2 + 1}`, whose maximiser is the direction of the longest
    vector. Its sign is decided on the shifted model, in which a wrong sign doubles the length.
    Then it is subtracted, the distribution function divided by Φ, and the rest is a model with
    one alternative less.

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
        """Return the coefficients (k, d)."""
        found: list[Array] = []
        origin = np.zeros(population.n_covariates)
        rest = population
        for _ in range(population.n_alternatives):
            vector = self._longest(rest)
            found.append(origin + vector)
            origin = origin + vector
            rest = rest.without(vector)
        return np.array(found)

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
        vector = length * direction
        shifted = self.limit(_shifted(population, vector), direction)
        doubled = np.sqrt(4.0 * length**2 + 1.0)
        wrong = abs(shifted - doubled) < 0.05 * doubled
        return self._refine(population, -vector if wrong else vector)

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

    def _refine(self, population: Population, vector: Array) -> Array:
        """Correct the length: along the right vector the shifted model has the spread of noise."""
        from scipy.optimize import minimize_scalar

        length = float(np.linalg.norm(vector))
        direction = vector / length

        def far_tail(scaled: float) -> float:
            # In the far tail of x = s v the outcome is w'x + noise, whatever the others do.
            s = np.full(41, 12.0)
            t = np.linspace(-3.0, 3.0, 41) + scaled * s
            log_cdf = population.log_cdf(s[:, None] * direction, t)
            return float(((log_cdf - log_ndtr(t - scaled * s)) ** 2).sum())

        found: Any = minimize_scalar(
            far_tail, bracket=(0.98 * length, 1.02 * length), options={"xtol": 1e-10}
        )
        return float(found.x) * direction

    def _log_root_moment(self, population: Population, direction: Array) -> float:
        """Return log of (E[y^p | x on the line v] / (p - 1)!!)^(1/p), by quadrature in logs."""
        p = self.order
        reach = 2.2 * np.sqrt(p)
        s = np.linspace(-reach, reach, 181)
        scale = 1.0 + np.abs(s).max()
        t = np.linspace(-4.0 * scale, 4.0 * scale, 801)
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


def _mean_slope(population: Population) -> Array:
    """Return the coefficients of a single alternative: the median of y at each unit vector."""
    from scipy.optimize import brentq

    def median(x: Array) -> float:
        return float(
            brentq(
                lambda t: float(population.log_cdf(x[None, :], np.array([t]))[0]) - np.log(0.5),
                -60.0,
                60.0,
            )
        )

    return np.array([median(unit) for unit in np.eye(population.n_covariates)])

"""What solvers that draw share: chains to start with, and the log-likelihood at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.likelihoods import evaluate
from selfselect.likelihoods._masses import sampled_loglik
from selfselect.likelihoods.sampled import (
    ROWS_AT_ONCE,
    SampledRows,
    Sweep,
    batch_stream,
    sample_scores,
)
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.rules import has_bounds
from selfselect.samplers import EllipticalSlice, Sampler
from selfselect.samplers._chains import Chains
from selfselect.solvers.climb import information_at, score_at

__all__ = [
    "DrawnLoglik",
    "distance_to_optimum",
    "drawn_loglik",
    "draws_boxes",
    "new_seed",
    "start_chains",
]

Array = NDArray[np.float64]

SETTLING = 6
"""Slice steps that take the two chains of a row apart and away from where they were found."""

LOGLIK_LOOKS = 2_000_000
"""Calls of the rule that the log-likelihood may cost by default, all rows together."""

DISTANCE_POINTS = 48
"""Pairs of points of every row by which the distance to an optimum is measured."""

FEWEST_DRAWS = 64
MOST_DRAWS = 16_384


def draws_boxes(problem: Problem) -> bool:
    """Say whether explaining sets are boxes under independent noise, drawn from exactly."""
    return has_bounds(problem.ordered_rule) and not problem.likelihood.sampled


def new_seed(rng: Generator) -> int:
    """Draw a seed for the streams of one pass."""
    return int(rng.integers(2**63))


def start_chains(
    problem: Problem, engine: Engine, free: Array, sampler: Sampler | None, rng: Generator
) -> Chains:
    """Find a point in every row's explaining set and let two chains part from it."""
    task = partial(_start, problem, problem.layout.natural(free), new_seed(rng), sampler)
    found = engine.collect(task)
    k = problem.equations.n_alternatives
    latent = np.ascontiguousarray(found.reshape(len(found), 2, k).transpose(1, 0, 2))
    return Chains.starting_at(latent, sampler)


def _start(
    problem: Problem, natural: Array, seed: int, sampler: Sampler | None, batch: Batch
) -> Array:
    blocks = range(0, len(batch), ROWS_AT_ONCE)
    return np.concatenate(
        [_start_block(problem, natural, seed, sampler, batch.take(slice(at, at + ROWS_AT_ONCE)))
         for at in blocks]
    )  # fmt: skip


def _start_block(
    problem: Problem, natural: Array, seed: int, sampler: Sampler | None, batch: Batch
) -> Array:
    target, rng = SampledRows.of(problem, natural, batch).target, batch_stream(seed, batch)
    if sampler is not None:
        return np.concatenate([sampler.init(target, rng) for _ in range(2)], axis=1)
    settle = EllipticalSlice()
    point = settle.init(target, rng)
    chains = []
    for _ in range(2):
        latent = point
        for _ in range(SETTLING):
            latent = settle.step(target, latent, rng).latent
        chains.append(latent)
    return np.concatenate(chains, axis=1)


def distance_to_optimum(problem: Problem, engine: Engine, free: Array, rng: Generator) -> float:
    """Return how far a Newton step would go, in standard errors of the parameter it moves most.

    Score and information come from draws where they are not exact. Infinite where the information
    is not positive definite: there the step says nothing.
    """
    if problem.likelihood.sampled:
        chains = start_chains(problem, engine, free, None, rng)
        steps = DISTANCE_POINTS // chains.pairs
        sweep = Sweep(new_seed(rng), steps, steps, max(1, steps // 4), 0)
        natural = problem.layout.natural(free)
        sums: Any = engine.sum(partial(sample_scores, problem, natural, chains, sweep))
        score, information = sums.score, sums.information
    else:
        score, information = score_at(problem, engine, free), information_at(problem, engine, free)
    if not np.isfinite(information).all() or np.linalg.eigvalsh(information)[0] <= 0:
        return float("inf")
    inverse = np.linalg.inv(information)
    return float(np.max(np.abs(inverse @ score) / np.sqrt(np.diag(inverse))))


@dataclass(frozen=True, eq=False)
class DrawnLoglik:
    """A log-likelihood by draws, its standard error, and the rows whose mass is too small."""

    value: float
    error: float
    vanishing: NDArray[np.intp]

    def warning(self) -> str:
        """Say which explaining sets vanish; empty where none does."""
        if self.vanishing.size == 0:
            return ""
        named = ", ".join(map(str, self.vanishing[:3]))
        more = ", ..." if self.vanishing.size > 3 else ""
        return (
            f"The explaining sets of {self.vanishing.size} rows (rows {named}{more}) have next to "
            "no mass under the fit: those choices are next to impossible under the model."
        )


def drawn_loglik(
    problem: Problem, engine: Engine, free: Array, rng: Generator, n_draws: int | None = None
) -> DrawnLoglik:
    """Estimate the log-likelihood at free parameters; where it is exact, it has no error."""
    if not problem.likelihood.sampled:
        exact: Any = engine.sum(partial(evaluate, problem, problem.layout.natural(free)))
        return DrawnLoglik(exact.loglik, 0.0, np.empty(0, dtype=np.intp))
    if n_draws is None:
        n_draws = int(np.clip(LOGLIK_LOOKS // max(engine.n_rows, 1), FEWEST_DRAWS, MOST_DRAWS))
    natural = problem.layout.natural(free)
    task = partial(sampled_loglik, problem, natural, n_draws, new_seed(rng))
    rows = engine.collect(task)
    value, variance = rows[:, :2].sum(axis=0)
    return DrawnLoglik(float(value), float(np.sqrt(variance)), np.flatnonzero(rows[:, 2]))

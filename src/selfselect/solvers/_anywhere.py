"""Random equations under independent normal noise, from which other noise may begin."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.problem.problem import Problem
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._start import any_deficient, gram_matrices
from selfselect.solvers._starts import random_start

__all__ = ["random_places"]

Array = NDArray[np.float64]

FLOOR = 0.01
"""Smallest scale, as a fraction of the least-squares residuals'; no start is near to it."""


def random_places(problem: Problem, part: Engine, rng: Generator, count: int) -> list[Array]:
    """Return the natural parameters of equations scattered at random around least squares."""
    grams = gram_matrices(problem, part)
    if not count or any_deficient(problem, grams):
        return []
    space = SearchSpace.build(problem, grams, weight=part.weight_total, floor=FLOOR)
    seeds = SeedSequence(int(rng.integers(2**63))).spawn(count)
    starts = random_start(space, part, [np.random.default_rng(seed) for seed in seeds])
    return [space.natural(start.coordinates) for start in starts]

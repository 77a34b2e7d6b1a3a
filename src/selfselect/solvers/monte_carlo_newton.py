"""Newton's method with scores and information from draws, to a stated Monte-Carlo error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.problem.problem import Problem
from selfselect.samplers import Sampler
from selfselect.solvers._drawn_search import DrawnSearch
from selfselect.solvers._start import gram_matrices, least_squares_start, refuse_collinear
from selfselect.solvers.base import Solution, require

__all__ = ["MonteCarloNewton"]

Array = NDArray[np.float64]

FEWEST = 1_000
PER_PARAMETER = 20
SHARE = 20
"""Rows of the smallest sample, rows of it by parameter, and rows by row of it: its optimum exists,
and is so few standard errors away that one step over all rows leads next to theirs."""

COARSE = 0.5
"""Monte-Carlo error, in standard errors of the sample, with which a sample's optimum will do."""


@dataclass(frozen=True)
class MonteCarloNewton:
    r"""Maximise the log-likelihood of any convex rule, by draws from the explaining sets.

    Two warm chains per row give the score (Fisher's identity), the observed information (Louis'
    identity) and the Monte-Carlo error of both. Newton steps, on a sample of rows first, lead
    close to the optimum; from there every pass is one more estimate of it, and all are averaged
    until the Monte-Carlo error of every parameter is at most `mc_tol` of its standard error, and
    that of the standard errors half as much. Standard errors include the error of the estimates.

    The log-likelihood is concave in the coefficients for convex explaining sets, and together
    with one common scale, which only dilates them. With a scale per alternative it need not be;
    steps are limited in length, and follow the information of complete data (those of EM) where
    the observed one is not positive definite.

    Parameters
    ----------
    mc_tol : largest Monte-Carlo error, as a share of the standard error.
    max_passes : passes over all rows after which it gives up.
    sampler : of the latent outcomes, one of `selfselect.samplers`; None for `Antithetic`, with
        `Gibbs` where sets are narrow; and for `BoxExact`, which leaves no Monte-Carlo error, where
        they are boxes.
    sample : the most rows of the sample that the first steps are taken on; it has a twentieth of
        all rows where that is less.
    loglik_draws : draws per row that the log-likelihood is estimated from, once, at the end; None
        for some two million in all, from 64 to 16,384 a row. Its error is reported too.
    """

    mc_tol: float = 0.1
    max_passes: int = 200
    sampler: Sampler | None = field(default=None)
    sample: int = 5_000
    loglik_draws: int | None = None

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.mc_tol <= 1:
            raise OptionError(
                f"mc_tol={self.mc_tol!r} must be a share of the standard error, above 0 and at "
                "most 1; 0.1 is the default, 0.02 costs 25 times as much."
            )
        if isinstance(self.sampler, type) or not (
            self.sampler is None or isinstance(self.sampler, Sampler)
        ):
            raise OptionError(
                f"{self.sampler!r} is not a sampler. Use None, or an object such as "
                "selfselect.samplers.EllipticalSlice()."
            )

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        require(self, problem)
        if start is None:
            grams = gram_matrices(problem, engine)
            refuse_collinear(problem, grams)
            start = least_squares_start(problem, grams)
            sampled = max(FEWEST, PER_PARAMETER * problem.layout.n_free, engine.n_rows // SHARE)
            sampled = min(sampled, self.sample)
            if engine.n_rows > 2 * sampled:
                part = engine.sample(sampled, rng)
                coarse = DrawnSearch(self, problem, part, start, rng, progress, COARSE)
                coarse.run()
                start = coarse.free
                if coarse.interrupted:
                    return coarse.solution(loglik=False)
        search = DrawnSearch(self, problem, engine, start, rng, progress, self.mc_tol)
        search.run()
        return search.solution(loglik=not search.interrupted)

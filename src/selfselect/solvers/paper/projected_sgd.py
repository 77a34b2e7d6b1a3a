"""Projected stochastic gradient ascent: Algorithm 2 of the paper, with its slips corrected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.samplers import BoxExact, EllipticalSlice, ProjectedLangevin, Sampler
from selfselect.solvers._draws import distance_to_optimum, drawn_loglik, draws_boxes
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Solution, require, require_counts
from selfselect.solvers.paper._agreement import euclidean_distance, most_agreed
from selfselect.solvers.paper._ascent import Ascent
from selfselect.solvers.paper._theory import TheoryCost, theory_cost
from selfselect.solvers.status import Ending, Status

__all__ = ["ProjectedSGD"]

Array = NDArray[np.float64]

MOST_LOOKS = 1e12
"""Steps of the sampler, all rows together, above which a run is refused: it would take years."""


@dataclass(frozen=True)
class ProjectedSGD:
    r"""Ascend the log-likelihood one batch of rows at a time, with gradients from draws.

    The paper's known-index estimator: for every batch latent outcomes :math:`z` are drawn from
    the explaining sets at the present coefficients, and with
    :math:`g_j = (z_j - x'w_j)\,x / \sigma_j^2`,

    .. math:: w_j \leftarrow \Pi_{\|w_j\| \le B}\Big(w_j + \frac{1}{\lambda t} \bar g_j\Big),

    from :math:`w = 0`; the average of the iterates is the estimate. (As printed, it descends on a
    log-likelihood; the page on the model lists this and other errata.) Rows are taken without
    replacement, so one pass sees each once. The scale must be known, as in the paper. There are no
    standard errors but by the bootstrap; `MonteCarloNewton` is faster and has them. It has
    converged where the score at the average, over the information there, puts the optimum within
    one standard error of every coefficient; one pass often ends farther away.

    Parameters
    ----------
    strength : :math:`\lambda`, per row and in units of noise scales and of standard deviations of
        covariates; None for half the smallest share of rows in which an alternative was chosen (the
        share is the theory's :math:`\alpha/k` as measured; constants learn more slowly).
    bound : :math:`B` in the same units; None for ten times the least-squares coefficients.
    batch : rows per step.
    passes : over all rows.
    average : ``"tail"`` averages the second half of the iterates, ``"all"`` all of them as in the
        paper, which never forgets the first ones.
    sampler : one of `selfselect.samplers`; None for `BoxExact` (with its exact conditional means)
        where sets are boxes, else `EllipticalSlice`.
    repeats : runs on separate parts of the rows, of which the one is kept that half of the others
        are nearest to: the paper's remark on high probability.
    n_steps : steps after which to stop; None for all rows.
    """

    strength: float | None = None
    bound: float | None = None
    batch: int = 32
    passes: int = 1
    average: str = "tail"
    sampler: Sampler | None = field(default=None)
    repeats: int = 1
    n_steps: int | None = None

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_counts(self, "batch", "passes", "repeats")
        for name in ("strength", "bound"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"{name}={value!r} must be positive.")
        if self.average not in ("tail", "all"):
            raise OptionError(f"There is no average {self.average!r}. Use 'tail' or 'all'.")

    @classmethod
    def from_theory(
        cls,
        alpha: float,
        B: float,
        C: float,
        sigma: float,
        accuracy: float,
        *,
        n_alternatives: int = 2,
    ) -> Self:
        """Set every option as the theorem would.

        The theorem gives its constants only as polynomials; those not stated are set to one.
        `theory` returns what that would cost, and a run that would take years is refused.

        Parameters
        ----------
        alpha : survival probability: every alternative is chosen with probability alpha / k, and
            every explaining set has mass alpha.
        B : bound on the length of coefficient vectors.
        C : bound on the length of covariate vectors.
        sigma : the noise scale.
        accuracy : wanted error of the coefficients, in Frobenius norm.
        n_alternatives : k.

        Examples
        --------
        >>> from selfselect.solvers import ProjectedSGD
        >>> solver = ProjectedSGD.from_theory(0.2, 2.0, 3.0, 1.0, 0.1, n_alternatives=3)
        >>> solver.batch, solver.average
        (1, 'all')
        >>> solver.n_steps > 1e6
        True
        """
        cost = theory_cost(alpha, B, C, sigma, accuracy, n_alternatives)
        return cls(
            strength=alpha / n_alternatives,
            bound=B / sigma,
            batch=1,
            average="all",
            sampler=ProjectedLangevin(cost.gamma, cost.sampler_steps, cost.radius),
            n_steps=cost.n_steps,
        )

    @staticmethod
    def theory(
        alpha: float,
        B: float,
        C: float,
        sigma: float,
        accuracy: float,
        *,
        n_alternatives: int = 2,
    ) -> TheoryCost:
        """Return what the options of `from_theory` would cost. Arguments are the same."""
        return theory_cost(alpha, B, C, sigma, accuracy, n_alternatives)

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
        rows = engine.rows
        sampler = self._sampler(problem)
        self._refuse(problem, rows, sampler)
        grams = gram_matrices(problem, engine)
        refuse_collinear(problem, grams)
        # A given start is not used: the steps forget it, and the theory starts at zero.
        del start
        order = rng.permutation(len(rows))
        runs: list[Ascent] = []
        interrupted = False
        with progress_bar(progress, what="Projected SGD", total=self.repeats) as bar:
            for part in np.array_split(order, self.repeats):
                run = Ascent(self, problem, rows, sampler, grams, rng)
                try:
                    run.ascend(part, bar)
                except KeyboardInterrupt:
                    interrupted = True
                runs.append(run)
                bar.update()
                if interrupted:
                    break
        best = runs[most_agreed([run.estimate for run in runs], euclidean_distance)]
        distance = distance_to_optimum(problem, engine, best.estimate, rng)
        ending = best.ending(len(runs), distance)
        if interrupted:
            ending = Ending(Status.INTERRUPTED, {"passes": best.n_passes}).noting(str(ending))
        drawn = drawn_loglik(problem, engine, best.estimate, rng)
        n_free = problem.layout.n_free
        return Solution(
            free=best.estimate,
            loglik=drawn.value,
            information=np.full((n_free, n_free), np.nan),
            ending=ending.noting(drawn.warning()),
            trace=tuple(best.trace),
            n_passes=self.passes,
            solver=repr(self),
            loglik_error=drawn.error,
        )

    def _sampler(self, problem: Problem) -> Sampler:
        if self.sampler is not None:
            return self.sampler
        return BoxExact() if draws_boxes(problem) else EllipticalSlice()

    def _refuse(self, problem: Problem, rows: Rows, sampler: Sampler) -> None:
        if problem.layout.scales is None:
            raise UnsupportedError(
                "ProjectedSGD follows the theory, in which the noise scale is known. Give "
                "noise=noises.Independent(scale=...), or use MonteCarloNewton, which estimates it."
            )
        n_steps = self.n_steps or self.passes * len(rows) // self.batch
        if n_steps * self.batch > len(rows) * self.passes:
            raise UnsupportedError(
                f"ProjectedSGD would take {n_steps:.3g} steps of {self.batch} rows without "
                f"replacement, but there are {len(rows)} rows. Ask for less accuracy, allow more "
                "passes, or use MonteCarloNewton."
            )
        if float(n_steps) * self.batch * sampler.steps > MOST_LOOKS:
            raise UnsupportedError(
                f"{n_steps:.3g} steps with {sampler.steps:.3g} steps of the sampler each would "
                "take years. Use a sampler with fewer steps, or MonteCarloNewton."
            )

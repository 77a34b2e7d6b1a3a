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
from selfselect.problem.sampled import SampledRows
from selfselect.progress import progress_bar
from selfselect.samplers import BoxExact, EllipticalSlice, ProjectedLangevin, Sampler
from selfselect.solvers._draws import drawn_loglik
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers._theory import TheoryCost, theory_cost
from selfselect.solvers.base import Solution, TraceEntry, require

__all__ = ["ProjectedSGD"]

Array = NDArray[np.float64]

MOST_LOOKS = 1e12
"""Steps of the sampler, all rows together, above which a run is refused: it would take years."""

LARGE_BOUND = 10.0
"""Default bound: this many times the length of the least-squares coefficients, and one more."""

WARM_UP = 12
"""Steps from a cold start after which a sampler without a step count of its own is believed."""


@dataclass(frozen=True)
class ProjectedSGD:
    r"""Ascend the log-likelihood one batch of rows at a time, with gradients from draws.

    The paper's known-index estimator: for every batch latent outcomes :math:`z` are drawn from
    the explaining sets at the present coefficients, and with
    :math:`g_j = (z_j - x'w_j)\,x / \sigma_j^2`,

    .. math:: w_j \leftarrow \Pi_{\|w_j\| \le B}\Big(w_j + \frac{1}{\lambda t} \bar g_j\Big),

    from :math:`w = 0`; the average of the iterates is the estimate. (Printed, it descends on a
    log-likelihood; see the explanation for this and other slips.) Rows are taken without
    replacement, so one pass sees each once. The scale must be known, as in the paper. There are
    no standard errors but by the bootstrap; `MonteCarloNewton` is faster and has them.

    Parameters
    ----------
    strength : :math:`\lambda`, per row and in units of noise scales and of standard deviations of
        covariates; None for half the smallest share of rows in which an alternative was seen (the
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
        for name in ("batch", "passes", "repeats"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)!r} must be at least 1.")
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
        """Fill in every knob as the theorem would.

        The theorem gives its constants only as polynomials; those not stated are set to one. What
        that would cost is said by `theory`, and a run that would take years is refused.

        Parameters
        ----------
        alpha : survival probability: every alternative is seen with probability alpha / k, and
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
        """Say what the knobs of `from_theory` would cost; print it. Arguments are the same."""
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
        runs: list[_Run] = []
        interrupted = False
        with progress_bar(progress, what="Projected SGD", total=self.repeats) as bar:
            for part in np.array_split(order, self.repeats):
                run = _Run(self, problem, rows, sampler, grams, rng)
                try:
                    run.ascend(part, bar)
                except KeyboardInterrupt:
                    interrupted = True
                runs.append(run)
                bar.update()
                if interrupted:
                    break
        best = runs[_most_agreed([run.estimate for run in runs])]
        status, converged = best.status(self, len(runs))
        if interrupted:
            status, converged = f"Interrupted: the best so far is kept. {status}", False
        drawn = drawn_loglik(problem, engine, best.estimate, rng)
        n_free = problem.layout.n_free
        return Solution(
            free=best.estimate,
            loglik=drawn.value,
            information=np.full((n_free, n_free), np.nan),
            converged=converged,
            status=status + drawn.warning(),
            trace=tuple(best.trace),
            n_passes=self.passes,
            solver=repr(self),
            loglik_error=drawn.error,
        )

    def _sampler(self, problem: Problem) -> Sampler:
        if self.sampler is not None:
            return self.sampler
        return EllipticalSlice() if problem.sampled else BoxExact()

    def _refuse(self, problem: Problem, rows: Rows, sampler: Sampler) -> None:
        if problem.layout.scales is None:
            raise UnsupportedError(
                "ProjectedSGD is the method of the theory, which knows the noise scale. Give "
                "noise=noises.Independent(scale=...), or use MonteCarloNewton, which estimates it."
            )
        n_steps = self.n_steps or self.passes * len(rows) // self.batch
        if n_steps * self.batch > len(rows) * self.passes:
            raise UnsupportedError(
                f"ProjectedSGD is to take {n_steps:.3g} steps of {self.batch} rows without "
                f"replacement, but there are {len(rows)} rows. Ask for less accuracy, allow more "
                "passes, or use MonteCarloNewton."
            )
        if float(n_steps) * self.batch * sampler.steps > MOST_LOOKS:
            raise UnsupportedError(
                f"{n_steps:.3g} steps with {sampler.steps:.3g} steps of the sampler each would "
                "take years. Use a sampler with fewer steps, or MonteCarloNewton."
            )


class _Run:
    """One run: where it is, and the averages of where it was."""

    def __init__(
        self,
        solver: ProjectedSGD,
        problem: Problem,
        rows: Rows,
        sampler: Sampler,
        grams: list[Array],
        rng: Generator,
    ) -> None:
        self.solver, self.problem, self.rows = solver, problem, rows
        self.sampler, self.rng = sampler, rng
        self.free = np.zeros(problem.layout.n_free)
        self.estimate = self.free
        self.trace: list[TraceEntry] = []
        layout = problem.layout
        self.blocks = [
            layout.position[layout.starts[j] : layout.inverse_scale_positions[j]]
            for j in range(len(layout.sizes))
        ]
        assert rows.chosen is not None
        counts = np.bincount(rows.chosen, minlength=len(layout.sizes))
        total = len(rows)
        self.strength = solver.strength or 0.5 * float(counts.min()) / total
        # Steps longer than one over the largest curvature would only overshoot at first.
        steepest = max(float(np.linalg.eigvalsh(gram[:-1, :-1] / total)[-1]) for gram in grams)
        self.delay = 0.0 if solver.average == "all" else steepest / self.strength
        self.bound = solver.bound or self._default_bound(grams)
        self.confined = 0

    def _default_bound(self, grams: list[Array]) -> float:
        h = self.problem.layout.natural(self.free)[self.problem.layout.inverse_scale_positions]
        lengths = [
            float(np.linalg.norm(np.linalg.lstsq(gram[:-1, :-1], gram[:-1, -1], rcond=None)[0]))
            for gram in grams
        ]
        return 1.0 + LARGE_BOUND * float(np.max(np.array(lengths) * h))

    def ascend(self, order: NDArray[np.intp], bar: object) -> None:
        """Step through the rows in order, as often as there are passes."""
        solver = self.solver
        per_pass = max(1, len(order) // solver.batch)
        n_steps = min(solver.n_steps or per_pass * solver.passes, per_pass * solver.passes)
        first_kept = n_steps // 2 if solver.average == "tail" else 0
        total, kept = np.zeros_like(self.free), 0
        for number in range(n_steps):
            if number and number % per_pass == 0:
                order = self.rng.permutation(order)
            at = (number % per_pass) * solver.batch
            gradient = self._gradient(self.rows.take(order[at : at + solver.batch]))
            size = 1.0 / (self.strength * (number + 1 + self.delay))
            before = self.free
            self.free = self._confine(before + size * gradient)
            if number >= first_kept:
                total += self.free
                kept += 1
                self.estimate = total / kept
            else:
                self.estimate = self.free
            if (number + 1) % max(1, n_steps // 20) == 0:
                change = float(np.linalg.norm(self.free - self.estimate))
                self.trace.append(TraceEntry(solver.batch, float("nan"), change, size))
                bar.set_postfix_str(f"iterates {change:.2g} noise scales around their mean")  # type: ignore[attr-defined]

    def _gradient(self, part: Rows) -> Array:
        """Return the mean score of a batch at the present coefficients, from one draw per row."""
        rows = SampledRows(self.problem, self.problem.layout.natural(self.free), part)
        latent = self.sampler.init(rows.target, self.rng)
        n_steps = self.sampler.steps
        if n_steps == 1 and not self.sampler.exact:
            n_steps = WARM_UP
        for _ in range(n_steps):
            draw = self.sampler.step(rows.target, latent, self.rng)
            latent = draw.latent
        scores = rows.scores(draw.first, draw.square)
        return np.asarray(rows.weights @ scores / len(part))

    def _confine(self, free: Array) -> Array:
        confined = 0
        for block in self.blocks:
            length = float(np.linalg.norm(free[block]))
            if length > self.bound:
                free[block] *= self.bound / length
                confined += 1
        self.confined = confined
        return free

    def status(self, solver: ProjectedSGD, n_runs: int) -> tuple[str, bool]:
        """Say how the run ended."""
        boosted = f", the most agreed of {n_runs} runs" if n_runs > 1 else ""
        if self.confined:
            return (
                f"Stopped at the bound {self.bound:.3g} on the coefficients, not by maximum "
                "likelihood: the steps are too long or the bound too small.",
                False,
            )
        words = "tail" if solver.average == "tail" else "all"
        return (
            f"Estimated by averaging {words} iterates of {solver.passes} pass"
            f"{'es' if solver.passes > 1 else ''}{boosted}, not by maximum likelihood.",
            True,
        )


def _most_agreed(estimates: list[Array]) -> int:
    """Return the estimate from which half of the others are nearest."""
    if len(estimates) < 3:
        return 0
    stacked = np.array(estimates)
    apart = np.linalg.norm(stacked[:, None] - stacked, axis=2)
    return int(np.median(apart, axis=1).argmin())

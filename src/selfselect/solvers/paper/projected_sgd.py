"""The paper's projected stochastic gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.likelihoods.sampled import SampledRows
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.samplers import BoxExact, EllipticalSlice, ProjectedLangevin, Sampler
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Ending, Solution, Status, TraceEntry, require, require_counts
from selfselect.solvers.monte_carlo_newton import distance_to_optimum, drawn_loglik, draws_boxes
from selfselect.solvers.paper.base import euclidean_distance, most_agreed

Array = NDArray[np.float64]


# The options of the known-index theorem, with its unstated constants set to one.


@dataclass(frozen=True)
class TheoryCost:
    """The options that the theorem asks for, and what they cost.

    Attributes
    ----------
    n_steps : steps of stochastic ascent, one fresh row each.
    n_rows : rows it wants, so that draws with replacement seldom collide (n >= 2 T^2 / 0.01).
    sampler_steps, gamma, radius : of projected Langevin: m, the step size, the ball.
    projections : n_steps times sampler_steps.
    """

    n_steps: int
    n_rows: float
    sampler_steps: int
    gamma: float
    radius: float
    projections: float

    def __str__(self) -> str:
        return (
            f"{self.n_steps:.3g} steps of stochastic ascent, each with {self.sampler_steps:.3g} "
            f"steps of projected Langevin of size {self.gamma:.3g} in a ball of radius "
            f"{self.radius:.3g}: {self.projections:.3g} projections. Drawn with replacement the "
            f"theorem wants {self.n_rows:.3g} rows; without, {self.n_steps:.3g}. Constants that "
            "the theorem leaves open are set to one."
        )


def theory_cost(
    alpha: float, B: float, C: float, sigma: float, accuracy: float, n_alternatives: int
) -> TheoryCost:
    r"""Work out the options that the theorem asks for.

    The error of T averaged steps is bounded by
    :math:`\sigma^4 k^3 (BC)^2 (1 + \log T) / (\alpha^2 T)`. The bias of a gradient may be
    :math:`\rho^2 / (2 \lambda \mathrm{diam}\, T)`, which sets the distance in total variation that
    the sampler must reach; for that Bubeck, Eldan and Lehec (2018, Theorem 1) ask for
    :math:`m = R^6 \max(k, RL, R\beta)^{12} / \epsilon^{12}` steps of size :math:`R^2/m`.
    """
    numbers = {"alpha": alpha, "B": B, "C": C, "sigma": sigma, "accuracy": accuracy}
    for name, value in numbers.items():
        if not 0 < value < np.inf:
            raise OptionError(f"{name}={value!r} must be a positive number.")
    if alpha > 1 or n_alternatives < 2:
        raise OptionError(
            f"alpha={alpha!r} must be a probability, and n_alternatives={n_alternatives!r} must be "
            "at least 2."
        )
    k, reach = n_alternatives, B * C / sigma
    wanted = sigma**4 * k**3 * (B * C) ** 2 / (alpha**2 * accuracy**2)
    n_steps = max(wanted, 1.0)
    for _ in range(100):
        n_steps = wanted * (1.0 + np.log(max(n_steps, 1.0)))
    rho2, strength = k * (1.0 + reach) ** 2, alpha / k
    bias = rho2 / (2.0 * strength * 2.0 * np.sqrt(k) * (B / sigma) * n_steps)
    distance = min(0.5, bias / np.sqrt(rho2))
    inner = np.sqrt(k) + np.sqrt(2.0 * np.log(2.0 / alpha))
    log_mass = np.log(alpha / 2.0) - 0.5 * (reach**2 + 2.0 * reach * inner)
    radius = np.sqrt(k) + reach + np.sqrt(2.0 * (np.log(16.0 / distance) - log_mass))
    slope = radius + reach
    m = radius**6 * max(k, radius * slope, radius) ** 12 / distance**12
    return TheoryCost(
        n_steps=int(np.ceil(n_steps)),
        n_rows=2.0 * n_steps**2 / 0.01,
        sampler_steps=int(m),
        gamma=float(radius**2 / m),
        radius=float(radius * sigma),
        projections=float(n_steps * m),
    )


# One run of stochastic ascent: steps of batches, and the average of where they led.


LARGE_BOUND = 10.0
"""Default bound: this many times the length of the least-squares coefficients, and one more."""

WARM_UP = 12
"""Steps from a cold start after which a sampler without a step count of its own is believed."""


CLOSE = 1.0
"""Distance to the optimum, in standard errors of any parameter, within which a run has converged:
what it lost by not going on is then less than what the data cannot tell."""


class AscentOptions(Protocol):
    """The options of a run; see `ProjectedSGD`."""

    @property
    def strength(self) -> float | None: ...
    @property
    def bound(self) -> float | None: ...
    @property
    def batch(self) -> int: ...
    @property
    def passes(self) -> int: ...
    @property
    def average(self) -> str: ...
    @property
    def n_steps(self) -> int | None: ...


class StochasticAscent:
    """One run: where it is, and the averages of where it was.

    `n_passes` counts the passes it finished before the one it is in; `confined` is the share of the
    averaged steps in which the bound held coefficients back.
    """

    def __init__(
        self,
        solver: AscentOptions,
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
        self.n_passes = 0
        layout = problem.layout
        self.blocks = [
            layout.position[layout.starts[j] : layout.inverse_scale_positions[j]]
            for j in range(len(layout.sizes))
        ]
        total = len(rows)
        self.strength = solver.strength or 0.5 * max(_thickness(problem, rows), 1.0 / total)
        # Steps longer than one over the largest curvature would only overshoot at first.
        steepest = max(float(np.linalg.eigvalsh(gram[:-1, :-1] / total)[-1]) for gram in grams)
        self.delay = 0.0 if solver.average == "all" else steepest / self.strength
        self.bound = solver.bound or self._default_bound(grams)
        self.confined = 0.0

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
                self.n_passes += 1
            at = (number % per_pass) * solver.batch
            gradient = self._gradient(self.rows.take(order[at : at + solver.batch]))
            size = 1.0 / (self.strength * (number + 1 + self.delay))
            before = self.free
            self.free, held = self._confine(before + size * gradient)
            if number >= first_kept:
                total += self.free
                kept += 1
                self.estimate = total / kept
                self.confined += (held - self.confined) / kept
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

    def _confine(self, free: Array) -> tuple[Array, bool]:
        """Return coefficients within the bound, and whether it held any back."""
        held = False
        for block in self.blocks:
            length = float(np.linalg.norm(free[block]))
            if length > self.bound:
                free[block] *= self.bound / length
                held = True
        return free, held

    def ending(self, n_runs: int, distance: float) -> Ending:
        """Say how the run ended, and how far from the optimum, in standard errors."""
        status = Status.AVERAGED if distance <= CLOSE else Status.AVERAGED_TOO_EARLY
        average, passes = self.solver.average, self.solver.passes
        details = {"average": average, "passes": passes, "distance": distance}
        boosted = f"It is the most agreed of {n_runs} runs." if n_runs > 1 else None
        confined = (
            f"The bound {self.bound:.3g} on the coefficients held in {100 * self.confined:.0f}% of "
            "the averaged steps: steps are too long or the bound is too small."
        )
        return Ending(status, details).noting(boosted, confined if self.confined else None)


def _thickness(problem: Problem, rows: Rows) -> float:
    """Return the smallest eigenvalue of E[1(j was chosen) x x'] over the alternatives j.

    It bounds the curvature of the likelihood as the theory's alpha / k does, which is the same
    number where covariates say nothing of the choice, and too large where they do.
    """
    thinnest = np.inf
    for j, equation in enumerate(problem.equations.each):
        here = rows.take(np.flatnonzero(rows.chosen == j))
        design = problem.units.design(here.covariates, equation.columns)
        weighted = design if here.weights is None else design * here.weights[:, None]
        thinnest = min(thinnest, float(np.linalg.eigvalsh(weighted.T @ design)[0]) / len(rows))
    return thinnest


# Projected stochastic gradient ascent: Algorithm 2 of the paper, with its slips corrected.


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
        covariates; None for half the thickness, the smallest eigenvalue of the mean of :math:`xx'`
        over the rows in which an alternative was chosen, times their share.
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
        runs: list[StochasticAscent] = []
        interrupted = False
        with progress_bar(progress, what="Projected SGD", total=self.repeats) as bar:
            for part in np.array_split(order, self.repeats):
                run = StochasticAscent(self, problem, rows, sampler, grams, rng)
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

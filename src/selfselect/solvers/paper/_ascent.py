"""One run of stochastic ascent: steps of batches, and the average of where they led."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.likelihoods.sampled import SampledRows
from selfselect.problem.problem import Problem
from selfselect.samplers import Sampler
from selfselect.solvers.base import TraceEntry
from selfselect.solvers.status import Ending, Status

__all__ = ["Ascent"]

Array = NDArray[np.float64]

LARGE_BOUND = 10.0
"""Default bound: this many times the length of the least-squares coefficients, and one more."""

WARM_UP = 12
"""Steps from a cold start after which a sampler without a step count of its own is believed."""


CLOSE = 1.0
"""Distance to the optimum, in standard errors of any parameter, within which a run has converged:
what it lost by not going on is then less than what the data cannot tell."""


class Options(Protocol):
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


class Ascent:
    """One run: where it is, and the averages of where it was.

    `n_passes` counts the passes it finished before the one it is in; `confined` is the share of the
    averaged steps in which the bound held coefficients back.
    """

    def __init__(
        self,
        solver: Options,
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
        assert rows.chosen is not None
        counts = np.bincount(rows.chosen, minlength=len(layout.sizes))
        total = len(rows)
        self.strength = solver.strength or 0.5 * float(counts.min()) / total
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

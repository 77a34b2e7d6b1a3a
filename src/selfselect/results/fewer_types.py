"""The model of a fit with one unobserved type fewer: fitted, drawn from, and compared by BIC."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.memory import Memory
from selfselect.errors import SelfSelectError
from selfselect.inference.simulation import redraw, why_no_redraw
from selfselect.likelihoods._components import Components
from selfselect.problem.problem import Problem
from selfselect.solvers import choose_solver
from selfselect.solvers.base import Solution

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["FewerTypes", "bic_gain_of_fewer_types", "gain_of", "rarest_type", "why_not_fewer_types"]

Array = NDArray[np.float64]


class FewerTypes:
    """The model with one type fewer; independent noise where one without costs is left."""

    def __init__(self, problem: Problem, solver: Any) -> None:
        self.larger = with_types(problem, problem_types(problem))
        self.problem = with_types(problem, problem_types(problem) - 1)
        self.solver = choose_solver(self.problem, solver if self.problem.noise.mixed else None)[0]
        self.solution: Solution | None = None
        self.n_parameters = 0

    @property
    def words(self) -> str:
        """What is left."""
        number = problem_types(self.problem)
        return f"{number} types" if number > 1 else "1 type"

    def loglik(self, rows: Rows, rng: Generator) -> float:
        """Fit rows, and return the log-likelihood; the first rows fitted are those of the fit."""
        engine = Memory().load(self.problem, rows).single_threaded()
        found = self.solver.solve(self.problem, engine, rng=rng, progress=False)
        if self.solution is None:
            self.solution, self.n_parameters = found, self.problem.layout.n_free
        return float(found.loglik)

    def draw(self, rows: Rows, rng: Generator) -> Rows:
        """Draw outcomes of the smaller model, as it was fitted to the data."""
        assert self.solution is not None
        settled = self.problem
        if self.solution.settled is not None:
            settled = replace(settled, noise=self.solution.settled)
        return redraw(settled, settled.layout.report(self.solution.free).values, rows, rng)


def problem_types(problem: Problem) -> int:
    """Return how many types a problem has; one where its noise has none."""
    noise: Any = problem.noise
    return int(noise.count) if noise.mixed else 1


def with_types(problem: Problem, number: int) -> Problem:
    """Return the problem with a number of types, of which nothing is held."""
    noise: Any = problem.noise
    free = replace(noise, number=number, held_shifts=(), held_costs=()).plainest()
    equations = problem.equations
    if number == 1:
        equations = replace(equations, types=None)
    grouped = problem.grouped and free.grouped
    return replace(problem, noise=free, equations=equations, grouped=grouped)


def why_not_fewer_types(fit: FitResult) -> str | None:
    """Say why one type fewer is not tested; None where it is."""
    if problem_types(fit.problem) == 1:
        return "there is one type"
    if fit.dependence.reason is not None:
        return f"{fit.dependence.reason}, and samples of the model do not keep that"
    return why_no_redraw(fit.problem, fit.rows) if fit.has_rows else "the fit does not hold rows"


def rarest_type(fit: FitResult) -> tuple[int, float]:
    """Return the number and the weight of the rarest type."""
    noise: Any = fit.problem.noise
    layout = fit.problem.layout
    extras = layout.extras_of(fit.values)[: layout.n_noise_extras]
    weights = noise.values(extras, fit.problem.equations.alternatives).weights
    rarest = int(np.argmin(weights))
    return rarest, float(weights[rarest])


def bic_gain_of_fewer_types(fit: FitResult) -> float | None:
    """Return by how much BIC falls, at least, with one type fewer; None where not known.

    One climb from the estimates without the rarest type ends at or below the optimum, so what it
    gains is gained for sure.
    """
    fewer = with_types(fit.problem, problem_types(fit.problem) - 1)
    return gain_of(fit, fewer, _without_rarest(fit, fewer) if fewer.noise.mixed else None)


def gain_of(fit: FitResult, fewer: Problem, start: Array | None) -> float | None:
    """Return how far BIC is below that of the fit where a climb of another problem ends."""
    solver: Any = choose_solver(fewer, None)[0]
    try:
        found = solver.solve(
            fewer, Memory().load(fewer, fit.rows), rng=np.random.default_rng(0), start=start,
            progress=False,
        )  # fmt: skip
    except SelfSelectError:
        return None
    return fit.bic - fit.facts.bic(float(found.loglik), fewer.layout.n_free)


def _without_rarest(fit: FitResult, fewer: Problem) -> Array:
    """Return free parameters of the smaller problem: those of the fit without its rarest type."""
    problem = fit.problem
    parts, natural = Components.of(problem), problem.layout.natural(fit.solution.free)
    values = parts.map.at(natural[parts.at_types])
    kept = np.delete(np.arange(len(values.weights)), rarest_type(fit)[0])
    weights = values.weights[kept] / values.weights[kept].sum()
    mean = weights @ values.shifts[kept]
    for j, equation in enumerate(problem.equations.each):
        if equation.has_intercept and problem.layout.ties is None:
            at = problem.layout.starts[j] + equation.columns.index(0)
            natural[at] += natural[problem.layout.inverse_scale_positions[j]] * mean[j]
    extras = Components.of(fewer).map.parameters(
        weights, values.shifts[kept] - mean, values.costs[kept]
    )
    slopes = natural[parts.slopes_at]
    # The first type, the largest, has none.
    slopes = slopes[kept[kept > 0] - 1] if slopes.size else slopes
    costs_end = len(natural) - parts.slopes_at.size
    made = [
        natural[: parts.at_types.start], extras, natural[parts.at_types.stop : costs_end],
        slopes[: len(kept) - 1].ravel(),
    ]  # fmt: skip
    return fewer.layout.gather(np.concatenate(made))

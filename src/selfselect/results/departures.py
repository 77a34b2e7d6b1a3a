r"""What the departures of the noise that a fit shows do to its slopes, by simulation.

A test says that the noise is not as assumed, not whether that matters. So outcomes are simulated
from the fit with noise as the residuals show it, the model is fitted to them, and its slopes are
compared with those the outcomes were made from. The noise of the simulation departs in steps:

* *shape*: each alternative's noise has the distribution of its residuals by Kaplan and Meier's
  product limit, since outcomes that were not observed are censored at a known limit.
* *spread* :math:`\sigma_j e^{\delta_j'x}` and *correlation* (a Gaussian copula): added where the
  shape alone does not reproduce the moments by which the tests look for them, and changed until
  the simulation does.

Where no such noise makes least squares and corrected slopes differ as they do in the data, the
rule is in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.inference.evidence import why_no_moment_test
from selfselect.problem.problem import Problem
from selfselect.results.simulated_departures import (
    SimulatedWorld,
    Simulation,
    naive_slopes,
    slope_places,
    slope_units,
    slopes_of,
)
from selfselect.results.tables import Tables, labels_index

if TYPE_CHECKING:
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

MOST_ROWS, WORK, PER_PARAMETER = 10_000, 80_000, 50
"""Rows of a simulation: at most so many, fewer where equations have many parameters (rows times
parameters are bounded), but at least so many per parameter."""

QUICK = 60
"""Parameters up to which all simulations together take some tenths of a second."""

SMALL = 0.25
"""Share of least squares' error below which that of the corrected slopes is called small."""

UNEXPLAINED = 1 / 3
"""Share of the difference from least squares that the simulation fails to reproduce, from which
the rule is in doubt."""


@dataclass(frozen=True, eq=False, repr=False)
class Departures(Tables):
    """What noise as the residuals show it does to the slopes.

    Attributes
    ----------
    noise : by alternative, skewness and excess kurtosis of the noise, and how many times its scale
        at the 95% quantile of the rows is that at the 5% quantile; 1 where spread is constant.
    correlations : of the noise by pair of alternatives; zero where the residuals need none.
    slopes : by alternative and term, the estimate, its standard error, the error of the corrected
        slope in the simulation and that of least squares there.
    in_errors : size of the corrected slopes' error in their standard errors (root mean squares,
        covariates in units of their spread).
    of_naive : the same as a share of the error of least squares.
    unexplained : share of the difference from least squares that the simulation does not have.
    n_rows : rows of the simulation.
    accounted : whether shape and spread of the noise account for residuals that look correlated,
        where they do, so that no correlation was simulated.
    """

    noise: pd.DataFrame
    correlations: pd.Series[float]
    slopes: pd.DataFrame
    in_errors: float
    of_naive: float
    unexplained: float
    n_rows: int
    accounted: bool

    @property
    def explained(self) -> bool:
        """Whether noise of some kind accounts for what the fit shows; else the rule is in doubt."""
        return self.unexplained < UNEXPLAINED

    @property
    def small(self) -> bool:
        """Whether the slopes' error is below a standard error or a quarter of least squares'."""
        return self.explained and (self.in_errors < 1.0 or self.of_naive < SMALL)

    @property
    def sentence(self) -> str:
        """What it comes to, in words."""
        if not self.explained:
            left = min(100.0 * self.unexplained, 100.0)
            return (
                "LARGE: no simulated noise reproduces the difference between least squares and "
                f"corrected slopes ({left:.0f}% of it is not explained). The rule itself may be "
                "wrong."
            )
        share = f"{100 * self.of_naive:.0f}% of"
        if self.of_naive >= 1.0:
            share = f"{self.of_naive:.1f} times"
        return (
            f"{'SMALL' if self.small else 'LARGE'}: in a simulation with noise like the "
            f"residuals{self._kinds()}, corrected slopes are off by {self.in_errors:.2g} standard "
            f"errors, {share} the error of least squares."
        )

    def _kinds(self) -> str:
        kinds = []
        if self.correlations.any():
            low, high = self.correlations.min(), self.correlations.max()
            size = f"{high:+.2f}" if len(self.correlations) == 1 else f"{low:+.2f} to {high:+.2f}"
            kinds.append(f"correlation {size}")
        if (self.noise["spread"] > 1.0).any():
            kinds.append("moving spread")
        return f" ({', '.join(kinds)})" if kinds else ""

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Block, Page

        blocks = [Block.of("Noise estimated from the residuals", self.noise)]
        if self.correlations.any():
            blocks.append(Block.of("Its correlations", self.correlations.to_frame()))
        blocks.append(Block.of("Slopes, and their errors in the simulation", self.slopes))
        title = "What noise like the residuals does to the slopes"
        said = (self.sentence,)
        if self.small:
            return Page(title, (), (), tuple(blocks), said)
        return Page(title, said, (), tuple(blocks), ())

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def why_not_measured(fit: FitResult) -> str | None:
    """Say why departures cannot be simulated, or None where they can."""
    problem = fit.problem
    reason = why_no_moment_test(problem, fit.solution, "normality")
    if reason is None and problem.index == "unknown":
        reason = "residuals show the shape of the noise only where the choice was recorded"
    reason = reason or _why_not_simulated(problem)
    if reason is None and problem.rank is not None:
        reason = "an outcome of a given rank leaves open on which side the others lie"
    if reason is None and not slope_places(problem):
        reason = "no equation has a slope"
    return reason


def _why_not_simulated(problem: Problem) -> str | None:
    if problem.noise.selected:
        return "it is available for self-selection, not for a selection equation"
    shape = problem.noise.margin
    if not shape.normal:
        return f"it needs normal noise, and this fit assumes {shape.name} noise"
    if problem.likelihood.joint:
        return "it needs independent noise, known costs, and rows in which everything was recorded"
    return None


def measured_quickly(fit: FitResult) -> bool:
    """Say whether a summary can wait for it; what cannot be measured is known at once."""
    return why_not_measured(fit) is not None or _n_parameters(fit.problem) <= QUICK


def measure_departures(fit: FitResult) -> Departures | str:
    """Simulate the departures that a fit shows, or say why that cannot be done."""
    reason = why_not_measured(fit)
    if reason is not None:
        return reason
    size = _n_parameters(fit.problem)
    n_rows = max(min(MOST_ROWS, WORK // size), PER_PARAMETER * size)
    try:
        simulation = Simulation(fit.problem, fit.engine_of_rows(), fit.solution.free, n_rows)
        found, plain, world = simulation.search(dependent=fit.independence_test().rejects())
    except UnsupportedError as error:
        return str(error)
    return _result(fit, simulation, found, plain, world)


def _result(
    fit: FitResult,
    simulation: Simulation,
    size: Array,
    plain: SimulatedWorld,
    world: SimulatedWorld,
) -> Departures:
    """Put together what the last simulation showed, beside one without departures."""
    problem, each = fit.problem, fit.problem.equations.each
    truth, unit = slopes_of(problem, simulation.natural), slope_units(problem)
    # Random numbers are the same in both, so that chance cancels.
    error, naive = world.slopes - plain.slopes, world.naive - truth
    gap = naive_slopes(problem, fit.naive_fit) - truth
    places = slope_places(problem)
    variances = np.diag(fit.covariance.matrix)
    reported = problem.layout.reported_places
    std_errors = np.sqrt([variances[reported[j][place]] for j, place in places])
    labels = [(each[j].alternative, each[j].terms[place]) for j, place in places]
    alternatives = problem.equations.alternatives
    pairs = [f"{alternatives[j]} & {alternatives[m]}" for j, m in simulation.pairs]
    return Departures(
        noise=pd.DataFrame(
            simulation.describe(size),
            index=pd.Index(alternatives, name="alternative"),
            columns=["skewness", "kurtosis", "spread"],
        ),
        correlations=pd.Series(
            simulation.correlations(size), index=pd.Index(pairs, name="pair"), name="correlation"
        ),
        slopes=pd.DataFrame(
            {
                "estimate": truth / unit,
                "std_error": std_errors,
                "error": error / unit,
                "least squares": naive / unit,
            },
            index=labels_index(labels),
        ),
        in_errors=_size(error) / _size(std_errors * unit),
        of_naive=_size(error) / _size(naive),
        unexplained=_size(world.naive - world.slopes - gap) / _size(gap),
        n_rows=len(simulation.rows),
        accounted=simulation.accounted,
    )


def _n_parameters(problem: Problem) -> int:
    return sum(len(one.columns) + 1 for one in problem.equations.each)


def _size(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))

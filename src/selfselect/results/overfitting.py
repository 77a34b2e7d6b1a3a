"""One alternative or type fewer, and alternatives that can hardly be told apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.design import DataFacts
from selfselect.data.rows import Rows
from selfselect.engines.memory import Memory
from selfselect.errors import SelfSelectError
from selfselect.inference.simulation import why_no_redraw
from selfselect.inference.statistics import p_value_in_words
from selfselect.likelihoods.components import Components
from selfselect.noises import Independent
from selfselect.noises.types import type_label
from selfselect.problem.problem import Problem
from selfselect.results.naive import fit_naive
from selfselect.results.refit import Solved, solve_again
from selfselect.rules import as_rule
from selfselect.solvers.base import Solver

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Too many alternatives, or types? One fewer against as many as were fitted.
#
# Alternatives are counted where choices are not recorded. The likelihood ratio of a number of
# components has no chi-square law: a component more has parameters that mean nothing where it is
# not needed. Samples of the smaller model say how large the ratio becomes by chance.


LEVEL = 0.95
"""Confidence at which one more than there need be is called one too many, if not rejected."""

FEW_ROWS, SMALL_WEIGHT = 50.0, 0.05
"""Expected rows per coefficient below which an alternative may be there by chance, and the weight
below which a type may, where BIC does not say more. Of 37 alternatives too many, among 30,000 and
100,000 rows, 34 had fewer and none had more than 71; those that exist had 365 and more."""

QUICK = 20_000
"""Rows up to which a summary looks whether BIC prefers one alternative fewer."""


def too_many(fit: FitResult) -> tuple[str, ...]:
    """Say, without being asked, that there may be an alternative or type too many; else nothing."""
    fewer, test = one_fewer(fit), fit.answers.one_fewer
    k, what = fewer.number, fewer.what.upper()
    if test is not None:
        if test.rejects(LEVEL):
            return ()
        return (
            f"TOO MANY {what}: {k} do not fit significantly better than {k - 1} "
            f"({p_value_in_words(test.p_value)}, {test.replications} samples).",
        )
    gain = _bic_gain(fewer)
    if gain is not None and gain <= 0.0:
        # BIC wants all of them, however rare one is.
        return ()
    signs = fewer.rare()
    if gain is not None:
        signs.append(f"BIC is smaller by at least {gain:.1f} with {k - 1}")
    if not signs:
        return ()
    sentence = " and ".join(signs)
    return (
        f"PERHAPS TOO MANY {what}: {sentence}. The standard errors assume that all {k} exist. "
        f"{_advice(fewer)}",
    )


def _advice(fewer: FewerAlternatives) -> str:
    """Say what tells whether there is one too many, of what can be done with this fit."""
    reason = fewer.why_not_tested()
    if reason is None:
        return "Use result.overfitted_test()."
    said = f"There is no test of that here: {reason}."
    if fewer.smaller.equations.n_alternatives > 1:
        return f"{said} Fit {fewer.number - 1} and compare the BIC."
    if fewer.fit.has_rows:
        return f"{said} result.rehearse() shows how well such a fit recovers both."
    return said


def _bic_gain(fewer: FewerAlternatives) -> float | None:
    """Return by how much BIC falls, at least, with one fewer; None where not known."""
    fit = fewer.fit
    if not fit.has_rows or not fit.converged or fit.nobs > QUICK or fewer.why_not_solved():
        return None
    if fit.answers.bic_gain is None:
        found = fewer.gain()
        fit.answers.bic_gain = np.nan if found is None else found
    return None if np.isnan(fit.answers.bic_gain) else fit.answers.bic_gain


def one_fewer(fit: FitResult) -> FewerAlternatives:
    """Return the model with one type fewer where a fit has types, else one alternative fewer."""
    return (FewerTypes if fit.problem.noise.mixed else FewerAlternatives)(fit)


def least_squares(problem: Problem, rows: Rows, facts: DataFacts) -> Solved:
    """Fit the model of one alternative, which is least squares of all rows."""
    fixed = problem.noise.fixed_scales(problem.equations.alternatives)
    alone = replace(
        problem,
        equations=replace(problem.equations, each=problem.equations.each[:1]),
        # Which rule picks from one does not matter.
        rule=as_rule("max"),
        noise=Independent("common" if fixed is None else float(fixed[0])),
    )
    engine = Memory().load(alone, rows).single_threaded()
    naive = fit_naive(alone, engine)
    scales = naive.scales if fixed is None else fixed[:1]
    start = alone.layout.collect(naive.coefficients, scales)
    return solve_again(alone, engine, facts, start=start)


@dataclass(frozen=True, eq=False)
class FewerAlternatives:
    """The model of a fit with one alternative fewer; least squares where one is left."""

    fit: FitResult

    what: ClassVar[str] = "alternatives"

    @property
    def test(self) -> str:
        """The name of the test of it."""
        return f"Test of one {self.what.removesuffix('s')} fewer"

    @property
    def number(self) -> int:
        """How many the fit has."""
        return self.fit.problem.equations.n_alternatives

    @property
    def null(self) -> str:
        """What is left, in words."""
        k = self.number - 1
        return "1 alternative, least squares" if k == 1 else f"{k} alternatives"

    @property
    def larger(self) -> Problem:
        """The model with as many as the fit has."""
        return self.fit.problem

    @property
    def smaller(self) -> Problem:
        """The model with one fewer."""
        equations = self.fit.problem.equations
        return replace(self.fit.problem, equations=replace(equations, each=equations.each[:-1]))

    def why_not_tested(self) -> str | None:
        """Say why it is not tested; None where it is."""
        reason = self.why_not_solved()
        if reason is None and self.fit.dependence.reason is not None:
            return f"{self.fit.dependence.reason}, and samples are drawn row by row"
        return reason

    def why_not_solved(self) -> str | None:
        """Say why it is not fitted here; None where it is."""
        fit, problem = self.fit, self.fit.problem
        if fit.engine is not None and not fit.has_rows:
            return "its rows are not all in memory"
        if not problem.exchangeable:
            return "alternatives have names, so the test would depend on which one is left out"
        fixed = problem.noise.fixed_scales(problem.equations.alternatives)
        if fixed is not None and len(set(fixed.tolist())) > 1:
            return "their scales are fixed one by one"
        if problem.equations.restricted:
            return "coefficients are shared or offsets given"
        if problem.layout.spreads:
            return "scales move with covariates"
        if not problem.noise.margin.normal or not problem.noise.independent:
            return "it is made for independent normal noise"
        if not fit.has_rows:
            return "it no longer has its rows"
        rows = fit.engine_of_rows().sample(1, np.random.default_rng(0)).rows
        if rows.known.available is not None or rows.possible is not None:
            return "alternatives are not available, or not possible, in the same rows"
        return None

    def rare(self) -> list[str]:
        """Say of an alternative that it is expected in few rows."""
        problem = self.fit.problem
        if not problem.exchangeable:
            return []
        shares = self.fit.shares.to_numpy()
        own_scales = problem.layout.scales is None and not problem.layout.common
        sizes = np.array(problem.equations.own_terms) + own_scales
        rows = self.fit.nobs * shares / np.maximum(sizes, 1)
        place = int(np.argmin(rows))
        if rows[place] >= FEW_ROWS:
            return []
        each = "parameters" if own_scales else "coefficients"
        return [
            f"alternative {self.fit.shares.index[place]} is expected in only "
            f"{100 * shares[place]:.1f}% of the rows, {rows[place]:.1f} for each of its {each}"
        ]

    def solve(
        self,
        rows: Rows,
        *,
        solver: Solver | None = None,
        rng: Generator | None = None,
        start: Array | None = None,
    ) -> Solved:
        """Solve it for rows, from free parameters `start` where given."""
        problem = self.smaller
        if problem.equations.n_alternatives == 1:
            return least_squares(self.larger, rows, self.fit.facts)
        if problem.noise.mixed != self.larger.noise.mixed:
            solver = None  # It searches over types, and one is left.
        engine = Memory().load(problem, rows).single_threaded()
        return solve_again(problem, engine, self.fit.facts, solver=solver, rng=rng, start=start)

    def gain(self) -> float | None:
        """Return by how much BIC falls, at least; None where it cannot be fitted.

        One climb from the estimates without the rarest ends at or below the optimum, so what it
        gains is gained for sure.
        """
        try:
            found = self.solve(self.fit.rows, start=self.without_rarest())
        except SelfSelectError:
            return None
        return self.fit.bic - found.bic

    def without_rarest(self) -> Array | None:
        """Return free parameters of the smaller model: those of the fit without its rarest one."""
        if self.number == 2:
            return None
        layout = self.fit.problem.layout
        natural, starts = layout.natural(self.fit.solution.free), layout.starts
        rarest = int(np.argmin(self.fit.shares.to_numpy()))
        kept = [j for j in range(self.number) if j != rarest]
        blocks = [natural[starts[j] : starts[j + 1]] for j in kept]
        return self.smaller.layout.gather(np.concatenate([*blocks, natural[starts[-1] :]]))


class FewerTypes(FewerAlternatives):
    """The model of a fit with one unobserved type fewer; none where one is left."""

    what = "types"

    @property
    def number(self) -> int:
        """How many the fit has."""
        noise: Any = self.fit.problem.noise
        return int(noise.count)

    @property
    def null(self) -> str:
        """What is left, in words."""
        return "1 type" if self.number == 2 else f"{self.number - 1} types"

    @property
    def larger(self) -> Problem:
        """The model with as many types, of which nothing is held."""
        return self._with(self.number)

    @property
    def smaller(self) -> Problem:
        """The model with one fewer."""
        return self._with(self.number - 1)

    def _with(self, number: int) -> Problem:
        problem, equations = self.fit.problem, self.fit.problem.equations
        noise: Any = problem.noise
        free = replace(noise, number=number, held_shifts=(), held_costs=()).plainest()
        if number == 1:
            equations = replace(equations, types=None)
        grouped = problem.grouped and free.grouped
        return replace(problem, noise=free, equations=equations, grouped=grouped)

    def why_not_tested(self) -> str | None:
        """Say why it is not tested; None where it is."""
        fit = self.fit
        if self.number == 1:
            return "there is one type"
        if fit.dependence.reason is not None:
            return f"{fit.dependence.reason}, and samples of the model do not keep that"
        if not fit.has_rows:
            return "the fit does not hold rows"
        return why_no_redraw(fit.problem, fit.rows)

    def why_not_solved(self) -> str | None:
        """Say why it is not fitted here; None where it is."""
        return self.why_not_tested()

    def rare(self) -> list[str]:
        """Say of a type that it has a small weight."""
        rarest, weight = rarest_type(self.fit)
        if weight >= SMALL_WEIGHT:
            return []
        return [f"{type_label(rarest)} has a weight of only {100 * weight:.1f}%"]

    def without_rarest(self) -> Array | None:
        """Return free parameters of the smaller model: those of the fit without its rarest one."""
        fit, problem, fewer = self.fit, self.fit.problem, self.smaller
        if not fewer.noise.mixed:
            return None
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


def rarest_type(fit: FitResult) -> tuple[int, float]:
    """Return the number and the weight of the rarest type."""
    noise: Any = fit.problem.noise
    layout = fit.problem.layout
    extras = layout.extras_of(fit.values)[: layout.n_noise_extras]
    weights = noise.values(extras, fit.problem.equations.alternatives).weights
    rarest = int(np.argmin(weights))
    return rarest, float(weights[rarest])


# Whether alternatives can be told apart where the choice was not recorded.
#
# An outcome whose alternative is unknown has the density of a mixture. Where the equations of two
# alternatives are nearly the same, the likelihood is far from quadratic and standard errors are
# too small, as they are for two components of a mixture that nearly coincide.


APART = 30.0
"""By how much the Wald statistic of two equal equations should exceed its degrees of freedom. In
docs/studies/unknown-index-intervals.md intervals of fits below this cover too little."""


class Difference(NamedTuple):
    """The Wald test that the equations of two alternatives are equal."""

    one: Any
    other: Any
    statistic: float
    df: int


def hardly_distinct(fit: FitResult) -> tuple[str, ...]:
    """Name the two alternatives whose equations differ least, where that is too little."""
    found = least_difference(fit)
    if found is None or found.statistic - found.df >= APART:
        return ()
    return (
        f"ALTERNATIVES HARDLY DISTINCT: the equations of {found.one} and {found.other} differ by "
        f"only chi2({found.df}) = {found.statistic:.1f}. With so small a difference and the choice "
        "not recorded, standard errors are too small: in simulations 95% intervals covered about "
        "80%. Use result.rehearse() to estimate the errors.",
    )


def least_difference(fit: FitResult) -> Difference | None:
    """Test the two equations that differ least; None where choices are known or errors are not."""
    if fit.problem.index != "unknown" or not np.isfinite(fit.covariance.matrix).all():
        return None
    pairs = combinations(fit.problem.equations.alternatives, 2)
    apart = [Difference(*pair, *_difference(fit, *pair)) for pair in pairs]
    tested = [one for one in apart if np.isfinite(one.statistic)]
    return min(tested, key=lambda one: one.statistic - one.df, default=None)


def _difference(fit: FitResult, one: object, other: object) -> tuple[float, int]:
    """Return the Wald statistic of two equal equations, and its degrees of freedom."""
    labels = fit.reported.labels
    terms = {term for alternative, term in labels if alternative in (one, other)}
    places = {label: place for place, label in enumerate(labels)}
    rows = np.zeros((len(terms), len(labels)))
    for row, term in zip(rows, sorted(terms), strict=True):
        for label, sign in (((one, term), 1.0), ((other, term), -1.0)):
            if label in places:
                row[places[label]] = sign
    # Coefficients that are shared or known do not differ, and have no error to be tested with.
    varies = np.einsum("ij,jk,ik->i", rows, fit.covariance.matrix, rows) > 0.0
    if not varies.any():
        return float("nan"), 0
    test = fit.wald_test(rows[varies])
    # With clusters it is an F statistic, which is divided by the number of restrictions.
    times = 1 if np.isinf(test.df_residual or np.inf) else test.df
    return times * test.statistic, test.df

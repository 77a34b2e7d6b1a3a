"""One alternative or type fewer, and alternatives that can hardly be told apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, RuleError, SelfSelectError, UnsupportedError
from selfselect.inference.rehearsal import check_draws, map_draws
from selfselect.inference.simulation import redraw, why_no_redraw, write_out
from selfselect.inference.statistics import TestResult, p_value_in_words, samples_to_reject
from selfselect.likelihoods.components import Components
from selfselect.noises.types import type_label
from selfselect.problem.problem import Problem
from selfselect.results.naive import fit_naive
from selfselect.seeds import check_seed
from selfselect.solvers import choose_solver
from selfselect.solvers.base import Solution

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Too many alternatives, or types? One fewer against as many as were fitted.
#
# Alternatives are counted where choices are not recorded. The likelihood ratio of a number of
# components has no chi-square law: a component more has parameters that mean nothing where it is
# not needed. Samples of the smaller model say how large the ratio becomes by chance.


NAME, OF_TYPES = "Test of one alternative fewer", "Test of one type fewer"

LEVEL = 0.95
"""Confidence at which one more than there need be is called one too many, if not rejected."""

FEWEST = samples_to_reject(LEVEL)
"""Samples from which a p-value can be as small as 0.05."""

ENOUGH = 0.9
"""Share of the samples that must be fitted for their likelihood ratios to be believed."""

FEW_ROWS, SMALL_WEIGHT = 50.0, 0.05
"""Expected rows per coefficient below which an alternative may be there by chance, and the weight
below which a type may, where BIC does not say more. Of 37 alternatives too many, among 30,000 and
100,000 rows, 34 had fewer and none had more than 71; those that exist had 365 and more."""

QUICK = 20_000
"""Rows up to which a summary looks whether BIC prefers one alternative fewer."""


def overfitted_test(
    fit: FitResult,
    replications: int = 99,
    *,
    solver: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> TestResult:
    """Test one type fewer, or one alternative fewer if choices were not recorded.

    The likelihood ratio does not have a chi-square distribution here. Samples are drawn from
    the fit with one fewer (in a panel, by person), and both models are fitted to each from
    scratch; the p-value is the rank of the data's ratio among theirs. Later summaries show it,
    unless an earlier call had more samples.
    A fit with one alternative is least squares, and one with one type has independent noise.

    Parameters
    ----------
    replications : how many samples, 19 at least; each is searched twice.
    solver : by which both numbers are fitted; None for the one that such fits are given.
    seed : of the samples.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.
    """
    replications = check_draws(replications, FEWEST)
    of_types = fit.problem.noise.mixed
    reason = why_not_fewer_types(fit) if of_types else _why_not(fit)
    name = OF_TYPES if of_types else NAME
    if reason is not None:
        raise UnsupportedError(f"There is no {name.lower()}: {reason}.")
    rows = write_out(fit.rows, fit.facts.weights_kind)
    rng = np.random.default_rng(check_seed(seed, optional=True) or 0)
    smaller = (FewerTypes if of_types else _Smaller)(fit.problem, solver)
    problem = smaller.larger
    ratio = max(0.0, 2.0 * (fit.llf - smaller.loglik(rows, rng)))
    search = choose_solver(problem, solver)[0]

    def draw(stream: Generator) -> float | None:
        try:
            drawn = smaller.draw(rows, stream)
            sample = Memory().load(problem, drawn).single_threaded()
            # One more than there are is often not determined; how far it climbed still counts.
            larger = search.solve(problem, sample, rng=stream, progress=False)
            ratio = 2.0 * (larger.loglik - smaller.loglik(drawn, stream))
        except (DataError, RuleError):
            return None
        return max(0.0, float(ratio)) if np.isfinite(ratio) else None

    found = map_draws(draw, replications, int(rng.integers(2**31)), progress)
    ratios = np.array([one for one in found if one is not None])
    if len(ratios) < ENOUGH * replications:
        raise DataError(
            f"Only {len(ratios)} of {replications} samples could be fitted by as many "
            f"{'types' if of_types else 'alternatives'} as the data. Give the solver more starts, "
            "or fit fewer."
        )
    p_value = float((1.0 + (ratios >= ratio).sum()) / (1.0 + len(ratios)))
    test = TestResult(
        name, smaller.words, ratio, problem.layout.n_free - smaller.n_parameters, p_value,
        replications=len(ratios), law="likelihood ratio",
    )  # fmt: skip
    if test.replaces(fit.answers.one_fewer, LEVEL):
        fit.answers.one_fewer = test
    return test


def too_many(fit: FitResult) -> tuple[str, ...]:
    """Say, without being asked, that there may be an alternative or type too many; else nothing."""
    if fit.kept is not None and fit.kept.too_many is not None:
        return fit.kept.too_many
    of_types = fit.problem.noise.mixed
    if not (of_types or fit.problem.exchangeable):
        return ()
    test = fit.answers.one_fewer
    noise: Any = fit.problem.noise
    k = noise.count if of_types else fit.problem.equations.n_alternatives
    what = "TYPES" if of_types else "ALTERNATIVES"
    if test is not None:
        if test.rejects(LEVEL):
            return ()
        return (
            f"TOO MANY {what}: {k} do not fit significantly better than {k - 1} "
            f"({p_value_in_words(test.p_value)}, {test.replications} samples).",
        )
    gain = _bic_gain(fit)
    if gain is not None and gain <= 0.0:
        # BIC wants all of them, however rare one is.
        return ()
    signs = [*(_rare_type(fit) if of_types else _rare_alternative(fit))]
    if gain is not None:
        signs.append(f"BIC is smaller by at least {gain:.1f} with {k - 1}")
    if not signs:
        return ()
    sentence = " and ".join(signs)
    return (
        f"PERHAPS TOO MANY {what}: {sentence}. The standard errors assume that all {k} exist. "
        f"{_advice(fit, k)}",
    )


def _advice(fit: FitResult, k: int) -> str:
    """Say what tells whether there is one too many, of what can be done with this fit."""
    of_types = fit.problem.noise.mixed
    reason = why_not_fewer_types(fit) if of_types else _why_not(fit)
    if reason is None:
        return "Use result.overfitted_test()."
    said = f"There is no test of that here: {reason}."
    if of_types or k > 2:
        return f"{said} Fit {k - 1} and compare the BIC."
    if fit.has_rows:
        return f"{said} result.rehearse() shows how well such a fit recovers both."
    return said


def _rare_alternative(fit: FitResult) -> list[str]:
    problem, shares = fit.problem, fit.shares.to_numpy()
    own_scales = problem.layout.scales is None and not problem.layout.common
    sizes = np.array(problem.equations.own_terms) + own_scales
    rows = fit.nobs * shares / np.maximum(sizes, 1)
    place = int(np.argmin(rows))
    if rows[place] >= FEW_ROWS:
        return []
    each = "parameters" if own_scales else "coefficients"
    return [
        f"alternative {fit.shares.index[place]} is expected in only {100 * shares[place]:.1f}% of "
        f"the rows, {rows[place]:.1f} for each of its {each}"
    ]


def _rare_type(fit: FitResult) -> list[str]:
    rarest, weight = rarest_type(fit)
    if weight >= SMALL_WEIGHT:
        return []
    return [f"{type_label(rarest)} has a weight of only {100 * weight:.1f}%"]


def _why_not(fit: FitResult) -> str | None:
    reason = _why_no_climb(fit)
    if reason is None and fit.dependence.reason is not None:
        return f"{fit.dependence.reason}, and samples are drawn row by row"
    return reason


def _why_no_climb(fit: FitResult) -> str | None:
    """Say why the model with one alternative fewer is not fitted here; None where it is."""
    problem = fit.problem
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


class _Smaller:
    """The model with one alternative fewer; least squares where one is left."""

    def __init__(self, problem: Problem, solver: Any) -> None:
        each = problem.equations.each[:-1]
        self.larger = problem
        self.single = len(each) == 1
        equations = replace(problem.equations, each=each)
        self.problem = problem if self.single else replace(problem, equations=equations)
        self.solution: Solution | None = None
        self.fitted: tuple[Array, float] | None = None
        self.n_parameters = 0
        self.solver = None if self.single else choose_solver(self.problem, solver)[0]

    @property
    def words(self) -> str:
        """What is left."""
        k = self.larger.equations.n_alternatives
        return "1 alternative, least squares" if k == 2 else f"{k - 1} alternatives"

    def loglik(self, rows: Rows, rng: Generator) -> float:
        """Fit rows, and return the log-likelihood; the first rows fitted are those of the fit."""
        engine = Memory().load(self.problem, rows).single_threaded()
        if self.single:
            loglik, n_parameters, fitted = least_squares_fit(self.problem, engine)
            if self.fitted is None:
                self.fitted, self.n_parameters = fitted, n_parameters
            return loglik
        assert self.solver is not None
        found = self.solver.solve(self.problem, engine, rng=rng, progress=False)
        if self.solution is None:
            self.solution, self.n_parameters = found, self.problem.layout.n_free
        return float(found.loglik)

    def draw(self, rows: Rows, rng: Generator) -> Rows:
        """Draw outcomes of the smaller model, as it was fitted to the data."""
        if self.single:
            assert self.fitted is not None
            mean, scale = self.fitted
            return replace(rows, outcome=mean + scale * rng.standard_normal(len(rows)))
        assert self.solution is not None
        reported = self.problem.layout.report(self.solution.free).values
        return redraw(self.problem, reported, rows, rng)


def least_squares_fit(problem: Problem, engine: Engine) -> tuple[float, int, tuple[Array, float]]:
    """Fit all rows by least squares, the model of one alternative.

    Returns
    -------
    log-likelihood, number of parameters, and (fitted means (n,), scale); means are empty where
    rows are not held.
    """
    equation, total = problem.equations.each[0], engine.weight_total
    naive = fit_naive(problem, engine)
    size = len(equation.terms)
    variance = float(naive.scales[0]) ** 2 * max(total - size, 1.0) / total
    fixed = problem.noise.fixed_scales(problem.equations.alternatives)
    scale = float(np.sqrt(variance) if fixed is None else fixed[0])
    loglik = -0.5 * total * (np.log(2.0 * np.pi * scale**2) + variance / scale**2)
    mean = np.empty(0)
    if engine.holds_rows:
        values = [
            np.ones(engine.n_rows) if column == 0 else engine.rows.covariates[:, column - 1]
            for column in equation.columns
        ]
        mean = np.column_stack(values) @ naive.coefficients[0]
    return float(loglik), size + (fixed is None), (mean, scale)


def _bic_gain(fit: FitResult) -> float | None:
    """Return by how much BIC falls, at least, with one fewer; None where not known.

    One climb from the estimates without the rarest alternative ends at or below the optimum, so
    what it gains is gained for sure.
    """
    if not fit.has_rows or not fit.converged or fit.nobs > QUICK:
        return None
    of_types = fit.problem.noise.mixed
    if (why_not_fewer_types(fit) if of_types else _why_no_climb(fit)) is not None:
        return None
    if fit.answers.bic_gain is None:
        climb = bic_gain_of_fewer_types if of_types else _climb_without_rarest
        found = climb(fit)
        fit.answers.bic_gain = np.nan if found is None else found
    return None if np.isnan(fit.answers.bic_gain) else fit.answers.bic_gain


def _climb_without_rarest(fit: FitResult) -> float | None:
    problem, engine = fit.problem, fit.engine_of_rows()
    if problem.equations.n_alternatives == 2:
        loglik, n_parameters, _ = least_squares_fit(problem, engine)
        return fit.bic - fit.facts.bic(loglik, n_parameters)
    each = problem.equations.each
    fewer = replace(problem, equations=replace(problem.equations, each=each[:-1]))
    natural, starts = problem.layout.natural(fit.solution.free), problem.layout.starts
    kept = [j for j in range(len(each)) if j != int(np.argmin(fit.shares.to_numpy()))]
    blocks = [natural[starts[j] : starts[j + 1]] for j in kept]
    start = fewer.layout.gather(np.concatenate([*blocks, natural[starts[-1] :]]))
    return gain_of(fit, fewer, start)


# The model of a fit with one unobserved type fewer: fitted, drawn from, and compared by BIC.


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

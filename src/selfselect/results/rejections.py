"""Tests of the specification, and what is rejected, in words."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.independence import (
    LR,
    SCORE,
    WALD,
    common_scale_test,
    compare_noises,
    selection_ratio_test,
    wald_test_of_correlations,
    wald_test_of_selection,
)
from selfselect.inference.independence import independence_test as score_test_of_independence
from selfselect.inference.simulation import SUBJECTS, Subject
from selfselect.inference.specification import (
    asymptotic_tests,
    bootstrap_test,
    check_replications,
    draw_moments,
    why_no_bootstrap,
    without_law,
)
from selfselect.inference.statistics import (
    FLAG_LEVEL,
    TestResult,
    impossible_test,
    p_value_in_words,
)
from selfselect.noises.correlated import CORRELATION
from selfselect.noises.selection import MILLS
from selfselect.problem.problem import Problem
from selfselect.results.departures import Departures, measure_departures, measured_quickly
from selfselect.results.hypotheses import why_no_likelihood_ratio
from selfselect.results.refit import covariance_of_refit
from selfselect.rules import direction_of, has_bounds
from selfselect.seeds import check_seed
from selfselect.solvers.base import Solution, Solver
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# What is assumed of the noise, tested on a fit.


def normality_test(
    fit: FitResult,
    replications: int = 199,
    *,
    seed: int | None = None,
    progress: bool | None = None,
) -> TestResult:
    """Test the shape of the noise, by conditional moments of orders three and four.

    The null is normal noise, or noise of the shape that the fit assumes; with a selection
    equation, of the outcomes and of the selection. Samples are drawn from the fitted model and
    fitted again; the p-value is the rank of the data's moments among theirs. This test and
    `heteroskedasticity_test` share their samples, so the second one costs nothing.

    Later summaries show this p-value, and `rejections` and `verdict` go by it, where there are
    99 samples or more, and no fewer than in an earlier call: with fewer than 99 no p-value is
    as small as the 0.01 at which they call a test a rejection.

    Parameters
    ----------
    replications : how many samples; 0 for the asymptotic test, which is quick and rejects a
        little too often in small samples. With clusters or probability weights the asymptotic
        test has a statistic but no p-value; samples keep clusters and weights.
    seed : of the samples.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.normality_test(replications=39).rejects()
    False
    """
    return specification_test(
        fit, "normality", replications=replications, seed=seed, progress=progress
    )


def heteroskedasticity_test(
    fit: FitResult,
    replications: int = 199,
    *,
    seed: int | None = None,
    progress: bool | None = None,
) -> TestResult:
    """Test that the variance of an alternative's noise does not depend on covariates.

    Parameters are those of `normality_test`.
    """
    return specification_test(
        fit, "heteroskedasticity", replications=replications, seed=seed, progress=progress
    )


@one_blas_thread()
def specification_test(
    fit: FitResult,
    subject: Subject,
    *,
    replications: int,
    seed: int | None,
    progress: bool | None,
) -> TestResult:
    """Run one test, by bootstrap or (with no replications) asymptotically.

    It is remembered for pages, unless it has too few samples to reject on them.
    """
    check_replications(replications)
    seed = check_seed(seed, optional=True)
    if fit.kept is not None:
        kept = dict(zip(SUBJECTS, fit.kept.noise, strict=True))
        known = kept[subject]
        if known.replications == replications or not (known.possible or known.undecided):
            return known
    answers, quick = fit.answers, _quick_tests(fit)
    if replications == 0:
        return quick[subject]
    if not (quick[subject].possible or quick[subject].undecided):
        return without_law(quick[subject])
    reason = why_no_bootstrap(fit.problem, fit.dependence)
    if reason is not None:
        return impossible_test(without_law(quick[subject]).name, reason)
    if (replications, seed) not in answers.draws:
        # Both tests read the same samples, so the second one costs nothing.
        answers.draws[replications, seed] = draw_moments(
            fit.evidence,
            tests=quick,
            replications=replications,
            seed=seed,
            progress=progress,
        )
    test = bootstrap_test(answers.draws[replications, seed], subject)
    if test.replaces(answers.tests_by_draws.get(subject)):
        answers.tests_by_draws[subject] = test
    return test


@one_blas_thread()
def _quick_tests(fit: FitResult) -> dict[Subject, TestResult]:
    if fit.answers.quick_tests is None:
        fit.answers.quick_tests = asymptotic_tests(fit.evidence)
    return fit.answers.quick_tests


def tests_of_noise(fit: FitResult) -> tuple[TestResult, ...]:
    """Return the tests a page shows: by bootstrap where enough samples were, else asymptotic."""
    if fit.kept is not None:
        return fit.kept.noise
    return tuple(
        fit.answers.tests_by_draws.get(subject) or _quick_tests(fit)[subject]
        for subject in SUBJECTS
    )


def independence_test(fit: FitResult, kind: str | None = None) -> TestResult:
    """Test that noise is independent across alternatives, or of a selection equation's.

    With a selection equation it is the likelihood-ratio test of no correlation. If the
    covariance is robust or clustered it is a Wald test, and after two steps a Wald test of the
    coefficients of the Mills ratios.

    Parameters
    ----------
    kind : ``"score"`` tests at zero correlation, in one pass; ``"wald"`` and ``"lr"`` use a fit
        with correlated noise, and make one if this fit has none. None takes the cheapest: the
        score test, or the Wald test if correlations were estimated. Score and Wald tests
        account for clusters and weights as the fit's standard errors do; ``"lr"`` cannot, and
        is refused then.
    """
    noise = fit.problem.noise
    natural = None if noise.selected else "wald" if noise.correlated else "score"
    if kind in (None, natural):
        if fit.answers.independence is None:
            fit.answers.independence = _cheapest_independence_test(fit)
        return fit.answers.independence
    test = _selection_independence_test if noise.selected else _other_independence_test
    return test(fit, kind)


def _cheapest_independence_test(fit: FitResult) -> TestResult:
    """Test independence in the way that costs least."""
    if fit.kept:
        return fit.kept.independence
    if fit.problem.noise.selected:
        return _selection_independence_test(fit)
    if fit.problem.noise.correlated:
        return wald_test_of_correlations(fit.reported, fit.covariance.matrix)
    return score_test_of_independence(fit.evidence)


def _other_independence_test(fit: FitResult, kind: str) -> TestResult:
    """Test independence across alternatives in a way that needs another fit of the same rows."""
    names = {"score": SCORE, "wald": WALD, "lr": LR}
    if kind not in names:
        raise OptionError(f"There is no test {kind!r} of independence. Use 'score', 'wald', 'lr'.")
    if kind == "score":
        return impossible_test(
            SCORE, "it is made at zero correlation, from a fit with independent noise"
        )
    doubt = why_no_likelihood_ratio(fit) if kind == "lr" else None
    if doubt is not None:
        return impossible_test(names[kind], f"{doubt}; use kind='wald'")

    def covariance_of(problem: Problem, solution: Solution, solver: Solver) -> Array:
        return covariance_of_refit(fit, problem, solution, solver).matrix

    return compare_noises(fit.problem, fit.engine_of_rows(), fit.solution, kind, covariance_of)


def _selection_independence_test(fit: FitResult, kind: str | None = None) -> TestResult:
    """Test that the noise of no outcome is correlated with that of the selection.

    `kind` is ``"lr"`` or ``"wald"``; None takes the former where ratios are chi-square.
    """
    if kind not in (None, "lr", "wald"):
        raise OptionError(
            f"There is no test {kind!r} of independence of a selection. Use 'lr' or 'wald'."
        )
    doubt = why_no_likelihood_ratio(fit)
    if fit.method != "ml":
        doubt = "two-step estimates do not maximise a likelihood"
    elif doubt is None and not fit.converged:
        return impossible_test("Test of independence", "the fit did not converge")
    if kind == "lr" and doubt is not None:
        return impossible_test("Test of independence", f"{doubt}; use kind='wald'")
    if kind != "wald" and doubt is None:
        return selection_ratio_test(fit.llf, fit.llf_independent, len(fit.correlations))
    term = MILLS if fit.method == "two-step" else CORRELATION
    return wald_test_of_selection(fit.reported, fit.covariance.shown, term, fit.covariance.df)


# What the tests of a fit reject, in words, and how much that matters.


LOOKED_AT = 5_000
"""Rows whose outcomes are looked at."""

SKEWED = 1.0
"""Skewness of observed outcomes beyond which their logarithm is suggested; selection alone makes
the largest of two normal outcomes skewed by 0.14."""

NOT_BIAS = "the difference from least squares must not be interpreted as bias"


def assumptions_tested(fit: FitResult) -> dict[str, TestResult]:
    """Return the tests of what the model assumes of its noise, by what that is.

    Correlations that are estimated are no assumption, so a test that they are zero is none.
    """
    names = ("independence", _shape_name(fit), _variance(fit))
    tests = dict(zip(names, (fit.independence_test(), *tests_of_noise(fit)), strict=True))
    if not fit.problem.noise.independent:
        del tests["independence"]
    return tests


def _shape_name(fit: FitResult) -> str:
    shape = fit.problem.noise.margin
    return "normality" if shape.normal else f"the {shape.name} shape"


def rejections(fit: FitResult) -> tuple[str, ...]:
    """List the rejected assumptions on the noise and their effect on the slopes; empty if none.

    A test counts as a rejection where its p-value is at most 0.01, as in `TestResult.rejects`.
    """
    # Whatever a page shows that rests on the model must show these sentences before it.
    if fit.kept is not None and fit.kept.rejections is not None:
        return fit.kept.rejections
    tests = assumptions_tested(fit)
    rejected = {name: test for name, test in tests.items() if test.rejects()}
    if not rejected:
        return ()
    found = departures_of(fit, ask=False)
    said = [*_scale(fit)]
    if "independence" in rejected:
        how, tails = _how(rejected["independence"]), _shape_name(fit) in rejected
        said.append(f"INDEPENDENCE REJECTED: {how}.{_suspects(fit, found, tails, bool(said))}")
    if _shape_name(fit) in rejected:
        how, what = _how(rejected[_shape_name(fit)]), _shape_name(fit).removeprefix("the ").upper()
        said.append(f"{what} REJECTED: {how}. The noise is skewed or has other tails.")
    if _variance(fit) in rejected:
        said.append(f"{_variance(fit).upper()} REJECTED: {_how(rejected[_variance(fit)])}. Robust "
                    f"standard errors do not correct for this{_moving(fit)}.")  # fmt: skip
    said.append(f"{_effect(found)}{_next(fit, found)}")
    return tuple(said)


def departures(fit: FitResult) -> Departures:
    """Simulate noise like that of the residuals, and report its effect on the slopes.

    A test says that the noise is not as assumed, but not whether this matters. Here the model
    is fitted to outcomes simulated from the fit. Their noise has the shape that the residuals
    show and, where the data call for it, their heteroskedasticity and correlations. The summary
    reports the same where it is quick. The random numbers are always the same.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.departures().small
    True
    """
    fit.engine_of_rows()
    found = departures_of(fit, ask=True)
    if not isinstance(found, Departures):
        raise UnsupportedError(f"Departures of the noise cannot be simulated: {found}.")
    return found


def departures_of(fit: FitResult, *, ask: bool) -> Departures | str | None:
    """Return what departures do, remembered; a reason where that cannot be measured.

    Parameters
    ----------
    fit : the fit.
    ask : whether to measure also what takes long; else None stands for it.
    """
    if fit.answers.departures is None:
        if fit.kept is not None:
            return "the fit was loaded from a file, which keeps no rows"
        if not (ask or measured_quickly(fit)):
            return None
        fit.answers.departures = measure_departures(fit)
    return fit.answers.departures


def what_to_try(fit: FitResult) -> str:
    """Say how much it matters that tests reject, and what to try; empty where none rejects."""
    said = rejections(fit)
    if not said:
        return ""
    found = departures_of(fit, ask=False)
    small = isinstance(found, Departures) and found.small
    test = assumptions_tested(fit).get("independence")
    vain = small or rule_in_doubt(fit)
    remedies = [] if vain or test is None or not test.rejects() else _remedies(fit)
    off = (
        ""
        if small
        else ("Results that depend on the model may be off by more than their intervals say. ")
    )
    return off + (f"Try {', '.join(remedies)}. " if remedies else "") + said[-1]


def tests_in_words(fit: FitResult) -> str:
    """Say which assumptions were tested and not rejected, and which were not tested and why."""
    tests = assumptions_tested(fit)
    passed = [name for name, test in tests.items() if test.possible and not test.rejects()]
    said = []
    if passed:
        verb = "is" if len(passed) == 1 else "are"
        names = ", ".join(passed[:-1]) + " and " + passed[-1] if len(passed) > 1 else passed[0]
        said.append(f"{names[0].upper()}{names[1:]} {verb} not rejected (at {_level()}).")
    return " ".join([*said, *untested(fit)])


def untested(fit: FitResult) -> list[str]:
    """Say which assumptions on the noise were not tested, and why."""
    reasons: dict[str, list[str]] = {}
    for name, test in assumptions_tested(fit).items():
        if test.reason is not None:
            reasons.setdefault(test.reason, []).append(name)
    return [f"Not tested: {' and '.join(names)}, {why}." for why, names in reasons.items()]


def _variance(fit: FitResult) -> str:
    """Name what is assumed of the variance."""
    return "constant variance" if not fit.problem.layout.spreads else "form of the variance"


def _moving(fit: FitResult) -> str:
    """Say how a scale may move, or move further, where the library can let it."""
    problem, noise = fit.problem, fit.problem.noise
    if not (noise.takes_formulas and has_bounds(problem.ordered_rule)) or problem.rank is not None:
        return ""
    more = " with more covariates" if problem.layout.spreads else ""
    return f"; let the scale move{more}: noises.{type(noise).__name__}(scale='~ ...')"


def _level() -> str:
    return f"{100 * (1.0 - FLAG_LEVEL):.2g}%"


def _scale(fit: FitResult) -> list[str]:
    """Name first the one restriction that is easily lifted."""
    if fit.kept is not None or not fit.problem.layout.common:
        return []
    if fit.answers.common_scale is None:
        fit.answers.common_scale = common_scale_test(
            fit.problem, fit.engine_of_rows(), fit.solution, fit.dependence
        )
    test = fit.answers.common_scale
    if not test.rejects():
        return []
    return [
        f"ONE SCALE FOR ALL REJECTED: {_how(test)}. That alone can make the other tests reject: "
        f"first fit with noise=selfselect.noises.{_scale_each(fit)}."
    ]


def _scale_each(fit: FitResult) -> str:
    """Return a fit's noise with a scale for every alternative, as code."""
    noise: Any = fit.problem.noise
    each = replace(noise, scale="each")
    own = [field for field in fields(each) if getattr(each, field.name) != field.default]
    written = [f"{field.name}={getattr(each, field.name)!r}" for field in own]
    options = ", ".join(["scale='each'", *written])
    return f"{type(noise).__name__}({options})"


def _suspects(fit: FitResult, found: Departures | str | None, tails: bool, scale: bool) -> str:
    """Say what may be behind a rejected independence, and what to try."""
    if scale:
        return ""
    if isinstance(found, Departures) and found.explained and found.accounted:
        return (
            f" In {found.n_rows} simulated rows the shape and spread of the noise alone account "
            "for it."
        )
    said = (
        " Noise is correlated across alternatives, or choices did not follow the rule alone "
        "(costs, rationing, reasons unrelated to outcomes)."
    )
    if fit.problem.rank not in (None, 1):
        said += (
            " Or the choice is another's: of a ranked rule it is that of the alternative whose "
            f"outcome was recorded, {fit.problem.ordered_rule.words}, not the winner's."
        )
    # What does little harm needs no remedy that may do more; a wrong rule needs no other noise.
    vain = isinstance(found, Departures) and (found.small or not found.explained)
    remedies = [] if vain else _remedies(fit)
    if remedies:
        said += f" Try {', '.join(remedies)}."
    if tails and remedies:
        said += (
            " Heavy tails can look like correlation; correlated noise may then make estimates "
            "worse."
        )
    return said


def _remedies(fit: FitResult) -> list[str]:
    """List what the library has for this fit where independence does not hold."""
    problem = fit.problem
    plain = direction_of(problem.rule) is not None
    remedies = []
    normal = problem.noise.margin.normal
    if has_bounds(problem.ordered_rule) and problem.rank is None and normal:
        remedies += ["noise='correlated'", "noise=noises.SharedShock()"]
    if plain and problem.index == "known":
        if not problem.equations.costs:
            remedies.append("costs")
        if problem.equations.n_alternatives == 2 and not problem.partial and normal:
            remedies.append("switching()")
    return remedies


def _next(fit: FitResult, found: Departures | str | None) -> str:
    """Say what to do next, where the departures may matter and other noises can be fitted."""
    problem = fit.problem
    small = isinstance(found, Departures) and found.small
    fitted = has_bounds(problem.ordered_rule) and problem.rank is None
    if small or not fitted or problem.noise.selected:
        return ""
    said = " NEXT: "
    if _positive_and_skewed(fit):
        said += "the outcome is positive and skewed, so fit its logarithm first; "
    if isinstance(found, Departures) and not found.explained:
        return (
            f"{said}selfselect.choose_noise() shows whether the rule stays in doubt under other "
            f"noise models. If it does, {without_the_rule(fit)}"
        )
    said += (
        "selfselect.choose_noise() fits the model under other shapes, moving scales and "
        "correlated noise, and shows how much the answer depends on them. "
    )
    if fit.facts.panel is None:
        said += "Where people are observed more than once, give panel=. "
    return said + "Where no noise helps, the rule may be wrong."


def without_the_rule(fit: FitResult) -> str:
    """Say what to try where no noise explains the fit, so that its rule is in doubt (a clause)."""
    problem = fit.problem
    closer = "least squares may be closer to the truth than fits that use it."
    if problem.index != "known" or problem.rank is not None:
        return closer
    door = "switching()" if problem.equations.n_alternatives == 2 else "multinomial_switching()"
    return f"{door} lets choices follow an equation of their own instead of the rule, and {closer}"


def rule_in_doubt(fit: FitResult) -> bool | None:
    """Say whether no noise explains how a fit differs from least squares; None if not measured."""
    found = departures_of(fit, ask=False)
    return not found.explained if isinstance(found, Departures) else None


def _positive_and_skewed(fit: FitResult) -> bool:
    """Say whether observed outcomes are positive, no logarithm yet, and far from symmetric."""
    if fit.kept is not None or "log" in fit.problem.equations.outcome:
        return False
    outcome = fit.engine_of_rows().sample(LOOKED_AT, np.random.default_rng(0)).rows.outcome
    if outcome is None or np.isnan(outcome).all() or np.nanmin(outcome) <= 0:
        return False
    away = outcome - np.nanmean(outcome)
    return bool(np.nanmean(away**3) > SKEWED * np.nanmean(away**2) ** 1.5)


def _effect(found: Departures | str | None) -> str:
    """Say how much the departures matter, or that this is not known."""
    if isinstance(found, Departures):
        said = f"EFFECT ON SLOPES {found.sentence}"
        return said if found.small else f"{said} So {NOT_BIAS}."
    if found is None:
        return f"EFFECT ON SLOPES UNKNOWN: result.departures() simulates it. Until then {NOT_BIAS}."
    return f"EFFECT ON SLOPES UNKNOWN: no grade is computed, since {found}. So {NOT_BIAS}."


def _how(test: TestResult) -> str:
    small = p_value_in_words(test.p_value)
    if test.replications:
        return f"bootstrap of moments, {small}"
    return f"{'score' if test.name.startswith('Score') else 'moment'} test, {small}"

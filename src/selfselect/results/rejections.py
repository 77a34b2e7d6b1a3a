"""Facts that pages say first; the tests of what is assumed of the noise, and their rejections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from selfselect.inference.independence import common_scale_test
from selfselect.inference.simulation import SUBJECTS, Subject
from selfselect.inference.specification import (
    MomentDraws,
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
from selfselect.results.departures import Departures, measure_departures, measured_quickly
from selfselect.rules import direction_of, has_bounds
from selfselect.seeds import check_seed
from selfselect.solvers.base import Status
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.estimates import Fitted
    from selfselect.results.fit_result import FitResult


# Facts of a fit that its pages say first, and that its file keeps.


Kind = Literal[
    "not converged", "rejected", "effect on slopes", "too many", "hardly distinct", "fragile",
    "boundary", "impossible correlation", "other optima", "nearly collinear", "no standard errors",
    "weak exclusions", "weakly determined", "few clusters", "not tested", "noise",
]  # fmt: skip

Grade = Literal["grave", "weak", "note"]
"""Grave facts stand first on every page; weak ones at the foot of the summary, and first where
only words are; notes at the foot."""


@dataclass(frozen=True)
class PageFact:
    """A fact that no page of a fit may leave out.

    Attributes
    ----------
    kind : which fact.
    grade : how much it matters.
    words : what is so, and why it matters.
    next_step : what to do about it; empty where the words say it, or nothing can be done.
    """

    kind: Kind
    grade: Grade
    words: str
    next_step: str = ""

    @property
    def sentence(self) -> str:
        """All that a page says of it."""
        return f"{self.words} {self.next_step}".rstrip()


def sentences(facts: Iterable[PageFact], *grades: Grade) -> tuple[str, ...]:
    """Return what pages say of the facts of some grades; of all where none is named."""
    return tuple(one.sentence for one in facts if not grades or one.grade in grades)


def not_converged(fit: Fitted) -> list[PageFact]:
    """Warn of a fit that did not converge."""
    if fit.converged:
        return []
    words = f"NOT CONVERGED. {fit.status} Do not use these numbers."
    step = "The page 'When a fit does not converge' of the documentation says what to try."
    return [PageFact("not converged", "grave", words, step)]


def no_standard_errors(fit: FitResult) -> list[PageFact]:
    """Say why a fit has no standard errors, where it has none."""
    if np.isfinite(fit.covariance.matrix).all():
        return []
    step = ""
    if fit.solution.status is Status.AT_BOUNDARY:
        why = "the estimate is at a boundary of what is possible."
    elif fit.method == "ml" and not np.isfinite(fit.solution.information).all():
        why = (
            f"{fit.solution.solver_name} does not maximise the likelihood, so its estimates have "
            "no information matrix."
        )
        step = "Use covariance='bootstrap'."
    else:
        why = (
            "the information matrix is singular, so some parameters are not determined by this "
            "data."
        )
    return [PageFact("no standard errors", "grave", f"NO STANDARD ERRORS: {why}", step)]


# What is assumed of the noise, tested on a fit.


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
    if "asymptotic" not in fit.memory:
        fit.memory["asymptotic"] = asymptotic_tests(fit.evidence)
    quick: dict[Subject, TestResult] = fit.memory["asymptotic"]
    if replications == 0:
        return quick[subject]
    if not (quick[subject].possible or quick[subject].undecided):
        return without_law(quick[subject])
    reason = why_no_bootstrap(fit.problem, fit.dependence)
    if reason is not None:
        return impossible_test(without_law(quick[subject]).name, reason)
    key = ("draws", replications, seed)
    if key not in fit.memory:
        # Both tests read the same samples, so the second one costs nothing.
        fit.memory[key] = draw_moments(
            fit.evidence,
            tests=quick,
            replications=replications,
            seed=seed,
            progress=progress,
        )
    draws = fit.memory[key]
    assert isinstance(draws, MomentDraws)
    test = bootstrap_test(draws, subject)
    if test.replaces(fit.memory.get(subject)):
        fit.memory[subject] = test
    return test


def tests_of_noise(fit: FitResult) -> tuple[TestResult, ...]:
    """Return the tests a page shows: by bootstrap where enough samples were, else asymptotic."""
    if fit.kept is not None:
        return fit.kept.noise
    return tuple(
        fit.memory[subject]
        if subject in fit.memory
        else specification_test(fit, subject, replications=0, seed=None, progress=False)
        for subject in SUBJECTS
    )


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
    """Say which assumptions on the noise are rejected and what that does; empty if none is."""
    return sentences(rejected(fit))


def rejected(fit: FitResult) -> tuple[PageFact, ...]:
    """Return the facts that assumptions on the noise are rejected, and what that does, at last.

    Whatever a page shows that rests on the model must show them before it.
    """
    if fit.kept is not None:
        kinds = ("rejected", "effect on slopes")
        return tuple(one for one in fit.kept.page_facts if one.kind in kinds)
    tests = assumptions_tested(fit)
    failed = {name: test for name, test in tests.items() if test.rejects()}
    if not failed:
        return ()
    found, shape = departures_of(fit, ask=False), _shape_name(fit)
    words = _scale(fit)
    if "independence" in failed:
        suspects = _suspects(fit, found, shape in failed, bool(words))
        words.append(f"INDEPENDENCE REJECTED: {_how(failed['independence'])}.{suspects}")
    if shape in failed:
        name, how = shape.removeprefix("the ").upper(), _how(failed[shape])
        words.append(f"{name} REJECTED: {how}. The noise is skewed or has other tails.")
    if _variance(fit) in failed:
        name, how = _variance(fit).upper(), _how(failed[_variance(fit)])
        words.append(
            f"{name} REJECTED: {how}. Robust standard errors do not correct for this{_moving(fit)}."
        )
    return (
        *(PageFact("rejected", "grave", one) for one in words),
        PageFact("effect on slopes", "grave", _effect(found), _next(fit, found)),
    )


def departures_of(fit: FitResult, *, ask: bool) -> Departures | str | None:
    """Return what departures do, remembered; a reason where that cannot be measured.

    Parameters
    ----------
    fit : the fit.
    ask : whether to measure also what takes long; else None stands for it.
    """
    if "departures" not in fit.memory:
        if fit.kept is not None:
            return "the fit was loaded from a file, which keeps no rows"
        if not (ask or measured_quickly(fit)):
            return None
        fit.memory["departures"] = measure_departures(fit)
    found: Departures | str = fit.memory["departures"]
    return found


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
    if not fit.problem.layout.common:
        return []
    if "scale" not in fit.memory:
        fit.memory["scale"] = common_scale_test(
            fit.problem, fit.engine_of_rows(), fit.solution, fit.dependence
        )
    test = fit.memory["scale"]
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
    said = "NEXT: "
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
    if "log" in fit.problem.equations.outcome:
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

"""What is assumed of the noise, tested on a fit, and the words for what is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selfselect.inference.moments import SUBJECTS, Subject
from selfselect.inference.specification import (
    Dependence,
    MomentDraws,
    asymptotic_tests,
    bootstrap_test,
    check_replications,
    draw_moments,
    why_no_bootstrap,
    why_not,
)
from selfselect.inference.statistics import TestResult, format_p_value, impossible_test
from selfselect.noises import Independent

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["in_between", "rejections", "specification_test", "tests_of_noise"]

NOT_BIAS = "the difference from least squares must not be read as bias"

ASYMPTOTIC_LEVEL = 0.99
"""Confidence at which an asymptotic test, which nobody asked for, is called a rejection on a page:
at 95% the tests of every page together would stamp one sound fit in seven."""


def specification_test(
    fit: FitResult,
    subject: Subject,
    *,
    replications: int,
    seed: int | None,
    progress: bool | None,
) -> TestResult:
    """Run one test, by bootstrap or (with no replications) asymptotically; it is remembered."""
    check_replications(replications)
    if fit.kept is not None:
        kept = dict(zip(SUBJECTS, fit.kept.noise, strict=True))
        known = kept[subject]
        if known.replications == replications or not (known.possible or known.undecided):
            return known
    engine = fit.engine_of_rows()
    facts = fit.facts
    dependence = Dependence(fit.cluster_sizes, facts.cluster, facts.weights_kind)
    if replications == 0:
        if "asymptotic" not in fit.memory:
            fit.memory["asymptotic"] = asymptotic_tests(
                fit.problem, engine, fit.solution, dependence
            )
        found: TestResult = fit.memory["asymptotic"][subject]
        return found
    reason = why_not(fit.problem, fit.solution, subject) or why_no_bootstrap(dependence)
    if reason is not None:
        return impossible_test(f"Conditional-moment test of {subject}", reason)
    key = ("draws", replications, seed)
    if key not in fit.memory:
        # Both tests read the same samples, so the second one costs nothing.
        fit.memory[key] = draw_moments(
            fit.problem,
            engine,
            fit.solution,
            dependence,
            replications=replications,
            seed=seed,
            progress=progress,
        )
    draws = fit.memory[key]
    assert isinstance(draws, MomentDraws)
    test = bootstrap_test(draws, subject)
    fit.memory[subject] = test
    return test


def tests_of_noise(fit: FitResult) -> tuple[TestResult, ...]:
    """Return the tests a page shows: by bootstrap where they were run, else asymptotic."""
    if fit.kept is not None:
        return fit.kept.noise
    return tuple(
        fit.memory[subject]
        if subject in fit.memory
        else specification_test(fit, subject, replications=0, seed=None, progress=False)
        for subject in SUBJECTS
    )


def rejections(fit: FitResult) -> tuple[str, ...]:
    """Say of every assumption on the noise that is rejected what it means; empty if none is.

    Whatever a page shows that rests on the model must show these sentences before it.
    """
    said = []
    independence = fit.independence_test()
    if independence.rejects() and isinstance(fit.problem.noise, Independent):
        said.append(
            "INDEPENDENCE REJECTED: noise is not independent across alternatives (score test, "
            f"p = {format_p_value(independence.p_value)}). The model below is wrong in that "
            f"respect, and {NOT_BIAS}."
        )
    normality, variance = tests_of_noise(fit)
    if _rejects(normality):
        said.append(
            f"NORMALITY REJECTED: the noise is skewed or has other tails ({_how(normality)}). The "
            f"outcomes nobody saw were filled in by the normal shape, and {NOT_BIAS}."
            + (" A wrong shape alone can make the test of independence reject." if said else "")
        )
    if _rejects(variance):
        said.append(
            "CONSTANT VARIANCE REJECTED: the noise scatters more in some rows than in others "
            f"({_how(variance)}). Who is selected depends on that scatter, so robust standard "
            f"errors are no remedy, and {NOT_BIAS}."
        )
    return tuple(said)


def in_between(fit: FitResult) -> bool:
    """Say whether a quick test is below 5% and not below what counts as a rejection."""
    return any(test.rejects() and not _rejects(test) for test in tests_of_noise(fit))


def _rejects(test: TestResult) -> bool:
    return test.rejects(0.95 if test.replications else ASYMPTOTIC_LEVEL)


def _how(test: TestResult) -> str:
    by = "bootstrap" if test.replications else "asymptotic"
    return f"{by} conditional-moment test, p = {format_p_value(test.p_value)}"

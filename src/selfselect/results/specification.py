"""What is assumed of the noise, tested on a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selfselect.inference.moments import SUBJECTS, Subject
from selfselect.inference.specification import (
    MomentDraws,
    asymptotic_tests,
    bootstrap_test,
    check_replications,
    draw_moments,
    why_no_bootstrap,
    why_not,
)
from selfselect.inference.statistics import TestResult, impossible_test
from selfselect.seeds import check_seed

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["specification_test", "tests_of_noise"]


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
    seed = check_seed(seed, optional=True)
    if fit.kept is not None:
        kept = dict(zip(SUBJECTS, fit.kept.noise, strict=True))
        known = kept[subject]
        if known.replications == replications or not (known.possible or known.undecided):
            return known
    engine = fit.engine_of_rows()
    dependence = fit.dependence
    if replications == 0:
        if "asymptotic" not in fit.memory:
            fit.memory["asymptotic"] = asymptotic_tests(
                fit.problem, engine, fit.solution, dependence
            )
        found: TestResult = fit.memory["asymptotic"][subject]
        return _of_further_covariates(fit, subject, found)
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
    test = _of_further_covariates(fit, subject, bootstrap_test(draws, subject))
    fit.memory[subject] = test
    return test


def _of_further_covariates(fit: FitResult, subject: Subject, test: TestResult) -> TestResult:
    """Say that only covariates that move no scale as it is are tested, where others do."""
    if subject != "heteroskedasticity" or not fit.problem.layout.spreads or not test.null:
        return test
    return replace(test, null="a variance that further covariates do not move")


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

"""What is assumed of the noise, tested on a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selfselect.inference.moments import SUBJECTS, Subject
from selfselect.inference.specification import (
    MomentDraws,
    asymptotic_tests,
    bootstrap_test,
    check_replications,
    draw_moments,
    why_no_bootstrap,
    without_law,
)
from selfselect.inference.statistics import TestResult, impossible_test
from selfselect.seeds import check_seed
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["specification_test", "tests_of_noise"]


@one_blas_thread()
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

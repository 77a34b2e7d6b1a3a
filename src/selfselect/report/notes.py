"""Sentences at the foot of a summary: on standard errors, intervals, stars and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.design import DataFacts
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import FLAG_LEVEL
from selfselect.report.numbers import STARS
from selfselect.results.specification import tests_of_noise

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "PSEUDO_LIKELIHOOD",
    "errors_in_words",
    "note_on_two_values",
    "notes_on_errors",
    "notes_on_stars",
    "notes_on_tests",
    "profile_facts",
    "profile_notes",
]

FEWEST_MEASURED = 8
"""Clusters of the smallest design in which coverage was measured."""

DOMINATED = 10
"""Effective clusters below which unequal sizes were measured to cost coverage."""

PSEUDO_LIKELIHOOD = (
    "Probability weights are scaled to average 1: the log-likelihood, AIC and BIC are those of a "
    "pseudo-likelihood: use them for description, not for tests."
)


def errors_in_words(covariance: Covariance) -> str:
    """Say how standard errors were made, or that there are none."""
    return covariance.description if np.isfinite(covariance.matrix).any() else "none"


def notes_on_errors(covariance: Covariance, *, measured: bool = True) -> list[str]:
    """Say what a reader should know of standard errors and intervals.

    `measured` says whether coverage with few clusters is known for models of this kind.
    """
    notes = []
    if covariance.few_clusters:
        notes.append(_few_clusters(covariance, measured))
    if covariance.sandwich:
        notes.append(
            "Robust standard errors allow for a misspecified variance; they do not repair "
            "estimates that misspecification makes inconsistent."
        )
    return notes


def _few_clusters(covariance: Covariance, measured: bool) -> str:
    corrected = covariance.kind != "bootstrap"
    how = "standard errors are corrected for their small number, and " if corrected else ""
    effective = covariance.df + 1
    degrees = "1 degree" if covariance.df == 1 else f"{covariance.df:.4g} degrees"
    said = (
        f"Few clusters ({covariance.clusters_in_words}): {how}intervals and p-values are those of "
        f"Student's t with {degrees} of freedom."
    )
    if not measured or round(effective) < FEWEST_MEASURED:
        where = f"with fewer than {FEWEST_MEASURED} clusters" if measured else "in such models"
        said += f" The coverage of these intervals {where} was not measured."
    else:
        said += (
            " Intervals of coefficients then cover at about their level; those of scales cover "
            "less."
        )
        if corrected:
            said += " covariance='bootstrap' draws whole clusters and covers about as well."
    if covariance.unequal_clusters and effective < DOMINATED:
        said += (
            " Where a few clusters hold most of the rows, intervals cover less than their level: "
            "in simulations of selection models 83 to 93% at a level of 95%."
        )
    return said


def note_on_two_values(outcome: str, facts: DataFacts) -> str:
    """Say that an outcome has two values alone; the sentence goes on, or ends."""
    low, high = facts.outcome_range
    return (
        f"The outcome {outcome} has two values, {low:g} and {high:g}: this is a linear model of it"
    )


def profile_facts(intervals: str) -> tuple[tuple[str, str], ...]:
    """Say how intervals were made, where it is not by standard errors."""
    return () if intervals == "wald" else (("Intervals", "profile likelihood"),)


def profile_notes(fit: Any, level: float, intervals: str) -> tuple[str, ...]:
    """Say which ends of profile intervals are open or missing, and why."""
    if intervals == "wald":
        return ()
    reasons = fit.conf_int(level, method=intervals)["reason"]
    return tuple(
        f"The interval of {name}: {reason}."
        for name, reason in zip(fit.names, reasons, strict=True)
        if reason
    )


def notes_on_stars(stars: bool) -> tuple[str, ...]:
    """Say what stars mean, where there are any."""
    return (f"{STARS}.",) if stars else ()


def notes_on_tests(fit: FitResult) -> list[str]:
    """Say of dependence, shape and spread of the noise what a test says, or why there is none."""
    tests = (fit.independence_test(), *tests_of_noise(fit))
    notes = [f"{test}.".replace("..", ".") for test in tests]
    if any(test.possible for test in tests):
        notes.append(f"A test rejects where p is at most {1.0 - FLAG_LEVEL:.2g}.")
    return notes

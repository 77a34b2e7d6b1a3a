"""Tests of a fit with a selection equation, the Roy model inside switching among them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import CORRELATION, MILLS
from selfselect.data.equations import SCALE
from selfselect.inference.statistics import (
    TestResult,
    chi_square_test,
    impossible_test,
    wald_statistic_test,
)
from selfselect.results.fit_result import FitResult
from selfselect.results.hypotheses import (
    linear_restrictions,
    wald_test,
    why_no_likelihood_ratio,
)
from selfselect.rules import Maximum, Minimum

if TYPE_CHECKING:
    from selfselect.classics.result import SelectionResult

__all__ = ["independence_test", "lr_test", "wald_test_of_known"]

Array = NDArray[np.float64]

LIKELIHOOD_RATIO = "Likelihood-ratio test"


def wald_test_of_known(fit: SelectionResult, hypothesis: Any) -> TestResult:
    """Test linear restrictions on parameters that have a standard error."""
    matrix, _, _ = linear_restrictions(hypothesis, fit.names)
    covariance = fit.covariance.matrix
    unknown = ~np.isfinite(np.diag(covariance))
    named = [name for i, name in enumerate(fit.names) if unknown[i] and matrix[:, i].any()]
    if named:
        reason = f"{', '.join(named)} has no standard error"
        return impossible_test("Wald test", reason)
    known = np.where(unknown[:, None] | unknown[None, :], 0.0, covariance)
    return wald_test(fit.values, replace(fit.covariance, matrix=known), fit.names, hypothesis)


def independence_test(fit: SelectionResult) -> TestResult:
    """Test that every correlation with the selection is zero."""
    null = "selection is unrelated to the noise of the outcomes"
    df = len(fit.design.equations)
    if fit.method == "ml" and why_no_likelihood_ratio(fit) is None:
        statistic = 2.0 * (fit.llf - fit.llf_independent)
        if not fit.converged:
            return impossible_test("Test of independence", "the fit did not converge")
        return chi_square_test(f"{LIKELIHOOD_RATIO} of independence", max(statistic, 0.0), df, null)
    name = "Wald test of independence"
    term = MILLS if fit.method == "two-step" else CORRELATION
    at = [i for i, (_, own) in enumerate(fit.reported.labels) if own == term]
    values, spread = fit.values[at], fit.covariance.matrix[np.ix_(at, at)]
    if not np.isfinite(spread).all():
        return impossible_test(name, "a correlation is at its boundary")
    if term == CORRELATION:
        # On Fisher's scale, where the normal approximation is better.
        slope = 1.0 / (1.0 - values**2)
        values, spread = np.arctanh(values), spread * np.outer(slope, slope)
    statistic = float(values @ np.linalg.solve(spread, values))
    return wald_statistic_test(name, statistic, df, null, fit.covariance.df)


def lr_test(fit: SelectionResult, other: Any) -> TestResult:
    """Test the smaller of two nested fits of the same rows against the larger."""
    roy = isinstance(other, FitResult)
    if roy:
        small, large = other, fit
        reason = _roy_does_not_nest(other, fit)
    elif isinstance(other, type(fit)):
        small, large = sorted((fit, other), key=lambda one: one.n_parameters)
        reason = _not_nested(small, large)
    else:
        return impossible_test(LIKELIHOOD_RATIO, f"{type(other).__name__} is not a fit of ours")
    reason = reason or _not_comparable(small, large, fit)
    if reason is not None:
        return impossible_test(LIKELIHOOD_RATIO, reason)
    df = large.n_parameters - small.n_parameters
    null = f"the restrictions of the smaller model ({df})"
    if roy:
        direction = "largest" if isinstance(small.problem.rule, Maximum) else "smallest"
        null = f"the Roy model: the {direction} outcome is seen ({df} restrictions)"
    statistic = 2.0 * (large.llf - small.llf)
    return chi_square_test(LIKELIHOOD_RATIO, max(statistic, 0.0), df, null)


def _not_comparable(small: Any, large: Any, fit: SelectionResult) -> str | None:
    if small.facts.n_rows != large.facts.n_rows or not np.isclose(
        small.facts.weight_total, large.facts.weight_total
    ):
        return "the two fits are of different rows"
    if small.facts.outcome_range != large.facts.outcome_range:
        return "the two fits are of different rows or outcomes"
    if not (small.converged and large.converged):
        return "a fit did not converge"
    if fit.method != "ml" or not np.isfinite([small.llf, large.llf]).all():
        return "an estimate is not one of maximum likelihood"
    doubt = why_no_likelihood_ratio(small) or why_no_likelihood_ratio(large)
    if doubt is not None:
        return f"{doubt}; use wald_test"
    if fit.boundary:
        return (
            "a correlation is at its boundary, where twice the difference of log-likelihoods is "
            "not chi-square"
        )
    if small.n_parameters == large.n_parameters:
        return "both fits have the same number of parameters"
    if large.llf < small.llf - 1e-6:
        return "the larger model fits worse, so it does not nest the smaller one"
    return None


def _not_nested(small: SelectionResult, large: SelectionResult) -> str | None:
    if small.model != large.model or small.method != large.method:
        return "the fits are of different models or methods"
    if small.facts.counts != large.facts.counts:
        return "the two fits are of different rows"
    if not set(small.reported.labels) <= set(large.reported.labels):
        return "the terms of the smaller model are not all in the larger one"
    return (small.boundary and "a correlation is at its boundary") or None


def _roy_does_not_nest(roy: FitResult, fit: SelectionResult) -> str | None:
    """Say why a fit of `selfselect.fit` is no special case of a switching regression, or None.

    Under the Roy model the index is the difference of both outcomes over its standard deviation,
    so every covariate of either outcome is one of the selection, and the correlations follow from
    the noise.
    """
    problem = roy.problem
    if fit.model != "switching":
        return "the Roy model has two outcomes: compare it with selfselect.switching"
    if problem.index != "known" or problem.equations.n_alternatives != 2:
        return "the Roy model needs two alternatives, and who was seen"
    known = roy.coding.known
    plain = not any(cost is not None for cost in known.costs) and not any(known.available)
    if type(problem.rule) not in (Maximum, Minimum) or not plain:
        return "only the plain maximum or minimum of two outcomes is a special case of switching"
    if problem.equations.outcome != fit.facts.outcome or roy.facts.chosen != fit.facts.chosen:
        return "the two fits are of different outcomes or choices"
    strange = _not_of_the_noise(roy)
    if strange:
        return f"the parameters {', '.join(strange)} have no counterpart in a switching regression"
    sides = {str(equation.label): set(equation.side.terms) for equation in fit.design.equations}
    counts = {str(label): count for label, count in fit.counts.items()}
    selection = set(fit.design.selection.terms)
    for equation, count in zip(problem.equations.each, roy.facts.counts, strict=True):
        label = str(equation.alternative)
        if counts.get(label) != count:
            return "the two fits are of different rows"
        if not set(equation.terms) <= sides[label]:
            return f"the switching equation of {label} lacks terms of the Roy model"
        if not set(equation.terms) <= selection:
            lacking = sorted(set(equation.terms) - selection)
            return (
                f"the selection equation lacks {', '.join(lacking)}, on which selection depends "
                "under the Roy model"
            )
    return None


def _not_of_the_noise(roy: FitResult) -> list[str]:
    """Name parameters that are neither coefficients of outcomes nor of their noise."""
    terms = {term for equation in roy.problem.equations.each for term in equation.terms}
    noise = (SCALE, CORRELATION)
    return [
        name
        for name, (_, term) in zip(roy.names, roy.reported.labels, strict=True)
        if term not in terms and not term.startswith(noise)
    ]

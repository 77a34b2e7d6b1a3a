"""Tests of hypotheses, also of the Roy model inside a switching regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import SCALE
from selfselect.inference.covariance import Covariance
from selfselect.inference.independence import (
    no_shock_test,
    tests_no_shock,
)
from selfselect.inference.statistics import (
    TestResult,
    chi_square_test,
    impossible_test,
    wald_statistic_test,
)
from selfselect.noises.correlated import CORRELATION
from selfselect.results.expressions import linear_restrictions
from selfselect.rules import direction_of, picks

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# The Roy model inside a switching regression: when it is a special case of it.


def why_not_roy(roy: FitResult, fit: FitResult) -> str | None:
    """Say why a fit of `selfselect.fit` is no special case of a switching regression, or None.

    Under the Roy model the index is the difference of both outcomes, less costs, over its standard
    deviation, so every covariate of either outcome and of the costs is one of the selection, and
    the correlations follow from the noise. What a switching regression has more is then two
    correlations for the one of the noises, or for none, and the coefficients of the index that
    the costs lack.
    """
    problem, equations = roy.problem, fit.problem.equations
    if fit.model != "switching":
        return "the Roy model has two outcomes: compare it with selfselect.switching"
    if problem.index != "known" or problem.equations.n_alternatives != 2:
        return "the Roy model needs two alternatives, and a record of the chosen one"
    known = roy.coding.known
    plain = not any(cost is not None for cost in known.costs) and not any(known.available)
    if direction_of(problem.rule) is None or not plain:
        return (
            "only the maximum or minimum of two outcomes, plain or net of estimated costs, is a "
            "special case of switching"
        )
    if not problem.noise.margin.normal:
        return f"noise is {problem.noise.margin.name}, and that of a switching regression is normal"
    same = roy.problem.equations.outcome == equations.outcome
    if not same or roy.facts.chosen != fit.facts.chosen:
        return "the two fits are of different outcomes or choices"
    others = _not_of_the_noise(roy)
    if others:
        return f"the parameters {', '.join(others)} have no counterpart in a switching regression"
    assert equations.selection is not None
    sides = {str(one.alternative): set(one.terms) for one in equations.each}
    counts = {str(label): count for label, count in fit.counts.items()}
    selection = set(equations.selection.terms)
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
    for cost in problem.equations.costs:
        lacking = sorted(set(cost.terms) - selection)
        if lacking:
            return f"the selection equation lacks {', '.join(lacking)}, on which costs depend"
    return None


def _not_of_the_noise(roy: FitResult) -> list[str]:
    """Name parameters that are neither coefficients of outcomes nor of their noise."""
    equations = roy.problem.equations
    terms = {term for equation in equations.each for term in equation.terms}
    terms |= {f"cost: {term}" for cost in equations.costs for term in cost.terms}
    noise = (SCALE, CORRELATION)
    return [
        name
        for name, (_, term) in zip(roy.names, roy.reported.labels, strict=True)
        if term not in terms and not term.startswith(noise)
    ]


# Tests of hypotheses about a fit: Wald tests of linear restrictions, likelihood ratios.


Array = NDArray[np.float64]

MOST_LOGLIK_ERROR = 0.05
"""Monte-Carlo error of a difference of log-likelihoods above which no ratio is read: chi-square
statistics would be off by twice as much."""


def wald_test(
    values: Array, covariance: Covariance, names: Sequence[str], hypothesis: Any
) -> TestResult:
    """Test linear restrictions by the Wald statistic.

    Parameters
    ----------
    values, covariance : the estimates. Where clusters leave few degrees of freedom the statistic,
        over the number of restrictions, is referred to F.
    names : of the parameters, ``alternative:term``.
    hypothesis : text such as ``"hunting:height = fishing:height"``, several of them separated by
        commas or in a list, or a matrix R with R b = 0 under the null.
    """
    matrix, constant, null = linear_restrictions(hypothesis, names)
    name = "Wald test"
    if not np.isfinite(covariance.matrix).all():
        return impossible_test(name, "the covariance of the estimates is not known")
    unknown = [names[i] for i in covariance.missing if matrix[:, i].any()]
    if unknown:
        return impossible_test(name, f"{', '.join(unknown)} has no standard error")
    rank = int(np.linalg.matrix_rank(matrix))
    gap, matrix = _gaps(matrix, constant, values, names)
    spread = matrix @ covariance.matrix @ matrix.T
    if rank < len(matrix):
        return impossible_test(name, "some restrictions repeat or contradict others")
    restrictions = "1 restriction" if rank == 1 else f"{rank} restrictions"
    if rank > covariance.df:
        reason = f"{restrictions} cannot be tested with {covariance.df + 1:.3g} clusters"
        if covariance.unequal_clusters:
            reason += f" of equal size, which the {covariance.n_clusters} are worth"
        return impossible_test(name, reason)
    sizes = np.sqrt(np.diag(spread))
    if not (sizes > 0).all() or np.linalg.matrix_rank(spread / np.outer(sizes, sizes)) < rank:
        remedy = "; draw more samples" if covariance.kind == "bootstrap" else ""
        vary = f"{restrictions} varies" if rank == 1 else f"{restrictions} vary together"
        return impossible_test(
            name, f"the covariance ({covariance.description}) does not show how {vary}{remedy}"
        )
    statistic = float(gap @ np.linalg.solve(spread, gap))
    return wald_statistic_test(name, statistic, rank, null, covariance.df)


def _gaps(
    matrix: Array, constant: Array, values: Array, names: Sequence[str]
) -> tuple[Array, Array]:
    """Return by how much restrictions fail, and the derivatives of that in the parameters.

    A restriction on one correlation alone is read on Fisher's scale, as its p-value in tables is.
    """
    gap, slopes = matrix @ values - constant, matrix.copy()
    for i, row in enumerate(matrix):
        involved = np.flatnonzero(row)
        if len(involved) != 1 or not names[involved[0]].endswith(f":{CORRELATION}"):
            continue
        value, wanted = values[involved[0]], constant[i] / row[involved[0]]
        if abs(value) < 1 and abs(wanted) < 1:
            gap[i] = np.arctanh(value) - np.arctanh(wanted)
            slopes[i, involved[0]] = 1.0 / (1.0 - value**2)
    return gap, slopes


def lr_test(fit: FitResult, other: Any) -> TestResult:
    """Test two nested fits of the same rows against each other by their likelihood ratio.

    With clusters, robust standard errors or probability weights use `wald_test` instead. A fit
    of `selfselect.switching` nests the Roy model, which is `selfselect.fit` with two
    alternatives and ``rule="max"`` or ``"min"``, with or without estimated costs.
    `restrictions` has these tests on one page.
    """
    name = "Likelihood-ratio test"
    if not hasattr(other, "problem"):
        return impossible_test(name, f"{type(other).__name__} is not a fit of selfselect")
    small, large = sorted((fit, other), key=lambda each: each.n_parameters)
    if fit.problem.noise.selected != other.problem.noise.selected:
        # A Roy model inside a switching regression, whichever has more parameters.
        small, large = sorted((fit, other), key=lambda each: each.problem.noise.selected)
    reason = _not_comparable(small, large)
    if reason is not None:
        return impossible_test(name, reason)
    df = large.n_parameters - small.n_parameters
    statistic = 2.0 * (large.llf - small.llf)
    if large.problem.noise.selected and not small.problem.noise.selected:
        which = picks(small.problem.rule)
        net = ", net of estimated costs" if small.problem.equations.costs else ""
        null = f"the Roy model: {which} outcome is observed{net} ({df} restrictions)"
        return chi_square_test(name, max(statistic, 0.0), df, null)
    if tests_no_shock(small.problem, large.problem):
        return no_shock_test(name, large.problem, max(statistic, 0.0), df)
    null = f"the restrictions of the smaller model ({df})"
    return chi_square_test(name, max(statistic, 0.0), df, null)


def why_no_likelihood_ratio(fit: Any) -> str | None:
    """Say why ratios of a fit's likelihood are not chi-square, or None where they are.

    It is for fits of `selfselect.fit` and for those with a selection equation.
    """
    if fit.facts.weights_kind == "probability":
        return (
            "with probability weights the likelihood is not that of a sample, so its ratios are "
            "not chi-square"
        )
    by_person = fit.dependence.by_person
    if fit.facts.cluster is not None and not by_person:
        return (
            f"rows are clustered by {fit.facts.cluster} and the likelihood takes them as "
            "independent, so its ratios are not chi-square"
        )
    # Errors by person are those of a panel by default; its likelihood takes people together, too.
    if fit.covariance.sandwich and not (by_person and fit.covariance.kind == "clustered"):
        return (
            "a robust covariance allows for a likelihood that is wrong, and ratios of a wrong one "
            "are not chi-square"
        )
    return None


def _not_comparable(small: FitResult, large: FitResult) -> str | None:
    """Say why no likelihood ratio of two fits can be read, or None where it can."""
    is_roy = large.problem.noise.selected and not small.problem.noise.selected
    if is_roy:
        reason = why_not_roy(small, large)
        if reason is not None:
            return reason
    if _sample(small) != _sample(large):
        return "the two fits are of different rows or outcomes"
    if "two-step" in (small.method, large.method):
        return "an estimate is not one of maximum likelihood"
    if small.boundary or large.boundary:
        return (
            "a correlation is at its boundary, where twice the difference of log-likelihoods is "
            "not chi-square"
        )
    if small.n_parameters == large.n_parameters:
        return "both fits have the same number of parameters"
    if not (small.converged and large.converged):
        return "a fit did not converge"
    doubt = why_no_likelihood_ratio(small) or why_no_likelihood_ratio(large)
    if doubt is not None:
        return f"{doubt}; use wald_test"
    if small.problem.equations.n_alternatives != large.problem.equations.n_alternatives:
        return (
            "the fits have different numbers of alternatives, and then twice the difference of "
            "log-likelihoods is not chi-square; see selfselect.choose_alternatives"
        )
    if not all(np.isfinite(fit.solution.information).all() for fit in (small, large)):
        return "an estimate is not one of maximum likelihood"
    error = float(np.hypot(small.solution.loglik_error, large.solution.loglik_error))
    if not error <= MOST_LOGLIK_ERROR:
        return (
            f"the log-likelihoods are estimated by draws, their difference with a standard error "
            f"of {error:.2g}; use wald_test"
        )
    if is_roy:
        return _worse(small, large)
    both_selected = small.problem.noise.selected
    if not both_selected and small.problem.rule != large.problem.rule:
        return "the fits have different rules, so neither nests the other"
    if small.coding.known != large.coding.known:
        return "the fits have different rules, so neither nests the other"
    if not _terms_nested(small, large):
        return "the terms of the smaller model are not all in the larger one"
    if not _ties_nested(small, large):
        return "the larger model shares coefficients that the smaller one does not"
    if not _offsets_nested(small, large):
        return "the fits have different offsets, so neither nests the other"
    if not (_scales_nested(small, large) and _noise_nested(small, large)):
        return "the noise of the smaller model is not a special case of that of the larger one"
    return _worse(small, large)


def _worse(small: FitResult, large: FitResult) -> str | None:
    """Say that the larger of two models fits worse, where it does."""
    if large.llf < small.llf - 1e-6:
        return "the larger model fits worse, so it does not nest the smaller one"
    return None


def _sample(fit: FitResult) -> tuple[Any, ...]:
    facts = fit.facts
    return (
        fit.problem.equations.outcome,
        facts.n_rows,
        facts.counts,
        facts.weight_total,
        facts.outcome_range,
        facts.n_silent,
    )


def _terms_nested(small: FitResult, large: FitResult) -> bool:
    narrow, wide = small.problem.equations, large.problem.equations
    selections = [() if one.selection is None else (one.selection,) for one in (narrow, wide)]
    return all(
        set(equation.estimated)
        <= {
            term
            for one in theirs
            if one.alternative == equation.alternative
            for term in one.estimated
        }
        for ours, theirs in (
            (narrow.each, wide.each),
            (narrow.costs, wide.costs),
            (small.problem.layout.spreads, large.problem.layout.spreads),
            (selections[0], selections[1]),
        )
        for equation in ours
    )


def _noise_nested(small: FitResult, large: FitResult) -> bool:
    """Say whether the noise of the larger model can be that of the smaller one."""
    layout = large.problem.layout
    return large.problem.noise.contains(
        small.problem.noise,
        large.problem.equations.alternatives,
        free_scales=not layout.common and layout.scales is None,
    )


def _ties_nested(small: FitResult, large: FitResult) -> bool:
    """Say whether all that the larger model ties is tied, or left out, in the smaller one."""
    kept = {(e.alternative, term) for e in small.problem.equations.each for term in e.terms}
    return {pair for pair in _tied_pairs(large) if pair & kept} <= _tied_pairs(small)


def _tied_pairs(fit: FitResult) -> set[frozenset[tuple[Any, str]]]:
    each = fit.problem.equations.each
    return {
        frozenset((each[j].alternative, each[j].terms[place]) for j, place in pair)
        for shared in fit.problem.equations.shared
        for pair in combinations(shared.members, 2)
    }


def _offsets_nested(small: FitResult, large: FitResult) -> bool:
    """Say whether offsets are the same, or coefficients that the larger model estimates."""
    fixed, wanted = _offsets(small), _offsets(large)
    estimated = {e.alternative: e.estimated for e in large.problem.equations.each}
    return wanted.items() <= fixed.items() and all(
        label in wanted or name in estimated[label] for label, name in fixed.items()
    )


def _offsets(fit: FitResult) -> dict[Any, str]:
    equations = fit.problem.equations
    return {
        one.alternative: equations.covariates[one.columns[-1] - 1]
        for one in equations.each
        if one.has_offset
    }


def _scales_nested(small: FitResult, large: FitResult) -> bool:
    """Known scales are a special case of a common one only if they agree; all of one each."""
    narrow, wide = small.problem.layout, large.problem.layout
    if wide.scales is not None:
        return narrow.scales is not None and np.array_equal(narrow.scales, wide.scales)
    if not wide.common:
        return True
    return narrow.common or (narrow.scales is not None and len(set(narrow.scales)) == 1)

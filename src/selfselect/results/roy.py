"""The Roy model inside a switching regression: when it is a special case of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selfselect.data.equations import SCALE
from selfselect.noises.correlated import CORRELATION
from selfselect.rules import direction_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["why_not_roy"]


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

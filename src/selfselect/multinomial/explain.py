"""What a multinomial switching regression says, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.inference.statistics import p_value_in_words
from selfselect.multinomial.summary import excluded_terms, strength_test
from selfselect.report.explain import (
    NO_ROWS,
    Explanation,
    beside_least_squares,
    effects_in_words,
    means_in_words,
    rows_in_words,
)
from selfselect.report.question import listed
from selfselect.results.tables import check_level

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["explain"]

WEAK = 0.05
"""p-value above which the covariates that only the choice has are said to be weak."""


def explain(fit: MultinomialResult, data: Any = None, *, level: float = 0.95) -> Explanation:
    """Say what a fit says. Arguments are those of `MultinomialResult.explain`."""
    check_level(level)
    outcome = fit.model.equations.outcome
    answer, warnings = _answer(fit, data, level)
    alarms = _alarms(fit)
    return Explanation(
        f"What the fit says about {outcome}: {listed(fit.alternatives)}",
        tuple(dict.fromkeys((*alarms, *warnings))),
        (answer, *_least_squares(fit, in_doubt=bool(alarms)), _assumptions(fit)),
    )


def _answer(fit: MultinomialResult, data: Any, level: float) -> tuple[str, list[str]]:
    if data is None and fit.rows is None:
        return NO_ROWS, []
    of = f" of {fit.facts.chosen}" if fit.facts.chosen else ""
    about = f"Effect{of} on mean {fit.model.equations.outcome}{rows_in_words(fit, data)}"

    def ask(to: Any, versus: Any) -> Any:
        return fit.treatment_effects(to, versus, data, level=level)

    try:
        return effects_in_words(about, fit.alternatives, fit.facts.counts, ask)
    except (DataError, OptionError, UnsupportedError) as error:
        return f"Effects are not available: {error}", []


def _least_squares(fit: MultinomialResult, *, in_doubt: bool) -> list[str]:
    """Say what the correction changes, and whether it is needed."""
    try:
        said = beside_least_squares(fit.compare().table, in_doubt=in_doubt)
    except UnsupportedError:
        said = []
    test = fit.selection_test()
    if test.possible:
        verdict = "rejected" if test.rejects() else "not rejected"
        said.append(
            f"That the choice is independent of the outcomes' noise is {verdict} "
            f"({p_value_in_words(test.p_value)})."
        )
    return said


def _assumptions(fit: MultinomialResult) -> str:
    """Name the assumptions of both steps; none of them is tested."""
    said = (
        f"This assumes that the choice is a multinomial logit of {fit.facts.selection}, with "
        f"independent Gumbel noises, and that mean outcomes follow {means_in_words(fit)}. "
        f"{fit.model.correction.assumption} "
    )
    by_form = [one.alternative for one in fit.model.equations.each if not excluded_terms(fit, one)]
    if by_form:
        said += (
            f"Outcomes of {listed(by_form)} are identified by functional form alone: no covariate "
            "of the choice is excluded. "
        )
    return (
        f"{said}Not tested: the logit, the form of the means, and the correction "
        f"({fit.correction})."
    )


def _alarms(fit: MultinomialResult) -> list[str]:
    """Say what is weak: with nothing that moves the choice alone, corrections are form alone."""
    found = strength_test(fit)
    if found is None or found[1].p_value < WEAK:
        return []
    terms, test = found
    return [
        f"WEAK: the covariates that only the choice has ({', '.join(terms)}) hardly move it "
        f"({p_value_in_words(test.p_value)}), so intervals are wide and their coverage is not "
        "measured. Add covariates to the choice that move it and no outcome."
    ]

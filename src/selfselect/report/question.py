"""The question a fit answers, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from selfselect.rules import Maximum, Minimum, MonotoneArgmax, Ranked

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["headline", "listed", "question"]

WHICH = {
    Maximum: "the largest",
    Minimum: "the smallest",
    MonotoneArgmax: "the one whose known transform is largest",
}
MOST_NAMED = 8


def headline(fit: FitResult) -> str:
    """Return the title of the report."""
    equations = fit.problem.equations
    return f"{equations.outcome} under self-selection: {listed(equations.alternatives)}"


def question(fit: FitResult) -> tuple[str, ...]:
    """Say what was asked, what was seen, and what would be biased without the rule."""
    equations, facts = fit.problem.equations, fit.facts
    outcome, k = equations.outcome, equations.n_alternatives
    seen = WHICH.get(type(fit.problem.rule), "one")
    if isinstance(fit.problem.rule, Ranked):
        seen = f"the one of rank {fit.problem.rank} from the top"
    net = " net of known costs" if getattr(fit.problem.rule, "cost", None) else ""
    recorded = (
        f"the column {facts.chosen} says whose it was"
        if facts.chosen
        else "it is known whose it was"
        if fit.problem.index == "known"
        else "nobody recorded whose it was"
    )
    return (
        f"Each of {facts.n_rows} rows has a value of {outcome} for each of {k} alternatives: "
        f"{listed(equations.alternatives)}. Only one of the {k} was recorded, {seen}{net}, and "
        f"{recorded}.",
        f"How does {outcome} depend on {listed(equations.covariates) or 'a constant alone'} in "
        "each alternative, for everyone and not only for those who were seen in it? Least squares "
        "on what was recorded answers another question: those seen are not like the others, "
        "because the outcome itself decided who was seen.",
        f"The model: {fit.problem.rule.name}; noise is {fit.problem.noise.name}. The answers "
        "below hold as far as these assumptions do.",
    )


def listed(names: Sequence[object]) -> str:
    """Write names as words do, the first few where there are many."""
    shown = [str(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return ", ".join(shown) + f" and {len(names) - MOST_NAMED} more"
    return (
        shown[0]
        if len(shown) == 1
        else ", ".join(shown[:-1]) + " and " + shown[-1]
        if shown
        else ""
    )

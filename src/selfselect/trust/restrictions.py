"""Restrictions tested by another model: the Roy model's on one page, and independence.

Pure Roy is a special case of Roy with costs, and that of switching. All models are of the same
rows and have the same outcome equations. Switching lets any index select. A Roy model with costs
says that the index is the difference of the outcomes less a cost: its two correlations then follow
from one, that of the noises. Without costs outcomes alone select.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from selfselect.data.equations import INTERCEPT, SELECTION, Equation, Equations
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.independence import LR, NULL, SCORE, WALD, wald_test_of_correlations
from selfselect.inference.statistics import (
    TestResult,
    chi_square_test,
    format_p_value,
    impossible_test,
)
from selfselect.noises import Correlated, Independent, Selection
from selfselect.problem.problem import Problem
from selfselect.report.page import Block, Page
from selfselect.results.hypotheses import why_no_likelihood_ratio
from selfselect.results.refit import Solved, solve_again
from selfselect.results.tables import Tables
from selfselect.rules import SelectionIndex, as_rule, direction_of
from selfselect.solvers.continuation import independent_companion
from selfselect.threads import one_blas_thread
from selfselect.trust.beside import Compared, beside, fitted, tabulate

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


SWITCHING, COSTS = "switching", "Roy with costs"
CORRELATED, INDEPENDENT = "Roy, correlated noise", "Roy, independent noise"

SAID = {
    COSTS: "selection follows from the outcomes less a cost",
    CORRELATED: "costs are zero, outcomes alone select",
    INDEPENDENT: "the noises of both outcomes are independent",
}

SLACK = 1e-3
"""By how much a larger model may fit worse where a climb has stopped a little early."""


@dataclass(frozen=True, eq=False, repr=False)
class Restrictions(Tables):
    """Models that nest each other, the largest first, and tests of each against the one before.

    Attributes
    ----------
    table : per model its log-likelihood, parameters, BIC, whether it converged, and the
        likelihood ratio of the restriction that it adds: ``lr``, ``df``, ``p_value``.
    tests : of the restriction that each model adds.
    notes : sentences.
    """

    table: pd.DataFrame
    tests: tuple[TestResult, ...]
    notes: tuple[str, ...]

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        header = ("", "parameters", "log-lik", "BIC", "LR", "df", "P>chi2")
        lines = tuple(
            (
                str(name), str(row["n_parameters"]), f"{row['loglik']:.3f}", f"{row['bic']:.2f}",
                "" if np.isnan(row["lr"]) else f"{row['lr']:.3f}",
                "" if np.isnan(row["df"]) else f"{row['df']:.0f}",
                "" if np.isnan(row["p_value"]) else format_p_value(row["p_value"]),
            )
            for name, row in self.table.iterrows()
        )  # fmt: skip
        block = Block("Each model against the one above", header, lines)
        return Page("Restrictions of the Roy model", (), (), (block,), self.notes)

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def restrictions(fit: FitResult, *, rule: str | None = None) -> Restrictions:
    """Test the Roy model's restrictions: pure Roy within costs within switching.

    Four models are fitted to the same rows: a switching regression; a Roy model whose costs
    depend on the terms of the index (or on those of the fit's own costs); and Roy models
    without costs, with correlated and with independent noise. Each is tested against the one
    before it.

    Parameters
    ----------
    rule : ``"max"`` or ``"min"``, for a fit of `selfselect.switching`; None for the rule of
        the fit, else ``"max"``.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.restrictions().table.index[0]
    'switching'
    """
    reason = _why_not(fit)
    if reason is not None:
        raise UnsupportedError(f"The Roy model's restrictions cannot be tested: {reason}.")
    base = replace(fit.problem.equations, costs=(), selection=None)
    selection = fit.problem.equations.selection or index_of(fit.problem.equations)
    lacking = sorted({t for one in base.each for t in one.terms} - set(selection.terms))
    if lacking:
        raise UnsupportedError(
            f"The selection equation lacks {', '.join(lacking)}, on which selection depends under "
            "the Roy model, so that is no special case of it. Fit with these terms in both."
        )
    picked = as_rule(fit.problem.rule if rule is None and not _selected(fit) else rule or "max")
    if direction_of(picked) is None:
        raise OptionError(f"rule={rule!r} must be 'max' or 'min'.")
    costs = {base.alternatives[-1]: selection.terms}
    if fit.problem.equations.costs:
        costs = {one.alternative: one.terms for one in fit.problem.equations.costs}
    models = {
        SWITCHING: (
            replace(base, selection=selection),
            SelectionIndex(base.alternatives[-1]),
            Selection(),
        ),
        COSTS: (base.with_costs(costs), picked, Correlated()),
        CORRELATED: (base, picked, Correlated()),
        INDEPENDENT: (base, picked, Independent()),
    }
    makers = {
        name: partial(
            _solve, fit, replace(fit.problem, equations=eq, rule=of, noise=noise, partial=False)
        )
        for name, (eq, of, noise) in models.items()
    }
    cost_terms = [term for terms in costs.values() for term in terms]
    return _tested(beside(makers, needed=makers, apart=True), cost_terms)


def _why_not(fit: FitResult) -> str | None:
    problem, known = fit.problem, fit.coding.known
    if problem.index != "known" or problem.equations.n_alternatives != 2:
        return "they are those of two alternatives of which the chosen one is recorded"
    if any(cost is not None for cost in known.costs) or any(known.available):
        return "known costs and availability have no counterpart in a switching regression"
    selection = problem.equations.selection
    if selection is not None and selection.n_cuts:
        return "ordered alternatives are no choice between two outcomes"
    if problem.partial or problem.equations.restricted:
        return "some outcomes were not recorded, coefficients are shared or offsets are given"
    if problem.layout.spreads or not problem.noise.margin.normal:
        return "a switching regression has normal noise of constant scale, and this fit has other"
    if not _selected(fit) and direction_of(problem.rule) is None:
        return "they are those of the larger or the smaller of two outcomes"
    return why_no_likelihood_ratio(fit)


def _selected(fit: FitResult) -> bool:
    return bool(fit.problem.noise.selected)


def index_of(equations: Equations) -> Equation:
    """Return an index of all terms of outcomes and costs, with a constant."""
    names = [t for one in (*equations.each, *equations.costs) for t in one.terms if t != INTERCEPT]
    terms = (INTERCEPT, *dict.fromkeys(names))
    place = {name: i for i, name in enumerate(equations.covariates, start=1)} | {INTERCEPT: 0}
    return Equation(SELECTION, terms, tuple(place[name] for name in terms))


def _solve(fit: FitResult, problem: Problem) -> Solved:
    return solve_again(problem, Memory().load(problem, fit.rows), fit.facts)


def _tested(compared: Sequence[Compared[str, Solved]], cost_terms: Sequence[str]) -> Restrictions:
    """Test each model against the one before it."""
    table = tabulate(compared, "model")[["loglik", "n_parameters", "bic", "converged"]]
    table[["lr", "df", "p_value"]] = np.nan
    tests = []
    notes = [f"Costs depend on {', '.join(cost_terms)}. Reading: {_reading()}."]
    models = fitted(compared)
    for (name, small), large in zip(list(models.items())[1:], models.values(), strict=False):
        doubt = _doubt(large, small)
        if doubt is not None:
            notes.append(f"{name}: no test, {doubt}.")
            continue
        ratio, df = _ratio(large, small)
        test = chi_square_test(f"Test of {name}", max(ratio, 0.0), df, SAID[name])
        tests.append(test)
        table.loc[name, ["lr", "df", "p_value"]] = test.statistic, df, test.p_value
    notes.append(
        "Not rejecting a model does not show that it is right, and a rejection may be due to "
        "noise that is not normal."
    )
    return Restrictions(table, tuple(tests), tuple(notes))


def _ratio(large: Solved, small: Solved) -> tuple[float, int]:
    return 2.0 * (large.llf - small.llf), large.n_parameters - small.n_parameters


def _doubt(large: Solved, small: Solved) -> str | None:
    """Say why a likelihood ratio cannot be read, or None where it can."""
    ratio, df = _ratio(large, small)
    if df < 1:
        return "it has as many parameters as the model above"
    if not (large.converged and small.converged):
        return "a fit did not converge, or is at a boundary"
    if large.solution.held or small.solution.held:
        return "a correlation is at its boundary, where the ratio is not chi-square"
    if ratio < -SLACK:
        return "the model above fits worse, so its search missed the best optimum"
    return None


def _reading() -> str:
    return "; ".join(f"{name} says that {said}" for name, said in SAID.items())


# Independence of the alternatives, tested by the other model.


def other_independence_test(fit: FitResult, kind: str) -> TestResult:
    """Test independence across alternatives in a way that needs another fit of the same rows."""
    names = {"score": SCORE, "wald": WALD, "lr": LR}
    if kind not in names:
        raise OptionError(f"There is no test {kind!r} of independence. Use 'score', 'wald', 'lr'.")
    if kind == "score":
        return impossible_test(
            SCORE, "it is made at zero correlation, from a fit with independent noise"
        )
    doubt = why_no_likelihood_ratio(fit) if kind == "lr" else None
    if doubt is not None:
        return impossible_test(names[kind], f"{doubt}; use kind='wald'")

    name, problem, noise = names[kind], fit.problem, fit.problem.noise
    correlated = noise.correlated
    if problem.rank is not None or not (correlated or (noise.independent and noise.margin.normal)):
        return impossible_test(
            name, "it compares independent normal noise with correlated normal noise only"
        )
    if correlated:
        other = replace(independent_companion(problem), equations=problem.equations)
    else:
        other = replace(problem, noise=Correlated(noise.scale))
    with one_blas_thread():
        solved = solve_again(other, fit.engine_of_rows(), fit.facts)
        if not (solved.converged or correlated):
            return impossible_test(name, "the fit with correlated noise did not converge")
        if kind == "wald":
            joint = solved.with_errors(fit)
            return wald_test_of_correlations(joint.reported, joint.covariance.matrix)
    if not (solved.converged and fit.converged):
        return impossible_test(name, "one of the two fits did not converge")
    large, small = (fit, solved) if correlated else (solved, fit)
    gain = max(2.0 * (large.llf - small.llf), 0.0)
    return chi_square_test(name, gain, large.n_parameters - small.n_parameters, NULL)

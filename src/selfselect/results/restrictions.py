"""Tests of restrictions, of exogeneity, and of how strongly exclusions move the selection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.coding import FirstStage, residual_name
from selfselect.data.equations import INTERCEPT, SELECTION, Equation, Equations
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.statistics import TestResult, chi_square_test, format_p_value
from selfselect.noises import Correlated, Independent, Selection
from selfselect.problem.problem import Problem
from selfselect.results.hypotheses import wald_test, why_no_likelihood_ratio
from selfselect.results.tables import Tables
from selfselect.rules import SelectionIndex, as_rule, direction_of
from selfselect.rules.base import Label
from selfselect.solvers import choose_solver
from selfselect.solvers.base import Solution

if TYPE_CHECKING:
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult


# What a fit with endogenous covariates says of their first stages, and of exogeneity.


WEAK = 10.0
"""F below which instruments are called weak: the rule of thumb of Staiger and Stock (1997), made
for linear models with one endogenous covariate. It was not measured for these."""


def first_stages(fit: FitResult) -> tuple[FirstStage, ...]:
    """Return the first stages of a fit; none where all covariates are exogenous."""
    found: tuple[FirstStage, ...] = getattr(fit.coding, "first_stages", ())
    return found


def _asked(fit: FitResult) -> tuple[FirstStage, ...]:
    stages = first_stages(fit)
    if not stages:
        raise UnsupportedError(
            "All covariates of this fit are taken as exogenous. Name others when fitting: "
            "sample_selection(..., endogenous={'x': '~ z'})."
        )
    return stages


def exogeneity_test(fit: FitResult) -> TestResult:
    """Test that the covariates named in ``endogenous=`` are exogenous.

    This is a Wald test that all coefficients of the first-stage residuals are zero.
    """
    names = [residual_name(one.column) for one in _asked(fit)]
    which = [place for place, (_, term) in enumerate(fit.reported.labels) if term in names]
    found = fit.wald_test(np.eye(len(fit.reported.labels))[which])
    columns = ", ".join(one.column for one in first_stages(fit))
    verb = "are" if len(names) > 1 else "is"
    return replace(
        found, name="Wald test of exogeneity", null=f"{columns} {verb} unrelated to all noises"
    )


def with_residuals(fit: FitResult, data: Any) -> pd.DataFrame:
    """Return rows with first-stage residuals, which predictions and effects need as columns.

    Residuals are columns like any other, so effects of a covariate hold its residual fixed.

    Parameters
    ----------
    data : rows with the endogenous covariates, their instruments and all else that is
        exogenous.
    """
    for stage in _asked(fit):
        data = stage.with_residual(data)
    found: pd.DataFrame = data
    return found


def say_first_stages(fit: FitResult) -> list[str]:
    """Say how strong instruments are, and whether covariates may be exogenous."""
    stages = first_stages(fit)
    if not stages:
        return []
    said = []
    for one in stages:
        law = f"F({len(one.instruments)}, {one.df_residual:g}) = {one.statistic:.4g}"
        sentence = f"First stage of {one.column}: {', '.join(one.instruments)}; {law}"
        if one.statistic < WEAK:
            sentence += ", weak: below 10 (Staiger and Stock 1997). Intervals are unreliable"
        said.append(f"{sentence}.")
        if one.two_values:
            said.append(
                f"{one.column} has two values: its first stage is linear, so its residual is not "
                "normal, as the estimates assume. A treatment of two values has a model of its "
                "own: selfselect.switching(..., shared='slopes')."
            )
    said.append(f"{exogeneity_test(fit)}.".replace("..", "."))
    if fit.method == "ml":
        said.append(
            "The first stage is least squares, and the likelihood is conditional on its "
            "residuals, as are likelihood-ratio tests and profile intervals."
        )
    return said


# How much the covariates that an outcome's equation lacks say about the selection.


WEAK_EXCLUSION = 20.0
"""Wald statistic per covariate below which an exclusion is weak: in samples of 300 and 1,000 rows
intervals of 95% from standard errors then held the truth in 71 to 93% of the samples."""


@dataclass(frozen=True)
class Exclusion:
    """What is excluded from an outcome's equation, and how strongly it moves the selection.

    Attributes
    ----------
    alternative : whose equation.
    terms : the terms of the selection equation that it lacks.
    test : Wald's test that none of them moves the selection; None where there are none.
    """

    alternative: Label
    terms: tuple[str, ...]
    test: TestResult | None

    @property
    def weak(self) -> bool:
        """Whether they say little, or there are none."""
        if self.test is None:
            return True
        if not self.test.possible:
            return False
        over = self.test.df if self.test.df_residual is None else 1
        return self.test.statistic / over < WEAK_EXCLUSION

    @property
    def sentence(self) -> str:
        """What a summary says of it."""
        if self.test is None:
            return (
                f"{self.alternative} is identified by functional form: no covariate of the "
                "selection is excluded from its equation."
            )
        found = str(self.test).partition("): ")[2] if self.test.possible else str(self.test)
        said = f"Excluded from {self.alternative}: {', '.join(self.terms)}; strength {found}"
        return f"{said}, weak." if self.weak else f"{said.removesuffix('.')}."


def exclusions(fit: FitResult) -> tuple[Exclusion, ...]:
    """List and test the covariates of the selection that an outcome's equation lacks.

    There is one test for each outcome of a model with a selection equation. If the exclusions
    are weak, use ``conf_int(method="profile")``.
    """
    equations = fit.problem.equations
    if equations.selection is None:
        raise UnsupportedError(
            "Only models with a selection equation have covariates that move the selection and "
            "not the outcome: selfselect.sample_selection and selfselect.switching."
        )
    labels = fit.reported.labels
    slopes = equations.selection.terms[: equations.selection.n_slopes]
    found = []
    for equation in equations.each:
        others = {*equation.terms, INTERCEPT}
        terms = tuple(term for term in slopes if term not in others)
        test = None
        if terms:
            places = [labels.index((SELECTION, term)) for term in terms]
            test = wald_test(fit.values, fit.covariance, fit.names, np.eye(len(labels))[places])
        found.append(Exclusion(equation.alternative, terms, test))
    return tuple(found)


# The Roy model's restrictions on one page: pure Roy within costs within switching.
#
# All models are of the same rows and have the same outcome equations. Switching lets any index
# select. A Roy model with costs says that the index is the difference of the outcomes less a cost:
# its two correlations then follow from one, that of the noises. Without costs outcomes alone
# select.


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
        from selfselect.report.page import Block, Page

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
    rows = fit.rows
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
    found = {
        name: _solve(replace(fit.problem, equations=eq, rule=of, noise=noise, partial=False), rows)
        for name, (eq, of, noise) in models.items()
    }
    return _compared(fit, found, [term for terms in costs.values() for term in terms])


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


def _solve(problem: Problem, rows: Any) -> tuple[Problem, Solution]:
    solver, _ = choose_solver(problem, None)
    engine = Memory().load(problem, rows)
    return problem, solver.solve(problem, engine, rng=np.random.default_rng(0), progress=False)


def _compared(
    fit: FitResult, found: dict[str, tuple[Problem, Solution]], cost_terms: list[str]
) -> Restrictions:
    lines, tests = [], []
    notes = [f"Costs depend on {', '.join(cost_terms)}. Reading: {_reading()}."]
    above: tuple[Problem, Solution] | None = None
    for name, (problem, solution) in found.items():
        size = problem.layout.n_free
        line = {
            "model": name, "loglik": solution.loglik, "n_parameters": size,
            "bic": fit.facts.bic(solution.loglik, size), "converged": solution.converged,
            "lr": np.nan, "df": np.nan, "p_value": np.nan,
        }  # fmt: skip
        if above is not None:
            ratio, df = 2.0 * (above[1].loglik - solution.loglik), above[0].layout.n_free - size
            doubt = _doubt(above, (problem, solution), ratio, df)
            if doubt is None:
                test = chi_square_test(f"Test of {name}", max(ratio, 0.0), df, SAID[name])
                tests.append(test)
                line |= {"lr": test.statistic, "df": df, "p_value": test.p_value}
            else:
                notes.append(f"{name}: no test, {doubt}.")
        lines.append(line)
        above = (problem, solution)
    notes.append(
        "Not rejecting a model does not show that it is right, and a rejection may be due to "
        "noise that is not normal."
    )
    return Restrictions(pd.DataFrame(lines).set_index("model"), tuple(tests), tuple(notes))


def _doubt(
    large: tuple[Problem, Solution], small: tuple[Problem, Solution], ratio: float, df: int
) -> str | None:
    """Say why a likelihood ratio cannot be read, or None where it can."""
    if df < 1:
        return "it has as many parameters as the model above"
    if not (large[1].converged and small[1].converged):
        return "a fit did not converge, or is at a boundary"
    if large[1].held or small[1].held:
        return "a correlation is at its boundary, where the ratio is not chi-square"
    if ratio < -SLACK:
        return "the model above fits worse, so its search missed the best optimum"
    return None


def _reading() -> str:
    return "; ".join(f"{name} says that {said}" for name, said in SAID.items())

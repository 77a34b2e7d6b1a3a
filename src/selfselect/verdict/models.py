"""Other models of the rows of a fit: other noises, and other ways of selecting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from selfselect.data.equations import INTERCEPT, Equation, Equations
from selfselect.errors import UnsupportedError
from selfselect.noise_choice import default_candidates
from selfselect.noises import FittedNoise, Selection, TwoSteps, as_noise
from selfselect.problem.silent import refuse_unidentified
from selfselect.results.refit import refit
from selfselect.results.restrictions import index_of
from selfselect.rules import SelectionIndex

if TYPE_CHECKING:
    from selfselect.problem.problem import Problem
    from selfselect.results.fit_result import FitResult

__all__ = ["SWITCHING", "differences", "other_models"]

SWITCHING, TWO_STEPS = "switching", "two steps"

Maker = Callable[[], "FitResult"]


def other_models(fit: FitResult, seed: int) -> dict[str, Maker]:
    """Return how to fit every other model of the same rows, by name."""
    if fit.problem.noise.selected:
        if fit.method == "two-step" or fit.problem.noise.sign_only:
            return {}
        ordered = fit.problem.equations.selection is None or fit.problem.equations.restricted
        return {} if ordered else {TWO_STEPS: partial(_two_steps, fit)}
    labels, facts = fit.problem.equations.alternatives, fit.facts
    formulas = dict(zip(labels, facts.formulas, strict=True))
    made: dict[str, Maker] = {}
    scale = "common" if fit.problem.noise.scale == "common" else "each"
    index = fit.problem.index
    for name, noise in default_candidates(formulas, facts.panel, scale=scale, index=index).items():
        if noise != fit.problem.noise:
            made[name] = partial(_with_noise, fit, as_noise(noise), seed)
    return made | {SWITCHING: partial(_switching, fit, seed)}


def differences(fit: FitResult, other: FitResult) -> tuple[str, ...]:
    """Say which assumptions of a fit another one replaces."""
    one, two = fit.problem, other.problem
    if one.noise.selected != two.noise.selected:
        return ("the rule of choice",)
    if fit.method != other.method:
        return ("the joint normality of outcomes and selection",)
    if one.rule != two.rule or one.equations.costs != two.equations.costs:
        return ("the rule of choice",)
    if one.noise.selected:
        return ("the equations",)
    if one.noise.independent != two.noise.independent:
        return ("the correlation of the noises",)
    found = []
    if one.noise.margin.name != two.noise.margin.name:
        found.append("the shape of the noise")
    if bool(one.layout.spreads) != bool(two.layout.spreads):
        found.append("the spread of the noise")
    return tuple(found) or ("the noise",)


def _with_noise(fit: FitResult, noise: FittedNoise, seed: int) -> FitResult:
    """Fit the same equations and rule under another noise."""
    equations = fit.problem.equations
    if noise.spread is not None:
        equations = _moving(equations)
    grouped = fit.rows.groups is not None and noise.grouped
    problem = replace(fit.problem, equations=equations, noise=noise, grouped=grouped)
    return refit(fit, _checked(fit, problem), seed=seed)


def _moving(equations: Equations) -> Equations:
    """Let every alternative's scale move with what moves its mean."""
    spreads = []
    for equation in equations.each:
        both = zip(equation.estimated, equation.columns, strict=False)
        own = [(term, column) for term, column in both if column]
        terms, columns = (INTERCEPT, *(t for t, _ in own)), (0, *(c for _, c in own))
        spreads.append(Equation(equation.alternative, terms, columns))
    return replace(equations, spreads=tuple(spreads))


def _switching(fit: FitResult, seed: int) -> FitResult:
    """Let any index of the covariates select, where one of them is excluded from an outcome."""
    problem, known = fit.problem, fit.coding.known
    equations = problem.equations
    if problem.index != "known" or equations.n_alternatives != 2:
        raise UnsupportedError("Switching is between two alternatives, the choice recorded.")
    if problem.partial or equations.restricted:
        raise UnsupportedError("Some outcomes are not recorded, or coefficients are restricted.")
    if any(cost is not None for cost in known.costs) or any(known.available):
        raise UnsupportedError("Known costs and availability have no counterpart in switching.")
    if not any(equations.exclusions().values()):
        raise UnsupportedError(
            "No covariate is excluded from an outcome: switching would be identified by the "
            "normal shape alone. Fit selfselect.switching with a covariate that affects the "
            "choice only, and pass it in also=."
        )
    selection = index_of(equations)
    base = replace(equations, costs=(), selection=selection, spreads=(), types=None)
    changed = replace(
        problem,
        equations=base,
        rule=SelectionIndex(equations.alternatives[-1]),
        noise=Selection(),
        grouped=False,
    )
    text = " + ".join(term for term in selection.terms if term != INTERCEPT)
    described = replace(fit, facts=replace(fit.facts, selection=f"~ {text}"))
    return refit(described, _checked(fit, changed), seed=seed)


def _two_steps(fit: FitResult) -> FitResult:
    """Fit a selection equation by two steps, which do not need all noises to be normal."""
    # Imported here: only fits with a selection equation have two steps.
    import numpy as np

    from selfselect.selection.two_step import TwoStep, two_step_covariance

    if fit.carried is not None:
        raise UnsupportedError(
            "Errors of a refit would leave out the first stage. Fit with method='two-step' and "
            "pass it in also=."
        )
    problem, engine = replace(fit.problem, noise=TwoSteps()), fit.engine_of_rows()
    solution = TwoStep().solve(problem, engine, rng=np.random.default_rng(0))
    kind = "robust" if fit.covariance.kind in ("bootstrap", "opg") else fit.covariance.kind
    spread = two_step_covariance(problem, engine, solution, kind=kind, dependence=fit.dependence)
    return replace(fit, problem=problem, solution=solution, covariance=spread, kept=None)


def _checked(fit: FitResult, problem: Problem) -> Problem:
    problem.check(fit.facts.outcome_range)
    refuse_unidentified(problem, fit.rows)
    return problem

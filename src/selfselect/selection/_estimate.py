"""From a design to a result: the flow that both models share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect._fit import fit_design
from selfselect.data.build_selection import build_selection_design
from selfselect.data.design import Design
from selfselect.data.files import are_files, open_files
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import SLOPES, SelectionPlan, find_towards
from selfselect.engines.base import EngineChoice
from selfselect.engines.choose import engine_for
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.inference.bootstrap import Bootstrap
from selfselect.inference.covariance import covariance_kind, estimate_covariance
from selfselect.inference.dependence import Dependence
from selfselect.inference.sandwich import free_scores
from selfselect.noises import Selection, SelectionSign, TwoSteps
from selfselect.posing import label_columns, pose_design
from selfselect.results.fit_result import FitResult
from selfselect.rules import OrderedIndex, SelectionIndex
from selfselect.seeds import check_seed, generator
from selfselect.selection.endogenous import (
    Endogenous,
    Estimator,
    build_endogenous_design,
    carry_first_stages,
)
from selfselect.selection.two_step import TwoStep, two_step_covariance, two_step_influence
from selfselect.solvers.binary_search import BinarySearch
from selfselect.solvers.selection_search import SelectionSearch
from selfselect.threads import limited_to, one_blas_thread

__all__ = ["estimate"]

Array = NDArray[np.float64]

METHODS = ("ml", "two-step")
STARTS = ("search", "two-step")


def estimate(
    plan: SelectionPlan,
    data: Any,
    *,
    method: str,
    start: str,
    covariance: Any,
    engine: Any,
    seed: int | None,
    progress: bool | None,
    call: str,
    towards: Any = None,
    **told: Any,
) -> FitResult:
    """Estimate a model with a selection equation. Arguments are those of `switching`.

    `told` are those that say what is in the data.
    """
    for name, given, words in (("method", method, METHODS), ("start", start, STARTS)):
        if given not in words:
            raise OptionError(f"There is no {name} {given!r}. Use one of {', '.join(words)}.")
    if plan.ordered is not None:
        _refuse_with_order(method, towards)
    if plan.binary and method == "two-step":
        raise UnsupportedError(
            "A binary outcome is fitted by maximum likelihood: a probit with a Mills ratio among "
            "its covariates is not consistent. Leave method='two-step' out."
        )
    if (plan.shared, plan.offset) != (None, None) and method == "two-step":
        raise UnsupportedError(
            "Coefficients are shared or given by maximum likelihood, not in two steps. Leave "
            "method='two-step' out."
        )
    if plan.endogenous is not None and plan.binary:
        raise UnsupportedError(
            "Endogenous covariates of a binary outcome are not fitted. Leave binary=True or "
            "`endogenous` out."
        )
    if told.get("outcome_between") is not None:
        _refuse_with_limits(plan, method)
    checked = check_seed(seed, optional=True)
    choice = engine_for(data, engine)
    endogenous: Endogenous | None = None
    with one_blas_thread(), limited_to(choice.threads):
        source = choice.open(data)
        table: Any = open_files(data) if source is None and are_files(data) else source or data
        if hasattr(table, "with_labels"):
            texts = [one.text for one in plan.right_sides]
            chosen = plan.choice if plan.switching else None
            table = table.with_labels(label_columns(texts, chosen=chosen, cluster=told["cluster"]))
        if plan.endogenous is None:
            design = build_selection_design(
                plan, table, source=None if source is None else table, seed=checked,
                progress=progress, **told,
            )  # fmt: skip
        elif source is None:
            design, endogenous = build_endogenous_design(plan, table, told)
        else:
            raise UnsupportedError(
                "Endogenous covariates take their first stage from rows in memory. Read the data "
                "at once: engine=selfselect.engines.Memory()."
            )
    labels = design.equations.alternatives
    rule: SelectionIndex | OrderedIndex = OrderedIndex(labels)
    if plan.ordered is None:
        rule = SelectionIndex(find_towards(labels, towards))
    facts = design.facts
    dependence = Dependence(design.cluster_sizes, facts.cluster, facts.weights_kind)
    kind = covariance_kind(covariance, dependence)
    # With first stages all but the model's own covariance is computed behind them.
    first = kind if endogenous is None or kind == "opg" else "observed"
    solver: Any = TwoStep()
    if method == "two-step":
        fit = _two_steps(design, rule, first, choice, seed, progress, call)
    else:
        solver = BinarySearch(start) if plan.binary else SelectionSearch(start)
        fit = fit_design(
            design,
            rule=rule,
            noise=SelectionSign() if plan.binary else Selection(common=plan.shared == SLOPES),
            solver=solver,
            covariance=first,
            seed=seed,
            progress=progress,
            call=call,
            engine=choice,
        )
    if endogenous is None:
        return fit
    with one_blas_thread():
        spread, carried = carry_first_stages(
            fit.covariance, endogenous, design.rows, _estimator(fit, solver, choice), kind=kind,
            dependence=dependence, rng=generator(check_seed(seed, optional=True)),
        )  # fmt: skip
    return replace(fit, covariance=spread, carried=carried)


def _estimator(fit: FitResult, solver: Any, choice: EngineChoice) -> Estimator:
    """Return how a fit is made again on other rows, and what its own rows do to it."""
    problem, solution = fit.problem, fit.solution
    two_step = problem.noise.method == "two-step"
    loaded = replace(problem, noise=Selection()) if two_step else problem

    def values(rows: Rows, rng: Generator) -> Array:
        engine: Any = choice.load(loaded, rows)
        start = None if two_step else solution.free
        again = solver.solve(problem, engine.single_threaded(), rng=rng, start=start)
        if not again.converged:
            raise DataError(f"Estimates were not found again: {again.status}")
        return np.asarray(problem.layout.report(again.free).values)

    def influence() -> Array:
        engine = fit.engine_of_rows()
        if two_step:
            return two_step_influence(problem, engine, solution)
        scores = engine.collect(
            partial(free_scores, problem, problem.layout.natural(solution.free))
        )
        carried = np.linalg.solve(
            solution.information, problem.layout.report(solution.free).jacobian.T
        )
        return np.asarray(scores @ carried)

    return Estimator(values, influence)


def _refuse_with_order(method: str, towards: Any) -> None:
    """Refuse what ordered alternatives do not have."""
    if method == "two-step":
        raise UnsupportedError(
            "Ordered alternatives are fitted by maximum likelihood, not in two steps. Leave "
            "method='two-step' out."
        )
    if towards is not None:
        raise OptionError(
            f"towards={towards!r} is for two alternatives without an order; `ordered` says which "
            "way the index points. Leave `towards` out."
        )


def _refuse_with_limits(plan: SelectionPlan, method: str) -> None:
    """Refuse what outcomes between limits do not have."""
    if method == "two-step":
        raise UnsupportedError(
            "Outcomes between limits are fitted by maximum likelihood: least squares needs each "
            "outcome itself. Leave method='two-step' out."
        )
    if plan.binary:
        raise OptionError(
            "A binary outcome has no limits to lie between. Leave binary=True or `outcome_between` "
            "out."
        )
    if plan.if_recorded:
        raise OptionError(
            "Without a left side, the selected rows are those with a recorded outcome, but "
            "`outcome_between` is for rows without one. Name the column that says which rows "
            "were selected."
        )


def _two_steps(
    design: Design,
    rule: Any,
    covariance: Any,
    engine: EngineChoice,
    seed: int | None,
    progress: bool | None,
    call: str,
) -> FitResult:
    rng = generator(check_seed(seed, optional=True))
    facts = design.facts
    dependence = Dependence(design.cluster_sizes, facts.cluster, facts.weights_kind)
    kind = covariance_kind(covariance, dependence)
    problem = pose_design(design, rule=rule, noise=TwoSteps(), rng=rng)
    with one_blas_thread(), limited_to(engine.threads):
        posed = replace(problem, noise=Selection())
        rows = engine.load(posed, design.rows if design.stream is None else design.stream)
        solver = TwoStep()
        solution = solver.solve(problem, rows, rng=rng)
        if isinstance(kind, Bootstrap):
            spread = estimate_covariance(
                problem, rows, solution, kind=kind, dependence=dependence, solver=solver, rng=rng,
                progress=progress,
            )  # fmt: skip
        else:
            spread = two_step_covariance(problem, rows, solution, kind=kind, dependence=dependence)
    return FitResult(
        design.coding,
        problem,
        solution,
        spread,
        facts,
        "as asked for",
        engine=rows,
        row_labels=design.labels,
        call=call,
        table=design.table,
    )

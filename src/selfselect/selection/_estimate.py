"""From a design to a result: the flow that both models share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from selfselect._fit import fit_design
from selfselect.data.build_selection import build_selection_design
from selfselect.data.design import Design
from selfselect.data.selection_plan import SLOPES, SelectionPlan, find_towards
from selfselect.engines.base import EngineChoice
from selfselect.engines.choose import engine_for
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.bootstrap import Bootstrap
from selfselect.inference.covariance import covariance_kind, estimate_covariance
from selfselect.inference.dependence import Dependence
from selfselect.noises import Selection, SelectionSign, TwoSteps
from selfselect.posing import pose_design
from selfselect.results.fit_result import FitResult
from selfselect.rules import OrderedIndex, SelectionIndex
from selfselect.seeds import check_seed, generator
from selfselect.selection.two_step import TwoStep, two_step_covariance
from selfselect.solvers.binary_search import BinarySearch
from selfselect.solvers.selection_search import SelectionSearch
from selfselect.threads import one_blas_thread

__all__ = ["estimate"]

METHODS = ("ml", "two-step")
STARTS = ("search", "two-step")


def estimate(
    plan: SelectionPlan,
    data: Any,
    *,
    method: str,
    start: str,
    towards: Any,
    covariance: Any,
    engine: Any,
    seed: int | None,
    progress: bool | None,
    call: str,
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
    if told.get("outcome_between") is not None:
        _refuse_with_limits(plan, method)
    check_seed(seed, optional=True)
    choice = engine_for(data, engine)
    if choice.open(data) is not None:
        raise UnsupportedError(
            "Models with a selection equation hold their rows in memory; they are not read piece "
            "by piece. Read the columns they need, say with pandas.read_parquet, and give the "
            "table."
        )
    with one_blas_thread():
        design = build_selection_design(plan, data, **told)
    labels = design.equations.alternatives
    rule: SelectionIndex | OrderedIndex = OrderedIndex(labels)
    if plan.ordered is None:
        rule = SelectionIndex(find_towards(labels, towards))
    if method == "two-step":
        return _two_steps(design, rule, covariance, choice, seed, progress, call)
    return fit_design(
        design,
        rule=rule,
        noise=SelectionSign() if plan.binary else Selection(common=plan.shared == SLOPES),
        solver=BinarySearch(start) if plan.binary else SelectionSearch(start),
        covariance=covariance,
        seed=seed,
        progress=progress,
        call=call,
        engine=choice,
    )


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
            "The selection has no left side, which selects the rows whose outcome is recorded; "
            "`outcome_between` speaks of those whose outcome is not. Name the column that says "
            "which rows were selected."
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
    with one_blas_thread():
        rows = engine.load(replace(problem, noise=Selection()), design.rows)
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

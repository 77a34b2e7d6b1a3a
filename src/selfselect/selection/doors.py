"""Doors of models with a selection equation, and the flow that both share."""

from __future__ import annotations

from collections.abc import Mapping
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
from selfselect.data.formulas import parse_formula, parse_formulas
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import SLOPES, SelectionPlan, find_towards
from selfselect.engines.base import EngineChoice
from selfselect.engines.choose import engine_for
from selfselect.errors import DataError, FormulaError, OptionError, UnsupportedError
from selfselect.inference.covariance import Bootstrap, covariance_kind, estimate_covariance
from selfselect.inference.dependence import Dependence
from selfselect.inference.sandwich import free_scores
from selfselect.noises import Selection, SelectionSign, TwoSteps
from selfselect.options import Limits
from selfselect.posing import label_columns, pose_design
from selfselect.results.fit_result import FitResult
from selfselect.results.refit import arguments_for, write_call
from selfselect.rules import OrderedIndex, SelectionIndex
from selfselect.seeds import check_seed, generator
from selfselect.selection.endogenous import (
    Endogenous,
    Estimator,
    build_endogenous_design,
    carry_first_stages,
)
from selfselect.selection.two_step import TwoStep, two_step_covariance, two_step_influence
from selfselect.solvers.selection_search import BinarySearch, SelectionSearch
from selfselect.threads import limited_to, one_blas_thread

# From a design to a result: the flow that both models share.


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


# The door to sample selection: an outcome observed only in rows that were selected (tobit-2).


def sample_selection(
    outcome: str,
    selection: str,
    data: Any,
    *,
    method: str = "ml",
    start: str = "search",
    binary: bool = False,
    endogenous: Mapping[str, str] | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Limits = None,
    covariance: Any = "observed",
    cluster: Any = None,
    engine: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> FitResult:
    r"""Fit a regression whose outcome is observed only in selected rows: Heckman's, or tobit-2.

    A row is selected if :math:`z'\gamma + u > 0`, and only then is its outcome
    :math:`y = x'\beta + \sigma e` observed; u and e are standard normal with correlation ρ. This
    is the model of R's ``sampleSelection::selection`` and ``heckit`` and of Stata's ``heckman``.

    Parameters
    ----------
    outcome : the formula of the outcome, ``"log_wage ~ educ + exper"``.
    selection : the formula of the selection, ``"works ~ educ + kids"``; its left side is true or
        false (1 or 0). ``"~ educ + kids"`` selects the rows whose outcome is recorded.
    data : a table, files or a `dask.dataframe`, as in `selfselect.fit`. Outcome and covariates of
        the outcome may be missing in rows that were not selected.
    method : ``"ml"`` for maximum likelihood, ``"two-step"`` for Heckman's two steps with standard
        errors that account for the first.
    start : the likelihood may have several optima. ``"search"`` looks for the best of them;
        ``"two-step"`` climbs only from the two-step estimate, as other programs do.
    binary : whether the outcome is true or false (1 or 0): a probit with sample selection, of which
        the outcome is one where :math:`x'\beta + e > 0`, by maximum likelihood. It is the model of
        Stata's ``heckprobit``. Means of the outcome are probabilities; ``predict(kind="latent")``
        is :math:`x'\beta`.
    endogenous : covariates that are correlated with the noises, and their instruments,
        ``{"educ": "~ distance"}``: control functions. Each is regressed on its instruments and on
        every exogenous covariate, and the residual enters all equations as the covariate
        ``educ_residual``; standard errors account for this first stage. The summary prints its F
        and a test of exogeneity. Scales and correlations are those of the noise given the residual.
        `FitResult.with_residuals` adds the column to new rows.
    weights, weights_kind : a column, or one number per row, and what it means; as in
        `selfselect.fit`.
    missing : ``"drop"`` leaves rows that lack a covariate out, counts them and warns; ``"raise"``
        refuses them.
    missing_outcome : ``"raise"`` refuses rows that were selected but have no outcome; ``"drop"``
        leaves them out; ``"silent"`` keeps them for what they say of the selection, as if their
        outcome were missing at random given the selection.
    outcome_between : (lowest, highest) outcome of selected rows without one, in units of the
        formula's left side: columns or numbers, None (or missing) where there is no limit. Incomes
        in brackets are ``("low", "high")``, top-coded ones ``("topcode", None)``. Such a row adds
        the probability of both its limits and its selection; by maximum likelihood.
    covariance : ``"observed"`` for that of the model, ``"robust"``, ``"clustered"``,
        ``"bootstrap"``, or a `selfselect.inference.Bootstrap`.
    cluster : a column, a list of columns for several ways of clustering at once, or one label per
        row; implies ``"clustered"``, or (one way only) a bootstrap of clusters.
    engine : where rows are held and summed over, as in `selfselect.fit`.
    seed : of all random numbers: bootstrap samples, and the rows on which a search starts.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Returns
    -------
    FitResult
        Start with ``print(result.summary())``.

    Examples
    --------
    >>> import numpy as np
    >>> import selfselect as ss
    >>> rng = np.random.default_rng(1)
    >>> z, x, u = rng.standard_normal((3, 2_000))
    >>> noise = 0.6 * u + 0.8 * rng.standard_normal(2_000)
    >>> works = z + 0.5 * x + u > 0
    >>> table = {"z": z, "x": x, "works": works, "wage": np.where(works, 1 + x + noise, np.nan)}
    >>> result = ss.sample_selection("wage ~ x", "works ~ x + z", table)
    >>> result.converged
    True
    >>> bool(result.independence_test().rejects())
    True
    """
    given = dict(locals())
    call = write_call(sample_selection, given)
    if_recorded = isinstance(selection, str) and selection.lstrip().startswith("~")
    equation = parse_formula(outcome)
    choice = parse_formula(f"recorded {selection}" if if_recorded else selection)
    shared = set(equation.outcome_columns) & set(choice.term_columns)
    if shared:
        raise FormulaError(
            f"The selection is explained by the outcome {', '.join(map(repr, sorted(shared)))}, "
            "which is not known where it was not selected. Leave it out."
        )
    return estimate(
        SelectionPlan(
            equation,
            choice,
            switching=False,
            if_recorded=if_recorded,
            binary=binary,
            endogenous=endogenous,
        ),
        call=call,
        **arguments_for(given, estimate, build_selection_design),
    )


# The door to endogenous switching: two outcomes, and a selection of its own between them.


def switching(
    formula: str | Mapping[Any, str],
    selection: str,
    data: Any,
    *,
    method: str = "ml",
    start: str = "search",
    towards: Any = None,
    ordered: Any = None,
    shared: Any = None,
    offset: Any = None,
    endogenous: Mapping[str, str] | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Limits = None,
    covariance: Any = "observed",
    cluster: Any = None,
    engine: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> FitResult:
    r"""Fit a switching regression with endogenous switching: tobit-5, or ordered.

    The first of two outcomes is observed if :math:`z'\gamma + u > 0`, else the second; both are
    linear with normal noise that is correlated with u. This is the model of Stata's ``movestay``
    and of R's ``sampleSelection::selection`` with two outcomes. The Roy model of `selfselect.fit`
    with two alternatives is a special case, in which the selection is by the larger outcome:
    `lr_test` of both fits tests it.

    Parameters
    ----------
    formula : ``{"union": "wage ~ educ", "other": "wage ~ educ + firm"}``, by the values of the
        column on the left side of `selection`; or one formula for both.
    selection : the formula of the selection, ``"sector ~ educ + married"``; its left side is the
        column that says which outcome was observed.
    data : a table, files or a `dask.dataframe`, as in `selfselect.fit`.
    method : ``"ml"`` for maximum likelihood, ``"two-step"`` for least squares with Mills ratios
        and standard errors that account for the first step.
    towards : the alternative that a positive index selects. By default true (or 1 of 0 and 1),
        else the first of the formulas, or of the labels in order.
    ordered : for alternatives in an order, any number of them, such as hours of work: their labels
        from the lowest to the highest, ``["few", "part", "full"]``; True takes the order of
        numbers, or of an ordered category. The index passes a cut point between each two, an
        ordered probit, and has no constant.
    shared : coefficients that the alternatives have in common, as in `selfselect.fit`; or
        ``"slopes"`` for an endogenous treatment: the outcomes differ by a constant, and have all
        slopes and the noise, with its scale and its correlation, in common. It is the model of
        Stata's ``etregress`` and R's ``sampleSelection::treatReg``.
    offset : a column that is added to the mean of every outcome, with no coefficient; or
        ``{"union": "dues"}`` for some.
    start, endogenous, weights, weights_kind : as in `sample_selection`.
    missing, missing_outcome, outcome_between : as in `sample_selection`.
    covariance, cluster, engine, seed, progress : as in `sample_selection`.

    Returns
    -------
    FitResult
        Start with ``print(result.summary())``.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(2_000, seed=1).data
    >>> result = ss.switching("income ~ height + weight", "job ~ height + weight", villagers)
    >>> result.converged
    True
    >>> roy = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> bool(result.lr_test(roy).rejects())  # the larger income was chosen: that is not rejected
    False

    Three alternatives in an order:

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x, z, u = rng.standard_normal((3, 2_000))
    >>> hours = np.digitize(z + u, [-0.5, 0.8])  # 0, 1 or 2
    >>> wage = 1 + hours + x + 0.5 * u + rng.standard_normal(2_000)
    >>> table = {"x": x, "z": z, "hours": hours, "wage": wage}
    >>> ordered = ss.switching("wage ~ x", "hours ~ x + z", table, ordered=True)
    >>> ordered.params["selection"].index.tolist()
    ['x', 'z', 'cut 0|1', 'cut 1|2']
    """
    given = dict(locals())
    call = write_call(switching, given)
    outcomes = parse_formulas(formula)
    choice = parse_formula(selection)
    first = next(iter(outcomes.values())) if isinstance(outcomes, dict) else outcomes
    explained = set(first.outcome_columns) & set(choice.term_columns)
    if explained:
        raise FormulaError(
            f"The selection is explained by the outcome {', '.join(map(repr, sorted(explained)))}, "
            "which selection decides. Leave it out."
        )
    return estimate(
        SelectionPlan(
            outcomes,
            choice,
            switching=True,
            ordered=ordered,
            shared=shared,
            offset=offset,
            endogenous=endogenous,
        ),
        call=call,
        **arguments_for(given, estimate, build_selection_design),
    )

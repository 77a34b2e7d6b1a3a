r"""Endogenous covariates by control functions: first-stage residuals among the covariates.

A covariate :math:`x = w'\pi + v` whose v is correlated with the noises of outcomes and selection is
exogenous given v, where all are jointly normal: noises given v are v times a coefficient, and
normal noise. So the residual of the first stage enters every equation as a covariate. The model is
then estimated as any other, and the error of :math:`\hat\pi` is carried on: a row moves the
estimates :math:`\theta` by its own part in them, and by
:math:`\frac{d\theta}{d\pi}(W'W)^{-1} w_i v_i`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.build_selection import build_selection_design
from selfselect.data.coder import Coder
from selfselect.data.coding import CarriedStages, FirstStage, fit_first_stages, residual_name
from selfselect.data.columns import to_numbers
from selfselect.data.design import Design
from selfselect.data.equations import parse_side
from selfselect.data.formula_code import columns_in
from selfselect.data.formulas import ParsedFormula, parse_formula
from selfselect.data.missing import Unrecorded, find_absent, find_any_absent
from selfselect.data.panels import cluster_columns
from selfselect.data.rows import Rows
from selfselect.data.selection_plan import SelectionPlan
from selfselect.data.tables import to_frame
from selfselect.errors import DataError, FormulaError, OptionError
from selfselect.inference.covariance import (
    UNCORRECTED,
    Bootstrap,
    Covariance,
    describe_bootstrap,
    plain_meat,
    resampled_estimates,
)
from selfselect.inference.dependence import (
    Dependence,
    cluster_covariance,
    cluster_totals,
    count_in_rows,
    describe_clusters,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MORE_OFTEN = 0.05
"""Share of rows by which a covariate may be missing more often where its outcome is not shown."""

CHANCE = 3.0
"""Standard errors of the difference of two shares that chance is given besides."""

STEP = 0.1
"""Of differences in the coefficients of a first stage, in their standard errors."""


@dataclass(frozen=True, eq=False)
class Endogenous:
    """First stages of a design, with what their errors are made of.

    Attributes
    ----------
    stages : one for each endogenous covariate.
    w : (n, q) their common right side in the rows of the design.
    x : (n, e) the endogenous covariates.
    places : (e,) columns of their residuals among the covariates.
    """

    stages: tuple[FirstStage, ...]
    w: Array
    x: Array
    places: tuple[int, ...]

    @property
    def coefficients(self) -> Array:
        """(e, q) of all first stages."""
        return np.stack([one.coefficients for one in self.stages])

    def refitted(self, weights: Array) -> Array:
        """Return the coefficients (e, q) that other weights give."""
        root = np.sqrt(weights)[:, None]
        return np.asarray(np.linalg.lstsq(self.w * root, self.x * root, rcond=None)[0].T)

    def put(self, rows: Rows, coefficients: Array) -> Rows:
        """Return rows with the residuals of given coefficients (e, q)."""
        covariates = rows.covariates.copy(order="F")
        covariates[:, list(self.places)] = self.x - self.w @ coefficients.T
        return replace(rows, covariates=covariates)


def build_endogenous_design(
    plan: SelectionPlan, data: Any, told: Mapping[str, Any]
) -> tuple[Design, Endogenous]:
    """Code a table with the residuals of first stages among the covariates of all equations."""
    given = _read(plan)
    text, instruments = _right_side(plan, given)
    stage_columns = [*given, *parse_formula(f"x ~ {text}").term_columns]
    limits = Unrecorded.read(told["missing_outcome"], told.get("outcome_between"), None)
    columns = [
        *plan.each[0].outcome_columns, *plan.chosen, *plan.term_columns, *stage_columns,
        *limits.columns,
        *cluster_columns(told["cluster"], data),
        *([told["weights"]] if isinstance(told["weights"], str) else []),
    ]  # fmt: skip
    frame = to_frame(data, columns)
    for name in given:
        if residual_name(name) in frame:
            raise DataError(
                f"There is a column {residual_name(name)!r}: results use the name for the residual "
                f"of {name!r}. Rename it."
            )
    absent = find_any_absent(frame, stage_columns)
    if absent is not None:
        _refuse_lost_rows(plan, frame, told["weights"])
    # Until rows that lack something are left out, residuals say which row is which.
    position = np.arange(len(frame), dtype=np.float64)
    position = position if absent is None else np.where(absent, np.nan, position)
    marked = frame.assign(**{residual_name(name): position for name in given})
    design = build_selection_design(_with_residuals(plan, given), marked, **told)
    names = design.equations.covariates
    places = tuple(names.index(residual_name(name)) for name in given)
    used = design.rows.covariates[:, places[0]].astype(np.intp)
    own = frame.iloc[used]
    coder, w = Coder.learn(text, own)
    if not np.isfinite(w).all():
        raise DataError(f"A term of the first stage {text!r} is infinite or not a number.")
    each = {
        name: to_numbers(own[name], f"The endogenous covariate {name!r}").astype(np.float64)
        for name in given
    }
    outcomes = {term for equation in design.equations.each for term in equation.terms}
    wanted = {name for one in instruments for name in Coder.learn(one, own)[0].names}
    excluded = tuple(one for one in coder.names if one in wanted and one not in outcomes)
    if len(excluded) < len(given):
        raise OptionError(
            f"{len(given)} endogenous covariates need at least as many instruments that no outcome "
            f"has, and there are {len(excluded)}. Give more, or take instruments out of the "
            "outcome."
        )
    weights = np.ones(len(own)) if design.rows.weights is None else design.rows.weights
    repeated = told["weights_kind"] == "frequency"
    stages = fit_first_stages(coder, w, each, excluded, weights, repeated=repeated)
    found = Endogenous(stages, w, np.column_stack(list(each.values())), places)
    rows = found.put(design.rows, found.coefficients)
    table = design.table
    if table is not None:
        residuals = {
            residual_name(name): rows.covariates[:, place]
            for name, place in zip(given, places, strict=True)
        }
        table = table.assign(**residuals)
    coding: Any = replace(design.coding, first_stages=stages)  # type: ignore[type-var]
    return replace(design, rows=rows, table=table, coding=coding), found


def _refuse_lost_rows(plan: SelectionPlan, frame: pd.DataFrame, weights: Any) -> None:
    """Refuse a covariate of an outcome that rows of the other alternatives lack more often.

    First stages need it in every row, and leaving rows out would leave them out by the choice.
    Rows that are left out for another reason, or count for nothing, are not looked at.
    """
    every = find_any_absent(frame, (*plan.chosen, *plan.selection.term_columns))
    whole = frame if every is None else frame[~every]
    if isinstance(weights, str):
        whole = whole[(whole[weights].notna() & (whole[weights] != 0)).to_numpy(dtype=bool)]
    codes, labels = plan.choices(whole)
    needed = [set(plan.needed(label)) for label in labels]
    for name in dict.fromkeys(name for one in plan.each for name in one.term_columns):
        absent = find_absent(whole[name])
        has = np.isin(codes, [place for place, one in enumerate(needed) if name in one])
        if absent is None or has.all() or not has.any():
            continue
        more = absent[~has].mean() - absent[has].mean()
        by_chance = absent.mean() * (1.0 - absent.mean()) * (1.0 / has.sum() + 1.0 / (~has).sum())
        if more > MORE_OFTEN + CHANCE * np.sqrt(by_chance):
            raise DataError(
                f"{int(absent[~has].sum())} rows that do not show the outcome lack its covariate "
                f"{name!r}, which first stages need in every row: leaving these rows out would "
                "select rows by the choice itself. Fill the column in, or leave it out of the "
                "outcome."
            )


def _read(plan: SelectionPlan) -> dict[str, ParsedFormula]:
    """Check what the user gave, and return it parsed."""
    given = plan.endogenous
    if not isinstance(given, Mapping) or not given:
        raise OptionError(
            f"endogenous={given!r} must say by covariate which instruments it has, as in "
            "endogenous={'educ': '~ distance + quarter'}."
        )
    parsed: dict[str, ParsedFormula] = {}
    for name, text in given.items():
        if not isinstance(text, str) or not text.lstrip().startswith("~"):
            raise FormulaError(
                f"The instruments of {name!r} must be the right side of a formula, such as "
                f"'~ distance + quarter', not {text!r}."
            )
        if name not in plan.term_columns:
            raise OptionError(
                f"The endogenous covariate {name!r} is in no equation. Name a column that the "
                "outcome or the selection has."
            )
        parsed[str(name)] = parse_formula(f"x {text}")
    for name, one in parsed.items():
        both = set(one.term_columns) & {*parsed, *plan.each[0].outcome_columns, *plan.chosen}
        if both:
            raise FormulaError(
                f"{', '.join(map(repr, sorted(both)))} cannot be an instrument of {name!r}: it is "
                "endogenous itself, the outcome or the selection."
            )
    return parsed


def _right_side(
    plan: SelectionPlan, given: Mapping[str, ParsedFormula]
) -> tuple[str, tuple[str, ...]]:
    """Return the right side of all first stages: what is exogenous anywhere, and instruments."""
    instruments = [str(term) for one in given.values() for term in parse_side(one.terms)]
    sides = [*(one.terms for one in (*plan.each, plan.selection))]
    exogenous = [
        str(term) for side in sides for term in parse_side(side)
        if not columns_in([term]) & set(given)
    ]  # fmt: skip
    terms = dict.fromkeys(term for term in (*exogenous, *instruments) if term not in ("1", "0"))
    own = tuple(dict.fromkeys(f"{term} - 1" for term in instruments if term not in ("1", "0")))
    return " + ".join(terms), own


def _with_residuals(plan: SelectionPlan, given: Mapping[str, Any]) -> SelectionPlan:
    """Return the plan with residuals in every equation."""
    more = "".join(f" + {residual_name(name)}" for name in given)

    def longer(one: ParsedFormula) -> ParsedFormula:
        return parse_formula(one.text + more)

    outcomes: Any = plan.outcomes
    if isinstance(outcomes, ParsedFormula):
        outcomes = longer(outcomes)
    else:
        outcomes = {label: longer(one) for label, one in outcomes.items()}
    return replace(plan, outcomes=outcomes, selection=longer(plan.selection), endogenous=None)


@dataclass(frozen=True, eq=False)
class Estimator:
    """How a model is estimated again on other rows.

    Attributes
    ----------
    values : makes reported estimates of rows; it raises DataError where they cannot be had.
    influence : (n, m) what each row, by its weight, does to the estimates, first stages given.
    """

    values: Callable[[Rows, Generator], Array]
    influence: Callable[[], Array]


def carry_first_stages(
    spread: Covariance,
    endogenous: Endogenous,
    rows: Rows,
    estimator: Estimator,
    *,
    kind: str | Bootstrap,
    dependence: Dependence,
    rng: Generator,
) -> tuple[Covariance, CarriedStages]:
    """Return the covariance of estimates with the error of the first stages in it, and its parts.

    `spread` is the covariance with the first stages given, of which what has no standard error is
    kept; with `kind` robust, clustered or a bootstrap all else is computed anew.
    """
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    bread = np.linalg.inv(endogenous.w.T @ (endogenous.w * weights[:, None]))
    residuals = rows.covariates[:, list(endogenous.places)]
    free = endogenous.stages[0].df_residual
    between = (residuals.T * weights) @ residuals / free
    reach = _reach(endogenous, rows, estimator, np.sqrt(np.outer(np.diag(between), np.diag(bread))))
    reach[list(spread.missing)] = 0.0  # What has no standard error, as `Covariance` wants.
    through = endogenous.w @ bread
    moved = np.hstack([through * (weights * one)[:, None] for one in residuals.T])
    carried = CarriedStages(endogenous.places, endogenous.w, moved, reach)
    if isinstance(kind, Bootstrap):
        draws = _bootstrap(endogenous, rows, estimator, kind, dependence, rng)
        counts = count_in_rows(rows, dependence.clusters)
        drawn = describe_bootstrap(kind, draws, dependence, counts)
        return replace(drawn, missing=spread.missing), carried
    if kind in ("observed", "opg"):
        matrix = spread.matrix + reach @ np.kron(between, bread) @ reach.T
        return replace(spread, matrix=matrix, description=_words(spread.description)), carried
    influence = estimator.influence() + moved @ reach.T
    influence[:, list(spread.missing)] = 0.0
    if dependence.clusters:
        found = cluster_totals(rows, influence, dependence.clusters)
        matrix, counts, repaired = cluster_covariance(found, len(dependence.clusters))
        words = _words(describe_clusters(dependence.cluster_name, counts))
        clustered = Covariance.of_clusters(
            "clustered", words, matrix, counts, repaired=repaired, missing=spread.missing
        )
        return clustered, carried
    if dependence.repeated:
        influence = influence / np.sqrt(np.where(weights > 0, weights, 1.0))[:, None]
    count = float(weights.sum() if dependence.repeated else (weights > 0).sum())
    products = influence.T @ influence
    matrix, words = products * count / (count - 1.0), "robust (sandwich)"
    if kind in UNCORRECTED:
        matrix, words = plain_meat(kind, products, count, len(products) - len(spread.missing))
    return Covariance(kind, _words(words), matrix, missing=spread.missing), carried


def _words(description: str) -> str:
    return f"{description}, with the error of the first stage"


def _reach(endogenous: Endogenous, rows: Rows, estimator: Estimator, errors: Array) -> Array:
    """Return derivatives (m, e q) of the estimates in the coefficients of the first stages."""
    found, rng = [], np.random.default_rng(0)
    for place, step in enumerate(STEP * errors.ravel()):
        moved = np.zeros(errors.size)
        moved[place] = step
        ends = [
            estimator.values(
                endogenous.put(rows, endogenous.coefficients + sign * moved.reshape(errors.shape)),
                rng,
            )
            for sign in (1.0, -1.0)
        ]
        found.append((ends[0] - ends[1]) / (2.0 * step))
    return np.column_stack(found)


def _bootstrap(
    endogenous: Endogenous,
    rows: Rows,
    estimator: Estimator,
    options: Bootstrap,
    dependence: Dependence,
    rng: Generator,
) -> Array:
    """Return the estimates of bootstrap samples, first stages included."""

    def estimate(sample: Rows, stream: Generator) -> Array:
        assert sample.weights is not None
        return estimator.values(endogenous.put(sample, endogenous.refitted(sample.weights)), stream)

    seed = SeedSequence(int(rng.integers(2**63)))
    return resampled_estimates(estimate, rows, options, dependence, seed=seed, progress=False)

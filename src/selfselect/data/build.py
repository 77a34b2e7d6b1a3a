"""The first stage of a fit: a formula and a table become coded rows and the coding itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import (
    check_distinct,
    recorded_alternatives,
    unnamed_alternatives,
)
from selfselect.data.checks import (
    check_chosen_available,
    check_counts,
    check_covariates,
    check_enough_rows,
    check_numbers,
    check_outcome,
    check_text_columns,
    check_weights,
    first_rows,
)
from selfselect.data.coding import (
    ArrayCoding,
    Coding,
    FormulaCoding,
    KnownColumns,
    OutcomeCoder,
    check_known,
)
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import Coder, ParsedFormula, parse_formula
from selfselect.data.missing import drop_incomplete, drop_unrecorded
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.errors import DataError, FormulaError, OptionError
from selfselect.rules.base import Label

__all__ = ["DataFacts", "Design", "build_design", "design_from_arrays"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class DataFacts:
    """What a reader of the results should know of the data.

    Attributes
    ----------
    formulas : the formulas as given, one per alternative.
    chosen : name of the column that says who was seen; None where nobody recorded it.
    weights, cluster : names of those columns, None where there are none.
    n_rows : rows used.
    n_dropped : rows left out for a missing covariate.
    n_without_outcome : rows left out, at the user's wish, for a missing outcome.
    counts : rows in which each alternative was seen; empty where nobody recorded it.
    weight_total : sum of the weights; the number of rows where there are none.
    outcome_range : smallest and largest outcome.
    """

    formulas: tuple[str, ...]
    chosen: str | None
    weights: str | None
    cluster: str | None
    n_rows: int
    n_dropped: int
    n_without_outcome: int
    counts: tuple[int, ...]
    weight_total: float
    outcome_range: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Design:
    """A table made ready: how it was coded, the coded rows, what to tell of them, their labels.

    `table` holds the columns that were used, as they were given.
    """

    coding: Coding
    rows: Rows
    facts: DataFacts
    labels: pd.Index[Any]
    table: pd.DataFrame | None = None

    @property
    def equations(self) -> Equations:
        """Names and positions of all terms."""
        return self.coding.equations

    @property
    def index(self) -> Literal["known", "unknown"]:
        """Whether it is known who was seen."""
        return "unknown" if self.rows.chosen is None else "known"

    @property
    def exchangeable(self) -> bool:
        """Whether alternatives have no names, so that any order of them is the same model."""
        same = len({equation.columns for equation in self.equations.each}) == 1
        return self.index == "unknown" and same

    @property
    def n_counted(self) -> int:
        """Rows that count: those of positive weight."""
        weights = self.rows.weights
        return len(self.rows) if weights is None else int((weights > 0).sum())

    @property
    def n_coefficients(self) -> int:
        """Coefficients of all equations; where nobody was recorded it takes more rows than that."""
        return sum(len(equation.terms) for equation in self.equations.each)


def build_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str | None,
    alternatives: int | None = None,
    available: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    weights: str | Sequence[float] | None = None,
    cluster: str | Sequence[Any] | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
) -> Design:
    """Code a table by formula. Arguments are those of `selfselect.fit`."""
    _check_word("missing", missing, ("drop", "raise"))
    _check_word("missing_outcome", missing_outcome, ("raise", "drop"))
    check_known(cost, available)
    parsed = _parse(formula)
    first = next(iter(parsed.values())) if isinstance(parsed, dict) else parsed
    each = list(parsed.values()) if isinstance(parsed, dict) else [parsed]

    term_columns = tuple(dict.fromkeys(name for one in each for name in one.term_columns))
    columns = (*first.outcome_columns, *term_columns, *(() if chosen is None else (chosen,)))
    columns += tuple(name for name in (weights, cluster) if isinstance(name, str))
    columns += tuple(v for v in (cost or {}).values() if isinstance(v, str))
    columns += tuple((available or {}).values())
    frame = to_frame(data, columns)
    frame, weights_column = _with_column(frame, weights, "weights")
    frame, cluster_column = _with_column(frame, cluster, "cluster")
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in term_columns if name != chosen])

    frame, n_dropped = drop_incomplete(frame, term_columns, missing)
    frame, n_without = drop_unrecorded(
        frame, first.outcome_columns, chosen, missing_outcome, first.outcome
    )
    if len(frame) == 0:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")

    codes: Indices | None = None
    if chosen is None:
        labels, formulas = unnamed_alternatives(parsed, alternatives)
    else:
        labels, codes, formulas = recorded_alternatives(frame[chosen], chosen, parsed)
    known = KnownColumns.resolve(cost, available, labels)
    sides = dict.fromkeys(one.terms for one in each)
    learnt = [Coder.learn(side, frame) for side in sides]
    coders = tuple(coder for coder, _ in learnt)
    position = {side: i for i, side in enumerate(sides)}
    coder_of = tuple(position[one.terms] for one in formulas)
    equations = Equations.build(
        first.outcome, [_intercept_first(coders[i].names) for i in coder_of], labels
    )
    if chosen is None:
        check_distinct(equations, named=isinstance(parsed, dict))
    outcome_coder, outcome = OutcomeCoder.learn(first.outcome, first.outcome_columns, frame)
    coding = FormulaCoding(equations, coders, coder_of, known, term_columns, outcome_coder)
    rows = Rows(
        coding.covariates([matrix for _, matrix in learnt]),
        outcome=outcome,
        chosen=codes,
        weights=None
        if weights_column is None
        else check_numbers(frame[weights_column], f"The column of weights {weights_column!r}"),
        clusters=None if cluster_column is None else _clusters(frame[cluster_column]),
        known=known.read(frame),
    )
    facts = _check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in formulas),
        chosen=chosen,
        weights=weights_column,
        cluster=cluster_column,
        n_dropped=n_dropped,
        n_without_outcome=n_without,
    )
    design = Design(coding, rows, facts, frame.index, frame)
    if chosen is None:
        check_enough_rows(design.n_counted, design.n_coefficients, equations.n_alternatives)
    return design


def design_from_arrays(
    covariates: Array,
    outcome: Array,
    chosen: Indices | None,
    *,
    alternatives: Sequence[Label],
    names: Sequence[str],
    fit_intercept: bool = True,
    weights: Array | None = None,
    cost: Mapping[Any, Any] | None = None,
    outcome_name: str = "y",
) -> Design:
    """Make a design of plain arrays: the same covariates for every alternative.

    Unlike `build_design` it does not refuse too few rows for an unknown index: see
    `Design.n_coefficients`.

    Parameters
    ----------
    covariates : (n, D) finite numbers, not copied.
    outcome : (n,) finite numbers.
    chosen : (n,) index into `alternatives`; None where nobody recorded who was seen.
    alternatives : labels, in order.
    names : D names of the covariates.
    fit_intercept : whether every equation has a constant.
    weights : (n,) or None.
    cost : known costs of alternatives, as numbers.
    outcome_name : for summaries.
    """
    terms = ([INTERCEPT] if fit_intercept else []) + list(names)
    equations = Equations.build(outcome_name, [terms] * len(alternatives), alternatives)
    known = KnownColumns.resolve(cost, None, alternatives)
    if known.columns:
        raise OptionError(
            f"The cost is in the column {known.columns[0]!r}, but arrays have no columns. Give a "
            "number, or use selfselect.fit with a table."
        )
    coding = ArrayCoding(equations, known)
    rows = Rows(
        covariates,
        outcome=outcome,
        chosen=chosen,
        weights=weights,
        known=known.repeat(len(covariates)),
    )
    formula = f"{outcome_name} ~ {' + '.join(names)}{'' if fit_intercept else ' - 1'}"
    facts = _check_and_describe(
        coding,
        rows,
        formulas=(formula,) * len(alternatives),
        chosen=None if chosen is None else "chosen",
        weights=None if weights is None else "sample_weight",
        cluster=None,
        n_dropped=0,
        n_without_outcome=0,
    )
    return Design(coding, rows, facts, pd.RangeIndex(len(rows)))


def _check_and_describe(
    coding: Coding,
    rows: Rows,
    *,
    formulas: tuple[str, ...],
    chosen: str | None,
    weights: str | None,
    cluster: str | None,
    n_dropped: int,
    n_without_outcome: int,
) -> DataFacts:
    equations = coding.equations
    assert rows.outcome is not None
    check_outcome(rows.outcome, equations.outcome)
    check_covariates(rows.covariates, equations.covariates)
    if rows.weights is not None:
        check_weights(rows.weights, weights or "weights")
    if equations.n_alternatives < 2:
        raise DataError(
            f"Only one alternative is seen in {chosen!r} ({equations.alternatives[0]!r}): then "
            "nothing was selected and least squares is right. Give rows of at least two."
        )
    counts: tuple[int, ...] = ()
    if rows.chosen is not None:
        sizes = [len(equation.terms) + 1 for equation in equations.each]
        counted = rows.chosen if rows.weights is None else rows.chosen[rows.weights > 0]
        counts = tuple(np.bincount(counted, minlength=equations.n_alternatives).tolist())
        check_counts(counts, sizes, equations.alternatives, str(chosen))
        if rows.known.available is not None:
            check_chosen_available(rows.chosen, rows.known.available, equations.alternatives)
    return DataFacts(
        formulas=formulas,
        chosen=chosen,
        weights=weights,
        cluster=cluster,
        n_rows=len(rows),
        n_dropped=n_dropped,
        n_without_outcome=n_without_outcome,
        counts=counts,
        weight_total=float(len(rows) if rows.weights is None else rows.weights.sum()),
        outcome_range=(float(rows.outcome.min()), float(rows.outcome.max())),
    )


def _check_word(option: str, value: Any, words: tuple[str, ...]) -> None:
    if value not in words:
        raise OptionError(
            f"{option}={value!r} is not possible. Use {' or '.join(map(repr, words))}."
        )


def _parse(formula: str | Mapping[Any, str]) -> ParsedFormula | dict[Any, ParsedFormula]:
    if not isinstance(formula, Mapping):
        return parse_formula(formula)
    if len(formula) < 2:
        raise FormulaError(
            "A dict of formulas needs at least two alternatives; "
            f"{len(formula)} given. With one alternative nothing is selected."
        )
    parsed = {label: parse_formula(text) for label, text in formula.items()}
    outcomes = {one.outcome for one in parsed.values()}
    if len(outcomes) > 1:
        raise FormulaError(
            f"The formulas have different outcomes ({', '.join(sorted(outcomes))}). There is one "
            "recorded outcome: give the same left side for every alternative."
        )
    return parsed


def _with_column(frame: pd.DataFrame, given: Any, default: str) -> tuple[pd.DataFrame, str | None]:
    """Return the column that holds what was given; an array becomes one, so that rows stay whole.

    It is named `default`, or the next name like it that no column of the frame has.
    """
    if given is None or isinstance(given, str):
        return frame, given
    if np.ndim(given) != 1 or len(given) != len(frame):
        raise DataError(
            f"`{default}` has the shape {np.shape(given)} but the table has {len(frame)} rows. "
            "Give the name of a column, or one value per row."
        )
    name = default
    while name in frame:
        name += "_"
    return frame.assign(**{name: np.asarray(given)}), name


def _intercept_first(names: Sequence[str]) -> list[str]:
    rest = [name for name in names if name != INTERCEPT]
    return ([INTERCEPT] if INTERCEPT in names else []) + rest


def _clusters(values: pd.Series[Any]) -> Indices:
    codes, _ = pd.factorize(values)
    if (codes < 0).any():
        raise DataError(
            f"The cluster column {values.name!r} has {(codes < 0).sum()} missing values "
            f"({first_rows(codes < 0, values.index)}). Every row needs a cluster."
        )
    return codes.astype(np.intp)

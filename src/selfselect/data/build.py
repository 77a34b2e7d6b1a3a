"""The first stage of a fit: a formula and a table become coded rows and the coding itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import (
    check_chosen_available,
    check_counts,
    check_covariates,
    check_numbers,
    check_outcome,
    check_text_columns,
    check_weights,
    first_rows,
)
from selfselect.data.coding import ArrayCoding, Coding, FormulaCoding, KnownColumns
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import Coder, ParsedFormula, parse_formula
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.errors import DataError, FormulaError, MissingRowsWarning, OptionError
from selfselect.rules._labels import by_alternative
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
    chosen : name of the column that says who was seen.
    weights, cluster : names of those columns, None where there are none.
    n_rows : rows used.
    n_dropped : rows left out for a missing covariate.
    n_without_outcome : rows left out, at the user's wish, for a missing outcome.
    counts : rows in which each alternative was seen.
    weight_total : sum of the weights; the number of rows where there are none.
    outcome_range : smallest and largest outcome.
    """

    formulas: tuple[str, ...]
    chosen: str
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
    """A table made ready: how it was coded, the coded rows, and what to tell of them."""

    coding: Coding
    rows: Rows
    facts: DataFacts

    @property
    def equations(self) -> Equations:
        """Names and positions of all terms."""
        return self.coding.equations


def build_design(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str,
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
    parsed = _parse(formula)
    first = next(iter(parsed.values())) if isinstance(parsed, dict) else parsed
    each = list(parsed.values()) if isinstance(parsed, dict) else [parsed]

    term_columns = tuple(dict.fromkeys(name for one in each for name in one.term_columns))
    columns = (*first.outcome_columns, *term_columns, chosen)
    columns += tuple(name for name in (weights, cluster) if isinstance(name, str))
    columns += tuple(v for v in (cost or {}).values() if isinstance(v, str))
    columns += tuple((available or {}).values())
    frame = _with_values(to_frame(data, columns), weights=weights, cluster=cluster)
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in term_columns if name != chosen])

    frame, n_dropped = _drop_missing(frame, term_columns, missing)
    frame, n_without = _drop_unrecorded(
        frame, first.outcome_columns, chosen, missing_outcome, first.outcome
    )
    if len(frame) == 0:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")

    labels, codes, formulas = _alternatives(frame[chosen], chosen, parsed)
    known = KnownColumns.resolve(cost, available, labels)
    sides = dict.fromkeys(one.terms for one in each)
    learnt = [Coder.learn(side, frame) for side in sides]
    coders = tuple(coder for coder, _ in learnt)
    position = {side: i for i, side in enumerate(sides)}
    coder_of = tuple(position[one.terms] for one in formulas)
    equations = Equations.build(
        first.outcome, [_intercept_first(coders[i].names) for i in coder_of], labels
    )
    coding = FormulaCoding(equations, coders, coder_of, known, term_columns)
    rows = Rows(
        coding.covariates([matrix for _, matrix in learnt]),
        outcome=_outcome(first, frame),
        chosen=codes,
        weights=None
        if weights is None
        else check_numbers(frame[_name(weights, "weights")], "The weights"),
        clusters=None if cluster is None else _clusters(frame[_name(cluster, "cluster")]),
        known=known.read(frame),
    )
    facts = _check_and_describe(
        coding,
        rows,
        formulas=tuple(one.text for one in formulas),
        chosen=chosen,
        weights=None if weights is None else _name(weights, "weights"),
        cluster=None if cluster is None else _name(cluster, "cluster"),
        n_dropped=n_dropped,
        n_without_outcome=n_without,
    )
    return Design(coding, rows, facts)


def design_from_arrays(
    covariates: Array,
    outcome: Array,
    chosen: Indices,
    *,
    alternatives: Sequence[Label],
    names: Sequence[str],
    fit_intercept: bool = True,
    weights: Array | None = None,
    outcome_name: str = "y",
) -> Design:
    """Make a design of plain arrays: the same covariates for every alternative.

    Parameters
    ----------
    covariates : (n, D) finite numbers, not copied.
    outcome : (n,) finite numbers.
    chosen : (n,) index into `alternatives`.
    alternatives : labels, in order.
    names : D names of the covariates.
    fit_intercept : whether every equation has a constant.
    weights : (n,) or None.
    outcome_name : for summaries.
    """
    terms = ([INTERCEPT] if fit_intercept else []) + list(names)
    equations = Equations.build(outcome_name, [terms] * len(alternatives), alternatives)
    coding = ArrayCoding(equations, KnownColumns.resolve(None, None, alternatives))
    rows = Rows(covariates, outcome=outcome, chosen=chosen, weights=weights)
    formula = f"{outcome_name} ~ {' + '.join(names)}{'' if fit_intercept else ' - 1'}"
    facts = _check_and_describe(
        coding,
        rows,
        formulas=(formula,) * len(alternatives),
        chosen="chosen",
        weights=None if weights is None else "sample_weight",
        cluster=None,
        n_dropped=0,
        n_without_outcome=0,
    )
    return Design(coding, rows, facts)


def _check_and_describe(
    coding: Coding,
    rows: Rows,
    *,
    formulas: tuple[str, ...],
    chosen: str,
    weights: str | None,
    cluster: str | None,
    n_dropped: int,
    n_without_outcome: int,
) -> DataFacts:
    equations = coding.equations
    assert rows.outcome is not None and rows.chosen is not None
    check_outcome(rows.outcome, equations.outcome)
    check_covariates(rows.covariates, equations.covariates)
    counted = rows.chosen
    if rows.weights is not None:
        check_weights(rows.weights, weights or "weights")
        counted = rows.chosen[rows.weights > 0]
    counts = np.bincount(counted, minlength=equations.n_alternatives)
    if equations.n_alternatives < 2:
        raise DataError(
            f"Only one alternative is seen in {chosen!r} ({equations.alternatives[0]!r}): then "
            "nothing was selected and least squares is right. Give rows of at least two."
        )
    sizes = [len(equation.terms) + 1 for equation in equations.each]
    check_counts(counts.tolist(), sizes, equations.alternatives, chosen)
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
        counts=tuple(int(count) for count in counts),
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


def _name(given: Any, default: str) -> str:
    return given if isinstance(given, str) else default


def _with_values(frame: pd.DataFrame, **given: Any) -> pd.DataFrame:
    """Add arrays given in place of a column name as columns, so that rows stay together."""
    arrays = {
        name: values
        for name, values in given.items()
        if values is not None and not isinstance(values, str)
    }
    for name, values in arrays.items():
        if len(values) != len(frame):
            raise DataError(
                f"`{name}` has {len(values)} values but the table has {len(frame)} rows."
            )
    return frame.assign(**{name: np.asarray(values) for name, values in arrays.items()})


def _drop_missing(
    frame: pd.DataFrame, columns: Sequence[str], missing: str
) -> tuple[pd.DataFrame, int]:
    absent = frame[list(columns)].isna()
    incomplete = absent.any(axis=1).to_numpy()
    n_incomplete = int(incomplete.sum())
    if n_incomplete == 0:
        return frame, 0
    per_column = ", ".join(f"{name}: {n}" for name, n in absent.sum().items() if n)
    if missing == "raise":
        raise DataError(
            f"{n_incomplete} rows have a missing covariate ({per_column}). Fill them in, or allow "
            "leaving them out with missing='drop'."
        )
    warnings.warn(
        f"{n_incomplete} of {len(frame)} rows have a missing covariate ({per_column}) and were "
        "left out.",
        MissingRowsWarning,
        stacklevel=4,
    )
    return frame[~incomplete], n_incomplete


def _drop_unrecorded(
    frame: pd.DataFrame, outcome: Sequence[str], chosen: str, missing_outcome: str, name: str
) -> tuple[pd.DataFrame, int]:
    no_choice = frame[chosen].isna().to_numpy()
    no_outcome = frame[list(outcome)].isna().any(axis=1).to_numpy()
    unrecorded = no_choice | no_outcome
    if not unrecorded.any():
        return frame, 0
    if missing_outcome == "raise":
        if no_choice.any():
            raise DataError(
                f"{no_choice.sum()} rows have no value in {chosen!r} "
                f"({first_rows(no_choice, frame.index)}): it is not known who was seen. Leaving "
                "them out may itself select on the outcome; missing_outcome='drop' insists."
            )
        raise DataError(
            f"{no_outcome.sum()} rows were chosen but have no outcome {name!r} "
            f"({first_rows(no_outcome, frame.index)}). Dropping them would select on the outcome, "
            "the very bias to be removed. If they are missing for reasons unrelated to it, "
            "missing_outcome='drop' insists."
        )
    return frame[~unrecorded], int(unrecorded.sum())


def _alternatives(
    values: pd.Series[Any], chosen: str, parsed: ParsedFormula | dict[Any, ParsedFormula]
) -> tuple[tuple[Label, ...], Indices, tuple[ParsedFormula, ...]]:
    """Return the labels in order, the index of the one seen in each row, and their formulas."""
    codes, uniques = pd.factorize(values)
    found: list[Any] = [_plain_label(value) for value in uniques]
    texts = [str(label) for label in found]
    for text in texts:
        if texts.count(text) > 1:
            raise DataError(
                f"The column {chosen!r} has two different labels that both read {text!r} (one may "
                "be a number and one text). Make the labels distinct."
            )
    if isinstance(parsed, dict):
        by_label = by_alternative(parsed, [*found, *_never_seen(parsed, found)], what="formula")
        left_out = [label for label in found if label not in by_label]
        if left_out:
            raise DataError(
                f"The column {chosen!r} holds {', '.join(map(repr, left_out))}, for which no "
                "formula is given. Add a formula, or leave those rows out if they are not part "
                "of the choice."
            )
    else:
        alike = len({type(label) for label in found}) == 1
        by_label = dict.fromkeys(sorted(found, key=None if alike else str), parsed)
    place = {label: i for i, label in enumerate(by_label)}
    recode = np.array([place[label] for label in found], dtype=np.intp)
    return tuple(by_label), recode[codes], tuple(by_label.values())


def _never_seen(parsed: dict[Any, ParsedFormula], found: Sequence[Any]) -> list[Any]:
    texts = {str(label) for label in found}
    return [label for label in parsed if str(label) not in texts]


def _plain_label(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _intercept_first(names: Sequence[str]) -> list[str]:
    rest = [name for name in names if name != INTERCEPT]
    return ([INTERCEPT] if INTERCEPT in names else []) + rest


def _outcome(parsed: ParsedFormula, frame: pd.DataFrame) -> Array:
    for name in parsed.outcome_columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            check_numbers(frame[name], f"The outcome column {name!r}")
    if parsed.outcome in frame:
        return check_numbers(frame[parsed.outcome], f"The outcome {parsed.outcome!r}")
    _, matrix = Coder.learn(f"{parsed.outcome} - 1", frame)
    if matrix.shape[1] != 1:
        raise FormulaError(
            f"The outcome {parsed.outcome!r} makes {matrix.shape[1]} columns. Give a numeric one."
        )
    return np.ascontiguousarray(matrix[:, 0])


def _clusters(values: pd.Series[Any]) -> Indices:
    codes, _ = pd.factorize(values)
    if (codes < 0).any():
        raise DataError(
            f"The cluster column {values.name!r} has {(codes < 0).sum()} missing values "
            f"({first_rows(codes < 0, values.index)}). Every row needs a cluster."
        )
    return codes.astype(np.intp)

"""Formulas and a table become a `Design`; rows are needed only where their equation uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.classics.design import SELECTION, Design, Facts, OutcomeEquation, code_side
from selfselect.data.alternatives import recorded_alternatives
from selfselect.data.build import check_word, with_column
from selfselect.data.checks import (
    check_any_weight,
    check_counts,
    check_numbers,
    check_outcome,
    check_text_columns,
    check_varies,
    check_weight_total,
    check_weights,
    first_rows,
)
from selfselect.data.clusters import cluster_codes, cluster_columns
from selfselect.data.coding import OutcomeCoder
from selfselect.data.columns import to_numbers
from selfselect.data.equations import refuse_half_characters
from selfselect.data.formulas import ParsedFormula
from selfselect.data.missing import drop_incomplete, drop_unrecorded
from selfselect.data.tables import to_frame
from selfselect.data.weights import check_weights_kind, refuse_huge_weights, scale_weights
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = ["OUTCOME", "build_design"]

Array = NDArray[np.float64]

OUTCOME = "outcome"
"""The label of the one equation of a sample-selection model."""
POSITION = "position of the row"


def build_design(
    model: str,
    outcomes: ParsedFormula | dict[Any, ParsedFormula],
    selection: ParsedFormula,
    data: Any,
    *,
    seen_if_recorded: bool = False,
    towards: Any = None,
    weights: Any = None,
    weights_kind: str | None = None,
    cluster: Any = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
) -> Design:
    """Code a table for a model of selection.

    Parameters
    ----------
    model : ``sample selection`` or ``switching``.
    outcomes : the outcome's formula, or one for each alternative.
    selection : the formula of the selection.
    data : any table.
    seen_if_recorded : whether a row is selected where its outcome is recorded; the left side of
        `selection` then means nothing.
    towards : the alternative a positive index selects.
    weights, weights_kind, cluster, missing, missing_outcome : as in `selfselect.fit`; rows are
        clustered in one way.
    """
    check_weights_kind(weights_kind, weights)
    cluster = _one_way(cluster, data)
    check_word("missing", missing, ("drop", "raise"))
    check_word("missing_outcome", missing_outcome, ("raise", "drop"))
    each = list(outcomes.values()) if isinstance(outcomes, dict) else [outcomes]
    first = each[0]
    chosen = () if seen_if_recorded else selection.outcome_columns
    columns = [*first.outcome_columns, *chosen, *selection.term_columns]
    columns += [name for one in each for name in one.term_columns]
    columns += [name for name in (weights, cluster) if isinstance(name, str)]
    frame = to_frame(data, columns)
    frame, weights_column = with_column(frame, weights, "weights")
    frame, cluster_column = with_column(frame, cluster, "cluster")
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    terms = dict.fromkeys(name for one in (*each, selection) for name in one.term_columns)
    check_text_columns(frame, [name for name in terms if name not in chosen])

    n_before = len(frame)
    if not seen_if_recorded:
        frame = _with_choice(frame, chosen, missing_outcome)
    n_without = n_before - len(frame)
    frame, n_dropped = drop_incomplete(frame, selection.term_columns, missing)
    labels, codes, formulas = _who_is_seen(model, outcomes, selection, frame, seen_if_recorded)
    if any(frame[name].hasnans for name in {*first.outcome_columns, *terms}):
        # An equation's covariates and outcome are needed where it is seen, and nowhere else.
        frame = frame.assign(**{POSITION: np.arange(len(frame))})
        kept = codes >= len(formulas)
        for position, formula in enumerate(formulas):
            own, n_incomplete = drop_incomplete(
                frame[codes == position], formula.term_columns, missing
            )
            n_dropped += n_incomplete
            kept[own[POSITION].to_numpy()] = True
        seen, n_silent = drop_unrecorded(
            frame[kept & (codes < len(formulas))], first.outcome_columns, None, missing_outcome,
            first.outcome, can_keep=False,
        )  # fmt: skip
        n_without += n_silent
        kept &= codes >= len(formulas)
        kept[seen[POSITION].to_numpy()] = True
        frame, codes = frame[kept], codes[kept]
    _check_both_sides(model, codes, labels, selection.outcome)

    refuse_half_characters((first.outcome, *labels, *terms))
    sign = _signs(model, labels, towards)
    row_weights = _weights(frame, weights_column, weights_kind)
    equations, coder = _equations(model, formulas, labels, sign, frame, codes, row_weights)
    counted = codes if row_weights is None else codes[row_weights > 0]
    counts = np.bincount(counted, minlength=len(labels))[: len(formulas)].tolist()
    sizes = [len(equation.side.terms) + 2 for equation in equations]
    check_counts(counts, sizes, labels[: len(formulas)], selection.outcome)
    outcome = np.concatenate([equation.outcome for equation in equations])
    facts = Facts(
        outcome=first.outcome,
        chosen=selection.outcome,
        towards=labels[int(np.argmax(sign))],
        weights=weights_column,
        cluster=cluster_column,
        n_rows=len(frame),
        n_dropped=n_dropped,
        n_without_outcome=n_without,
        counts=tuple(counts),
        weight_total=float(len(frame) if row_weights is None else row_weights.sum()),
        outcome_range=(float(outcome.min()), float(outcome.max())),
        weights_kind=weights_kind,
        n_effective=0.0
        if row_weights is None
        else float(row_weights.sum() ** 2 / np.sum(row_weights**2)),
    )
    return Design(
        model,
        code_side(selection, frame, "selection equation", row_weights),
        sign[codes] > 0,
        equations,
        coder,
        row_weights,
        None if cluster_column is None else cluster_codes(frame, [cluster_column]),
        facts,
        frame[list(terms)],
    )


def _with_choice(frame: pd.DataFrame, chosen: Sequence[str], missing_outcome: str) -> pd.DataFrame:
    """Leave out rows of which it is not known whether they were selected, if that is allowed."""
    for name in chosen:
        frame, _ = drop_unrecorded(frame, (), name, missing_outcome, name, can_keep=False)
    return frame


def _who_is_seen(
    model: str,
    outcomes: ParsedFormula | dict[Any, ParsedFormula],
    selection: ParsedFormula,
    frame: pd.DataFrame,
    seen_if_recorded: bool,
) -> tuple[tuple[Label, ...], NDArray[np.intp], tuple[ParsedFormula, ...]]:
    """Return labels, the place of each row's label, and the formulas of the first of them."""
    if model == "switching":
        if selection.outcome not in frame:
            raise OptionError(
                f"The left side of the selection, {selection.outcome!r}, is not a column. Name "
                "the column that says which alternative was seen."
            )
        labels, codes, formulas = recorded_alternatives(
            frame[selection.outcome], selection.outcome, outcomes
        )
        if len(labels) != 2:
            raise DataError(
                f"There are {len(labels)} alternatives of {selection.outcome!r} "
                f"({', '.join(map(repr, labels[:6]))}). Switching is between two: join some, or "
                "use selfselect.fit for more."
            )
        if SELECTION in map(str, labels):
            raise DataError(
                f"An alternative cannot be named {SELECTION!r}: results use the word for the "
                "selection equation. Rename it."
            )
        return labels, codes, formulas
    assert isinstance(outcomes, ParsedFormula)
    if seen_if_recorded:
        seen = frame[list(outcomes.outcome_columns)].notna().all(axis=1).to_numpy()
    else:
        seen = _truth(frame, selection)
    return (OUTCOME, f"no {OUTCOME}"), np.where(seen, 0, 1).astype(np.intp), (outcomes,)


def _truth(frame: pd.DataFrame, selection: ParsedFormula) -> NDArray[np.bool_]:
    """Read the left side of a selection as true or false."""
    name = selection.outcome
    what = f"The selection {name!r} must be true or false (1 or 0)"
    advice = f"Make a column that is, such as data[{name!r}] == {{value}}."
    if name in frame:
        try:
            numbers = to_numbers(frame[name], what)
        except DataError as error:
            example = repr(frame[name].iloc[0])
            raise DataError(
                f"{what}, but it holds values such as {example}. {advice.format(value=example)}"
            ) from error
    else:
        numbers = OutcomeCoder.learn(name, selection.outcome_columns, frame)[1]
    odd = (numbers != 0) & (numbers != 1)
    if odd.any():
        example = f"{numbers[odd][0]:g}"
        raise DataError(
            f"{what}, but {first_rows(odd, frame.index)} hold {example}. "
            f"{advice.format(value=example)}"
        )
    return np.equal(numbers, 1.0)


def _equations(
    model: str,
    formulas: Sequence[ParsedFormula],
    labels: Sequence[Label],
    sign: Array,
    frame: pd.DataFrame,
    codes: NDArray[np.intp],
    weights: Array | None,
) -> tuple[tuple[OutcomeEquation, ...], OutcomeCoder]:
    """Code every outcome and its covariates in the rows where it is seen."""
    first = formulas[0]
    coder, _ = OutcomeCoder.learn(
        first.outcome, first.outcome_columns, frame[codes < len(formulas)]
    )
    equations = []
    for position, formula in enumerate(formulas):
        label, rows = labels[position], np.flatnonzero(codes == position)
        own_weights = None if weights is None else weights[rows]
        own = frame.iloc[rows]
        outcome = coder.code(own)
        name = formula.outcome if model != "switching" else f"{formula.outcome} of {label}"
        check_outcome(outcome, name)
        if len(outcome):
            check_varies(outcome.min(), outcome.max(), name)
        what = "outcome equation" if model != "switching" else f"equation of {label!r}"
        side = code_side(formula, own, what, own_weights)
        equations.append(
            OutcomeEquation(label, float(sign[position]), rows, side, outcome, own_weights)
        )
    return tuple(equations), coder


def _check_both_sides(
    model: str, codes: NDArray[np.intp], labels: Sequence[Label], chosen: str
) -> None:
    if not len(codes):
        raise DataError("No row is complete: every one lacks something, so none is left to fit.")
    counts = np.bincount(codes, minlength=2).tolist()
    if model == "switching":
        check_counts(counts, [1, 1], labels, chosen)
    elif not all(counts):
        every, why = ("Every", "least squares is right") if counts[0] else ("No", "nothing is seen")
        raise DataError(
            f"{every} row is selected by {chosen!r}: then {why}, and there is no selection to "
            "model. Give rows of both kinds."
        )


def _signs(model: str, labels: Sequence[Label], towards: Any) -> Array:
    """Return +1 for the alternative a positive index selects, -1 for the other."""
    if model != "switching":
        return np.array([1.0, -1.0])
    if towards is None:
        # True and 1 speak for themselves; else the first that the user named.
        yes = [label for label in labels if label is True or (label == 1 and set(labels) == {0, 1})]
        towards = yes[0] if yes else labels[0]
    found = [str(label) == str(towards) for label in labels]
    if not any(found):
        raise OptionError(
            f"towards={towards!r} is no alternative. Use {' or '.join(map(repr, labels))}."
        )
    return np.where(found, 1.0, -1.0)


def _one_way(cluster: Any, data: Any) -> Any:
    """Refuse to cluster in several ways, which models with a selection equation cannot."""
    named = cluster_columns(cluster, data)
    if len(named) > 1:
        raise OptionError(
            f"cluster={list(named)!r} asks for {len(named)} ways of clustering at once. Models "
            "with a selection equation cluster in one way: give one of these columns."
        )
    return named[0] if named else cluster


def _weights(frame: pd.DataFrame, column: str | None, kind: str | None) -> Array | None:
    if column is None:
        return None
    weights = check_numbers(frame[column], f"The column of weights {column!r}")
    check_weights(weights, column, kind)
    refuse_huge_weights(weights)
    check_any_weight(int((weights > 0).sum()), column)
    check_weight_total(float(weights.sum()), len(weights), column, kind)
    return scale_weights(weights, kind)

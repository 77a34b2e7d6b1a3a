"""Formulas and a table become a `Design` with a selection equation.

A row needs the covariates and the outcome of its own equation, and of no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.alternatives import recorded_alternatives
from selfselect.data.build import check_word, with_column
from selfselect.data.checks import (
    check_any_weight,
    check_chosen_available,
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
from selfselect.data.coder import Coder
from selfselect.data.coding import KnownColumns, OutcomeCoder, check_known
from selfselect.data.columns import to_numbers
from selfselect.data.design import DataFacts, Design, Tally
from selfselect.data.equations import SELECTION, refuse_half_characters
from selfselect.data.formulas import ParsedFormula
from selfselect.data.missing import drop_incomplete, drop_unrecorded, find_absent, find_any_absent
from selfselect.data.restrictions import read_offsets, share
from selfselect.data.rows import Rows, guess_outcomes
from selfselect.data.selection_coding import SelectionCoding, is_codable, selection_equations
from selfselect.data.selection_plan import OUTCOME, SelectionPlan, order_of, shared_terms
from selfselect.data.tables import to_frame
from selfselect.data.unrecorded import Unrecorded
from selfselect.data.weights import check_weights_kind, refuse_huge_weights, scale_weights
from selfselect.errors import DataError, OptionError
from selfselect.rules.base import Label

__all__ = ["build_selection_design"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

POSITION = "position of the row"


def build_selection_design(
    plan: SelectionPlan,
    data: Any,
    *,
    weights: Any = None,
    weights_kind: str | None = None,
    cluster: Any = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
    available: Mapping[Any, str] | None = None,
) -> Design:
    """Code a table for a model with a selection equation; options are those of `selfselect.fit`."""
    check_known(None, available)
    check_weights_kind(weights_kind, weights)
    check_word("missing", missing, ("drop", "raise"))
    check_word("missing_outcome", missing_outcome, ("raise", "drop", "silent"))
    unrecorded = Unrecorded.read(missing_outcome, outcome_between, None)
    first, ways = plan.each[0], cluster_columns(cluster, data)
    columns = [*first.outcome_columns, *plan.chosen, *plan.terms, *ways, *unrecorded.columns]
    columns += [weights] if isinstance(weights, str) else []
    columns += list((available or {}).values())
    frame = to_frame(data, columns)
    frame, weights_column = with_column(frame, weights, "weights")
    if not ways:
        frame, labelled = with_column(frame, cluster, "cluster")
        ways = () if labelled is None else (labelled,)
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in plan.terms if name not in plan.chosen])

    n_before = len(frame)
    for name in plan.chosen:
        choice = "raise" if missing_outcome == "silent" else missing_outcome
        frame, _ = drop_unrecorded(frame, (), name, choice, name, can_keep=False)
    n_without = n_before - len(frame)
    frame, n_dropped = drop_incomplete(frame, plan.selection.term_columns, missing)
    labels, codes, formulas = _find_selected(plan, frame)
    frame, codes, n_more, n_silent = _drop_lacking(
        plan, labels, formulas, frame, codes, missing, missing_outcome, unrecorded
    )
    _check_both_sides(plan, codes, labels)
    refuse_half_characters((first.outcome, *labels, *plan.terms))
    row_weights = _weights(frame, weights_column, weights_kind)

    outcome_coder, outcome, between = _outcomes(plan, labels, frame, codes, unrecorded)
    known = KnownColumns.resolve(None, available, labels)
    guessed = guess_outcomes(outcome, between)
    shown = np.where(np.isnan(guessed), -1, codes)
    coding, covariates = _learn(plan, formulas, labels, outcome_coder, known, frame, shown)
    known_rows = known.read(frame)
    if known_rows.available is not None:
        check_chosen_available(codes, known_rows.available, labels)
    rows = Rows(
        covariates,
        outcome=outcome,
        chosen=codes,
        weights=row_weights,
        clusters=cluster_codes(frame, ways) if ways else None,
        known=known_rows,
        between=between,
    )
    tally = Tally.of(guessed, shown, row_weights, labels)
    counts = [tally.counts[label] for label in labels]
    sizes = [len(equation.terms) + 2 for equation in coding.equations.each]
    check_counts(counts, sizes, labels, plan.selection.outcome)
    if weights_kind == "frequency" and row_weights is not None:
        counts = [int(tally.repeated[label]) for label in labels]
    facts = DataFacts(
        formulas=tuple(one.text for one in formulas),
        chosen=plan.selection.outcome,
        weights=weights_column,
        cluster=" and ".join(ways) or None,
        n_rows=tally.n_rows,
        n_dropped=n_dropped + n_more,
        n_without_outcome=n_without + n_silent,
        counts=tuple(counts),
        weight_total=tally.weight_total,
        outcome_range=(tally.lowest, tally.highest),
        n_silent=tally.n_rows - tally.n_recorded,
        two_values=_has_two_values(guessed, tally),
        n_selected_silent=int(((codes >= 0) & np.isnan(guessed)).sum()),
        n_between=int((np.isnan(outcome) & ~np.isnan(guessed)).sum()),
        weights_kind=weights_kind,
        n_zero_weight=tally.n_rows - tally.n_weighted,
        n_effective=0.0 if weights is None else tally.n_effective,
        selection=f"~ {plan.selection.terms}" if plan.if_recorded else plan.selection.text,
    )
    return Design(coding, rows, facts, frame.index, frame)


def _has_two_values(outcome: Array, tally: Tally) -> bool:
    """Say whether an outcome has two values alone; few rows tell most that have more."""
    for part in (outcome[:1_000], outcome):
        inside = (part > tally.lowest) & (part < tally.highest)
        if inside.any():
            return False
    return True


def _find_selected(
    plan: SelectionPlan, frame: pd.DataFrame
) -> tuple[tuple[Label, ...], Indices, tuple[ParsedFormula, ...]]:
    """Return the alternatives, that of each row (-1 where none was selected), their formulas."""
    selection = plan.selection
    if not plan.switching:
        assert isinstance(plan.outcomes, ParsedFormula)
        if plan.if_recorded:
            selected = frame[list(plan.outcomes.outcome_columns)].notna().all(axis=1).to_numpy()
        else:
            selected = _truth(frame, selection)
        return (OUTCOME,), np.where(selected, 0, -1).astype(np.intp), (plan.outcomes,)
    if selection.outcome not in frame:
        raise OptionError(
            f"The left side of the selection, {selection.outcome!r}, is not a column. Name the "
            "column that says which alternative was chosen."
        )
    labels, codes, formulas = recorded_alternatives(
        frame[selection.outcome], selection.outcome, plan.outcomes
    )
    if plan.ordered is not None:
        order = order_of(plan.ordered, labels, frame[selection.outcome])
        labels, formulas = (tuple(one[place] for place in order) for one in (labels, formulas))
        codes = np.where(codes < 0, -1, np.argsort(order)[codes])
    elif len(labels) < 2 or (len(labels) > 2 and not plan.several):
        raise DataError(
            f"There are {len(labels)} alternatives of {selection.outcome!r} "
            f"({', '.join(map(repr, labels[:6]))}). Switching is between two: join some, give "
            "ordered=[...] if they have an order, or use selfselect.fit for more."
        )
    if SELECTION in map(str, labels):
        raise DataError(
            f"An alternative cannot be named {SELECTION!r}: results use the word for the selection "
            "equation. Rename it."
        )
    return labels, codes, formulas


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


def _drop_lacking(
    plan: SelectionPlan,
    labels: Sequence[Label],
    formulas: Sequence[ParsedFormula],
    frame: pd.DataFrame,
    codes: Indices,
    missing: str,
    missing_outcome: str,
    unrecorded: Unrecorded,
) -> tuple[pd.DataFrame, Indices, int, int]:
    """Leave out rows that lack a covariate, or the outcome, of their own equation."""
    first = plan.each[0]
    n_dropped = n_silent = 0
    if any(find_absent(frame[name]) is not None for name in {*first.outcome_columns, *plan.terms}):
        frame = frame.assign(**{POSITION: np.arange(len(frame))})
        # Rows without an outcome need what explains the selection, and nothing else.
        alone = codes < 0
        absent = find_any_absent(frame, first.outcome_columns)
        if unrecorded.silent and absent is not None:
            alone = alone | (absent & ~_has_limits(unrecorded, frame))
        kept = alone.copy()
        offsets = read_offsets(plan.offset, labels)
        for position, (label, formula) in enumerate(zip(labels, formulas, strict=True)):
            needed = (*formula.term_columns, *([offsets[label]] if label in offsets else []))
            own, n_incomplete = drop_incomplete(
                frame[(codes == position) & ~alone], needed, missing
            )
            n_dropped += n_incomplete
            kept[own[POSITION].to_numpy()] = True
        observed, n_silent = drop_unrecorded(
            frame[kept & ~alone], first.outcome_columns, None, missing_outcome, first.outcome,
            unrecorded,
        )  # fmt: skip
        kept &= alone
        kept[observed[POSITION].to_numpy()] = True
        frame, codes = frame[kept].drop(columns=POSITION), codes[kept]
    return frame, codes, n_dropped, n_silent


def _has_limits(unrecorded: Unrecorded, frame: pd.DataFrame) -> Mask:
    """Say which rows have a limit of their outcome."""
    limits = unrecorded.limits(frame, np.zeros(len(frame)))
    if limits is None:
        return np.zeros(len(frame), dtype=bool)
    return np.asarray(np.isfinite(limits).any(axis=1))


def _outcomes(
    plan: SelectionPlan,
    labels: Sequence[Label],
    frame: pd.DataFrame,
    codes: Indices,
    unrecorded: Unrecorded,
) -> tuple[OutcomeCoder, Array, Array | None]:
    """Code the outcome where one was selected, nan elsewhere; and limits (n, 2) of others."""
    first = plan.each[0]
    absent = find_any_absent(frame, first.outcome_columns)
    observed = np.flatnonzero(codes >= 0 if absent is None else (codes >= 0) & ~absent)
    own_rows = frame if len(observed) == len(frame) else frame.iloc[observed]
    coder, values = OutcomeCoder.learn(first.outcome, first.outcome_columns, own_rows)
    outcome = np.full(len(frame), np.nan)
    outcome[observed] = values
    between = unrecorded.limits(frame, np.where(codes >= 0, outcome, 0.0))
    if between is not None:
        between[(codes < 0) | ~np.isnan(outcome)] = np.nan
    guessed = guess_outcomes(outcome, between)
    for j, label in enumerate(labels):
        name = f"{first.outcome} of {label}" if plan.switching else first.outcome
        own = guessed[(codes == j) & ~np.isnan(guessed)]
        if not len(own):
            raise DataError(f"No row shows {name}: nothing says what it depends on.")
        check_outcome(own, name)
        if plan.binary and not np.isin(own, (0.0, 1.0)).all():
            odd = own[~np.isin(own, (0.0, 1.0))][0]
            raise DataError(
                f"binary=True needs an outcome of 1 and 0 (or true and false), but {name!r} holds "
                f"{odd:g}. Make a column that is, such as data[{name!r}] > 0, or leave it out."
            )
        check_varies(own.min(), own.max(), name)
    return coder, outcome, between


def _learn(
    plan: SelectionPlan,
    formulas: Sequence[ParsedFormula],
    labels: Sequence[Label],
    outcome: OutcomeCoder,
    known: KnownColumns,
    frame: pd.DataFrame,
    codes: Indices,
) -> tuple[SelectionCoding, Array]:
    """Learn every right side from its own rows, and code all rows that have what it needs."""
    own_rows = [np.arange(len(frame)), *(np.flatnonzero(codes == j) for j in range(len(labels)))]
    sides = (plan.selection, *formulas)
    learnt = [
        Coder.learn(one.terms, frame if not place else frame.iloc[own_rows[place]])
        for place, one in enumerate(sides)
    ]
    coders = tuple(coder for coder, _ in learnt)
    texts = [one.text for one in sides]
    offsets = read_offsets(plan.offset, labels)
    equations = selection_equations(
        plan.each[0].outcome, coders, labels, texts, ordered=plan.ordered is not None
    )
    if offsets:
        equations = equations.with_offsets(offsets)
    equations = share(equations, shared_terms(equations, plan.shared))
    places = tuple(range(1, len(coders)))
    coding = SelectionCoding(equations, coders, places, known, plan.terms, outcome)
    covariates = coding.new_covariates(len(frame))
    for place, (coder, matrix) in enumerate(learnt):
        if not np.isfinite(matrix).all():
            name = coder.names[int(np.argmin(np.isfinite(matrix).all(axis=0)))]
            what = "selection equation" if not place else f"equation of {labels[place - 1]!r}"
            raise DataError(
                f"The covariate {name!r} of the {what} is infinite or not a number in some rows. "
                "Correct them, leave them out, or use another transform."
            )
        coding.place_side(place, own_rows[place], matrix, covariates)
    coding.place_offsets(frame, covariates)
    for place in places:
        # Effects ask what the rows of one alternative would have in another.
        columns = [column - 1 for column in coding.equation_of(place).columns if column]
        wanted = np.isnan(covariates[:, columns]).any(axis=1)
        absent = find_any_absent(frame, coders[place].kinds)
        others = np.flatnonzero(wanted if absent is None else wanted & ~absent)
        if len(others):
            coded = is_codable(coding, place, frame.iloc[others])
            if coded is not None:
                coding.place_side(place, others, coded, covariates)
    return coding, covariates


def _check_both_sides(plan: SelectionPlan, codes: Indices, labels: Sequence[Label]) -> None:
    if not len(codes):
        raise DataError("No row is complete: every one lacks something, so none is left to fit.")
    if plan.switching:
        if len(labels) < 2:
            raise DataError(
                f"Every row has {labels[0]!r} in {plan.selection.outcome!r}: there is no selection "
                "to model. Give rows of several alternatives."
            )
        counts = np.bincount(codes, minlength=len(labels)).tolist()
        check_counts(counts, [1] * len(labels), labels, plan.selection.outcome)
        return
    selected = int((codes >= 0).sum())
    if selected in (0, len(codes)):
        every, why = ("Every", "least squares is right")
        if not selected:
            every, why = ("No", "no outcome is observed")
        raise DataError(
            f"{every} row is selected by {plan.selection.outcome!r}: then {why}, and there is no "
            "selection to model. Give rows of both kinds."
        )


def _weights(frame: pd.DataFrame, column: str | None, kind: str | None) -> Array | None:
    if column is None:
        return None
    weights = check_numbers(frame[column], f"The column of weights {column!r}")
    check_weights(weights, column, kind)
    refuse_huge_weights(weights)
    check_any_weight(int((weights > 0).sum()), column)
    check_weight_total(float(weights.sum()), len(weights), column, kind)
    return scale_weights(weights, kind)

"""Formulas and a table become a `Design` with a selection equation.

A row needs the covariates and the outcome of its own equation, and of no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from selfselect.data.build import with_column
from selfselect.data.coding import check_known
from selfselect.data.columns import (
    NOTHING_SELECTED,
    check_any_weight,
    check_counts,
    check_text_columns,
    check_varies,
    check_weight_total,
    check_word,
)
from selfselect.data.design import DataFacts, Design, Tally
from selfselect.data.equations import refuse_half_characters
from selfselect.data.missing import Unrecorded, say_incomplete
from selfselect.data.panels import (
    check_weights_kind,
    cluster_columns,
    learn_clusters,
    scale_weights,
)
from selfselect.data.rows import Source, guess_outcomes
from selfselect.data.selection_plan import SelectionPlan
from selfselect.data.selection_rows import (
    SelectionCoder,
    find_alternatives,
    learning_rows,
    rows_of,
)
from selfselect.data.tables import to_frame
from selfselect.errors import DataError
from selfselect.rules.base import Label


def build_selection_design(
    plan: SelectionPlan,
    data: Any,
    *,
    source: Source | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    cluster: Any = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
    available: Mapping[Any, str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Design:
    """Code a table for a model with a selection equation; options are those of `selfselect.fit`.

    Where there is a `source`, its rows are read piece by piece.
    """
    check_known(None, available)
    check_weights_kind(weights_kind, weights)
    check_word("missing", missing, ("drop", "raise"))
    check_word("missing_outcome", missing_outcome, ("raise", "drop", "silent"))
    plan = replace(
        plan, weights=weights if isinstance(weights, str) else None, weights_kind=weights_kind,
        missing=missing, missing_outcome=missing_outcome, available=available,
        unrecorded=Unrecorded.read(missing_outcome, outcome_between, None),
    )  # fmt: skip
    if source is not None:
        from selfselect.data.stream import build_selection_stream

        return build_selection_stream(
            plan, source, weights=weights, cluster=cluster, seed=seed, progress=progress
        )
    plan = replace(plan, ways=cluster_columns(cluster, data))
    frame = to_frame(data, plan.columns)
    frame, weights_column = with_column(frame, weights, "weights")
    plan = replace(plan, weights=weights_column)
    if not plan.ways:
        frame, labelled = with_column(frame, cluster, "cluster")
        plan = replace(plan, ways=() if labelled is None else (labelled,))
    if len(frame) == 0:
        raise DataError("The table has no rows.")
    check_text_columns(frame, [name for name in plan.term_columns if name not in plan.chosen])

    kept = plan.clean(frame)
    if kept.lacking:
        say_incomplete(kept.n_incomplete, len(frame), kept.lacking, missing)
    frame = kept.frame
    if not len(frame):
        raise DataError("No row is complete: every one lacks something, so none is left to fit.")
    codes, met = plan.choices(frame)
    labels, formulas = find_alternatives(plan, frame)
    if plan.switching:
        codes = np.array([*(labels.index(label) for label in met), -1], dtype=np.intp)[codes]
    counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
    check_both_sides(plan, labels, counts, len(frame))
    shown, left = plan.shown(frame, codes), list(plan.first.outcome_columns)
    recorded = [frame.loc[shown == j, left] for j in range(len(labels))]
    refuse_half_characters((plan.first.outcome, *labels, *plan.term_columns))
    which = learning_rows(plan, formulas, frame, shown)
    frames = {key: rows_of(frame, rows) for key, rows in which.items()}
    clusters, _ = learn_clusters(frame, plan.ways)
    coder, matrices = SelectionCoder.learn(plan, labels, formulas, frames, recorded, clusters)
    rows = coder.assemble(frame, coder.place(frame, codes, which, matrices))
    coder.check(rows)
    if rows.weights is not None:
        rows = replace(rows, weights=scale_weights(rows.weights, weights_kind))
    assert rows.outcome is not None
    guessed = guess_outcomes(rows.outcome, rows.between)
    shown = np.where(np.isnan(guessed), -1, codes)
    tally = replace(
        Tally.of(guessed, codes, rows.weights, labels),
        n_between=int((np.isnan(rows.outcome) & (shown >= 0)).sum()),
    )
    each = [guessed[shown == j] for j in range(len(labels))]
    ranges = [(own.min(), own.max()) for own in each]
    facts = describe_selection(coder, tally, ranges, kept.n_incomplete, kept.n_without)
    return Design(coder.coding, rows, facts, frame.index, frame)


def check_both_sides(
    plan: SelectionPlan, labels: Sequence[Label], counts: Sequence[int], n_rows: int
) -> None:
    """Refuse rows that leave no selection to model, given how many each alternative has."""
    if plan.switching:
        if len(labels) < 2:
            raise DataError(
                f"Every row has {labels[0]!r} in {plan.choice!r}: there is no selection "
                "to model. Give rows of several alternatives."
            )
        check_counts(counts, [1] * len(labels), labels, plan.choice)
        return
    if counts[0] in (0, n_rows):
        every, why = ("Every", NOTHING_SELECTED)
        if not counts[0]:
            every, why = ("No", "no outcome is observed")
        raise DataError(
            f"{every} row is selected by {plan.choice!r}: then {why}, and there is no "
            "selection to model. Give rows of both kinds."
        )


def describe_selection(
    coder: SelectionCoder,
    tally: Tally,
    ranges: Sequence[tuple[float, float]],
    n_dropped: int,
    n_without: int,
) -> DataFacts:
    """Check what rows add up to, and say what a reader of the results should know of them.

    `ranges` are the smallest and the largest outcome of each alternative.
    """
    plan, labels = coder.plan, coder.labels
    if plan.weights is not None:
        check_any_weight(tally.n_weighted, plan.weights)
        check_weight_total(tally.weight_total, tally.n_rows, plan.weights, plan.weights_kind)
    shown = [tally.shown[label] for label in labels]
    sizes = [len(equation.terms) + 2 for equation in coder.coding.equations.each]
    if plan.switching:
        which = " with a known outcome" * (tally.n_recorded < tally.n_rows - tally.n_undecided)
        check_counts(shown, sizes, labels, plan.choice, which)
    elif shown[0] < sizes[0]:
        raise DataError(
            f"Only {shown[0]} of {tally.n_rows} rows are selected with a known outcome, but its "
            f"equation has {sizes[0]} parameters. Give it fewer covariates, or give more rows."
        )
    for label, (lowest, highest) in zip(labels, ranges, strict=True):
        check_varies(lowest, highest, plan.outcome_of(label))
    counts, of_outcomes = tally.rows_of(labels, plan.weights_kind)
    return DataFacts(
        formulas=tuple(one.text for one in coder.formulas),
        chosen=plan.choice,
        weights=plan.weights,
        cluster=" and ".join(plan.ways) or None,
        n_rows=tally.n_rows,
        n_dropped=n_dropped,
        n_without_outcome=n_without,
        counts=counts,
        shown=of_outcomes,
        weight_total=tally.weight_total,
        outcome_range=(tally.lowest, tally.highest),
        n_silent=tally.n_rows - tally.n_recorded,
        two_values=tally.two_values,
        n_selected_silent=tally.n_rows - tally.n_undecided - tally.n_recorded,
        n_between=tally.n_between,
        weights_kind=plan.weights_kind,
        n_zero_weight=tally.n_rows - tally.n_weighted,
        n_effective=0.0 if plan.weights is None else tally.n_effective,
        selection=f"~ {plan.selection.terms}" if plan.if_recorded else plan.selection.text,
    )

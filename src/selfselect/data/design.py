"""What becomes of a table: coded rows, how they were coded, and what to tell of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import Coding
from selfselect.data.columns import (
    NOTHING_SELECTED,
    check_any_weight,
    check_chosen_available,
    check_counts,
    check_covariates,
    check_outcome,
    check_varies,
    check_weight_total,
    check_weights,
)
from selfselect.data.equations import Equations
from selfselect.data.panels import check_groups, refuse_huge_weights
from selfselect.data.rows import Rows
from selfselect.errors import DataError
from selfselect.rules.base import Label

if TYPE_CHECKING:
    from selfselect.data.stream import RowStream


Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class DataFacts:
    """What a reader of the results should know of the data.

    Attributes
    ----------
    formulas : the formulas as given, one per alternative.
    chosen : name of the column of the chosen alternative; None where it was not recorded.
    weights, cluster : names of those columns, None where there are none.
    n_rows : rows used.
    n_dropped : rows left out for a missing covariate.
    n_without_outcome : rows left out, at the user's wish, for a missing outcome.
    counts : rows in which each alternative was chosen; empty where that was not recorded.
    shown : of those, rows whose outcome, or a limit of it, was recorded.
    weight_total : sum of the weights; the number of rows where there are none.
    outcome_range : smallest and largest outcome.
    n_silent : rows used for what their choice says, without an outcome.
    n_selected_silent : those of them that a selection equation selected.
    n_between : rows that it selected whose outcome is known only to lie between limits.
    two_values : whether an outcome that a selection equation selects has two values alone.
    n_undecided : rows without a recorded choice, where others have one.
    weights_kind : frequency or probability; None where it was not said.
    n_zero_weight : rows used whose weight is zero.
    case : name of the column of cases, of which long data has several rows each; None elsewhere.
    n_long_rows : rows of the long data that were used.
    n_effective : rows of equal weight that would say as much about a mean as these do,
        (sum of weights)² / (sum of their squares); zero where there are no weights.
    selection : the formula of the selection equation as given; None where there is none.
    panel : name of the column that says whose row it is; None where each row is its own.
    n_groups : people of that column.
    group_total : sum of their weights; their number where there are none.
    """

    formulas: tuple[str, ...]
    chosen: str | None
    weights: str | None
    cluster: str | None
    n_rows: int
    n_dropped: int
    n_without_outcome: int
    counts: tuple[int, ...]
    shown: tuple[int, ...]
    weight_total: float
    outcome_range: tuple[float, float]
    n_silent: int = 0
    n_selected_silent: int = 0
    n_between: int = 0
    two_values: bool = False
    n_undecided: int = 0
    weights_kind: str | None = None
    n_zero_weight: int = 0
    case: str | None = None
    n_long_rows: int = 0
    n_effective: float = 0.0
    selection: str | None = None
    panel: str | None = None
    n_groups: int = 0
    group_total: float = 0.0

    @property
    def n_observations(self) -> int:
        """Rows that count: all, those of positive weight, or those that rows stand for."""
        if self.weights_kind == "frequency":
            return round(self.weight_total)
        return self.n_rows - self.n_zero_weight

    def bic(self, loglik: float, n_parameters: int) -> float:
        """Return Schwarz's criterion of a model of these rows: the one place where it is defined.

        Where the rows say whose they are, its n is people and not rows, whatever the noise of the
        model: models of which some take a person's rows together, and some do not, are compared.
        """
        total = self.weight_total if self.panel is None else self.group_total
        return float(np.log(total)) * n_parameters - 2.0 * loglik


@dataclass(frozen=True, eq=False)
class Design:
    """A table made ready: how it was coded, the coded rows, what to tell of them, their labels.

    `table` holds the columns that were used, as they were given. Where rows are read piece by
    piece, `stream` has all of them and `rows` a sample.
    """

    coding: Coding
    rows: Rows
    facts: DataFacts
    labels: pd.Index[Any] | None
    table: pd.DataFrame | None = None
    stream: RowStream | None = None

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """How many clusters there are, one number per way of clustering."""
        return (self.rows if self.stream is None else self.stream).cluster_sizes

    @property
    def equations(self) -> Equations:
        """Names and positions of all terms."""
        return self.coding.equations

    @property
    def index(self) -> Literal["known", "unknown"]:
        """Whether the chosen alternative was recorded."""
        return "unknown" if self.rows.chosen is None else "known"

    @property
    def partial(self) -> bool:
        """Whether some rows lack their outcome, or their choice is known in part."""
        if self.equations.selection is not None:
            # Rows without an outcome, or limits of it, speak of the selection alone.
            return self.rows.between is not None
        narrowed = self.index == "unknown" and self.rows.possible is not None
        return self.facts.n_silent > 0 or self.facts.n_undecided > 0 or narrowed

    @property
    def exchangeable(self) -> bool:
        """Whether alternatives have no names, so that any order of them is the same model."""
        equations = (self.equations.each, self.equations.spreads)
        same = all(len({one.columns for one in some}) <= 1 for some in equations)
        return self.index == "unknown" and same

    @property
    def n_counted(self) -> int:
        """Rows that count: those of positive weight."""
        weights = self.rows.weights
        return len(self.rows) if weights is None else int((weights > 0).sum())

    @property
    def n_coefficients(self) -> int:
        """Coefficients of all equations; with an unknown index it takes more rows than that."""
        return sum(self.equations.own_terms) + len(self.equations.shared)


@dataclass(frozen=True)
class Tally:
    """Sums over rows that a reader should know, or that tell whether a fit is possible.

    Attributes
    ----------
    n_rows, n_recorded : rows, and those with an outcome.
    lowest, highest : outcome.
    weight_total, weight_squares, n_weighted : sums of the weights and of their squares, and rows
        whose weight is positive.
    n_undecided : rows without a recorded choice.
    counts : by alternative, rows of positive weight in which it was chosen.
    repeated : by alternative, the sum of their weights.
    shown, shown_repeated : the same of rows that have an outcome.
    two_values : whether outcomes have two values at most.
    n_between : rows that a selection equation selected, with limits of the outcome alone.
    """

    n_rows: int
    n_recorded: int
    lowest: float
    highest: float
    weight_total: float
    weight_squares: float
    n_weighted: int
    n_undecided: int
    counts: Counter[Any]
    repeated: Counter[Any]
    shown: Counter[Any]
    shown_repeated: Counter[Any]
    two_values: bool = False
    n_between: int = 0

    @classmethod
    def of(
        cls, outcome: Array, chosen: Indices | None, weights: Array | None, labels: Sequence[Any]
    ) -> Tally:
        """Count rows; `labels` are what the codes in `chosen` stand for."""
        if weights is not None:
            refuse_huge_weights(weights)
        absent = np.isnan(outcome)
        recorded = outcome[~absent] if absent.any() else outcome
        counts, repeated = _chosen(chosen, weights, labels)
        shown, shown_repeated = counts, repeated
        if chosen is not None and absent.any():
            shown, shown_repeated = _chosen(np.where(absent, -1, chosen), weights, labels)
        with np.errstate(over="ignore"):
            squares = float(len(outcome) if weights is None else np.square(weights).sum())
        lowest = float(recorded.min(initial=np.inf))
        highest = float(recorded.max(initial=-np.inf))
        return cls(
            n_rows=len(outcome),
            n_recorded=len(recorded),
            lowest=lowest,
            highest=highest,
            weight_total=float(len(outcome) if weights is None else weights.sum()),
            weight_squares=squares,
            n_weighted=len(outcome) if weights is None else int((weights > 0).sum()),
            n_undecided=0 if chosen is None else int((chosen < 0).sum()),
            counts=counts,
            repeated=repeated,
            shown=shown,
            shown_repeated=shown_repeated,
            two_values=_has_two_values(outcome, lowest, highest),
        )

    @property
    def n_effective(self) -> float:
        """Rows of equal weight that would say as much about a mean."""
        if not self.weight_squares:
            return 0.0
        return self.weight_total / self.weight_squares * self.weight_total

    def rows_of(
        self, labels: Sequence[Any], weights_kind: str | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the rows of each alternative, or those they stand for, and those of them shown."""
        pair = (self.counts, self.shown)
        if weights_kind == "frequency":
            pair = (self.repeated, self.shown_repeated)
        counts, shown = (tuple(int(one[label]) for label in labels) for one in pair)
        return counts, shown

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            n_rows=self.n_rows + other.n_rows,
            n_recorded=self.n_recorded + other.n_recorded,
            lowest=min(self.lowest, other.lowest),
            highest=max(self.highest, other.highest),
            weight_total=self.weight_total + other.weight_total,
            weight_squares=self.weight_squares + other.weight_squares,
            n_weighted=self.n_weighted + other.n_weighted,
            n_undecided=self.n_undecided + other.n_undecided,
            counts=self.counts + other.counts,
            repeated=self.repeated + other.repeated,
            shown=self.shown + other.shown,
            shown_repeated=self.shown_repeated + other.shown_repeated,
            two_values=self.two_values and other.two_values and len(self.ends | other.ends) <= 2,
            n_between=self.n_between + other.n_between,
        )

    @property
    def ends(self) -> set[float]:
        """The smallest and the largest outcome, where there is one."""
        return {self.lowest, self.highest} if self.n_recorded else set()


def _chosen(
    chosen: Indices | None, weights: Array | None, labels: Sequence[Any]
) -> tuple[Counter[Any], Counter[Any]]:
    """Return by label the rows of positive weight that have it, and the sum of their weights."""
    if chosen is None:
        return Counter(), Counter()
    decided, counted = chosen, weights
    undecided = chosen < 0
    if undecided.any():
        decided = chosen[~undecided]
        counted = None if weights is None else weights[~undecided]
    found = sums = np.bincount(decided, counted, minlength=len(labels))
    if counted is not None:
        found = np.bincount(decided[counted > 0], minlength=len(labels))
    return (
        Counter(dict(zip(labels, found.tolist(), strict=True))),
        Counter(dict(zip(labels, sums.tolist(), strict=True))),
    )


def _has_two_values(outcome: Array, lowest: float, highest: float) -> bool:
    """Say whether outcomes have two values at most; few rows tell most that have more."""
    parts = (outcome[:1_000], outcome)
    return not any(((part > lowest) & (part < highest)).any() for part in parts)


def check_rows(
    equations: Equations, rows: Rows, weights: str | None, weights_kind: str | None
) -> None:
    """Refuse rows with values that no fit can use."""
    assert rows.outcome is not None
    check_outcome(rows.outcome, equations.outcome)
    check_covariates(rows.covariates, equations.covariates)
    check_known_values(equations.alternatives, rows, weights, weights_kind)


def check_known_values(
    labels: Sequence[Label], rows: Rows, weights: str | None, weights_kind: str | None
) -> None:
    """Refuse weights that no fit can use, and chosen alternatives that were not available."""
    if rows.weights is not None:
        check_weights(rows.weights, weights or "weights", weights_kind)
    if rows.chosen is not None and rows.known.available is not None:
        check_chosen_available(rows.chosen, rows.known.available, labels)


def check_and_describe(
    coding: Coding,
    rows: Rows,
    *,
    weights: str | None,
    weights_kind: str | None,
    panel: str | None = None,
    **described: Any,
) -> DataFacts:
    """Check coded rows, and say what a reader of the results should know of them.

    The arguments are those of `describe`, and the panel column.
    """
    assert rows.outcome is not None
    equations = coding.equations
    check_rows(equations, rows, weights, weights_kind)
    tally = Tally.of(rows.outcome, rows.chosen, rows.weights, equations.alternatives)
    facts = describe(equations, tally, weights=weights, weights_kind=weights_kind, **described)
    if panel is None:
        return facts
    check_groups(rows, panel, equations.types, repeated=weights_kind == "frequency")
    assert rows.groups is not None
    first = np.unique(rows.groups, return_index=True)[1]
    total = float(len(first)) if rows.weights is None else float(rows.weights[first].sum())
    return replace(facts, panel=panel, n_groups=len(first), group_total=total)


def describe(
    equations: Equations,
    tally: Tally,
    *,
    formulas: tuple[str, ...],
    chosen: str | None,
    weights: str | None,
    cluster: str | None,
    n_dropped: int,
    n_without_outcome: int,
    weights_kind: str | None,
    case: str | None = None,
    n_long_rows: int = 0,
) -> DataFacts:
    """Check what rows add up to, and say what a reader of the results should know of them."""
    labels = equations.alternatives
    if not tally.n_recorded:
        raise DataError(
            f"No row has an outcome {equations.outcome!r}, so nothing says in which units the "
            "alternatives differ. Give rows with outcomes."
        )
    check_varies(tally.lowest, tally.highest, equations.outcome)
    check_any_weight(tally.n_weighted, weights or "weights")
    if weights is not None:
        check_weight_total(tally.weight_total, tally.n_rows, weights, weights_kind)
    if len(labels) < 2:
        raise DataError(
            f"Only one alternative occurs in {chosen!r} ({labels[0]!r}): then nothing was "
            f"selected, and {NOTHING_SELECTED}. Give rows of at least two."
        )
    counts: tuple[int, ...] = ()
    shown: tuple[int, ...] = ()
    if chosen is not None:
        sizes = [len(equation.terms) + 1 for equation in equations.each]
        if equations.restricted:
            # With nothing of its own, an alternative that is never chosen is known by the others.
            sizes = [own + 1 if own else 0 for own in equations.own_terms]
        check_counts([tally.counts[label] for label in labels], sizes, labels, chosen)
        counts, shown = tally.rows_of(labels, weights_kind)
    return DataFacts(
        formulas=formulas,
        chosen=chosen,
        weights=weights,
        cluster=cluster,
        n_rows=tally.n_rows,
        n_dropped=n_dropped,
        n_without_outcome=n_without_outcome,
        counts=counts,
        shown=shown,
        weight_total=tally.weight_total,
        outcome_range=(tally.lowest, tally.highest),
        n_silent=tally.n_rows - tally.n_recorded,
        n_undecided=tally.n_undecided,
        weights_kind=weights_kind,
        n_zero_weight=tally.n_rows - tally.n_weighted,
        case=case,
        n_long_rows=n_long_rows,
        n_effective=0.0 if weights is None else tally.n_effective,
    )

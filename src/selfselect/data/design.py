"""What becomes of a table: coded rows, how they were coded, and what to tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from selfselect.data.checks import (
    check_chosen_available,
    check_counts,
    check_covariates,
    check_outcome,
    check_weights,
)
from selfselect.data.coding import Coding
from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.errors import DataError

__all__ = ["DataFacts", "Design", "check_and_describe"]


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
    n_silent : rows used for what their choice says, without an outcome.
    n_undecided : rows in which it was not recorded who was seen, where it was in others.
    weights_kind : frequency or probability; None where it was not said.
    n_zero_weight : rows used whose weight is zero.
    case : name of the column of cases, of which long data has several rows each; None elsewhere.
    n_long_rows : rows of the long data that were used.
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
    n_silent: int = 0
    n_undecided: int = 0
    weights_kind: str | None = None
    n_zero_weight: int = 0
    case: str | None = None
    n_long_rows: int = 0

    @property
    def n_observations(self) -> int:
        """Rows that count: all, those of positive weight, or those that rows stand for."""
        if self.weights_kind == "frequency":
            return round(self.weight_total)
        return self.n_rows - self.n_zero_weight


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
    def partial(self) -> bool:
        """Whether some rows lack their outcome, or who was seen in them is known in part."""
        narrowed = self.index == "unknown" and self.rows.possible is not None
        return self.facts.n_silent > 0 or self.facts.n_undecided > 0 or narrowed

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
        return sum(self.equations.own_terms) + len(self.equations.shared)


def check_and_describe(
    coding: Coding,
    rows: Rows,
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
    """Check coded rows, and say what a reader of the results should know of them."""
    equations = coding.equations
    assert rows.outcome is not None
    recorded = rows.outcome[~np.isnan(rows.outcome)]
    if not len(recorded):
        raise DataError(
            f"No row has an outcome {equations.outcome!r}, so nothing says in which units the "
            "alternatives differ. Give rows with outcomes."
        )
    check_outcome(recorded, equations.outcome)
    check_covariates(rows.covariates, equations.covariates)
    if rows.weights is not None:
        check_weights(rows.weights, weights or "weights", weights_kind)
    if equations.n_alternatives < 2:
        raise DataError(
            f"Only one alternative is seen in {chosen!r} ({equations.alternatives[0]!r}): then "
            "nothing was selected and least squares is right. Give rows of at least two."
        )
    counts: tuple[int, ...] = ()
    if rows.chosen is not None:
        sizes = [len(equation.terms) + 1 for equation in equations.each]
        if equations.restricted:
            # With nothing of its own, an alternative that is never seen is known by the others.
            sizes = [own + 1 if own else 0 for own in equations.own_terms]
        counts_here = rows.chosen >= 0
        if rows.weights is not None:
            counts_here &= rows.weights > 0
        counted = rows.chosen[counts_here]
        counts = tuple(np.bincount(counted, minlength=equations.n_alternatives).tolist())
        check_counts(counts, sizes, equations.alternatives, str(chosen))
        if rows.known.available is not None:
            check_chosen_available(rows.chosen, rows.known.available, equations.alternatives)
        if weights_kind == "frequency" and rows.weights is not None:
            repeated = np.bincount(
                rows.chosen[rows.chosen >= 0],
                rows.weights[rows.chosen >= 0],
                equations.n_alternatives,
            )
            counts = tuple(repeated.astype(int).tolist())
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
        outcome_range=(float(recorded.min()), float(recorded.max())),
        n_silent=len(rows) - len(recorded),
        n_undecided=0 if rows.chosen is None else int((rows.chosen < 0).sum()),
        weights_kind=weights_kind,
        n_zero_weight=0 if rows.weights is None else int((rows.weights == 0).sum()),
        case=case,
        n_long_rows=n_long_rows,
    )

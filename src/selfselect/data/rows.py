"""Rows as numbers: all that later stages know of a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from selfselect.rules.base import RowData

__all__ = ["Rows", "counted_rows", "guess_outcomes"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of the data, coded.

    Attributes
    ----------
    covariates : (n, D) the covariates of all equations, without a constant column.
    outcome : (n,) what was recorded, nan where it was not; None for rows to predict.
    chosen : (n,) index of the chosen alternative, -1 where it was not recorded; None for rows to
        predict, and where it was recorded in no row.
    weights : (n,) row weights; None where all are one.
    clusters : (n,) cluster number of each row, (n, ways) where rows are clustered in several ways;
        None where there are none.
    known : costs and availability of alternatives by row.
    between : (n, 2) limits of outcomes that were not recorded; None where there are none.
    possible : (n, k) which alternatives may be the chosen one; None where `chosen` says all.
    groups : (n,) number of the person each row belongs to; None where each row is its own.
    """

    covariates: Array
    outcome: Array | None = None
    chosen: Indices | None = None
    weights: Array | None = None
    clusters: Indices | None = None
    known: RowData = field(default_factory=RowData)
    between: Array | None = None
    possible: NDArray[np.bool_] | None = None
    groups: Indices | None = None

    def __len__(self) -> int:
        return int(self.covariates.shape[0])

    def take(self, which: slice | Indices) -> Rows:
        """Keep the rows `which`; a slice makes views, not copies."""
        return Rows(
            self.covariates[which],
            None if self.outcome is None else self.outcome[which],
            None if self.chosen is None else self.chosen[which],
            None if self.weights is None else self.weights[which],
            None if self.clusters is None else self.clusters[which],
            self.known.take(which),
            None if self.between is None else self.between[which],
            None if self.possible is None else self.possible[which],
            None if self.groups is None else self.groups[which],
        )

    def copies(self, which: Indices, copy: Indices) -> Rows:
        """Keep the rows `which`, of which those of another `copy` (n,) belong to other people."""
        made = self.take(which)
        if made.groups is None or self.groups is None:
            return made
        return replace(made, groups=made.groups + copy * (int(self.groups.max(initial=-1)) + 1))

    @property
    def group_starts(self) -> Indices | None:
        """Where groups begin, whose rows stand together; None where each row is its own group."""
        if self.groups is None:
            return None
        starts = np.flatnonzero(np.diff(self.groups, prepend=-1))
        return None if len(starts) == len(self) else starts

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """How many clusters there are, one number per way of clustering."""
        if self.clusters is None:
            return ()
        return tuple((self.clusters.reshape(len(self), -1).max(axis=0) + 1).tolist())

    def reweighted(self, factor: Array) -> Rows:
        """Multiply the weight of each row by `factor`."""
        return replace(self, weights=factor if self.weights is None else self.weights * factor)


def guess_outcomes(outcome: Array, between: Array | None) -> Array:
    """Return outcomes (n,) with guesses for those between limits, nan where nothing is known.

    A guess is the middle of two limits, or the only one there is.
    """
    if between is None:
        return outcome
    low, high = np.where(np.isfinite(between), between, np.nan).T
    middle = 0.5 * low + 0.5 * high
    middle = np.where(np.isnan(low), high, np.where(np.isnan(high), low, middle))
    return np.where(np.isnan(outcome), middle, outcome)


def counted_rows(rows: Rows) -> Rows:
    """Return the rows that count: those of positive weight."""
    return rows if rows.weights is None else rows.take(np.flatnonzero(rows.weights > 0))

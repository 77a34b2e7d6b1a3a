"""Which rows of many a sample takes, and how often a bootstrap draws each."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows

__all__ = ["draw_counts", "groups_evenly", "spread_evenly", "times_drawn"]

Array = NDArray[np.float64]

LONG_RUN = 1_000
"""Stretches of one length, on average, from which they are drawn together."""


def spread_evenly(total: int, n_rows: int, rng: Generator) -> NDArray[np.intp]:
    """Return one row at random from each of `n_rows` equal stretches of `total` rows.

    They are distinct and spread evenly, at a cost that does not grow with the data.
    """
    edges = np.arange(n_rows + 1) * total // n_rows
    width, longer = divmod(total, n_rows)
    if longer > n_rows // LONG_RUN:
        return rng.integers(edges[:-1], edges[1:])
    # So many stretches have a row more. Those between them are drawn with one limit for all, which
    # takes a third of the time and gives the same numbers.
    ends = -(-np.arange(1, longer + 1) * n_rows // max(longer, 1))
    runs = np.diff(np.column_stack([ends - 1, ends]).ravel(), prepend=0, append=n_rows)
    which, at = edges[:-1], 0
    for number, size in enumerate(runs.tolist()):
        which[at : at + size] += rng.integers(width + number % 2, size=size)
        at += size
    return which


def groups_evenly(groups: NDArray[np.intp], n_rows: int, rng: Generator) -> NDArray[np.intp]:
    """Return the rows of groups that have about `n_rows` rows together, each group whole."""
    _, place = np.unique(groups, return_inverse=True)
    n_groups = int(place.max()) + 1
    wanted = max(1, round(n_rows * n_groups / len(groups)))
    kept = np.zeros(n_groups, dtype=bool)
    kept[spread_evenly(n_groups, min(wanted, n_groups), rng)] = True
    return np.flatnonzero(kept[place])


def draw_counts(rng: Generator, n_units: int) -> Array:
    """Return how often each of `n_units` is drawn in as many draws with replacement."""
    drawn = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)
    return drawn.astype(float)


def times_drawn(rows: Rows, rng: Generator, *, repeated: bool, n_clusters: int) -> Array:
    """Return what a bootstrap sample multiplies each row's weight by; see `Engine.resampled`."""
    weights = rows.weights
    if n_clusters:
        assert rows.clusters is not None
        return draw_counts(rng, n_clusters)[rows.clusters]
    if repeated and weights is not None:
        drawn = rng.multinomial(int(weights.sum()), weights / weights.sum())
        return drawn / np.where(weights > 0, weights, 1.0)
    return draw_counts(rng, len(rows))

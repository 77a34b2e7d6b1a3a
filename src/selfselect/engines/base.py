"""What an engine is asked, and which rows a sample takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows, Source
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# Which rows of many a sample takes, and how often a bootstrap draws each.


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


# The contract of engines: where rows live and how sums over them are done.
#
# A solver, a covariance or a test never loops over rows. It hands the engine a task, a function of
# a batch whose results can be added, and gets the sum back.


ROWS_AT_ONCE = 16_384
"""Rows, times places, that a pass by one core takes at once: with fewer the calls take longer than
what they do, with more the rows leave the cache."""


class Addable(Protocol):
    """Anything with a sum."""

    def __add__(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Addable)


class Engine(Protocol):
    """Anything that holds rows and sums over them."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def weight_total(self) -> float:
        """The sum of the rows' weights; their number where they have none."""

    @property
    def holds_rows(self) -> bool:
        """Whether all rows can be had at once."""

    @property
    def rows_at_once(self) -> int:
        """Rows, times places, up to which climbs that go side by side should share a pass."""

    @property
    def rows(self) -> Rows:
        """All rows at once; an error that says why not where they are not held in memory."""

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        """Add up what `task` returns for every batch of rows."""

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        """Join what `task` returns per row, in the order of the rows."""

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        """Yield what `task` returns for each item, in order, worked on where the engine's work is.

        It is for work of its own, such as the climbs of a search on a sample, not for sums.
        """

    def sample(self, n_rows: int, rng: Generator) -> Engine:
        """Return an engine over `n_rows` rows spread evenly at random over all rows."""

    def recorded(self) -> Engine:
        """Return an engine over the rows whose outcome was recorded."""

    def single_threaded(self) -> Engine:
        """Return an engine over the same rows for callers that run several fits at once."""

    def reweighted(self, factor: Array) -> Engine:
        """Return an engine over the same rows with weights multiplied by `factor` (n,)."""

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> Engine:
        """Return an engine over rows drawn with replacement: one sample of a bootstrap.

        A sample is a reweighting: the weight of a row is multiplied by how often it, or its
        cluster where there are `n_clusters` of them, was drawn. Where rows are `repeated`, each
        stands for as many rows as its weight says, and those are drawn one by one.
        """


class EngineChoice(Protocol):
    """What a user gives to say where sums are done: it makes an engine of rows."""

    @property
    def threads(self) -> int | None:
        """How many threads of this process a fit uses; None for the default."""

    def open(self, data: Any) -> Source | None:
        """Return a source to read the data from piece by piece; None to read it at once."""

    def load(self, problem: Problem, rows: Any) -> Engine:
        """Take hold of rows, or of a stream of them, for a problem."""

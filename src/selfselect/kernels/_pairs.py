"""Pairs of alternatives: what the Gram matrix of a pair is made of, and where its sums belong.

Alternatives mostly share their columns, and what two of them share has a symmetric Gram matrix. So
a pair's columns make one list: those of both, then those of the first only, then those of the
second only. Of the list's Gram matrix the lower triangle is built, without the tiles that hold
nothing but the first's own against each other, or the second's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from selfselect.kernels._blocks import TILE

__all__ = ["PAIR_TYPES", "Pairs", "cross_blocks", "pair_up"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """What the compiled code takes of P pairs of k alternatives, and what it fills.

    Attributes
    ----------
    rows : per alternative the rows of the block that hold its columns, that of h last, which no
        other has; 0 stands for the constant.
    width : how many columns an alternative may have, without that of h.
    members : (P, 2) the two alternatives.
    counts : (P,) how many columns they have together, without the constant.
    sources : (P, L) the rows of the block that hold these.
    reach : (P, L) where the tiles end against which the tile that starts here is taken.
    plain, sums, gram : (P,), (P, 2, L) and (P, L, L) zeros, for the sums of c, of c z (twice) and,
        in the lower triangle, of c z z'.
    """

    rows: list[list[int]]
    width: int
    members: Indices
    counts: Indices
    sources: Indices
    reach: Indices
    plain: Array
    sums: Array
    gram: Array

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arrays, as the compiled code takes them."""
        return (
            self.members, self.counts, self.sources, self.reach, self.plain, self.sums, self.gram,
        )  # fmt: skip


PAIR_TYPES: Final = (
    types.int64[:, ::1],
    types.int64[::1],
    types.int64[:, ::1],
    types.int64[:, ::1],
    types.float64[::1],
    types.float64[:, :, ::1],
    types.float64[:, :, ::1],
)
"""What `Pairs.arguments` are, for the compiler."""


def pair_up(columns: Indices, sizes: Indices, n_covariates: int) -> Pairs:
    """List the columns of every pair of alternatives.

    In the block of the unknown index the covariates, -y and a whole tile of zeros are followed by
    one column for the h of each alternative.
    """
    zeros = n_covariates + 2
    rows = [
        [*map(int, columns[j, :size]), zeros + TILE + j] for j, size in enumerate(sizes.tolist())
    ]
    members = list(combinations(range(len(rows)), 2))
    lists, ends = [], []
    for first, second in members:
        (*these, h_of_first), (*those, h_of_second) = rows[first], rows[second]
        in_first, in_second = {0, *these}, {0, *those}
        # Either h belongs to one only, but that would be a whole tile for each.
        both = [row for row in these if row and row in in_second] + [h_of_first, h_of_second]
        only_first = [row for row in these if row not in in_second]
        only_second = [row for row in those if row not in in_first]
        lists.append(both + only_first + only_second)
        ends.append((len(both), len(both) + len(only_first)))

    length = max(map(len, lists), default=0) + TILE
    sources = np.full((len(members), length), zeros)
    reach = np.empty((len(members), length), np.int64)
    for i, listed in enumerate(lists):
        sources[i, : len(listed)] = listed
        reach[i] = _reach(length, *ends[i])
    return Pairs(
        rows,
        columns.shape[1],
        np.array(members, np.int64).reshape(-1, 2),
        np.array([len(listed) for listed in lists], np.int64),
        sources,
        reach,
        np.zeros(len(members)),
        np.zeros((len(members), 2, length)),
        np.zeros((len(members), length, length)),
    )


def _reach(length: int, both_end: int, first_end: int) -> Indices:
    """Say how far each tile reaches, one of two kinds as far as any of its columns needs."""
    start = np.arange(length)
    whole_tiles = [-(-end // TILE) * TILE for end in (both_end, first_end)]
    kinds = [start < both_end, start + TILE <= first_end]
    return np.minimum(start, np.select(kinds, [start, whole_tiles[0]], whole_tiles[1]))


def cross_blocks(pairs: Pairs) -> Array:
    """Return the sums of -c z z', (k, width + 1, k, width + 1), zero for one with itself.

    Each alternative's h is in the last place, its other columns are in the first ones.
    """
    n_alternatives, width = len(pairs.rows), pairs.width
    result = np.zeros((n_alternatives, width + 1, n_alternatives, width + 1))
    places = [np.append(np.arange(len(rows) - 1), width) for rows in pairs.rows]
    for i, (first, second) in enumerate(pairs.members):
        count = int(pairs.counts[i])
        # The constant comes last.
        whole = np.empty((count + 1, count + 1))
        below = pairs.gram[i, :count, :count]
        whole[:count, :count] = np.tril(below) + np.tril(below, -1).T
        whole[count, :count] = whole[:count, count] = pairs.sums[i, 1, :count]
        whole[count, count] = pairs.plain[i]
        at = {0: count} | {int(row): p for p, row in enumerate(pairs.sources[i, :count])}
        of_first, of_second = ([at[row] for row in pairs.rows[j]] for j in (first, second))
        block = -whole[np.ix_(of_first, of_second)]
        result[first, :, second][np.ix_(places[first], places[second])] = block
        result[second, :, first][np.ix_(places[second], places[first])] = block.T
    return result

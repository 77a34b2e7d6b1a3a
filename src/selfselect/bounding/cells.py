"""Cells of rows: combinations of the values of columns, and of groups of an instrument's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows, counted_rows
from selfselect.data.weights import weighted_quantiles
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.problem.batch import Batch

__all__ = [
    "Cells", "Factor", "Group", "label_factor", "merge_cells", "number_factor",
]  # fmt: skip

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST = 30
"""Rows below which a cell is no sample: an interval of its distribution would say nothing."""

MOST_LEVELS = 50
"""Values of a column of cells."""

MOST_CELLS = 500
"""Cells in all."""

GROUPS = 5
"""Groups that an instrument of many numbers is cut into."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A column that tells cells apart.

    Attributes
    ----------
    name : of the column.
    levels : what each code stands for.
    way : the place of its codes among those of `Rows.clusters`; None for a covariate.
    order : (levels,) which level each of those codes is.
    covariate : the place of its values among the covariates; None for labels.
    values : the number of each level, or the upper edges of groups of numbers.
    grouped : whether numbers are cut into groups.
    """

    name: str
    levels: tuple[Any, ...]
    way: int | None = None
    order: Indices | None = None
    covariate: int | None = None
    values: Array | None = None
    grouped: bool = False

    def codes(self, rows: Rows) -> Indices:
        """Return the level of each row."""
        if self.covariate is None:
            assert rows.clusters is not None and self.way is not None and self.order is not None
            return self.order[rows.clusters.reshape(len(rows), -1)[:, self.way]]
        assert self.values is not None
        found = np.searchsorted(self.values, rows.covariates[:, self.covariate])
        return np.minimum(found, len(self.levels) - 1)


def number_factor(name: str, covariate: int, engine: Engine, *, instrument: bool) -> Factor:
    """Make a factor of a numeric column: its values, or groups of an instrument's many values."""

    def met(batch: Batch) -> Counter[float]:
        own = counted_rows(batch.rows).covariates[:, covariate]
        return Counter(np.unique(own)[: MOST_LEVELS + 1].tolist())

    values = np.array(sorted(engine.sum(met)))
    if len(values) <= (2 * GROUPS if instrument else MOST_LEVELS):
        return Factor(name, tuple(map(_plain, values)), covariate=covariate, values=values)
    if not instrument:
        raise DataError(
            f"The column {name!r} of by= has more than {MOST_LEVELS} values, too many for cells. "
            "Cut it into groups first, or go along it: along="
            f"{name!r}."
        )
    sample = engine.sample(20_000, np.random.default_rng(0)).rows
    levels = np.arange(1, GROUPS) / GROUPS
    edges = np.unique(weighted_quantiles(sample.covariates[:, covariate], levels, sample.weights))
    shown = [f"{edge:.4g}" for edge in edges]
    texts = [f"<= {shown[0]}", *(f"{a} to {b}" for a, b in pairwise(shown))]
    texts.append(f"> {shown[-1]}")
    return Factor(name, tuple(texts), covariate=covariate, values=edges, grouped=True)


def label_factor(name: str, way: int, levels: Sequence[Any], *, instrument: bool) -> Factor:
    """Make a factor of a column of labels, coded beside the clusters."""
    if len(levels) > MOST_LEVELS:
        what = "instrument=" if instrument else "by="
        raise DataError(
            f"The column {name!r} of {what} has {len(levels)} values, more than {MOST_LEVELS}. "
            "Join them into fewer first."
        )
    # Sorted where they can be: neighbours are alike.
    place = sorted(range(len(levels)), key=lambda i: (str(type(levels[i])), levels[i]))
    order = np.empty(len(levels), dtype=np.intp)
    order[place] = np.arange(len(levels))
    return Factor(name, tuple(levels[i] for i in place), way=way, order=order)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells by columns, each cut further by an instrument where there is one.

    Attributes
    ----------
    by : the columns.
    instrument : the last factor, or None.
    lookup : (n_codes,) the cell of each combination, where some were joined; None where none were.
    """

    by: tuple[Factor, ...]
    instrument: Factor | None = None
    lookup: Indices | None = None

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All factors, the instrument last."""
        return self.by if self.instrument is None else (*self.by, self.instrument)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each factor has."""
        return tuple(len(factor.levels) for factor in self.factors)

    @property
    def n_codes(self) -> int:
        """Combinations of all levels, met or not; fewer where some were joined."""
        if self.lookup is not None:
            return int(self.lookup.max()) + 1
        return int(np.prod(self.sizes, dtype=float))

    def check(self) -> None:
        """Refuse more combinations than can be told apart."""
        if self.n_codes > MOST_CELLS:
            named = " x ".join(f"{one.name!r} ({len(one.levels)})" for one in self.factors)
            raise DataError(
                f"{named} make {self.n_codes} cells, more than {MOST_CELLS}. Name fewer columns, "
                "or join their values."
            )

    def codes(self, rows: Rows) -> Indices:
        """Return the cell of each row."""
        code = np.zeros(len(rows), dtype=np.intp)
        for factor, size in zip(self.factors, self.sizes, strict=True):
            code = code * size + factor.codes(rows)
        return code if self.lookup is None else self.lookup[code]

    def groups(self) -> list[tuple[tuple[Any, ...], list[int]]]:
        """Return the values of `by` with the codes of their cells, one per value of z."""
        inner = 1 if self.instrument is None else len(self.instrument.levels)
        outer = tuple(len(factor.levels) for factor in self.by)
        found = []
        for place, values in enumerate(np.ndindex(*outer)):
            named = tuple(f.levels[v] for f, v in zip(self.by, values, strict=True))
            found.append((named, [place * inner + z for z in range(inner)]))
        return found


@dataclass(frozen=True, eq=False)
class Group:
    """Rows with the same values of `by`: one cell, or one per group of the instrument's values.

    Attributes
    ----------
    values : of `by`.
    cells : places of the cells.
    texts : the instrument's values in each of them.
    """

    values: tuple[Any, ...]
    cells: tuple[int, ...]
    texts: tuple[str, ...]


def merge_cells(cells: Cells, counts: Array) -> tuple[Cells, tuple[Group, ...], tuple[str, ...]]:
    """Drop cells that no row is in, and join values of the instrument that few rows have.

    A function of an instrument is an instrument, so its values may be joined; cells of `by` with
    too few rows are refused by name.

    Parameters
    ----------
    cells : as they were asked for.
    counts : (n_codes,) effective rows of each.

    Returns
    -------
    the joined cells, their groups, and sentences on what was joined.
    """
    lookup = np.zeros(cells.n_codes, dtype=np.intp)
    found: list[Group] = []
    small: list[str] = []
    n_cells = n_joined = 0
    for values, codes in cells.groups():
        met = [code for code in codes if counts[code] > 0]
        if not met:
            continue
        if counts[met].sum() < FEWEST:
            named = ", ".join(f"{f.name} = {v}" for f, v in zip(cells.by, values, strict=True))
            small.append(f"{named or 'all rows'} ({counts[met].sum():.0f} rows)")
            continue
        joined = _join(met, counts)
        for place, group in enumerate(joined):
            lookup[group] = n_cells + place
        texts = tuple(
            "" if cells.instrument is None
            else ", ".join(str(cells.instrument.levels[code - codes[0]]) for code in group)
            for group in joined
        )  # fmt: skip
        found.append(Group(values, tuple(range(n_cells, n_cells + len(joined))), texts))
        n_cells += len(joined)
        n_joined += len(met) - len(joined)
    if small:
        raise DataError(
            f"Too few rows, fewer than {FEWEST}, are in {len(small)} "
            f"{'cell' if len(small) == 1 else 'cells'}: "
            f"{'; '.join(small[:5])}{'; ...' if len(small) > 5 else ''}. Join values of by=, or "
            "leave those rows out."
        )
    notes = []
    if n_joined and cells.instrument is not None:
        notes.append(
            f"{n_joined} values of {cells.instrument.name} with fewer than {FEWEST} rows are "
            "joined with their neighbours, which a valid instrument allows."
        )
    return replace(cells, lookup=lookup), tuple(found), tuple(notes)


def _join(codes: list[int], counts: Array) -> list[list[int]]:
    """Join codes with the next ones until each group has rows enough."""
    groups: list[list[int]] = [[]]
    for code in codes:
        if groups[-1] and counts[groups[-1]].sum() >= FEWEST:
            groups.append([])
        groups[-1].append(code)
    if len(groups) > 1 and counts[groups[-1]].sum() < FEWEST:
        last = groups.pop()
        groups[-1] += last
    return groups


def _plain(value: float) -> Any:
    return int(value) if value == int(value) else float(value)

"""One pass over a source, before the fit: what must be known of all rows to code any.

Categories, labels and clusters are met everywhere, so all are known before the first row is coded:
one that first appears in the last piece is as good as any other. Centres, scales and the knots of
splines depend on all values at once; the columns they need are held in memory during this pass,
eight bytes a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import check_numbers, factorize, find_kind, to_numbers
from selfselect.data.design import Tally
from selfselect.data.formula_code import calls_in, uses_of_columns
from selfselect.data.grammar import TRANSFORMS
from selfselect.data.panels import group_codes, person_keys
from selfselect.data.plan import Plan
from selfselect.data.rows import Piece
from selfselect.data.selection_plan import SelectionPlan
from selfselect.errors import DataError, UnsupportedError
from selfselect.rules.base import Label

Array = NDArray[np.float64]
Key = TypeVar("Key")

MOST_LEVELS = 100_000
"""Categories of a covariate beyond which it is taken for a mistake, such as a column of names."""

SAMPLE = 200_000
"""Rows kept for starts and units: enough that the optimum on them is close to that of all rows."""

SAMPLE_VALUES = 20_000_000
"""Values kept, which tables of many columns reach with fewer rows: 160 MB of doubles."""

AMPLE = 1.5
"""Rows that are kept on the way to a sample, by row of the sample, where the share is known."""

LEARNT_FROM = 1_000
"""Rows kept of each alternative, and of each right side that is learnt from the rows that have its
columns: they show the kinds of columns; what depends on all values is held apart."""

UNSORTED = 100_000
"""Values of a column that may wait before they are looked through for those that are the same."""

LEARNT_AT_ONCE = frozenset({"C", "Q"})
"""Transforms with a state that the values met suffice for, however often each was met."""


@dataclass(frozen=True)
class Wanted:
    """What a survey must find out.

    Attributes
    ----------
    levels : columns of which all values that occur are kept.
    held : columns of which all values are kept.
    sample : rows that are drawn.
    share : of the rows, from which they are drawn: somewhat more than will be drawn.
    """

    levels: frozenset[str]
    held: frozenset[str]
    sample: int = SAMPLE
    share: float = 1.0


def what_to_learn(
    plan: Plan | SelectionPlan, head: pd.DataFrame, n_rows: int | None = None
) -> Wanted:
    """Say what must be learnt from all rows, given a few to see what columns hold.

    Where it is known how many rows there are, few of each piece need to be kept for the sample.
    """
    sides = [one.terms for one in plan.right_sides]
    uses = [one for side in sides for one in uses_of_columns(side).items()]
    for name in plan.term_columns:
        as_category = all(use == {"label"} for column, use in uses if column == name)
        find_kind(head[name], name, as_category=as_category)
    levels = {
        name for name in plan.term_columns if not pd.api.types.is_numeric_dtype(head[name].dtype)
    }
    levels |= set(plan.label_columns)
    held: set[str] = set()
    for name, columns in (pair for one in plan.right_sides for pair in calls_in(one.terms)):
        if name == "C":
            levels |= columns
        elif hasattr(TRANSFORMS.get(name), "__is_stateful_transform__"):
            held |= columns - levels if name not in LEARNT_AT_ONCE else set()
    for left in plan.left_sides:
        for name, _ in calls_in(left):
            if hasattr(TRANSFORMS.get(name), "__is_stateful_transform__"):
                raise UnsupportedError(
                    f"The left side {left!r} depends on all rows at once through {name}(). Compute "
                    "it as a column first, or read the rows into memory: engine=engines.Memory()."
                )
    sample = min(SAMPLE, SAMPLE_VALUES // len(plan.columns) + 1)
    share = min(1.0, AMPLE * sample / n_rows) if n_rows else 1.0
    return Wanted(frozenset(levels), frozenset(held - levels), sample, share)


@dataclass(frozen=True, eq=False)
class Levels:
    """The values a column takes, and their order where it is one of categories.

    `parts` may hold a value twice; they are looked through only when they have become twice too
    many, `n_sorted` of which are distinct. `ordered` says whether categories are from the lowest to
    the highest.
    """

    parts: tuple[pd.Index[Any], ...]
    n_sorted: int
    order: dict[Any, None] | None
    ordered: bool = False

    @classmethod
    def of(cls, values: pd.Series[Any], *, text: bool = False) -> Levels:
        """Find the values that occur; those of `text` have no order, although they are coded."""
        if isinstance(values.dtype, pd.CategoricalDtype):
            order = None if text else dict.fromkeys(values.cat.categories)
            ordered = not text and bool(values.cat.ordered)
            codes = values.cat.codes.to_numpy()
            times = np.bincount(codes[codes >= 0], minlength=len(values.cat.categories))
            met = values.cat.categories[times > 0]
        else:
            order, ordered = None, False
            met = pd.Index(factorize(values, f"The column {values.name!r}")[1])
        return cls((met,), len(met), order, ordered)

    def __add__(self, other: Levels) -> Levels:
        order = None
        if self.order is not None and other.order is not None:
            order = {**self.order, **other.order}
        ordered = self.ordered and other.ordered
        joined = Levels(
            (*self.parts, *other.parts), max(self.n_sorted, other.n_sorted), order, ordered
        )
        if sum(map(len, joined.parts)) <= 2 * joined.n_sorted + UNSORTED:
            return joined
        return Levels((joined.met,), len(joined.met), order, ordered)

    @cached_property
    def met(self) -> pd.Index[Any]:
        """The values, each once. Whole numbers are decimals where they are in any piece."""
        # An empty part has a type of its own, which says nothing.
        full = [part for part in self.parts if len(part)] or self.parts
        return full[0].append(list(full[1:])).unique()

    def repeated(self, n_rows: int) -> Any:
        """Return a column of that length in which every value occurs."""
        if self.order is not None:
            met = set(self.met)
            known = [value for value in self.order if value in met]
            values = np.resize(np.array(known, dtype=object), n_rows)
            return pd.Categorical(values, known, ordered=self.ordered)
        return self.met.take(np.arange(n_rows) % len(self.met)).array


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A sample of rows without replacement: those with the smallest random keys met so far.

    `parts` holds (keys, number of the piece, rows of it in order); they are thinned out only when
    they have become twice too many.
    """

    size: int
    parts: tuple[tuple[Array, int, pd.DataFrame], ...]

    @classmethod
    def of(
        cls,
        piece: Piece,
        kept: pd.DataFrame,
        seed: int,
        size: int,
        share: float = 1.0,
        panel: str | None = None,
    ) -> DrawnRows:
        """Draw from one piece, with a random stream of its own; in a panel, whole people."""
        if panel is None:
            keys = np.random.default_rng([seed, piece.number]).random(len(kept))
        else:
            keys = person_keys(kept[panel], seed)
        if share < 1.0:
            at = np.flatnonzero(keys <= share)
            keys, kept = keys[at], kept.take(at)
        return cls(size, ((keys, piece.number, kept),))._thinned(size)

    def __add__(self, other: DrawnRows) -> DrawnRows:
        joined = DrawnRows(self.size, (*self.parts, *other.parts))
        return joined._thinned(self.size) if joined.n_rows > 2 * self.size else joined

    @property
    def n_rows(self) -> int:
        return sum(len(keys) for keys, _, _ in self.parts)

    def _thinned(self, size: int) -> DrawnRows:
        if self.n_rows <= size:
            return self
        every = np.concatenate([keys for keys, _, _ in self.parts])
        largest = np.partition(every, size - 1)[size - 1]
        parts = []
        for keys, number, frame in self.parts:
            which = np.flatnonzero(keys <= largest)
            parts.append((keys[which], number, frame.take(which)))
        return DrawnRows(self.size, tuple(parts))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The sample in the order of the source."""
        # Pieces come in any order.
        thinned = sorted(self._thinned(self.size).parts, key=lambda part: part[1])
        frames = [frame for _, _, frame in thinned if len(frame)]
        if not frames:
            return thinned[0][2]
        # Column by column: of whole frames pandas 2 warns where a column holds no value.
        joined = {
            name: pd.concat([frame[name] for frame in frames], ignore_index=True)
            for name in frames[0]
        }
        return pd.DataFrame(joined)


@dataclass(frozen=True, eq=False)
class Part:
    """What was found in rows that some right sides are learnt from.

    Attributes
    ----------
    levels, held : what was wanted of columns.
    drawn : a sample of the rows.
    lowest, highest : outcome.
    """

    levels: dict[str, Levels]
    held: dict[str, list[Array]]
    drawn: DrawnRows
    lowest: float
    highest: float

    def __add__(self, other: Part) -> Part:
        return Part(
            levels={name: one + other.levels[name] for name, one in self.levels.items()},
            held={name: one + other.held[name] for name, one in self.held.items()},
            drawn=self.drawn + other.drawn,
            lowest=min(self.lowest, other.lowest),
            highest=max(self.highest, other.highest),
        )

    def learning_frame(self) -> pd.DataFrame:
        """Return rows from which a coding learns the same as from all rows.

        Every value of a category occurs, columns that were held are whole, and others are those of
        the sample, repeated as needed.
        """
        sample = self.drawn.rows
        lengths = [len(sample), *(len(found.met) for found in self.levels.values())]
        whole = {name: np.concatenate(parts) for name, parts in self.held.items()}
        n_rows = max(map(len, whole.values())) if whole else max(lengths)
        if n_rows != len(sample):
            place = np.resize(np.arange(len(sample)), n_rows)
            sample = sample.iloc[place].reset_index(drop=True)
        full = {name: found for name, found in self.levels.items() if len(found.met)}
        made = {name: found.repeated(n_rows) for name, found in full.items()}
        return sample.assign(**made, **whole)


@dataclass(frozen=True, eq=False)
class Survey:
    """What was found in some pieces; adding joins what was found in others.

    Attributes
    ----------
    n_read, n_incomplete, n_without : rows read, left out for a covariate, and for an outcome.
    lacking : by covariate, rows that lack it.
    kept : (pieces, 3) number of each piece, rows of it that are used, and its checksum.
    tally : of the rows that are used.
    parts : what was found in all rows (None), and in those that show an alternative's outcome.
    sides : where there are several outcomes with a selection equation, by right side, what was
        found in the rows that have its columns.
    n_people, people_weight : people of each piece, and their weights, added up. One who is in two
        pieces counts twice.
    """

    n_read: int
    n_incomplete: int
    n_without: int
    lacking: Counter[str]
    kept: NDArray[np.int64]
    tally: Tally
    parts: dict[Label | None, Part]
    sides: dict[str, Part]
    n_people: int = 0
    people_weight: float = 0.0

    @classmethod
    def of(cls, plan: Plan | SelectionPlan, wanted: Wanted, seed: int, piece: Piece) -> Survey:
        """Survey one piece."""
        cleaned = plan.clean(piece.frame)
        kept = cleaned.frame
        weights = None
        if plan.weights is not None:
            weights = check_numbers(kept[plan.weights], f"The column of weights {plan.weights!r}")
        found = plan.contents(kept)
        parts: dict[Label | None, Part] = {}
        sides: dict[str, Part] = {}
        for one in found.learners:
            frame, columns = one.frame, set(one.columns)
            values = found.outcome
            size, share = wanted.sample, wanted.share
            if one.label is not None:
                assert found.chosen is not None
                values = values[found.chosen == found.labels.index(one.label)]
            if one.label is not None or one.side is not None:
                size, share = LEARNT_FROM, 1.0
            recorded = values[~np.isnan(values)]
            part = Part(
                levels={
                    name: Levels.of(frame[name], text=name in piece.text)
                    for name in sorted(wanted.levels & columns)
                },
                held={
                    name: [to_numbers(frame[name], f"The column {name!r}")]
                    for name in sorted(wanted.held & columns)
                },
                drawn=DrawnRows.of(piece, frame, seed, size, share, plan.panel),
                lowest=float(recorded.min(initial=np.inf)),
                highest=float(recorded.max(initial=-np.inf)),
            )
            if one.side is None:
                parts[one.label] = part
            else:
                sides[one.side] = part
        n_people, people_weight = 0, 0.0
        groups = group_codes(kept, plan.panel)
        if groups is not None:
            first = np.unique(groups, return_index=True)[1]
            n_people = len(first)
            people_weight = float(n_people if weights is None else weights[first].sum())
        return cls(
            n_read=len(piece.frame),
            n_incomplete=cleaned.n_incomplete,
            n_without=cleaned.n_without,
            lacking=cleaned.lacking,
            kept=np.array([[piece.number, len(kept), piece.checksum]], dtype=np.int64),
            tally=replace(
                Tally.of(found.outcome, found.chosen, weights, found.labels),
                n_between=found.n_between,
            ),
            parts=parts,
            sides=sides,
            n_people=n_people,
            people_weight=people_weight,
        )

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            n_read=self.n_read + other.n_read,
            n_incomplete=self.n_incomplete + other.n_incomplete,
            n_without=self.n_without + other.n_without,
            lacking=self.lacking + other.lacking,
            kept=np.concatenate([self.kept, other.kept]),
            tally=self.tally + other.tally,
            parts=_joined(self.parts, other.parts),
            sides=_joined(self.sides, other.sides),
            n_people=self.n_people + other.n_people,
            people_weight=self.people_weight + other.people_weight,
        )

    @property
    def drawn(self) -> DrawnRows:
        """A sample of the rows that are used."""
        return self.parts[None].drawn

    @property
    def lengths(self) -> dict[int, int]:
        """By piece, in order, rows that are used."""
        return dict(self.kept[np.argsort(self.kept[:, 0]), :2].tolist())

    @property
    def checksums(self) -> dict[int, int]:
        """By piece, what tells that its rows are still the same."""
        return dict(self.kept[:, [0, 2]].tolist())

    @property
    def starts(self) -> dict[int, int]:
        """By piece, the position of its first row among all rows that are used."""
        return dict(zip(self.lengths, accumulate(self.lengths.values(), initial=0), strict=False))

    def check_levels(self, covariates: Sequence[str]) -> None:
        """Refuse a covariate with more categories than any model could hold."""
        parts = (*self.parts.values(), *self.sides.values())
        for name, found in (pair for one in parts for pair in one.levels.items()):
            if name in covariates and len(found.met) > MOST_LEVELS:
                raise DataError(
                    f"The column {name!r} has {len(found.met):,} categories. Leave it out, or make "
                    "it a number; to cluster by it give cluster=."
                )


def _joined(one: Mapping[Key, Part], other: Mapping[Key, Part]) -> dict[Key, Part]:
    return {
        key: one[key] + other[key] if key in one and key in other else (one.get(key) or other[key])
        for key in dict.fromkeys((*one, *other))
    }

"""Rows that are coded anew, piece by piece, in every pass over a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.build import RowCoder
from selfselect.data.build_selection import check_both_sides, describe_selection
from selfselect.data.columns import check_enough_rows, check_text_columns
from selfselect.data.design import Design, Tally, describe
from selfselect.data.equations import refuse_half_characters
from selfselect.data.missing import say_incomplete
from selfselect.data.panels import COUNTED, check_groups, cluster_columns, learn_clusters
from selfselect.data.plan import Plan, read_plan
from selfselect.data.rows import Piece, Result, Rows, Source
from selfselect.data.selection_plan import SelectionPlan
from selfselect.data.selection_rows import SelectionCoder, find_alternatives
from selfselect.data.survey import Survey, what_to_learn
from selfselect.data.tables import nearest
from selfselect.errors import DataError, OptionError, SelfSelectError
from selfselect.progress import progress_bar

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowStream:
    """The rows of a source, coded as they come.

    Attributes
    ----------
    source : where they come from.
    coder : how they are coded.
    tally : what all of them add up to.
    weight_factor : what weights are multiplied by.
    sample : some of them, at random and in order, coded and held in memory.
    starts : by piece, the position of its first row among all rows.
    lengths : by piece, how many rows it has.
    checksums : by piece, what tells that its rows are still the same.
    people_apart : whether the rows of a person are in more than one piece.
    progress : whether to show progress of passes.
    passes : names of the passes that were made, for progress.
    """

    source: Source
    coder: RowCoder | SelectionCoder
    tally: Tally
    weight_factor: float
    sample: Rows
    starts: dict[int, int]
    lengths: dict[int, int]
    checksums: dict[int, int]
    people_apart: bool = False
    progress: bool | None = field(default=None)
    passes: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.tally.n_rows

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """How many clusters there are, one number per way of clustering."""
        return tuple(map(len, self.coder.clusters))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.coder.plan.columns

    def code(self, piece: Piece) -> tuple[Rows, int]:
        """Code one piece; return its rows and the position of the first."""
        with placed(piece):
            rows = self._code(self.coder.plan.clean(piece.frame).frame)
            if self.lengths.get(piece.number) != len(rows):
                raise DataError(CHANGED)
            if self.checksums.get(piece.number) != piece.checksum:
                raise DataError(OTHER_VALUES)
        return rows, self.starts[piece.number]

    def _code(self, frame: pd.DataFrame) -> Rows:
        plan, rows = self.coder.plan, self.coder.code(frame)
        if plan.panel is not None:
            check_groups(rows, plan.panel, self.coder.coding.equations.types, repeated=False)
        if rows.weights is not None and self.weight_factor != 1.0:
            rows = replace(rows, weights=rows.weights * self.weight_factor)
        return rows

    def map(
        self, task: Callable[[Rows, int, int], Result], *, n_threads: int | None, what: str
    ) -> Iterator[Result]:
        """Yield what `task` makes of the rows of each piece, their position and its number."""
        whole = partial(_coded, self, task)
        n_met = 0
        # The survey was the first pass.
        self.passes.append(f"{what} {len(self.passes) + 2}")
        with progress_bar(
            self.progress, what=self.passes[-1], total=self.n_rows, unit="rows"
        ) as bar:
            for result, n_rows in self.source.map(whole, self.columns, n_threads=n_threads):
                n_met += n_rows
                bar.update(n_rows)
                yield result
        if n_met != self.n_rows:
            raise DataError(f"{self.source.title}: {CHANGED}")


CHANGED = (
    "There are not as many rows as in the first pass over the data. Fit again when it no longer "
    "changes."
)

OTHER_VALUES = (
    "The rows are not those of the first pass over the data: what they are computed from has "
    "changed, or is random. Fit again when it no longer changes, or persist() the frame first."
)


def _coded(
    stream: RowStream, task: Callable[[Rows, int, int], Result], piece: Piece
) -> tuple[Result, int]:
    rows, start = stream.code(piece)
    with placed(piece):
        return task(rows, start, piece.number), len(rows)


@contextmanager
def placed(piece: Piece) -> Iterator[None]:
    """Add to an error of this package where it was met: rows are counted from there."""
    try:
        yield
    except SelfSelectError as error:
        where = piece.name if not piece.first else f"{piece.name}, rows from {piece.first}"
        raise type(error)(f"{where}: {error}") from error


def build_stream_design(
    formula: Any,
    source: Source,
    *,
    weights: Any = None,
    cluster: Any = None,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Design:
    """Survey a source in one pass, and make a design of it. Arguments are those of `fit`."""
    ways = _ways(source, weights, cluster)
    plan = read_plan(formula, weights=weights, ways=ways, **options)
    survey = _survey(plan, source, seed, progress)
    frame = survey.parts[None].learning_frame()
    check_text_columns(frame, [name for name in plan.term_columns if name != plan.chosen])
    coder, _ = RowCoder.learn(plan, frame)
    apart = coder.people is not None and survey.n_people > len(coder.people)
    stream = replace(_stream(source, coder, survey, progress), people_apart=apart)
    tally = stream.tally
    facts = describe(
        coder.coding.equations,
        tally,
        formulas=tuple(one.text for one in coder.formulas),
        chosen=plan.chosen,
        weights=plan.weights,
        cluster=" and ".join(ways) or None,
        n_dropped=survey.n_incomplete,
        n_without_outcome=survey.n_without,
        weights_kind=plan.weights_kind,
    )
    if coder.people is not None:
        total = survey.people_weight * stream.weight_factor
        facts = replace(facts, panel=plan.panel, n_groups=len(coder.people), group_total=total)
        repeated = survey.tally.weight_total > survey.tally.n_weighted
        if plan.weights_kind == "frequency" and plan.panel in ways and repeated:
            raise DataError(COUNTED.format(panel=plan.panel))
    design = Design(coder.coding, stream.sample, facts, None, None, stream)
    if plan.chosen is None:
        check_enough_rows(tally.n_weighted, design.n_coefficients, design.equations.n_alternatives)
    return design


def build_selection_stream(
    plan: SelectionPlan,
    source: Source,
    *,
    weights: Any,
    cluster: Any,
    seed: int,
    progress: bool | None,
) -> Design:
    """Survey a source in one pass, and make a design with a selection equation of it."""
    plan = replace(plan, ways=_ways(source, weights, cluster))
    survey = _survey(plan, source, seed, progress)
    parts, tally = survey.parts, survey.tally
    frame = parts[None].learning_frame()
    check_text_columns(frame, [name for name in plan.term_columns if name not in plan.chosen])
    labels, formulas = find_alternatives(plan, frame)
    counts = [int(label in parts) for label in labels]
    if not plan.switching:
        counts = [tally.n_rows - tally.n_undecided]
    check_both_sides(plan, labels, counts, tally.n_rows)
    refuse_half_characters((plan.first.outcome, *labels, *plan.term_columns))
    recorded = [parts[label].learning_frame() for label in labels]
    frames = {terms: side.learning_frame() for terms, side in survey.sides.items()}
    if not plan.switching:
        frames = dict(zip(plan.keys(formulas), [frame, *recorded], strict=True))
    clusters, _ = learn_clusters(frame, plan.ways)
    coder, _ = SelectionCoder.learn(plan, labels, formulas, frames, recorded, clusters)
    stream = _stream(source, coder, survey, progress)
    ranges = [(parts[label].lowest, parts[label].highest) for label in labels]
    facts = describe_selection(coder, stream.tally, ranges, survey.n_incomplete, survey.n_without)
    return Design(coder.coding, stream.sample, facts, None, None, stream)


def _ways(source: Source, weights: Any, cluster: Any) -> tuple[str, ...]:
    """Return the columns that rows are clustered by; weights and clusters must be columns."""
    for name, given in (("weights", weights), ("cluster", cluster)):
        columns = given if name == "cluster" and isinstance(given, list | tuple) else [given]
        if given is not None and not all(isinstance(one, str) for one in columns):
            raise OptionError(
                f"`{name}` must be a column of {source.title}: its rows are read in pieces, so "
                "values given beside them cannot be matched. Write them into the data."
            )
    return cluster_columns(cluster, dict.fromkeys(source.names))


def _check_columns(source: Source, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in source.names:
            raise DataError(
                f"There is no column {name!r} in {source.title}.{nearest(name, source.names)}"
            )
        if source.names.count(name) > 1:
            raise DataError(
                f"{source.title} has {source.names.count(name)} columns named {name!r}. Rename or "
                "drop all but one: it is not clear which is meant."
            )


def _stream(
    source: Source, coder: RowCoder | SelectionCoder, survey: Survey, progress: bool | None
) -> RowStream:
    """Make a stream of the rows that were surveyed, with a sample of them coded."""
    tally, factor = survey.tally, 1.0
    if coder.plan.weights_kind == "probability" and tally.weight_total > 0:
        factor = tally.n_weighted / tally.weight_total
        squares = tally.weight_squares * factor**2
        tally = replace(tally, weight_total=float(tally.n_weighted), weight_squares=squares)
    empty = Rows(np.empty((0, len(coder.coding.equations.covariates))))
    stream = RowStream(
        source, coder, tally, factor, empty, survey.starts, survey.lengths, survey.checksums,
        progress=progress,
    )  # fmt: skip
    return replace(stream, sample=_code_sample(stream, survey.drawn.rows))


def _code_sample(stream: RowStream, frame: pd.DataFrame) -> Rows:
    try:
        return stream._code(frame)
    except DataError:
        # What is wrong with a row of the sample is said better where its file is known.
        for _ in stream.map(_nothing, n_threads=1, what="Looking"):
            pass
        raise


def _nothing(*_: Any) -> None:
    """Do nothing with rows that were coded."""


def _survey(plan: Plan | SelectionPlan, source: Source, seed: int, progress: bool | None) -> Survey:
    _check_columns(source, plan.columns)
    if hasattr(source, "check"):
        source.check(plan.columns)
    total = getattr(source, "n_rows", None)
    wanted = what_to_learn(plan, source.head(plan.columns), total)
    task = partial(_named, partial(Survey.of, plan, wanted, seed))
    found: list[Survey] = []
    with progress_bar(progress, what="First pass", total=total, unit="rows") as bar:
        for one in source.sums(task, plan.columns, n_threads=None):
            bar.update(one.n_read)
            found = [reduce(add, [*found, one])]
    if not found:
        raise DataError(f"There are no rows in {source.title}.")
    survey = found[0]
    if survey.lacking:
        say_incomplete(survey.n_incomplete, survey.n_read, survey.lacking, plan.missing)
    if not survey.tally.n_rows:
        raise DataError("No row is complete: every one lacks a covariate, so none is left to fit.")
    survey.check_levels(plan.term_columns)
    return survey


def _named(task: Callable[[Piece], Survey], piece: Piece) -> Survey:
    with placed(piece):
        return task(piece)

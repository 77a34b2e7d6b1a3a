"""An engine that remembers its sums, so that a fit that was killed goes on where it stopped.

A solver is deterministic and asks only for sums over rows. So it runs again from the start, and
every sum that was known before is read instead of done. Searches on a sample in memory are
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines._checkpoint import Checkpoint
from selfselect.engines._digest import digest
from selfselect.engines.base import Engine, Sum
from selfselect.likelihoods import Batch

__all__ = ["Recorded", "once", "recorded_in"]

Array = NDArray[np.float64]


@contextmanager
def recorded_in(path: str | Path | None, engine: Engine, **about: Any) -> Iterator[Engine]:
    """Give an engine whose sums are kept in a file, which is removed when all went well.

    Parameters
    ----------
    path : of the file; None for the engine as it is.
    engine : that does the sums.
    about : what makes the fit what it is, by name: a file about anything else is refused.
    """
    if path is None:
        yield engine
        return
    known = {what: digest(value) for what, value in about.items()}
    checkpoint = Checkpoint(path, {**known, "the engine": type(engine).__name__})
    try:
        yield Recorded(engine, checkpoint)
    except BaseException:
        checkpoint.close()
        raise
    checkpoint.remove()


def once(
    engine: Engine, what: str, about: Any, compute: Callable[[], Array | None]
) -> Array | None:
    """Return what `compute` returns; where the engine remembers, it is computed only once."""
    if not isinstance(engine, Recorded):
        return compute()
    return engine.once(what, digest(about), compute)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Another engine whose sums over all rows are kept in a checkpoint.

    Those over samples and reweighted rows are not: they are done again.
    """

    engine: Engine
    checkpoint: Checkpoint
    steps: Iterator[int] = field(default_factory=count)

    @property
    def n_rows(self) -> int:
        return self.engine.n_rows

    @property
    def weight_total(self) -> float:
        return self.engine.weight_total

    @property
    def holds_rows(self) -> bool:
        return self.engine.holds_rows

    @property
    def rows_at_once(self) -> int:
        return self.engine.rows_at_once

    @property
    def rows(self) -> Rows:
        return self.engine.rows

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        total: Sum = self.once(
            f"pass {next(self.steps)}", digest(task), lambda: self.engine.sum(task)
        )
        return total

    def once(self, what: str, asked: str, compute: Callable[[], Any]) -> Any:
        """Recall an answer, or compute it and write it down."""
        known, found = self.checkpoint.recall(what, asked)
        return found if known else self.checkpoint.keep(what, asked, compute())

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        return self.engine.collect(task)

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return self.engine.map(task, *items)

    def sample(self, n_rows: int, rng: Generator) -> Engine:
        return self.engine.sample(n_rows, rng)

    def recorded(self) -> Engine:
        return self.engine.recorded()

    def single_threaded(self) -> Engine:
        return self.engine.single_threaded()

    def reweighted(self, factor: Array) -> Engine:
        return self.engine.reweighted(factor)

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> Engine:
        return self.engine.resampled(rng, repeated=repeated, n_clusters=n_clusters)

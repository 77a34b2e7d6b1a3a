"""Rows that follow each other and belong together, kept in one batch of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["keep_together"]

Batch = tuple[int, str, Any, int]
"""Number, file, rows and position in the file of a batch."""


def keep_together(batches: Iterator[Batch], column: str) -> Iterator[Batch]:
    """Cut batches anew, where a value of the column ends, also from one file to the next.

    Batches are numbered anew. One that began in another is placed where it began.
    """
    held: tuple[str, Any, int] | None = None
    number = 0
    for _, name, rows, first in batches:
        if held is None:
            held = (name, rows, first)
            continue
        began, before, at = held
        border = _last_begins(before.column(column))
        if border:
            yield number, began, before.slice(0, border), at
            number += 1
        # Positions go on counting in the file in which a batch began.
        held = (began, _joined(before.slice(border), rows), at + border)
    if held is not None:
        yield number, *held


def _last_begins(values: Any) -> int:
    """Return where the run of the last value begins."""
    codes = pd.factorize(values.to_pandas())[0]
    other = np.flatnonzero(codes != codes[-1])
    return int(other[-1]) + 1 if len(other) else 0


def _joined(*parts: Any) -> Any:
    """Return batches, or tables, as one table."""
    import pyarrow

    tables = [
        part if isinstance(part, pyarrow.Table) else pyarrow.Table.from_batches([part])
        for part in parts
    ]
    return pyarrow.concat_tables(tables).unify_dictionaries().combine_chunks()

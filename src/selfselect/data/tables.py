"""Tables of any kind, reduced to the columns a fit needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from selfselect.data.file_types import polars_categories
from selfselect.data.files import Files, are_files
from selfselect.data.text_files import TextFiles, open_whole
from selfselect.errors import DataError

__all__ = [
    "COPIES_ON_WRITE",
    "column_names",
    "in_another_order",
    "in_table_order",
    "nearest",
    "to_frame",
]

COPIES_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
"""Whether frames that share their values keep them when one of them is written to."""


def column_names(data: Any) -> list[str]:
    """Return the column names of a table of any kind."""
    if are_files(data):
        data = open_whole(data)
    if isinstance(data, Files | TextFiles):
        return data.names
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    if isinstance(data, pd.DataFrame):
        return [str(name) for name in data.columns]
    return list(_through_narwhals(data).collect_schema().names())


def to_frame(data: Any, columns: Iterable[str]) -> pd.DataFrame:
    """Return `columns` of a table as a pandas frame, or say which one is not there.

    Parameters
    ----------
    data : a pandas or polars frame, a pyarrow table, anything narwhals reads, a mapping of
        column names to arrays, or files.
    columns : the names that are needed; others are never converted.
    """
    wanted = list(dict.fromkeys(columns))
    if are_files(data):
        data = open_whole(data)
    present = column_names(data)
    for name in wanted:
        if name == "":
            raise DataError("A column name is empty. Name the column, and use its name.")
        if name not in present:
            raise DataError(f"There is no column {name!r} in the data.{nearest(name, present)}")
        if present.count(name) > 1:
            raise DataError(
                f"The data has {present.count(name)} columns named {name!r}. Rename or drop all "
                "but one: it is not clear which is meant."
            )
    if isinstance(data, Files | TextFiles):
        return data.table(wanted)
    if isinstance(data, Mapping):
        return _from_mapping(data, wanted)
    if isinstance(data, pd.DataFrame):
        return _from_pandas(data, [present.index(name) for name in wanted], wanted)
    frame = _through_narwhals(data).select(wanted)
    frame = frame.collect() if hasattr(frame, "collect") else frame
    made: pd.DataFrame = frame.to_pandas()
    for name in _categories_as_met(frame):
        labels = made[name].cat.categories
        made[name] = made[name].cat.reorder_categories(sorted(labels))
    return made


def _categories_as_met(frame: Any) -> Iterator[str]:
    """Yield the columns whose categories are listed in the order in which rows hold them."""
    import narwhals.stable.v2 as nw

    if frame.implementation.is_polars():
        yield from (name for name, kind in frame.schema.items() if kind == nw.Categorical)
    elif frame.implementation.is_pyarrow():
        yield from polars_categories(frame.to_native().schema)


def in_table_order(data: Any, columns: Iterable[str]) -> list[str]:
    """Return names in the order of a pandas frame, of which neighbours are not copied."""
    if not isinstance(data, pd.DataFrame):
        return list(columns)
    place = {name: at for at, name in enumerate(column_names(data))}
    return sorted(columns, key=lambda name: place.get(name, len(place)))


def _from_pandas(data: pd.DataFrame, places: list[int], names: list[str]) -> pd.DataFrame:
    """Return the columns at some places, in the order given.

    Neighbours are not copied where pandas copies what is written to later.
    """
    first = places[0] if places else 0
    if places == list(range(first, first + len(places))):
        chosen = data.iloc[:, first : first + len(places)].copy(deep=not COPIES_ON_WRITE)
    else:
        chosen = data.take(places, axis=1)
    chosen.columns = pd.Index(names)
    return chosen


def nearest(name: str, present: Iterable[str]) -> str:
    """Word a hint that names the nearest of the names there are."""
    present = list(present)
    near = get_close_matches(name, present, n=3, cutoff=0.5)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    shown = ", ".join(present[:12]) + (", ..." if len(present) > 12 else "")
    return f" It has: {shown}." if present else " It has no columns at all."


def _from_mapping(data: Mapping[Any, Any], wanted: list[str]) -> pd.DataFrame:
    by_text = {str(name): values for name, values in data.items()}
    _refuse_other_orders({name: by_text[name] for name in wanted})
    # Values belong together by position: an index a series may bring along must not reorder them.
    arrays = {
        name: values.reset_index(drop=True) if isinstance(values, pd.Series) else _on_host(values)
        for name, values in ((name, by_text[name]) for name in wanted)
    }
    for name, values in arrays.items():
        if np.ndim(values) != 1:
            kind = "is a single value" if np.ndim(values) == 0 else "is not one-dimensional"
            raise DataError(f"The column {name!r} {kind}. Give one value per row.")
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise DataError(f"The columns have different lengths ({listed}). Make them equal.")
    return pd.DataFrame(arrays)


def _refuse_other_orders(columns: Mapping[str, Any]) -> None:
    """Refuse series of the same rows in another order: by position they would be mixed up."""
    indexed = {name: one.index for name, one in columns.items() if isinstance(one, pd.Series)}
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if in_another_order(index, indexed[first]):
            raise DataError(
                f"The columns {first!r} and {name!r} are series with the same index in another "
                "order, so it is not clear which values belong together. Give a frame, "
                "pd.DataFrame(data), which goes by the index, or arrays in the order of the rows."
            )


def in_another_order(index: pd.Index[Any], other: pd.Index[Any]) -> bool:
    """Say whether two series are of the same rows in another order."""
    if index is other or len(index) != len(other) or index.equals(other):
        return False
    return bool(index.is_unique and other.is_unique and index.isin(other).all())


def _on_host(values: Any) -> Any:
    """Copy a tensor from whatever device it lives on; columns may live on different ones."""
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values


def _through_narwhals(data: Any) -> Any:
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"A {type(data).__name__} is not a table. Give a pandas or polars frame, a pyarrow "
            "table, or a dict of arrays; for NumPy arrays use SelfSelectionRegressor."
        ) from error

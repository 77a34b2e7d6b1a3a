"""Clusters of rows: one way or several, as columns or as one label per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import first_rows
from selfselect.data.columns import factorize
from selfselect.data.tables import column_names, nearest
from selfselect.errors import DataError

__all__ = ["cluster_codes", "cluster_columns", "code_clusters", "learn_clusters"]

Indices = NDArray[np.intp]


def cluster_columns(cluster: Any, data: Any) -> tuple[str, ...]:
    """Return the columns that are meant; none where `cluster` is one label per row, or nothing.

    A list of texts that are columns is several ways of clustering; any other is one label per row.
    """
    if isinstance(cluster, str):
        return (cluster,)
    if not isinstance(cluster, list | tuple) or not cluster:
        return ()
    if not all(isinstance(name, str) for name in cluster):
        return ()
    present = column_names(data)
    # There are no more ways of clustering than columns: a longer list can only be labels.
    if len(cluster) > len(present) or not any(name in present for name in cluster):
        return ()
    for name in cluster:
        if name not in present:
            raise DataError(
                f"There is no column {name!r} in the data to cluster by.{nearest(name, present)}"
            )
    if len(set(cluster)) < len(cluster):
        raise DataError(
            f"The rows are to be clustered by {', '.join(cluster)}, one of them twice. Name each "
            "way of clustering once."
        )
    return tuple(cluster)


def learn_clusters(
    frame: pd.DataFrame, columns: Sequence[str]
) -> tuple[tuple[pd.Index[Any], ...], Indices | None]:
    """Return the clusters that are met, by way of clustering, and the cluster of each row.

    The latter is (n,) for one way of clustering, (n, ways) for several, None for none.
    """
    pairs = [factorize(frame[name], f"The cluster column {name!r}") for name in columns]
    met = tuple(pd.Index(uniques) for _, uniques in pairs)
    return met, _joined(frame, columns, [codes for codes, _ in pairs])


def code_clusters(
    frame: pd.DataFrame, columns: Sequence[str], met: Sequence[pd.Index[Any]]
) -> Indices | None:
    """Return the cluster of each row, among clusters that were met before."""
    codes = [
        known.get_indexer(pd.Index(frame[name])) for name, known in zip(columns, met, strict=True)
    ]
    return _joined(frame, columns, codes)


def cluster_codes(frame: pd.DataFrame, columns: Sequence[str]) -> Indices | None:
    """Return the cluster of each row: (n,) for one way of clustering, (n, ways) for several."""
    return learn_clusters(frame, columns)[1]


def _joined(frame: pd.DataFrame, columns: Sequence[str], codes: list[Any]) -> Indices | None:
    for name, one in zip(columns, codes, strict=True):
        if (one < 0).any():
            raise DataError(
                f"The cluster column {name!r} has {(one < 0).sum()} missing values "
                f"({first_rows(one < 0, frame.index)}). Every row needs a cluster."
            )
    made = [one.astype(np.intp) for one in codes]
    if not made:
        return None
    return made[0] if len(made) == 1 else np.column_stack(made)

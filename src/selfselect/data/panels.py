"""What rows belong to, and what they count: weights, clusters, people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import check_numbers, factorize, first_rows
from selfselect.data.equations import Equation
from selfselect.data.rows import Rows
from selfselect.data.tables import column_names, nearest, to_frame
from selfselect.errors import DataError, OptionError

Array = NDArray[np.float64]


# What weights mean: numbers of identical rows, or corrections of unequal sampling.


LARGEST = 1e100
"""Weights up to this can be squared and summed over any number of rows."""

KINDS = ("frequency", "probability")


def check_weights_kind(kind: Any, weights: Any) -> None:
    """Refuse a meaning that weights cannot have, and one that no weights are given for."""
    if kind is None:
        return
    if kind not in KINDS:
        raise OptionError(
            f"weights_kind={kind!r} is not possible. Use 'frequency' or 'probability'."
        )
    if weights is None:
        raise OptionError(
            f"weights_kind={kind!r} says how weights are meant, but there are none. Give "
            "weights='column', or leave it out."
        )


def refuse_huge_weights(weights: Array) -> None:
    """Refuse weights whose sums, or sums of squares, no double can hold."""
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST:
        raise DataError(
            f"The weights go up to {largest:.4g}, and their sums are beyond double precision. "
            "Divide them by their mean."
        )


def scale_weights(weights: Array, kind: str | None) -> Array:
    """Scale probability weights to average one over the rows that count.

    Only their ratios mean anything; so scaled, log-likelihoods and tests count rows.
    """
    refuse_huge_weights(weights)
    total = float(weights.sum())
    if kind != "probability" or total <= 0.0:
        return weights
    return weights * ((weights > 0).sum() / total)


def weighted_quantiles(values: Array, levels: Any, weights: Array | None) -> Array:
    """Return the values at or below which these shares of the weight lie.

    They are values that were met, and those of repeated rows where weights are frequencies.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    # Sums of weights are rounded: a share that is met exactly counts as met.
    place = np.searchsorted(below, (np.asarray(levels) - 1e-12) * below[-1])
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


# Clusters of rows: one way or several, as columns or as one label per row.


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


# Panels: people of whom there are several rows.


ROUNDING = 1e-9
"""Share of the largest value up to which those of a person are the same."""

COUNTED = (
    "Frequency weights of a panel count people who are alike, but clusters by {panel!r} take those "
    "for one person, and standard errors are too large. Repeat the rows, each copy with its own "
    "value of {panel!r}; or give `cluster`, a column in which several people are together; or use "
    "weights_kind='probability'."
)
"""Why people who are clusters of their own have no frequency weights."""


def panel_means(data: Any, panel: str, columns: Sequence[str]) -> pd.DataFrame:
    """Add the person means of columns to a table.

    Unobserved traits of people may be correlated with their covariates. With person means in the
    formula (Mundlak 1978) they may be correlated with these means, and the coefficients of the
    columns themselves then refer to changes within a person.

    Parameters
    ----------
    data : a table.
    panel : the column that identifies the person of each row.
    columns : of numbers; the mean of ``x`` becomes the column ``x_mean``.

    Examples
    --------
    >>> import selfselect as ss
    >>> rows = {"person": [1, 1, 2], "x": [1.0, 3.0, 5.0]}
    >>> ss.panel_means(rows, "person", ["x"])["x_mean"].tolist()
    [2.0, 2.0, 5.0]
    """
    if isinstance(columns, str):
        columns = [columns]
    table = to_frame(data, [*column_names(data), panel, *columns]).copy()
    codes = group_codes(table, panel)
    assert codes is not None
    for name in columns:
        values = pd.Series(check_numbers(table[name], f"The column {name!r}"))
        made = f"{name}_mean"
        if made in table:
            raise DataError(f"There is a column {made!r} already. Rename it first.")
        table[made] = values.groupby(codes).transform("mean").to_numpy()
    return table


def learn_groups(
    frame: pd.DataFrame, panel: str | None
) -> tuple[pd.Index[Any] | None, Indices | None]:
    """Return the people that are met, and whose row each is; None where there is no panel."""
    if panel is None:
        return None, None
    codes, met = factorize(frame[panel], f"The panel column {panel!r}")
    return pd.Index(met), _known(frame, panel, codes)


def group_codes(frame: pd.DataFrame, panel: str | None) -> Indices | None:
    """Return the number of the person each row belongs to; None where there is no panel."""
    return learn_groups(frame, panel)[1]


def code_groups(
    frame: pd.DataFrame, panel: str | None, people: pd.Index[Any] | None
) -> Indices | None:
    """Return the number of the person each row belongs to, among people who were met before."""
    if panel is None or people is None:
        return None
    return _known(frame, panel, people.get_indexer(pd.Index(frame[panel])))


def _known(frame: pd.DataFrame, panel: str, codes: Any) -> Indices:
    lacking = codes < 0
    if lacking.any():
        raise DataError(
            f"The panel column {panel!r} has {lacking.sum()} missing values "
            f"({first_rows(lacking, frame.index)}). Every row needs a person."
        )
    return np.asarray(codes, dtype=np.intp)


def person_keys(values: pd.Series[Any], seed: int) -> Array:
    """Return a random number between 0 and 1 for each row, the same for all rows of a person."""
    mixed = pd.util.hash_pandas_object(values, index=False).to_numpy().astype(np.uint64)
    mixed = mixed ^ np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    # The last steps of SplitMix64: numbers that are close become far apart.
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(mixed >> np.uint64(11), dtype=np.float64) / 2.0**53


def check_groups(rows: Rows, panel: str, types: Equation | None, *, repeated: bool) -> None:
    """Refuse what must be one for all rows of a person and is not.

    Those are weights, clusters, and covariates of the weights of `types`. Where rows are
    `repeated`, a weight counts people who are alike. They are no one cluster.
    """
    groups = rows.groups
    assert groups is not None
    order = np.argsort(groups, kind="stable")
    same = groups[order][1:] == groups[order][:-1]
    if rows.weights is not None and (same & (np.diff(rows.weights[order]) != 0)).any():
        raise DataError(
            f"Weights differ between the rows of one {panel!r}. What a person says is one sum, so "
            "a person has one weight: give all of their rows the same."
        )
    for term, column in () if types is None else zip(types.terms, types.columns, strict=True):
        values = rows.covariates[order, column - 1] if column else np.zeros(len(order))
        if (same & (np.abs(np.diff(values)) > ROUNDING * np.abs(values).max(initial=0.0))).any():
            raise DataError(
                f"{term!r} differs between the rows of one {panel!r}. A person has one type, whose "
                "weight depends on what is the same in all rows of a person, such as the mean that "
                "selfselect.panel_means() adds to the table."
            )
    if rows.clusters is not None:
        ways = rows.clusters.reshape(len(rows), -1)[order]
        if (same & (np.diff(ways, axis=0) != 0).any(axis=1)).any():
            raise DataError(
                f"Rows of one {panel!r} are in different clusters, but they share what is not "
                "observed of them. Cluster by the panel column, or by one that it is nested in."
            )
        people = int(groups.max(initial=-1)) + 1
        counted = repeated and rows.weights is not None and (rows.weights > 1.0).any()
        if counted and any(len(np.unique(way)) == people for way in ways.T):
            raise DataError(COUNTED.format(panel=panel))

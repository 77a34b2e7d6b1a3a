"""Panels: people of whom there are several rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import check_numbers, first_rows
from selfselect.data.columns import factorize
from selfselect.data.equations import Equation
from selfselect.data.rows import Rows
from selfselect.data.tables import column_names, to_frame
from selfselect.errors import DataError

__all__ = [
    "COUNTED",
    "check_groups",
    "code_groups",
    "group_codes",
    "learn_groups",
    "panel_means",
    "person_keys",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

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

"""Panels: people of whom there are several rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import check_numbers, first_rows
from selfselect.data.columns import factorize
from selfselect.data.rows import Rows
from selfselect.data.tables import column_names, to_frame
from selfselect.errors import DataError

__all__ = ["check_groups", "group_codes", "panel_means"]

Indices = NDArray[np.intp]


def panel_means(data: Any, panel: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return a table with the mean of columns over the rows of each person beside it.

    What is not observed of people may move with their covariates. With the person's means in the
    formula (Mundlak 1978) it may move with those, and the coefficients of the columns themselves
    are then about changes within a person.

    Parameters
    ----------
    data : a table.
    panel : the column that says whose row it is.
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


def group_codes(frame: pd.DataFrame, panel: str | None) -> Indices | None:
    """Return the number of the person each row belongs to; None where there is no panel."""
    if panel is None:
        return None
    codes, _ = factorize(frame[panel], f"The panel column {panel!r}")
    lacking = codes < 0
    if lacking.any():
        raise DataError(
            f"The panel column {panel!r} has {lacking.sum()} missing values "
            f"({first_rows(lacking, frame.index)}). Every row must say whose it is."
        )
    return np.asarray(codes, dtype=np.intp)


def check_groups(rows: Rows, panel: str, *, repeated: bool) -> None:
    """Refuse weights that differ, and clusters that divide, the rows of a person.

    Where rows are `repeated`, a weight counts people who are alike. They are no one cluster.
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
            raise DataError(
                "Frequency weights of a panel count people who are alike, but clusters by "
                f"{panel!r} take those for one person, and standard errors are too large. Repeat "
                f"the rows, each copy with its own value of {panel!r}; or give `cluster`, a column "
                "in which several people are together; or use weights_kind='probability'."
            )

"""Real data sets that ship with the package, each with its source and licence."""

from __future__ import annotations

import inspect

import pandas as pd

from selfselect.datasets.careers import careers
from selfselect.datasets.housing import housing

__all__ = ["careers", "housing", "listed"]


def listed() -> pd.DataFrame:
    """List the data sets: what each holds, and where it is from.

    Examples
    --------
    >>> from selfselect import datasets
    >>> datasets.listed().index.tolist()
    ['careers', 'housing']
    """
    rows = []
    for load in (careers, housing):
        paragraphs = (inspect.getdoc(load) or "").split("\n\n")
        first = paragraphs[0].removeprefix("Load ").rstrip(".")
        source = next((one for one in paragraphs if one.startswith("Source: ")), "")
        rows.append(
            {
                "name": load.__name__,
                "description": first,
                "source": " ".join(source.removeprefix("Source: ").split()),
            }
        )
    return pd.DataFrame(rows).set_index("name")

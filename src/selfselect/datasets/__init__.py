"""Real data sets that ship with the package, each with its source and licence."""

from __future__ import annotations

import inspect
import textwrap

import pandas as pd

from selfselect.datasets.careers import careers
from selfselect.datasets.housing import housing

__all__ = ["careers", "housing", "listed"]

WIDTH = 79
"""Columns of what is printed."""


class _Listing(pd.DataFrame):
    """A table of sentences, which prints them in full: pandas would cut them off."""

    def __repr__(self) -> str:
        return "\n".join(
            textwrap.fill(
                f"{name}: {row['description']}. Source: {row['source']}",
                WIDTH,
                subsequent_indent="    ",
            )
            for name, row in self.iterrows()
        )

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self.to_html()


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
    return _Listing(pd.DataFrame(rows).set_index("name"))

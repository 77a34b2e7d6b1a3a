"""The rows over which a page averages, and how they are written in code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.rows import Rows
from selfselect.effects._sample import code_rows, raw_columns, raw_table
from selfselect.errors import OptionError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["RowSample", "sample_rows"]

MOST_ROWS = 500
MOST_NUMBERS = 60_000
"""Covariates times rows of the sample: half a megabyte."""

MOST_WORK = 200_000
"""Rows times the cube of the number of alternatives, which the time of a change goes with."""

LEAST_ROWS = 40


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows.

    Attributes
    ----------
    rows : coded.
    sentence : which rows they are.
    code : the argument of `counterfactual` that means them; empty where none is needed.
    """

    rows: Rows
    sentence: str
    code: str


def sample_rows(fit: FitResult, data: Any, most: int | None, given: Any) -> RowSample:
    """Take every so many-th row, so that a page has room for them and a browser time.

    Parameters
    ----------
    fit : whose coding is used.
    data : complete rows; None for the rows of the fit.
    most : how many rows at most; None for as many as go.
    given : what the caller gave, of which `data` are the complete rows.
    """
    if most is not None and not (isinstance(most, int | np.integer) and most >= 1):
        raise OptionError(
            f"rows={most!r} is not possible. Give a whole number of rows, such as 300."
        )
    k, p = fit.problem.equations.n_alternatives, max(1, len(fit.problem.equations.covariates))
    room = max(LEAST_ROWS, min(MOST_ROWS, MOST_NUMBERS // p, MOST_WORK // k**3))
    most = room if most is None else min(int(most), room)
    table = raw_table(fit, data)
    step = -(-len(table) // most)
    which = "" if step == 1 else f"[::{step}]"
    if data is None and step == 1:
        weighted = f", weighted by {fit.facts.weights}" if fit.facts.weights else ""
        return RowSample(fit.rows, f"all {len(table)} rows of the fit{weighted}", "")
    rows = code_rows(fit, table.iloc[::step])
    if data is not None:
        source = f"data{'.iloc' if which and not isinstance(given, np.ndarray) else ''}{which}"
        if len(table) < len(given):
            source = f"data.dropna(subset={list(raw_columns(fit))!r}).iloc[::{step}]"
    elif fit.table is not None:
        source = f"result.table.iloc{which}"
    else:
        source = f"result.rows.covariates{which}"
    of = "of the fit" if data is None else "that were given"
    sentence = (
        f"{len(rows)} of the {len(table)} rows {of}, one in {step}"
        if step > 1
        else (f"the {len(table)} rows {of}")
    )
    if fit.facts.weights:
        sentence += f"; they count once each (the weights {fit.facts.weights} are not used)"
    return RowSample(rows, sentence, f"base={source}")

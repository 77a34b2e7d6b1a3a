"""What was not recorded in a row: its outcome, or its choice, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import check_availability, first_rows
from selfselect.data.columns import to_numbers
from selfselect.errors import DataError, OptionError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["EVERYTHING_RECORDED", "Unrecorded"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Unrecorded:
    """How a user says what is known of rows in which something was not recorded.

    Attributes
    ----------
    silent : whether rows without an outcome are kept, for what their choice says.
    between : lowest and highest outcome of rows without one: numbers, columns, or None.
    possible : by alternative, the column that says whether it may be the chosen one.
    """

    silent: bool
    between: tuple[Any, Any] | None
    possible: Mapping[Any, str] | None

    @classmethod
    def read(cls, missing_outcome: str, between: Any, possible: Any) -> Unrecorded:
        """Check what the user gave."""
        if between is not None and not (isinstance(between, list | tuple) and len(between) == 2):
            raise OptionError(
                f"outcome_between={between!r} must be a pair (lowest, highest) of columns or "
                "numbers, with None where there is no limit, as in ('topcode', None)."
            )
        if possible is not None and not isinstance(possible, Mapping):
            raise OptionError(
                "`possible` must be given by alternative, as in "
                "possible={'fishing': 'may_have_fished'}."
            )
        pair = None if between is None else (between[0], between[1])
        for limit in pair or ():
            number = isinstance(limit, int | float | np.number) and not isinstance(limit, bool)
            if not (limit is None or isinstance(limit, str) or (number and not np.isnan(limit))):
                raise OptionError(
                    f"The limit {limit!r} in `outcome_between` is neither a column nor a number. "
                    "Write None where there is no limit."
                )
        if pair is not None and missing_outcome == "drop":
            raise OptionError(
                "missing_outcome='drop' leaves out the rows that `outcome_between` is for. Give "
                "one of the two."
            )
        return cls(missing_outcome == "silent" or between is not None, pair, possible)

    @property
    def columns(self) -> tuple[str, ...]:
        """The data columns that are needed."""
        named = [one for one in (self.between or ()) if isinstance(one, str)]
        return (*named, *(self.possible or {}).values())

    def limits(self, frame: pd.DataFrame, outcome: Array) -> Array | None:
        """Return the limits (n, 2) of outcomes that were not recorded; nan where there is none."""
        if self.between is None:
            return None
        limits = np.full((len(frame), 2), np.nan)
        for place, given in enumerate(self.between):
            if isinstance(given, str):
                limits[:, place] = _limits_of(frame[given])
            elif given is not None:
                limits[:, place] = float(given)
        missing = np.isnan(outcome)
        empty = missing & (
            (limits[:, 0] >= limits[:, 1]) | (limits[:, 0] == np.inf) | (limits[:, 1] == -np.inf)
        )
        if empty.any():
            raise DataError(
                f"The lowest outcome is not below the highest in {empty.sum()} rows without one "
                f"({first_rows(empty, frame.index)}). Correct `outcome_between`; where both are "
                "equal, the outcome is known: record it."
            )
        return limits

    def candidates(
        self,
        frame: pd.DataFrame,
        chosen: Indices | None,
        alternatives: Sequence[Label],
        available: Mask | None,
    ) -> Mask | None:
        """Return which alternatives may be the chosen one (n, k); None where nothing says so."""
        if self.possible is None:
            return None
        columns = by_alternative(self.possible, alternatives, what="column of possibility")
        possible = np.ones((len(frame), len(alternatives)), dtype=bool)
        for label, column in columns.items():
            possible[:, list(alternatives).index(label)] = check_availability(frame[column], column)
        open_to = possible if available is None else possible & available
        nothing = np.asarray(~open_to.any(axis=1))
        if nothing.any():
            raise DataError(
                f"No alternative may be the chosen one in {nothing.sum()} rows "
                f"({first_rows(nothing, frame.index)}): all are excluded by `possible` or "
                "marked as not available. Correct them."
            )
        if chosen is not None:
            recorded = chosen >= 0
            own = np.take_along_axis(possible, np.maximum(chosen, 0)[:, None], axis=1)[:, 0]
            contradicted = recorded & ~own
            if contradicted.any():
                label = alternatives[int(chosen[np.flatnonzero(contradicted)[0]])]
                raise DataError(
                    f"`possible` excludes the alternative that was recorded in "
                    f"{contradicted.sum()} rows ({first_rows(contradicted, frame.index)}, chosen: "
                    f"{label!r}). Correct `possible` or the rows."
                )
        return possible


EVERYTHING_RECORDED = Unrecorded(silent=False, between=None, possible=None)


def _limits_of(values: pd.Series[Any]) -> Array:
    """Return limits by row, nan where there is none."""
    return to_numbers(
        values,
        f"The column of limits {values.name!r}",
        "must hold numbers, missing where there is no limit",
    )

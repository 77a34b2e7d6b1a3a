"""Rows that lack something, and what is known of unrecorded alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import check_availability, first_rows, to_numbers
from selfselect.errors import DataError, MissingRowsWarning, OptionError, warn_user
from selfselect.rules.base import Label, by_alternative

# What was not recorded in a row: its outcome, or its choice, and what is known of them.


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


# Rows that lack something: left out and counted, or refused.


def drop_incomplete(
    frame: pd.DataFrame, columns: Sequence[str], missing: str
) -> tuple[pd.DataFrame, int]:
    """Return the rows that have all covariates, and how many do not."""
    incomplete, lacking = find_incomplete(frame, columns)
    if not lacking:
        return frame, 0
    say_incomplete(int(incomplete.sum()), len(frame), lacking, missing)
    return frame[~incomplete], int(incomplete.sum())


def find_incomplete(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[Mask, Counter[str]]:
    """Return which rows lack a covariate, and how many lack each."""
    incomplete = np.zeros(len(frame), dtype=bool)
    lacking: Counter[str] = Counter()
    for name in columns:
        absent = find_absent(frame[name])
        if absent is not None:
            lacking[name] = int(absent.sum())
            incomplete |= absent
    return incomplete, lacking


def find_absent(values: pd.Series[Any]) -> Mask | None:
    """Return which values are missing; None where none is."""
    # The usual cases, without a mask: whole numbers have no way to be missing, and a sum is a
    # number only if all its parts are.
    kind = values.dtype.kind if isinstance(values.dtype, np.dtype) else "O"
    if kind in "iub":
        return None
    if kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            if not np.isnan(values.to_numpy().sum()):
                return None
    absent = values.isna().to_numpy()
    return absent if absent.any() else None


def find_any_absent(frame: pd.DataFrame, columns: Iterable[str]) -> Mask | None:
    """Return the rows in which any of the columns is missing; None where none is."""
    found = [one for one in map(find_absent, (frame[name] for name in columns)) if one is not None]
    return np.logical_or.reduce(found) if found else None


def say_incomplete(n_incomplete: int, n_rows: int, lacking: Counter[str], missing: str) -> None:
    """Refuse rows that lack a covariate, or warn that they were left out."""
    per_column = ", ".join(f"{name}: {n}" for name, n in lacking.items())
    if missing == "raise":
        raise DataError(
            f"{n_incomplete} rows have a missing covariate ({per_column}). Fill them in, or allow "
            "leaving them out with missing='drop'."
        )
    warn_user(
        f"{n_incomplete} of {n_rows} rows have a missing covariate ({per_column}) and were "
        "left out.",
        MissingRowsWarning,
    )


def drop_unrecorded(
    frame: pd.DataFrame,
    outcome: Sequence[str],
    chosen: str | None,
    missing_outcome: str,
    name: str,
    unrecorded: Unrecorded = EVERYTHING_RECORDED,
    *,
    can_keep: bool = True,
    selected: bool = False,
    weights: str | None = None,
) -> tuple[pd.DataFrame, int]:
    """Return the rows that say something of outcome and choice, and how many that count do not.

    `can_keep` says whether the model has a use for rows of which only part was recorded,
    `selected` whether all rows are known to be selected, whatever `chosen` is. Rows whose weight,
    in the column `weights`, is zero count for nothing: what they lack selects on nothing.
    """
    no_choice = None if chosen is None else find_absent(frame[chosen])
    no_outcome = find_any_absent(frame, outcome)
    if no_choice is None and no_outcome is None:
        return frame, 0
    nothing = np.zeros(len(frame), dtype=bool)
    no_choice = nothing if no_choice is None else no_choice
    no_outcome = nothing if no_outcome is None else no_outcome
    counted = ~nothing if weights is None else ~_is_zero(frame[weights])
    if unrecorded.silent:
        says_nothing = chosen is None and unrecorded.between is None
        if says_nothing and (no_outcome & counted).any():
            lacking = no_outcome & counted
            raise DataError(
                f"{lacking.sum()} rows have no outcome {name!r} "
                f"({first_rows(lacking, frame.index)}), and the chosen alternative was not "
                "recorded either: they contain no information. Leave them out with "
                "missing_outcome='drop', or give `outcome_between`."
            )
        no_outcome = no_outcome if says_nothing else nothing
    if unrecorded.possible is not None:
        no_choice = nothing
    lacking = no_choice | no_outcome
    if not lacking.any():
        return frame, 0
    n_counted = int((lacking & counted).sum())
    if missing_outcome != "drop" and n_counted:
        no_choice, no_outcome = no_choice & counted, no_outcome & counted
        if no_choice.any():
            raise DataError(
                f"{no_choice.sum()} rows have no value in {chosen!r} "
                f"({first_rows(no_choice, frame.index)}): the chosen alternative is not known. "
                "Leaving them out may itself select on the outcome; pass missing_outcome='drop' to "
                "drop them anyway."
                + can_keep
                * " Where it is known which alternatives are possible, give `possible`."
            )
        known = selected or chosen is not None
        said = "were chosen but have" if known else "have"
        raise DataError(
            f"{no_outcome.sum()} rows {said} no outcome {name!r} "
            f"({first_rows(no_outcome, frame.index)}). Dropping them would select on the outcome, "
            "the very bias to be removed. "
            + (can_keep and known)
            * "missing_outcome='silent' keeps them for what their choice says. "
            + "If they are missing for reasons unrelated to the outcome, pass "
            "missing_outcome='drop' to drop them anyway."
        )
    return frame[~lacking], n_counted


def _is_zero(weights: pd.Series[Any]) -> Mask:
    """Say of each weight whether it is zero; what is no number is refused later."""
    numbers = pd.to_numeric(weights, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    return np.asarray(numbers == 0)

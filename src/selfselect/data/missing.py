"""Rows that lack something: left out and counted, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import first_rows
from selfselect.data.unrecorded import EVERYTHING_RECORDED, Unrecorded
from selfselect.errors import DataError, MissingRowsWarning, warn_user

__all__ = [
    "drop_incomplete",
    "drop_unrecorded",
    "find_absent",
    "find_any_absent",
    "find_incomplete",
    "say_incomplete",
]

Mask = NDArray[np.bool_]


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
) -> tuple[pd.DataFrame, int]:
    """Return the rows that say something of outcome and choice, and how many do not.

    `can_keep` says whether the model has a use for rows of which only part was recorded,
    `selected` whether all rows are known to be selected, whatever `chosen` is.
    """
    no_choice = None if chosen is None else find_absent(frame[chosen])
    no_outcome = find_any_absent(frame, outcome)
    if no_choice is None and no_outcome is None:
        return frame, 0
    nothing = np.zeros(len(frame), dtype=bool)
    no_choice = nothing if no_choice is None else no_choice
    no_outcome = nothing if no_outcome is None else no_outcome
    if unrecorded.silent:
        if chosen is None and unrecorded.between is None and no_outcome.any():
            raise DataError(
                f"{no_outcome.sum()} rows have no outcome {name!r} "
                f"({first_rows(no_outcome, frame.index)}), and the chosen alternative was not "
                "recorded either: they contain no information. Leave them out with "
                "missing_outcome='drop', or give `outcome_between`."
            )
        no_outcome = nothing
    if unrecorded.possible is not None:
        no_choice = nothing
    lacking = no_choice | no_outcome
    if not lacking.any():
        return frame, 0
    if missing_outcome != "drop":
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
    return frame[~lacking], int(lacking.sum())

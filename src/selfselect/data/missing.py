"""Rows that lack something: left out and counted, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from selfselect.data.checks import first_rows
from selfselect.data.unrecorded import EVERYTHING_RECORDED, Unrecorded
from selfselect.errors import DataError, MissingRowsWarning

__all__ = ["drop_incomplete", "drop_unrecorded"]


def drop_incomplete(
    frame: pd.DataFrame, columns: Sequence[str], missing: str
) -> tuple[pd.DataFrame, int]:
    """Return the rows that have all covariates, and how many do not."""
    if not any(frame[name].hasnans for name in columns):
        return frame, 0
    absent = frame[list(columns)].isna()
    incomplete = absent.any(axis=1).to_numpy()
    n_incomplete = int(incomplete.sum())
    per_column = ", ".join(f"{name}: {n}" for name, n in absent.sum().items() if n)
    if missing == "raise":
        raise DataError(
            f"{n_incomplete} rows have a missing covariate ({per_column}). Fill them in, or allow "
            "leaving them out with missing='drop'."
        )
    warnings.warn(
        f"{n_incomplete} of {len(frame)} rows have a missing covariate ({per_column}) and were "
        "left out.",
        MissingRowsWarning,
        stacklevel=4,
    )
    return frame[~incomplete], n_incomplete


def drop_unrecorded(
    frame: pd.DataFrame,
    outcome: Sequence[str],
    chosen: str | None,
    missing_outcome: str,
    name: str,
    unrecorded: Unrecorded = EVERYTHING_RECORDED,
    *,
    can_keep: bool = True,
) -> tuple[pd.DataFrame, int]:
    """Return the rows that say something of outcome and choice, and how many do not.

    `can_keep` says whether the model has a use for rows of which only part was recorded.
    """
    no_choice = np.zeros(len(frame), dtype=bool)
    if chosen is not None:
        no_choice = frame[chosen].isna().to_numpy()
    no_outcome = np.asarray(frame[list(outcome)].isna().to_numpy().any(axis=1))
    if unrecorded.silent:
        if chosen is None and unrecorded.between is None and no_outcome.any():
            raise DataError(
                f"{no_outcome.sum()} rows have no outcome {name!r} "
                f"({first_rows(no_outcome, frame.index)}), and nobody recorded who was seen: they "
                "say nothing. Leave them out with missing_outcome='drop', or give "
                "`outcome_between`."
            )
        no_outcome = np.zeros(len(frame), dtype=bool)
    if unrecorded.possible is not None:
        no_choice = np.zeros(len(frame), dtype=bool)
    lacking = no_choice | no_outcome
    if not lacking.any():
        return frame, 0
    if missing_outcome == "raise":
        if no_choice.any():
            raise DataError(
                f"{no_choice.sum()} rows have no value in {chosen!r} "
                f"({first_rows(no_choice, frame.index)}): it is not known who was seen. Leaving "
                "them out may itself select on the outcome; missing_outcome='drop' insists."
                + can_keep
                * " Where it is known who may have been seen, give `possible`."
            )
        raise DataError(
            f"{no_outcome.sum()} rows were chosen but have no outcome {name!r} "
            f"({first_rows(no_outcome, frame.index)}). Dropping them would select on the outcome, "
            "the very bias to be removed. "
            + can_keep
            * "missing_outcome='silent' keeps them for what their choice says. "
            + "If they are missing for reasons unrelated to the outcome, missing_outcome='drop' "
            "insists."
        )
    return frame[~lacking], int(lacking.sum())

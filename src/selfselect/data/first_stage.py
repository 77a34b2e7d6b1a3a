"""First stages of endogenous covariates: least squares on instruments and all that is exogenous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coder import Coder
from selfselect.data.columns import to_numbers
from selfselect.data.tables import column_names, to_frame
from selfselect.errors import DataError

__all__ = ["CarriedStages", "FirstStage", "fit_first_stages", "residual_name"]

Array = NDArray[np.float64]


def residual_name(column: str) -> str:
    """Return the name of the residual of an endogenous covariate."""
    return f"{column}_residual"


@dataclass(frozen=True, eq=False)
class FirstStage:
    """The regression of one endogenous covariate.

    Attributes
    ----------
    column : the endogenous covariate.
    coder : of the right side.
    coefficients : (q,) in the order of the coder's names.
    instruments : names of the coder's that no outcome has.
    statistic : F of the test that these are all zero.
    df_residual : its degrees of freedom below the line.
    two_values : whether the column holds two values alone, so that no residual of it is normal.
    """

    column: str
    coder: Coder
    coefficients: Array
    instruments: tuple[str, ...]
    statistic: float
    df_residual: float
    two_values: bool = False

    def with_residual(self, data: Any) -> pd.DataFrame:
        """Return a table with the residuals of its rows in a column of their own."""
        columns = dict.fromkeys([*self.coder.kinds, self.column])
        frame = to_frame(data, (*columns, *column_names(data)))
        known = frame[list(columns)].notna().all(axis=1).to_numpy()
        values = np.full(len(frame), np.nan)
        own = frame[known]
        x = to_numbers(own[self.column], f"The endogenous covariate {self.column!r}")
        values[known] = x - self.coder.code(own) @ self.coefficients
        return frame.assign(**{residual_name(self.column): values})


@dataclass(frozen=True, eq=False)
class CarriedStages:
    """How the rows of a fit move it through its first stages.

    Attributes
    ----------
    places : (e,) columns of the residuals among the covariates.
    w : (n, q) the right side of all first stages.
    influence : (n, e q) what each row, by its weight, does to their coefficients.
    reach : (m, e q) derivatives of the reported estimates in these.
    """

    places: tuple[int, ...]
    w: Array
    influence: Array
    reach: Array


def fit_first_stages(
    coder: Coder,
    w: Array,
    each: dict[str, Array],
    instruments: tuple[str, ...],
    weights: Array,
    *,
    repeated: bool,
) -> tuple[FirstStage, ...]:
    """Regress every endogenous covariate on all of w (n, q).

    `repeated` says whether a row stands for as many as its weight says.
    """
    excluded = np.array([name in instruments for name in coder.names])
    root = np.sqrt(weights)
    weighed = w * root[:, None]
    lengths = np.sqrt((weighed**2).sum(axis=0))
    if (lengths == 0).any() or np.linalg.cond(weighed / np.where(lengths > 0, lengths, 1.0)) > 1e10:
        raise DataError(
            "Instruments and exogenous covariates repeat each other, so the first stage of "
            f"{', '.join(map(repr, each))} is not determined. Leave out what is repeated."
        )
    free = float(weights.sum() if repeated else (weights > 0).sum()) - len(coder.names)
    found = []
    for column, x in each.items():
        y = x * root
        coefficients = np.asarray(np.linalg.lstsq(weighed, y, rcond=None)[0], dtype=np.float64)
        left = float(((y - weighed @ coefficients) ** 2).sum())
        short = weighed[:, ~excluded]
        without = y - short @ np.linalg.lstsq(short, y, rcond=None)[0]
        if not left > 1e-12 * float((y**2).sum()):
            raise DataError(
                f"The first stage explains {column!r} exactly, so nothing of it is endogenous. "
                "Leave it out of `endogenous`, or correct the instruments."
            )
        gain = max(float((without**2).sum()) - left, 0.0) / excluded.sum()
        statistic = float(gain / (left / free))
        two_values = len(np.unique(x[weights > 0])) == 2
        found.append(
            FirstStage(column, coder, coefficients, instruments, statistic, free, two_values)
        )
    return tuple(found)

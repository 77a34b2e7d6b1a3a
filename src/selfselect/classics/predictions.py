"""Predictions for rows: latent means, chances of selection, expected outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from selfselect.classics.design import SELECTION
from selfselect.data.tables import to_frame
from selfselect.errors import DataError, MissingRowsWarning, OptionError, warn_user
from selfselect.kernels.tails import mills_terms
from selfselect.results.predictions import KINDS

if TYPE_CHECKING:
    from selfselect.classics.result import SelectionResult

__all__ = ["predict"]

Array = NDArray[np.float64]


def predict(fit: SelectionResult, data: Any, kind: str) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    design = fit.design
    sides = {SELECTION: design.selection, **{one.label: one.side for one in design.equations}}
    needed = dict(sides)
    if kind == "latent":
        del needed[SELECTION]
    if kind == "chance":
        needed = {SELECTION: design.selection}
    columns = list(dict.fromkeys(name for side in needed.values() for name in side.columns))
    frame = design.frame if data is None else to_frame(data, columns)
    complete = ~frame[columns].isna().any(axis=1).to_numpy()
    if data is not None and not complete.all():
        warn_user(
            f"{(~complete).sum()} of {len(frame)} rows have a missing covariate; their "
            "predictions are missing.",
            MissingRowsWarning,
        )
    kept = frame[complete]
    fitted: dict[Any, Array] = {}
    for label, side in needed.items():
        fitted[label] = side.code(kept) @ fit.coefficients_of(label)
        if not np.isfinite(fitted[label]).all():
            raise DataError("A covariate is infinite or not a number in the new rows.")
    values, names = _values(fit, fitted, kind)
    full = np.full((len(frame), values.shape[1]), np.nan)
    full[complete] = values
    if values.shape[1] == 1:
        return pd.Series(full[:, 0], index=frame.index, name=names)
    return pd.DataFrame(full, index=frame.index, columns=names)


def _values(fit: SelectionResult, fitted: dict[Any, Array], kind: str) -> tuple[Array, Any]:
    """Return values (n, m), and the name or the names of their columns."""
    design = fit.design
    labels = [equation.label for equation in design.equations]
    one = len(labels) == 1
    names = pd.Index(labels, name="alternative")
    if kind == "latent":
        means = np.column_stack([fitted[label] for label in labels])
        return means, design.facts.outcome if one else names
    index = fitted[SELECTION]
    if kind == "chance":
        chances = [ndtr(equation.sign * index) for equation in design.equations]
        return np.column_stack(chances), design.facts.chosen if one else names
    # The mean of the selection noise where the index is positive, and where it is not.
    shift = {1.0: mills_terms(index).ratio, -1.0: -mills_terms(-index).ratio}
    given = {
        (equation.label, sign): fitted[equation.label]
        + fit.covariance_with_selection(equation) * noise
        for equation in design.equations
        for sign, noise in shift.items()
    }
    if kind == "outcome":
        own = [given[equation.label, equation.sign] for equation in design.equations]
        if one:
            return own[0][:, None], design.facts.outcome
        chances = [ndtr(equation.sign * index) for equation in design.equations]
        mean = sum(chance * part for chance, part in zip(chances, own, strict=True))
        return np.asarray(mean)[:, None], design.facts.outcome
    if one:
        both = [given[labels[0], sign] for sign in (1.0, -1.0)]
        return np.column_stack(both), pd.Index([True, False], name=design.facts.chosen)
    pairs = [(a, b) for a in design.equations for b in design.equations]
    return (
        np.column_stack([given[a.label, b.sign] for a, b in pairs]),
        pd.MultiIndex.from_tuples(
            [(a.label, b.label) for a, b in pairs], names=["alternative", "seen"]
        ),
    )

"""Predictions for rows: latent means, chances, expected outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import CodedRows
from selfselect.data.rows import Rows
from selfselect.errors import MissingRowsWarning, OptionError, warn_user
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.results.levels import (
    Logarithm,
    expected_levels,
    find_logarithm,
    mean_levels,
    refuse_other_shapes,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "KINDS",
    "find_kind",
    "predict",
    "predict_new",
    "say_lacking",
]

Array = NDArray[np.float64]

KINDS = ("latent", "chance", "outcome", "given_seen", "scale")
SCALES = ("model", "level")


def predict(
    fit: FitResult, data: Any, kind: str, scale: str = "model"
) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if data is None:
        rows = fit.rows
        index = pd.RangeIndex(len(rows)) if fit.row_labels is None else fit.row_labels
        logarithm = find_kind(fit, kind, scale)
        return _labelled(fit, *_values(fit, rows, kind, logarithm), index, kind, logarithm)
    made, n_lacking = predict_new(fit, data, kind, scale)
    if n_lacking:
        warn_user(
            say_lacking(n_lacking, len(made), "covariate", "predictions"),
            MissingRowsWarning,
        )
    return made


def predict_new(
    fit: FitResult, data: Any, kind: str, scale: str
) -> tuple[pd.DataFrame | pd.Series[Any], int]:
    """Predict for new rows; return, too, how many lack a covariate and so have no predictions."""
    logarithm = find_kind(fit, kind, scale)
    coded = _code(fit, data, kind)
    values, columns = _values(fit, coded.rows, kind, logarithm)
    full = np.full((len(coded.index), values.shape[1]), np.nan)
    full[coded.complete] = values
    made = _labelled(fit, full, columns, coded.index, kind, logarithm)
    return made, int((~coded.complete).sum())


def _code(fit: FitResult, data: Any, kind: str) -> CodedRows:
    """Code new rows as far as a prediction needs them."""
    if fit.problem.equations.selection is None:
        return fit.coding.code(data, with_known=kind not in ("latent", "scale"))
    needed = {"latent": "outcomes", "scale": "outcomes", "chance": "selection"}.get(kind, "all")
    coding: Any = fit.coding
    found: CodedRows = coding.code(data, with_known=False, needed=needed)
    return found


def say_lacking(n_lacking: int, n_rows: int, what: str, made: str) -> str:
    """Say that some rows lack something, and so have no predictions."""
    return f"{n_lacking} of {n_rows} rows have a missing {what}; their {made} are missing."


def find_kind(fit: FitResult, kind: str, scale: str) -> Logarithm | None:
    """Refuse predictions that do not exist; return the logarithm that is to be undone."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    if scale not in SCALES:
        raise OptionError(f"There is no scale {scale!r}. Use one of {', '.join(SCALES)}.")
    logarithm = find_logarithm(fit) if scale == "level" else None
    if logarithm is not None and kind in ("chance", "scale"):
        what = "A chance has no scale" if kind == "chance" else "Noise scales are the model's"
        raise OptionError(f"{what}. Leave scale='level' out, or ask for an outcome.")
    if logarithm is not None:
        refuse_other_shapes(fit.problem)
    return logarithm


def _labelled(
    fit: FitResult,
    values: Array,
    columns: pd.Index[Any],
    index: pd.Index[Any],
    kind: str,
    logarithm: Logarithm | None,
) -> pd.DataFrame | pd.Series[Any]:
    if values.shape[1] == 1:
        name = fit.problem.equations.outcome if logarithm is None else logarithm.level
        return pd.Series(
            values[:, 0], index=index, name=fit.facts.chosen if kind == "chance" else name
        )
    return pd.DataFrame(values, index=index, columns=columns)


def _values(
    fit: FitResult, rows: Rows, kind: str, logarithm: Logarithm | None
) -> tuple[Array, pd.Index[Any]]:
    labels = fit.problem.equations.alternatives
    names = pd.Index(labels, name="alternative")
    if kind == "chance":
        return moments_of(fit.problem).expectations(fit.values, rows).chance, names
    if kind == "scale":
        scales = fit.problem.row_scales(fit.values, rows)
        return np.broadcast_to(scales, (len(rows), len(labels))), names
    means = latent_means(fit.problem, fit.values, rows)
    if kind == "latent":
        if fit.facts.case is not None and rows.known.available is not None:
            # A case without a row for an alternative does not say what its covariates are.
            means[~rows.known.available] = np.nan
        if logarithm is None:
            return means, names
        levels = mean_levels(fit.problem, logarithm, fit.values, rows)
        return np.where(np.isnan(means), np.nan, levels), names
    if logarithm is None:
        expected = moments_of(fit.problem).expectations(fit.values, rows)
    else:
        expected = expected_levels(fit.problem, logarithm, fit.values, rows)
    if kind == "outcome":
        return expected.outcome[:, None], names
    if len(labels) == 1:
        return expected.given_seen[:, 0], pd.Index([True, False], name=fit.facts.chosen)
    pairs = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    return expected.given_seen.reshape(len(rows), len(pairs)), pairs

"""Predictions for rows: latent means, chances, expected outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import CodedRows
from selfselect.data.rows import Rows
from selfselect.errors import MissingRowsWarning, OptionError, warn_user
from selfselect.inference.statistics import interval_ends
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.moments.levels import LevelMoments, Logarithm
from selfselect.results.levels import asked_logarithm
from selfselect.results.prediction_errors import errors_of_rows, refuse_errors, with_intervals
from selfselect.results.tables import check_level

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "KINDS",
    "columns_for",
    "find_kind",
    "predict",
    "predict_new",
    "say_lacking",
]

Array = NDArray[np.float64]

KINDS = ("latent", "chance", "outcome", "given_seen", "scale")

NEEDED = {"latent": "outcomes", "scale": "outcomes", "chance": "selection"}
"""Which equations a prediction needs, where a selection has one of its own; others need all."""


def predict(
    fit: FitResult,
    data: Any,
    kind: str,
    scale: str = "model",
    level: float | None = None,
    progress: bool | None = None,
) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if data is None:
        rows = fit.rows
        index = pd.RangeIndex(len(rows)) if fit.row_labels is None else fit.row_labels
        asked = find_kind(fit, kind, scale, level)
        values, columns, errors = _predicted(fit, rows, asked, progress)
        return _labelled(fit, values, columns, errors, index, asked)
    made, n_lacking = predict_new(fit, data, kind, scale, level, progress)
    if n_lacking:
        warn_user(
            say_lacking(n_lacking, len(made), "covariate", "predictions"),
            MissingRowsWarning,
        )
    return made


def predict_new(
    fit: FitResult,
    data: Any,
    kind: str,
    scale: str,
    level: float | None = None,
    progress: bool | None = False,
) -> tuple[pd.DataFrame | pd.Series[Any], int]:
    """Predict for new rows; return, too, how many lack a covariate and so have no predictions."""
    asked = find_kind(fit, kind, scale, level)
    coded = _code(fit, data, kind)
    values, columns, errors = _predicted(fit, coded.rows, asked, progress)

    def in_place(found: Array) -> Array:
        full = np.full((len(coded.index), found.shape[1]), np.nan)
        full[coded.complete] = found
        return full

    errors = None if errors is None else in_place(errors)
    made = _labelled(fit, in_place(values), columns, errors, coded.index, asked)
    return made, int((~coded.complete).sum())


def _code(fit: FitResult, data: Any, kind: str) -> CodedRows:
    """Code new rows as far as a prediction needs them."""
    with_known = kind not in ("latent", "scale")
    return fit.coding.code(data, with_known=with_known, needed=NEEDED.get(kind, "all"))


def columns_for(fit: FitResult, kind: str) -> tuple[str, ...]:
    """Return the data columns that a prediction needs."""
    coding: Any = fit.coding
    if fit.problem.equations.selection is not None:
        found: tuple[str, ...] = coding.columns_for(NEEDED.get(kind, "all"))
        return found
    return (*coding.columns, *(() if kind in ("latent", "scale") else coding.known.columns))


def say_lacking(n_lacking: int, n_rows: int, what: str, made: str) -> str:
    """Say that some rows lack something, and so have no predictions."""
    return f"{n_lacking} of {n_rows} rows have a missing {what}; their {made} are missing."


@dataclass(frozen=True)
class Asked:
    """What is to be predicted.

    Attributes
    ----------
    kind : one of `KINDS`.
    logarithm : the one that is to be undone, if any.
    level : of intervals; None where they are not wanted.
    """

    kind: str
    logarithm: Logarithm | None
    level: float | None


def find_kind(fit: FitResult, kind: str, scale: str, level: float | None = None) -> Asked:
    """Refuse predictions that do not exist."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    logarithm = asked_logarithm(fit, scale)
    if logarithm is not None and kind in ("chance", "scale"):
        what = "A chance has no scale" if kind == "chance" else "Noise scales are the model's"
        raise OptionError(f"{what}. Leave scale='level' out, or ask for an outcome.")
    if level is not None:
        check_level(level)
        refuse_errors(fit, kind)
    return Asked(kind, logarithm, level)


def _labelled(
    fit: FitResult,
    values: Array,
    columns: pd.Index[Any],
    errors: Array | None,
    index: pd.Index[Any],
    asked: Asked,
) -> pd.DataFrame | pd.Series[Any]:
    logarithm, is_chance = asked.logarithm, asked.kind == "chance"
    if errors is not None and asked.level is not None:
        bound = 0.0 if asked.kind == "scale" else -np.inf
        ends = interval_ends(
            values, errors, asked.level, fit.covariance.df, share=is_chance,
            above=bound if logarithm is None else -logarithm.offset,
        )  # fmt: skip
        return with_intervals(values, errors, ends, columns, index)
    if values.shape[1] == 1:
        name = fit.problem.equations.outcome if logarithm is None else logarithm.level
        return pd.Series(values[:, 0], index=index, name=fit.facts.chosen if is_chance else name)
    return pd.DataFrame(values, index=index, columns=columns)


def _predicted(
    fit: FitResult, rows: Rows, asked: Asked, progress: bool | None
) -> tuple[Array, pd.Index[Any], Array | None]:
    """Return predictions (n, c), their columns, and their standard errors where they are wanted."""
    values, columns = _values(fit, fit.values, rows, asked)
    if asked.level is None:
        return values, columns, None
    errors = errors_of_rows(
        fit, lambda reported: _values(fit, reported, rows, asked)[0], values, progress
    )
    return values, columns, errors


def _values(
    fit: FitResult, reported: Array, rows: Rows, asked: Asked
) -> tuple[Array, pd.Index[Any]]:
    kind, logarithm = asked.kind, asked.logarithm
    labels = fit.problem.equations.alternatives
    names = pd.Index(labels, name="alternative")
    if kind == "chance":
        return moments_of(fit.problem).chances(reported, rows), names
    if kind == "scale":
        scales = fit.problem.row_scales(reported, rows)
        return np.broadcast_to(scales, (len(rows), len(labels))), names
    means = latent_means(fit.problem, reported, rows)
    if kind == "latent":
        if fit.facts.case is not None and rows.known.available is not None:
            # A case without a row for an alternative does not say what its covariates are.
            means[~rows.known.available] = np.nan
        if logarithm is None:
            return means, names
        levels = LevelMoments(fit.problem, fit.problem.ordered_rule, logarithm)
        return np.where(np.isnan(means), np.nan, levels.latent(reported, rows)), names
    if logarithm is None:
        expected = moments_of(fit.problem).expectations(reported, rows)
    else:
        levels = LevelMoments(fit.problem, fit.problem.ordered_rule, logarithm)
        expected = levels.expectations(reported, rows)
    if kind == "outcome":
        return expected.outcome[:, None], names
    if len(labels) == 1:
        return expected.given_seen[:, 0], pd.Index([True, False], name=fit.facts.chosen)
    pairs = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    return expected.given_seen.reshape(len(rows), len(pairs)), pairs

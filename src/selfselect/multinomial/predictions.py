"""Predictions for rows, as far as a correction identifies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import MissingRowsWarning, OptionError, UnsupportedError, warn_user
from selfselect.inference.statistics import interval_ends
from selfselect.multinomial.corrections import Correction
from selfselect.multinomial.expectations import expect
from selfselect.results.levels import check_scale
from selfselect.results.prediction_errors import errors_of_rows, with_intervals
from selfselect.results.predictions import say_lacking
from selfselect.results.tables import check_level

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["NO_LEVELS", "NO_OTHERS", "predict", "refuse_level_scale"]

Array = NDArray[np.float64]

KINDS = ("latent", "chance", "outcome", "given_seen")

NO_LEVELS = (
    "Dahl's correction has a constant of its own, so constants of outcomes, and with them levels, "
    "are not identified"
)
NO_OTHERS = (
    "Lee's correction says nothing of an outcome's noise where another alternative is chosen"
)


def refuse_unidentified(correction: Correction, *, others: bool) -> None:
    """Refuse levels, and noise where another alternative is chosen, where they are unknown."""
    better = "Use correction='dmf0', 'dmf1' or 'dmf2'."
    if not correction.levels:
        raise UnsupportedError(f"{NO_LEVELS}. {better}")
    if others and not correction.others:
        raise UnsupportedError(f"{NO_OTHERS}. {better}")


def refuse_level_scale(scale: str) -> None:
    """Refuse means of the outcome itself where its logarithm was modelled."""
    check_scale(scale)
    if scale == "level":
        raise UnsupportedError(
            "scale='level' needs the whole distribution of the noise, and a multinomial switching "
            "regression models only its mean where each alternative is chosen. Leave `scale` out. "
            "For the logarithm of an outcome, exp(ATE) - 1 is the effect on the geometric mean."
        )


def predict(
    fit: MultinomialResult, data: Any, kind: str, scale: str, level: float | None
) -> pd.DataFrame | pd.Series[Any]:
    """Predict for the rows of `data`, or for those of the fit where it is None."""
    if kind not in KINDS:
        raise OptionError(f"There is no prediction {kind!r}. Use one of {', '.join(KINDS)}.")
    refuse_level_scale(scale)
    if kind in ("latent", "given_seen"):
        refuse_unidentified(fit.model.correction, others=kind == "given_seen")
    if level is not None:
        check_level(level)
    if data is None:
        rows, index = fit.own_rows(), fit.row_labels
        assert index is not None
        complete = np.ones(len(rows), dtype=bool)
    else:
        coded = fit.coding.code(data, with_known=True)
        rows, index, complete = coded.rows, coded.index, coded.complete
        if not complete.all():
            warn_user(
                say_lacking(int((~complete).sum()), len(index), "covariate", "predictions"),
                MissingRowsWarning,
            )

    def in_place(found: Array) -> Array:
        full = np.full((len(index), found.shape[1]), np.nan)
        full[complete] = found
        return full

    def made(reported: Array) -> Array:
        return _values(fit, reported, rows, kind)

    labels = fit.alternatives
    columns = pd.Index(labels, name="alternative")
    if kind == "given_seen":
        columns = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    values = made(fit.values)
    if level is not None:
        errors = errors_of_rows(fit, made, values)
        ends = interval_ends(values, errors, level, fit.covariance.df, share=kind == "chance")
        each = [in_place(one) for one in (values, errors, *ends)]
        return with_intervals(each[0], each[1], (each[2], each[3]), columns, index)
    if kind == "outcome":
        return pd.Series(in_place(values)[:, 0], index=index, name=fit.model.equations.outcome)
    return pd.DataFrame(in_place(values), index=index, columns=columns)


def _values(fit: MultinomialResult, reported: Array, rows: Rows, kind: str) -> Array:
    expected = expect(fit.model, reported, rows)
    if kind == "latent":
        return expected.latent
    if kind == "chance":
        return expected.chance
    if kind == "outcome":
        return expected.outcome[:, None]
    return expected.given.reshape(len(rows), -1)

"""Effects of multinomial switching regressions, with errors over both steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects.base import (
    Averages,
    EffectTable,
    check_covariates_word,
    effect_table,
    how_averaged,
    key_name,
    transform,
)
from selfselect.errors import DataError, MissingRowsWarning, OptionError, warn_user
from selfselect.multinomial.pages import near_collinearity
from selfselect.multinomial.result import NO_OTHERS, refuse_level_scale, refuse_unidentified
from selfselect.multinomial.two_steps import expect, summed
from selfselect.options import Covariates, Scale

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult


Array = NDArray[np.float64]

STEP = 1e-4
"""Of central differences in the parameters, in standard errors."""


def _position(fit: MultinomialResult, label: Any) -> int:
    texts = [str(one) for one in fit.alternatives]
    if str(label) not in texts:
        raise OptionError(f"There is no alternative {label!r}; there are {', '.join(texts)}.")
    return texts.index(str(label))


def _rows(fit: MultinomialResult, data: Any) -> tuple[Rows, bool]:
    if data is None:
        rows = fit.own_rows()
        if np.isnan(rows.covariates).any():
            raise DataError(
                "Some rows of the fit lack a covariate of another alternative's equation, so "
                "their outcome there cannot be predicted. Give the rows to average over, "
                "data=..., with all covariates."
            )
        return rows, True
    coded = fit.coding.code(data, with_known=True)
    if not coded.complete.all():
        warn_user(
            f"{(~coded.complete).sum()} of {len(coded.index)} rows have a missing value and are "
            "left out.",
            MissingRowsWarning,
        )
    if not len(coded.rows):
        raise DataError("No row is complete, so there is nothing to average over.")
    return coded.rows, False


def _average(
    fit: MultinomialResult, data: Any, covariates: str, function: Callable[[Any], Any]
) -> tuple[Averages, str]:
    """Average cells over rows, and return a smooth function of the averages.

    A row does something to an average by itself and through the estimates; both are counted
    together where influences are known, and added up after a bootstrap.
    """
    check_covariates_word(covariates)
    rows, own = _rows(fit, data)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    share = weights / weights.sum()
    used = _used(fit)
    cells = expect(fit.model, fit.values, rows).cells[:, used]
    mean = share @ cells
    jacobian = np.empty((len(mean), len(fit.values)))
    errors = np.sqrt(np.diag(fit.covariance.matrix))
    for place, step in enumerate(STEP * np.where(errors > 0, errors, 1.0)):
        moved = np.zeros(len(fit.values))
        moved[place] = step
        up, down = (
            share @ expect(fit.model, fit.values + sign * moved, rows).cells[:, used]
            for sign in (1.0, -1.0)
        )
        jacobian[:, place] = (up - down) / (2.0 * step)
    covariance = jacobian @ fit.covariance.matrix @ jacobian.T
    if covariates == "sampled":
        direct = (cells - mean) * share[:, None]
        if own and fit.influence is not None:
            both = direct + fit.influence @ jacobian.T
            kind, size = fit.covariance.kind, len(fit.values)
            covariance = summed(rows, both, kind, fit.dependence, size).matrix
        elif own:
            covariance += summed(rows, direct, "HC0", fit.dependence, 0).matrix
        else:
            covariance += direct.T @ direct
    note = how_averaged(fit, len(rows), covariates, own=own)
    return transform(Averages(mean, covariance, jacobian), function), note


def _used(fit: MultinomialResult) -> Any:
    """Return the cells that the correction identifies."""
    k = len(fit.alternatives)
    return slice(None) if fit.model.correction.others else slice(0, 2 * k)


def treatment_effects(
    fit: MultinomialResult,
    to: Any,
    versus: Any,
    data: Any = None,
    *,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
) -> EffectTable:
    """Return ATE, ATT and ATU of `to` instead of `versus`, as far as they are identified.

    Dahl's correction leaves levels open, so there are none; Lee's says nothing of noise where
    another alternative is chosen, so there is ATE alone.

    Parameters
    ----------
    to, versus : labels of two alternatives.
    data, level, covariates : see `selfselect.effects`.
    scale : ``"model"``; two steps do not determine means of a logged outcome's level.
    """
    refuse_level_scale(scale)
    correction, k = fit.model.correction, len(fit.alternatives)
    refuse_unidentified(correction, others=False)
    a, b = _position(fit, to), _position(fit, versus)
    if a == b:
        raise OptionError(f"{to!r} is compared with itself. Give two different alternatives.")

    def effects(vector: Any) -> Any:
        everyone = vector[k + a] - vector[k + b]
        if not correction.others:
            return np.array([everyone])
        outcome = vector[2 * k :].reshape(k, k)
        treated, share = outcome[a, a] - outcome[b, a], vector[a]
        return np.array([everyone, treated / share, (everyone - treated) / (1.0 - share)])

    found, note = _average(fit, data, covariates, effects)
    names = ["ATE", "ATT", "ATU"][: len(found.mean)]
    groups = ["everyone", f"{to} chosen", f"{to} not chosen"][: len(found.mean)]
    notes = [note] if correction.others else [note, f"There is no ATT or ATU: {NO_OTHERS}."]
    return effect_table(
        f"Effect of {to} instead of {versus} on {fit.model.equations.outcome}",
        {"effect": names, "group": groups},
        found,
        level=level,
        df=fit.covariance.df,
        warnings=near_collinearity(fit),
        notes=notes,
        tested=True,
    )


def potential_outcomes(
    fit: MultinomialResult,
    data: Any = None,
    *,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
) -> EffectTable:
    """Return the mean of every outcome, among all and among those who choose each alternative.

    Parameters
    ----------
    data, level, covariates : see `selfselect.effects`.
    scale : ``"model"``; two steps do not determine means of a logged outcome's level.
    """
    refuse_level_scale(scale)
    correction, labels = fit.model.correction, fit.alternatives
    refuse_unidentified(correction, others=False)
    k = len(labels)

    def means(vector: Any) -> Any:
        if not correction.others:
            return vector[k : 2 * k]
        outcome = vector[2 * k :].reshape(k, k)
        return np.concatenate([vector[k : 2 * k], *(outcome[:, g] / vector[g] for g in range(k))])

    found, note = _average(fit, data, covariates, means)
    groups = [key_name("everyone", labels), *(labels if correction.others else ())]
    notes = [note] if correction.others else [note, f"By group there are none: {NO_OTHERS}."]
    made = effect_table(
        f"Mean {fit.model.equations.outcome} by group and alternative",
        {
            "group": [group for group in groups for _ in labels],
            "alternative": list(labels) * len(groups),
        },
        found,
        level=level,
        df=fit.covariance.df,
        warnings=near_collinearity(fit),
        notes=(),
    )
    return replace(made, notes=tuple(notes))

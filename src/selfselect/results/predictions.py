"""Predictions with their errors, of levels where logarithms were modelled, and simulated ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import CodedRows
from selfselect.data.rows import Rows
from selfselect.errors import MissingRowsWarning, OptionError, UnsupportedError, warn_user
from selfselect.inference.simulation import redraw, why_no_redraw
from selfselect.inference.statistics import check_level, interval_ends
from selfselect.moments.choose import moments_of
from selfselect.moments.mixed import LevelMoments, Logarithm
from selfselect.options import PredictionKind, Scale
from selfselect.progress import progress_bar
from selfselect.results.averaged_rows import asked_logarithm, find_logarithm
from selfselect.seeds import check_seed, generator

if TYPE_CHECKING:
    from selfselect.results.estimates import Estimates
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Which logarithm the left side of a formula is, where predictions of the outcome itself are asked.
#
# Their mathematics is in `moments.mixed`.


# Standard errors of predictions for rows, by the delta method.
#
# With the covariance of the estimates written as :math:`V = LL'`, the variance of a prediction
# :math:`f(\theta)` is the sum of its squared derivatives along the columns of L. Each is a central
# difference over a small part of a standard error, so that steps suit parameters of any size.


QUANTITIES = ("estimate", "std_error", "conf_low", "conf_high")

STEP = 1e-3
"""Of the differences, in standard errors: they err by about its square, relatively."""


def refuse_errors(fit: FitResult, kind: str) -> None:
    """Refuse standard errors of predictions where there are none."""
    if not np.isfinite(fit.covariance.matrix).all():
        raise UnsupportedError(
            "The fit has no covariance of its estimates, so its predictions have no standard "
            "errors. Fit with covariance='bootstrap', or leave `level` out."
        )
    if kind not in ("latent", "scale") and not moments_of(fit.problem).smooth:
        raise UnsupportedError(
            f"Predictions of the kind {kind!r} are simulated under this rule or noise: they do not "
            "move smoothly with the estimates, so the delta method gives no standard errors. Leave "
            "`level` out, or ask for kind='latent'."
        )


def root_of(covariance: Array) -> Array:
    """Return L (m, r) with L L' = V; columns without length are left out."""
    sizes = np.sqrt(np.diag(covariance))
    sizes[sizes == 0] = 1.0
    variances, axes = np.linalg.eigh(covariance / np.outer(sizes, sizes))
    kept = variances > 1e-14 * max(variances.max(), 0.0)
    return np.asarray(sizes[:, None] * axes[:, kept] * np.sqrt(variances[kept]))


def errors_of_rows(
    fit: Estimates,
    predict: Callable[[Array], Array],
    values: Array,
    progress: bool | None = None,
) -> Array:
    """Return the standard errors of `values`, which `predict` makes of reported parameters."""
    variance = np.zeros_like(values)
    directions = root_of(fit.covariance.matrix).T
    with progress_bar(progress, what="Standard errors", total=2 * len(directions)) as bar:
        for direction in directions:
            ends = []
            for sign in (1.0, -1.0):
                ends.append(predict(fit.values + sign * STEP * direction))
                bar.update(1)
            variance += ((ends[0] - ends[1]) / (2.0 * STEP)) ** 2
    return np.sqrt(variance)


def with_intervals(
    values: Array,
    errors: Array,
    ends: tuple[Array, Array],
    columns: pd.Index[Any],
    index: pd.Index[Any],
) -> pd.DataFrame:
    """Return a table with the four quantities of every prediction (n, c) beside each other."""
    each = np.stack([values, errors, *ends], axis=-1)
    if values.shape[1] == 1:
        return pd.DataFrame(each[:, 0], index=index, columns=list(QUANTITIES))
    keys = [
        (*(key if isinstance(key, tuple) else (key,)), quantity)
        for key in columns
        for quantity in QUANTITIES
    ]
    names = [*columns.names, "quantity"]
    labels = pd.MultiIndex.from_tuples(keys, names=names)
    return pd.DataFrame(each.reshape(len(values), len(keys)), index=index, columns=labels)


# Predictions for rows: latent means, chances, expected outcomes.


KINDS = ("latent", "chance", "outcome", "given_seen", "scale")

NEEDED = {"latent": "outcomes", "scale": "outcomes", "chance": "selection"}
"""Which equations a prediction needs, where a selection has one of its own; others need all."""


def predict(
    fit: FitResult,
    data: Any = None,
    kind: PredictionKind = "latent",
    scale: Scale = "model",
    *,
    level: float | None = None,
    progress: bool | None = None,
) -> pd.DataFrame | pd.Series[Any]:
    """Predict for new rows, or for those of the fit where `data` is None.

    Parameters
    ----------
    data : any table with the covariates (and cost and availability columns, if any).
    kind : ``latent``, the mean of every outcome; ``chance``, the probability that each
        alternative is chosen; ``outcome``, the mean of the observed outcome;
        ``given_seen``, the mean of every outcome where each alternative is chosen;
        ``scale``, the scale of every alternative's noise, its own in every row where scales
        move with covariates. Sample
        selection has one outcome: ``outcome`` is its mean where it is selected, and
        ``given_seen`` its means where it is and where it is not.
    scale : ``model``, as the formula's left side has it; ``level``, where that is a logarithm,
        means of what it is the logarithm of; the noise must be normal or a mixture of
        normals.
    level : None for predictions alone; 0.95 for a table with ``estimate``, ``std_error``,
        ``conf_low`` and ``conf_high`` of each. Intervals are of these means and chances, by
        the errors of the estimates (delta method), not of single outcomes. Those of chances
        are made on the logit scale, those of levels and noise scales on the log scale.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> made = result.predict(kind="chance", level=0.95)
    >>> made["hunting"].columns.tolist()
    ['estimate', 'std_error', 'conf_low', 'conf_high']
    """
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
class PredictionAsked:
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


def find_kind(fit: FitResult, kind: str, scale: str, level: float | None = None) -> PredictionAsked:
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
    return PredictionAsked(kind, logarithm, level)


def _labelled(
    fit: FitResult,
    values: Array,
    columns: pd.Index[Any],
    errors: Array | None,
    index: pd.Index[Any],
    asked: PredictionAsked,
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
    fit: FitResult, rows: Rows, asked: PredictionAsked, progress: bool | None
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
    fit: FitResult, reported: Array, rows: Rows, asked: PredictionAsked
) -> tuple[Array, pd.Index[Any]]:
    kind, logarithm = asked.kind, asked.logarithm
    labels = fit.problem.equations.alternatives
    names = pd.Index(labels, name="alternative")
    # A case without a row for an alternative does not say what its covariates are.
    lacking = None if rows.known.described is None else ~rows.known.described
    if kind == "chance":
        return moments_of(fit.problem).chances(reported, rows), names
    if kind == "scale":
        scales = np.broadcast_to(fit.problem.row_scales(reported, rows), (len(rows), len(labels)))
        if lacking is not None and fit.problem.layout.spreads:
            scales = np.where(lacking, np.nan, scales)
        return scales, names
    if kind == "latent":
        means = moments_of(fit.problem).latent(reported, rows)
        if lacking is not None:
            means[lacking] = np.nan
        # Nor does anything say what types would have where they hardly ever are.
        held = [label for _, label, _ in getattr(fit.problem.noise, "held_shifts", ())]
        means[:, names.isin(held)] = np.nan
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
    if lacking is not None:
        expected.given_seen[lacking] = np.nan
    pairs = pd.MultiIndex.from_product([labels, labels], names=["alternative", "seen"])
    return expected.given_seen.reshape(len(rows), len(pairs)), pairs


# Outcomes and choices drawn from a fit, as a table that can be fitted again.


CHOSEN = "chosen"


def simulate(fit: FitResult, data: Any = None, *, seed: int | None = None) -> pd.DataFrame:
    """Draw outcomes and choices from the fitted model: a table that can be fitted again.

    Parameters
    ----------
    data : a table with the covariates (and cost and availability columns, if any); None for
        the rows of the fit, of which as many outcomes go unrecorded as did.
    seed : of the draws.

    Returns
    -------
    pandas.DataFrame
        The outcome, in its own column, and the chosen alternative where choices were recorded;
        at the rows of the fit, the other columns that it used as well.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> drawn = result.simulate(seed=1)
    >>> sorted(drawn)
    ['height', 'income', 'job', 'weight']
    >>> again = ss.fit("income ~ height + weight", drawn, chosen="job")
    """
    rng = generator(check_seed(seed, optional=True))
    table, problem = fit.table, fit.problem
    if data is None:
        rows, index = fit.rows, fit.row_labels
        reason = why_no_redraw(problem, rows)
    else:
        if fit.facts.case is not None:
            raise UnsupportedError("Long data is simulated at its own rows. Leave `data` out.")
        coded = fit.coding.code(data, with_known=True)
        rows, index, table = coded.rows, coded.index[coded.complete], None
        n_lacking = int((~coded.complete).sum())
        if n_lacking:
            warn_user(
                f"{n_lacking} of {len(coded.index)} rows have a missing value; nothing is drawn "
                "for them.",
                MissingRowsWarning,
            )
        # New rows lack no outcome that is drawn for them.
        problem = replace(problem, partial=False)
        reason = None
        if problem.noise.mixed or problem.noise.sign_only or problem.noise.selected:
            rows = replace(rows, outcome=np.zeros(len(rows)), chosen=np.zeros(len(rows), np.intp))
            reason = why_no_redraw(problem, rows)
    if reason is not None:
        raise UnsupportedError(f"Samples cannot be drawn from this fit: {reason}.")
    drawn = redraw(problem, fit.values, rows, rng)
    made: dict[str, Any] = {}
    name, values = _outcome(fit, np.asarray(drawn.outcome))
    made[name] = values
    if drawn.chosen is not None:
        made[_chosen_name(fit)] = _labels(fit, drawn.chosen)
    found = pd.DataFrame(made, index=index)
    if table is None or fit.facts.case is not None or len(table) != len(found):
        return found
    kept = table.set_axis(found.index).drop(columns=[c for c in found if c in table])
    return found.join(kept)


def _outcome(fit: FitResult, values: Any) -> tuple[str, Any]:
    """Return the outcome by the name of its column, the logarithm undone where it is one."""
    try:
        logarithm = find_logarithm(fit)
    except OptionError:
        return fit.problem.equations.outcome, values
    return logarithm.level, np.exp(logarithm.rate * values) - logarithm.offset


def _chosen_name(fit: FitResult) -> str:
    if fit.problem.equations.selection is None or fit.facts.selection is None:
        return fit.facts.chosen or CHOSEN
    return str(fit.facts.selection).partition("~")[0].strip() or CHOSEN


def _labels(fit: FitResult, chosen: Any) -> Any:
    """Return the labels of alternatives; 0 and 1 where there is one, selected or not."""
    labels = fit.problem.equations.alternatives
    if len(labels) == 1:
        return (chosen >= 0).astype(int)
    return pd.Series(list(labels)).to_numpy()[chosen]

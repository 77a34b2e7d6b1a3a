"""Marginal effects: how chances, or the observed outcome, move with each covariate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import FormulaCoding
from selfselect.data.columns import plain_label
from selfselect.data.long import LongCoding
from selfselect.data.rows import Rows
from selfselect.data.tables import nearest
from selfselect.effects._averages import average
from selfselect.effects._moments import Setting, cells
from selfselect.effects.base import (
    NUMBERS,
    Averages,
    EffectTable,
    check_covariates_word,
    doubts,
    effect_table,
    how_averaged,
    key_name,
    outcome_name,
    transform,
)
from selfselect.errors import DataError, OptionError
from selfselect.options import Covariates, Scale
from selfselect.results.averaged_rows import (
    asked_logarithm,
    code_rows,
    counted_table,
    extrapolations,
    is_category,
    make_profiles,
    raw_table,
    refuse_lacking,
)

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

OBSERVED = "(observed)"
"""Stands in place of an alternative where the observed outcome is meant."""

SLOPE = "dy/dx"
"""Stands for the change of a number, per unit."""

STEP = 1e-3
"""Half a step in spreads of a column: its square is what a central difference neglects."""

SMALLEST = 1e-4
"""Least part of a step that is taken near zero: rounding stays a millionth of a derivative."""

QUARTILES = 1.349
"""Standard deviations between the quartiles of a normal column."""


def marginal_effects(
    fit: FitResult,
    columns: str | Sequence[str] | None = None,
    data: Any = None,
    *,
    at: Any = "average",
    of: Literal["chance", "outcome"] = "chance",
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
) -> EffectTable:
    """Return the effect of each column of the data on the probability of each alternative.

    A number changes by a small step up and down, in every term that contains it (squares,
    interactions, logarithms); a column of 0 and 1 changes from 0 to 1; a category from its first
    level to each other level.

    Parameters
    ----------
    fit : a fitted model.
    columns : one or several columns of the data; None for all.
    at : ``"average"`` for the mean of all rows' effects; else as in `selfselect.effects`.
    of : ``"chance"`` of each alternative, or the mean observed ``"outcome"``. Where one outcome
        alone is selected (sample selection), that is its mean given that it is selected.
    data, level, covariates, scale : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.marginal_effects("height").table["change"].tolist()
    ['dy/dx', 'dy/dx']
    """
    if of not in ("chance", "outcome"):
        raise OptionError(f"of={of!r} is not possible. Use 'chance' or 'outcome'.")
    check_covariates_word(covariates)
    logarithm = asked_logarithm(fit, scale)
    if logarithm is not None and of == "chance":
        raise OptionError("A chance has no scale. Leave scale='level' out, or use of='outcome'.")
    own, average_asked = data is None, isinstance(at, str) and at == "average"
    if own and average_asked:
        refuse_lacking(fit)
    table = raw_table(fit, data)
    alternatives = fit.problem.equations.alternatives if of == "chance" else (OBSERVED,)
    if average_asked:
        warnings = () if own else extrapolations(fit, table)
        settings, points = [table], pd.DataFrame(index=range(1))
        n_rows = len(fit.rows if own else code_rows(fit, table))
        notes = [how_averaged(fit, n_rows, covariates, own=own)]
    else:
        profiles = make_profiles(fit, at, data)
        own, covariates, warnings, points = False, "fixed", profiles.warnings, profiles.points
        settings = [profiles.table.iloc[[i]] for i in range(len(profiles.table))]
        notes = [
            profiles.sentence,
            f"Errors account for estimation ({fit.covariance.description}).",
        ]
    rule = fit.problem.ordered_rule
    alone = of == "outcome" and fit.problem.equations.n_alternatives == 1
    rows: list[tuple[Any, ...]] = []
    each: list[Averages] = []
    known = _known_values(fit, table)
    # pandas 2 has no tuples of a frame without columns.
    given_at = points.itertuples(index=False) if len(points.columns) else [()]
    for point, setting in zip(given_at, settings, strict=True):
        for name in _chosen_columns(columns, fit, table):
            for change, up, down, steps in _changes(fit, known[name], setting):
                states = [
                    Setting(_with_weights(fit, one, own=own), rule, logarithm, alone)
                    for one in (up, down)
                ]
                each.append(_difference(fit, states, steps, of, own=own, covariates=covariates))
                rows += [(*point, name, change, label) for label in alternatives]
    if not each:
        raise DataError(
            "The rows hold one category of each column, and this fit has no rows that say which "
            "others there are. Give rows with several."
        )
    own_keys = ("variable", "change", "alternative")
    given = [key_name(str(name), {*own_keys, *NUMBERS}) for name in points]
    keys = pd.DataFrame(rows, columns=[*given, *own_keys])
    what = "the chance of each alternative" if of == "chance" else outcome_name(fit, scale)
    if (keys["change"] == SLOPE).any():
        unit = "a chance lies between 0 and 1" if of == "chance" else f"in units of {what}"
        notes.append(f"{SLOPE} is the change per unit of the variable ({unit}).")
    what += ", where it is selected" if alone else ""
    return effect_table(
        f"Marginal effects on {what}",
        {str(name): keys[name].tolist() for name in keys},
        _stacked(fit, each),
        level=level,
        df=fit.covariance.df,
        warnings=(*doubts(fit), *warnings),
        notes=notes,
        tested=True,
    )


def columns_that_move(fit: FitResult) -> list[str]:
    """Return the columns of the data that have marginal effects."""
    return _chosen_columns(None, fit, raw_table(fit, None))


def _chosen_columns(
    columns: str | Sequence[str] | None, fit: FitResult, table: pd.DataFrame
) -> list[str]:
    known = set(fit.coding.known.available)
    if isinstance(fit.coding, LongCoding):
        # They say which rows belong together, and describe none of them.
        known |= {fit.coding.case, fit.coding.alternative}
    possible = [str(name) for name in table if name not in known]
    if not possible:
        raise DataError("This fit has no covariates, so there is nothing whose change has effects.")
    if columns is None:
        return possible
    asked = [columns] if isinstance(columns, str) else list(columns)
    for name in asked:
        if name not in possible:
            raise DataError(f"There is no covariate {name!r} in this fit.{nearest(name, possible)}")
    return asked


def _known_values(fit: FitResult, table: pd.DataFrame) -> pd.DataFrame:
    """Return rows that say what columns may hold: those of the fit that count, else the given."""
    return counted_table(fit) if fit.has_rows else table


def _levels(fit: FitResult, column: pd.Series[Any]) -> list[Any]:
    """Return the categories of a column: those of the fit, in their order."""
    if pd.api.types.is_bool_dtype(column):
        return [False, True]
    coding = fit.coding
    if isinstance(coding, FormulaCoding | LongCoding):
        for coder in coding.coders:
            levels = coder.labels_of(str(column.name))
            if levels is not None:
                met = levels if not fit.has_rows else list(map(plain_label, column.unique()))
                return [level for level in levels if level in met]
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    levels = list(column.cat.categories if categorical else np.unique(column))
    return [level for level in levels if (column == level).any()]


def _spread(values: Array) -> float:
    """Return how far a column spreads, whatever its tails; of one value nothing is known."""
    if values.min() == values.max():
        return float(abs(values[0])) or 1.0
    low, high = np.quantile(values, [0.25, 0.75])
    deviation = float(values.std())
    return min(float(high - low) / QUARTILES, deviation) or deviation


def _changes(
    fit: FitResult, column: pd.Series[Any], table: pd.DataFrame
) -> list[tuple[str, pd.DataFrame, pd.DataFrame, Array | float]]:
    """Return each change of a column: its name, the rows after and before, and its size in each.

    `column` is that of rows which say what it may hold; `table` the rows in which it is changed.
    """
    column = column.dropna()  # Rows of another outcome may lack it.
    name = str(column.name)

    def with_value(value: Any) -> pd.DataFrame:
        # A column of one value keeps its type, on which the coding of categories depends.
        values = pd.Series([value] * len(table), index=table.index)
        known = not isinstance(column.dtype, pd.CategoricalDtype) or value in column.cat.categories
        return table.assign(**{name: values.astype(column.dtype) if known else values})

    if is_category(fit, column):
        base, *others = _levels(fit, column)
        first = with_value(base)
        return [(f"{one} - {base}", with_value(one), first, 1.0) for one in others]
    values = column.to_numpy(dtype=float)
    if np.isin(values, (0.0, 1.0)).all():
        return [("1 - 0", with_value(1), with_value(0), 1.0)]
    here = table[name].to_numpy(dtype=float)
    low, high = values.min(), values.max()
    step: Array | float = STEP * _spread(values)
    if low > 0.0 and not isinstance(fit.coding, LongCoding):
        # Logarithms and powers bend the more, the closer a positive number is to zero. The rows
        # of a case, in long data, move by one step.
        step = np.clip(STEP * here, SMALLEST * step, step)
    # Splines end at the smallest and largest value: rows there are moved inside by a step.
    inside = (here >= low) & (here <= high) & (low < high)
    middle = np.where(inside, np.clip(here, low + step, high - step), here)
    up, down = (
        np.where(inside, np.clip(one, low, high), one) for one in (middle + step, middle - step)
    )
    return [(SLOPE, table.assign(**{name: up}), table.assign(**{name: down}), 2.0 * step)]


def _difference(
    fit: FitResult,
    settings: Sequence[Setting],
    steps: Array | float,
    of: str,
    *,
    own: bool,
    covariates: str,
) -> Averages:
    """Return the mean difference that a change makes, over its size in each row."""
    k = fit.problem.equations.n_alternatives
    each = np.broadcast_to(np.asarray(steps), len(settings[0].rows))
    found = average(fit, settings, own=own, covariates=covariates, steps=each)

    def asked(vector: Any) -> Any:
        moved = cells(vector, k)
        return moved.chance if of == "chance" else np.atleast_1d(moved.observed)

    return transform(found, asked)


def _with_weights(fit: FitResult, table: pd.DataFrame, *, own: bool) -> Rows:
    """Code changed rows; those of the fit keep their weights and clusters."""
    rows = code_rows(fit, table)
    if not own:
        return rows
    return replace(rows, weights=fit.rows.weights, clusters=fit.rows.clusters)


def _stacked(fit: FitResult, each: Sequence[Averages]) -> Averages:
    """Put effects of several changes together; between them only estimation is shared."""
    jacobian = np.vstack([one.jacobian for one in each])
    covariance = jacobian @ fit.covariance.matrix @ jacobian.T
    place = 0
    for one in each:
        size = len(one.mean)
        covariance[place : place + size, place : place + size] = one.covariance
        place += size
    return Averages(np.concatenate([one.mean for one in each]), covariance, jacobian)

"""What answers are about: rows to average over, profiles of them, and the outcome's scale."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.coding import FormulaCoding
from selfselect.data.formula_code import expression_tree
from selfselect.data.long import LongCoding
from selfselect.data.missing import find_any_absent
from selfselect.data.rows import Rows, counted_rows
from selfselect.data.selection_rows import SelectionCoding
from selfselect.data.tables import nearest, to_frame
from selfselect.errors import (
    DataError,
    ExtrapolationWarning,
    MissingRowsWarning,
    OptionError,
    UnsupportedError,
    warn_user,
)
from selfselect.moments.mixed import Logarithm
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# The rows an effect is averaged over, coded and as they were given.


SLACK = 0.05
"""Share of its range in the fit by which a covariate of new rows may exceed it unmentioned."""


@dataclass(frozen=True, eq=False)
class AveragedRows:
    """Rows to average over.

    Attributes
    ----------
    rows : coded.
    own : whether they are the rows of the fit.
    index : the caller's labels of the rows.
    warnings : what is doubtful about them.
    left_out : how many of the rows do not count, and why; None where all do.
    """

    rows: Rows
    own: bool
    index: pd.Index[Any]
    warnings: tuple[str, ...] = ()
    left_out: tuple[int, str] | None = None


def is_category(fit: FitResult, values: pd.Series[Any]) -> bool:
    """Whether a column holds categories: by its type, or because the formula makes it one."""
    coding = fit.coding
    if isinstance(coding, FormulaCoding | LongCoding) and any(
        values.name in coder.categorical for coder in coding.coders
    ):
        return True
    return pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values)


def typical_value(values: pd.Series[Any], weights: Any, *, category: bool) -> Any:
    """Return the mean of a column, or the commonest of its categories, as weights count rows.

    Rows of another outcome may lack it.
    """
    present = values.notna().to_numpy()
    if not present.all():
        values, weights = values[present], None if weights is None else weights[present]
    if not category:
        return float(np.average(values.to_numpy(dtype=float), weights=weights))
    column = values.reset_index(drop=True)
    counted = pd.Series(1.0 if weights is None else weights, index=column.index)
    times = counted.groupby(column, observed=True).sum()
    return times.index[int(times.to_numpy().argmax())]


def raw_columns(fit: FitResult) -> tuple[str, ...]:
    """Return the columns a table of new rows must have."""
    coding = fit.coding
    names = coding.columns if isinstance(coding, FormulaCoding) else coding.equations.covariates
    if isinstance(coding, LongCoding):
        names = (coding.case, coding.alternative, *coding.columns)
    return tuple(dict.fromkeys((*names, *coding.known.columns)))


def raw_table(fit: FitResult, data: Any) -> pd.DataFrame:
    """Return covariates, costs and availability of complete rows as they were given."""
    names = raw_columns(fit)
    if data is None:
        if fit.table is not None:
            return fit.table[list(names)]
        covariates = _rows_of(fit).covariates
        return pd.DataFrame(covariates, columns=list(fit.problem.equations.covariates))
    if isinstance(data, np.ndarray) and not isinstance(fit.coding, FormulaCoding | LongCoding):
        data = pd.DataFrame(data, columns=list(names))
    if isinstance(fit.coding, SelectionCoding):
        fit.coding.check_residuals(data, names)
    table = to_frame(data, names)
    complete = table.notna().all(axis=1).to_numpy()
    lacking, n_rows, unit = ~complete, len(table), "rows"
    if isinstance(fit.coding, LongCoding):
        # A case that lost one of its rows would be one to which that alternative is closed.
        places = fit.coding.place(table)
        lacking, n_rows, unit = places.any_of(lacking), len(places.cases), "cases"
        complete = ~lacking[places.case_of]
    if lacking.any():
        warn_user(
            f"{lacking.sum()} of {n_rows} {unit} have a missing value and are left out.",
            MissingRowsWarning,
        )
    if len(table) == 0:
        raise DataError("The table has no rows, so there is nothing to average over.")
    if not complete.any():
        raise DataError("No row is complete, so there is nothing to average over.")
    return table[complete]


def counted_table(fit: FitResult) -> pd.DataFrame:
    """Return the rows of the fit as they were given, without those of weight zero."""
    table, weights = raw_table(fit, None), fit.rows.weights
    if weights is None or isinstance(fit.coding, LongCoding):
        return table
    return table[weights > 0]


def code_rows(fit: FitResult, table: pd.DataFrame) -> Rows:
    """Code complete rows as those of the fit were coded."""
    if not isinstance(fit.coding, FormulaCoding | LongCoding):
        return fit.coding.code(table.to_numpy(dtype=float), with_known=True).rows
    return fit.coding.code(table, with_known=True).rows


def sample_of(
    fit: FitResult, data: Any, *, option: str = "data", needed: Sequence[int] = ()
) -> AveragedRows:
    """Return the rows of `data`, or those of the fit where it is None; `option` takes them.

    Rows in which the covariates of an alternative that is `needed` are not known have weight zero.
    """
    if data is None:
        rows = _rows_of(fit, option)
        index = pd.RangeIndex(len(rows)) if fit.row_labels is None else fit.row_labels
        return _where_known(fit, AveragedRows(rows, own=True, index=index), needed)
    table = raw_table(fit, data)
    index = table.index
    if isinstance(fit.coding, LongCoding):
        index = fit.coding.place(table).cases
    sample = AveragedRows(code_rows(fit, table), False, index, extrapolations(fit, table))
    return _where_known(fit, sample, needed)


def _where_known(fit: FitResult, sample: AveragedRows, needed: Sequence[int]) -> AveragedRows:
    """Let the rows count in which the covariates of all `needed` alternatives are known."""
    described = sample.rows.known.described
    if described is None or described[:, list(needed)].all():
        return sample
    known = np.asarray(described[:, list(needed)].all(axis=1), dtype=np.float64)
    rows = sample.rows.reweighted(known)
    labels = [
        str(fit.problem.equations.alternatives[j]) for j in needed if not described[:, j].all()
    ]
    if not counted_rows(rows):
        each = " or ".join(labels)
        raise UnsupportedError(
            f"In each of the {len(rows)} cases an alternative has no row ({each}), so its "
            "covariates, and what it would bring the case, are not known. Ask about alternatives "
            "that have rows in the same cases: choice_probabilities, marginal_effects and "
            "counterfactual(close=...) need no others. Or give data=... with a row for each, or "
            "fit one row per case with available=...."
        )
    return replace(sample, rows=rows, left_out=(int((known == 0).sum()), " or ".join(labels)))


def _rows_of(fit: FitResult, option: str = "data") -> Rows:
    if fit.engine is None:
        raise UnsupportedError(
            "This fit was loaded from a file and no longer has its rows. Give the rows to average "
            f"over, {option}=..., or fit again."
        )
    refuse_lacking(fit)
    return fit.rows


def refuse_lacking(fit: FitResult) -> None:
    """Refuse to average over the rows of a fit of which some lack covariates of an equation."""
    if fit.problem.equations.selection is None:
        return
    lacking = int(np.isnan(fit.rows.covariates).any(axis=1).sum())
    if lacking:
        whose = "another alternative's" if fit.problem.equations.n_alternatives > 1 else "its"
        raise UnsupportedError(
            f"{lacking} of {len(fit.rows)} rows of the fit do not show the outcome and lack a "
            f"covariate of {whose} equation, or have a category of it that was not met, so it "
            "cannot be predicted there. Give the rows "
            "to average over, data=..., with all covariates."
        )


def extrapolations(
    fit: FitResult, table: pd.DataFrame, names: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Warn of numbers outside the range of the fit's rows, once per column.

    Of values a user gave by name every one counts; a table of new rows may exceed the range a
    little, as any other sample would.
    """
    if not fit.has_rows:
        return ()
    fitted = counted_table(fit)
    found = []
    for name in table.columns if names is None else names:
        if name not in fitted or is_category(fit, fitted[name]):
            continue
        low, high = float(fitted[name].min()), float(fitted[name].max())
        values = table[name].to_numpy(dtype=float)
        slack = 0.0 if names is not None else SLACK * (high - low)
        outside = (values < low - slack) | (values > high + slack)
        if outside.any():
            furthest = values[np.abs(values - 0.5 * (low + high)).argmax()]
            found.append(
                f"EXTRAPOLATION: in {outside.sum()} of {len(values)} rows {name!r} lies outside "
                f"the range of the fit, {low:g} to {high:g} (as far as {furthest:g}). There the "
                "result relies on the assumed linearity alone."
            )
    for sentence in found:
        warn_user(sentence, ExtrapolationWarning)
    return tuple(found)


# Profiles: rows made up to ask what the model says at given values of the covariates.


MOST = 10_000
"""Profiles one question may ask for."""


@dataclass(frozen=True, eq=False)
class Profiles:
    """Rows that are made up.

    Attributes
    ----------
    table : complete rows, to be coded.
    points : the columns the user gave values for, one row per profile.
    sentence : how the other columns were filled.
    warnings : about values outside the data.
    """

    table: pd.DataFrame
    points: pd.DataFrame
    sentence: str
    warnings: tuple[str, ...]


def make_profiles(fit: FitResult, at: Any, data: Any) -> Profiles:
    """Make one row per combination of the given values, the other columns at their means.

    Parameters
    ----------
    fit : whose columns are meant.
    at : ``"means"``, or ``{column: value or values}``.
    data : rows whose means are taken; None for those of the fit.
    """
    if isinstance(fit.coding, LongCoding):
        raise UnsupportedError(
            "Profiles are rows made up of one value per column; a case of long data is several "
            "rows. Give such cases as data=... instead of at=...."
        )
    if (isinstance(at, str) and at != "means") or not isinstance(at, str | Mapping):
        raise OptionError(
            f"at={at!r} is not possible. Use 'means', or values by column such as "
            "at={'height': 180} or at={'height': [160, 170, 180]}."
        )
    table = raw_table(fit, data)
    given: dict[str, list[Any]] = {}
    asked: dict[str, Any] = {} if isinstance(at, str) else dict(at)
    for name, values in asked.items():
        if name not in table:
            raise DataError(
                f"There is no covariate {name!r} in this fit.{nearest(str(name), table.columns)}"
            )
        given[name] = _values(name, values, numbers=not is_category(fit, table[name]))
    n_profiles = int(np.prod([len(values) for values in given.values()]))
    if n_profiles > MOST:
        raise OptionError(f"at asks for {n_profiles} profiles; {MOST} are possible at once.")
    points = pd.DataFrame(list(product(*given.values())), columns=list(given))
    if not given:
        points = pd.DataFrame(index=range(1))
    weights = fit.rows.weights if data is None else None
    others = [str(name) for name in table if name not in given]
    lacking = find_any_absent(table, others)
    population = table
    if lacking is not None:
        # Rows of another outcome may lack columns: means are those of one population.
        population, weights = table[~lacking], None if weights is None else weights[~lacking]
    if len(population) == 0 or (weights is not None and not weights.any()):
        raise DataError(
            f"No row has all of {', '.join(others)}, so these have no means over the same rows. "
            "Give values for those that some rows lack, in at=...."
        )
    typical = {
        name: typical_value(population[name], weights, category=is_category(fit, table[name]))
        for name in others
    }
    columns = {
        name: points[name].to_numpy() if name in given else [typical[name]] * len(points)
        for name in map(str, table)
    }
    made = pd.DataFrame(columns, index=range(len(points)))
    sentence = "All columns are at the given values."
    if others:
        over = "" if lacking is None else f" over the {len(population)} rows that have all of them"
        sentence = f"Other columns are at their means{over}, categories at the commonest."
    return Profiles(made, points, sentence, extrapolations(fit, made, list(given)))


def _values(name: str, values: Any, *, numbers: bool) -> list[Any]:
    listed = [values] if isinstance(values, str) or np.ndim(values) == 0 else list(values)
    if not listed:
        raise OptionError(f"at[{name!r}] is empty. Give at least one value.")
    if numbers:
        for value in listed:
            number = isinstance(value, int | float | np.number)
            if not number or not np.isfinite(value):
                raise OptionError(f"at[{name!r}] must be finite numbers, not {value!r}.")
    return listed


# The scale that answers are on: that of the formula's left side, or what it is the logarithm of.


SCALES = ("model", "level")

RATES = {"log": 1.0, "log2": float(np.log(2.0)), "log10": float(np.log(10.0)), "log1p": 1.0}
"""By function, c in e^(cy), which undoes it; log1p leaves one to subtract."""


def find_logarithm(fit: FitResult) -> Logarithm:
    """Read off the formula which logarithm its left side is, or say that it is none."""
    outcome = fit.problem.equations.outcome
    call: Any = None
    aliases: dict[str, str] = {}
    with suppress(SyntaxError):
        tree, aliases = expression_tree(outcome)
        call = tree.body
        while isinstance(call, ast.Call) and ast.unparse(call.func) == "I" and len(call.args) == 1:
            call = call.args[0]  # I(...) leaves a value as it is.
    if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name in RATES:
            level = ast.unparse(call.args[0])
            marked = {alias: f"`{column}`" for alias, column in aliases.items()}
            in_marks = re.sub(r"\w+", lambda found: marked.get(found[0], found[0]), level)
            level = aliases.get(level, in_marks)
            return Logarithm(level, RATES[name], 1.0 if name == "log1p" else 0.0)
    raise OptionError(
        f"scale='level' undoes a logarithm, but the left side of the formula is {outcome!r}. Where "
        "that column holds logarithms, fit the column they were taken of: 'log(wage) ~ ...'. "
        "Where it holds levels, leave `scale` out."
    )


def refuse_other_shapes(problem: Problem) -> None:
    """Refuse noise whose exponential has no mean that is known exactly."""
    shape = problem.noise.margin
    if shape.normals is None:
        raise UnsupportedError(
            f"scale='level' needs noise that is normal or a mixture of normals, and this fit has "
            f"{shape.name} noise: the mean of its exponential is another one, and may be infinite. "
            "Leave `scale` out, or fit noise=noises.Mixture(2)."
        )


def check_scale(scale: str) -> None:
    """Refuse the name of a scale that there is not."""
    if scale not in SCALES:
        raise OptionError(f"There is no scale {scale!r}. Use one of {', '.join(SCALES)}.")


def asked_logarithm(fit: FitResult, scale: str) -> Logarithm | None:
    """Return the logarithm that `scale` asks to undo, or None; refuse what cannot be undone."""
    check_scale(scale)
    if scale == "model":
        return None
    logarithm = find_logarithm(fit)
    refuse_other_shapes(fit.problem)
    return logarithm

"""Columns as sliders and lists, and the rows that a page averages over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import FormulaCoding
from selfselect.data.rows import Rows
from selfselect.errors import OptionError
from selfselect.results.averaged_rows import (
    code_rows,
    is_category,
    make_profiles,
    raw_columns,
    raw_table,
)
from selfselect.visible import left_to_right

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Controls of a page: the values a column can be set to, and what rows are coded as there.
#
# A page cannot evaluate formulas. So each column has a list of values, and what every coded number
# of a row is at those values is tabulated here, by the fit's own coding: a number depends on no
# column, on one, or on two.


Array = NDArray[np.float64]

MOST_CONTROLS = 40
MOST_NUMBERS = 120_000
"""Numbers that the tables of all controls may hold."""

STEPS = 50
FEW = 31
"""Values up to which a column's own are taken instead of round ones."""


@dataclass(frozen=True, eq=False)
class Controls:
    """What can be set, and what follows.

    Attributes
    ----------
    controls : per column its name, values as shown and as code, and where it stands at first.
    numbers : per coded number (covariates, then costs, then availability) its value, or the
        control or the two controls it depends on and its values there.
    left_out : columns that have no control and stay at their typical value.
    """

    controls: list[dict[str, Any]]
    numbers: list[dict[str, Any]]
    left_out: tuple[str, ...]


def coded_numbers(rows: Rows, k: int) -> Array:
    """Return covariates, known costs and availability of rows side by side, (n, p + 2k)."""
    n = len(rows)
    costs, available = rows.known.costs, rows.known.available
    return np.hstack(
        [
            rows.covariates,
            np.zeros((n, k)) if costs is None else costs,
            np.ones((n, k)) if available is None else available.astype(float),
        ]
    )


def make_controls(fit: FitResult, data: Any) -> Controls:
    """Tabulate the coded numbers of a row whose columns are at their means but for one or two."""
    table = raw_table(fit, data)
    typical = make_profiles(fit, "means", data).table
    k = fit.problem.equations.n_alternatives
    sources = _sources(fit, typical)
    values = {
        str(name): _values(
            own,
            typical[name].iloc[0],
            category=is_category(fit, own),
            known=_labels_of(fit, str(name)),
        )
        for name, own in table.items()
    }
    offered = _offered(values, sources)
    base = coded_numbers(code_rows(fit, typical), k)[0]
    tables = _tabulate(fit, typical, values, sources, offered, k)
    numbers: list[dict[str, Any]] = []
    for place, needed in enumerate(sources):
        on = tuple(name for name in needed if name in offered)
        if not on:
            numbers.append({"value": _short(base[place])})
            continue
        at = [offered.index(name) for name in on]
        numbers.append({"on": at, "values": list(map(_short, tables[on][:, place]))})
    controls = [
        {
            "name": left_to_right(name),
            "code": repr(name),
            "category": is_category(fit, table[name]),
            "shown": [_shown(value) for value in values[name]],
            "codes": [repr(value) for value in values[name]],
            "typical": values[name].index(_plain(typical[name].iloc[0])),
        }
        for name in offered
    ]
    return Controls(controls, numbers, tuple(name for name in values if name not in offered))


def _sources(fit: FitResult, frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the columns that each coded number is made of."""
    coding, names = fit.coding, fit.problem.equations.covariates
    made: dict[str, tuple[str, ...]] = {str(name): (str(name),) for name in names}
    if isinstance(coding, FormulaCoding):
        for coder in coding.coders:
            made |= coder.sources(frame)
    known = [
        (entry,) if isinstance(entry, str) else ()
        for entry in (*coding.known.costs, *coding.known.available)
    ]
    return [made[str(name)] for name in names] + known


def _offered(values: dict[str, list[Any]], sources: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the columns that get a control: the first ones, while their tables have room."""
    offered: list[str] = []
    used = 0
    for name, own in values.items():
        if len(offered) == MOST_CONTROLS or len(own) < 2:
            continue
        size = 0
        for needed in sources:
            before = [len(values[one]) for one in needed if one in offered]
            if name in needed:
                # A number that depends on three columns keeps the last of them where it is.
                size += MOST_NUMBERS if len(before) > 1 else len(own) * int(np.prod(before))
        if used + size <= MOST_NUMBERS:
            offered.append(name)
            used += size
    return offered


def _tabulate(
    fit: FitResult,
    typical: pd.DataFrame,
    values: dict[str, list[Any]],
    sources: Sequence[tuple[str, ...]],
    offered: list[str],
    k: int,
) -> dict[tuple[str, ...], Array]:
    """Return all coded numbers of rows at the values of one column, or of two."""
    wanted = {tuple(name for name in needed if name in offered) for needed in sources} - {()}
    points = {on: list(product(*(values[name] for name in on))) for on in sorted(wanted)}
    n_points = sum(map(len, points.values()))
    # One table of all points: coding takes a while for each column, however few rows there are.
    columns = {str(name): [typical[name].iloc[0]] * n_points for name in typical}
    starts: dict[tuple[str, ...], int] = {}
    at = 0
    for on, each in points.items():
        starts[on] = at
        for place, name in enumerate(on):
            columns[name][at : at + len(each)] = [point[place] for point in each]
        at += len(each)
    if not n_points:
        return {}
    coded = coded_numbers(code_rows(fit, pd.DataFrame(columns)), k)
    return {on: coded[start : start + len(points[on])] for on, start in starts.items()}


def _labels_of(fit: FitResult, column: str) -> list[Any]:
    """Return the categories of a column in the order that the fit learnt."""
    found = (coder.labels_of(column) for coder in getattr(fit.coding, "coders", ()))
    return next((labels for labels in found if labels is not None), [])


def _values(column: pd.Series[Any], typical: Any, *, category: bool, known: list[Any]) -> list[Any]:
    """Return the values a column can be set to, the typical one among them.

    Categories stand in the order that the fit knows; a table read from a file has lost it.
    """
    if category:
        met = {_plain(label) for label in column.unique()}
        if met <= set(known):
            return [label for label in known if label in met]
        if isinstance(column.dtype, pd.CategoricalDtype):
            return [_plain(label) for label in column.cat.categories if label in met]
        return sorted(map(_plain, met), key=lambda label: (str(type(label)), label))
    numbers = column.to_numpy(dtype=float)
    met_numbers = np.unique(numbers)
    if len(met_numbers) > FEW:
        whole = bool((met_numbers == np.round(met_numbers)).all())
        met_numbers = _round_values(float(met_numbers[0]), float(met_numbers[-1]), whole=whole)
    return sorted({*met_numbers.tolist(), float(typical)})


def _round_values(low: float, high: float, *, whole: bool) -> Array:
    """Return some fifty round numbers between two."""
    rough = (high - low) / STEPS
    power = floor(log10(rough))
    factor = next(one for one in (1, 2, 5, 10) if one * 10.0**power >= rough * (1 - 1e-9))
    if whole and power < 0:
        power, factor = 0, 1
    digits = max(0, -power)
    step = factor * 10.0**power
    places = range(ceil(low / step), floor(high / step) + 1)
    found = np.array([round(place * step, digits) for place in places])
    return found[(found >= low) & (found <= high)]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else left_to_right(str(value))


def _short(value: Any) -> float | int:
    """Return a whole number as one, which takes less room."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


# The rows over which a page averages, and how they are written in code.


MOST_ROWS = 500
MOST_NUMBERS_OF_ROWS = 60_000
"""Covariates times rows of the sample: half a megabyte."""

MOST_WORK = 200_000
"""Rows times the cube of the number of alternatives, which the time of a change goes with."""

LEAST_ROWS = 40


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows.

    Attributes
    ----------
    rows : coded.
    sentence : which rows they are.
    code : the argument of `counterfactual` that means them; empty where none is needed.
    """

    rows: Rows
    sentence: str
    code: str


def sample_rows(fit: FitResult, data: Any, most: int | None, given: Any) -> RowSample:
    """Take every so many-th row, so that a page has room for them and a browser time.

    Parameters
    ----------
    fit : whose coding is used.
    data : complete rows; None for the rows of the fit.
    most : how many rows at most; None for as many as go.
    given : what the caller gave, of which `data` are the complete rows.
    """
    if most is not None and not (isinstance(most, int | np.integer) and most >= 1):
        raise OptionError(
            f"rows={most!r} is not possible. Give a whole number of rows, such as 300."
        )
    k, p = fit.problem.equations.n_alternatives, max(1, len(fit.problem.equations.covariates))
    room = max(LEAST_ROWS, min(MOST_ROWS, MOST_NUMBERS_OF_ROWS // p, MOST_WORK // k**3))
    most = room if most is None else min(int(most), room)
    table = raw_table(fit, data)
    step = -(-len(table) // most)
    which = "" if step == 1 else f"[::{step}]"
    if data is None and step == 1:
        weighted = f", weighted by {fit.facts.weights}" if fit.facts.weights else ""
        return RowSample(fit.rows, f"all {len(table)} rows of the fit{weighted}", "")
    rows = code_rows(fit, table.iloc[::step])
    if data is not None:
        source = f"data{'.iloc' if which and not isinstance(given, np.ndarray) else ''}{which}"
        if len(table) < len(given):
            source = f"data.dropna(subset={list(raw_columns(fit))!r}).iloc[::{step}]"
    elif fit.table is not None:
        source = f"result.table.iloc{which}"
    else:
        source = f"result.rows.covariates{which}"
    of = "of the fit" if data is None else "that were given"
    sentence = (
        f"{len(rows)} of the {len(table)} rows {of}, one in {step}"
        if step > 1
        else (f"the {len(table)} rows {of}")
    )
    if fit.facts.weights:
        sentence += f"; they count once each (the weights {fit.facts.weights} are not used)"
    return RowSample(rows, sentence, f"base={source}")

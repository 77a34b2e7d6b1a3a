"""Walks along one covariate with the others at their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import FormulaCoding
from selfselect.data.long import LongCoding
from selfselect.data.rows import Rows
from selfselect.data.tables import nearest
from selfselect.effects._sample import is_category as is_category_of
from selfselect.effects._sample import typical_value
from selfselect.errors import OptionError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Path", "columns_of", "grid_of", "is_category", "walk_along"]

Array = NDArray[np.float64]

STEPS = 41
MOST_CATEGORIES = 12


@dataclass(frozen=True, eq=False)
class Path:
    """A walk along one covariate.

    Attributes
    ----------
    of_rows : (n,) its value in each row of the fit.
    grid : (m,) the values walked through.
    rows : coded rows at those values, the other columns at their means.
    """

    of_rows: Array
    grid: Array
    rows: Rows


def columns_of(fit: FitResult) -> pd.DataFrame:
    """Return the columns that the right sides of the formulas use, as they were given.

    What a formula takes as categories, ``C(year)``, is of a categorical type.
    """
    if fit.table is not None and isinstance(fit.coding, FormulaCoding):
        table = fit.table[list(fit.coding.columns)]
        made = [name for name in table if is_category_of(fit, table[name])]
        plain = [name for name in made if not is_category(table[name])]
        return table.astype(dict.fromkeys(plain, "category")) if plain else table
    return pd.DataFrame(fit.rows.covariates, columns=list(fit.problem.equations.covariates))


def is_category(values: pd.Series[Any]) -> bool:
    """Whether a column holds categories: text, booleans or a categorical type."""
    return pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values)


def grid_of(values: pd.Series[Any]) -> NDArray[Any]:
    """Return the values to walk through: the commonest categories, or numbers from end to end.

    Rows of another outcome may lack a value.

    Only values that were met are taken, since a formula may know no others. Categories of a
    categorical type stand in its order, others are sorted.
    """
    values = values.dropna()
    if is_category(values):
        counts = values.value_counts()
        commonest = set(counts[counts > 0].index[:MOST_CATEGORIES])
        if isinstance(values.dtype, pd.CategoricalDtype):
            ordered = [label for label in values.cat.categories if label in commonest]
        else:
            ordered = sorted(commonest, key=str)
        found = np.empty(len(ordered), dtype=object)
        found[:] = ordered
        return found
    met: Array = np.unique(values.to_numpy(dtype=float))
    low, high = np.quantile(values.to_numpy(dtype=float), [0.005, 0.995])
    place = np.searchsorted(met, np.linspace(low, high, STEPS))
    return np.asarray(met[np.unique(np.clip(place, 0, len(met) - 1))])


def walk_along(fit: FitResult, covariate: str) -> Path:
    """Walk along a numeric column, or along one term where no column has that name."""
    table = columns_of(fit)
    terms = fit.problem.equations.covariates
    long = isinstance(fit.coding, LongCoding)
    if not long and covariate in table and not is_category(table[covariate]):
        grid = grid_of(table[covariate])
        weights = fit.rows.weights
        typical = {
            name: typical_value(table[name], weights, category=is_category(table[name]))
            for name in table
        }
        made = pd.DataFrame({name: [value] * len(grid) for name, value in typical.items()})
        made[covariate] = grid
        plain: Any = made if isinstance(fit.coding, FormulaCoding) else made.to_numpy(dtype=float)
        rows = fit.coding.code(plain, with_known=False).rows
        return Path(table[covariate].to_numpy(dtype=float), grid, rows)
    if covariate in terms:
        position = terms.index(covariate)
        values = fit.rows.covariates[:, position]
        grid = grid_of(pd.Series(values))
        known = np.ma.masked_invalid(fit.rows.covariates)
        means = np.asarray(np.ma.average(known, axis=0, weights=fit.rows.weights))
        at = np.tile(means, (len(grid), 1))
        at[:, position] = grid
        return Path(values, grid, Rows(at))
    numeric = [str(name) for name in table if not is_category(table[name])]
    hint = nearest(covariate, dict.fromkeys((*numeric, *terms)))
    if covariate in table:
        raise OptionError(f"{covariate!r} holds categories, along which there is no line.{hint}")
    raise OptionError(f"There is no covariate {covariate!r} in the fit.{hint}")

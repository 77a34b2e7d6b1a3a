"""Profiles: rows made up to ask what the model says at given values of the covariates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.long import LongCoding
from selfselect.data.tables import nearest
from selfselect.effects._sample import extrapolations, is_category, raw_table, typical_value
from selfselect.errors import DataError, OptionError, UnsupportedError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Profiles", "make_profiles"]

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
    typical = {
        name: typical_value(table[name], weights, category=is_category(fit, table[name]))
        for name in table
    }
    columns = {name: [typical[name]] * len(points) for name in table}
    made = pd.DataFrame(columns, index=range(len(points)))
    for name in given:
        made[name] = points[name].to_numpy()
    if not given or len(given) < table.shape[1]:
        sentence = "Other columns are at their means, categories at the commonest."
    else:
        sentence = "All columns are at the given values."
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

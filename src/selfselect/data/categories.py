"""Categories by the hundred: what they cost, and which have no rows, said before the fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coder import Coder
from selfselect.errors import DataError, SelfSelectWarning, warn_user
from selfselect.rules.base import Label

__all__ = ["check_categories"]

MANY = 50
"""Categories of a factor up to which a fit is quick and says itself what it lacks."""

_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T].*)?")

COSTLY = 500
"""Parameters from which a warning says what they cost."""


def check_categories(
    coders: Sequence[Coder],
    coder_of: Sequence[int],
    frame: pd.DataFrame,
    chosen: NDArray[np.intp] | None,
    labels: Sequence[Label],
) -> None:
    """Refuse categories that an alternative has no row of; warn where there are very many.

    Parameters
    ----------
    coders : of the right sides.
    coder_of : per alternative, which coder its equation uses.
    frame : the rows of the fit.
    chosen : (n,) index of the chosen alternative; None where it was not recorded.
    labels : of the alternatives.
    """
    n_parameters = sum(len(coders[place].names) for place in coder_of)
    for place, coder in enumerate(coders):
        users = [j for j, used in enumerate(coder_of) if used == place]
        for factor in coder.factors:
            if len(coder.factors[factor]) <= MANY:
                continue
            met = coder.categories_of(factor, frame)
            if met is None:
                continue
            for j in users if chosen is not None else ():
                _refuse_empty(factor, coder.factors[factor], met[chosen == j], labels[j])
            if n_parameters > COSTLY:
                warn_user(
                    f"{factor} has {len(coder.factors[factor]):,} categories, and the model "
                    f"{n_parameters:,} parameters. A pass over the rows takes time in proportion "
                    "to their square. To allow for groups without estimating each, leave the term "
                    "out and give the column as cluster=.",
                    SelfSelectWarning,
                )


def _refuse_empty(
    factor: str, categories: Sequence[Any], met: NDArray[np.intp], label: Label
) -> None:
    empty = np.setdiff1d(np.arange(len(categories)), met)
    if len(empty):
        if all(_DATE.fullmatch(str(one)) for one in categories):
            raise DataError(
                f"{factor} holds dates as text, such as {categories[0]!r}: {len(categories):,} "
                "categories. Make them numbers first, such as years, or days since a date (in "
                f"pandas: pd.to_datetime(data[{factor!r}]).dt.year), or leave them out."
            )
        shown = ", ".join(repr(categories[i]) for i in empty[:3])
        raise DataError(
            f"{factor} has {len(categories):,} categories, and {len(empty):,} of them occur in no "
            f"row in which {label!r} was chosen ({shown}{', ...' if len(empty) > 3 else ''}): "
            "their coefficients have no finite estimate. Join categories, leave the term out of "
            "that alternative's formula, or give the column as cluster= instead."
        )

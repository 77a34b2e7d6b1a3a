"""Terms that are columns, or categories of columns, coded without evaluating a formula.

Most covariates are. Evaluating formulas takes longer than a pass over the rows, and where rows are
read from files it would be done anew in every pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula
from formulaic.parser.types import Factor
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT

__all__ = ["Recipes", "code_by_recipes", "find_recipes"]

Recipes = dict[str, tuple[str, Any]]
"""By term, its column, and the category that it is one for; None where it is the column itself."""


def find_recipes(text: str, names: Sequence[str], learnt: Mapping[str, Any]) -> Recipes | None:
    """Return how each term but a constant is had; None where one is anything else.

    Parameters
    ----------
    text : the right side of a formula.
    names : of its terms.
    learnt : by factor, its kind and the categories it has, as formulaic learnt them.
    """
    made: Recipes = {}
    for term in Formula(text):
        factor, *others = term.factors
        if factor.eval_method is Factor.EvalMethod.LITERAL and factor.expr == "1":
            continue
        if factor.eval_method is not Factor.EvalMethod.LOOKUP or others:
            return None
        column = factor.expr
        kind, state = learnt.get(column, (None, {}))
        if "categories" in state:
            dummies = {f"{column}[T.{one}]": (column, one) for one in state["categories"]}
            made |= {name: one for name, one in dummies.items() if name in names}
        elif kind is Factor.Kind.NUMERICAL:
            made[column] = (column, None)
    return made if set(made) == set(names) - {INTERCEPT} else None


def code_by_recipes(
    recipes: Recipes, frame: pd.DataFrame, learnt: Mapping[str, Any]
) -> dict[str, NDArray[Any]] | None:
    """Return each term (n,), columns of numbers as they are, without a copy.

    None where a column is not of the kind it was, or has a category that was not met before.
    """
    columns = {column: frame[column] for column, _ in recipes.values()}
    codes: dict[str, tuple[NDArray[Any], list[Any]]] = {}
    for column, category in recipes.values():
        if category is None:
            if not _is_plain_number(columns[column]):
                return None
        elif column not in codes:
            places, met = pd.factorize(columns[column])
            if (places < 0).any() or not set(met) <= set(learnt[column][1]["categories"]):
                return None
            codes[column] = places, met.tolist()
    found: dict[str, NDArray[Any]] = {}
    for name, (column, category) in recipes.items():
        if category is None:
            found[name] = columns[column].to_numpy()
            continue
        places, labels = codes[column]
        found[name] = np.equal(places, labels.index(category) if category in labels else -1)
    return found


def _is_plain_number(values: pd.Series[Any]) -> bool:
    return isinstance(values.dtype, np.dtype) and values.dtype.kind in "iuf"

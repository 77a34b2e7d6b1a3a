"""A right side that is more than a sum of columns, evaluated by formulaic."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import (
    Kind,
    listed_labels,
    plain_label,
    read_columns,
    unmet_categories,
)
from selfselect.data.equations import from_formulaic
from selfselect.data.formula_code import columns_in, columns_of_factor
from selfselect.data.grammar import (
    TRANSFORMS,
    DataMismatchWarning,
    Factor,
    FactorValues,
    Formula,
    FormulaicError,
    ModelSpec,
)
from selfselect.errors import DataError, FormulaError

Array = NDArray[np.float64]

_OPTIONS: dict[str, Any] = {"na_action": "ignore", "output": "numpy", "materializer": "pandas"}


def _categories(data: Any, *arguments: Any, **options: Any) -> Any:
    """Mark data as categories; whole numbers are named so, whether or not they are doubles."""
    if isinstance(data, pd.Series) and data.dtype == np.float64:
        whole = data.to_numpy()
        if np.isfinite(whole).all() and (whole == np.round(whole)).all():
            data = data.astype(np.int64)
    marked = TRANSFORMS["C"](data, *arguments, **options)
    facts = marked.__formulaic_metadata__

    def encode(values: Any, **how: Any) -> Any:
        levels = options.get("levels")
        known = how["encoder_state"].get("categories") if levels is None else levels
        new = [] if known is None else _new_categories(pd.Series(data), known)
        if new:
            raise DataMismatchWarning(listed_labels(new))
        return facts.encoder(values, **how)

    return FactorValues(
        data, kind="categorical", spans_intercept=facts.spans_intercept, encoder=encode
    )


CONTEXT = {"np": np, "C": _categories, "exp10": lambda x: 10.0**x}
"""What formulas may use besides columns and formulaic's own transforms.

Formulaic's exp10 is the tenth power of its argument.
"""


@dataclass(frozen=True)
class TermPart:
    """What one term of a side made: the names of its columns, and the data columns it needs."""

    term: str
    names: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A side of a formula as numbers (n, p), with what was learnt on the way.

    Attributes
    ----------
    matrix : the columns.
    names : of the columns, in order.
    parts : what each term made.
    transforms, factors : what was learnt, as in `Coder`.
    """

    matrix: Array
    names: tuple[str, ...]
    parts: tuple[TermPart, ...]
    transforms: dict[str, Any]
    factors: dict[str, list[Any]]


def evaluate(
    text: str,
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind],
    *,
    transforms: Mapping[str, Any],
    factors: Mapping[str, list[Any]],
) -> Evaluated:
    """Evaluate a side of a formula on rows.

    Parameters
    ----------
    text : the side.
    frame : the rows.
    kinds : by data column, what it holds.
    transforms, factors : what was learnt; what is not there is learnt from these rows.
    """
    spec = ModelSpec(
        _formula(text),
        transform_state=_with_numbered_keys(copy.deepcopy(dict(transforms))),
        encoder_state={
            name: (Factor.Kind.CATEGORICAL, {"categories": list(labels)})
            for name, labels in factors.items()
        },
        **_OPTIONS,
    )
    matrix, made = _materialise(spec, frame, kinds, text)
    parts = tuple(
        TermPart(
            str(part.term),
            tuple(part.columns),
            tuple(sorted(columns_in([from_formulaic(part.term)]))),
        )
        for part in made.structure
    )
    learnt = {
        name: [plain_label(one) for one in state["categories"]]
        for name, (_, state) in made.encoder_state.items()
        if "categories" in state
    }
    state = {name: one for name, one in _plain(made.transform_state).items() if one}
    return Evaluated(matrix, tuple(made.column_names), parts, state, learnt)


@lru_cache(maxsize=256)
def _formula(text: str) -> Formula:
    """Parse a side once; what is returned is never changed."""
    return Formula(text)


def _materialise(
    spec: ModelSpec, frame: pd.DataFrame, kinds: Mapping[str, Kind], text: str
) -> tuple[Array, ModelSpec]:
    columns = read_columns(frame, kinds)
    # Formulaic warns of new categories and goes on; to make an error of a warning is not safe
    # where several threads do so.
    for name, (_, learnt) in spec.encoder_state.items():
        known = learnt.get("categories") if name in columns else None
        if known is not None and (new := _new_categories(columns[name], known)):
            raise DataError(unmet_categories(name, new, known))
    try:
        with np.errstate(all="ignore"):
            matrix = spec.get_model_matrix(columns, context=CONTEXT)
        values = np.asarray(matrix)
        if values.dtype.kind not in "iufb":
            raise FormulaError(
                f"The formula part {text!r} makes {values.dtype} values, which are not numbers. "
                "Use a transform that makes numbers."
            )
        values = values.astype(np.float64, copy=False)
    except DataMismatchWarning as error:
        raise DataError(_unseen_category(spec, columns, text, str(error))) from error
    except (
        FormulaicError, TypeError, ValueError, LookupError, NameError, SyntaxError, ArithmeticError,
    ) as error:  # fmt: skip
        if isinstance(error, FormulaError):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise FormulaError(f"The formula part {text!r} cannot be evaluated: {reason}") from error
    if len(values) != len(frame):
        raise FormulaError(
            f"The formula part {text!r} makes {len(values)} rows of {len(frame)}: it does not look "
            "at each row by itself. Compute it as a column first."
        )
    return values, matrix.model_spec


def _unseen_category(spec: ModelSpec, frame: pd.DataFrame, text: str, fallback: str) -> str:
    """Name the column and the categories that were not met in the fit."""
    for name, (_, learnt) in spec.encoder_state.items():
        known = learnt.get("categories")
        columns = [column for column in columns_of_factor(text, name) if column in frame]
        if known is None or len(columns) != 1:
            continue
        new = _new_categories(frame[columns[0]], known)
        if new:
            return unmet_categories(columns[0], new, known)
    return f"A category was not met when the model was fitted: {fallback}"


def _new_categories(column: pd.Series[Any], known: Any) -> list[Any]:
    met = set(known)
    return [value for value in pd.unique(column) if value not in met]


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays, at any depth, into plain Python data."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return [_plain(part) for part in value.tolist()]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _with_numbered_keys(state: Any) -> Any:
    """Give numbers back to the keys that `_plain`, like JSON, made text of them."""
    if not isinstance(state, dict):
        return state
    return {
        int(key) if key.isdecimal() else key: _with_numbered_keys(part)
        for key, part in state.items()
    }

"""The right side of a formula as columns of numbers: learnt from some rows, applied to any others.

What is learnt is plain data (kinds of columns, categories, centres, knots), and coding reads that
data and nothing else. So a coder that was saved and restored, one on another machine and the one
that learnt do the same, and refuse the same.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from numpy.typing import NDArray

from selfselect.data.columns import (
    KINDS,
    LARGEST_EXACT,
    Kind,
    find_kind,
    plain_label,
    read_column,
    read_columns,
    to_numbers,
)
from selfselect.data.equations import INTERCEPT
from selfselect.data.formulas import Use, calls_in, columns_in, parse_side, uses_of_columns
from selfselect.data.sizes import refuse_beyond_memory
from selfselect.errors import DataError, FormulaError

__all__ = ["Coder"]

Array = NDArray[np.float64]

Recipe = tuple[str, Any]
"""A column, and the category that a term is one for; None where the term is the column itself."""

_OPTIONS: dict[str, Any] = {"na_action": "ignore", "output": "numpy", "materializer": "pandas"}

_LEARNING = frozenset({"bs", "cc", "center", "cr", "cs", "poly", "scale", "standardize"})
"""Transforms that learn numbers from rows."""


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
            raise DataMismatchWarning(_listed(new))
        return facts.encoder(values, **how)

    return FactorValues(
        data, kind="categorical", spans_intercept=facts.spans_intercept, encoder=encode
    )


CONTEXT = {"np": np, "C": _categories, "exp10": lambda x: 10.0**x}
"""What formulas may use besides columns and formulaic's own transforms.

Formulaic's exp10 is the tenth power of its argument.
"""


@dataclass(frozen=True, eq=False)
class Coder:
    """The right side of a formula, with everything it learnt from the rows it was fitted on.

    Attributes
    ----------
    text : the right side.
    names : of the columns it makes, in order.
    kinds : by data column, what it holds.
    transforms : by transform, what it learnt: a centre, spline knots.
    factors : by categorical factor, its categories, in order. A category that is not among them
        is an error, never the base level.
    """

    text: str
    names: tuple[str, ...]
    kinds: Mapping[str, Kind]
    transforms: Mapping[str, Any]
    factors: Mapping[str, list[Any]]

    @classmethod
    def learn(cls, text: str, frame: pd.DataFrame) -> tuple[Coder, Array]:
        """Learn the coding from `frame` and return it with the coded rows (n, p)."""
        uses = uses_of_columns(text)
        kinds: dict[str, Kind] = {}
        for name in sorted(uses):
            if name not in frame:
                raise FormulaError(f"The formula part {text!r} needs {name!r}, which is no column.")
            kinds[name] = find_kind(frame[name], name, as_category=uses[name] == {"label"})
            if kinds[name] == "category" and uses[name] & {"arithmetic", "logic"}:
                to_numbers(frame[name], f"The column {name!r}", f"is used as a number in {text!r}")
            if kinds[name] == "number" and "label" in uses[name]:
                _refuse_inexact_labels(frame[name], name)
            if kinds[name] == "number" and "logic" in uses[name] and "arithmetic" not in uses[name]:
                kinds[name] = "truth"
        simple = _simple_terms(text, kinds)
        if simple is not None:
            coder = cls._learn_simple(text, simple, kinds, frame)
            return coder, coder.code(frame)
        _refuse_many_categories(frame, kinds, uses)
        matrix, spec = _materialise(ModelSpec(parse_side(text), **_OPTIONS), frame, kinds, text)
        for part in spec.structure:
            if not part.columns:
                raise DataError(_not_varying(str(part.term)))
        factors = {
            name: [plain_label(one) for one in learnt["categories"]]
            for name, (_, learnt) in spec.encoder_state.items()
            if "categories" in learnt
        }
        transforms = {name: one for name, one in _plain(spec.transform_state).items() if one}
        return cls(text, tuple(spec.column_names), kinds, transforms, factors), matrix

    @classmethod
    def _learn_simple(
        cls, text: str, terms: list[str], kinds: dict[str, Kind], frame: pd.DataFrame
    ) -> Coder:
        """Learn a constant and columns, of which categories are all there is to learn."""
        names: list[str] = []
        factors: dict[str, list[Any]] = {}
        for column in terms:
            if kinds.get(column) != "category":
                names.append(column)
                continue
            factors[column] = _met_categories(read_column(frame[column], column, "category"))
            if len(factors[column]) < 2:
                raise DataError(_not_varying(column))
            _refuse_columns(column, len(factors[column]), len(frame))
            names += [f"{column}[T.{label}]" for label in factors[column][1:]]
        return cls(text, tuple(names), kinds, {}, factors)

    @classmethod
    def restore(cls, text: str, names: tuple[str, ...], state: Mapping[str, Any]) -> Coder:
        """Rebuild a coder from what `state` returned; refuse a state that lacks something."""
        factors = {str(name): list(labels) for name, labels in dict(state["factors"]).items()}
        transforms = {name: one for name, one in dict(state["transforms"]).items() if one}
        coder = cls(text, tuple(names), dict(state["kinds"]), transforms, factors)
        coder.check()
        return coder

    def check(self) -> None:
        """Refuse a coder that was put together wrongly: what it lacks it would learn anew."""
        if set(self.kinds) != set(uses_of_columns(self.text)):
            raise DataError(f"The columns of the formula part {self.text!r} are not those it has.")
        for name, kind in self.kinds.items():
            if kind not in KINDS:
                raise DataError(f"The column {name!r} is of no known kind: {kind!r}.")
        for name, labels in self.factors.items():
            if not labels or not all(isinstance(one, str | int | float | bool) for one in labels):
                raise DataError(f"The categories of {name!r} are not labels.")
            if len(set(labels)) < len(labels):
                raise DataError(f"A category of {name!r} is listed twice.")
        learning = {one for one, _ in calls_in(self.text) if one in _LEARNING}
        if "raw=True" in self.text.replace(" ", ""):
            learning -= {"poly"}  # powers as they are: nothing is learnt
        learnt = {name.partition("(")[0] for name in self.transforms}
        if learning - learnt or not _all_numbers(self.transforms):
            raise DataError(f"What the transforms of {self.text!r} learnt is not there.")
        for term in parse_side(self.text):
            for factor in term.factors:
                category = self.kinds.get(factor.expr) == "category"
                if category and factor.expr not in self.factors:
                    raise DataError(f"The categories of {factor.expr!r} are not there.")
        if len(set(self.names)) < len(self.names):
            raise DataError(f"The names of the columns of {self.text!r} are not distinct.")
        made = None if self.recipes is None else {*self.recipes, INTERCEPT}
        if made is not None and not set(self.names) <= made:
            raise DataError(f"The formula part {self.text!r} does not make {self.names!r}.")

    def state(self) -> dict[str, Any]:
        """Return what was learnt as plain data: enough to code new rows in another process."""
        return {
            "kinds": dict(self.kinds),
            "transforms": copy.deepcopy(dict(self.transforms)),
            "factors": {name: list(labels) for name, labels in self.factors.items()},
        }

    @property
    def categorical(self) -> frozenset[str]:
        """The columns that are coded as categories, numbers among them: ``C(year)``."""
        return frozenset(
            column for name in self.factors for column in columns_in(parse_side(f"{name} - 1"))
        )

    @cached_property
    def recipes(self) -> dict[str, Recipe] | None:
        """How each term but the constant is had without evaluating the formula.

        None where one is anything else than a column or a category of one. Most formulas have no
        such term, and evaluating them takes longer than a pass over the rows.
        """
        made: dict[str, Recipe] = {}
        for term in parse_side(self.text):
            factor, *others = term.factors
            if factor.eval_method is Factor.EvalMethod.LITERAL and factor.expr == "1":
                continue
            if factor.eval_method is not Factor.EvalMethod.LOOKUP or others:
                return None
            column = factor.expr
            if self.kinds[column] != "category":
                made[column] = (column, None)
                continue
            dummies = {f"{column}[T.{one}]": (column, one) for one in self.factors[column]}
            made |= {name: one for name, one in dummies.items() if name in self.names}
        return made if set(made) == set(self.names) - {INTERCEPT} else None

    def sources(self, frame: pd.DataFrame) -> dict[str, tuple[str, ...]]:
        """Return the data columns that each term but the constant is made of.

        `frame` holds at least one row to code.
        """
        if self.recipes is not None:
            return {name: (column,) for name, (column, _) in self.recipes.items()}
        _, spec = _materialise(self._spec(), frame.iloc[:1], self.kinds, self.text)
        return {
            name: tuple(sorted(columns_in([part.term])))
            for part in spec.structure
            for name in part.columns
            if name != INTERCEPT
        }

    def terms(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """Code rows as those of the fit were coded: each term (n,) but the constant, by name."""
        if self.recipes is not None:
            return self._by_recipes(self.recipes, frame)
        matrix = self._evaluated(frame)
        return {name: matrix[:, i] for i, name in enumerate(self.names) if name != INTERCEPT}

    def code(self, frame: pd.DataFrame) -> Array:
        """Code rows as those of the fit were coded, shape (n, p).

        Columns lie one after the other, as they do in frames and files: turning them around takes
        longer than a pass over them.
        """
        if self.recipes is None:
            return self._evaluated(frame)
        found = self._by_recipes(self.recipes, frame)
        made = np.empty((len(self.names), len(frame)))
        for place, name in enumerate(self.names):
            made[place] = 1.0 if name == INTERCEPT else found[name]
        return made.T

    def _by_recipes(
        self, recipes: Mapping[str, Recipe], frame: pd.DataFrame
    ) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {}
        coded: dict[str, NDArray[np.intp]] = {}
        for name, (column, category) in recipes.items():
            if category is None:
                found[name] = np.asarray(read_column(frame[column], column, self.kinds[column]))
                continue
            labels = self.factors[column]
            if column not in coded:
                coded[column] = self._places(frame[column], column, column)
            found[name] = np.equal(coded[column], labels.index(category))
        return found

    def categories_of(self, factor: str, frame: pd.DataFrame) -> NDArray[np.intp] | None:
        """Return the place of each row's category (n,); None where a factor is no single column."""
        columns = columns_in(parse_side(f"{factor} - 1"))
        if len(columns) != 1 or factor not in (*columns, *(f"C({one})" for one in columns)):
            return None
        return self._places(frame[next(iter(columns))], next(iter(columns)), factor)

    def _places(self, values: pd.Series[Any], column: str, factor: str) -> NDArray[np.intp]:
        places, met = pd.factorize(pd.Series(read_column(values, column, "category")))
        known = {label: place for place, label in enumerate(self.factors[factor])}
        new = [label for label in map(plain_label, met) if label not in known]
        if new:
            raise DataError(_unmet(column, new, self.factors[factor]))
        return np.array([known[label] for label in map(plain_label, met)], dtype=np.intp)[places]

    def _evaluated(self, frame: pd.DataFrame) -> Array:
        if not len(frame):
            return np.empty((0, len(self.names)))
        matrix, made = _materialise(self._spec(), frame, self.kinds, self.text)
        names = list(made.column_names)
        if names == list(self.names):
            return matrix
        if set(names) != set(self.names):
            raise DataError(
                f"The formula part {self.text!r} made the columns {', '.join(self.names)} when the "
                f"model was fitted, and makes {', '.join(names)} of these rows."
            )
        return matrix[:, [names.index(name) for name in self.names]]

    def _spec(self) -> ModelSpec:
        """Return the formula with all that was learnt."""
        return ModelSpec(
            parse_side(self.text),
            transform_state=_with_numbered_keys(copy.deepcopy(dict(self.transforms))),
            encoder_state={
                name: (Factor.Kind.CATEGORICAL, {"categories": list(labels)})
                for name, labels in self.factors.items()
            },
            **_OPTIONS,
        )


def _refuse_inexact_labels(values: pd.Series[Any], name: str) -> None:
    """Refuse whole numbers that are categories as well, where doubles cannot tell them apart."""
    whole = pd.api.types.is_integer_dtype(values.dtype) and len(values)
    if whole and max(abs(int(values.min())), abs(int(values.max()))) > LARGEST_EXACT:
        raise DataError(
            f"The column {name!r} is used both as a number and as categories, and holds whole "
            "numbers beyond 2**53 that double precision cannot tell apart. Make a text column for "
            "the categories."
        )


def _simple_terms(text: str, kinds: Mapping[str, Kind]) -> list[str] | None:
    """Return the constant and the columns that a formula lists; None where it does more.

    Without a constant, categories are coded in another way.
    """
    terms: list[str] = []
    for term in parse_side(text):
        factor, *others = term.factors
        if others:
            return None
        if factor.eval_method is Factor.EvalMethod.LITERAL and factor.expr == "1":
            terms.append(INTERCEPT)
        elif factor.eval_method is Factor.EvalMethod.LOOKUP:
            terms.append(factor.expr)
        else:
            return None
    labelled = any(kind == "category" for kind in kinds.values())
    return terms if INTERCEPT in terms or (terms and not labelled) else None


def _met_categories(labels: Any) -> list[Any]:
    """Return the labels that occur, in the order of their categories, else sorted."""
    if isinstance(labels, pd.Categorical):
        return list(labels.categories)
    return sorted(map(plain_label, pd.unique(labels)))


def _refuse_many_categories(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], uses: Mapping[str, set[Use]]
) -> None:
    """Refuse categories whose columns no memory holds, before they are made."""
    for name, kind in kinds.items():
        if kind == "category" or "label" in uses[name]:
            _refuse_columns(name, int(frame[name].nunique()), len(frame))


def _refuse_columns(name: str, n_categories: int, n_rows: int) -> None:
    refuse_beyond_memory(
        f"The column {name!r} has {n_categories:,} categories, which for {n_rows:,} rows",
        3.0 * 8.0 * n_categories * n_rows,
        "Leave it out, join categories, or give the column as cluster= instead.",
    )


def _not_varying(term: str) -> str:
    return (
        f"The covariate {term!r} has the same category in every row: it does not vary. Leave it "
        "out."
    )


def _materialise(
    spec: ModelSpec, frame: pd.DataFrame, kinds: Mapping[str, Kind], text: str
) -> tuple[Array, ModelSpec]:
    columns = read_columns(frame, kinds)
    # Formulaic warns of new categories and goes on; to make an error of a warning is not safe
    # where several threads do so.
    for name, (_, learnt) in spec.encoder_state.items():
        known = learnt.get("categories") if name in columns else None
        if known is not None and (new := _new_categories(columns[name], known)):
            raise DataError(_unmet(name, new, known))
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
        raise DataError(_unseen_category(spec, columns, str(error))) from error
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


def _unseen_category(spec: ModelSpec, frame: pd.DataFrame, fallback: str) -> str:
    """Name the column and the categories that were not met in the fit."""
    for name, (_, learnt) in spec.encoder_state.items():
        known = learnt.get("categories")
        columns = [column for column in columns_in(parse_side(f"{name} - 1")) if column in frame]
        if known is None or len(columns) != 1:
            continue
        new = _new_categories(frame[columns[0]], known)
        if new:
            return _unmet(columns[0], new, known)
    return f"A category was not met when the model was fitted: {fallback}"


def _new_categories(column: pd.Series[Any], known: Any) -> list[Any]:
    met = set(known)
    return [value for value in pd.unique(column) if value not in met]


def _unmet(column: str, new: list[Any], known: list[Any]) -> str:
    return (
        f"The column {column!r} has {_listed(new)}, not met when the model was fitted (it met "
        f"{_listed(known)}). There is no coefficient for it: leave those rows out, or fit again "
        "with rows that have it."
    )


def _listed(values: list[Any], most: int = 8) -> str:
    shown = ", ".join(repr(_plain(value)) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")


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


def _all_numbers(state: Any) -> bool:
    """Say whether what transforms learnt is finite numbers, at any depth."""
    if isinstance(state, Mapping):
        return all(map(_all_numbers, state.values()))
    if isinstance(state, list):
        return all(map(_all_numbers, state))
    if isinstance(state, int | float):
        return bool(np.isfinite(state))
    return state is None or isinstance(state, str)

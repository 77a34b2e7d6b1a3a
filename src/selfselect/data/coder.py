"""How one right side of a formula is coded, with categories by the hundred."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.columns import (
    KINDS,
    LARGEST_EXACT,
    Kind,
    find_kind,
    plain_label,
    read_column,
    to_numbers,
    unmet_categories,
)
from selfselect.data.equations import INTERCEPT, Method, parse_side
from selfselect.data.formula_code import Use, calls_in, columns_of_factor, uses_of_columns
from selfselect.data.rows import refuse_beyond_memory
from selfselect.errors import DataError, FormulaError, SelfSelectWarning, warn_user
from selfselect.rules.base import Label

if TYPE_CHECKING:
    from selfselect.data.evaluation import Evaluated


# The right side of a formula as columns of numbers: learnt from some rows, applied to any others.
#
# What is learnt is plain data (kinds of columns, categories, centres, knots), and coding reads
# that data and nothing else. So a coder that was saved and restored, one on another machine and
# the one that learnt do the same, and refuse the same.


Array = NDArray[np.float64]

Recipe = tuple[str, Any]
"""A column, and the category that a term is one for; None where the term is the column itself."""

_LEARNING = frozenset({"bs", "cc", "center", "cr", "cs", "poly", "scale", "standardize"})
"""Transforms that learn numbers from rows."""


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
        made = _evaluate(text, frame, kinds)
        for part in made.parts:
            if not part.names:
                raise DataError(_not_varying(part.term))
        return cls(text, made.names, kinds, made.transforms, made.factors), made.matrix

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
            column for name in self.factors for column in columns_of_factor(self.text, name)
        )

    def labels_of(self, column: str) -> list[Any] | None:
        """Return the categories of a column in their order; None where they are none."""
        for factor, labels in self.factors.items():
            if factor == column or factor.startswith((f"C({column})", f"C({column},")):
                return list(labels)
        return None

    def known_categories(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which rows hold only categories that were met when this was learnt."""
        known = np.ones(len(frame), dtype=bool)
        for column in self.kinds:
            labels = self.labels_of(column)
            if labels is not None:
                met = list(map(plain_label, frame[column].unique()))
                new = [label for label in met if label not in labels]
                known &= ~frame[column].isin(new).to_numpy(dtype=bool)
        return known

    @cached_property
    def recipes(self) -> dict[str, Recipe] | None:
        """How each term but the constant is had without evaluating the formula.

        None where one is anything else than a column or a category of one. Most formulas have no
        such term, and evaluating them takes longer than a pass over the rows.
        """
        made: dict[str, Recipe] = {}
        for term in parse_side(self.text):
            factor, *others = term.factors
            if factor.method is Method.LITERAL and factor.expr == "1":
                continue
            if factor.method is not Method.LOOKUP or others:
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
        made = _evaluate(self.text, frame.iloc[:1], self.kinds, self.transforms, self.factors)
        return {
            name: part.columns for part in made.parts for name in part.names if name != INTERCEPT
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
        columns = columns_of_factor(self.text, factor)
        if len(columns) != 1 or factor not in (*columns, *(f"C({one})" for one in columns)):
            return None
        return self._places(frame[next(iter(columns))], next(iter(columns)), factor)

    def _places(self, values: pd.Series[Any], column: str, factor: str) -> NDArray[np.intp]:
        places, met = pd.factorize(pd.Series(read_column(values, column, "category")))
        known = {label: place for place, label in enumerate(self.factors[factor])}
        new = [label for label in map(plain_label, met) if label not in known]
        if new:
            raise DataError(unmet_categories(column, new, self.factors[factor]))
        return np.array([known[label] for label in map(plain_label, met)], dtype=np.intp)[places]

    def _evaluated(self, frame: pd.DataFrame) -> Array:
        if not len(frame):
            return np.empty((0, len(self.names)))
        made = _evaluate(self.text, frame, self.kinds, self.transforms, self.factors)
        names = list(made.names)
        if names == list(self.names):
            return made.matrix
        if set(names) != set(self.names):
            raise DataError(
                f"The formula part {self.text!r} made the columns {', '.join(self.names)} when the "
                f"model was fitted, and makes {', '.join(names)} of these rows."
            )
        return made.matrix[:, [names.index(name) for name in self.names]]


def _evaluate(
    text: str,
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind],
    transforms: Mapping[str, Any] = MappingProxyType({}),
    factors: Mapping[str, list[Any]] = MappingProxyType({}),
) -> Evaluated:
    """Evaluate a side by formulaic, which only sides that are no sums of columns need."""
    from selfselect.data.evaluation import evaluate

    return evaluate(text, frame, kinds, transforms=transforms, factors=factors)


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
        if factor.method is Method.LITERAL and factor.expr == "1":
            terms.append(INTERCEPT)
        elif factor.method is Method.LOOKUP:
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


def _all_numbers(state: Any) -> bool:
    """Say whether what transforms learnt is finite numbers, at any depth."""
    if isinstance(state, Mapping):
        return all(map(_all_numbers, state.values()))
    if isinstance(state, list):
        return all(map(_all_numbers, state))
    if isinstance(state, int | float):
        return bool(np.isfinite(state))
    return state is None or isinstance(state, str)


# Categories by the hundred: what they cost, and which have no rows, said before the fit.


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

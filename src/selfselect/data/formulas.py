"""Formulas to columns: parsed once, learnt from the fitted rows, applied alike to new ones."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula, ModelSpec, SimpleFormula
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.code import sanitize_variable_names
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT
from selfselect.data.recipes import Recipes, code_by_recipes, find_recipes
from selfselect.errors import DataError, FormulaError

__all__ = ["Coder", "ParsedFormula", "calls_in", "parse_formula", "parse_formulas"]

Array = NDArray[np.float64]

CONTEXT = {"np": np}
"""What formulas may use besides columns and formulaic's own transforms."""

_NOT_COLUMNS = frozenset({"np", "contr", "Treatment", "Sum", "Helmert", "Diff", "Poly"})
"""Names that stand for something else than a column even where they are not called."""

_ALL_COLUMNS = re.compile(r"(?:^|[\s+(-])\.(?:$|[\s+)-])")
"""R's dot, which stands for all other columns."""

_HARMLESS = (
    ast.Expression, ast.Call, ast.Name, ast.Load, ast.Attribute, ast.Constant, ast.keyword,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop,
    ast.boolop, ast.List, ast.Tuple, ast.Dict, ast.Subscript, ast.Slice,
)  # fmt: skip


@dataclass(frozen=True)
class ParsedFormula:
    """A formula cut into its two sides, both as text.

    Attributes
    ----------
    text : as the user wrote it.
    outcome : the left side.
    terms : the right side.
    outcome_columns, term_columns : the data columns each side needs.
    """

    text: str
    outcome: str
    terms: str
    outcome_columns: tuple[str, ...]
    term_columns: tuple[str, ...]


def parse_formula(text: Any) -> ParsedFormula:
    """Parse ``outcome ~ terms`` and refuse anything else, and any code that is not arithmetic."""
    if not isinstance(text, str):
        raise FormulaError(
            f"A formula is text such as 'income ~ height + weight', not {type(text).__name__}."
        )
    if text.count("~") != 1:
        raise FormulaError(
            f"The formula {text!r} needs exactly one '~' between the outcome and the covariates, "
            "as in 'income ~ height + weight'."
        )
    left, right = (side.strip() for side in text.split("~"))
    if not left or not right:
        side = "outcome before" if not left else "covariates after"
        raise FormulaError(f"The formula {text!r} has no {side} the '~'.")
    outcome, terms = _parse_side(left + " - 1", text), _parse_side(right, text)
    if len(outcome) != 1:
        raise FormulaError(
            f"The formula {text!r} has {len(outcome)} outcomes on its left side. Give one."
        )
    recorded, needed = _columns(outcome), _columns(terms)
    for name in re.findall(r"`([^`]+)`", text):
        if name not in recorded | needed:
            raise FormulaError(
                f"The column {name!r} reads as a number in the formula {text!r}. Rename it."
            )
    if INTERCEPT in needed:
        raise FormulaError(
            f"A covariate cannot be named {INTERCEPT!r}: that is the constant, which formulas have "
            "unless they end in '- 1'. Rename the column."
        )
    return ParsedFormula(text, left, right, tuple(sorted(recorded)), tuple(sorted(needed)))


def parse_formulas(formula: str | Mapping[Any, str]) -> ParsedFormula | dict[Any, ParsedFormula]:
    """Parse a formula, or one per alternative."""
    if not isinstance(formula, Mapping):
        return parse_formula(formula)
    if len(formula) < 2:
        raise FormulaError(
            "A dict of formulas needs at least two alternatives; "
            f"{len(formula)} given. With one alternative nothing is selected."
        )
    parsed = {label: parse_formula(text) for label, text in formula.items()}
    outcomes = {one.outcome for one in parsed.values()}
    if len(outcomes) > 1:
        raise FormulaError(
            f"The formulas have different outcomes ({', '.join(sorted(outcomes))}). There is one "
            "recorded outcome: give the same left side for every alternative."
        )
    return parsed


def _parse_side(side: str, text: str) -> SimpleFormula:
    if _ALL_COLUMNS.search(side):
        raise FormulaError(
            f"The formula {text!r} uses '.' for all other columns, which is not possible. Name "
            "the covariates."
        )
    try:
        parsed = _formula(side)
    except (FormulaicError, SyntaxError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "syntax error"
        raise FormulaError(f"The formula {text!r} does not parse: {reason}") from error
    if not isinstance(parsed, SimpleFormula):
        raise FormulaError(
            f"The formula {text!r} has several parts (by '|' or a tuple). Give one list of "
            "covariates; for different covariates per alternative give a dict of formulas."
        )
    for term in parsed:
        for factor in term.factors:
            if factor.eval_method is Factor.EvalMethod.PYTHON:
                _refuse_code(factor.expr, text)
    return parsed


@lru_cache(maxsize=256)
def _formula(text: str) -> Any:
    """Parse a text once: a fit meets the same one per alternative, and once more to code it."""
    return Formula(text)


def _refuse_code(expression: str, text: str) -> None:
    """Allow arithmetic, columns, formulaic's transforms and NumPy's elementwise functions.

    Formulas are stored in saved fits and evaluated again on new rows, so a formula must not be
    a way to run code from a file.
    """

    def refuse(what: str) -> None:
        raise FormulaError(
            f"The formula {text!r} uses {what} in {expression!r}. A formula may use columns, "
            "arithmetic, np.log and other elementwise NumPy functions, and the transforms "
            f"{', '.join(sorted(set(TRANSFORMS) - _NOT_COLUMNS))}. Compute anything else as a "
            "column first."
        )

    try:
        tree, _ = _tree(expression)
    except SyntaxError as error:
        raise FormulaError(
            f"The formula {text!r} does not parse: {expression!r} is not an expression."
        ) from error
    for node in ast.walk(tree):
        # Formulaic pastes expressions into the quoted text of other code: a quote could end it.
        if isinstance(node, ast.Constant) and re.search(r"[\"'\\]", str(node.value)):
            refuse("a quotation mark or backslash inside a text")
        if not isinstance(node, _HARMLESS):
            refuse(f"a {type(node).__name__.lower()}")
        if isinstance(node, ast.Attribute):
            inside_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
            elementwise = isinstance(getattr(np, node.attr, None), np.ufunc)
            known = isinstance(node.value, ast.Name) and node.value.id in ("contr",)
            if not (known and not node.attr.startswith("_")) and not (inside_numpy and elementwise):
                refuse(f"{ast.unparse(node)!r}")
        if isinstance(node, ast.Call):
            named = isinstance(node.func, ast.Name) and node.func.id in TRANSFORMS
            if not named and not isinstance(node.func, ast.Attribute):
                refuse(f"the function {ast.unparse(node.func)!r}")


def _tree(expression: str) -> tuple[ast.Expression, dict[str, str]]:
    """Parse an expression; names in backticks get aliases, returned with what they stand for."""
    aliases: dict[str, str] = {}
    sanitised = sanitize_variable_names(expression.strip(), {}, aliases)
    return ast.parse(sanitised, mode="eval"), aliases


def _columns(formula: SimpleFormula) -> set[str]:
    """Return the data columns a formula needs, without evaluating any of it."""
    found: set[str] = set()
    for term in formula:
        for factor in term.factors:
            if factor.eval_method is Factor.EvalMethod.LOOKUP:
                found.add(factor.expr)
            elif factor.eval_method is Factor.EvalMethod.PYTHON:
                found |= _columns_of(factor.expr)
    return found


def calls_in(side: str) -> list[tuple[str, set[str]]]:
    """Return the functions that a side of a formula calls, each with the columns it is given."""
    found = []
    for term in Formula(side):
        for factor in term.factors:
            if factor.eval_method is not Factor.EvalMethod.PYTHON:
                continue
            tree, aliases = _tree(factor.expr)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    inside = ast.unparse(node)
                    for alias, name in aliases.items():
                        inside = inside.replace(alias, f"`{name}`")
                    found.append((node.func.id, _columns_of(inside)))
    return found


def _columns_of(expression: str) -> set[str]:
    """Return the columns in a Python expression: all names but those of functions."""
    tree, aliases = _tree(expression)
    functions: set[int] = set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            functions.add(id(node.func))
            if isinstance(node.func, ast.Name) and node.func.id == "Q":
                found |= {str(part.value) for part in node.args if isinstance(part, ast.Constant)}
        elif isinstance(node, ast.Name) and id(node) not in functions:
            found.add(aliases.get(node.id, node.id))
    return found - _NOT_COLUMNS


@dataclass(frozen=True, eq=False)
class Coder:
    """The right side of a formula, with everything it learnt from the rows it was fitted on.

    Categories and the state of transforms (a centre, spline knots) are learnt once and applied
    to new rows unchanged; a category not met before is an error, never the base level.
    """

    text: str
    names: tuple[str, ...]
    spec: ModelSpec

    @classmethod
    def learn(cls, text: str, frame: pd.DataFrame) -> tuple[Coder, Array]:
        """Learn the coding from `frame` and return it with the coded rows (n, p)."""
        columns = _plain_columns(text)
        if columns is not None and all(_is_plain(frame, name) for name in columns):
            spec = _spec_of_numbers(text, columns)
            coder = cls(text, tuple(spec.column_names), spec)
            return coder, coder.code(frame)
        spec = ModelSpec(_formula(text), **_OPTIONS)
        matrix, spec = _materialise(spec, _with_met_categories(frame), text)
        for part in spec.structure:
            if not part.columns:
                raise DataError(
                    f"The covariate {str(part.term)!r} has the same category in every row: it does "
                    "not vary. Leave it out."
                )
        return cls(text, tuple(spec.column_names), spec), matrix

    @classmethod
    def restore(cls, text: str, names: tuple[str, ...], state: dict[str, Any]) -> Coder:
        """Rebuild a coder from what `state` returned."""
        encoders = {
            name: (Factor.Kind(kind), {} if categories is None else {"categories": categories})
            for name, (kind, categories) in state["factors"].items()
        }
        spec = ModelSpec(
            Formula(text),
            transform_state=_with_numbered_keys(state["transforms"]),
            encoder_state=encoders,
            **_OPTIONS,
        )
        return cls(text, names, spec)

    @property
    def categorical(self) -> frozenset[str]:
        """The columns that are coded as categories, numbers among them: ``C(year)``."""
        return frozenset(
            column
            for name, (_, learnt) in self.spec.encoder_state.items()
            if "categories" in learnt
            for column in _columns(Formula(f"{name} - 1"))
        )

    def state(self) -> dict[str, Any]:
        """Return what was learnt as plain data: enough to code new rows in another process."""
        return {
            "transforms": _plain(self.spec.transform_state),
            "factors": {
                name: [kind.value, _plain(list(learnt["categories"]))]
                if "categories" in learnt
                else [kind.value, None]
                for name, (kind, learnt) in self.spec.encoder_state.items()
            },
        }

    @cached_property
    def recipes(self) -> Recipes | None:
        """How each term is had without evaluating the formula; None where that is not possible."""
        return find_recipes(self.text, self.names, self.spec.encoder_state)

    def terms(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """Code rows as those of the fit were coded: each term (n,) but the constant, by name."""
        found = self._by_recipes(frame)
        if found is not None:
            return found
        matrix = self._evaluated(frame)
        return {name: matrix[:, i] for i, name in enumerate(self.names) if name != INTERCEPT}

    def code(self, frame: pd.DataFrame) -> Array:
        """Code rows as those of the fit were coded, shape (n, p)."""
        found = self._by_recipes(frame)
        if found is None:
            return self._evaluated(frame)
        matrix = np.empty((len(frame), len(self.names)))
        for place, name in enumerate(self.names):
            matrix[:, place] = 1.0 if name == INTERCEPT else found[name]
        return matrix

    def _by_recipes(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]] | None:
        if self.recipes is None:
            return None
        return code_by_recipes(self.recipes, frame, self.spec.encoder_state)

    def _evaluated(self, frame: pd.DataFrame) -> Array:
        return _materialise(self.spec, _with_met_categories(frame), self.text)[0]


def _plain_columns(text: str) -> tuple[str, ...] | None:
    """Return the columns of a formula that only lists some, None of any other."""
    factors = [factor for term in _formula(text) for factor in term.factors]
    names = [factor.expr for factor in factors if factor.eval_method is Factor.EvalMethod.LOOKUP]
    constants = sum(factor.eval_method is Factor.EvalMethod.LITERAL for factor in factors)
    alone = all(len(term.factors) == 1 for term in _formula(text))
    return tuple(names) if alone and len(names) + constants == len(factors) else None


def _is_plain(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and frame[name].dtype in (np.dtype(np.float64), np.dtype(np.int64))


@lru_cache(maxsize=256)
def _spec_of_numbers(text: str, columns: tuple[str, ...]) -> ModelSpec:
    """Return the coding of columns of numbers: there is nothing to be learnt from their rows."""
    rows = pd.DataFrame({name: [0.0, 1.0] for name in columns}, index=range(2))
    return _materialise(ModelSpec(_formula(text), **_OPTIONS), rows, text)[1]


def _with_met_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Forget the categories a column might hold but does not."""
    met = {
        str(name): column.cat.remove_unused_categories()
        for name, column in frame.items()
        if isinstance(column.dtype, pd.CategoricalDtype)
    }
    return frame.assign(**met) if met else frame


_OPTIONS: dict[str, Any] = {"na_action": "ignore", "output": "numpy", "materializer": "pandas"}


def _materialise(spec: ModelSpec, frame: pd.DataFrame, text: str) -> tuple[Array, ModelSpec]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataMismatchWarning)
            with np.errstate(all="ignore"):
                matrix = spec.get_model_matrix(_readable(frame), context=CONTEXT)
        values = np.asarray(matrix, dtype=np.float64)
    except DataMismatchWarning as error:
        raise DataError(_unseen_category(spec, frame, str(error))) from error
    except (FormulaicError, TypeError, ValueError, LookupError, NameError, SyntaxError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise FormulaError(f"The formula part {text!r} cannot be evaluated: {reason}") from error
    return values, matrix.model_spec


def _readable(frame: pd.DataFrame) -> pd.DataFrame:
    """Make text objects: formulaic takes some kinds of it for numbers. Rows are numbered afresh."""
    text = {
        str(name): column.to_numpy(dtype=object)
        for name, column in frame.items()
        if pd.api.types.is_string_dtype(column.dtype) and column.dtype not in ("object", "str")
    }
    numbered = frame.reset_index(drop=True)
    return numbered.assign(**text) if text else numbered


def _unseen_category(spec: ModelSpec, frame: pd.DataFrame, fallback: str) -> str:
    """Name the column and the categories that were not met in the fit."""
    for name, (_, learnt) in spec.encoder_state.items():
        known = learnt.get("categories")
        columns = [column for column in _columns(Formula(f"{name} - 1")) if column in frame]
        if known is None or len(columns) != 1:
            continue
        new = [value for value in pd.unique(frame[columns[0]]) if value not in set(known)]
        if new:
            return (
                f"The column {columns[0]!r} has {_listed(new)}, not met when the model was "
                f"fitted (it met {_listed(known)}). There is no coefficient for it: leave those "
                "rows out, or fit again with rows that have it."
            )
    return f"A category was not met when the model was fitted: {fallback}"


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

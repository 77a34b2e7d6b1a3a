"""What may stand in a formula, and which columns it uses, and how."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from selfselect.data.equations import Method, Term, parse_side, sum_of_columns, syntax_of
from selfselect.errors import FormulaError

# Which columns a formula uses, and how, read from its text.


Use = Literal["label", "logic", "arithmetic", "value"]
"""How a formula uses a column: inside ``C(...)``, with ``& | ~``, in arithmetic, or as it is."""

_USES: dict[str, Use] = {"C": "label", "hashed": "label", "I": "value"}
"""How functions use their first argument, where it is not arithmetic."""

CONTRASTS = frozenset({"Treatment", "Sum", "Helmert", "Diff", "Poly"})
"""Names that stand for something else than a column after the first argument of ``C(...)``."""

_LOGIC = (ast.BitAnd, ast.BitOr, ast.BitXor)


def expression_tree(expression: str) -> tuple[ast.Expression, dict[str, str]]:
    """Parse an expression; names in backticks get aliases, returned with what they stand for."""
    aliases: dict[str, str] = {}
    expression = expression.strip()
    if "`" in expression:
        # Loading formulaic takes a tenth of a second, which most expressions do not need.
        from selfselect.data.grammar import sanitize_variable_names

        expression = sanitize_variable_names(expression, {}, aliases)
    return ast.parse(expression, mode="eval"), aliases


def columns_in(formula: Iterable[Term]) -> set[str]:
    """Return the data columns a formula needs, without evaluating any of it."""
    found: set[str] = set()
    for term in formula:
        for factor in term.factors:
            if factor.method is Method.LOOKUP:
                found.add(factor.expr)
            elif factor.method is Method.PYTHON:
                found |= _columns_of(factor.expr)
    return found


def columns_of_factor(side: str, name: str) -> set[str]:
    """Return the data columns that one factor of a side needs; its name may need backticks."""
    return columns_in(
        Term((factor,))
        for term in parse_side(side)
        for factor in term.factors
        if factor.expr == name
    )


def calls_in(side: str) -> list[tuple[str, set[str]]]:
    """Return the functions that a side of a formula calls, each with the columns it is given."""
    found = []
    for term in parse_side(side):
        for factor in term.factors:
            if factor.method is not Method.PYTHON:
                continue
            tree, aliases = expression_tree(factor.expr)
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    inside = ast.unparse(node)
                    for alias, name in aliases.items():
                        inside = inside.replace(alias, f"`{name}`")
                    found.append((node.func.id, _columns_of(inside)))
    return found


def _columns_of(expression: str) -> set[str]:
    """Return the columns in a Python expression: all names but those of functions."""
    tree, aliases = expression_tree(expression)
    return {aliases.get(name, name) for name, _ in _uses_in(tree.body, "value")}


def functions_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names of an expression that are no columns: functions, modules and contrasts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
            yield from (one.id for one in _options_of(node) if _is_contrast(one, node.func.id))


def _options_of(call: ast.Call) -> list[Any]:
    return [*call.args[1:], *(option.value for option in call.keywords)]


def _is_contrast(node: ast.AST, function: str) -> bool:
    return function == "C" and isinstance(node, ast.Name) and node.id in CONTRASTS


def uses_of_columns(side: str) -> dict[str, set[Use]]:
    """Return how a side of a formula uses each of its columns."""
    found: dict[str, set[Use]] = {}
    for term in parse_side(side):
        for factor in term.factors:
            if factor.method is Method.LOOKUP:
                found.setdefault(factor.expr, set()).add("value")
            elif factor.method is Method.PYTHON:
                tree, aliases = expression_tree(factor.expr)
                for name, use in _uses_in(tree.body, "value"):
                    found.setdefault(aliases.get(name, name), set()).add(use)
    return found


def _uses_in(node: ast.AST, use: Use) -> Iterator[tuple[str, Use]]:
    """Yield the columns below a node, each with its use; `use` is that of the node itself."""
    if isinstance(node, ast.Name):
        yield node.id, use
        return
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "Q":
            yield from ((str(one.value), use) for one in node.args if isinstance(one, ast.Constant))
            return
        first = _USES.get(name, "arithmetic")
        for one in node.args[:1]:
            yield from _uses_in(one, first)
        for one in _options_of(node):
            if not _is_contrast(one, name):
                yield from _uses_in(one, "arithmetic")
        return
    if isinstance(node, ast.Attribute):
        return
    inner: Use = "arithmetic"
    if isinstance(node, ast.BinOp) and isinstance(node.op, _LOGIC):
        inner = "logic"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        inner = "logic"
    if isinstance(node, ast.Compare):
        inner = "value"
    for child in ast.iter_child_nodes(node):
        yield from _uses_in(child, inner)


# What may stand in a formula: arithmetic and transforms, not code, and not too much of it.


_MODULES = frozenset({"np", "contr"})
"""Names that stand for something else than a column before a dot."""

_ACROSS_ROWS = frozenset({"lag"})
"""Transforms of formulaic that look at other rows than their own."""

_SIZES = frozenset({"df", "degree", "levels"})
"""Arguments of transforms that say how many columns they make."""

MOST_TERMS = 20_000
"""Products of terms that ``*``, ``:`` and ``**`` may take before a formula is evaluated."""

LARGEST_SIZE = 1_000
"""Columns that one transform may make."""

LARGEST_POWER = 100
"""Exponent of ``**`` between terms."""

_HARMLESS = (
    ast.Expression, ast.Call, ast.Name, ast.Load, ast.Attribute, ast.Constant, ast.keyword,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop,
    ast.boolop, ast.List, ast.Tuple, ast.Dict,
)  # fmt: skip

_REFUSED_OPERATORS = (ast.MatMult, ast.LShift, ast.RShift)
"""``@`` sums over rows; shifts make numbers of any length."""

_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide, ast.Mod: np.mod, ast.Pow: np.power,
}  # fmt: skip


@lru_cache(maxsize=256)
def refuse_expansion(side: str, text: str) -> None:
    """Count the products that terms expand to before they are expanded."""
    if sum_of_columns(side) is not None:
        return
    counted: list[float] = []
    pending: list[tuple[Any, bool]] = [(syntax_of(side), False)]
    while pending:
        node, below_counted = pending.pop()
        inner = list(getattr(node, "args", ()))
        if inner and not below_counted:
            pending += [(node, True), *((one, False) for one in inner)]
            continue
        # The last argument was pushed last, so it was counted first.
        sizes = [counted.pop() for _ in inner]
        counted.append(_expanded(node, sizes, text))
        if counted[-1] > MOST_TERMS:
            raise FormulaError(
                f"The formula {text!r} expands to more than {MOST_TERMS:,} products of terms. "
                "Write fewer interactions, or name those you mean with ':'."
            )


def _expanded(node: Any, sizes: list[float], text: str) -> float:
    """Return how many products of terms a part of a formula takes at the most."""
    if not sizes:
        return 1.0
    sign = node.operator.symbol
    if sign in ("**", "^") and len(sizes) == 2:
        power = str(list(node.args)[1])
        if power.isdecimal() and (len(power) > 3 or int(power) > LARGEST_POWER):
            raise FormulaError(
                f"The formula {text!r} has the power {power[:12]} of terms; at most "
                f"{LARGEST_POWER} is possible. For the power of a number write I(x**2)."
            )
        return float(sizes[0]) ** int(power) if power.isdecimal() else math.prod(sizes)
    if sign in ("*", "/", ":", "in") and len(sizes) == 2:
        return sum(sizes) + math.prod(sizes)
    return sum(sizes)


def refuse_code(expression: str, text: str) -> None:
    """Allow arithmetic, columns, formulaic's transforms and NumPy's elementwise functions.

    Formulas are stored in saved fits and evaluated again on new rows, so a formula must not be
    a way to run code from a file.
    """
    from selfselect.data.grammar import TRANSFORMS

    def refuse(what: str) -> None:
        raise FormulaError(
            f"The formula {text!r} uses {what} in {expression!r}. A formula may use columns, "
            "arithmetic, np.log and other elementwise NumPy functions, and the transforms "
            f"{', '.join(sorted(set(TRANSFORMS) - _MODULES - CONTRASTS))}. Compute "
            "anything else as a column first."
        )

    try:
        tree, _ = expression_tree(expression)
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
            function = getattr(np, node.attr, None)
            # A function with a signature, such as matmul, sums over rows.
            elementwise = isinstance(function, np.ufunc) and function.signature is None
            known = isinstance(node.value, ast.Name) and node.value.id in ("contr",)
            if not (known and not node.attr.startswith("_")) and not (inside_numpy and elementwise):
                refuse(f"{ast.unparse(node)!r}")
        if isinstance(node, ast.Call):
            named = isinstance(node.func, ast.Name) and node.func.id in TRANSFORMS
            if not named and not isinstance(node.func, ast.Attribute):
                refuse(f"the function {ast.unparse(node.func)!r}")
            if named and node.func.id in _ACROSS_ROWS:  # type: ignore[attr-defined]
                raise FormulaError(
                    f"The formula {text!r} uses {ast.unparse(node)!r}, which looks at other rows "
                    "than its own. Compute it as a column first."
                )
            if isinstance(node.func, ast.Attribute) and not _is_plain_call(node):
                refuse(f"{ast.unparse(node.func)!r} other than as a number made of its arguments,")
            _refuse_sizes(node, text)
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, _REFUSED_OPERATORS):
                refuse(f"the operator of {ast.unparse(node)!r}")
            if any(
                isinstance(side, ast.List | ast.Tuple) or _is_text(side)
                for side in (node.left, node.right)
            ):
                refuse(f"arithmetic on a list or a text, {ast.unparse(node)!r},")
        number = _constant(node)
        if number is not None and not math.isfinite(number):
            raise FormulaError(
                f"The formula {text!r} has the number {ast.unparse(node)!r}, which double "
                "precision cannot hold."
            )


def _is_plain_call(call: ast.Call) -> bool:
    """Say whether a function of NumPy gets the numbers it works on and nothing else.

    Further arguments are where it would write its result, which may be another column, and of
    what precision that would be.
    """
    assert isinstance(call.func, ast.Attribute)
    function = getattr(np, call.func.attr, None)
    if not isinstance(function, np.ufunc):
        return True
    return not call.keywords and len(call.args) == function.nin and function.nout == 1


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _refuse_sizes(call: ast.Call, text: str) -> None:
    """Refuse transforms that make more columns than any model could hold."""
    given = [*call.args[1:], *(one.value for one in call.keywords if one.arg in _SIZES)]
    for one in given:
        value = one.value if isinstance(one, ast.Constant) else 0
        if isinstance(value, int) and value > LARGEST_SIZE and "Treatment" not in ast.dump(call):
            raise FormulaError(
                f"The formula {text!r} asks for {value:,} columns in {ast.unparse(call)!r}; at "
                f"most {LARGEST_SIZE:,} are possible."
            )


def _constant(node: ast.AST) -> float | None:
    """Return the value of arithmetic on constants, computed in doubles; None of anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        try:
            return float(node.value)
        except OverflowError:
            return math.inf
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inner = _constant(node.operand)
        return -inner if inner is not None and isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _constant(node.left), _constant(node.right)
        if left is None or right is None:
            return None
        with np.errstate(all="ignore"):
            return float(_ARITHMETIC[type(node.op)](np.float64(left), np.float64(right)))
    return None

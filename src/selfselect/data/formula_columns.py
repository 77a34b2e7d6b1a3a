"""Which columns a formula uses, and how, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from selfselect.data.terms import Method, Term, parse_side

__all__ = [
    "CONTRASTS",
    "Use",
    "calls_in",
    "columns_in",
    "columns_of_factor",
    "expression_tree",
    "functions_in",
    "uses_of_columns",
]

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

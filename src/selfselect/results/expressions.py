"""Expressions of parameters: read from text, with derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.tables import nearest
from selfselect.errors import OptionError

Array = NDArray[np.float64]


# Expressions of parameters, read from text: one parser for hypotheses and combinations.
#
# ``2*hunting:height - fishing:height = 1`` and ``exp(hunting:height) / fishing:height`` are cut
# into parameters, numbers and signs, and evaluated with exact derivatives: each part of an
# expression is its value, its gradient in the parameters, and whether it is linear in them.


FUNCTIONS: dict[str, tuple[Callable[[float], Any], Callable[[float], Any]]] = {
    "exp": (np.exp, np.exp),
    "log": (np.log, lambda x: 1.0 / x),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "tanh": (np.tanh, lambda x: 1.0 - np.tanh(x) ** 2),
    "abs": (np.abs, np.sign),
}
"""By name, a function of one number and its derivative."""

_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FUNCTION = re.compile(rf"({'|'.join(FUNCTIONS)})(?=\s*\()")
_SIGN = re.compile(r"\*\*|[-+*/^=,()]")
_SPACE = re.compile(r"[\s`]+")


@dataclass(frozen=True)
class Token:
    """A piece of text: the position of a parameter (int), a number, a function or a sign."""

    value: int | float | str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Expression:
    """A value with its derivatives.

    Attributes
    ----------
    value : at the parameters' values.
    slope : (m,) its derivatives in the parameters.
    degree : 0 where no parameter is in it, 1 where it is linear in them, 2 otherwise.
    text : as it was written.
    is_equation : whether it was written with '=': left side less right side.
    """

    value: float
    slope: Array
    degree: int
    text: str = ""
    is_equation: bool = False

    @property
    def has_error(self) -> bool:
        """Whether it can have a standard error: squares of derivatives are numbers as well."""
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(self.value) and np.isfinite(self.slope @ self.slope))

    def __add__(self, other: Expression) -> Expression:
        return Expression(
            self.value + other.value, self.slope + other.slope, max(self.degree, other.degree)
        )

    def __neg__(self) -> Expression:
        return Expression(-self.value, -self.slope, self.degree)

    def __mul__(self, other: Expression) -> Expression:
        return Expression(
            self.value * other.value,
            self.value * other.slope + other.value * self.slope,
            min(self.degree + other.degree, 2),
        )

    def __truediv__(self, other: Expression) -> Expression:
        inverse = np.float64(1.0) / other.value
        slope = -other.slope * inverse**2 if other.degree else other.slope
        return self * Expression(float(inverse), slope, 2 if other.degree else 0)

    def __pow__(self, other: Expression) -> Expression:
        base, power = np.float64(self.value), other.value
        value, slope = float(base**power), np.zeros_like(self.slope)
        if self.degree:
            slope = slope + power * base ** (power - 1.0) * self.slope
        if other.degree:
            slope = slope + value * np.log(base) * other.slope
        return Expression(value, slope, 2 if self.degree or other.degree else 0)


def read_expressions(
    text: str, names: Sequence[str], values: Array, what: str = "expression"
) -> list[Expression]:
    """Read one or several expressions, separated by commas.

    Parameters
    ----------
    text : as written.
    names, values : of the parameters, ``alternative:term``.
    what : the word for the text in messages.
    """
    found = []
    for tokens in _split(_tokens(text, names, what), ","):
        if tokens:
            own = text[tokens[0].start : tokens[-1].end]
            found.append(_Reader(tokens, np.asarray(values, float), own, what).equation())
    return found


def linear_restrictions(hypothesis: Any, names: Sequence[str]) -> tuple[Array, Array, str]:
    """Return (R, r, text) such that the hypothesis reads R b = r."""
    if isinstance(hypothesis, str):
        hypothesis = [hypothesis]
    if isinstance(hypothesis, Sequence) and all(isinstance(part, str) for part in hypothesis):
        # What is linear is its value and its slopes at zero.
        origin = np.zeros(len(names))
        rows = [
            one
            for part in hypothesis
            for one in read_expressions(part, names, origin, "hypothesis")
        ]
        if not rows:
            raise OptionError(
                "The hypothesis is empty. Write it as 'alternative:term = 0', or several of them "
                "separated by commas."
            )
        for one in rows:
            if one.degree > 1:
                raise OptionError(_not_linear("hypothesis", one.text))
            if one.degree == 0:
                raise OptionError(
                    f"The hypothesis {one.text!r} has no parameter, so there is nothing to test."
                )
            if not (np.isfinite(one.value) and np.isfinite(one.slope).all()):
                raise OptionError(f"The hypothesis {one.text!r} divides by zero.")
        return (
            np.array([one.slope for one in rows]),
            np.array([0.0 - one.value for one in rows]),
            ", ".join(hypothesis),
        )
    matrix = np.atleast_2d(np.asarray(hypothesis, dtype=float))
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise OptionError(
            f"The restriction matrix has the shape {matrix.shape}; there are {len(names)} "
            f"parameters, one per column: {', '.join(names)}."
        )
    return matrix, np.zeros(len(matrix)), f"R b = 0 ({len(matrix)} restrictions)"


def _not_linear(what: str, text: str) -> str:
    return (
        f"The {what} {text!r} is not a sum of parameters. Write it like "
        "2*alternative:term - alternative:term = 1."
    )


def _tokens(text: str, names: Sequence[str], what: str) -> list[Token]:
    """Cut a text into parameters, numbers, functions and signs.

    Parameters are matched first and the longest first, since their names may hold anything that
    is a sign elsewhere: ``bs(x, df=4)[1]``.
    """
    # Not inside a longer word: x is no parameter of a hypothesis about x2 or x:z.
    parameter = re.compile(
        "|".join(
            rf"{re.escape(name)}(?![\w:\[(.])" for name in sorted(names, key=len, reverse=True)
        )
    )
    position = {name: i for i, name in enumerate(names)}
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        if found := parameter.match(text, place):
            if names.count(found[0]) > 1:
                raise OptionError(
                    f"In the {what} {text!r}, {found[0]!r} names {names.count(found[0])} "
                    "parameters, of different alternatives. Rename the label or the column that "
                    "holds a colon."
                )
            tokens.append(Token(position[found[0]], *found.span()))
        elif found := _NUMBER.match(text, place):
            if np.isinf(float(found[0])):
                raise OptionError(
                    f"In the {what} {text!r}, the number {found[0]} is larger than double "
                    "precision holds."
                )
            tokens.append(Token(float(found[0]), *found.span()))
        elif found := _FUNCTION.match(text, place) or _SIGN.match(text, place):
            sign = "^" if found[0] == "**" else found[0]
            tokens.append(Token(sign, *found.span()))
        elif not (found := _SPACE.match(text, place)):
            word = re.split(r"[\s=+*/^,()-]", text[place:])[0] or text[place:]
            raise OptionError(
                f"In the {what} {text!r}, {word!r} is no parameter.{nearest(word, names)} "
                "Write parameters as alternative:term, and factors before them, as in "
                "2*alternative:term."
            )
        place = found.end()
    return tokens


def _split(tokens: list[Token], sign: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.value == sign:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class _Reader:
    """Reads one expression from its tokens: sums of products of powers."""

    def __init__(self, tokens: list[Token], values: Array, text: str, what: str) -> None:
        self.tokens, self.values, self.text, self.what = tokens, values, text, what
        self.place = 0

    def equation(self) -> Expression:
        sides = _split(self.tokens, "=")
        if len(sides) > 2:
            raise OptionError(f"The {self.what} {self.text!r} has more than one '='.")
        with np.errstate(all="ignore"):
            each = []
            for side in sides:
                self.tokens, self.place = side, 0
                each.append(self._sum())
                if self.place < len(side):
                    raise self._error()
            whole = each[0] if len(each) == 1 else each[0] + -each[1]
        return Expression(whole.value, whole.slope, whole.degree, self.text, len(each) > 1)

    def _error(self) -> OptionError:
        if self.what == "hypothesis":
            return OptionError(_not_linear(self.what, self.text))
        return OptionError(
            f"The {self.what} {self.text!r} cannot be read. Write parameters as alternative:term, "
            "join them by + - * / ^ and parentheses, and use the functions "
            f"{', '.join(FUNCTIONS)}."
        )

    def _take(self, *signs: str) -> str | None:
        """Return the next token and move on, if it is one of these signs."""
        token = self.tokens[self.place] if self.place < len(self.tokens) else None
        if token is None or not isinstance(token.value, str) or token.value not in signs:
            return None
        self.place += 1
        return token.value

    def _sum(self) -> Expression:
        total = self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            total = total + (term if sign == "+" else -term)
        return total

    def _product(self) -> Expression:
        total = self._signed()
        while sign := self._take("*", "/"):
            factor = self._signed()
            total = total * factor if sign == "*" else total / factor
        return total

    def _signed(self) -> Expression:
        if sign := self._take("+", "-"):
            inner = self._signed()
            return inner if sign == "+" else -inner
        base = self._atom()
        return base ** self._signed() if self._take("^") else base

    def _atom(self) -> Expression:
        if name := self._take("(", *FUNCTIONS):
            if name != "(" and not self._take("("):
                raise self._error()
            inner = self._sum()
            if not self._take(")"):
                raise self._error()
            return inner if name == "(" else _applied(name, inner)
        if self.place == len(self.tokens) or isinstance(self.tokens[self.place].value, str):
            raise self._error()
        value = self.tokens[self.place].value
        self.place += 1
        slope = np.zeros(len(self.values))
        if isinstance(value, int):
            slope[value] = 1.0
            return Expression(float(self.values[value]), slope, 1)
        return Expression(float(value), slope, 0)


def _applied(name: str, inner: Expression) -> Expression:
    function, derivative = FUNCTIONS[name]
    slope = derivative(np.float64(inner.value)) * inner.slope if inner.degree else inner.slope
    return Expression(float(function(np.float64(inner.value))), slope, 2 if inner.degree else 0)

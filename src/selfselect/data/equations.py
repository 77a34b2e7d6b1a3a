"""Names and positions of equations, and terms of one side of a formula."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from keyword import iskeyword
from typing import Any

from selfselect.errors import DataError
from selfselect.rules.base import Label

# The terms of one side of a formula.
#
# Sums of columns are read here. Everything else is read by formulaic, which is loaded where it is
# needed: loading it takes longer than fitting and printing a few thousand rows.


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SUM = re.compile(rf"\s*(?:([01])\s*\+\s*)?({_NAME}(?:\s*\+\s*{_NAME})*)(?:\s*([-+]\s*[01]))?\s*")

_CONSTANT = {None: True, "1": True, "0": False, "+1": True, "+0": False, "-1": False}
"""Whether a side has a constant, by the number that it begins or ends with."""


class SeveralPartsError(Exception):
    """A side has several lists of terms, by ``|`` or a tuple."""


class Method(Enum):
    """How a factor is had: a number, a column, or an expression; named as in formulaic."""

    LITERAL = "literal"
    LOOKUP = "lookup"
    PYTHON = "python"


@dataclass(frozen=True)
class Factor:
    """A factor of a term: its expression, and how that is evaluated."""

    expr: str
    method: Method

    def __str__(self) -> str:
        quoted = ":" in self.expr and self.method is Method.LOOKUP
        return f"`{self.expr}`" if quoted else self.expr


@dataclass(frozen=True)
class Term:
    """A product of factors."""

    factors: tuple[Factor, ...]

    def __str__(self) -> str:
        return ":".join(map(str, self.factors))


@lru_cache(maxsize=256)
def parse_side(side: str) -> tuple[Term, ...]:
    """Parse a side once: a fit meets the same one per alternative, and once more to code it.

    Raises
    ------
    ValueError
        If it does not parse.
    SeveralPartsError
        If it has several lists of terms.
    """
    plain = sum_of_columns(side)
    return _by_formulaic(side) if plain is None else plain


def sum_of_columns(side: str) -> tuple[Term, ...] | None:
    """Return the terms of columns that are added up, with or without a constant.

    None where a side is anything else, and must be read by formulaic.
    """
    found = _SUM.fullmatch(side)
    if found is None:
        return None
    first, listed, last = found.groups()
    names = [name.strip() for name in listed.split("+")]
    ending = None if last is None else last[0] + last[-1]
    if (first and last) or ending not in _CONSTANT or any(map(iskeyword, names)):
        return None
    constant = _CONSTANT[first] and _CONSTANT[ending]
    factors = [Factor("1", Method.LITERAL)] if constant else []
    factors += [Factor(name, Method.LOOKUP) for name in dict.fromkeys(names)]
    return tuple(Term((factor,)) for factor in factors)


def _by_formulaic(side: str) -> tuple[Term, ...]:
    from selfselect.data.grammar import Formula, FormulaicError, SimpleFormula

    try:
        parsed = Formula(side)
    except FormulaicError as error:
        raise ValueError(str(error)) from error
    if not isinstance(parsed, SimpleFormula):
        raise SeveralPartsError(side)
    return tuple(map(from_formulaic, parsed))


def from_formulaic(term: Any) -> Term:
    """Return a term of formulaic as one of ours."""
    return Term(tuple(Factor(one.expr, Method(one.eval_method.value)) for one in term.factors))


def syntax_of(side: str) -> Any:
    """Return the operators of a side as formulaic's tree, not expanded into terms.

    Raises
    ------
    ValueError
        If it does not parse.
    """
    from selfselect.data.grammar import DefaultFormulaParser, FormulaicError

    try:
        return DefaultFormulaParser().get_ast(side)
    except FormulaicError as error:
        raise ValueError(str(error)) from error


# Which alternative is explained by which covariates: names and positions, no numbers.


INTERCEPT = "Intercept"
SCALE = "scale"
"""The term of a noise scale in tables of results; no covariate can bear that name."""

SELECTION = "selection"
"""Stands in place of an alternative's label where a coefficient is the selection equation's."""


@dataclass(frozen=True)
class Equation:
    """One alternative's equation.

    Attributes
    ----------
    alternative : its label.
    terms : names of its coefficients, the intercept first where there is one.
    columns : where they stand in the virtual matrix [1 | covariates]: 0 is the constant.
    has_offset : whether the last term is an offset: its coefficient is one and not estimated.
    n_cuts : how many of the last terms are cut points: an index passes them one after the other.
    """

    alternative: Label
    terms: tuple[str, ...]
    columns: tuple[int, ...]
    has_offset: bool = False
    n_cuts: int = 0

    @property
    def n_slopes(self) -> int:
        """How many terms multiply a covariate or a constant, and are no cut points."""
        return len(self.terms) - self.n_cuts

    def with_one_constant(self) -> Equation:
        """Return the equation with a constant in place of its cut points."""
        if not self.n_cuts:
            return self
        keep = self.n_slopes
        return Equation(
            self.alternative, (*self.terms[:keep], INTERCEPT), (*self.columns[:keep], 0)
        )

    @property
    def has_intercept(self) -> bool:
        """Whether the equation has a constant."""
        return 0 in self.columns

    @property
    def estimated(self) -> tuple[str, ...]:
        """The terms whose coefficients are estimated: all but the offset."""
        return self.terms[:-1] if self.has_offset else self.terms


@dataclass(frozen=True)
class SharedTerm:
    """A coefficient that several alternatives share.

    Attributes
    ----------
    term : its name in tables.
    members : (position of the alternative, place among its terms) of each that shares it.
    """

    term: str
    members: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Equations:
    """All equations, over one set of covariates.

    Attributes
    ----------
    outcome : name of the recorded outcome.
    covariates : names of all covariates of any equation, without the intercept.
    each : the equations, in the order of the alternatives.
    costs : of alternatives whose cost is estimated, what it depends on.
    spreads : of all alternatives, what the logarithm of their scale depends on; empty where no
        scale moves with covariates.
    shared : coefficients that several equations have in common.
    selection : the equation of an index whose sign selects, where outcomes do not; it is no
        alternative.
    types : what the weights of unobserved types depend on; it is no alternative.
    """

    outcome: str
    covariates: tuple[str, ...]
    each: tuple[Equation, ...]
    costs: tuple[Equation, ...] = ()
    shared: tuple[SharedTerm, ...] = ()
    selection: Equation | None = None
    spreads: tuple[Equation, ...] = ()
    types: Equation | None = None

    @classmethod
    def build(
        cls, outcome: str, terms: Sequence[Sequence[str]], alternatives: Sequence[Label]
    ) -> Equations:
        """Lay out equations from each alternative's terms."""
        covariates: dict[str, int] = {}
        for names in terms:
            met = {SCALE}
            for name in names:
                if name in met:
                    raise DataError(
                        f"A covariate cannot be named {name!r}: the results could not tell it from "
                        "another parameter of that name. Rename it."
                    )
                met.add(name)
                if name != INTERCEPT:
                    covariates.setdefault(name, len(covariates) + 1)
        each = tuple(
            Equation(
                label,
                tuple(names),
                tuple(0 if name == INTERCEPT else covariates[name] for name in names),
            )
            for label, names in zip(alternatives, terms, strict=True)
        )
        return cls(outcome, tuple(covariates), each)

    def with_costs(self, terms: Mapping[Label, Sequence[str]]) -> Equations:
        """Add estimated costs: by alternative, the terms its cost depends on."""
        covariates, costs = self._placed(terms)
        return replace(self, covariates=covariates, costs=costs)

    def with_spreads(self, terms: Mapping[Label, Sequence[str]]) -> Equations:
        """Add scales that move: by alternative, the terms of the logarithm of its scale."""
        covariates, spreads = self._placed(terms)
        return replace(self, covariates=covariates, spreads=spreads)

    def _placed(
        self, terms: Mapping[Label, Sequence[str]]
    ) -> tuple[tuple[str, ...], tuple[Equation, ...]]:
        """Return all covariates, those of the terms last, and the terms as equations over them."""
        covariates = dict.fromkeys(self.covariates)
        for names in terms.values():
            covariates |= dict.fromkeys(name for name in names if name != INTERCEPT)
        place = {name: i for i, name in enumerate(covariates, start=1)} | {INTERCEPT: 0}
        equations = tuple(
            Equation(label, tuple(names), tuple(place[name] for name in names))
            for label, names in terms.items()
        )
        return tuple(covariates), equations

    def with_types(self, terms: Sequence[str]) -> Equations:
        """Add the terms that the weights of types depend on; their constant is not one of them."""
        names = tuple(name for name in terms if name != INTERCEPT)
        covariates = tuple(dict.fromkeys((*self.covariates, *names)))
        columns = tuple(covariates.index(name) + 1 for name in names)
        return replace(self, covariates=covariates, types=Equation("types", names, columns))

    def with_offsets(self, offsets: Mapping[Label, str]) -> Equations:
        """Add offsets: by alternative, the covariate that is added to its mean as it is."""
        covariates = tuple(dict.fromkeys((*self.covariates, *offsets.values())))
        each = tuple(
            equation
            if equation.alternative not in offsets
            else Equation(
                equation.alternative,
                (*equation.terms, f"offset({offsets[equation.alternative]})"),
                (*equation.columns, covariates.index(offsets[equation.alternative]) + 1),
                has_offset=True,
            )
            for equation in self.each
        )
        return replace(self, covariates=covariates, each=each)

    @property
    def alternatives(self) -> tuple[Label, ...]:
        """The labels, in order."""
        return tuple(equation.alternative for equation in self.each)

    @property
    def n_alternatives(self) -> int:
        """How many alternatives there are."""
        return len(self.each)

    @property
    def restricted(self) -> bool:
        """Whether coefficients are shared, or fixed as those of offsets are."""
        return bool(self.shared) or any(equation.has_offset for equation in self.each)

    @property
    def own_terms(self) -> tuple[int, ...]:
        """How many coefficients each alternative has that no other one shares."""
        shared = [j for one in self.shared for j, _ in one.members]
        return tuple(
            len(equation.estimated) - shared.count(j) for j, equation in enumerate(self.each)
        )

    @property
    def all_have_intercepts(self) -> bool:
        """Whether every equation has a constant."""
        every = self.each if self.selection is None else (*self.each, self.selection)
        return all(equation.has_intercept for equation in every)

    def specific_terms(self) -> tuple[str, ...]:
        """Return the terms that several equations have, each with a covariate of its own."""
        columns: dict[str, list[int]] = {}
        for equation in self.each:
            for term, column in zip(equation.terms, equation.columns, strict=True):
                columns.setdefault(term, []).append(column)
        return tuple(
            term for term, at in columns.items() if len(at) > 1 and len(set(at)) == len(at)
        )

    def exclusions(self, besides: Sequence[str] = ()) -> dict[Label, tuple[str, ...]]:
        """Return, per alternative, the covariates other equations use and it does not.

        Those that belong to the terms `besides` are left out, and those of spreads alone: they
        shift no outcome.
        """
        left_out = {
            column
            for equation in self.each
            for term, column in zip(equation.terms, equation.columns, strict=True)
            if term in besides
        }
        in_means = {column for one in (*self.each, *self.costs) for column in one.columns}
        left_out |= {column for one in self.spreads for column in one.columns} - in_means
        return {
            equation.alternative: tuple(
                name
                for column, name in enumerate(self.covariates, start=1)
                if column not in equation.columns and column not in left_out
            )
            for equation in self.each
        }


def intercept_first(names: Sequence[str]) -> list[str]:
    """Put the intercept before all other terms."""
    rest = [name for name in names if name != INTERCEPT]
    return ([INTERCEPT] if INTERCEPT in names else []) + rest


def refuse_half_characters(names: Iterable[Any]) -> None:
    """Refuse names and labels that no file, page or terminal can show."""
    for name in map(str, names):
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(
                f"The name {name!r} holds half of a character (a lone surrogate), which cannot be "
                "printed or written. Read the file with its encoding, or rename it."
            )

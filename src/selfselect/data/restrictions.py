"""Restrictions across alternatives: coefficients they share, and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from selfselect.data.equations import INTERCEPT, Equations, SharedTerm
from selfselect.data.tables import nearest
from selfselect.errors import OptionError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["ALL", "check_symmetric", "offset_columns", "offset_side", "read_offsets", "share"]

ALL = "all"

EXAMPLE = (
    "shared=['distance'], shared='all', shared={'distance': ['a', 'b']}, or, where the columns "
    "have other names, shared={'distance': {'a': 'distance_a', 'b': 'distance_b'}}"
)


def share(equations: Equations, shared: Any) -> Equations:
    """Tie the coefficients that the user wants alternatives to share.

    Parameters
    ----------
    equations : of all alternatives.
    shared : ``"all"`` terms; a list of terms; or a mapping of terms to the alternatives that
        share them, or to the name the term has in each of those.
    """
    if shared is None:
        return equations
    found: list[SharedTerm] = []
    for name, wanted in _requests(equations, shared):
        for term, by_position in _matches(equations, name, wanted):
            if len(by_position) < 2:
                where = [str(equations.alternatives[j]) for j in by_position]
                raise OptionError(
                    f"The term {term!r} is in the equation of {where[0]!r} alone, so there is "
                    "nothing to share it with. Leave it out of `shared`."
                )
            found.append(SharedTerm(term, tuple(sorted(by_position.items()))))
    if not found:
        raise OptionError(f"`shared` names no term. Leave it out, or write {EXAMPLE}.")
    _check(equations, found)
    return replace(equations, shared=tuple(found))


def _requests(equations: Equations, shared: Any) -> list[tuple[str, Any]]:
    """Return the names asked for, each with what was said of who shares it, or None for all."""
    if isinstance(shared, Mapping):
        return [(str(name), wanted) for name, wanted in shared.items()]
    if isinstance(shared, str) and shared == ALL:
        terms = dict.fromkeys(term for one in equations.each for term in one.estimated)
        often = [term for term in terms if sum(term in one.estimated for one in equations.each) > 1]
        if not often:
            raise OptionError(
                "shared='all' finds no term that two alternatives have. Where their columns have "
                "names of their own, say which belong together: shared={'distance': {'a': "
                "'distance_a', 'b': 'distance_b'}}."
            )
        return [(term, None) for term in often]
    if isinstance(shared, Sequence) and not isinstance(shared, str):
        return [(str(name), None) for name in shared]
    raise OptionError(f"shared={shared!r} is not possible. Write {EXAMPLE}.")


def _matches(equations: Equations, name: str, wanted: Any) -> list[tuple[str, dict[int, int]]]:
    """Return each term that was meant, with where it stands in the equations that share it."""
    labels = equations.alternatives
    if wanted is None or (isinstance(wanted, str) and wanted == ALL):
        names: dict[Label, str] = {
            one.alternative: name for one in equations.each if _terms_like(one.estimated, name)
        }
        if not names:
            every = dict.fromkeys(term for one in equations.each for term in one.estimated)
            raise OptionError(f"There is no term {name!r} to share.{nearest(name, every)}")
    elif isinstance(wanted, Mapping):
        names = {k: str(v) for k, v in by_alternative(wanted, labels, what="shared term").items()}
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        names = by_alternative(dict.fromkeys(wanted, name), labels, what="shared term")
    else:
        raise OptionError(f"shared[{name!r}] is {wanted!r}. Write {EXAMPLE}.")
    coded: dict[str, dict[int, int]] = {}
    for label, own_name in names.items():
        j = labels.index(label)
        terms = equations.each[j].estimated
        like = _terms_like(terms, own_name)
        if not like:
            raise OptionError(
                f"The equation of {label!r} has no term {own_name!r} to share."
                f"{nearest(own_name, terms)}"
            )
        for term in like:
            # The codes of a category are shared one by one: region[T.north] with its like.
            coded.setdefault(name + term[len(own_name) :], {})[j] = terms.index(term)
    return list(coded.items())


def _terms_like(terms: Sequence[str], name: str) -> list[str]:
    """Return the term of that name, or all that code the category of that name."""
    if name in terms:
        return [name]
    return [term for term in terms if term.startswith(f"{name}[")]


def _check(equations: Equations, found: Sequence[SharedTerm]) -> None:
    """Refuse coefficients that are shared twice, and constants shared with covariates."""
    met: set[tuple[int, int]] = set()
    for one in found:
        terms = [equations.each[j].terms[place] for j, place in one.members]
        if INTERCEPT in terms and set(terms) != {INTERCEPT}:
            raise OptionError(
                f"shared[{one.term!r}] ties an intercept to a covariate's coefficient. Share "
                "intercepts with intercepts."
            )
        for member in one.members:
            if member in met:
                equation = equations.each[member[0]]
                raise OptionError(
                    f"The term {equation.terms[member[1]]!r} of {equation.alternative!r} is shared "
                    "twice. Name it once, with all who share it."
                )
            met.add(member)


def check_symmetric(equations: Equations) -> None:
    """Refuse terms shared by some of several alternatives that have no names of their own."""
    for one in equations.shared:
        if len(one.members) < equations.n_alternatives:
            raise OptionError(
                f"Alternatives without names cannot share {one.term!r} among some of them: "
                "nothing identifies them. Share it among all, or give named alternatives "
                "covariates of their own."
            )


def offset_columns(offset: Any) -> tuple[str, ...]:
    """Return the columns offsets are in."""
    given = offset.values() if isinstance(offset, Mapping) else [offset]
    return tuple(dict.fromkeys(one for one in given if isinstance(one, str)))


def offset_side(column: str) -> str:
    """Return the right side of a formula that codes an offset."""
    return f"`{column}` - 1"


def read_offsets(offset: Any, alternatives: Sequence[Label]) -> dict[Label, str]:
    """Return the offset column of each alternative that has one."""
    if offset is None:
        return {}
    if isinstance(offset, str):
        return dict.fromkeys(alternatives, offset)
    if isinstance(offset, Mapping) and all(isinstance(one, str) for one in offset.values()):
        return by_alternative(offset, alternatives, what="offset")
    raise OptionError(
        f"offset={offset!r} is not possible. Give a column, or one by alternative, as in "
        "offset={'fishing': 'subsidy'}."
    )

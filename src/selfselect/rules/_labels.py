"""Matching what a user keyed by alternative to the alternatives there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from selfselect.errors import OptionError
from selfselect.rules.base import Label

__all__ = ["by_alternative"]

Value = TypeVar("Value")


def by_alternative(
    given: Mapping[Any, Value], alternatives: Sequence[Label], *, what: str
) -> dict[Label, Value]:
    """Return `given` keyed by the alternatives' own labels.

    A key matches the label it equals, else the one whose text it is: a shell can only write
    text, and the label may be the number 1.
    """
    matched: dict[Label, Value] = {}
    by_text = {str(label): label for label in alternatives}
    for key, value in given.items():
        label = key if key in alternatives else by_text.get(str(key))
        if label is None:
            names = ", ".join(map(str, alternatives))
            near = get_close_matches(str(key), by_text, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"A {what} is given for {key!r}, but the alternatives are {names}.{hint}"
            )
        if label in matched:
            raise OptionError(f"The alternative {label!r} is given a {what} twice. Keep one.")
        matched[label] = value
    return matched

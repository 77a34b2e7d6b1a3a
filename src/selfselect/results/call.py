"""The call of a door: written so that it can be made again, and handed on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["arguments_for", "write_call"]

UNSAID = ("data", "progress", "checkpoint")
LONGEST = 300


def write_call(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Write a call of `fit`, or of another door, with the arguments that differ from defaults.

    The table is called ``data``; columns given as arrays are described, since they have no name.
    """
    lines = []
    for name, parameter in _parameters(function).items():
        if name == "data":
            lines.append("data,")
        elif parameter.default is parameter.empty:
            lines.append(f"{_written(given[name])},")
        elif name not in UNSAID and not _same(given[name], parameter.default):
            lines.append(f"{name}={_written(given[name])},")
    return "\n".join([f"ss.{function.__name__}(", *(f"    {line}" for line in lines), ")"])


def arguments_for(given: Mapping[str, Any], *functions: Callable[..., Any]) -> dict[str, Any]:
    """Return those of the arguments of a call that other functions take too, by name."""
    names = {name for one in functions for name in _parameters(one)}
    return {name: value for name, value in given.items() if name in names}


@lru_cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; reading them off takes a tenth of a millisecond."""
    return inspect.signature(function).parameters


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str) and value == default)


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple) and len(value) <= 20:
        return "[" + ", ".join(_written(one) for one in value) + "]"
    room = type(value).__module__.split(".")
    if room[0] == "selfselect":
        text = f"ss.{room[1]}.{value!r}"
    elif hasattr(value, "__len__"):
        text = f"<{type(value).__name__} of {len(value)}>"
    else:
        text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."

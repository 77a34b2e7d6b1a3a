"""The call that made a fit, written so that it can be made again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["write_call"]

UNSAID = ("data", "progress", "checkpoint")
LONGEST = 300


def write_call(function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Write a call of `fit` with the arguments that differ from their defaults.

    The table is called ``data``; columns given as arrays are described, since they have no name.
    """
    lines = [f"{_written(given['formula'])},", "data,"]
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "formula" or name in UNSAID or _same(given[name], parameter.default):
            continue
        lines.append(f"{name}={_written(given[name])},")
    return "\n".join(["ss.fit(", *(f"    {line}" for line in lines), ")"])


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

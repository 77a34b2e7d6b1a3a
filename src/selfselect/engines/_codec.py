"""Sums as JSON and back, to the last bit and in the same layout."""

from __future__ import annotations

import base64
import math
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from selfselect.engines.base import Parts
from selfselect.errors import ArchiveError

__all__ = ["decode", "encode"]


def encode(value: Any) -> Any:
    """Return what JSON can hold of a sum: numbers, arrays, parts, dataclasses of this package."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        # Linear algebra rounds otherwise where a matrix lies otherwise in memory.
        order = "F" if np.isfortran(value) else "C"
        held = base64.b64encode(value.tobytes(order=order)).decode()  # type: ignore[arg-type]
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {kind: held, "type": value.dtype.str, "shape": list(value.shape), "order": order}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Parts):
        return {"parts": [encode(one) for one in value]}
    if isinstance(value, tuple):
        return {"tuple": [encode(one) for one in value]}
    if isinstance(value, list):
        return [encode(one) for one in value]
    if is_dataclass(value) and type(value).__module__.startswith("selfselect."):
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        inside = {one.name: encode(getattr(value, one.name)) for one in fields(value)}
        return {"class": kind, "fields": inside}
    raise ArchiveError(
        f"A sum of {type(value).__name__} cannot be kept in a checkpoint. Fit without checkpoint=."
    )


def decode(held: Any) -> Any:
    """Return the sum that was encoded."""
    if isinstance(held, list):
        return [decode(one) for one in held]
    if not isinstance(held, dict):
        return held
    if "float" in held:
        return float(held["float"])
    if "parts" in held:
        return Parts(decode(one) for one in held["parts"])
    if "tuple" in held:
        return tuple(decode(one) for one in held["tuple"])
    if "class" in held:
        return _class(held["class"])(**{k: decode(v) for k, v in held["fields"].items()})
    bits: str = held["array"] if "array" in held else held["scalar"]
    flat = np.frombuffer(base64.b64decode(bits), held["type"])
    array = flat.copy().reshape(held["shape"], order=held["order"])
    return array if "array" in held else array[()]


def _class(name: str) -> Any:
    module, _, inside = name.partition(":")
    found: Any = None
    if module.startswith("selfselect."):
        found = getattr(import_module(module), inside, None)
    if not is_dataclass(found):
        raise ArchiveError(f"The checkpoint speaks of {name!r}, which is no sum of this package.")
    return found

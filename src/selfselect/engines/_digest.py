"""A hash of what a value means, the same in every process."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

__all__ = ["digest"]

WHOLE = 1_000_000
"""Entries up to which every bit of an array counts. Of a longer one as many are looked at, evenly
spread, with the sums of all: a change shows in one or the other, and it costs one look."""


def digest(*values: Any) -> str:
    """Return a hash of values: arrays, dataclasses, functions and containers of them.

    Names of classes and functions count, where objects are in memory does not.
    """
    found = sha256()
    for value in values:
        for part in _parts(value):
            found.update(part)
            found.update(b"\0")
    return found.hexdigest()


def _parts(value: Any) -> list[bytes]:
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, one.name) for one in fields(value)]
        return [_name(type(value)), digest(*inside).encode()]
    if isinstance(value, partial):
        return [b"partial", digest(value.func, value.args, value.keywords).encode()]
    if isinstance(value, Mapping):
        pairs = sorted(digest(key) + digest(entry) for key, entry in value.items())
        return [b"mapping", *(pair.encode() for pair in pairs)]
    if isinstance(value, set | frozenset):
        return [b"set", *sorted(digest(one).encode() for one in value)]
    if isinstance(value, list | tuple):
        return [b"list", *(digest(one).encode() for one in value)]
    if isinstance(value, types.MethodType):
        return [b"method", digest(value.__func__, value.__self__).encode()]
    if isinstance(value, types.FunctionType):
        # Functions of a package are known by name; others, such as a user's, by what they do.
        if value.__module__.startswith("selfselect.") and "<" not in value.__qualname__:
            return [_name(value)]
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [_name(value), digest(value.__code__, value.__defaults__, cells).encode()]
    if isinstance(value, types.CodeType):
        return [value.co_code, digest(value.co_names, value.co_consts).encode()]
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return [_name(value)]
    if value is None or isinstance(value, str | bytes | bool | int | float | np.generic):
        return [type(value).__name__.encode(), repr(value).encode()]
    return [_name(type(value)), digest(getattr(value, "__dict__", None)).encode()]


def _of_array(array: Any) -> list[bytes]:
    head = f"{array.dtype} {array.shape}".encode()
    if array.dtype == object:
        return [head, digest(array.tolist()).encode()]
    if array.size <= WHOLE:
        return [head, np.ascontiguousarray(array).tobytes()]
    some = array[:: -(-array.size // WHOLE)]
    total = array.sum(axis=0)
    if np.isnan(total).any():  # a missing outcome would hide all others
        total = np.nansum(array, axis=0)
    return [head, np.ascontiguousarray(some).tobytes(), total.tobytes()]


def _name(value: Any) -> bytes:
    module = getattr(value, "__module__", "")
    return f"{module}.{getattr(value, '__qualname__', value)}".encode()

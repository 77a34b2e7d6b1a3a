"""Values as plain data, which JSON can hold, and back.

A file names a class by a short name and a version, ``{"is": "evaluation/1", ...}``, never by a
module. Only classes that registered with `archived` are built from a file, and the values of a
dataclass must be of the types that it declares.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from selfselect.errors import ArchiveError

Kind = TypeVar("Kind", bound=type)

CLASSES: dict[str, type] = {}
NAMES: dict[type, str] = {}

DEEPEST = 40
"""Levels of nesting in a file; what is written has about fifteen."""

NUMBERS = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|b1", "|i1", "|u1", "<i2", "<u2")
"""Types of arrays and NumPy scalars that files hold."""

READABLE = 10_000
"""Entries up to which exact arrays are written as decimals. Longer ones, such as the sums of all
clusters, are written as their bits, which is many times as fast."""

NOT_FINITE = ("nan", "inf", "-inf")


def archived(name: str, version: int = 1) -> Callable[[Kind], Kind]:
    """Let files hold instances of a class, under a short name and a version.

    A dataclass is written field by field. A class that needs another form defines ``plain()``,
    which returns a dict of values, and the class method ``from_plain(values)``.
    """
    full = f"{name}/{version}"

    def register(kind: Kind) -> Kind:
        if CLASSES.setdefault(full, kind) is not kind:
            raise TypeError(f"Two classes are called {full!r} in files.")
        NAMES[kind] = full
        return kind

    return register


def to_plain(value: Any, *, exact: bool = False) -> Any:
    """Return what JSON can hold of a value.

    Numbers are written as decimals that round-trip to the last bit.

    Parameters
    ----------
    value : numbers, text, arrays, tuples, lists, mappings, and instances of registered classes.
    exact : whether NumPy scalars stay such, and arrays lie in memory as they did: linear algebra
        rounds otherwise where a matrix lies otherwise.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if type(value) in NAMES:
        inside = value.plain() if hasattr(value, "plain") else _fields(value)
        return {"is": NAMES[type(value)]} | {
            key: to_plain(one, exact=exact) for key, one in inside.items()
        }
    if isinstance(value, np.ndarray):
        return _plain_array(value, exact)
    if isinstance(value, np.generic) and not isinstance(value, np.str_):
        if exact:
            return {"scalar": to_plain(value.item()), "type": _type_of(value)}
        return to_plain(value.item())
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return [to_plain(one, exact=exact) for one in value]
    if isinstance(value, list):
        return {"list": [to_plain(one, exact=exact) for one in value]}
    if isinstance(value, Mapping):
        pairs = value.items()
        return {"map": [[to_plain(a, exact=exact), to_plain(b, exact=exact)] for a, b in pairs]}
    raise ArchiveError(
        f"A file holds no {type(value).__name__}: {value!r} of type {type(value).__name__} has no "
        "plain form."
    )


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _type_of(value: Any) -> str:
    name = value.dtype.newbyteorder("<").str
    if name not in NUMBERS:
        raise ArchiveError(f"A file holds no numbers of the type {value.dtype}.")
    return str(name)


def _plain_array(array: Any, exact: bool) -> dict[str, Any]:
    if exact and array.size > READABLE:
        order: Any = "F" if np.isfortran(array) else "C"
        little = array.astype(_type_of(array), copy=False)
        bits = base64.b64encode(little.tobytes(order=order)).decode("ascii")
        return {"bits": bits, "type": _type_of(array), "shape": list(array.shape), "order": order}
    finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
    numbers = array.tolist()
    held: dict[str, Any] = {"array": numbers if finite else _plain_numbers(numbers)}
    if _type_of(array) != "<f8":
        held["type"] = _type_of(array)
    if not array.size:
        held["shape"] = list(array.shape)
    if exact and np.isfortran(array):
        held["order"] = "F"
    return held


def _plain_numbers(values: Any) -> Any:
    """Write nan as null and infinity as text: JSON has neither."""
    if isinstance(values, list):
        return [_plain_numbers(one) for one in values]
    if isinstance(values, float) and not math.isfinite(values):
        return None if math.isnan(values) else repr(values)
    return values


def check_plain(held: Any, *, depth: int = 0) -> None:
    """Refuse what no file of ours holds: deep nesting, text that is none, infinite numbers.

    Parameters
    ----------
    held : what was read.
    depth : of nesting, reached so far.
    """
    if depth > DEEPEST:
        raise ArchiveError(f"it is nested more than {DEEPEST} levels deep")
    if isinstance(held, str):
        _check_text(held)
    elif isinstance(held, float):
        if not math.isfinite(held):
            raise ArchiveError(f"it holds the number {held!r}")
    elif isinstance(held, list):
        for one in held:
            check_plain(one, depth=depth + 1)
    elif isinstance(held, dict):
        for key, one in held.items():
            _check_text(key)
            check_plain(one, depth=depth + 1)


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ArchiveError(f"it holds {text!r}, which is no valid text (half of a character)")


def from_plain(held: Any, expected: Any = Any) -> Any:
    """Return the value that was written.

    Parameters
    ----------
    held : what `to_plain` returned, possibly read from a file that cannot be trusted.
    expected : the type it must have, such as ``tuple[str, ...]``.

    Raises
    ------
    ArchiveError
        Where it is none that `to_plain` writes, or of another type.
    """
    try:
        return _conform(_built(held), expected)
    except ArchiveError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ArchiveError(f"{type(error).__name__}: {error}") from error


def _built(held: Any) -> Any:
    if held is None or isinstance(held, bool | int | str):
        return held
    if isinstance(held, float):
        if not math.isfinite(held):
            raise ArchiveError(f"it holds the number {held!r}")
        return held
    if isinstance(held, list):
        return tuple(_built(one) for one in held)
    if not isinstance(held, dict):
        raise ArchiveError(f"it holds a {type(held).__name__}")
    if "is" in held:
        return _instance(held)
    match held:
        case {"float": str(text), **rest} if not rest and text in NOT_FINITE:
            return float(text)
        case {"list": list(parts), **rest} if not rest:
            return [_built(one) for one in parts]
        case {"map": list(pairs), **rest} if not rest:
            return _mapping(pairs)
        case {"array": _, **rest} if set(rest) <= {"type", "shape", "order"}:
            return _array(held)
        case {"bits": str(), "type": _, "shape": _, "order": _, **rest} if not rest:
            return _array_of_bits(held)
        case {"scalar": number, "type": str(type_), **rest} if not rest and type_ in NUMBERS:
            return np.dtype(type_).type(_conform(_built(number), float | bool))
    raise ArchiveError(f"it holds an entry of an unknown kind, with {_some(held)}")


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ArchiveError("a map in it is not made of pairs")
    found = {_built(key): _built(value) for key, value in pairs}
    if len(found) < len(pairs):
        raise ArchiveError("a map in it has the same key twice")
    return found


def _instance(held: dict[str, Any]) -> Any:
    name = held["is"]
    kind = CLASSES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ArchiveError(
            f"it holds a {name!r}, which this version of selfselect does not know; a newer one may"
        )
    values = {key: _built(one) for key, one in held.items() if key != "is"}
    if hasattr(kind, "from_plain"):
        return kind.from_plain(values)
    types, needed = _declared(kind)
    unknown = [key for key in values if key not in types]
    lacking = [key for key in needed if key not in values]
    if unknown or lacking:
        what = f"has an unknown {unknown[0]!r}" if unknown else f"lacks {lacking[0]!r}"
        raise ArchiveError(f"its {name.partition('/')[0]} {what}")
    made = {}
    for key, value in values.items():
        try:
            made[key] = _conform(value, types[key])
        except ArchiveError as error:
            raise ArchiveError(f"its {name.partition('/')[0]}: {key!r}: {error}") from error
    return kind(**made)


@lru_cache(maxsize=256)
def _declared(kind: type) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a dataclass's fields, and those of them that have no default."""
    hints, known = get_type_hints(kind), fields(kind)
    needed = [
        one.name for one in known if one.default is MISSING and one.default_factory is MISSING
    ]
    return {one.name: hints[one.name] for one in known}, needed


def _array(held: dict[str, Any]) -> Any:
    type_, order, shape = held.get("type", "<f8"), held.get("order", "C"), held.get("shape")
    if type_ not in NUMBERS or order not in ("C", "F"):
        raise ArchiveError(f"it holds an array of the type {type_!r} and order {order!r}")
    dtype = np.dtype(type_)
    if shape is not None:
        sizes = _conform(_built(shape), tuple[int, ...])
        if held["array"] or len(sizes) > 8 or min(sizes, default=1) != 0:
            raise ArchiveError(f"it holds an array of the shape {shape!r}")
        return np.zeros(sizes, dtype)
    entries = np.array(held["array"], dtype=object)
    flat = entries.ravel().tolist()
    if dtype.kind != "f" or not all(type(one) is float for one in flat):
        flat = [_entry(one, dtype.kind) for one in flat]
    array = np.array(flat, dtype).reshape(entries.shape)
    return np.asfortranarray(array) if order == "F" else array


def _array_of_bits(held: dict[str, Any]) -> Any:
    type_, order = held["type"], held["order"]
    shape = _conform(_built(held["shape"]), tuple[int, ...])
    bits = base64.b64decode(held["bits"], validate=True)
    whole = type_ in NUMBERS and order in ("C", "F") and min(shape, default=0) >= 0
    if not whole or math.prod(shape) * np.dtype(type_).itemsize != len(bits):
        raise ArchiveError(f"it holds {len(bits)} bytes for an array of the shape {list(shape)!r}")
    return np.frombuffer(bits, type_).copy().reshape(shape, order=order)


def _entry(value: Any, kind: str) -> Any:
    """Return an entry of an array, whose numbers are of a kind."""
    if kind == "f" and (value is None or value in ("inf", "-inf")):
        return math.nan if value is None else float(value)
    if kind == "b" and isinstance(value, bool):
        return value
    if kind in "iu" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "f" and isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number):
            return number
    raise ArchiveError(f"it holds an array of numbers with {_short(value)} in it")


def _conform(value: Any, expected: Any) -> Any:
    """Return a value if it is of the expected type, and raise otherwise."""
    origin, inside = get_origin(expected), get_args(expected)
    if hasattr(origin, "__value__"):
        # A named alias with its parameters filled in, as NumPy's NDArray is from 2.5 on.
        return _conform(value, origin.__value__[inside])
    if expected is Any:
        return value
    if origin in (Union, UnionType):
        for one in inside:
            try:
                return _conform(value, one)
            except ArchiveError:
                continue
    elif origin is Literal:
        if value in inside:
            return value
    elif expected in (None, NoneType):
        if value is None:
            return None
    elif expected is float:
        if isinstance(value, int | float | np.floating | np.integer) and not _is_bool(value):
            return float(value) if isinstance(value, int) else value
    elif expected is int:
        if isinstance(value, int | np.integer) and not _is_bool(value):
            return value
    elif origin is tuple:
        return _conform_tuple(value, inside)
    elif origin is np.ndarray:
        if isinstance(value, np.ndarray) and value.dtype == get_args(inside[1])[0]:
            return value
    elif isinstance(value, (Sequence, np.ndarray) if origin is Sequence else origin or expected):
        return value
    raise ArchiveError(f"{_short(value)} is of the wrong kind")


def _conform_tuple(value: Any, inside: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise ArchiveError(f"{_short(value)} is no list")
    kinds = (inside[0],) * len(value) if len(inside) == 2 and inside[1] is Ellipsis else inside
    if len(value) != len(kinds):
        raise ArchiveError(f"{len(value)} values where {len(kinds)} belong")
    return tuple(_conform(one, kind) for one, kind in zip(value, kinds, strict=True))


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _some(held: dict[str, Any]) -> str:
    return ", ".join(_short(key) for key in list(held)[:3]) or "nothing in it"


def _short(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**40:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

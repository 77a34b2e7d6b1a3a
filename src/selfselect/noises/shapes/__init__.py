"""Shapes of one alternative's noise, one file each; a file's name is the shape's name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from selfselect.errors import OptionError
from selfselect.noises.shapes.base import Grid, Shape

__all__ = ["Grid", "Shape", "find_shape", "shape_names"]


@cache
def shape_names() -> list[str]:
    """List the shapes there are."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return [name for name in found if name != "base" and not name.startswith("_")]


def find_shape(name: object) -> Shape:
    """Return the shape of that name.

    >>> from selfselect.noises.shapes import find_shape
    >>> find_shape("normal").log_concave
    True
    """
    if not isinstance(name, str) or (name != "normal" and name not in shape_names()):
        raise OptionError(f"There is no shape {name!r}. Use one of {', '.join(shape_names())}.")
    return _load_shape(name)


@cache
def _load_shape(name: str) -> Shape:
    shape: Shape = importlib.import_module(f"{__name__}.{name}").SHAPE
    return shape

"""Engines: where rows are held and summed over. Each is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfselect.engines.base import Engine
    from selfselect.engines.choose import engine_for
    from selfselect.engines.dask import Dask
    from selfselect.engines.memory import Memory
    from selfselect.engines.parquet import Parquet
    from selfselect.engines.torch import Torch

__all__ = ["Dask", "Engine", "Memory", "Parquet", "Torch", "engine_for"]

_HOMES = {
    "Dask": "dask",
    "Engine": "base",
    "Memory": "memory",
    "Parquet": "parquet",
    "Torch": "torch",
    "engine_for": "choose",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"selfselect.engines.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'selfselect.engines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Engines: where rows live and sums over them are done."""

from selfselect.engines.base import Engine
from selfselect.engines.choice import engine_for
from selfselect.engines.dask import Dask
from selfselect.engines.memory import Memory
from selfselect.engines.parquet import Parquet
from selfselect.engines.torch import Torch

__all__ = ["Dask", "Engine", "Memory", "Parquet", "Torch", "engine_for"]

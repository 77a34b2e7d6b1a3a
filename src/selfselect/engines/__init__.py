"""Engines: where rows live and sums over them are done."""

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory
from selfselect.engines.torch import Torch

__all__ = ["Engine", "Memory", "Torch"]

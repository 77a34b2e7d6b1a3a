"""Engines: where rows live and sums over them are done."""

from selfselect.engines.base import Engine
from selfselect.engines.memory import Memory

__all__ = ["Engine", "Memory"]

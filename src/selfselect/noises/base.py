"""The contract of noises: how outcomes scatter around their means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.rules.base import Label

__all__ = ["Noise"]

Array = NDArray[np.float64]


@runtime_checkable
class Noise(Protocol):
    """Anything that says how noise is distributed and draws from it."""

    @property
    def name(self) -> str:
        """A few words for summaries."""

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noise (n, k) with the given scales, in units of the outcome."""

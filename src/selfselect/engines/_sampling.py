"""Which rows a sample takes: the same ones on every engine."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = ["spread_evenly"]


def spread_evenly(n_rows: int, size: int, rng: Generator) -> NDArray[np.intp]:
    """Return one row at random from each of `size` equal stretches of `n_rows` rows.

    They are distinct and spread evenly, at a cost that does not grow with the data.
    """
    edges = np.arange(size + 1) * n_rows // size
    return rng.integers(edges[:-1], edges[1:])

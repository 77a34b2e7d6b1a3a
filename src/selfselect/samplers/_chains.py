"""Two persistent chains per row, and the sampler that suits each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.samplers.base import Draw, Sampler, Target
from selfselect.samplers.elliptical_slice import EllipticalSlice
from selfselect.samplers.icosahedral import Icosahedral

__all__ = ["Chains", "Walk"]

Array = NDArray[np.float64]

STUCK = 0.6
"""Share of steps without a move above which a row is handed to the slice sampler."""

FEWEST_STEPS = 8
"""Steps that must have been taken before their stillness is judged."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Where the chains of all rows stand, from one pass to the next.

    Attributes
    ----------
    latent : (2, n, k) two chains per row.
    narrow : (n,) rows in whose sets the icosahedral sampler hardly moves.
    sampler : of all rows; None for `Icosahedral`, and `EllipticalSlice` where sets are narrow.
    """

    latent: Array
    narrow: NDArray[np.bool_]
    sampler: Sampler | None

    @classmethod
    def starting_at(cls, latent: Array, sampler: Sampler | None) -> Chains:
        """Start both chains of every row at given points (2, n, k)."""
        return cls(latent, np.zeros(latent.shape[1], dtype=bool), sampler)

    def walk(self, target: Target, place: slice) -> Walk:
        """Take up the chains of the rows `place`."""
        return Walk(self, target, place)


class Walk:
    """The chains of some rows on their way through one pass."""

    def __init__(self, chains: Chains, target: Target, place: slice) -> None:
        n = len(target)
        self._chains, self._place, self._n = chains, place, n
        self._target = target.take(np.tile(np.arange(n), 2))
        self._latent = chains.latent[:, place].reshape(2 * n, -1)
        narrow = np.tile(chains.narrow[place], 2)
        self._narrow = np.flatnonzero(narrow)
        self._part = self._target.take(self._narrow)
        self._wide, self._slice = Icosahedral(), EllipticalSlice()
        self._moves, self._steps = np.zeros(2 * n), 0

    def step(self, rng: Generator) -> Draw:
        """Take one step with both chains of every row, the second below the first."""
        if self._chains.sampler is not None:
            for _ in range(self._chains.sampler.steps):
                draw = self._chains.sampler.step(self._target, self._latent, rng)
                self._latent = draw.latent
            return draw
        if len(self._narrow) == len(self._latent):
            draw = self._slice.step(self._target, self._latent, rng)
        else:
            draw = self._wide.step(self._target, self._latent, rng)
        if 0 < len(self._narrow) < len(self._latent):
            inner = self._slice.step(self._part, self._latent[self._narrow], rng)
            for name in ("latent", "first", "square"):
                getattr(draw, name)[self._narrow] = getattr(inner, name)
        self._moves += (draw.latent != self._latent).any(axis=1)
        self._steps += 1
        self._latent = draw.latent
        return draw

    def rest(self) -> None:
        """Leave the chains where they stand, and judge which rows are narrow."""
        self._chains.latent[:, self._place] = self._latent.reshape(2, self._n, -1)
        if self._chains.sampler is None and self._steps >= FEWEST_STEPS:
            still = 1.0 - self._moves.reshape(2, self._n).mean(axis=0) / self._steps
            self._chains.narrow[self._place] |= still > STUCK

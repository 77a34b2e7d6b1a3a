"""Two persistent chains per row, and the sampler that suits each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.samplers.antithetic import Antithetic
from selfselect.samplers.base import Draw, Sampler, Target
from selfselect.samplers.elliptical_slice import EllipticalSlice
from selfselect.samplers.gibbs import Gibbs

__all__ = ["Chains", "Walk"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

WIDE = Antithetic()

WIDE_AT_ONCE = 2_048
"""Chains stepped at once, so that all their points stay in cache."""

NARROW = 0.1
"""Share of the points looked at that are inside below which a row is better off on lines."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Where the chains of all rows stand, from one pass to the next.

    Attributes
    ----------
    latent : (2, n, k) two chains per row.
    narrow : (n,) rows whose sets most points of the antithetic sampler miss.
    sampler : of all rows; None for `Antithetic`, and `Gibbs` with `EllipticalSlice` where sets are
        narrow.
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
        self._latent = chains.latent[:, place].reshape(2 * n, -1).copy()
        self._sort()

    def _sort(self) -> None:
        narrow = np.tile(self._chains.narrow[self._place], 2)
        wide, self._narrow = np.flatnonzero(~narrow), np.flatnonzero(narrow)
        self._wide = self._parts(wide)
        self._narrow_target = self._target.take(self._narrow)

    def _parts(self, which: Indices) -> list[tuple[Indices, Target]]:
        starts = range(0, len(which), WIDE_AT_ONCE)
        parts = [which[at : at + WIDE_AT_ONCE] for at in starts]
        return [(part, self._target.take(part)) for part in parts]

    def follow(self, steps: int, rng: Generator) -> None:
        """Take steps after a change of parameters, and judge anew which rows are narrow."""
        if self._chains.sampler is not None:
            for _ in range(steps):
                self.step(rng)
        elif steps:
            share = np.zeros(2 * self._n)
            for part, target in self._parts(np.arange(2 * self._n)):
                for _ in range(steps):
                    draw, hits = WIDE.look(target, self._latent[part], rng)
                    share[part] += hits / (steps * (2 * WIDE.pairs + 1))
                    self._latent[part] = draw.latent
            self._chains.narrow[self._place] = share.reshape(2, -1).mean(axis=0) < NARROW
            self._sort()
            if self._narrow.size:
                # Most looks missed their sets, so these chains hardly moved.
                latent, target = self._latent[self._narrow], self._narrow_target
                for sampler in (EllipticalSlice(), Gibbs()):
                    latent = sampler.step(target, latent, rng).latent
                self._latent[self._narrow] = latent

    def step(self, rng: Generator) -> Draw:
        """Take one step with both chains of every row, the second below the first."""
        if self._chains.sampler is not None:
            for _ in range(self._chains.sampler.steps):
                draw = self._chains.sampler.step(self._target, self._latent, rng)
                self._latent = draw.latent
            return draw
        n, k = self._latent.shape
        control = None if self._target.correlation is not None else np.empty((k, k, n))
        draw = Draw(*np.empty((3, n, k)), control)
        for part, target in self._wide:
            draw.put(part, WIDE.step(target, self._latent[part], rng))
        if self._narrow.size:
            latent = self._latent[self._narrow]
            draw.put(self._narrow, Gibbs().step(self._narrow_target, latent, rng))
        self._latent = draw.latent
        return draw

    def rest(self) -> None:
        """Leave the chains where they stand."""
        self._chains.latent[:, self._place] = self._latent.reshape(2, self._n, -1)

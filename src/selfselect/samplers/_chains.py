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

MANY_ROWS = 20_000
"""Rows from which on a step looks at many points: fewer rows need more steps, of less each, since
one pair of draws per step measures what information is missing."""

MANY = ((0.0, Gibbs()), (0.1, Antithetic(48)), (0.4, Antithetic(24)), (0.7, Antithetic(12)))
FEW = ((0.0, Gibbs()), (0.04, Antithetic(6, more=2)))
"""The sampler of a row by the least share of its points inside: the fewer are, the more are needed,
and where next to none are it is better off on lines."""

AT_ONCE = 2_048
"""Chains stepped at once, so that all their points stay in cache."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Where the chains of all rows stand, from one pass to the next.

    Attributes
    ----------
    latent : (2, n, k) two chains per row.
    share : (n,) share of the points inside, of those that were looked at.
    sampler : of all rows; None for `Antithetic`, and `Gibbs` where sets are narrow.
    """

    latent: Array
    share: Array
    sampler: Sampler | None

    @classmethod
    def starting_at(cls, latent: Array, sampler: Sampler | None) -> Chains:
        """Start both chains of every row at given points (2, n, k)."""
        return cls(latent, np.full(latent.shape[1], 0.5), sampler)

    @property
    def samplers(self) -> tuple[tuple[float, Sampler], ...]:
        """The samplers of rows, each from a share of points inside on."""
        if self.sampler is not None:
            return ((0.0, self.sampler),)
        return MANY if self.latent.shape[1] >= MANY_ROWS else FEW

    @property
    def pairs(self) -> int:
        """Pairs of points that a step looks at, or is worth about."""
        return 24 if self.samplers is MANY else 6

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
        """Hand every row to its sampler, in parts that stay in cache."""
        limits = [limit for limit, _ in self._chains.samplers]
        kind = np.tile(np.searchsorted(limits, self._chains.share[self._place], "right") - 1, 2)
        self._parts: list[tuple[Sampler, Indices, Target]] = []
        for number, (_, sampler) in enumerate(self._chains.samplers):
            which = np.flatnonzero(kind == number)
            size = max(len(which), 1) if isinstance(sampler, Gibbs) else AT_ONCE
            for at in range(0, len(which), size):
                part = which[at : at + size]
                self._parts.append((sampler, part, self._target.take(part)))

    def follow(self, steps: int, rng: Generator) -> None:
        """Take steps after a change of parameters, and judge anew which sampler suits whom."""
        if self._chains.sampler is not None:
            for _ in range(steps):
                self.step(rng)
        elif steps:
            look = Antithetic(self._chains.pairs)
            hits = np.zeros(2 * self._n)
            for at in range(0, 2 * self._n, AT_ONCE):
                part = slice(at, at + AT_ONCE)
                target = self._target.take(part)
                for _ in range(steps):
                    draw, inside = look.look(target, self._latent[part], rng)
                    self._latent[part] = draw.latent
                    hits[part] += inside
            looks = steps * (2 * look.pairs + 1)
            self._chains.share[self._place] = hits.reshape(2, -1).mean(axis=0) / looks
            self._sort()
            for sampler, which, target in self._parts:
                if isinstance(sampler, Gibbs):
                    # Most looks missed these sets, so their chains hardly moved.
                    latent = EllipticalSlice().step(target, self._latent[which], rng).latent
                    self._latent[which] = sampler.step(target, latent, rng).latent

    def step(self, rng: Generator) -> Draw:
        """Take one step with both chains of every row, the second below the first."""
        if self._chains.sampler is not None:
            for _ in range(self._chains.sampler.steps):
                draw = self._chains.sampler.step(self._target, self._latent, rng)
                self._latent = draw.latent
            return draw
        n, k = self._latent.shape
        more = np.empty((2, n, k)) if self._chains.samplers is FEW else None
        control = None if self._target.correlation is not None else np.empty((k, k, n))
        latent, first, square = np.empty((3, n, k))
        draw = Draw(latent, first, square, more, control)
        for sampler, which, target in self._parts:
            draw.put(which, sampler.step(target, self._latent[which], rng))
        self._latent = draw.latent
        return draw

    def rest(self) -> None:
        """Leave the chains where they stand."""
        self._chains.latent[:, self._place] = self._latent.reshape(2, self._n, -1)

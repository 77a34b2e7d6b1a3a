"""Many normal points around the mean, each with its mirror image, and all of those inside used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.samplers.base import Draw, Target, find_inside

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

PAIRS_AT_ONCE = 6
"""Pairs that are looked at in one call of the rule, so that points stay in cache."""


@dataclass(frozen=True)
class Antithetic:
    r"""Look at fresh points and their mirror images and go to any of those inside.

    With the present deviation :math:`z - \mu` and fresh normal ones :math:`\nu_p`, the points are
    :math:`\mu \pm (z - \mu)` and :math:`\mu \pm \nu_p`. Their joint normal distribution does not
    change if signs are turned or pairs exchanged, so given the points each of those inside is
    equally likely to be the present one: to choose any of them at random leaves the target exactly
    invariant, and the mean over all of them is a conditional expectation, which scatters far less
    than the point chosen. Where a set holds little of the mass most points miss it, and
    `Gibbs` is better.

    Parameters
    ----------
    pairs : fresh points of a step, not counting mirror images.
    more : further points to choose, which measure the variance inside at next to no cost.
    """

    pairs: int = 24
    more: int = 0

    requires: ClassVar[tuple[type, ...]] = ()
    exact: ClassVar[bool] = False
    steps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise OptionError(f"pairs={self.pairs!r} must be at least 1.")
        if self.more < 0:
            raise OptionError(f"more={self.more!r} must not be negative.")

    def init(self, target: Target, rng: Generator) -> Array:
        return find_inside(target, rng)

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        return self.look(target, latent, rng)[0]

    def look(self, target: Target, latent: Array, rng: Generator) -> tuple[Draw, Array]:
        """Take a step, and say how many (n,) of the other points were inside."""
        n, k = latent.shape
        present = latent - target.center
        mirror = target.center - present
        mirrored = target.contains(mirror)
        count = 1.0 + mirrored
        first = np.where(mirrored, 0.0, present.T)
        square = present.T**2 * count
        products = np.zeros((k, k, n)) if target.correlation is None else None
        for done in range(0, self.pairs, PAIRS_AT_ONCE):
            noise = target.deviations(rng, min(PAIRS_AT_ONCE, self.pairs - done))
            both = np.empty((2, *noise.shape))
            np.add(target.center, noise, out=both[0])
            np.subtract(target.center, noise, out=both[1])
            points = both.reshape(-1, n, k)
            inside = target.contains(points)
            # Sums over pairs are several times faster with rows next to each other.
            fresh = np.ascontiguousarray(noise.transpose(2, 0, 1))
            hits = inside.astype(np.float64).reshape(2, -1, n)
            first += np.einsum("pn,kpn->kn", hits[0] - hits[1], fresh)
            either = hits[0] + hits[1]
            square += np.einsum("pn,kpn,kpn->kn", either, fresh, fresh)
            count += either.sum(axis=0)
            if products is not None:
                for a in range(k):
                    for b in range(a, k):
                        products[a, b] += np.einsum("pn,pn->n", fresh[a], fresh[b])
        # To choose from the last points and the present pair alone is as valid, and cheaper.
        moved = _choose(1 + self.more, latent, mirror, mirrored, inside, points, rng)
        # Rounding must not move what was observed.
        moved[:, np.arange(n), target.chosen] = target.outcome
        control = self._control(products, target)
        more = moved[1:] if self.more else None
        draw = Draw(moved[0], (first / count).T, (square / count).T, more, control)
        return draw, np.asarray(count - 1.0, dtype=np.float64)

    def _control(self, products: Array | None, target: Target) -> Array | None:
        """Return mean products of the fresh deviations less their expectations, (k, k, n)."""
        if products is None:
            return None
        products /= self.pairs
        for a in range(len(products)):
            products[a, a] -= target.spread[:, a] ** 2
            products[a + 1 :, a] = products[a, a + 1 :]
        return products


def _choose(
    times: int,
    latent: Array,
    mirror: Array,
    mirrored: Mask,
    inside: Mask,
    points: Array,
    rng: Generator,
) -> Array:
    """Return points (times, n, k), each any of those inside, all as likely."""
    below = np.cumsum(inside, axis=0, dtype=np.int16)
    number = rng.random((times, len(latent))) * (1 + mirrored + below[-1])
    number = number.astype(np.int16)
    each = np.arange(len(latent))
    moved = np.empty((times, *latent.shape))
    for one, place in zip(number, moved, strict=True):
        at = np.minimum((below <= one).sum(axis=0), len(inside) - 1)
        place[:] = points[at, each]
        stays, turned = one == below[-1], one > below[-1]
        place[stays], place[turned] = latent[stays], mirror[turned]
    return moved

"""Markov chains by row: run, steadied by control variates, and diagnosed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.samplers.antithetic import Antithetic
from selfselect.samplers.base import Draw, Sampler, Target
from selfselect.samplers.elliptical_slice import EllipticalSlice
from selfselect.samplers.gibbs import Gibbs

Array = NDArray[np.float64]


# Two persistent chains per row, and the sampler that suits each row.

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


# Control variates: what is known to have expectation zero, taken out of what was drawn.
#
# A step looks at fresh normal deviations :math:`\nu`, some of them inside of the explaining set.
# The mean of products :math:`\nu_a \nu_b` over all of them is known, so by how much it was missed
# says by how much the means over those inside were. The best coefficient for the mean of
# :math:`z_j` is its covariance with the product inside of the set, over the product's variance
# outside. It is taken as if each outcome had one bound of its own, :math:`z_j < b_j`: then all
# such covariances follow from the first two moments. Where that is wrong less scatter is removed,
# and no bias comes in: coefficients of one chain come from the other, which is independent of it.


SMALLEST, FARTHEST_BOUND = 1e-3, 20.0
"""Means and bounds, in standard deviations, that the formulas below are kept from passing."""

LARGEST = (0.6, 1.5)
"""Coefficients of the squares for means and for means of squares: halves of one-sided normals."""


def controlled(first: Array, square: Array, control: Array, spread: Array) -> tuple[Array, Array]:
    """Return both chains' mean deviations and squares (2, n, k) with less scatter.

    Parameters
    ----------
    first, square : (2, n, k) means over the steps of either chain.
    control : (2, k, k, n) means of what has expectation zero.
    spread : (n, k) standard deviations.
    """
    unit = np.where(spread > 0, spread, 1.0)
    scaled = control / (unit.T[:, None] * unit.T[None, :])
    means, squares = first[::-1] / unit, square[::-1] / unit**2
    safe = np.where(np.abs(means) < SMALLEST, np.copysign(SMALLEST, means), means)
    bound = np.clip((squares - 1.0) / safe, -FARTHEST_BOUND, FARTHEST_BOUND)
    with_square = np.clip(0.5 * means * (2.0 + bound**2 - squares), -LARGEST[0], LARGEST[0])
    fourth = 3.0 - (bound**2 + 3.0) * (1.0 - squares)
    own_square = np.clip(0.5 * (fourth - squares**2), 0.0, LARGEST[1])
    variance = np.clip(squares - means**2, 0.0, 1.0)
    own = np.einsum("cjjn->cnj", scaled)
    # What the other outcomes' products with this one say, each as far as that one is bounded.
    others = np.einsum("cjln,cnl->cnj", scaled, means) - own * means
    first = first - unit * (with_square * own + variance * others)
    square = square - unit**2 * (own_square * own + 2.0 * with_square * others)
    return first, square


# How well chains have mixed: effective sample size and split R-hat.


def split_r_hat(draws: Array) -> Array:
    """Compare the spread between half chains with that within: 1 where they agree.

    Parameters
    ----------
    draws : (chains, steps, ...) of any number of quantities, with 4 steps or more.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.samplers import split_r_hat
    >>> draws = np.random.default_rng(0).standard_normal((4, 1000))
    >>> bool(abs(split_r_hat(draws) - 1) < 0.01)
    True
    """
    halves = _split(draws)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = length * halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ((length - 1) / length * within + between / length) / within
    # Chains that never move and agree have nothing to disagree about.
    return np.sqrt(np.where((within == 0) & (between == 0), 1.0, ratio))


def effective_sample_size(draws: Array) -> Array:
    """Count the independent draws that would give means as precise as these chains'.

    Autocorrelations are summed in pairs while they stay positive and fall (Geyer 1992).

    Parameters
    ----------
    draws : (chains, steps, ...) of any number of quantities, with 4 steps or more.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.samplers import effective_sample_size
    >>> draws = np.random.default_rng(0).standard_normal((2, 1000))
    >>> bool(1500 < effective_sample_size(draws) < 2600)
    True
    """
    halves = _split(draws)
    n_chains, length = halves.shape[:2]
    centred = halves - halves.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, n=2 * length, axis=1)
    covariance = np.fft.irfft(padded * padded.conj(), n=2 * length, axis=1)[:, :length] / length
    covariance = covariance.mean(axis=0)
    within = covariance[0] * length / (length - 1)
    total = (length - 1) / length * within + halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1.0 - (within - covariance * length / (length - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[0 : length - 1 : 2] + correlation[1:length:2]
    pairs = np.minimum.accumulate(np.where(np.isfinite(pairs), pairs, 0.0), axis=0)
    positive = np.cumprod(pairs > 0, axis=0)
    time = -1.0 + 2.0 * (pairs * positive).sum(axis=0)
    return np.asarray(n_chains * length / np.maximum(time, 1.0 / np.log10(n_chains * length)))


def _split(draws: Array) -> Array:
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise OptionError(
            f"Diagnostics need draws of shape (chains, steps, ...) with 4 steps or more, not "
            f"{draws.shape}."
        )
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, half : 2 * half]])

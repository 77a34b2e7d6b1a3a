"""Exact draws and exact moments where explaining sets are boxes and noise is independent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.kernels.tails import interval_terms, log_cdf, ndtri_exp
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules.base import HasBounds
from selfselect.samplers.base import Draw, Target, require_capability

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BoxExact:
    """Draw every latent outcome from its truncated normal distribution.

    Parameters
    ----------
    moments : whether a step also gives the exact conditional mean and square, instead of those of
        its draw.
    """

    moments: bool = True

    requires: ClassVar[tuple[type, ...]] = (HasBounds,)
    exact: ClassVar[bool] = True
    steps: ClassVar[int] = 1

    def init(self, target: Target, rng: Generator) -> Array:
        low, high = _standardised_bounds(self, target)
        # Reflected where the right side is the near one, so that all is done in left tails.
        flip = np.isposinf(high) | ((low > 0) & np.isfinite(low))
        left, right = np.where(flip, -high, low), np.where(flip, -low, high)
        log_right, log_left = log_cdf(right), log_cdf(left)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mass = log_right + np.log(-np.expm1(log_left - log_right))
        log_mass = np.where(np.isneginf(log_left), log_right, log_mass)
        uniform = np.log(rng.random(low.shape))
        with np.errstate(invalid="ignore"):
            z = ndtri_exp(np.logaddexp(uniform + log_mass, log_left))
        z = np.clip(np.where(flip, -z, z), low, high)
        return target.center + np.where(target.spread > 0, target.scales * z, 0.0)

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        del latent
        drawn = self.init(target, rng)
        if not self.moments:
            return Draw.at(target, drawn)
        low, high = _standardised_bounds(self, target)
        first, square = np.zeros_like(low), np.ones_like(low)
        for side, bound, one_sided in (
            (1.0, high, np.isneginf(low) & np.isfinite(high)),
            (-1.0, low, np.isposinf(high) & np.isfinite(low)),
        ):
            a = side * bound[one_sided]
            ratio = NORMAL.below(a).slope
            first[one_sided] = -side * ratio
            square[one_sided] = 1.0 - a * ratio
        both = np.isfinite(low) & np.isfinite(high)
        if both.any():
            a, b = low[both], high[both]
            mass = interval_terms(a, b)
            first[both] = mass.lower_density - mass.upper_density
            square[both] = 1.0 + a * mass.lower_density - b * mass.upper_density
        spread = target.spread
        return Draw(drawn, first * spread, square * spread * spread)


def _standardised_bounds(sampler: BoxExact, target: Target) -> tuple[Array, Array]:
    require_capability(sampler, target)
    if target.correlation is not None:
        raise UnsupportedError(
            "BoxExact draws the outcomes one by one, which is exact for independent noise only. "
            "Use EllipticalSlice."
        )
    lower, upper = target.rule.bounds(target.chosen, target.outcome, target.known)
    with np.errstate(invalid="ignore"):
        low = np.broadcast_to((lower - target.means) / target.scales, target.means.shape).copy()
        high = np.broadcast_to((upper - target.means) / target.scales, target.means.shape).copy()
    still = target.spread == 0
    low[still], high[still] = -np.inf, np.inf
    return low, high

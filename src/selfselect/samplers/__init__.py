"""Samplers: draws of latent outcomes given what was recorded."""

from selfselect.samplers.antithetic import Antithetic
from selfselect.samplers.base import Draw, Sampler, Target
from selfselect.samplers.box_exact import BoxExact
from selfselect.samplers.chains import effective_sample_size, split_r_hat
from selfselect.samplers.elliptical_slice import EllipticalSlice
from selfselect.samplers.gibbs import Gibbs
from selfselect.samplers.projected_langevin import ProjectedLangevin
from selfselect.samplers.rejection import Rejection

__all__ = [
    "Antithetic",
    "BoxExact",
    "Draw",
    "EllipticalSlice",
    "Gibbs",
    "ProjectedLangevin",
    "Rejection",
    "Sampler",
    "Target",
    "effective_sample_size",
    "split_r_hat",
]

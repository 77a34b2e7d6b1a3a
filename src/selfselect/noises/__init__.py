"""Noises: how the outcomes scatter around their means."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError
from selfselect.noises.base import Noise
from selfselect.noises.independent import Independent
from selfselect.noises.known_covariance import KnownCovariance

__all__ = ["Independent", "KnownCovariance", "Noise", "as_noise"]


def as_noise(noise: Any) -> Independent | KnownCovariance:
    """Make a noise of None (independent, one scale per alternative) or a noise object."""
    if noise is None:
        return Independent()
    if not isinstance(noise, Independent | KnownCovariance):
        raise OptionError(
            f"{noise!r} is not a noise. Use selfselect.noises.Independent(scale=...) or "
            "selfselect.noises.KnownCovariance(matrix)."
        )
    return noise

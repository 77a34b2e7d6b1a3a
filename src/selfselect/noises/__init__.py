"""Noises: how the outcomes scatter around their means."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError
from selfselect.noises.base import Noise
from selfselect.noises.correlated import Correlated
from selfselect.noises.independent import Independent
from selfselect.noises.known_covariance import KnownCovariance
from selfselect.noises.shared_shock import SharedShock

__all__ = [
    "NAMED",
    "Correlated",
    "Independent",
    "KnownCovariance",
    "Noise",
    "SharedShock",
    "as_noise",
]

NAMED: dict[str, Any] = {
    "independent": Independent,
    "correlated": Correlated,
    "shared shock": SharedShock,
}


def as_noise(noise: Any) -> Noise:
    """Make a noise of None (independent, one scale per alternative), a name, or a noise."""
    if noise is None:
        return Independent()
    if isinstance(noise, str) and noise.replace("-", " ") in NAMED:
        return NAMED[noise.replace("-", " ")]()
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise OptionError(
            f"{noise!r} is not a noise. Use 'independent', 'correlated' or 'shared shock', or an "
            "object such as selfselect.noises.Correlated(scale='common')."
        )
    return noise

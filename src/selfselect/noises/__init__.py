"""Noises: the distribution of outcomes around their means."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError
from selfselect.noises.base import FittedNoise, Noise
from selfselect.noises.correlated import Correlated
from selfselect.noises.independent import Independent
from selfselect.noises.known_covariance import KnownCovariance
from selfselect.noises.mixture import Mixture
from selfselect.noises.selection import Selection, SelectionSign, TwoSteps
from selfselect.noises.shared_shock import SharedShock
from selfselect.noises.student import Student
from selfselect.noises.types import Types

__all__ = [
    "FITTED",
    "NAMED",
    "Correlated",
    "FittedNoise",
    "Independent",
    "KnownCovariance",
    "Mixture",
    "Noise",
    "Selection",
    "SelectionSign",
    "SharedShock",
    "Student",
    "TwoSteps",
    "Types",
    "as_drawn_noise",
    "as_noise",
]

NAMED: dict[str, Any] = {
    "independent": Independent,
    "correlated": Correlated,
    "shared shock": SharedShock,
    "mixture": Mixture,
    "student": Student,
    "types": Types,
}


FITTED = (
    Independent, Mixture, Student, Correlated, SharedShock, Types, KnownCovariance, Selection,
    SelectionSign, TwoSteps,
)  # fmt: skip
"""Noises that there is a likelihood for. One that derives from them would be fitted as if it were
its parent, and printed under a name of its own."""


def as_noise(noise: Any) -> FittedNoise:
    """Make a noise that there is a likelihood for, of a name or a noise; None is independent."""
    noise = as_drawn_noise(noise)
    if type(noise) not in FITTED:
        known = ", ".join(one.__name__ for one in FITTED)
        raise OptionError(
            f"There is no likelihood for {type(noise).__name__} ({noise.name}), so it cannot be "
            f"fitted, only drawn from. Noises that can be fitted are {known} of selfselect.noises."
        )
    fitted: FittedNoise = noise
    return fitted.plainest()


def as_drawn_noise(noise: Any) -> Any:
    """Make a noise to draw from of None (independent, a scale each), a name, or a noise."""
    if noise is None:
        return Independent()
    if isinstance(noise, str) and noise.replace("-", " ") in NAMED:
        return NAMED[noise.replace("-", " ")]()
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise OptionError(
            f"{noise!r} is not a noise. Use 'independent', 'correlated', 'shared shock' or "
            "'types', or an object such as selfselect.noises.Correlated(scale='common') (call the "
            "class: Independent(), not Independent)."
        )
    return noise

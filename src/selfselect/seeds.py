"""Seeds of everything random: whole numbers from 0 on."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from selfselect.errors import OptionError

if TYPE_CHECKING:
    from numpy.random import Generator


def check_seed(seed: Any, *, optional: bool = False) -> int:
    """Return a seed as a number, and refuse anything that is none; None is 0 where `optional`."""
    if optional and seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed={seed!r} is not a seed. Give a whole number from 0 on.")
    return int(seed)


def generator(seed: Any, *stream: int) -> Generator:
    """Return random numbers that a seed determines, those of one of its streams where given."""
    import numpy as np

    number = check_seed(seed)
    return np.random.default_rng([number, *stream] if stream else number)

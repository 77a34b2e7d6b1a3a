"""What a user asks of bounds, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from selfselect.errors import OptionError

__all__ = ["Asked", "read_asked"]


@dataclass(frozen=True, eq=False)
class Asked:
    """What a user asks of bounds.

    Attributes
    ----------
    quantiles : between 0 and 1.
    points : values of distribution functions; None to have them chosen.
    support : as given.
    level : of confidence.
    """

    quantiles: tuple[float, ...]
    points: Any
    support: Any
    level: float


def read_asked(quantiles: Any, points: Any, support: Any, level: float) -> Asked:
    """Check what was given."""
    given = np.atleast_1d(np.asarray(quantiles, dtype=object)).tolist()
    if not given or not all(_number(q) and 0.0 < q < 1.0 for q in given):
        raise OptionError(f"quantiles={quantiles!r} must be numbers between 0 and 1.")
    if points is not None:
        listed = np.atleast_1d(np.asarray(points, dtype=object)).tolist()
        if not listed or not all(_number(y) and np.isfinite(y) for y in listed):
            raise OptionError(f"points={points!r} must be values of the outcome.")
        points = [float(y) for y in listed]
    if not (_number(level) and 0.0 < level < 1.0):
        raise OptionError(f"level={level!r} must lie between 0 and 1, as 0.95 does.")
    return Asked(tuple(float(q) for q in given), points, support, float(level))


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)

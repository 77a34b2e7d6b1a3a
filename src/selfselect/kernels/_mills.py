"""The inverse Mills ratio of one number, for kernels that take atoms one by one."""

from __future__ import annotations

import math

from selfselect.kernels._compile import inlined
from selfselect.kernels._scalars import HALF_LOG_TWO_PI, INV_SQRT_TWO_PI, gap_at

__all__ = ["mills"]


@inlined
def mills(b):  # type: ignore[no-untyped-def]
    """Return log Φ(b), λ(b) and d(b) = λ (λ + b)."""
    x = abs(b)
    gap = gap_at(x)
    left = x + gap
    if b <= 0.0:
        return -0.5 * x * x - HALF_LOG_TWO_PI - math.log(left), left, left * gap
    density = INV_SQRT_TWO_PI * math.exp(-0.5 * x * x)
    ratio = density * left / (left - density)
    return math.log1p(-density / left), ratio, ratio * (ratio + x)

"""The elementary functions of `_scalars` for kernels on a card: free of branches, in registers.

Each is written as there, step by step; the comments there say why. What the card's mathematics
library offers is right as well, but takes several times longer.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

import math
import struct
from typing import Any

import triton
import triton.language as tl

from selfselect.kernels import _erfcx

__all__ = ["exponential", "gap_at", "log_of_quotient", "split"]


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


GAP: Any = tl.constexpr(_erfcx.GAP)
EXP: Any = tl.constexpr(_erfcx.EXP)
LOG: Any = tl.constexpr(_erfcx.LOG)
CENTRE: Any = tl.constexpr(_erfcx.CENTRE)

HALF_LOG_TWO_PI: Any = tl.constexpr(0.5 * math.log(2.0 * math.pi))
INV_SQRT_TWO_PI: Any = tl.constexpr(1.0 / math.sqrt(2.0 * math.pi))
LN2: Any = tl.constexpr(math.log(2.0))
INV_LN2: Any = tl.constexpr(1.0 / math.log(2.0))
LN2_HIGH: Any = tl.constexpr(6.93147180369123816490e-01)
LN2_LOW: Any = tl.constexpr(1.90821492927058770002e-10)
ROUNDER: Any = tl.constexpr(1.5 * 2.0**52)
ROUNDER_BITS: Any = tl.constexpr(_bits(1.5 * 2.0**52))
ONE_BITS: Any = tl.constexpr(_bits(1.0))
SQRT_HALF_BITS: Any = tl.constexpr(_bits(math.sqrt(0.5)))
SMALLEST_EXPONENT: Any = tl.constexpr(-708.0)


@triton.jit
def gap_at(x):
    """Evaluate λ(-x) - x for x >= 0."""
    reciprocal = 1.0 / (x + CENTRE)
    u = (x - CENTRE) * reciprocal
    v = u * u
    even = v * GAP[26] + GAP[24]
    odd = v * GAP[25] + GAP[23]
    for i in tl.static_range(2, 13):
        even = even * v + GAP[26 - 2 * i]
        odd = odd * v + GAP[25 - 2 * i]
    even = even * v + GAP[0]
    return (odd * u + even) * reciprocal


@triton.jit
def exponential(exponent):
    """Evaluate exp of a number that is not positive."""
    bounded = tl.maximum(exponent, SMALLEST_EXPONENT)
    rounded = bounded * INV_LN2 + ROUNDER
    power = rounded - ROUNDER
    rest = (bounded - power * LN2_HIGH) - power * LN2_LOW
    square = rest * rest
    even = square * EXP[10] + EXP[8]
    odd = square * EXP[11] + EXP[9]
    for i in tl.static_range(2, 6):
        even = even * square + EXP[10 - 2 * i]
        odd = odd * square + EXP[11 - 2 * i]
    scale = ((rounded.to(tl.int64, bitcast=True) << 52) + ONE_BITS).to(tl.float64, bitcast=True)
    return tl.where(exponent >= SMALLEST_EXPONENT, (odd * rest + even) * scale, 0.0)


@triton.jit
def split(number):
    """Write a positive number as m 2^n with m in [√½, √2); return m and n."""
    bits = number.to(tl.int64, bitcast=True)
    whole = (bits - SQRT_HALF_BITS) >> 52
    mantissa = (bits - (whole << 52)).to(tl.float64, bitcast=True)
    return mantissa, (whole + ROUNDER_BITS).to(tl.float64, bitcast=True) - ROUNDER


@triton.jit
def log_of_quotient(s):
    """Evaluate log((1 + s)/(1 - s))."""
    z = s * s
    series = z * LOG[7] + LOG[6]
    for i in tl.static_range(2, 8):
        series = series * z + LOG[7 - i]
    return 2.0 * s + s * z * series

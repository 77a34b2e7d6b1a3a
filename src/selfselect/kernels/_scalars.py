r"""The fused kernels' elementary functions of one number, free of branches and of library calls.

Each is inlined into the loop that calls it; a call into the mathematics library would keep the
loop from being vectorised.

Everything wanted of a censored row follows from :math:`\lambda(a) = \phi(a)/\Phi(a)`. The usual
road is erfcx, :math:`\lambda(-x) = \sqrt{2/\pi}/\mathrm{erfcx}(x/\sqrt 2)` for :math:`x \ge 0`.
But λ(-x) is x + 1/x - ..., so the curvature :math:`d = \lambda (\lambda - x)` cancels: at
x = 1000 six digits are gone, and the far tail needs a branch of its own. Here the *gap* is
approximated instead:

.. math:: \gamma(x) = \lambda(-x) - x, \qquad (x + K)\,\gamma(x) = \text{polynomial in }
          u = \frac{x - K}{x + K},

by the map of Shepherd and Laframboise (1981), which takes the half line to [-1, 1). The left side
is 0.8 K at zero, one at infinity and smooth between; degree 26 gives it to the last digits. (Its
poles, the zeros of erfc, cost three degrees over erfcx, which has none.) Then λ = x + γ and
d = λ γ are sums and products of positive numbers: right to a few ulps at any distance, by one
formula, with one division and no branch. On the other side of zero, with :math:`e = \phi(x)`,

.. math:: \Phi(-x) = \frac{e}{\lambda(-x)}, \quad
          \lambda(x) = \frac{e\,\lambda(-x)}{\lambda(-x) - e}, \quad
          d = \lambda(x) (\lambda(x) + x), \quad \log\Phi(x) = \log(1 - \Phi(-x)),

and on the left :math:`\log\Phi(-x) = -x^2/2 - \log\sqrt{2\pi} - \log\lambda(-x)`. So a row takes
one exponential and one logarithm.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from selfselect.kernels._compile import inlined
from selfselect.kernels._erfcx import CENTRE, EXP, GAP, LOG

__all__ = [
    "HALF_LOG_TWO_PI", "INV_SQRT_TWO_PI", "LN2", "exponential", "gap_at",
    "log_of_quotient", "split",
]  # fmt: skip

HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
INV_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)

INV_LN2: Final = 1.0 / math.log(2.0)
LN2: Final = math.log(2.0)
LN2_HIGH: Final = 6.93147180369123816490e-01
LN2_LOW: Final = 1.90821492927058770002e-10
"""log 2 in two parts; the first ends in zeros, so its product with an exponent is exact."""

ROUNDER: Final = 1.5 * 2.0**52
"""Adding this leaves no room for a fraction: the low bits become the nearest integer."""
ROUNDER_BITS: Final = int(np.float64(ROUNDER).view(np.int64))
ONE_BITS: Final = int(np.float64(1.0).view(np.int64))
SQRT_HALF_BITS: Final = int(np.float64(math.sqrt(0.5)).view(np.int64))
SMALLEST_EXPONENT: Final = -708.0
"""exp underflows (nearly) left of this, and is taken as zero there."""


@inlined
def gap_at(x):  # type: ignore[no-untyped-def]
    """Evaluate λ(-x) - x for x >= 0."""
    reciprocal = 1.0 / (x + CENTRE)
    u = (x - CENTRE) * reciprocal
    # Even and odd powers apart: two chains of half the length run side by side.
    v = u * u
    even = GAP[26]
    even = even * v + GAP[24]
    even = even * v + GAP[22]
    even = even * v + GAP[20]
    even = even * v + GAP[18]
    even = even * v + GAP[16]
    even = even * v + GAP[14]
    even = even * v + GAP[12]
    even = even * v + GAP[10]
    even = even * v + GAP[8]
    even = even * v + GAP[6]
    even = even * v + GAP[4]
    even = even * v + GAP[2]
    even = even * v + GAP[0]
    odd = GAP[25]
    odd = odd * v + GAP[23]
    odd = odd * v + GAP[21]
    odd = odd * v + GAP[19]
    odd = odd * v + GAP[17]
    odd = odd * v + GAP[15]
    odd = odd * v + GAP[13]
    odd = odd * v + GAP[11]
    odd = odd * v + GAP[9]
    odd = odd * v + GAP[7]
    odd = odd * v + GAP[5]
    odd = odd * v + GAP[3]
    odd = odd * v + GAP[1]
    return (odd * u + even) * reciprocal


@inlined
def exponential(exponent):  # type: ignore[no-untyped-def]
    """Evaluate exp of a number that is not positive, split into a power of two and the rest."""
    bounded = max(exponent, SMALLEST_EXPONENT)
    rounded = bounded * INV_LN2 + ROUNDER
    power = rounded - ROUNDER
    rest = (bounded - power * LN2_HIGH) - power * LN2_LOW
    square = rest * rest
    even = EXP[10]
    even = even * square + EXP[8]
    even = even * square + EXP[6]
    even = even * square + EXP[4]
    even = even * square + EXP[2]
    even = even * square + EXP[0]
    odd = EXP[11]
    odd = odd * square + EXP[9]
    odd = odd * square + EXP[7]
    odd = odd * square + EXP[5]
    odd = odd * square + EXP[3]
    odd = odd * square + EXP[1]
    scale = np.int64((np.float64(rounded).view(np.int64) << 52) + ONE_BITS).view(np.float64)
    return (odd * rest + even) * scale if exponent >= SMALLEST_EXPONENT else 0.0


@inlined
def split(number):  # type: ignore[no-untyped-def]
    """Write a positive number as m 2^n with m in [√½, √2); return m and n."""
    bits = np.float64(number).view(np.int64)
    whole = (bits - SQRT_HALF_BITS) >> 52
    mantissa = np.int64(bits - (whole << 52)).view(np.float64)
    return mantissa, np.int64(whole + ROUNDER_BITS).view(np.float64) - ROUNDER


@inlined
def log_of_quotient(s):  # type: ignore[no-untyped-def]
    """Evaluate log((1 + s)/(1 - s)) = 2 artanh s, which is log(1 + f) for s = f/(2 + f).

    It starts from f rather than from 1 + f, so it is right to all digits of an f however small.
    """
    z = s * s
    series = LOG[7]
    series = series * z + LOG[6]
    series = series * z + LOG[5]
    series = series * z + LOG[4]
    series = series * z + LOG[3]
    series = series * z + LOG[2]
    series = series * z + LOG[1]
    series = series * z + LOG[0]
    return 2.0 * s + s * z * series

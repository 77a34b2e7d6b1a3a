"""Make the constants of `selfselect/kernels/tails.py`: run it, and it prints that file.

`kernels/native/normal.hpp` holds the same constants, and a test compares both.

Three functions of one variable are interpolated at Chebyshev nodes in 60 digits, converted to
monomials in the same precision, and only then rounded to doubles:

* the gap λ(-x) - x between the inverse Mills ratio and its asymptote, on the whole half line;
* the exponential, within half a power of two of one;
* the logarithm, as the series of its inverse hyperbolic tangent.

`python experiments/erfcx_polynomial.py --check` instead evaluates the stored constants in
doubles against mpmath and prints the largest relative errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import mpmath as mp  # type: ignore[import-untyped]

mp.mp.dps = 60

CENTRE = mp.mpf("3.5")
"""Where the map (x - K)/(x + K) has its zero.

The gap has poles at the zeros of erfc, the nearest at x = -1.9 ± 2.8i, of modulus 3.4. A centre
at that modulus puts their images furthest from [-1, 1], on the imaginary axis. Among multiples
of one half it has the smallest error at the degree below.
"""

GAP_DEGREE = 26
EXP_DEGREE = 11
LOG_DEGREE = 7

Real = Callable[[mp.mpf], mp.mpf]


def chebyshev_fit(function: Real, degree: int, low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    """Interpolate at Chebyshev nodes of [low, high]; return monomials, constant first."""
    count = degree + 1
    angles = [mp.pi * (2 * j + 1) / (2 * count) for j in range(count)]
    middle, half = (high + low) / 2, (high - low) / 2
    values = [function(middle + half * mp.cos(angle)) for angle in angles]
    series = [
        2 * mp.fsum(v * mp.cos(k * t) for v, t in zip(values, angles, strict=True)) / count
        for k in range(count)
    ]
    series[0] /= 2
    # T_k in monomials of the argument itself, by T_{k+1} = 2 y T_k - T_{k-1}.
    slope, offset = 1 / half, -middle / half
    before, current = [mp.mpf(1)], [offset, slope]
    total = [mp.mpf(0)] * count
    for k in range(count):
        for power, coefficient in enumerate(before):
            total[power] += series[k] * coefficient
        after = [mp.mpf(0)] * (len(current) + 1)
        for power, coefficient in enumerate(current):
            after[power] += 2 * offset * coefficient
            after[power + 1] += 2 * slope * coefficient
        for power, coefficient in enumerate(before):
            after[power] -= coefficient
        before, current = current, after
    return total


def gap(x: mp.mpf) -> mp.mpf:
    """λ(-x) - x, from erfc; the digits that cancel are far fewer than those carried."""
    scaled = mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2))
    return mp.sqrt(2 / mp.pi) / scaled - x


def mapped_gap(u: mp.mpf) -> mp.mpf:
    """(x + K) gap(x), which tends to one at infinity, in the variable u = (x - K)/(x + K)."""
    x = CENTRE * (1 + u) / (1 - u)
    return (x + CENTRE) * gap(x)


def log_tail(z: mp.mpf) -> mp.mpf:
    """(2 atanh(s)/s - 2)/s² at s² = z, so that log((1+s)/(1-s)) = 2 s + s³ log_tail(s²)."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def fitted() -> dict[str, list[mp.mpf]]:
    """Fit the three polynomials."""
    half_step = mp.log(2) / 2 * mp.mpf("1.0001")
    widest = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
    return {
        "GAP": chebyshev_fit(mapped_gap, GAP_DEGREE, mp.mpf(-1), mp.mpf(1)),
        "EXP": chebyshev_fit(mp.exp, EXP_DEGREE, -half_step, half_step),
        "LOG": chebyshev_fit(log_tail, LOG_DEGREE, mp.mpf(0), widest),
    }


def module_text() -> str:
    """Write the constants as a module."""
    notes = {
        "GAP": '"""(x + K) (λ(-x) - x) in powers of (x - K)/(x + K), constant first, x >= 0."""',
        "EXP": '"""exp(r) in powers of r, constant first, for |r| <= log(2)/2."""',
        "LOG": '"""(log((1+s)/(1-s)) - 2 s)/s³ in powers of s², constant first, |s| < 0.1716."""',
    }
    lines = [
        '"""Polynomials for erfcx, exp and log; `experiments/erfcx_polynomial.py` makes them.',
        "",
        "With x = t √2, erfcx(t) = √(2/π) / (x + gap(x)), and the gap is what is stored: it is",
        "smooth on the whole half line, and no digits cancel where it is wanted for itself.",
        '"""',
        "",
        "from typing import Final",
        "",
        f"CENTRE: Final = {float(CENTRE)!r}",
        '"""K below."""',
    ]
    for name, coefficients in fitted().items():
        lines += ["", f"{name}: Final = ("]
        lines += [f"    {float(c)!r}," for c in coefficients]
        lines += [")", notes[name]]
    return "\n".join(lines) + "\n"


def worst_relative_error(
    evaluate: Callable[[float], float], exact: Real, points: list[float]
) -> float:
    """Compare doubles with mpmath."""
    return max(float(abs(evaluate(p) / exact(mp.mpf(p)) - 1)) for p in points)


def check() -> None:
    """Print how far the stored constants are from the functions, evaluated in doubles."""
    from selfselect.kernels import tails

    def horner(coefficients: tuple[float, ...], y: float) -> float:
        total = 0.0
        for c in reversed(coefficients):
            total = total * y + c
        return total

    def stored_gap(x: float) -> float:
        recip = 1.0 / (x + tails.CENTRE)
        return horner(tails.GAP, (x - tails.CENTRE) * recip) * recip

    far = [10.0 ** (e / 40) for e in range(-120, 241)]
    near = [i / 1000 * 0.3465 for i in range(-1000, 1001)]
    small = [(i / 1000 * 0.1715) ** 2 for i in range(1, 1001)]
    print("gap", worst_relative_error(stored_gap, gap, far))
    print("exp", worst_relative_error(lambda r: horner(tails.EXP, r), mp.exp, near))
    print("log", worst_relative_error(lambda z: horner(tails.LOG, z), log_tail, small))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        check()
    else:
        print(module_text(), end="")

r"""Means of the noises that decide a logit choice, as functions of the chances alone.

The noises are Gumbel. With P the chance of an alternative, its noise exceeds its mean on average by
:math:`-\log P` where it is chosen and by :math:`P \log P / (1 - P)` where it is not, whatever is
chosen instead. Turned into a standard normal, the noise has the mean

.. math:: M(P) = \int_0^1 \Phi^{-1}(w^P)\,dw

where its alternative is chosen, and :math:`-M(P) P / (1 - P)` where not. M(1/n) is the expected
largest of n standard normal numbers. All are functions of :math:`t = -\log P`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from selfselect.noises.shapes.normal import SHAPE

__all__ = ["chosen_normal", "unchosen_gumbel", "unchosen_normal"]

Array = NDArray[np.float64]

FARTHEST, STEP = 40.0, 0.04
"""Range and step of the table of M in t; chances below 4e-18 have the mean of that one."""

SMALL = 1e-4
"""t below which series replace quotients of small numbers."""


def _bernoulli(t: Array) -> tuple[Array, Array]:
    """Return t / (e^t - 1) and its derivative."""
    t = np.minimum(t, 700.0)
    small = t < SMALL
    growth = np.expm1(np.where(small, 1.0, t))
    value = np.where(small, 1.0 - t / 2.0 + t**2 / 12.0, t / growth)
    slope = np.where(small, -0.5 + t / 6.0, (growth - t * (growth + 1.0)) / growth / growth)
    return value, slope


def unchosen_gumbel(t: Array) -> tuple[Array, Array]:
    """Return the mean P log P / (1 - P) of a noise not chosen, and its derivative in t."""
    value, slope = _bernoulli(t)
    return -value, -slope


@cache
def _table() -> tuple[Array, Array]:
    """Tabulate M and its derivative in t: an integral over e = -log w, on its log scale."""
    y = np.arange(-40.0, 4.2, 0.05)
    e = np.exp(y)
    weights = 0.05 * np.exp(y - e)
    shrunk = np.exp(-np.arange(0.0, FARTHEST + 1.5 * STEP, STEP))[:, None] * e
    # The smaller tail keeps its digits.
    upper = shrunk < 0.5
    normal = np.where(
        upper,
        -SHAPE.quantile(-np.expm1(-np.where(upper, shrunk, 0.5))),
        SHAPE.quantile(np.exp(-np.where(upper, 1.0, shrunk))),
    )
    slope = shrunk * np.exp(-shrunk - SHAPE.density(normal).value)
    return normal @ weights, slope @ weights


def chosen_normal(t: Array) -> tuple[Array, Array]:
    """Return the mean M of a noise, turned normal, where it is chosen, and its derivative in t."""
    values, slopes = _table()
    place = np.clip(t, 0.0, FARTHEST) / STEP
    left = place.astype(np.intp)
    u = place - left
    v0, v1, d0, d1 = (
        values[left], values[left + 1], slopes[left] * STEP, slopes[left + 1] * STEP,
    )  # fmt: skip
    # The cubic that has both values and both slopes.
    third = d0 + d1 + 2.0 * (v0 - v1)
    second = 3.0 * (v1 - v0) - 2.0 * d0 - d1
    value = v0 + u * (d0 + u * (second + u * third))
    slope = (d0 + u * (2.0 * second + 3.0 * u * third)) / STEP
    return value, np.where(t > FARTHEST, 0.0, slope)


def unchosen_normal(t: Array) -> tuple[Array, Array]:
    """Return the mean -M(P) P / (1 - P) of a noise not chosen, and its derivative in t."""
    mean, slope = chosen_normal(t)
    ratio, by_t = _bernoulli(t)
    # M is zero at zero: within the first step its cubic is divided by t term by term.
    near = t < STEP
    safe = np.where(near, 1.0, t)
    values, slopes = _table()
    first, end, rise = slopes[0] * STEP, slopes[1] * STEP, float(values[1])
    second, third = 3.0 * rise - 2.0 * first - end, first + end - 2.0 * rise
    u = np.clip(t, 0.0, STEP) / STEP
    per_t = np.where(near, (first + u * (second + u * third)) / STEP, mean / safe)
    moved = np.where(near, (second + 2.0 * u * third) / STEP**2, (slope - per_t) / safe)
    return -per_t * ratio, -(moved * ratio + per_t * by_t)

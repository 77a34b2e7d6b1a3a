"""Finding a first point inside every explaining set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import RuleError
from selfselect.rules.base import has_projection
from selfselect.samplers.base import Target

__all__ = ["find_inside"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

REACHES = (1.0, 2.0, 4.0, 0.5, 8.0, 0.25, 16.0, 32.0)
"""How far to look, in standard deviations of the noise: near first, then ever farther."""

TRIES = 48
"""Points tried at each reach. A set that holds a thousandth of the mass around any of them is
missed with probability e^-0.4 per reach, and then looked for among other rows' points."""

MANY = 4_096
"""Points tried at each reach for the few rows in which fewer did not do."""

FEW = 0.01
"""Share of the rows for which that is worth while: where more lack a point, the rule is wrong."""

AT_ONCE = 32

NEIGHBOURS = 24
"""Rows with the same choice and the nearest outcomes, whose points are tried."""

BISECTIONS = 10

PROJECTIONS = 16
"""Projections whose average is tried: on the boundary each, but convexity puts it inside."""


def find_inside(target: Target, rng: Generator) -> Array:
    """Return latent outcomes (n, k) that explain their rows, or say which rows have none.

    Where the mean of the noise is outside of a set, the point is close to the boundary on its
    side: there most of the mass is.
    """
    latent = target.center.copy()
    outside = _try(target, latent, np.arange(len(target)), target.center)
    _find(target, latent, outside, rng)
    _approach(target, latent, outside)
    return latent


def _approach(target: Target, latent: Array, which: Indices) -> None:
    """Move points towards the mean as far as their convex sets reach, by bisection."""
    part, points = target.take(which), latent[which]
    way = part.center - points
    inner, outer = np.zeros(which.size), np.ones(which.size)
    for _ in range(BISECTIONS if which.size else 0):
        middle = 0.5 * (inner + outer)
        inside = part.contains(points + middle[:, None] * way)
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    # Rounding may put a point that was inside on the way back out.
    moved = points + inner[:, None] * way
    if which.size:
        moved[np.arange(which.size), part.chosen] = part.outcome
        latent[which] = np.where(part.contains(moved)[:, None], moved, points)


def _find(target: Target, latent: Array, left: Indices, rng: Generator) -> None:
    """Look for points ever farther out, then among projections, then among other rows' points."""
    for reach in REACHES:
        for _ in range(TRIES):
            if left.size == 0:
                return
            part = target.take(left)
            points = part.center + reach * part.deviations(rng)
            left = _try(target, latent, left, points)
    left = _from_projections(target, latent, left, rng)
    left = _from_neighbours(target, latent, left)
    if left.size <= max(AT_ONCE, FEW * len(target)):
        left = _from_many(target, latent, left, rng)
    if left.size:
        named = ", ".join(map(str, target.start + left[:3])) + (", ..." if left.size > 3 else "")
        raise RuleError(
            f"In {left.size} of {len(target)} rows (rows {named}) no latent outcomes were found "
            "under which the rule chooses the recorded alternative with the recorded outcome. "
            "Either `choose` disagrees with what was recorded there (wrong order of the "
            "alternatives, wrong rule), or the explaining sets are too thin to be hit by chance: "
            "then give the rule a `project`."
        )


def _try(target: Target, latent: Array, left: Indices, points: Array) -> Indices:
    """Keep the points that explain their rows, and return the rows still without one."""
    if left.size == 0:
        return left
    inside = target.take(left).contains(points)
    latent[left[inside]] = points[inside]
    return left[~inside]


def _from_projections(target: Target, latent: Array, left: Indices, rng: Generator) -> Indices:
    """Average projections of random points: a point inside of any set that is not flat."""
    if left.size == 0 or not has_projection(target.rule):
        return left
    rule: Any = target.rule
    part = target.take(left)
    total = np.zeros_like(part.center)
    for number in range(PROJECTIONS):
        reach = REACHES[number % len(REACHES)]
        points = part.center + reach * part.deviations(rng)
        total += rule.project(points, part.chosen, part.outcome, part.known)
    points = total / PROJECTIONS
    points[np.arange(left.size), part.chosen] = part.outcome
    return _try(target, latent, left, points)


def _from_many(target: Target, latent: Array, left: Indices, rng: Generator) -> Indices:
    """Try many points for each of a few rows."""
    still: list[Indices] = []
    for first in range(0, left.size, AT_ONCE):
        mine = left[first : first + AT_ONCE]
        for reach in REACHES:
            if mine.size == 0:
                break
            part = target.take(np.repeat(mine, MANY))
            points = part.center + reach * part.deviations(rng)
            inside = part.contains(points).reshape(mine.size, MANY)
            at = inside.argmax(axis=1) + MANY * np.arange(mine.size)
            some = inside.any(axis=1)
            latent[mine[some]] = points[at[some]]
            mine = mine[~some]
        still.append(mine)
    return np.concatenate(still) if still else left


def _from_neighbours(target: Target, latent: Array, left: Indices) -> Indices:
    """Try the points of rows with the same choice and a similar outcome."""
    found = np.setdiff1d(np.arange(len(target)), left)
    still: list[Indices] = []
    for j in np.unique(target.chosen[left]):
        mine = left[target.chosen[left] == j]
        same = found[target.chosen[found] == j]
        same = same[np.argsort(target.outcome[same])]
        for offset in range(-(NEIGHBOURS // 2), NEIGHBOURS // 2) if same.size else ():
            at = np.searchsorted(target.outcome[same], target.outcome[mine]) + offset
            points = latent[same[np.clip(at, 0, same.size - 1)]]
            points[:, j] = target.outcome[mine]
            mine = _try(target, latent, mine, points)
        still.append(mine)
    return np.sort(np.concatenate(still)) if still else left

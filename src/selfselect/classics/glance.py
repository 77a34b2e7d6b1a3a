"""A look around: where a few steps lead at each of several correlations, all of them side by side.

With correlations held the likelihood is concave, so a few of Newton's steps on some of the rows say
which correlations promise most. So few rows take less time than the calls that work on them: all
places share each call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.classics.parameters import Layout
from selfselect.classics.rows import Rows, SeenRows

__all__ = ["glance"]

Array = NDArray[np.float64]

KEEP_OF_H = 0.1
"""A step may shrink an inverse scale to this fraction of itself and no further."""
HALVINGS = 30
"""A step halved so often stays where it is."""


@dataclass(frozen=True, eq=False)
class Places:
    """Log-likelihood (s,), score (s, m) and information (s, m, m) at s places.

    Constants that all places share are left out of the log-likelihood, correlations of the rest.
    """

    loglik: Array
    score: Array
    information: Array


def glance(
    design: Design, layout: Layout, starts: Array, *, every: int, n_steps: int
) -> tuple[Array, Array]:
    """Take Newton steps from natural parameters (s, m), with their correlations held.

    Only every so many rows of each kind are looked at. Returns where the steps end (s, m), and
    log-likelihoods (s,) up to a constant.
    """
    rows = design.rows(every)
    at_t = [layout.t_of(equation) for equation in design.equations]
    moving = np.setdiff1d(np.arange(layout.n_natural), at_t)
    at_h = np.array(at_t) - 1
    natural = starts.copy()
    here = _evaluate(rows, design, layout, natural)
    for _ in range(n_steps):
        step = np.zeros_like(natural)
        information = here.information[:, moving[:, None], moving]
        step[:, moving] = np.linalg.solve(information, here.score[:, moving, None])[..., 0]
        fall = np.maximum(-step[:, at_h] / natural[:, at_h], 1e-300)
        size = np.minimum(1.0, ((1.0 - KEEP_OF_H) / fall).min(axis=1))
        for _ in range(HALVINGS):
            after = _evaluate(rows, design, layout, natural + size[:, None] * step)
            # Written so that a place that is not a number is worse too.
            worse = ~(after.loglik >= here.loglik)
            if not worse.any():
                break
            size[worse] *= 0.5
        else:
            break
        natural, here = natural + size[:, None] * step, after
    return natural, here.loglik


def _evaluate(rows: Rows, design: Design, layout: Layout, natural: Array) -> Places:
    n_places, size = natural.shape
    found = Places(np.zeros(n_places), np.zeros((n_places, size)), np.zeros((n_places, size, size)))
    gamma = layout.gamma
    if rows.silent is not None:
        sums = rows.silent.at(natural[:, gamma])
        found.loglik[:] += sums.log_cdf
        found.score[:, gamma] += sums.pull
        found.information[:, gamma, gamma] += sums.curvature
    for equation, seen in zip(design.equations, rows.seen, strict=True):
        places = layout.places_of(equation)
        _add(found, seen, natural[:, places], places[:-1], gamma.stop)
    return found


def _add(
    found: Places, seen: SeenRows, natural: Array, moving: NDArray[np.intp], n_gamma: int
) -> None:
    """Add the rows of an equation, at γ, g, h and t of their own."""
    t = natural[:, -1:]
    slopes = np.repeat(np.sinh(t), natural.shape[1] - 1, axis=1)
    slopes[:, :n_gamma] = np.cosh(t)
    sums = seen.joined.at(slopes * natural[:, :-1])
    noise, h = natural[:, n_gamma:-1], natural[:, -2]
    squares = noise @ seen.gram
    found.loglik[:] += sums.log_cdf + seen.total * np.log(h) - 0.5 * np.sum(noise * squares, axis=1)
    own, at_h = moving[n_gamma:], moving[-1]
    found.score[:, moving] += slopes * sums.pull
    found.score[:, own] -= squares
    found.score[:, at_h] += seen.total / h
    found.information[:, moving[:, None], moving] += (
        sums.curvature * slopes[:, :, None] * slopes[:, None, :]
    )
    found.information[:, own[:, None], own] += seen.gram
    found.information[:, at_h, at_h] += seen.total / h**2

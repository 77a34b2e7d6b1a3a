"""A way out of a poor optimum: put the rarest alternative next to another one.

Where a search ends below the best optimum, often one alternative stands for two, and another,
hardly ever chosen, makes up for what they have left. All others are where they belong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.solvers._degeneracy import expected_counts
from selfselect.solvers._search import Place, SearchSpace, grouped
from selfselect.threads import parallel_map

__all__ = ["relocate"]

Array = NDArray[np.float64]

NEXT_TO = 0.1
"""Distance from the other alternative, in units of the least-squares residuals' spread."""

FIRST_STEPS = 20
"""Steps after which it shows which of the places are worth climbing from."""

CLIMBED = 2


def relocate(
    space: SearchSpace,
    engine: Engine,
    best: Place,
    rng: Generator,
    climb: Callable[[list[Place]], list[Place]],
) -> Place:
    """Put the rarest alternative next to every other one; climb from the best two.

    Parameters
    ----------
    space : coordinates of alternatives that may change places.
    engine : rows.
    best : the optimum to move on from.
    rng : for the direction in which it is put next to another.
    climb : climbs from each of several places to an optimum.

    Returns
    -------
    The better of the two ends, whose evaluations are those of the whole move.
    """
    counts = expected_counts(space.problem, engine, space.natural(best.coordinates))
    rarest = int(np.argmin(counts))
    own = space.block(rarest)
    starts = []
    for other in range(len(counts)):
        if other != rarest:
            step = rng.standard_normal(own.stop - own.start) / np.sqrt(own.stop - own.start)
            moved = best.coordinates.copy()
            moved[own] = moved[space.block(other)] + NEXT_TO * space.spread * step
            starts.append(moved)

    def begin(group: list[Array]) -> list[Place]:
        return space.climb(engine, np.array(group), max_steps=FIRST_STEPS)

    begun = sorted(_by_groups(begin, starts, engine), key=lambda place: -place.loglik)
    ended = _by_groups(climb, begun[:CLIMBED], engine)
    effort = sum(place.n_evaluations for place in (*begun[CLIMBED:], *ended))
    return replace(max(ended, key=lambda place: place.loglik), n_evaluations=effort)


def _by_groups(
    climb: Callable[[list[Any]], list[Place]], starts: list[Any], engine: Engine
) -> list[Place]:
    groups = grouped(starts, engine)
    return [place for group in parallel_map(climb, groups) for place in group]

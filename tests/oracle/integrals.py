"""Integrals over unrecorded outcomes, with the rule as a black box: no derivation, no shortcut.

The last free outcome is integrated by its own distribution function between the points, found by
bisection, where the rule changes its mind. All others are integrated by adaptive Gauss-Lobatto
quadrature, which needs to know nothing of where the integrand jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def lobatto(n_points: int) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Lobatto quadrature on [-1, 1].

    Both ends are nodes: a jump close to an end shows as well as one in the middle.
    """
    polynomial = np.polynomial.Legendre.basis(n_points - 1)
    nodes = np.concatenate([[-1.0], np.sort(polynomial.deriv().roots().real), [1.0]])
    return nodes, 2.0 / (n_points * (n_points - 1) * polynomial(nodes) ** 2)


NODES, WEIGHTS = lobatto(12)

CELLS = 48
"""Cells of a line between which the rule is asked whether it changes its mind."""

HALVINGS = 58
"""Bisections of a cell: beyond what floating point tells apart."""

CLOSE = 1e-12
"""Error of a panel, relative to what is integrated, at which it is not cut in two again."""

DEEPEST = 44
"""How often a panel is cut in two: a jump is known to this many binary digits."""


class Law(Protocol):
    """The joint distribution of the outcomes of a batch of rows, (b, k) of them."""

    def centre(self, at: Array, dimension: int, given: list[int]) -> tuple[Array, Array]:
        """Return location and scale (b,) of an outcome given others of `at`."""

    def density(self, at: Array, dimension: int, given: list[int]) -> Array:
        """Return its density (b,) at `at`, given others."""

    def tail(self, at: Array, dimension: int, given: list[int], end: Array, upper: Mask) -> Array:
        """Return the mass (b,) above `end` (b,) where `upper`, else below it, given others."""

    def take(self, which: NDArray[np.intp]) -> Law:
        """Return the law of some of the rows, which may come several times."""

    reach: float
    """How many scales from its centre an outcome may lie, for all that floating point can tell."""


@dataclass(frozen=True)
class Event:
    """Which outcomes explain a row: `holds(latent, row)` says whether (m, k) of them do."""

    holds: Callable[[Array, NDArray[np.intp]], Mask]
    hints: Array
    """(b, h) values at which the answer may change: limits, and what was recorded."""
    crossings: Callable[[Array, NDArray[np.intp], int], Array] | None = None
    """From points (m, k), their rows and a dimension to where along it (m, h) the rule may turn:
    for rules that hold between two such points that may lie closer together than any grid."""


def integrate(law: Law, event: Event, at: Array, known: list[int], free: list[int]) -> Array:
    """Return, for each row (b,), the density of `known` outcomes and the mass of `free` ones.

    `at` (b, k) holds the known outcomes; the entries of free ones are not read.
    """
    rows = np.arange(len(at))
    found = np.ones(len(at))
    for place, dimension in enumerate(known):
        found = found * law.density(at, dimension, known[:place])
    if not free:
        return np.where(event.holds(at, rows), found, 0.0)
    return found * _over(law, event, at, known, free, rows)


def _over(
    law: Law, event: Event, at: Array, given: list[int], free: list[int], rows: NDArray[np.intp]
) -> Array:
    if len(free) == 1:
        return _last(law, event, at, given, free[0], rows)
    dimension, rest = free[0], free[1:]
    reach = np.arcsinh(law.reach)
    centre, scale = law.centre(at, dimension, given)
    hints = np.arcsinh((event.hints[rows] - centre[:, None]) / scale[:, None])
    hints = np.clip(np.where(np.isfinite(hints), hints, -reach), -reach, reach)
    edges = np.tile(np.linspace(-reach, reach, 9), (len(at), 1))
    edges = np.sort(np.concatenate([edges, hints], axis=1), axis=1)
    owner = np.repeat(np.arange(len(at)), edges.shape[1] - 1)
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()

    def panels(owner: NDArray[np.intp], low: Array, high: Array) -> Array:
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        steps = (middle[:, None] + half[:, None] * NODES).ravel()
        each = np.repeat(owner, len(NODES))
        points, their = at[each].copy(), law.take(each)
        centre, scale = their.centre(points, dimension, given)
        points[:, dimension] = centre + scale * np.sinh(steps)
        values = their.density(points, dimension, given) * scale * np.cosh(steps)
        worth = values > 0.0
        inner = np.zeros(len(each))
        if worth.any():
            some = np.flatnonzero(worth)
            inner[some] = _over(
                their.take(some), event, points[some], [*given, dimension], rest, rows[each[some]]
            )
        return half * ((values * inner).reshape(-1, len(NODES)) @ WEIGHTS)

    whole = panels(owner, low, high)
    total = np.zeros(len(at))
    for depth in range(DEEPEST):
        middle = 0.5 * (low + high)
        left, right = panels(owner, low, middle), panels(owner, middle, high)
        running = total + np.bincount(owner, left + right, len(at))
        done = np.abs(left + right - whole) <= CLOSE * running[owner]
        if depth == DEEPEST - 1:
            done[:] = True
        total += np.bincount(owner[done], (left + right)[done], len(at))
        owner = np.tile(owner[~done], 2)
        low, high = (
            np.concatenate([low[~done], middle[~done]]),
            np.concatenate([middle[~done], high[~done]]),
        )
        whole = np.concatenate([left[~done], right[~done]])
        if not len(owner):
            break
    return total


def _last(
    law: Law, event: Event, at: Array, given: list[int], dimension: int, rows: NDArray[np.intp]
) -> Array:
    """Integrate over the one outcome left: its mass between the points where the answer changes."""
    centre, scale = law.centre(at, dimension, given)
    reach = np.arcsinh(law.reach)
    grid = centre[:, None] + scale[:, None] * np.sinh(np.linspace(-reach, reach, CELLS + 1))
    hints = event.hints[rows]
    if event.crossings is not None:
        hints = np.concatenate([hints, event.crossings(at, rows, dimension)], axis=1)
    hints = np.where(np.isfinite(hints), hints, grid[:, :1])
    near = np.abs(hints) * 1e-9 + scale[:, None] * 1e-9
    grid = np.sort(np.concatenate([grid, hints - near, hints + near], axis=1), axis=1)
    n_rows, n_points = grid.shape

    def asked(values: Array, owner: NDArray[np.intp]) -> Mask:
        points = at[owner].copy()
        points[:, dimension] = values
        return event.holds(points, rows[owner])

    holds = asked(grid.ravel(), np.repeat(np.arange(n_rows), n_points)).reshape(n_rows, n_points)
    owner, cell = np.nonzero(holds[:, 1:] != holds[:, :-1])
    low, high = grid[owner, cell], grid[owner, cell + 1]
    first = holds[owner, cell]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        same = asked(middle, owner) == first
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    end = 0.5 * (low + high)
    upper = end > centre[owner]
    tails = law.take(owner).tail(at[owner], dimension, given, end, upper)
    # Ends below the centre count what is below them, ends above it what is above: no digits are
    # lost in either tail. What holds at the centre counts one, less the tails cut off.
    leaves = np.where(upper, -tails, tails)
    found = np.bincount(owner, np.where(first, leaves, -leaves), n_rows)
    return found + asked(centre, np.arange(n_rows))

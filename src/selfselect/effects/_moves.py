"""Moves between two states of the world, in closed form or in draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.effects._moments import Cells
from selfselect.effects._simulation import Drawn

__all__ = ["MovesOfDraws", "closed_form_moves"]

Array = NDArray[np.float64]


def closed_form_moves(before: Cells, after: Cells, moved: tuple[int, int]) -> Any:
    """Return (k, k, 3): share, outcome before and after (times share) of those from g to h.

    Where one alternative c got worse for everyone, whoever chose another stays, and those who
    choose h afterwards are those who chose it before and those who left c for it. So any moment of
    the movers is the difference of two. Where c got better, read it backwards.
    """
    c, direction = moved
    if direction > 0:
        backwards = closed_form_moves(after, before, (c, -1))
        return backwards.transpose(1, 0, 2)[..., [0, 2, 1]]
    k = before.chance.shape[-1]
    moves = np.zeros((k, k, 3), dtype=np.result_type(before.chance, after.chance))
    for h in range(k):
        stay = after if h == c else before
        moves[h, h] = _moment(stay, h, h, h)
        if h != c:
            moves[c, h] = _moment(after, h, c, h) - _moment(before, h, c, h)
    return moves


def _moment(cells: Cells, chosen: int, origin: int, goal: int) -> Any:
    """Return share, outcome at the origin and at the goal of those who chose `chosen`."""
    return np.array(
        [cells.chance[chosen], cells.outcome[origin, chosen], cells.outcome[goal, chosen]]
    )


class MovesOfDraws:
    """The same of simulated outcomes, flattened: a mean over draws, so its influence is itself."""

    def value(self, drawn: Sequence[Drawn], weights: Array) -> Array:
        """Return share and outcomes before and after, times share, cell by cell."""
        before, after = drawn
        k, each = before.latent.shape[1], np.arange(len(weights))
        cell = before.chosen * k + after.chosen
        parts = [
            np.bincount(cell, weights=weights * values, minlength=k * k) / weights.sum()
            for values in (
                np.ones(len(weights)),
                before.latent[each, before.chosen],
                after.latent[each, after.chosen],
            )
        ]
        return np.stack(parts, axis=-1).ravel()

    def linearise(
        self, drawn: Sequence[Drawn], weights: Array
    ) -> Callable[[Sequence[Drawn]], Array]:
        """Return the function that gives each draw's cells less their mean."""
        mean = self.value(drawn, weights)

        def influence(some: Sequence[Drawn]) -> Array:
            before, after = some
            n_draws, k = before.latent.shape
            each = np.arange(n_draws)
            found = np.zeros((n_draws, k * k, 3))
            found[each, before.chosen * k + after.chosen] = np.column_stack(
                [
                    np.ones(n_draws),
                    before.latent[each, before.chosen],
                    after.latent[each, after.chosen],
                ]
            )
            return found.reshape(n_draws, -1) - mean

        return influence

"""Quotas: at most a share of everyone may choose an alternative, by a fee or by lot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._averages import mean_cells
from selfselect.effects._moments import Setting, cells, n_cells, refuse_unsupported
from selfselect.effects._scenario import closed, with_cost
from selfselect.effects._states import Reading, State, World, read_cells
from selfselect.effects.base import alternative_index
from selfselect.errors import OptionError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Quota", "rationed", "read_quota"]

FEE_TOLERANCE = 1e-6
"""How far the fee may be off, in noise scales, before that correction."""

WIDENINGS = 60
"""Times the range of fees is doubled before a quota is called out of reach."""


@dataclass(frozen=True)
class Quota:
    """At most `share` of everyone may choose `alternative`."""

    alternative: int
    share: float
    rationing: str
    words: str


def read_quota(fit: FitResult, quota: Any, rationing: str) -> Quota | None:
    """Check a quota."""
    if rationing not in ("price", "lottery"):
        raise OptionError(f"There is no rationing {rationing!r}. Use 'price' or 'lottery'.")
    if quota is None:
        return None
    if not isinstance(quota, Mapping) or len(quota) != 1:
        raise OptionError(
            f"quota={quota!r} must name one alternative and its share, as in "
            "quota={'fishing': 0.3}. Several at once are not possible."
        )
    ((label, share),) = quota.items()
    number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
    if not (number and 0 < share < 1):
        raise OptionError(
            f"quota={{{label!r}: {share!r}}} is not possible: give a share between 0 and 1. To "
            f"close it use close=[{label!r}]."
        )
    how = "by a fee" if rationing == "price" else "by lot"
    words = f"at most {100 * float(share):g}% may choose {label}, {how}"
    return Quota(alternative_index(fit, label), float(share), rationing, words)


def rationed(world: World, quota: Quota) -> State:
    """Average before and after a quota, which comes on top of all other changes."""
    free = world.scenario.setting
    refuse_unsupported(world.fit.problem, free.rule)
    wanted = float(mean_cells(world.fit, free)[quota.alternative])
    if wanted <= quota.share:
        raise OptionError(
            f"The quota does not bind: {100 * wanted:.3g}% would choose it without one, and "
            f"{100 * quota.share:g}% may be. Give a smaller share."
        )
    alone = not world.scenario.words
    return (_by_price if quota.rationing == "price" else _by_lot)(world, quota, free, alone)


def _by_price(world: World, quota: Quota, free: Setting, alone: bool) -> State:
    k, a = world.fit.problem.equations.n_alternatives, quota.alternative

    def priced(fee: float) -> Setting:
        return replace(free, rows=with_cost(free.rows, a, fee, free.rule, k))

    def excess(fee: float) -> float:
        # Chances do not depend on whether outcomes are levels.
        return float(mean_cells(world.fit, replace(priced(fee), logarithm=None))[a]) - quota.share

    unit = float(world.fit.problem.row_scales(world.fit.values, free.rows).max())
    highest = unit
    for _ in range(WIDENINGS):
        if excess(highest) < 0:
            break
        highest *= 2.0
    else:
        raise OptionError(
            f"No fee brings the share down to {100 * quota.share:g}%: too many rows have no other "
            "alternative. Give a larger share."
        )
    # Imported here: few ask for a fee, and every report loads this room.
    from scipy.optimize import brentq

    # What is left of the excess is corrected to first order when the averages are read.
    fee = float(brentq(excess, 0.0, highest, xtol=FEE_TOLERANCE * unit))
    step = 1e-4 * unit
    up, down = (mean_cells(world.fit, priced(fee + move)) for move in (step, -step))
    slope = (up - down) / (2.0 * step)
    moved = (a, -1) if alone else None

    def read(vector: Any) -> Reading:
        before, after = vector[: n_cells(k)], vector[n_cells(k) :]
        # If more choose it than there are places, the fee rises until they do not: to first order,
        # an error in the share at this fee moves the fee, and the fee everything else.
        error = (after[a] - quota.share) / slope[a]
        return read_cells(
            cells(before, k), cells(after - slope * error, k), moved, price=fee - error
        )

    return State(world.average([priced(fee)]), read, priced(fee))


def _by_lot(world: World, quota: Quota, free: Setting, alone: bool) -> State:
    fit, a = world.fit, quota.alternative
    k = fit.problem.equations.n_alternatives
    shut = replace(free, rows=closed(free.rows, a, fit.problem.equations.alternatives))

    def read(vector: Any) -> Reading:
        before, unlimited, without = (
            vector[start * n_cells(k) : (start + 1) * n_cells(k)] for start in range(3)
        )
        winners = quota.share / unlimited[a]
        after = winners * unlimited + (1.0 - winners) * without
        return read_cells(cells(before, k), cells(after, k), (a, -1) if alone else None)

    notes = () if alone else ("Moves are not listed for a lottery on top of other changes.",)
    return State(world.average([free, shut]), read, None, notes=notes)

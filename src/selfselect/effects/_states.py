"""Worlds that counterfactuals compare: states, moves between them, and quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.effects._averages import average, joined, mean_cells
from selfselect.effects._moments import AverageCells, Setting, cells, n_cells, refuse_unsupported
from selfselect.effects._scenario import DrawnOutcomes, Scenario, closed, simulate, with_cost
from selfselect.effects.base import Averages, alternative_index
from selfselect.errors import OptionError, UnsupportedError
from selfselect.rules import has_bounds, rank_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Moves between two states of the world, in closed form or in draws.


def closed_form_moves(before: AverageCells, after: AverageCells, moved: tuple[int, int]) -> Any:
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


def _moment(cells: AverageCells, chosen: int, origin: int, goal: int) -> Any:
    """Return share, outcome at the origin and at the goal of those who chose `chosen`."""
    return np.array(
        [cells.chance[chosen], cells.outcome[origin, chosen], cells.outcome[goal, chosen]]
    )


class MovesOfDraws:
    """The same of simulated outcomes, flattened: a mean over draws, so its influence is itself."""

    def value(self, drawn: Sequence[DrawnOutcomes], weights: Array) -> Array:
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
        self, drawn: Sequence[DrawnOutcomes], weights: Array
    ) -> Callable[[Sequence[DrawnOutcomes]], Array]:
        """Return the function that gives each draw's cells less their mean."""
        mean = self.value(drawn, weights)

        def influence(some: Sequence[DrawnOutcomes]) -> Array:
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


# Two states of the world side by side: averages, and how they are read.


@dataclass(frozen=True, eq=False)
class World:
    """The fitted rows before a change, and how their averages are made."""

    fit: FitResult
    before: Setting
    scenario: Scenario
    own: bool
    covariates: str
    draws: int | None
    seed: int

    def average(self, afters: Sequence[Setting]) -> Averages:
        """Average the cells before and in each of the settings after."""
        if self.scenario.same_rows:
            return average(
                self.fit, [self.before, *afters], own=self.own, covariates=self.covariates
            )
        now = average(self.fit, [self.before], own=self.own, covariates=self.covariates)
        then = average(self.fit, afters, own=False, covariates=self.covariates)
        return joined(self.fit, now, then)


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read off averages.

    Attributes
    ----------
    outcome : (k,) mean of every outcome where it is observed, times the share of that, before and
        after.
    share : (k,) of each alternative, before and after.
    moves : (k, k, 3) share, outcome before and outcome after, times share, of those who go from
        the first to the second; None where it cannot be read off these averages.
    price : the fee under a quota; None where there is none.
    """

    outcome: tuple[Any, Any]
    share: tuple[Any, Any]
    moves: Any = None
    price: Any = None


@dataclass(frozen=True, eq=False)
class State:
    """Averages before and after a change.

    Attributes
    ----------
    averages : of everything needed.
    read : from the vector of averages to what they mean; sums, products and quotients only.
    after : the setting after the change, where one describes it.
    mc : covariance of the averages due to simulation; None where nothing was simulated.
    notes : for the tables.
    """

    averages: Averages
    read: Callable[[Any], Reading]
    after: Setting | None
    mc: Array | None = None
    notes: tuple[str, ...] = ()


def read_cells(
    before: AverageCells, after: AverageCells, moved: tuple[int, int] | None, **more: Any
) -> Reading:
    """Read cells before and after a change; moves where one alternative got better or worse."""
    moves = None if moved is None else closed_form_moves(before, after, moved)
    outcomes = before.observed_each, after.observed_each
    return Reading(outcomes, (before.chance, after.chance), moves, **more)


def changed(world: World) -> State:
    """Average before and after a change, in closed form where there is one."""
    after, k = world.scenario.setting, world.fit.problem.equations.n_alternatives
    if not (has_bounds(after.rule) or rank_of(after.rule, k) is not None):
        return _simulated(world, k)

    def read(vector: Any) -> Reading:
        size = n_cells(k)
        return read_cells(cells(vector[:size], k), cells(vector[size:], k), world.scenario.moved)

    return State(world.average([after]), read, after)


def _simulated(world: World, k: int) -> State:
    if not world.scenario.same_rows:
        raise UnsupportedError(
            f"{type(world.scenario.setting.rule).__name__} offers no `bounds`, so its effects are "
            "simulated, which needs the same number of rows before and after. Give data with as "
            "many rows."
        )
    averages, mc = simulated_moves(world, world.scenario.setting)

    def read(vector: Any) -> Reading:
        moves = vector.reshape(k, k, 3)
        return Reading(
            (moves[..., 1].sum(axis=1), moves[..., 2].sum(axis=0)),
            (moves[..., 0].sum(axis=1), moves[..., 0].sum(axis=0)),
            moves,
        )

    return State(averages, read, world.scenario.setting, mc, (simulation_note(world),))


def simulated_moves(world: World, after: Setting) -> tuple[Averages, Array]:
    """Simulate who moves: averages of moves (k, k, 3), flattened, and their simulation error."""
    found = simulate(
        world.fit,
        [world.before, after],
        MovesOfDraws(),
        own=world.own,
        covariates=world.covariates,
        draws=world.draws,
        seed=world.seed,
    )
    return found.found, found.mc


def simulation_note(world: World) -> str:
    """Say that numbers were simulated."""
    return (
        f"Numbers with an MC err were simulated with seed {world.seed}; it is the error of the "
        "change due to that."
    )


# Quotas: at most a share of everyone may choose an alternative, by a fee or by lot.


FEE_TOLERANCE = 1e-6
"""How far the fee may be off, in units of one that many would not pay, before that correction."""

WIDENINGS = 60
"""Times the range of fees is doubled before a quota is called out of reach, or halved."""


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
    if quota.rationing == "lottery":
        return _by_lot(world, quota, free, alone)
    return _by_price(world, quota, free, wanted, alone)


def _by_price(world: World, quota: Quota, free: Setting, wanted: float, alone: bool) -> State:
    k, a = world.fit.problem.equations.n_alternatives, quota.alternative

    def priced(fee: float) -> Setting:
        return replace(free, rows=with_cost(free.rows, a, fee, free.rule, k))

    def excess(fee: float) -> float:
        # Chances do not depend on whether outcomes are levels.
        return float(mean_cells(world.fit, replace(priced(fee), logarithm=None))[a]) - quota.share

    highest = float(world.fit.problem.row_scales(world.fit.values, free.rows).max())
    for _ in range(WIDENINGS):
        if excess(highest) < 0:
            break
        highest *= 2.0
    else:
        raise OptionError(
            f"No fee brings the share down to {100 * quota.share:g}%: too many rows have no other "
            "alternative. Give a larger share."
        )
    # Fees are in units of what the rule compares, which need not be those of outcomes.
    few = min(quota.share, 0.5 * wanted) - quota.share
    for _ in range(WIDENINGS):
        if excess(0.5 * highest) >= few:
            break
        highest *= 0.5
    # Imported here: few ask for a fee, and every report loads this room.
    from scipy.optimize import brentq

    # What is left of the excess is corrected to first order when the averages are read.
    fee = float(brentq(excess, 0.0, highest, xtol=FEE_TOLERANCE * highest))
    step = 1e-4 * highest
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

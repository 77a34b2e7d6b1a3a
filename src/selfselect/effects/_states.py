"""Two states of the world side by side: averages, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.effects._averages import Averages, average, joined
from selfselect.effects._moments import Cells, Setting, cells, n_cells
from selfselect.effects._moves import MovesOfDraws, closed_form_moves
from selfselect.effects._scenario import Scenario
from selfselect.effects._simulation import simulate
from selfselect.errors import UnsupportedError
from selfselect.rules import has_bounds, rank_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "Reading", "State", "World", "changed", "read_cells", "simulated_moves", "simulation_note",
]  # fmt: skip

Array = NDArray[np.float64]


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


def read_cells(before: Cells, after: Cells, moved: tuple[int, int] | None, **more: Any) -> Reading:
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

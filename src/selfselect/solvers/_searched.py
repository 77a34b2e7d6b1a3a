"""Where the climbs of a search ended, which of them are sound, and which is best."""

from __future__ import annotations

from dataclasses import dataclass, replace

from selfselect.solvers.base import StartRecord, record_starts, same_optimum
from selfselect.solvers.climb import Climb

__all__ = ["End", "Searched"]


@dataclass(frozen=True, eq=False)
class End:
    """Where one start ended: its name, the place, and what is wrong with it."""

    name: str
    climb: Climb
    fault: str | None


@dataclass(frozen=True, eq=False)
class Searched:
    """Where the starts of a search on a sample ended.

    Attributes
    ----------
    ends : one for each start.
    rows : rows of the sample.
    mean_weight : weight of such a row.
    share : how many times the sample all rows are.
    """

    ends: tuple[End, ...]
    rows: int
    mean_weight: float
    share: float

    @property
    def best(self) -> Climb | None:
        """The highest end that is sound; None where none is.

        A climb that stopped early may still be the best place to go on from.
        """
        sound = [one.climb for one in self.ends if one.fault is None]
        return max(sound, key=lambda one: one.loglik, default=None)

    @property
    def least_bad(self) -> Climb:
        """The highest end of all."""
        return max((one.climb for one in self.ends), key=lambda one: one.loglik)

    def without(self, place: Climb, reason: str) -> Searched:
        """Return the same without the ends at that optimum, which is no estimate."""

        def doubt(one: End) -> End:
            same = same_optimum(-abs(one.climb.loglik - place.loglik), self.mean_weight)
            return replace(one, fault=one.fault or reason) if same else one

        return replace(self, ends=tuple(map(doubt, self.ends)))

    def records(self) -> tuple[StartRecord, ...]:
        """Record where the starts ended; empty where there was one."""
        if len(self.ends) < 2:
            return ()
        return record_starts(
            (
                (
                    one.name,
                    one.climb.loglik,
                    one.fault or (None if one.climb.converged else str(one.climb.ending)),
                )
                for one in self.ends
            ),
            rows=self.rows,
            top=(self.best or self.least_bad).loglik,
        )

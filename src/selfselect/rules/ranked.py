"""The ranked rule: the m-th largest outcome is observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from selfselect.errors import RuleError
from selfselect.plain import archived
from selfselect.rules.base import NO_ROW_DATA, Array, Indices, Label, RowData


@archived("ranked")
@dataclass(frozen=True)
class Ranked:
    r"""Choose the alternative whose outcome is the m-th largest.

    If alternative :math:`j` is chosen with outcome :math:`y`, exactly m - 1 of the others are above
    :math:`y`; which ones is not known. The explaining set is a union of boxes, not convex, so the
    likelihood has several optima and is searched from several starts. It stays in closed form for
    independent noise, an elementary symmetric sum of Φ and 1 - Φ.

    The chosen alternative is the one whose outcome was recorded. In a second-price auction that is
    the bidder with the second highest value, who pays nothing, and not the winner, who pays it:
    with the winner as `chosen` a fit converges to wrong numbers. Where only the winner is known
    beside the price, there is no likelihood here. A summary whose test of independence rejects
    reminds of this.

    Parameters
    ----------
    rank : 1 for the largest, 2 for the second largest, ..., or ``"median"`` for an odd number of
        alternatives.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import Ranked
    >>> Ranked("median").choose(np.array([[1.0, 3.0, 2.0], [5.0, 0.0, 9.0]])).tolist()
    [2, 0]
    """

    rank: int | Literal["median"]

    convex: ClassVar[bool] = False
    cost: ClassVar[None] = None
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.rank, str):
            if self.rank != "median":
                raise RuleError(f"There is no rank {self.rank!r}. Use 1, 2, ... or 'median'.")
        elif isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 1:
            raise RuleError(f"A rank is a whole number from 1 on, not {self.rank!r}.")

    @property
    def name(self) -> str:
        if self.rank == "median":
            return "the median outcome is observed (explaining sets are not convex)"
        return f"the outcome of rank {self.rank} is observed (explaining sets are not convex)"

    @property
    def words(self) -> str:
        """Which of the outcomes is picked."""
        return f"the one of rank {self.rank} from the top"

    def rank_among(self, n_alternatives: int) -> int:
        """Return the rank as a number, or say why there is none."""
        if self.rank == "median":
            if n_alternatives % 2 == 0:
                raise RuleError(
                    f"{n_alternatives} alternatives have no median: their number is even. Give a "
                    "rank, such as Ranked(2)."
                )
            return (n_alternatives + 1) // 2
        assert isinstance(self.rank, int)
        if self.rank > n_alternatives:
            raise RuleError(
                f"There is no outcome of rank {self.rank} among {n_alternatives} alternatives."
            )
        return self.rank

    def for_alternatives(self, alternatives: Sequence[Label]) -> Self:
        """Return the rule with its rank as a number."""
        return replace(self, rank=self.rank_among(len(alternatives)))

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Return the chosen alternative of each row."""
        if rows.available is not None:
            raise RuleError(
                "A rank among alternatives of which some are not available is not defined. Use "
                "Ranked without `available`."
            )
        rank = self.rank_among(latent.shape[1])
        return np.argsort(-latent, axis=1, kind="stable")[:, rank - 1]

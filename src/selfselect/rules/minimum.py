"""The minimum rule: the alternative with the smallest outcome is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from selfselect.plain import archived
from selfselect.rules.base import (
    NO_ROW_DATA,
    Array,
    BoxRule,
    CostSpec,
    Indices,
    RowData,
    choose_largest,
    own_cost,
)


@archived("minimum")
@dataclass(frozen=True)
class Minimum(BoxRule):
    r"""Choose the alternative with the smallest outcome, known costs added.

    If alternative :math:`j` is chosen with outcome :math:`y`, every other latent outcome is at
    least :math:`y + c_j - c_l`. The short side of a market is the classic example.

    Parameters
    ----------
    cost : known cost of alternatives, ``{alternative: number or column name}``.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import Minimum
    >>> Minimum().choose(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [0, 1]
    """

    cost: CostSpec | None = None

    direction: ClassVar[float] = -1.0
    trusted: ClassVar[bool] = True
    scored: ClassVar[bool] = True
    words: ClassVar[str] = "the smallest"

    @property
    def name(self) -> str:
        return "the smallest outcome is observed" + (", known costs added" if self.cost else "")

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        return choose_largest(-latent if rows.costs is None else -latent - rows.costs, rows)

    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        if rows.costs is None:
            lower = outcome[:, None]
        else:
            lower = outcome[:, None] + own_cost(chosen, rows.costs) - rows.costs
        return lower, np.broadcast_to(np.inf, lower.shape)

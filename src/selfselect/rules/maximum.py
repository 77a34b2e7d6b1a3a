"""The maximum rule: the alternative with the largest outcome is chosen."""

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


@archived("maximum")
@dataclass(frozen=True)
class Maximum(BoxRule):
    r"""Choose the alternative with the largest outcome, net of known costs.

    If alternative :math:`j` is chosen with outcome :math:`y`, every other latent outcome is at most
    :math:`y - c_j + c_l`: the explaining set is an orthant.

    Parameters
    ----------
    cost : known cost of alternatives, ``{alternative: number or column name}``.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import Maximum
    >>> Maximum().choose(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [1, 0]
    """

    cost: CostSpec | None = None

    direction: ClassVar[float] = 1.0
    trusted: ClassVar[bool] = True
    scored: ClassVar[bool] = True
    words: ClassVar[str] = "the largest"

    @property
    def name(self) -> str:
        return "the largest outcome is observed" + (", net of known costs" if self.cost else "")

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        return choose_largest(latent if rows.costs is None else latent - rows.costs, rows)

    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        if rows.costs is None:
            upper = outcome[:, None]
        else:
            upper = outcome[:, None] - own_cost(chosen, rows.costs) + rows.costs
        return np.broadcast_to(-np.inf, upper.shape), upper

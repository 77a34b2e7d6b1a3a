"""Selection among ordered alternatives by an index and its cut points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from selfselect.errors import OptionError, UnsupportedError
from selfselect.plain import archived
from selfselect.rules.base import NO_ROW_DATA, Array, Indices, Label, RowData


@archived("ordered index")
@dataclass(frozen=True)
class OrderedIndex:
    """Select by where an index lies among cut points: the higher, the later in `order`.

    It is the rule of `selfselect.switching` with ``ordered=``.

    Parameters
    ----------
    order : labels of the alternatives, from the lowest index to the highest.

    Examples
    --------
    >>> from selfselect.rules import OrderedIndex
    >>> OrderedIndex(("few", "part", "full")).intervals(["few", "part", "full"])
    ((None, 0), (0, 1), (1, None))
    """

    order: tuple[Label, ...]

    trusted: ClassVar[bool] = True
    selects: ClassVar[bool] = True
    has_cuts: ClassVar[bool] = True
    words: ClassVar[str] = "the one between whose cut points the selection index lies"

    @property
    def name(self) -> str:
        return f"a selection index selects, in the order {', '.join(map(str, self.order))}"

    @property
    def pointing(self) -> str:
        """Which way the index points, in words for tables."""
        return f", from {self.order[0]} to {self.order[-1]}"

    def for_alternatives(self, alternatives: Sequence[Label]) -> OrderedIndex:
        """Return the rule, or refuse an order of other alternatives."""
        if tuple(alternatives) != self.order:
            raise OptionError(
                f"The order {', '.join(map(repr, self.order))} is not that of the alternatives: "
                f"{', '.join(map(repr, alternatives))}."
            )
        return self

    def intervals(self, alternatives: Sequence[Label]) -> tuple[tuple[int | None, int | None], ...]:
        """Return by alternative the cut points below and above it; None where there is none."""
        last = len(alternatives) - 1
        return tuple(
            (j - 1 if j > 0 else None, j if j < last else None) for j in range(len(alternatives))
        )

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Refuse: outcomes do not say which of them is observed."""
        del latent, rows
        raise UnsupportedError(
            "A selection equation selects by an index of its own, so outcomes alone do not say "
            "which of them is observed."
        )

"""Selection by an index with an equation of its own, whatever the outcomes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from selfselect.errors import OptionError, UnsupportedError
from selfselect.plain import archived
from selfselect.rules.base import NO_ROW_DATA, Array, Indices, Label, RowData


@archived("selection index")
@dataclass(frozen=True)
class SelectionIndex:
    """Select by the sign of an index: `towards` where it is positive, the other where it is not.

    It is the rule of `selfselect.sample_selection` and `selfselect.switching`.

    Parameters
    ----------
    towards : label of the alternative that a positive index selects.

    Examples
    --------
    >>> from selfselect.rules import SelectionIndex
    >>> SelectionIndex("union").intervals(["other", "union"])
    ((None, 0), (0, None))
    """

    towards: Label

    trusted: ClassVar[bool] = True
    selects: ClassVar[bool] = True
    has_cuts: ClassVar[bool] = False
    words: ClassVar[str] = "the one that the selection equation selects"

    @property
    def name(self) -> str:
        return f"a selection equation selects, towards {self.towards}"

    @property
    def pointing(self) -> str:
        """Which way the index points, in words for tables."""
        return f" towards {self.towards}"

    def for_alternatives(self, alternatives: Sequence[Label]) -> SelectionIndex:
        """Return the rule, or refuse one that points to no alternative."""
        if self.towards not in alternatives:
            raise OptionError(
                f"towards={self.towards!r} is no alternative. Use "
                f"{' or '.join(map(repr, alternatives))}."
            )
        return self

    def intervals(self, alternatives: Sequence[Label]) -> tuple[tuple[int | None, int | None], ...]:
        """Return by alternative the cut points below and above it; the only one is at zero."""
        return tuple((0, None) if label == self.towards else (None, 0) for label in alternatives)

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Refuse: outcomes do not say which of them is observed."""
        del latent, rows
        raise UnsupportedError(
            "A selection equation selects by an index of its own, so outcomes alone do not say "
            "which of them is observed."
        )

"""The monotone-argmax rule: the alternative whose transformed outcome is largest is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from selfselect.errors import ArchiveError, RuleError
from selfselect.plain import archived
from selfselect.rules._labels import by_alternative
from selfselect.rules._transforms import NAMED, Transform, as_transform
from selfselect.rules.base import (
    NO_ROW_DATA,
    Array,
    BoxRule,
    Indices,
    Label,
    RowData,
    choose_largest,
)

__all__ = ["MonotoneArgmax"]


@archived("monotone argmax")
@dataclass(frozen=True)
class MonotoneArgmax(BoxRule):
    r"""Choose the alternative whose transformed outcome, net of its cost, is largest.

    With strictly monotone :math:`f_j`, alternative :math:`j` is chosen if
    :math:`f_j(y_j) - c_j` is largest. Then :math:`f_l(y_l) \le f_j(y_j) - c_j + c_l`, so
    :math:`y_l` is bounded above where :math:`f_l` increases and below where it decreases.

    Parameters
    ----------
    transforms : per alternative, as a mapping by label or a sequence in order: a name
        (identity, negative, exp, log, sqrt, logistic), a number (a factor), a function, a pair
        (function, inverse), or a `Transform`. Alternatives a mapping leaves out keep their
        outcome as it is. An inverse that is not given is found by bisection.
    cost : known cost of alternatives, in the units of the transformed outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import MonotoneArgmax
    >>> rule = MonotoneArgmax(["exp", 2.0])
    >>> rule.choose(np.array([[0.0, 1.0], [2.0, 1.0]])).tolist()
    [1, 0]
    """

    transforms: Mapping[Any, Any] | Sequence[Any] = ()
    cost: Mapping[Any, Any] | None = None
    _ordered: tuple[Transform, ...] | None = field(default=None, repr=False, compare=False)

    trusted: ClassVar[bool] = True
    scored: ClassVar[bool] = True
    words: ClassVar[str] = "the one whose known transform is largest"

    def __post_init__(self) -> None:
        if not self.transforms:
            raise RuleError(
                "MonotoneArgmax needs a transform for at least one alternative, for example "
                "MonotoneArgmax({'A': 'exp'}). Without any, use Maximum()."
            )
        if self._ordered is None and not isinstance(self.transforms, Mapping):
            object.__setattr__(self, "_ordered", tuple(map(as_transform, self.transforms)))

    @property
    def name(self) -> str:
        if isinstance(self.transforms, Mapping):
            words = [f"{k}: {as_transform(v).describe()}" for k, v in self.transforms.items()]
        else:
            words = [transform.describe() for transform in self._in_order()]
        return (
            f"the alternative with the largest transformed outcome is chosen ({', '.join(words)})"
        )

    def plain(self) -> dict[str, Any]:
        """Return what a file holds of the rule: names of transforms and factors, never code."""
        given = self.transforms
        held: Any
        if isinstance(given, Mapping):
            held = {key: _label_of(value) for key, value in given.items()}
        else:
            held = tuple(_label_of(value) for value in given)
        return {"transforms": held, "cost": self.cost}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Self:
        """Rebuild the rule from a file."""
        given = values["transforms"]
        for value in given.values() if isinstance(given, Mapping) else given:
            _label_of(value)
        return cls(given, cost=values["cost"])

    def _in_order(self) -> tuple[Transform, ...]:
        if self._ordered is None:
            raise RuleError(
                "MonotoneArgmax holds transforms by label and does not know the alternatives' "
                "order yet. Call rule.for_alternatives([...]) first, or give a sequence."
            )
        return self._ordered

    def for_alternatives(self, alternatives: Sequence[Label]) -> Self:
        if not isinstance(self.transforms, Mapping):
            if len(self._in_order()) != len(alternatives):
                raise RuleError(
                    f"MonotoneArgmax holds {len(self._in_order())} transforms but there are "
                    f"{len(alternatives)} alternatives: {', '.join(map(str, alternatives))}."
                )
            return self
        given = by_alternative(self.transforms, alternatives, what="transform")
        ordered = tuple(
            as_transform(given[label]) if label in given else NAMED["identity"]
            for label in alternatives
        )
        return replace(self, _ordered=ordered)

    def check_range(self, low: float, high: float) -> None:
        reach = 3.0 * (high - low)
        for transform in self._in_order():
            transform.probed(low - reach, high + reach)

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        score = np.column_stack([f(latent[:, j]) for j, f in enumerate(self._in_order())])
        return choose_largest(score if rows.costs is None else score - rows.costs, rows)

    def bounds(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        transforms = self._in_order()
        shape = (outcome.shape[0], len(transforms))
        level = np.empty(shape[0])
        for j, transform in enumerate(transforms):
            here = chosen == j
            level[here] = transform(outcome[here])
            if rows.costs is not None:
                level[here] -= rows.costs[here, j]
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        for j, transform in enumerate(transforms):
            others = chosen != j
            threshold = (
                level[others] if rows.costs is None else level[others] + rows.costs[others, j]
            )
            side = upper if transform.increasing else lower
            side[others, j] = transform.solve(threshold)
        return lower, upper


def _label_of(value: Any) -> str | float:
    """Return the name or factor of a transform, if that is all there is to it."""
    label = as_transform(value).label
    if label is None or (isinstance(label, str) and label not in NAMED):
        raise ArchiveError(
            "A fit whose transforms are functions cannot be saved: a saved fit holds no code. Use "
            f"named transforms ({', '.join(sorted(NAMED))}) or factors, or save its tables with "
            "tidy().to_csv(...)."
        )
    return label

"""Any convex-inducing rule, from a function that chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from selfselect.errors import RuleError
from selfselect.rules._oracles import BoundsOracle, ChooseOracle, ProjectOracle, as_oracle
from selfselect.rules.base import NO_ROW_DATA, Array, CostSpec, Indices, RowData

__all__ = ["ConvexRule"]


@dataclass(frozen=True)
class ConvexRule:
    r"""Choose by a function of your own whose explaining sets are convex.

    Alternative :math:`j`, chosen with outcome :math:`y`, is explained by all other outcomes under
    which `choose` would choose it. If that set is convex for every :math:`j` and :math:`y`, the
    log-likelihood is concave in the coefficients, and `choose` is all that a fit needs. Every fit
    checks convexity at random points.

    Parameters
    ----------
    choose : ``choose(latent)`` or ``choose(latent, rows)``: from latent outcomes (n, k) to the
        position (n,) of the chosen alternative, for any number of rows at once. `rows` has
        ``rows.costs`` and ``rows.available``, each (n, k) or None.
    project : ``project(latent, chosen, outcome)`` or with `rows`: the nearest latent outcomes
        that explain `chosen` and `outcome`. Only `samplers.ProjectedLangevin` needs it; it also
        helps to find a first point in a set that is hard to hit.
    bounds : ``bounds(chosen, outcome)`` or with `rows`: the lower and upper limits of the set,
        where it is a box. With them the fit is exact, and a projection follows.
    cost : numbers or columns by alternative, which the functions find in ``rows.costs``.
    label : a few words for summaries.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import ConvexRule
    >>> def weigh_partner(latent):
    ...     return (latent + 0.3 * latent[:, ::-1]).argmax(axis=1)
    >>> ConvexRule(weigh_partner).choose(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [1, 0]
    """

    choose: Callable[..., Any]
    project: Callable[..., Any] | None = None
    bounds: Callable[..., Any] | None = None
    cost: CostSpec | None = None
    label: str | None = None

    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        keep("choose", as_oracle(ChooseOracle, self.choose, "choose", 1))
        if self.bounds is not None:
            keep("bounds", as_oracle(BoundsOracle, self.bounds, "bounds", 2))
        if self.project is not None:
            keep("project", as_oracle(ProjectOracle, self.project, "project", 3))
        elif self.bounds is not None:
            keep("project", ClipToBounds(self.bounds))
        if self.cost is not None and not self.choose.takes_rows:  # type: ignore[attr-defined]
            raise RuleError(
                "A cost is given, but choose does not take row data, so it cannot use it. Write "
                "choose(latent, rows) and read rows.costs."
            )

    @property
    def name(self) -> str:
        """A few words for summaries."""
        return self.label or f"chosen as {self.choose.words()} says"  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ClipToBounds:
    """The projection onto a box."""

    bounds: Any

    def __call__(
        self, latent: Array, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> Array:
        lower, upper = self.bounds(chosen, outcome, rows)
        projected = np.clip(latent, lower, upper)
        if rows.available is not None:
            projected = np.where(rows.available, projected, latent)
        projected[np.arange(len(latent)), chosen] = outcome
        return projected

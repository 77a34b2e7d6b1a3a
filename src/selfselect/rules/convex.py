"""Rules from functions of the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from selfselect.errors import RuleError
from selfselect.rules.base import NO_ROW_DATA, Array, CostSpec, Indices, RowData

# Functions of the user as oracles of a rule: called one way, and checked at every call.


@dataclass(frozen=True, repr=False)
class _Oracle:
    """A function of the user, and whether it takes row data as its last argument."""

    function: Callable[..., Any]
    takes_rows: bool

    def _call(self, *arguments: Any, rows: RowData) -> Any:
        # What is handed out is used again: a function that worked in place would move the draws.
        views = [argument.view() for argument in arguments]
        for view in views:
            view.flags.writeable = False
        try:
            return self._ask(*views, rows=rows)
        except ValueError as problem:
            if "read-only" not in str(problem):
                raise
            raise RuleError(
                f"{self.words()} changes the arrays it is given, which must stay as they are. Work "
                "on a copy: latent = latent.copy()."
            ) from problem

    def _ask(self, *arguments: Any, rows: RowData) -> Any:
        if self.takes_rows:
            return self.function(*arguments, rows)
        if rows.available is not None:
            raise RuleError(
                f"Some alternatives are not available to some rows, but {self.words()} does not "
                "take row data, so it cannot know. Give it a last argument `rows` and look at "
                "rows.available, an (n, k) array of true and false."
            )
        return self.function(*arguments)

    def words(self) -> str:
        """Name the function, for errors and summaries."""
        return str(getattr(self.function, "__name__", None) or type(self.function).__name__)

    def __repr__(self) -> str:
        return self.words()


@dataclass(frozen=True, repr=False)
class ChooseOracle(_Oracle):
    """Returns the chosen alternative of each row."""

    def __call__(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        found = np.asarray(self._call(latent, rows=rows))
        if found.shape != (len(latent),) or not np.issubdtype(found.dtype, np.integer):
            raise RuleError(
                "choose must return one integer per row, the position of the chosen alternative: "
                f"for latent outcomes of shape {latent.shape} it returned {found.dtype} of shape "
                f"{found.shape}. Return for example score.argmax(axis=1)."
            )
        return found


@dataclass(frozen=True, repr=False)
class ProjectOracle(_Oracle):
    """Moves latent outcomes to the nearest point of the explaining set."""

    def __call__(
        self, latent: Array, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> Array:
        moved = np.asarray(self._call(latent, chosen, outcome, rows=rows))
        if moved.shape != latent.shape or not np.issubdtype(moved.dtype, np.floating):
            raise RuleError(
                f"project must return latent outcomes like those it was given, {latent.dtype} of "
                f"shape {latent.shape}; it returned {moved.dtype} of shape {moved.shape}."
            )
        if not np.isfinite(moved).all():
            raise RuleError(
                "project returned numbers that are not finite. Return the nearest point of the "
                "explaining set for any finite latent outcomes."
            )
        return moved.astype(np.float64, copy=False)


@dataclass(frozen=True, repr=False)
class BoundsOracle(_Oracle):
    """Gives the limits of a box."""

    def __call__(
        self, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> tuple[Array, Array]:
        found = self._call(chosen, outcome, rows=rows)
        if not isinstance(found, tuple) or len(found) != 2:
            raise RuleError(
                "bounds must return a pair of arrays, the lower and the upper limits; it returned "
                f"{type(found).__name__}."
            )
        limits = [np.asarray(side) for side in found]
        for side in limits:
            if side.ndim != 2 or len(side) != len(outcome) or side.dtype.kind not in "fiu":
                raise RuleError(
                    f"bounds must return limits of shape (n, k), or (n, 1) where all alternatives "
                    f"share them; for n = {len(outcome)} it returned {side.dtype} of shape "
                    f"{side.shape}."
                )
        return limits[0].astype(np.float64), limits[1].astype(np.float64)


def as_oracle(kind: type[Any], function: Any, word: str, n_arguments: int) -> Any:
    """Wrap a function that takes `n_arguments`, or those and the row data."""
    if isinstance(function, kind):
        return function
    if not callable(function):
        raise RuleError(f"{word} must be a function, not {function!r}.")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return kind(function, False)
    positional = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    many = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    needed = sum(one.default is one.empty for one in positional)
    if needed > n_arguments + 1 or (len(positional) < n_arguments and not many):
        raise RuleError(
            f"{word} takes {len(positional)} arguments, but it is called with {n_arguments}, or "
            f"with {n_arguments + 1} where the last is the row data."
        )
    return kind(function, many or len(positional) > n_arguments)


# Any convex-inducing rule, from a function that chooses.


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

"""Functions of the user as oracles of a rule: called one way, and checked at every call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfselect.errors import RuleError
from selfselect.rules.base import NO_ROW_DATA, Array, Indices, RowData

__all__ = ["BoundsOracle", "ChooseOracle", "ProjectOracle", "as_oracle"]


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

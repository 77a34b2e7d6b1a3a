"""The contract of noises: how outcomes scatter around their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.rules.base import Label

__all__ = ["COMMON", "Extra", "Noise"]

Array = NDArray[np.float64]

COMMON = "(common)"
"""Stands in place of an alternative's label where one parameter belongs to all."""


@dataclass(frozen=True)
class Extra:
    """A parameter beside the coefficients and scales of the alternatives.

    Attributes
    ----------
    label : (alternative or pair, term), as tables name it.
    start : where a search begins.
    fixed : its value where it is known, None where it is estimated.
    tied_to : position, among the extras, of an earlier one that it equals; None where it is its
        own.
    in_outcome_units : whether it is measured in units of the outcome.
    column : the covariate it multiplies (see `Equation.columns`); None where it multiplies none.
    """

    label: tuple[Label, str]
    start: float
    fixed: float | None = None
    tied_to: int | None = None
    in_outcome_units: bool = False
    column: int | None = None


@runtime_checkable
class Noise(Protocol):
    """Anything that says how noise is distributed and draws from it."""

    @property
    def scale(self) -> Any:
        """The scales: ``"each"``, ``"common"``, or known ones."""

    @property
    def name(self) -> str:
        """A few words for summaries."""

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the scales (k,) where they are known, None where they are to be estimated."""

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        """Return the parameters it has beside the scales."""

    def renumbered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where each extra comes from when alternatives are put in that order."""

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noise (n, k) with the given scales, in units of the outcome."""

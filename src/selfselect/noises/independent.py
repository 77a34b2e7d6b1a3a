"""Independent noise: one scale per alternative or one for all, known or not, or by covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.joint import Indices, Sides
from selfselect.noises.base import FittedNoise
from selfselect.noises.shapes import Shape, find_shape
from selfselect.plain import archived
from selfselect.rules.base import Label, by_alternative

Array = NDArray[np.float64]


@archived("independent")
@dataclass(frozen=True)
class Independent(FittedNoise):
    r"""Noise that is independent across alternatives and rows.

    .. math:: y_{ij} = x_{ij}'w_j + \sigma_j e_{ij}

    Parameters
    ----------
    scale : ``"each"`` estimates one :math:`\sigma_j` per alternative (the default);
        ``"common"`` estimates one for all; a number fixes it for all; a mapping by alternative
        or a sequence in their order fixes each. ``"~ age + C(region)"`` lets the scale of every
        alternative move with covariates, :math:`\log\sigma_{ij} = z_i'\delta_j`; a mapping of
        such formulas by alternative gives each its own (``"~ 1"``: one that does not move).
    shape : distribution of :math:`e`, by name: ``"normal"`` (the default), ``"logistic"``,
        ``"laplace"``, ``"gumbel"`` (of maxima) or ``"gumbel_min"`` (of minima). All have mean zero;
        scales are those of the standard distribution.

    Examples
    --------
    >>> from selfselect.noises import Independent
    >>> Independent(scale=1.0).name
    'normal, independent across alternatives (assumed); scale fixed at 1'
    >>> Independent(scale="~ age").name
    'normal, independent across alternatives (assumed); log scale ~ age'
    """

    scale: str | float | Mapping[Any, float | str] | Sequence[float] = "each"
    shape: str = "normal"

    independent: ClassVar[bool] = True
    takes_formulas: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.shape in ("student", "mixture"):
            raise OptionError(
                f"The shape {self.shape!r} has parameters. Use noises.{self.shape.capitalize()}(), "
                "which estimates them."
            )
        find_shape(self.shape)
        if self.spread is not None:
            _check_spread(self.scale)
            return
        if isinstance(self.scale, str) and self.scale not in ("each", "common"):
            raise OptionError(
                f"There is no scale {self.scale!r}. Use 'each' (one unknown per alternative), "
                "'common' (one unknown for all), a positive number, one per alternative, or a "
                "formula such as '~ age' of the logarithm of the scale."
            )
        for value in self._numbers():
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not (number and 0 < value < np.inf):
                raise OptionError(f"A scale must be a positive number, not {value!r}.")

    def _numbers(self) -> list[Any]:
        if isinstance(self.scale, str) or self.spread is not None:
            return []
        if isinstance(self.scale, Mapping):
            return list(self.scale.values())
        if isinstance(self.scale, Sequence | np.ndarray):
            return list(self.scale)
        return [self.scale]

    @property
    def spread(self) -> str | Mapping[Any, str] | None:
        return _formulas(self.scale)

    @property
    def margin(self) -> Shape:
        return find_shape(self.shape)

    @property
    def gaussian(self) -> bool:
        return self.margin.normal

    @property
    def name(self) -> str:
        detail = {"each": "one scale per alternative", "common": "one scale for all"}
        if self.spread is not None:
            scale = "log scale " + _in_words(self.spread)
        elif isinstance(self.scale, str):
            scale = detail[self.scale]
        else:
            scale = "scale fixed at " + ", ".join(f"{value:g}" for value in self._numbers())
        return f"{self.margin.name}, independent across alternatives (assumed); {scale}"

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the scales (k,) where they are known, None where they are to be estimated."""
        if isinstance(self.scale, str) or self.spread is not None:
            return None
        if isinstance(self.scale, Mapping):
            given = by_alternative(self.scale, alternatives, what="scale")
            left_out = [label for label in alternatives if label not in given]
            if left_out:
                raise OptionError(
                    f"No scale is given for {', '.join(map(str, left_out))}. Give one for every "
                    "alternative, or 'each' to estimate them all."
                )
            return np.array([float(given[label]) for label in alternatives])
        numbers = self._numbers()
        if len(numbers) not in (1, len(alternatives)):
            raise OptionError(
                f"{len(numbers)} scales are given for {len(alternatives)} alternatives "
                f"({', '.join(map(str, alternatives))}). Give one for each."
            )
        return np.broadcast_to(np.asarray(numbers, float), (len(alternatives),)).copy()

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        return self.margin.draw((n_rows, len(alternatives)), rng) * np.asarray(scales, float)

    def draw_standard(
        self, n_rows: int, extras: Array, h: Array, alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        del extras, h
        return self.margin.draw((n_rows, len(alternatives)), rng)

    def compiled(self, n_alternatives: int, index: str) -> bool:
        del n_alternatives
        return self.margin.kernel is not None and index == "unknown"

    def residuals(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        gradient: Array,
        covariance: Array,
        extras: Array,
    ) -> Array:
        if self.margin.normal:
            return super().residuals(a, chosen, side, gradient, covariance, extras)
        return self.margin.residuals(a, chosen, side)

    def softened(self, width: float) -> FittedNoise:
        return Softened(self.scale, self.shape, width)


@dataclass(frozen=True)
class Softened(Independent):
    """Independent noise with the kinks of its shape rounded over a width, for solvers' first steps.

    It is never that of a fit.
    """

    width: float = 0.0

    @property
    def margin(self) -> Shape:
        return super().margin.softened(self.width)


def _formulas(scale: Any) -> str | Mapping[Any, str] | None:
    """Return the formulas of log scales among what was given as scales."""
    if isinstance(scale, str):
        return scale if "~" in scale else None
    if isinstance(scale, Mapping) and any(isinstance(one, str) for one in scale.values()):
        return scale
    return None


def _check_spread(scale: Any) -> None:
    """Refuse log scales that are no right sides."""
    for one in scale.values() if isinstance(scale, Mapping) else [scale]:
        if not isinstance(one, str):
            raise OptionError(
                f"The scales are formulas and {one!r}. Give a formula for every alternative "
                "('~ 1': an unknown scale that does not move), or known scales for all."
            )
        if not one.strip().startswith("~"):
            raise OptionError(
                f"The scale {one!r} must begin with '~', as in '~ age': a scale is not recorded, "
                "so nothing stands on the left."
            )


def _in_words(spread: str | Mapping[Any, str]) -> str:
    if isinstance(spread, str):
        return spread.strip()
    return ", ".join(f"{text.strip()} ({label})" for label, text in spread.items())

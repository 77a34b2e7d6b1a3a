r"""Parameters: the free vector a solver moves, the natural ones kernels use, those users read.

* *natural*: for each alternative :math:`(g_j, h_j)`, stacked, in internal units. The
  log-likelihood of the known index is concave in them.
* *free*: the natural ones that are not fixed, each shared one once.
* *reported*: coefficients :math:`w_j = g_j/h_j` and scales :math:`\sigma_j = 1/h_j`, in the
  user's units, with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.noises import Independent, KnownCovariance
from selfselect.problem.units import Units
from selfselect.rules.base import Label

__all__ = ["COMMON", "SCALE", "Layout", "Reported"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SCALE = "scale"
COMMON = "(common)"
"""Stands in place of an alternative's label where one scale belongs to all."""


@dataclass(frozen=True, eq=False)
class Reported:
    """Parameters as users read them.

    Attributes
    ----------
    labels : (alternative, term) of each.
    values : (m,) coefficients and scales.
    jacobian : (m, n_free) their derivatives in the free parameters.
    """

    labels: tuple[tuple[Label, str], ...]
    values: Array
    jacobian: Array


@dataclass(frozen=True, eq=False)
class Layout:
    """Where every parameter stands.

    Attributes
    ----------
    equations : names and positions of the terms.
    units : internal units.
    scales : (k,) fixed scales in the user's units, or None where they are estimated.
    common : whether one estimated scale belongs to all alternatives.
    """

    equations: Equations
    units: Units
    scales: Array | None
    common: bool

    @classmethod
    def build(
        cls, equations: Equations, noise: Independent | KnownCovariance, units: Units
    ) -> Layout:
        """Lay out the parameters of a noise."""
        fixed = noise.fixed_scales(equations.alternatives)
        return cls(equations, units, fixed, fixed is None and noise.scale == "common")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of coefficients of each alternative."""
        return tuple(len(equation.columns) for equation in self.equations.each)

    @cached_property
    def starts(self) -> Indices:
        """Where each alternative's natural parameters begin, and the total at the end."""
        return np.concatenate([[0], np.cumsum(np.array(self.sizes) + 1)])

    @cached_property
    def inverse_scale_positions(self) -> Indices:
        """Where each alternative's h stands among the natural parameters."""
        return self.starts[1:] - 1

    @cached_property
    def position(self) -> Indices:
        """For each natural parameter its place among the free ones, or -1 where it is fixed."""
        total = int(self.starts[-1])
        position = np.arange(total)
        at_h = self.inverse_scale_positions
        if self.scales is None and not self.common:
            return position
        is_h = np.zeros(total, dtype=bool)
        is_h[at_h] = True
        position = np.cumsum(~is_h) - 1
        position[at_h] = position[~is_h].max() + 1 if self.common else -1
        return position

    @cached_property
    def n_free(self) -> int:
        """How many parameters are estimated."""
        return int(self.position.max()) + 1

    def natural(self, free: Array) -> Array:
        """Spread free parameters over the natural ones."""
        position = self.position
        natural = np.where(position >= 0, free[position], 0.0)
        if self.scales is not None:
            natural[self.inverse_scale_positions] = self.units.outcome_unit / self.scales
        return natural

    def gather(self, natural: Array) -> Array:
        """Collect free parameters from natural ones; shared ones are averaged."""
        position = self.position
        kept = position >= 0
        total = np.bincount(position[kept], weights=natural[kept], minlength=self.n_free)
        return total / np.bincount(position[kept], minlength=self.n_free)

    def pull_back_vector(self, vector: Array) -> Array:
        """Sum derivatives in natural parameters (..., n_natural) into free ones (..., n_free)."""
        position = self.position
        if self.n_free == len(position):
            return vector
        pulled = np.zeros((*vector.shape[:-1], self.n_free))
        kept = np.flatnonzero(position >= 0)
        np.add.at(np.moveaxis(pulled, -1, 0), position[kept], np.moveaxis(vector, -1, 0)[kept])
        return pulled

    def spread_columns(self, matrix: Array) -> Array:
        """Repeat columns (..., n_free) for the natural parameters they stand for; 0 if fixed."""
        return np.where(self.position >= 0, matrix[..., self.position], 0.0)

    def pull_back_matrix(self, matrix: Array) -> Array:
        """Sum second derivatives in natural parameters into free ones."""
        return self.pull_back_vector(self.pull_back_vector(matrix).T).T

    def report(self, free: Array) -> Reported:
        """Express free parameters as coefficients and scales with labels and derivatives."""
        natural = self.natural(free)
        total = len(natural)
        units, unit = self.units, self.units.outcome_unit
        labels: list[tuple[Label, str]] = []
        values: list[float] = []
        rows: list[Array] = []
        for j, equation in enumerate(self.equations.each):
            start, at_h = int(self.starts[j]), int(self.inverse_scale_positions[j])
            h = natural[at_h]
            for place, column in enumerate(equation.columns):
                slope = np.zeros(total)
                factor = unit / (units.unit[column] * h)
                slope[start + place] = factor
                value = factor * natural[start + place]
                slope[at_h] = -value / h
                if column == 0:
                    value += units.outcome_shift
                    for other, shifted in enumerate(equation.columns):
                        if shifted != 0:
                            part = -unit * units.shift[shifted] / (units.unit[shifted] * h)
                            slope[start + other] = part
                            value += part * natural[start + other]
                    slope[at_h] = -(value - units.outcome_shift) / h
                labels.append((equation.alternative, equation.terms[place]))
                values.append(value)
                rows.append(slope)
            if self.scales is None and (not self.common or j == len(self.sizes) - 1):
                slope = np.zeros(total)
                slope[at_h] = -unit / h**2
                labels.append((COMMON if self.common else equation.alternative, SCALE))
                values.append(unit / h)
                rows.append(slope)
        return Reported(tuple(labels), np.array(values), self.pull_back_vector(np.array(rows)))

    def read(self, reported: Array) -> Array:
        """Return the free parameters whose report is `reported`: the inverse of `report`."""
        natural = np.empty(int(self.starts[-1]))
        units, unit = self.units, self.units.outcome_unit
        scales = self.scales_of(reported)
        place = 0
        for j, equation in enumerate(self.equations.each):
            start = int(self.starts[j])
            coefficients = reported[place : place + len(equation.columns)]
            place += len(equation.columns) + (self.scales is None and not self.common)
            h = unit / scales[j]
            columns = np.array(equation.columns, dtype=int)
            g = coefficients * units.unit[columns] * h / unit
            if equation.has_intercept:
                constant = list(equation.columns).index(0)
                level = float(coefficients @ np.where(columns == 0, 1.0, units.shift[columns]))
                g[constant] = (level - units.outcome_shift) * h / unit
            natural[start : start + len(columns)] = g
            natural[start + len(columns)] = h
        return self.gather(natural)

    def scales_of(self, reported: Array) -> Array:
        """Return the scale (k,) of every alternative, estimated or fixed."""
        if self.scales is not None:
            return self.scales.copy()
        n_alternatives = len(self.sizes)
        if self.common:
            return np.full(n_alternatives, reported[-1])
        return reported[self.inverse_scale_positions]

    def coefficients_of(self, reported: Array) -> tuple[Array, ...]:
        """Return the coefficients of every alternative."""
        own_scale = self.scales is None and not self.common
        split: list[Array] = []
        place = 0
        for size in self.sizes:
            split.append(reported[place : place + size])
            place += size + own_scale
        return tuple(split)


def flat_names(labels: Sequence[tuple[Label, str]]) -> list[str]:
    """Write labels as ``alternative:term``, the form hypotheses use."""
    return [f"{alternative}:{term}" for alternative, term in labels]

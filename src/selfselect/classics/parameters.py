"""Where every parameter stands, and how natural parameters become those users read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import CORRELATION, SELECTION, Design, OutcomeEquation
from selfselect.data.equations import SCALE
from selfselect.problem.parameters import Reported
from selfselect.rules.base import Label

__all__ = ["Layout"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of γ, and of g, h and t of each equation, among the natural parameters."""

    design: Design

    @cached_property
    def gamma(self) -> slice:
        """The coefficients of the selection."""
        return slice(0, len(self.design.selection.terms))

    @cached_property
    def _noise(self) -> dict[Label, slice]:
        places, start = {}, self.gamma.stop
        for equation in self.design.equations:
            places[equation.label] = slice(start, start + len(equation.side.terms) + 1)
            start = places[equation.label].stop + 1
        return places

    def noise_of(self, equation: OutcomeEquation) -> slice:
        """Return the places of g and, last, of h."""
        return self._noise[equation.label]

    def t_of(self, equation: OutcomeEquation) -> int:
        """Return the place of t, the inverse hyperbolic tangent of the correlation."""
        return int(self._noise[equation.label].stop)

    @cached_property
    def _places(self) -> dict[Label, Indices]:
        gamma = np.arange(self.gamma.stop)
        return {
            label: np.concatenate([gamma, np.arange(own.start, own.stop + 1)])
            for label, own in self._noise.items()
        }

    def places_of(self, equation: OutcomeEquation) -> Indices:
        """Return the places of γ, g, h and t, all that its rows depend on."""
        return self._places[equation.label]

    @cached_property
    def n_natural(self) -> int:
        """How many parameters there are."""
        return self.t_of(self.design.equations[-1]) + 1

    def of_equation(self, natural: Array, equation: OutcomeEquation) -> tuple[Array, float, float]:
        """Return g, h and t of a equation."""
        own = self.noise_of(equation)
        return natural[own][:-1], float(natural[own.stop - 1]), float(natural[own.stop])

    @property
    def labels(self) -> tuple[tuple[Label, str], ...]:
        """Labels of the reported parameters: outcomes first, the selection last."""
        labels: list[tuple[Label, str]] = []
        for equation in self.design.equations:
            terms = (*equation.side.terms, SCALE, CORRELATION)
            labels += [(equation.label, term) for term in terms]
        return (*labels, *((SELECTION, term) for term in self.design.selection.terms))

    def report(self, natural: Array) -> Reported:
        """Return coefficients, scales and correlations in the user's units."""
        values: list[Array] = []
        rows: list[Array] = []
        for equation in self.design.equations:
            g, h, t = self.of_equation(natural, equation)
            own, unit, carry = self.noise_of(equation), equation.unit, equation.side.carry
            slope = carry @ g * unit / h
            jacobian = np.zeros((len(g) + 2, self.n_natural))
            jacobian[: len(g), own] = np.column_stack([carry * unit / h, -slope / h])
            jacobian[len(g), own.stop - 1] = -unit / h**2
            jacobian[len(g) + 1, own.stop] = 1.0 / np.cosh(t) ** 2
            values += [carry @ equation.naive + slope, np.array([unit / h, np.tanh(t)])]
            rows.append(jacobian)
        carry = self.design.selection.carry
        values.append(carry @ natural[self.gamma])
        rows.append(np.pad(carry, ((0, 0), (0, self.n_natural - len(carry)))))
        return Reported(self.labels, np.concatenate(values), np.vstack(rows))

    def natural(self, reported: Array) -> Array:
        """Return the natural parameters of reported ones."""
        natural = np.zeros(self.n_natural)
        place = 0
        for equation in self.design.equations:
            size = len(equation.side.terms)
            scale, correlation = reported[place + size : place + size + 2]
            h = equation.unit / scale
            inside = np.linalg.solve(equation.side.carry, reported[place : place + size])
            own = self.noise_of(equation)
            natural[own] = [*((inside - equation.naive) * h / equation.unit), h]
            natural[own.stop] = np.arctanh(correlation)
            place += size + 2
        natural[self.gamma] = np.linalg.solve(self.design.selection.carry, reported[place:])
        return natural

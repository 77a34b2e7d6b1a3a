"""Shapes with parameters of their own, which are estimated with everything else.

A family is not a shape but gives one at every value of its parameters. Its logarithms are
differentiated in *inner* parameters, in which they are simple; those that are estimated may be
fewer, where the inner ones obey restrictions such as a mean of zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_known import StudentTable
from selfselect.kernels.mixture import ShapeSums, ShapeTerms, summed
from selfselect.noises.shapes.base import Shape

__all__ = ["ABOVE", "BELOW", "OBSERVED", "SHAPE_TERM", "Family", "Inner", "chained"]

Array = NDArray[np.float64]
Codes = NDArray[np.int8]

OBSERVED, BELOW, ABOVE = 0, 1, -1
"""What is known of an outcome: its value, or on which side of a limit it lies."""

SHAPE_TERM = "shape: "
"""How the names of a shape's parameters begin in tables."""


class Inner(NamedTuple):
    """Inner parameters with their derivatives in those that are estimated.

    Attributes
    ----------
    values : (m,)
    slope : (m, q)
    bend : (m, q, q)
    """

    values: Array
    slope: Array
    bend: Array


class Family(ABC):
    """Shapes that differ in parameters.

    Attributes
    ----------
    name : the first words of what summaries say of the noise.
    components : how many normal components it has, where it is a mixture of these, whose inner
        parameters are shares, means and spreads: compiled kernels know them. None elsewhere.
    compiled : whether compiled passes know the family.
    """

    components: int | None = None
    compiled: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """Names of the parameters, as tables show them."""

    @property
    @abstractmethod
    def starts(self) -> Array:
        """Where they begin, (q,)."""

    @abstractmethod
    def possible(self, values: Array) -> bool:
        """Say whether there is a shape with these parameters (q,)."""

    @abstractmethod
    def at(self, values: Array) -> Shape:
        """Return the shape with these parameters (q,)."""

    @abstractmethod
    def inner(self, values: Array) -> Inner:
        """Return the inner parameters."""

    @abstractmethod
    def evaluate(self, a: Array, side: int, inner: Array, *, curvature: bool) -> ShapeTerms:
        """Return log f (side 0), log F (1) or log(1 - F) (-1) with derivatives in a and inner."""

    def table(self, each: Sequence[Array]) -> StudentTable | None:
        """Return shapes of Student's t, by inner parameters, as compiled kernels take them.

        None for other families.
        """
        del each
        return None

    def sums(
        self, a: Array, status: Codes, inner: Array, weights: Array, *, curvature: bool
    ) -> ShapeSums:
        """Evaluate an alternative's rows by their status: see `kernels.mixture.summed`."""

        def evaluate(some: Array, side: int) -> ShapeTerms:
            return self.evaluate(some, side, inner, curvature=curvature)

        return summed(evaluate, a, status, weights, len(inner))

    @abstractmethod
    def begins(self) -> list[tuple[str, Array]]:
        """Return where searches begin, with names."""

    @abstractmethod
    def boundary(self, values: Array) -> str | None:
        """Return words for what is at its limit; None if nothing is."""

    def arranged(self, values: Array) -> Array:
        """Return the parameters of the same shape in the order that is agreed on; here as given."""
        return values

    def describe(self, values: Array) -> str | None:
        """Say more of a shape than its parameters do; here nothing."""
        del values
        return None

    def degenerate(self, values: Array) -> str | None:
        """Say why an optimum there is none of the model, so that it is discarded; else None."""
        del values
        return None

    def between(self, lower: Array, upper: Array, inner: Array, *, curvature: bool) -> ShapeTerms:
        """Return log(F(b) - F(a)) with derivatives in a, b and the inner parameters."""
        n, m = len(lower), len(inner)
        # The tail in which the interval lies keeps the digits of a difference.
        right = lower > 0
        value, gradient = np.empty(n), np.empty((n, 2 + m))
        hessian = np.empty((n, 2 + m, 2 + m)) if curvature else None
        for here, side in ((right, ABOVE), (~right, BELOW)):
            if not here.any():
                continue
            ends = [
                self.evaluate(end[here], side, inner, curvature=curvature) for end in (lower, upper)
            ]
            signs = (-1.0, 1.0) if side == BELOW else (1.0, -1.0)
            larger = ends[1].value if side == BELOW else ends[0].value
            smaller = ends[0].value if side == BELOW else ends[1].value
            mass = larger + np.log(-np.expm1(smaller - larger))
            value[here] = mass
            slope = np.zeros((here.sum(), 2 + m))
            second = np.zeros((here.sum(), 2 + m, 2 + m)) if curvature else None
            for place, (end, sign) in enumerate(zip(ends, signs, strict=True)):
                weight = sign * np.exp(end.value - mass)
                at = np.array([place, *range(2, 2 + m)])
                slope[:, at] += weight[:, None] * end.gradient
                if second is not None and end.hessian is not None:
                    both = end.gradient[:, :, None] * end.gradient[:, None, :]
                    second[:, at[:, None], at] += weight[:, None, None] * (end.hessian + both)
            gradient[here] = slope
            if second is not None and hessian is not None:
                hessian[here] = second - slope[:, :, None] * slope[:, None, :]
        return ShapeTerms(value, gradient, hessian)


def chained(terms: ShapeTerms, inner: Inner, first: int = 1) -> ShapeTerms:
    """Return derivatives in a (the `first` inputs) and the parameters that are estimated."""
    n, q = len(terms.value), inner.slope.shape[1]
    gradient = np.empty((n, first + q))
    gradient[:, :first] = terms.gradient[:, :first]
    gradient[:, first:] = terms.gradient[:, first:] @ inner.slope
    if terms.hessian is None:
        return ShapeTerms(terms.value, gradient, None)
    hessian = np.empty((n, first + q, first + q))
    hessian[:, :first, :first] = terms.hessian[:, :first, :first]
    cross = terms.hessian[:, :first, first:] @ inner.slope
    hessian[:, :first, first:] = cross
    hessian[:, first:, :first] = cross.transpose(0, 2, 1)
    hessian[:, first:, first:] = inner.slope.T @ terms.hessian[:, first:, first:] @ inner.slope
    hessian[:, first:, first:] += np.tensordot(terms.gradient[:, first:], inner.bend, axes=(1, 0))
    return ShapeTerms(terms.value, gradient, hessian)

"""The parameters of shapes that are estimated, and where they stand among the natural ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.fused_known import StudentTable
from selfselect.noises.shapes._family import Family, Inner
from selfselect.problem.problem import Problem

__all__ = ["ShapeParameters", "parameters_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShapeParameters:
    """The parameters of the shapes of a problem.

    Attributes
    ----------
    family : the shapes.
    inner : inner parameters of each shape there is.
    each : whether every alternative has its own.
    first : where they begin among the natural parameters.
    possible : whether there are such shapes.
    """

    family: Family
    inner: list[Inner]
    each: bool
    first: int
    possible: bool

    @property
    def table(self) -> StudentTable | None:
        """The shapes as the compiled kernel of Student's t takes them; None if they are others."""
        return self.family.table([inner.values for inner in self.inner])

    @property
    def components(self) -> Array:
        """The components (1 or k, M, 3) of mixtures of normals."""
        return np.array([inner.values.reshape(-1, 3) for inner in self.inner])

    def of(self, j: int) -> int:
        """Return which shape is that of an alternative."""
        return j if self.each else 0

    def places(self, which: int) -> slice:
        """Return where the parameters of a shape stand among the natural ones."""
        size = len(self.family.terms)
        return slice(self.first + which * size, self.first + (which + 1) * size)


def parameters_of(problem: Problem, natural: Array) -> ShapeParameters:
    """Return the parameters of a problem's shapes, which are estimated."""
    noise, layout = problem.noise, problem.layout
    family, first = noise.family, int(layout.starts[-1])
    assert family is not None
    size = len(family.terms)
    extras = natural[first : first + layout.n_noise_extras]
    parts = [extras[at : at + size] for at in range(0, len(extras), size)]
    possible = noise.possible(extras)
    return ShapeParameters(
        family, [family.inner(part) for part in parts] if possible else [], noise.each, first,
        possible,
    )  # fmt: skip

"""Independent noise of a shape with parameters that are estimated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.joint import Indices, JointTerms, Sides
from selfselect.noises.base import COMMON, Begin, Extra, FittedNoise
from selfselect.noises.independent import Independent
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes._family import ABOVE, BELOW, OBSERVED, Family, chained
from selfselect.rules.base import Label

__all__ = ["Shaped"]

Array = NDArray[np.float64]


class Shaped(FittedNoise):
    """Noise that is independent across alternatives, of a family of shapes.

    Subclasses have the fields `each`, whether every alternative has a shape of its own, and
    `scale`. They give the `family`, or the shape that is `settled` where nothing is estimated.
    """

    independent: ClassVar[bool] = True
    takes_formulas: ClassVar[bool] = True

    def _check_scale(self) -> None:
        """Refuse scales that mean nothing."""
        Independent(self.scale)

    @property
    def spread(self) -> str | Mapping[Any, str] | None:
        return Independent(self.scale).spread

    @property
    @abstractmethod
    def settled(self) -> Shape | None:
        """The shape, where it has no parameters that are estimated; else None."""

    @property
    def _family(self) -> Family:
        assert self.family is not None
        return self.family

    @property
    def name(self) -> str:
        scale = Independent(self.scale).name.split("; ")[1]
        own = ", one for each alternative" if self.each else ""
        shape = self._family.name if self.settled is None else self.settled.name
        return f"{shape}{own}, independent across alternatives (assumed); {scale}"

    @property
    def margin(self) -> Shape:
        return self._family.at(self._family.starts) if self.settled is None else self.settled

    def margins(self, extras: Array, n_alternatives: int) -> list[Shape]:
        if self.settled is not None:
            return [self.settled] * n_alternatives
        # Where there is no shape the likelihood is zero, and any will do.
        every = [
            self._family.at(own if self._family.possible(own) else self._family.starts)
            for own in self._parts(extras)
        ]
        return every if self.each else every * n_alternatives

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        return Independent(self.scale).fixed_scales(alternatives)

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        if self.settled is not None:
            return ()
        owners: list[tuple[Any, int | None]] = [(COMMON, None)]
        if self.each:
            owners = [(label, j) for j, label in enumerate(alternatives)]
        return tuple(
            Extra((label, term), start=float(start), alternative=j)
            for label, j in owners
            for term, start in zip(self._family.terms, self._family.starts, strict=True)
        )

    def renumbered(self, order: Indices) -> Indices:
        size = 0 if self.settled is not None else len(self._family.terms)
        if not self.each:
            return np.arange(size)
        return np.concatenate([np.arange(size) + size * j for j in order])

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        if self.settled is None:
            raise OptionError(
                f"The parameters of {type(self).__name__} are estimated, so nothing can be drawn "
                "from it before a fit. Draw from noises.Independent, or noises.Student(degrees=5)."
            )
        return self.draw_at(np.empty(0), n_rows, scales, alternatives, rng)

    def draw_at(
        self,
        extras: Array,
        n_rows: int,
        scales: Sequence[float],
        alternatives: Sequence[Label],
        rng: Generator,
    ) -> Array:
        shapes = self.margins(extras, len(alternatives))
        if not self.each:
            drawn = shapes[0].draw((n_rows, len(alternatives)), rng)
        else:
            drawn = np.column_stack([shape.draw((n_rows,), rng) for shape in shapes])
        return drawn * np.asarray(scales, float)

    def possible(self, extras: Array) -> bool:
        return self.settled is not None or all(map(self._family.possible, self._parts(extras)))

    def _parts(self, extras: Array) -> list[Array]:
        """Return the parameters of each shape there is."""
        size = len(self._family.terms)
        return [extras[at : at + size] for at in range(0, len(extras), size)]

    def compiled(self, n_alternatives: int, index: str) -> bool:
        del n_alternatives
        known = self._family.compiled if self.settled is None else self.settled.kernel is not None
        return known and index == "unknown"

    def narrowest(self, covariance: Array, extras: Array) -> float:
        return min(shape.finest for shape in self.margins(extras, len(covariance)))

    def evaluate(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        extras: Array,
        *,
        keys: Any,
        curvature: bool,
    ) -> JointTerms:
        if self.settled is not None:
            return super().evaluate(a, chosen, side, extras, keys=keys, curvature=curvature)
        n_atoms, k = a.shape
        family, size, n_extras = self._family, len(self._family.terms), len(extras)
        gradient = np.zeros((n_atoms, k + n_extras))
        hessian = np.zeros((n_atoms, k + n_extras, k + n_extras)) if curvature else None
        if not self.possible(extras):
            return JointTerms(np.full(n_atoms, -np.inf), gradient, hessian)
        loglik = np.zeros(n_atoms)
        code = side.astype(np.int64)
        code[np.arange(n_atoms), chosen] = 2
        inner = [family.inner(own) for own in self._parts(extras)]
        for j in range(k):
            own = inner[j if self.each else 0]
            start = k + (size * j if self.each else 0)
            at = np.array([j, *range(start, start + size)])
            for which, kind in ((2, OBSERVED), (1, BELOW), (-1, ABOVE)):
                here = np.flatnonzero(code[:, j] == which)
                if not len(here):
                    continue
                terms = family.evaluate(a[here, j], kind, own.values, curvature=curvature)
                terms = chained(terms, own)
                loglik[here] += terms.value
                gradient[here[:, None], at] += terms.gradient
                if hessian is not None and terms.hessian is not None:
                    hessian[here[:, None, None], at[:, None], at] += terms.hessian
        return JointTerms(loglik, gradient, hessian)

    def residuals(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        gradient: Array,
        covariance: Array,
        extras: Array,
    ) -> Array:
        shapes = self.margins(extras, a.shape[1])
        if shapes[0].normal:
            return super().residuals(a, chosen, side, gradient, covariance, extras)
        if not self.each:
            return shapes[0].residuals(a, chosen, side)
        found = a.copy()
        for j, shape in enumerate(shapes):
            # Where the alternative is chosen its noise is known.
            here = np.flatnonzero(chosen != j)
            own, beyond = a[here, j], side[here, j]
            lower, upper = np.where(beyond < 0, own, -np.inf), np.where(beyond > 0, own, np.inf)
            found[here, j] = shape.mean_between(lower, upper)
        return found

    def contains(
        self, other: FittedNoise, alternatives: Sequence[Label], *, free_scales: bool
    ) -> bool:
        if self.settled is not None:
            return super().contains(other, alternatives, free_scales=free_scales)
        return other.family == self.family and other.each == self.each

    def begins(self, free: NDArray[np.bool_], inverse_scales: Array) -> list[Begin]:
        if not free.any():
            return []
        repeats = len(inverse_scales) if self.each else 1
        return [Begin(name, np.tile(values, repeats)) for name, values in self._family.begins()]

    def boundary(
        self,
        alternatives: Sequence[Label],
        covariance: Array,
        extras: Array,
        *,
        known_scales: bool,
    ) -> str | None:
        del covariance, known_scales
        return self._first_said(Family.boundary, alternatives, extras)

    def arranged(self, extras: Array) -> Array:
        if self.settled is not None or not self.possible(extras):
            return extras
        return np.concatenate([self._family.arranged(own) for own in self._parts(extras)])

    def degenerate(self, alternatives: Sequence[Label], extras: Array) -> str | None:
        return self._first_said(Family.degenerate, alternatives, extras)

    def _first_said(
        self,
        says: Callable[[Family, Array], str | None],
        alternatives: Sequence[Label],
        extras: Array,
    ) -> str | None:
        if self.settled is not None:
            return None
        for j, own in enumerate(self._parts(extras)):
            said = getattr(self._family, says.__name__)(own)
            if said is not None:
                return f"for {alternatives[j]!r}, {said}" if self.each else str(said)
        return None

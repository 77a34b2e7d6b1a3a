"""What noises share: numbers by pair of alternatives, and shapes that are estimated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.joint import Indices, JointTerms, Sides
from selfselect.noises.base import COMMON, Begin, Extra, FittedNoise
from selfselect.noises.independent import Independent
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes.base import ABOVE_LIMIT, AT_VALUE, BELOW_LIMIT, Family, chained
from selfselect.rules.base import Label

Array = NDArray[np.float64]


# Values that belong to pairs of alternatives: reading what a user gave, and matrices of them.


POSITIVE, PROJECTIONS = 0.01, 500
"""Smallest eigenvalue that a completed matrix should have, and steps to get there."""


def fixed_pairs(given: Any, alternatives: Sequence[Label]) -> dict[tuple[int, int], float]:
    """Return what is fixed, by positions of pairs: from a number, a matrix or a mapping."""
    pairs = list(combinations(range(len(alternatives)), 2))
    if isinstance(given, str):
        return {}
    if isinstance(given, Mapping):
        return _from_mapping(given, alternatives)
    values = np.asarray(given, dtype=float)
    if values.ndim == 0:
        return dict.fromkeys(pairs, float(values))
    k = len(alternatives)
    if values.shape != (k, k) or not np.allclose(values, values.T, equal_nan=True):
        raise OptionError(
            f"The matrix of correlations has shape {values.shape}; for {k} alternatives it must "
            f"be symmetric, {k} by {k}, with nan where a correlation is to be estimated."
        )
    if not np.allclose(np.diag(values), 1.0):
        raise OptionError(
            "The diagonal of a matrix of correlations is 1. Give scales with `scale=`, not as "
            "variances on the diagonal."
        )
    return {pair: float(values[pair]) for pair in pairs if not np.isnan(values[pair])}


def _from_mapping(
    given: Mapping[Any, float], alternatives: Sequence[Label]
) -> dict[tuple[int, int], float]:
    place = {str(label): i for i, label in enumerate(alternatives)}
    found: dict[tuple[int, int], float] = {}
    for key, value in given.items():
        both = tuple(str(one) for one in key) if isinstance(key, tuple) else ()
        if len(both) != 2 or both[0] == both[1] or not set(both) <= set(place):
            raise OptionError(
                f"{key!r} is not a pair of two of the alternatives "
                f"({', '.join(map(str, alternatives))}). Write correlation={{('a', 'b'): 0.5}}."
            )
        j, m = sorted(place[one] for one in both)
        found[j, m] = float(value)
    return found


def as_matrix(values: Sequence[float] | Array, k: int) -> Array:
    """Put values of the pairs (1, 2), (1, 3), ... into a matrix with a unit diagonal."""
    matrix = np.eye(k)
    for (j, m), value in zip(combinations(range(k), 2), values, strict=True):
        matrix[j, m] = matrix[m, j] = value
    return matrix


def completed(fixed: Mapping[tuple[int, int], float], k: int) -> Array:
    """Return a positive definite matrix that holds the fixed correlations, the others near zero.

    Where zeros will not do, it is sought by projecting in turn onto the matrices that are positive
    definite and onto those that hold the fixed values.
    """
    pairs = list(combinations(range(k), 2))
    matrix = as_matrix([fixed.get(pair, 0.0) for pair in pairs], k)
    for _ in range(PROJECTIONS):
        values, vectors = np.linalg.eigh(matrix)
        if values[0] > POSITIVE:
            return matrix
        if len(fixed) == len(pairs):
            break
        nearest = (vectors * np.maximum(values, 2.0 * POSITIVE)) @ vectors.T
        matrix = as_matrix([fixed.get(pair, float(nearest[pair])) for pair in pairs], k)
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if not smallest > 0:
        raise OptionError(
            "The given correlations are those of no distribution: their matrix is not positive "
            f"definite (smallest eigenvalue {smallest:.3g}). Move them towards zero."
        )
    return matrix


def name_limit(
    alternatives: Sequence[Label], covariance: Array, free: Sequence[bool], limit: float
) -> str | None:
    """Return a sentence that names a free correlation beyond `limit`; None where there is none."""
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    for (j, m), estimated in zip(combinations(range(len(alternatives)), 2), free, strict=True):
        if estimated and abs(correlation[j, m]) > limit:
            sign = "positive" if correlation[j, m] > 0 else "negative"
            return (
                f"the correlation of {alternatives[j]!r} and {alternatives[m]!r} is estimated at "
                f"{correlation[j, m]:.4f}. There the noise of one is a {sign} multiple of the "
                "other's, and such an estimate has no standard error."
            )
    return None


def name_singular(
    alternatives: Sequence[Label], covariance: Array, free: Sequence[bool], least: float
) -> str | None:
    """Return a sentence where correlations together are nearly impossible; None where not.

    The smallest eigenvalue of their matrix is then below `least`.
    """
    spread = np.sqrt(np.diag(covariance))
    smallest = float(np.linalg.eigvalsh(covariance / np.outer(spread, spread))[0])
    if not any(free) or smallest > least:
        return None
    return (
        f"the correlations of {', '.join(map(repr, alternatives))} are as far apart as those of "
        f"any noise can be (the smallest eigenvalue of their matrix is {smallest:.2g}). There the "
        "noise of one alternative is a combination of the others', and such estimates have no "
        "standard error. Give some of the correlations as known, or use noises.Independent()."
    )


# Independent noise of a shape with parameters that are estimated.


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
        drawn = self.draw_standard(n_rows, np.empty(0), np.empty(0), alternatives, rng)
        return drawn * np.asarray(scales, float)

    def draw_standard(
        self, n_rows: int, extras: Array, h: Array, alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        del h
        shapes = self.margins(extras, len(alternatives))
        if not self.each:
            return shapes[0].draw((n_rows, len(alternatives)), rng)
        return np.column_stack([shape.draw((n_rows,), rng) for shape in shapes])

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
            for which, kind in ((2, AT_VALUE), (1, BELOW_LIMIT), (-1, ABOVE_LIMIT)):
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

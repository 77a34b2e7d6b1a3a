"""The linear-argmax rule: outcomes are mixed linearly before they are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from selfselect.errors import RuleError
from selfselect.plain import archived
from selfselect.rules.base import (
    NO_ROW_DATA,
    Array,
    CostSpec,
    Indices,
    Label,
    RowData,
    by_alternative,
    choose_largest,
)

PRECISION = 1e-10
"""Distance to a constraint, relative to the size of the outcomes, at which a projection ends."""

MOST_SWEEPS = 2_000


@archived("linear argmax")
@dataclass(frozen=True)
class LinearArgmax:
    r"""Choose the alternative with the largest entry of :math:`M y + c`, net of known costs.

    Examples are a household that weights a partner's outcome, and a handicap that depends on the
    outcomes of others. If alternative :math:`j` is chosen with outcome :math:`y_j`, the others lie
    in the polyhedron :math:`(M_j - M_l) y + c_j - c_l \ge 0` for all :math:`l`.

    Parameters
    ----------
    matrix : :math:`M`, one row per alternative in their order (that of the formulas, else
        sorted); or by label, ``{alternative: {alternative: weight}}``, where weights left out are
        one for an alternative's own outcome and zero for others.
    constant : :math:`c`, a sequence in the same order or a mapping; None for zero.
    cost : known cost of alternatives, ``{alternative: number or column name}``.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.rules import LinearArgmax
    >>> rule = LinearArgmax([[1.0, 0.5], [0.0, 1.0]])
    >>> rule.choose(np.array([[1.0, 1.5], [0.0, 1.0]])).tolist()
    [0, 1]
    """

    matrix: Any
    constant: Any = None
    cost: CostSpec | None = None

    convex: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.matrix, Mapping):
            plain = {
                key: dict(row) if isinstance(row, Mapping) else row
                for key, row in self.matrix.items()
            }
            odd = [key for key, row in plain.items() if not isinstance(row, dict)]
            if odd:
                raise RuleError(
                    f"The weights of {odd[0]!r} must be a mapping by alternative, such as "
                    "{'a': 1.0, 'b': 0.3}."
                )
            object.__setattr__(self, "matrix", plain)
            return
        matrix = _numbers(self.matrix, "matrix")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise RuleError(
                f"The matrix of LinearArgmax must be square, with one row and one column per "
                f"alternative; it has the shape {matrix.shape}."
            )
        object.__setattr__(self, "matrix", tuple(map(tuple, matrix.tolist())))
        if self.constant is not None and not isinstance(self.constant, Mapping):
            constant = _numbers(self.constant, "constant")
            if constant.shape != (len(matrix),):
                raise RuleError(
                    f"The constant of LinearArgmax has the shape {constant.shape}, but its matrix "
                    f"has {len(matrix)} rows. Give one number per alternative."
                )
            object.__setattr__(self, "constant", tuple(constant.tolist()))

    @property
    def name(self) -> str:
        """A few words for summaries."""
        return "the alternative with the largest linear combination of outcomes is chosen" + (
            ", net of known costs" if self.cost else ""
        )

    def for_alternatives(self, alternatives: Sequence[Label]) -> Self:
        """Return the rule with everything it keeps by label put in the order of `alternatives`."""
        matrix: Any = self.matrix
        if isinstance(matrix, Mapping):
            given = by_alternative(matrix, alternatives, what="row of weights")
            rows = [
                by_alternative(given.get(label, {}), alternatives, what="weight")
                for label in alternatives
            ]
            matrix = [
                [float(row.get(label, label == own)) for label in alternatives]
                for own, row in zip(alternatives, rows, strict=True)
            ]
        elif len(matrix) != len(alternatives):
            raise RuleError(
                f"The matrix of LinearArgmax has {len(matrix)} rows but there are "
                f"{len(alternatives)} alternatives: {', '.join(map(str, alternatives))}."
            )
        constant = self.constant
        if isinstance(constant, Mapping):
            known = by_alternative(constant, alternatives, what="constant")
            constant = [float(known.get(label, 0.0)) for label in alternatives]
        return replace(self, matrix=matrix, constant=constant)

    def linear_scores(self) -> tuple[Array, Array]:
        """Return the matrix and the constant, in the order of the alternatives."""
        if isinstance(self.matrix, Mapping) or isinstance(self.constant, Mapping):
            raise RuleError(
                "LinearArgmax holds weights by label and does not know the alternatives' order "
                "yet. Call rule.for_alternatives([...]) first, or give a matrix."
            )
        matrix = np.asarray(self.matrix)
        return matrix, np.zeros(len(matrix)) if self.constant is None else np.array(self.constant)

    def choose(self, latent: Array, rows: RowData = NO_ROW_DATA) -> Indices:
        """Return the chosen alternative of each row."""
        matrix, constant = self.linear_scores()
        score = latent @ matrix.T
        if self.constant is not None:
            score += constant
        return choose_largest(score if rows.costs is None else score - rows.costs, rows)

    def project(
        self, latent: Array, chosen: Indices, outcome: Array, rows: RowData = NO_ROW_DATA
    ) -> Array:
        """Move to the nearest point of the polyhedron, by Hildreth's method."""
        matrix, constant = self.linear_scores()
        moved = np.array(latent, dtype=np.float64)
        moved[np.arange(len(moved)), chosen] = outcome
        for j in range(len(matrix)):
            here = np.flatnonzero(chosen == j)
            if here.size == 0:
                continue
            slope = np.delete(matrix[j] - matrix, j, axis=0)
            part = rows.take(here)
            level = constant if part.costs is None else constant - part.costs
            gap = np.broadcast_to(level[..., [j]] - level, (here.size, len(matrix)))
            room = np.delete(gap, j, axis=1) + outcome[here, None] * slope[:, j]
            if part.available is not None:
                room = np.where(np.delete(part.available, j, axis=1), room, np.inf)
            others = np.arange(len(matrix)) != j
            points = moved[here][:, others]
            moved[np.ix_(here, others)] = _into_polyhedron(points, slope[:, others], room)
        return moved


def _numbers(values: Any, word: str) -> Array:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RuleError(f"The {word} of LinearArgmax must hold numbers: {error}.") from error
    if not np.isfinite(numbers).all():
        raise RuleError(f"The {word} of LinearArgmax must hold finite numbers.")
    return numbers


def _into_polyhedron(points: Array, slope: Array, room: Array) -> Array:
    """Return the nearest points (n, q) with ``slope @ z + room >= 0``, each constraint in turn."""
    points = points.copy()
    held = np.zeros_like(room)
    length = np.einsum("ij,ij->i", slope, slope)
    size = 1.0 + np.abs(points).max(initial=0.0)
    active = np.arange(len(points))
    for _ in range(MOST_SWEEPS):
        z, force = points[active], held[active]
        moved = np.zeros(len(active))
        for one in np.flatnonzero(length > 0):
            lack = -(z @ slope[one] + room[active, one]) / length[one]
            step = np.maximum(lack, -force[:, one])
            force[:, one] += step
            z += step[:, None] * slope[one]
            np.maximum(moved, np.abs(step), out=moved)
        points[active], held[active] = z, force
        active = active[moved * np.sqrt(length.max(initial=0.0)) > PRECISION * size]
        if active.size == 0:
            break
    return points

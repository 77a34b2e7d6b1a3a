"""Selected rows whose outcome is known only to lie between two limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.selected_interval import SelectedIntervalTerms, selected_interval_terms
from selfselect.problem.batch import Evaluation
from selfselect.problem.units import Units

__all__ = ["BetweenRows", "has_limits"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def has_limits(rows: Rows) -> Mask:
    """Say which rows (n,) have no outcome, but a limit of it."""
    assert rows.outcome is not None
    if rows.between is None:
        return np.zeros(len(rows), dtype=bool)
    return np.isnan(rows.outcome) & np.isfinite(rows.between).any(axis=1)


@dataclass(frozen=True, eq=False)
class BetweenRows:
    """The rows of one alternative that have limits of its outcome, in internal units.

    Attributes
    ----------
    which : (m,) their positions.
    x : (m, p) covariates of the outcome.
    z : (m, q) those of the selection.
    low, high : (m,) limits, infinite where there is none.
    weights : (m,) how much each row counts.
    has_ends : whether the index is bounded below and above.
    has_cuts : whether its bounds are cut points.
    """

    which: Indices
    x: Array
    z: Array
    low: Array
    high: Array
    weights: Array
    has_ends: tuple[bool, bool]
    has_cuts: bool

    @classmethod
    def read(
        cls,
        rows: Rows,
        which: Indices,
        units: Units,
        columns: tuple[tuple[int, ...], tuple[int, ...]],
        ends: tuple[int | None, int | None],
        *,
        has_cuts: bool,
    ) -> BetweenRows:
        """Read rows; `columns` are those of the outcome and of the selection's slopes."""
        assert rows.between is not None
        x, z = (units.design(rows.covariates[which], own) for own in columns)
        low, high = units.limits(rows.between[which]).T
        weights = np.ones(len(which)) if rows.weights is None else rows.weights[which]
        return cls(
            which,
            x,
            z,
            np.nan_to_num(low, nan=-np.inf, neginf=-np.inf),
            np.nan_to_num(high, nan=np.inf, posinf=np.inf),
            weights,
            (ends[0] is not None, ends[1] is not None),
            has_cuts,
        )

    def terms(self, natural: Array) -> SelectedIntervalTerms:
        """Evaluate the rows at γ with its own cut points, g, h and t."""
        q, h, t = self.z.shape[1], float(natural[-2]), float(natural[-1])
        index, at_g = self.z @ natural[:q], slice(-2 - self.x.shape[1], -2)
        cuts = list(natural[q : at_g.start]) if self.has_cuts else [0.0] * sum(self.has_ends)
        ends = [index + cuts.pop(0) if one else None for one in self.has_ends]
        return selected_interval_terms(
            self.low, self.high, self.x @ natural[at_g], h, ends[0], ends[1], t
        )

    def _designs(self) -> Iterator[tuple[int, Array, Indices]]:
        """Yield which argument of the kernel is linear in which parameters, and how."""
        q, p, n_ends = self.z.shape[1], self.x.shape[1], sum(self.has_ends)
        ones = np.ones((len(self.which), 1))
        first = q + (n_ends if self.has_cuts else 0)
        yield 0, self.x, np.arange(first, first + p)
        yield 1, ones, np.array([first + p])
        places = [argument for argument, one in zip((2, 3), self.has_ends, strict=True) if one]
        for cut, argument in enumerate(places):
            if self.has_cuts:
                yield argument, np.hstack([self.z, ones]), np.append(np.arange(q), q + cut)
            else:
                yield argument, self.z, np.arange(q)
        yield 4, ones, np.array([first + p + 1])

    def evaluate(self, natural: Array) -> Evaluation:
        """Sum the log-likelihood of the rows, with score and Hessian in the same parameters.

        It is -inf where cut points change places.
        """
        size, q = len(natural), self.z.shape[1]
        score, hessian = np.zeros(size), np.zeros((size, size))
        if all(self.has_ends) and not natural[q] > natural[q + 1]:
            return Evaluation(-np.inf, score, hessian)
        terms = self.terms(natural)
        designs = list(self._designs())
        for i, design, places in designs:
            score[places] += (self.weights * terms.slope[i]) @ design
            for j, other, others in designs:
                curved = self.weights * terms.curvature[i, j]
                hessian[places[:, None], others] += (design.T * curved) @ other
        return Evaluation(float(self.weights @ terms.log_mass), score, hessian)

    def each(self, natural: Array) -> tuple[Array, Array]:
        """Return the log-likelihood (m,) and the score (m, q) of every row."""
        terms = self.terms(natural)
        scores = np.zeros((len(self.which), len(natural)))
        for i, design, places in self._designs():
            scores[:, places] += design * terms.slope[i][:, None]
        return terms.log_mass, scores

"""Likelihoods of selected outcomes that are binary, or lie between limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.known_index import OBSERVED, UNKNOWN
from selfselect.kernels.orthants import bivariate_terms
from selfselect.kernels.selected import SelectedIntervalTerms, selected_interval_terms
from selfselect.kernels.tails import mills_terms
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation, Observation
from selfselect.problem.problem import Problem
from selfselect.problem.units import Units

Array = NDArray[np.float64]


# Selected rows whose outcome is known only to lie between two limits.

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


# A binary outcome that a selection equation selects: probit with sample selection.
#
# The outcome is one where :math:`x'\beta + e > 0`, and observed where :math:`z'\gamma + u > 0`;
# both noises are standard normal with correlation :math:`\rho = \tanh t`. With :math:`a = x'\beta`
# and :math:`m = z'\gamma` a row adds :math:`\log\Phi_2(a, m; \rho)` where one was observed,
# :math:`\log\Phi_2(-a, m; -\rho)` where zero was, :math:`\log\Phi(-m)` where it was not selected,
# and :math:`\log\Phi(m)` where it was and the outcome was not recorded.


@dataclass(frozen=True, eq=False)
class _SignedRows:
    """Rows of a batch with one outcome, and the signs of both arguments and of the correlation."""

    which: Indices
    x: Array
    z: Array
    side: float


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a batch: those with an outcome, and the others with the sign of their index."""

    groups: tuple[_SignedRows, ...]
    silent: tuple[tuple[Indices, Array], ...]


def _read(problem: Problem, batch: Batch) -> _Rows:
    """Return the rows of a batch in internal units; made once for each batch."""
    return batch.read(problem, _split)


def _split(problem: Problem, rows: Rows) -> _Rows:
    equations, units = problem.equations, problem.units
    selection = equations.selection
    assert selection is not None and rows.chosen is not None and rows.outcome is not None

    def designed(which: Indices, columns: tuple[int, ...]) -> Array:
        return units.design(rows.covariates[which], columns)

    (equation,) = equations.each
    groups, silent = [], []
    for value, side in ((1.0, 1.0), (0.0, -1.0)):
        which = np.flatnonzero((rows.chosen >= 0) & (rows.outcome == value))
        x, z = (designed(which, columns) for columns in (equation.columns, selection.columns))
        groups.append(_SignedRows(which, x, z, side))
    lacking = np.isnan(rows.outcome)
    for chosen, sign in ((rows.chosen < 0, -1.0), ((rows.chosen >= 0) & lacking, 1.0)):
        which = np.flatnonzero(chosen)
        if len(which):
            silent.append((which, sign * designed(which, selection.columns)))
    return _Rows(tuple(groups), tuple(silent))


@dataclass(frozen=True, eq=False)
class BinarySelection(Likelihood):
    """One outcome of which only the side of zero is recorded, where it is selected."""

    @cached_property
    def places(self) -> tuple[slice, slice, int]:
        """Where g, γ and t stand among the natural parameters."""
        layout = self.problem.layout
        assert layout.equations.selection is not None
        first = layout.n_natural - len(layout.equations.selection.columns)
        return (
            slice(int(layout.starts[0]), int(layout.inverse_scale_positions[0])),
            slice(first, layout.n_natural),
            int(layout.starts[-1]),
        )

    def observe(self, rows: Rows) -> Observation:
        assert rows.chosen is not None and rows.outcome is not None
        status = np.full((len(rows), 1), UNKNOWN, dtype=np.int8)
        status[(rows.chosen >= 0) & ~np.isnan(rows.outcome), 0] = OBSERVED
        return Observation(status, rows.outcome[:, None])

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        rows, weights = _read(self.problem, batch), batch.rows.weights
        at_g, at_gamma, at_t = self.places
        g, gamma, t = natural[at_g], natural[at_gamma], float(natural[at_t])
        loglik, score = 0.0, np.zeros(len(natural))
        hessian = np.zeros((len(natural), len(natural)))
        for group in rows.groups:
            found = bivariate_terms(group.side * (group.x @ g), group.z @ gamma, group.side * t)
            counted = 1.0 if weights is None else weights[group.which]
            # What the first argument and t are multiplied by: the side on which the outcome lies.
            signs = np.array([group.side, 1.0, group.side])
            slope = found.slope * signs[:, None] * counted
            curve = found.curvature * (signs[:, None] * signs)[:, :, None] * counted
            loglik += float((found.log_mass * counted).sum())
            score[at_g] += slope[0] @ group.x
            score[at_gamma] += slope[1] @ group.z
            score[at_t] += slope[2].sum()
            if curvature == "none":
                continue
            hessian[at_g, at_g] += (group.x.T * curve[0, 0]) @ group.x
            hessian[at_gamma, at_gamma] += (group.z.T * curve[1, 1]) @ group.z
            crossed = (group.x.T * curve[0, 1]) @ group.z
            hessian[at_g, at_gamma] += crossed
            hessian[at_gamma, at_g] += crossed.T
            for at, design, own in ((at_g, group.x, curve[0, 2]), (at_gamma, group.z, curve[1, 2])):
                hessian[at, at_t] += own @ design
                hessian[at_t, at] += own @ design
            hessian[at_t, at_t] += curve[2, 2].sum()
        for which, z in rows.silent:
            mills = mills_terms(z @ gamma)
            counted = 1.0 if weights is None else weights[which]
            loglik += float((mills.log_cdf * counted).sum())
            score[at_gamma] += (mills.ratio * counted) @ z
            if curvature != "none":
                hessian[at_gamma, at_gamma] -= (z.T * (mills.slope * counted)) @ z
        return Evaluation(loglik, score, hessian)

    def rows(self, natural: Array, batch: Batch) -> BinarySelectionRows:
        return BinarySelectionRows(self.problem, natural, batch)


@dataclass(frozen=True, eq=False)
class BinarySelectionRows(RowTerms):
    """What rows say of a binary outcome that a selection equation selects."""

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """The log-likelihood (n,) and the score (n, n_natural) of every row."""
        likelihood = BinarySelection(self.problem)
        natural, rows = self.natural, _read(self.problem, self.batch)
        at_g, at_gamma, at_t = likelihood.places
        g, gamma, t = natural[at_g], natural[at_gamma], float(natural[at_t])
        loglik, scores = np.zeros(len(self.batch)), np.zeros((len(self.batch), len(natural)))
        for group in rows.groups:
            side, which = group.side, group.which
            found = bivariate_terms(side * (group.x @ g), group.z @ gamma, side * t)
            loglik[which] = found.log_mass
            scores[which, at_g] = group.x * (side * found.slope[0])[:, None]
            scores[which, at_gamma] = group.z * found.slope[1][:, None]
            scores[which, at_t] = side * found.slope[2]
        for which, z in rows.silent:
            mills = mills_terms(z @ gamma)
            loglik[which] = mills.log_cdf
            scores[which, at_gamma] = z * mills.ratio[:, None]
        return loglik, scores

    @property
    def loglik(self) -> Array:
        return self._parts[0]

    @property
    def score(self) -> Array:
        return self._parts[1].copy()

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @property
    def residual(self) -> Array:
        self._refuse_residuals()

    @property
    def products(self) -> Array:
        self._refuse_residuals()

    def _refuse_residuals(self) -> NoReturn:
        raise UnsupportedError("A binary outcome has no residuals: only its side of zero is known.")

r"""A binary outcome that a selection equation selects: probit with sample selection.

The outcome is one where :math:`x'\beta + e > 0`, and observed where :math:`z'\gamma + u > 0`; both
noises are standard normal with correlation :math:`\rho = \tanh t`. With :math:`a = x'\beta` and
:math:`m = z'\gamma` a row adds :math:`\log\Phi_2(a, m; \rho)` where one was observed,
:math:`\log\Phi_2(-a, m; -\rho)` where zero was, :math:`\log\Phi(-m)` where it was not selected, and
:math:`\log\Phi(m)` where it was and the outcome was not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.bivariate import bivariate_terms
from selfselect.kernels.status import OBSERVED, UNKNOWN
from selfselect.kernels.tails import mills_terms
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem

__all__ = ["BinarySelection"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows of a batch with one outcome, and the signs of both arguments and of the correlation."""

    which: Indices
    x: Array
    z: Array
    side: float


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a batch: those with an outcome, and the others with the sign of their index."""

    groups: tuple[_Group, ...]
    silent: tuple[tuple[Indices, Array], ...]


def _read(problem: Problem, batch: Batch) -> _Rows:
    """Return the rows of a batch in internal units; made once for each batch."""
    key = ("binary", id(problem.equations), id(problem.units))
    if key not in batch.memory:
        batch.memory[key] = (_split(problem, batch.rows), problem.equations, problem.units)
    made: _Rows = batch.memory[key][0]
    return made


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
        groups.append(_Group(which, x, z, side))
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

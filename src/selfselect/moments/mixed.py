"""Moments where unobserved types differ: those of every type, averaged by their weights.

Given its type a row has independent noise, and the moments of that. Weights are those before any
row of a person is looked at, so that new rows and rows of the fit are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.likelihoods._components import Components, TypesAt
from selfselect.moments.base import NEGLIGIBLE, Expectations, Moments
from selfselect.problem.batch import Batch
from selfselect.problem.observation import Observation

__all__ = ["MixedMoments", "average_expectations"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixedMoments(Moments):
    """Moments by averaging over types."""

    @cached_property
    def components(self) -> Components:
        """The problem of one type."""
        return Components.of(self.problem)

    @cached_property
    def inner(self) -> Moments:
        """The moments of one type."""
        # Imported here: the choice is made of the members.
        from selfselect.moments.choose import moments_of

        return moments_of(self.components.inner, self.rule)

    def check_cells(self) -> None:
        self.inner.check_cells()

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        types = self.types(reported, rows)
        each = [self.inner.expectations(one, rows, shift=shift) for one in types.reported]
        found = average_expectations(each, types.chances)
        return self.without_unknown(found)

    def undetermined(self) -> NDArray[np.bool_]:
        """Say of every type (M, k) which outcomes the data do not determine.

        What people would have where they hardly ever are is known to nobody. Where the types to
        average over were named, theirs are taken as they are held.
        """
        noise: Any = self.problem.noise
        labels = self.problem.equations.alternatives
        found = np.zeros((noise.count, len(labels)), dtype=bool)
        if noise.averaged is None:
            for m, label, _ in noise.held_shifts:
                found[m, labels.index(label)] = True
        return found

    def without_unknown(self, found: Expectations) -> Expectations:
        """Take out what people would have where some types' outcomes are not determined."""
        for j in np.flatnonzero(self.undetermined().any(axis=0)):
            found.given_seen[:, j, np.arange(found.chance.shape[1]) != j] = np.nan
        return found

    def types(self, reported: Array, rows: Rows) -> TypesOfRows:
        """Return the types at reported parameters, with their chances in rows."""
        layout = self.problem.layout
        natural = layout.natural(layout.read(reported))
        status = np.empty((len(rows), 0), dtype=np.int8)
        batch = Batch(rows, Observation(status, np.empty((len(rows), 0))))
        return TypesOfRows(self.components, self.components.at(natural, batch, None))

    def cells(self, reported: Array, rows: Rows) -> Array:
        types = self.types(reported, rows)
        each = [
            self.inner.cells(one, rows) @ types.without_shift(m).T
            for m, one in enumerate(types.reported)
        ]
        return np.asarray(np.einsum("nm,mnq->nq", types.chances, np.array(each)))

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        layout, parts = self.problem.layout, self.components
        free = layout.read(reported)
        types = self.types(reported, rows)
        k, number = self.problem.equations.n_alternatives, types.at.number
        size = 2 * k + 2 * k * k
        slope = np.zeros((size, layout.n_natural))
        each = np.empty((number, len(rows), size))
        for m in range(number):
            own = weights * types.chances[:, m]
            values, slopes = self.inner.cells_and_slope(types.reported[m], rows, own)
            turn = types.without_shift(m)
            each[m] = values @ turn.T
            inner = parts.inner.layout.report(parts.inner.layout.gather(types.at.inner(m)))
            slope += turn @ slopes @ inner.jacobian @ types.at.slope(m)
            # A shift is taken off what covariates predict.
            chance = own @ values[:, :k]
            moves = types.at.values.shift_slopes[m] * self.problem.units.outcome_unit
            off = -np.einsum("le,g->lge", moves, chance).reshape(k * k, -1)
            slope[k + k * k : k + 2 * k * k, parts.at_types] += off
        average = np.einsum("nm,mnq->nq", types.chances, each)
        for m in range(1, number):
            pull = (weights * types.chances[:, m])[:, None] * (each[m] - average)
            slope[:, parts.at_types.start + m - 1] += pull.sum(axis=0)
            covariates = parts.weighing(rows, None)
            if covariates is not None:
                slope[:, parts.slopes_at[m - 1]] += pull.T @ covariates
        by_free = layout.pull_back_vector(slope, free)
        # More is reported than there are free parameters: any inverse will do.
        return np.asarray(average), by_free @ np.linalg.pinv(layout.report(free).jacobian)


@dataclass(frozen=True, eq=False)
class TypesOfRows:
    """The types at some parameters, and their chances in rows."""

    components: Components
    at: TypesAt

    @cached_property
    def chances(self) -> Array:
        """(n, M) chance of each type, among those that are averaged over."""
        prior = np.exp(self.at.log_prior)
        noise: Any = self.components.problem.noise
        if noise.averaged is not None:
            kept = np.isin(np.arange(prior.shape[1]), noise.averaged)
            prior = np.where(kept, prior, 0.0)
            prior /= prior.sum(axis=1, keepdims=True)
        return np.broadcast_to(prior, (len(self.at.batch), prior.shape[1]))

    @cached_property
    def reported(self) -> list[Array]:
        """The reported parameters of the problem of each type."""
        layout = self.components.inner.layout
        return [
            layout.report(layout.gather(self.at.inner(m))).values for m in range(self.at.number)
        ]

    def without_shift(self, m: int) -> Array:
        """Return the matrix that takes a type's shift off what covariates predict, in cells."""
        shifts = self.at.values.shifts[m] * self.components.problem.units.outcome_unit
        k = len(shifts)
        turn = np.eye(2 * k + 2 * k * k)
        for j in range(k):
            at = k + k * k + j * k + np.arange(k)
            turn[at, np.arange(k)] -= shifts[j]
        return turn


def average_expectations(each: list[Expectations], chances: Any) -> Expectations:
    """Average what types expect by their chances (n, M)."""
    chance = sum(share[:, None] * one.chance for share, one in zip(chances.T, each, strict=True))
    outcome = sum(share * one.outcome for share, one in zip(chances.T, each, strict=True))
    total = sum(
        (share[:, None] * one.chance)[:, None, :] * np.nan_to_num(one.given_seen)
        for share, one in zip(chances.T, each, strict=True)
    )
    chance = np.asarray(chance)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.where(chance[:, None, :] < NEGLIGIBLE, np.nan, total / chance[:, None, :])
    return Expectations(chance, np.asarray(outcome), given)

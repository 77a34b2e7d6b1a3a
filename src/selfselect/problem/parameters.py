r"""Parameters: the free vector a solver moves, the natural ones kernels use, those users read.

* *natural*: for each alternative :math:`(g_j, h_j)`, stacked, in internal units. The
  log-likelihood of the known index is concave in them.
  Behind them stand the *extras*: what the noise has beside scales, the coefficients of log scales
  that move with covariates, costs that are estimated, and the coefficients of a selection equation.
  Where a scale moves, :math:`h_j` is that of a row at the centre of the internal units, and a row's
  own is :math:`h_j e^{-z'\delta_j}`.
* *free*: the natural ones that are not fixed, each shared one once (see `Ties` for coefficients
  that alternatives share, and for offsets).
* *reported*: coefficients :math:`w_j = g_j/h_j` and scales :math:`\sigma_j = 1/h_j`, in the
  user's units, with labels. Where a scale moves, the constant of its logarithm, at covariates of
  zero, stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT, SELECTION, Equation, Equations
from selfselect.noises.base import COMMON, Extra, FittedNoise
from selfselect.problem.placement import Placement
from selfselect.problem.units import Units, shared_label
from selfselect.rules.base import Label

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

SCALE = "scale"
LOG_SCALE = "log scale: "
"""Begins the terms of the logarithm of a scale that moves with covariates."""


@dataclass(frozen=True, eq=False)
class Reported:
    """Parameters as users read them.

    Attributes
    ----------
    labels : (alternative, term) of each.
    values : (m,) coefficients and scales.
    jacobian : (m, n_free) their derivatives in the free parameters.
    """

    labels: tuple[tuple[Label, str], ...]
    values: Array
    jacobian: Array


@dataclass(frozen=True, eq=False)
class Layout(Placement):
    """How the natural, the free and the reported parameters are related."""

    @classmethod
    def build(cls, equations: Equations, noise: FittedNoise, units: Units) -> Layout:
        """Lay out the parameters of equations, noise and estimated costs."""
        fixed = noise.fixed_scales(equations.alternatives)
        extras = noise.extras(equations.alternatives)
        costs = tuple(
            Extra((cost.alternative, f"cost: {term}"), 0.0, in_outcome_units=True, column=column)
            for cost in equations.costs
            for term, column in zip(cost.terms, cost.columns, strict=True)
        )
        spreads: tuple[Equation, ...] = ()
        if getattr(noise, "spread", None) is not None:
            spreads = tuple(one for one in equations.spreads if len(one.columns) > 1)
        moving = tuple(
            Extra(
                (spread.alternative, f"{LOG_SCALE}{term}"),
                0.0,
                column=column,
                alternative=equations.alternatives.index(spread.alternative),
            )
            for spread in spreads
            for term, column in zip(spread.terms, spread.columns, strict=True)
            if column
        )
        selection: tuple[Extra, ...] = ()
        if equations.selection is not None:
            both = zip(equations.selection.terms, equations.selection.columns, strict=True)
            selection = tuple(Extra((SELECTION, term), 0.0, column=column) for term, column in both)
        common = fixed is None and isinstance(noise.scale, str) and noise.scale == "common"
        weighing: tuple[Extra, ...] = ()
        if equations.types is not None:
            weighing = tuple(
                Extra((label, term), 0.0, column=column)
                for label in noise.weighed
                for term, column in zip(equations.types.terms, equations.types.columns, strict=True)
            )
        shows = noise if noise.shown(equations.alternatives) else None
        others = moving + costs + selection + weighing
        return cls(equations, units, fixed, common, extras + others, spreads, shows)

    def natural(self, free: Array) -> Array:
        """Spread free parameters over the natural ones."""
        position = self.position
        if self.n_free == len(position) and self.ties is None:
            # None is shared or fixed: each has a place of its own.
            return free.copy()
        natural = np.where(position >= 0, np.append(free, 0.0)[position], 0.0)
        if self.scales is not None:
            natural[self.inverse_scale_positions] = self.units.outcome_unit / self.scales
        if self.extras:
            fixed = position[self.starts[-1] :] < 0
            natural[self.starts[-1] :][fixed] = self.extra_starts[fixed]
        if self.ties is not None:
            h = natural[self.inverse_scale_positions]
            u = free[: self.ties.n_moved] / self.ties.factors(h)
            natural[self.at_g] = self.ties.coefficients(u) * h[self.ties.alternative]
        return natural

    def gather(self, natural: Array) -> Array:
        """Collect free parameters from natural ones; shared ones are averaged."""
        position = self.position
        kept = position >= 0
        total = np.bincount(position[kept], weights=natural[kept], minlength=self.n_free)
        free = total / np.bincount(position[kept], minlength=self.n_free)
        if self.ties is not None:
            h = natural[self.inverse_scale_positions]
            u = self.ties.nearest(natural[self.at_g] / h[self.ties.alternative])
            kept_h = self.natural(free)[self.inverse_scale_positions]
            free[: self.ties.n_moved] = u * self.ties.factors(kept_h)
        return free

    def _jacobian(self, free: Array | None) -> Array:
        """Return the derivatives (n_natural, n_free) of natural parameters where there are ties."""
        assert self.ties is not None
        if free is None:
            if self.curved:
                raise ValueError("The derivatives depend on the free parameters: give them.")
            free = np.ones(self.n_free)
        position, n_moved = self.position, self.ties.n_moved
        jacobian = np.zeros((len(position), self.n_free))
        estimated = np.flatnonzero(position >= 0)
        jacobian[estimated, position[estimated]] = 1.0
        h = self.natural(free)[self.inverse_scale_positions]
        jacobian[self.at_g, :] = 0.0
        jacobian[self.at_g, :n_moved] = self.ties.slopes(h)
        if self.scales is None:
            along_h = self.ties.slopes_in_scales(free[:n_moved], len(h))
            jacobian[self.at_g, n_moved : n_moved + along_h.shape[1]] = along_h
        return jacobian

    def pull_back_vector(self, vector: Array, free: Array | None = None) -> Array:
        """Sum derivatives in natural parameters (..., n_natural) into free ones (..., n_free).

        `free` says where, which matters only where the layout is `curved`.
        """
        position = self.position
        if self.ties is not None:
            return np.asarray(vector @ self._jacobian(free))
        if self.n_free == len(position):
            return vector
        pulled = np.zeros((*vector.shape[:-1], self.n_free))
        kept = np.flatnonzero(position >= 0)
        if len(kept) == self.n_free:
            # None is shared: each has a place of its own.
            pulled[..., position[kept]] = vector[..., kept]
        else:
            np.add.at(np.moveaxis(pulled, -1, 0), position[kept], np.moveaxis(vector, -1, 0)[kept])
        return pulled

    def spread_columns(self, matrix: Array, free: Array | None = None) -> Array:
        """Repeat columns (..., n_free) for the natural parameters they stand for; 0 if fixed."""
        if self.ties is not None:
            return np.asarray(matrix @ self._jacobian(free).T)
        return np.where(self.position >= 0, matrix[..., self.position], 0.0)

    def pull_back_matrix(self, matrix: Array, free: Array | None = None) -> Array:
        """Sum a matrix of products of derivatives in natural parameters into free ones."""
        return self.pull_back_vector(self.pull_back_vector(matrix, free).T, free).T

    def pull_back_hessian(self, hessian: Array, score: Array, free: Array) -> Array:
        """Sum second derivatives in natural parameters into free ones.

        Where the layout is `curved`, the score (n_natural,) adds what it gains from the bending.
        """
        pulled = self.pull_back_matrix(hessian, free)
        if self.curved:
            assert self.ties is not None
            n_moved, k = self.ties.n_moved, len(self.sizes)
            bend = self.ties.bend(score[self.at_g], k)
            pulled[n_moved : n_moved + k, :n_moved] += bend
            pulled[:n_moved, n_moved : n_moved + k] += bend.T
        return pulled

    def straighten(self, hessians: Array, scores: Array, free: Array) -> Array:
        r"""Return second derivatives (n, n_free, n_free) of sums over few rows, straightened.

        Where free parameters bend about the middle of all rows, second derivatives of some rows,
        whose scores (n, n_free) do not add up to zero, depend on where that middle is. Straight
        are coefficients :math:`g_j/h_j` and log scales, in whatever units: with :math:`c(\theta)`
        those, and t the score in them, the result is that of second derivatives in c alone,
        without the bending :math:`\sum_m t_m c_m''(\theta)`.
        """
        if not (self.curved or self.spreads):
            return hessians
        natural, at_g, at_h = self.natural(free), self.at_g, self.inverse_scale_positions
        owner = np.repeat(at_h, self.sizes)
        g, h, of_scale = natural[at_g], natural[owner], natural[at_h]
        slopes = np.eye(len(natural))
        slopes[at_g, at_g], slopes[at_g, owner] = 1.0 / h, -g / h**2
        slopes[at_h, at_h] = 1.0 / of_scale
        # Where coefficients are shared, c has entries that follow from others by straight lines:
        # any t that makes up the score will do.
        along = scores @ np.linalg.pinv(self.pull_back_vector(slopes, free))
        bending = np.zeros((len(scores), *slopes.shape))
        bending[:, at_g, owner] = bending[:, owner, at_g] = -along[:, at_g] / h**2
        of_coefficients = (2.0 * along[:, at_g] * g / h**3) @ (owner[:, None] == at_h)
        bending[:, at_h, at_h] = of_coefficients - along[:, at_h] / of_scale**2
        straight = hessians.copy()
        for place, gained in enumerate(along @ slopes):
            straight[place] -= self.pull_back_hessian(bending[place], gained, free)
        return straight

    def report(self, free: Array) -> Reported:
        """Express free parameters as coefficients and scales with labels and derivatives."""
        natural = self.natural(free)
        unit = self.units.outcome_unit
        size = len(self.reported_order)
        labels: list[tuple[Label, str]] = [("", "")] * size
        values, rows = np.empty(size), np.zeros((size, len(natural)))
        groups = {member: one for one in self.equations.shared for member in one.members}
        for j, equation in enumerate(self.equations.each):
            own, slopes = self._coefficients(natural, j)
            for at, place in enumerate(self.reported_places[j]):
                if place < 0:
                    continue
                values[place], rows[place] = own[at], slopes[at]
                labels[place] = (equation.alternative, equation.terms[at])
                if (j, at) in groups:
                    shared = groups[j, at]
                    labels[place] = (shared_label(self.equations, shared), shared.term)
        for j, place in enumerate(self.reported_scales):
            at_h = int(self.inverse_scale_positions[j])
            rows[place] = 0.0
            spread = self.spread_of[j]
            if spread is not None:
                # The constant of the log scale, where all that moves it is zero.
                values[place] = np.log(unit / natural[at_h]) - spread.lean @ natural[spread.places]
                rows[place, at_h] = -1.0 / natural[at_h]
                rows[place, spread.places] = -spread.lean
                labels[place] = (self.equations.alternatives[j], f"{LOG_SCALE}{INTERCEPT}")
                continue
            values[place] = unit / natural[at_h]
            rows[place, at_h] = -unit / natural[at_h] ** 2
            labels[place] = (COMMON if self.common else self.equations.alternatives[j], SCALE)
        first = int(self.starts[-1])
        inside = natural[first:]
        straight = np.where(self.turned, np.tanh(inside), inside)
        bend = np.where(self.turned, 1.0 / np.cosh(np.where(self.turned, inside, 0.0)) ** 2, 1.0)
        if self.noise is not None:
            n_own = self.n_noise_extras
            own = self.extra_units[:n_own]
            shown, slopes = self.noise.show(own * inside[:n_own], self.equations.alternatives)
            values[self.reported_shown] = shown
            rows[self.reported_shown, first : first + n_own] = slopes * own
            for extra, place in zip(self.shown, self.reported_shown, strict=True):
                labels[place] = extra.label
        for i, (extra, place) in enumerate(zip(self.extras, self.reported_extras, strict=True)):
            if place >= 0 and extra.fixed is None and extra.tied_to is None:
                labels[place] = extra.label
                values[place] = self.extra_carry[i] @ straight
                rows[place, first:] = self.extra_carry[i] * bend
        return Reported(tuple(labels), values, self.pull_back_vector(rows, free))

    def _coefficients(self, natural: Array, j: int) -> tuple[Array, Array]:
        """Return an equation's coefficients (p,) in the user's units, and their derivatives.

        Those are in the natural parameters, (p, n_natural).
        """
        units, columns = self.units, np.array(self.equations.each[j].columns, dtype=np.intp)
        start, at_h = int(self.starts[j]), int(self.inverse_scale_positions[j])
        h = natural[at_h]
        factor = units.outcome_unit / (units.unit[columns] * h)
        slopes = np.zeros((len(columns), len(natural)))
        own = slopes[:, start : start + len(columns)]
        # The constant takes up the shift of the others; its own is zero.
        own[columns == 0] = -units.shift[columns] * factor
        np.fill_diagonal(own, factor)
        values = slopes @ natural
        slopes[:, at_h] = -values / h
        return values + np.where(columns == 0, units.outcome_shift, 0.0), slopes

    def read(self, reported: Array) -> Array:
        """Return the free parameters whose report is `reported`: the inverse of `report`."""
        return self.collect(
            self.coefficients_of(reported), self.central_scales(reported), self.extras_of(reported)
        )

    def collect(self, each: Sequence[Array], scales: Array, extras: Array | None = None) -> Array:
        """Return the free parameters of all alternatives' coefficients and scales."""
        natural = np.empty(self.n_natural)
        natural[self.starts[-1] :] = self.extra_starts
        if extras is not None and len(extras):
            inside = np.linalg.solve(self.extra_carry, extras)
            with np.errstate(divide="ignore"):
                turned = np.arctanh(np.where(self.turned, inside, 0.0))
            natural[self.starts[-1] :] = np.where(self.turned, turned, inside)
        units, unit = self.units, self.units.outcome_unit
        for j, equation in enumerate(self.equations.each):
            start, coefficients = int(self.starts[j]), each[j]
            h = unit / scales[j]
            columns = np.array(equation.columns, dtype=int)
            g = coefficients * units.unit[columns] * h / unit
            if equation.has_intercept:
                constant = list(equation.columns).index(0)
                level = float(coefficients @ np.where(columns == 0, 1.0, units.shift[columns]))
                g[constant] = (level - units.outcome_shift) * h / unit
            natural[start : start + len(columns)] = g
            natural[start + len(columns)] = h
        return self.gather(natural)


def is_of_scale(term: str) -> bool:
    """Say whether a reported parameter belongs to the scale of an alternative."""
    return term == SCALE or term.startswith(LOG_SCALE)


def flat_names(labels: Sequence[tuple[Label, str]]) -> list[str]:
    """Write labels as ``alternative:term``, the form hypotheses use."""
    return [f"{alternative}:{term}" for alternative, term in labels]

r"""Moments of the outcome itself, where its logarithm was modelled.

The mean of :math:`e^y` is not :math:`e^{E y}`. For normal noise, and mixtures of normals, it is
known exactly: weighing a normal density by :math:`e^{c y_j}` gives one whose means are moved by c
times the covariances with :math:`y_j`,

.. math:: e^{cy_j}\,\phi(y; \mu, \Sigma) =
   e^{c\mu_j + c^2\Sigma_{jj}/2}\,\phi(y; \mu + c\Sigma_{\cdot j}, \Sigma),

so the mean of :math:`e^{c y_j}` among rows in which l is chosen is the constant before it times the
chance of l with the means moved so, over its chance without.

Smearing (averaging the exponentials of residuals) would be wrong here: the residuals that are
observed are those of outcomes that were selected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    Moments,
    as_cells,
)
from selfselect.moments.choose import moments_of
from selfselect.moments.mixed import MixedMoments, average_expectations
from selfselect.moments.selection import SelectionMoments, carry_to_coefficients

__all__ = ["LevelMoments", "Logarithm"]

Array = NDArray[np.float64]

STEP = 1e-5
"""Of central differences in the parameters, in internal units."""


@dataclass(frozen=True)
class Logarithm:
    """A left side that is a logarithm.

    Attributes
    ----------
    level : what it is the logarithm of, as text.
    rate : c, where the level is e^(cy) less the offset.
    offset : one for log1p, else zero.
    """

    level: str
    rate: float
    offset: float

    def undo(self, outcomes: Array) -> Array:
        """Return the levels of modelled outcomes."""
        with np.errstate(over="ignore"):
            return np.exp(self.rate * outcomes) - self.offset


@dataclass(frozen=True, eq=False)
class LevelMoments(Moments):
    """Moments in which outcomes are levels; chances stay what they are.

    Attributes
    ----------
    logarithm : which one was modelled.
    """

    logarithm: Logarithm

    def latent(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        """Return the mean (n, k) of every outcome's level."""
        if self.problem.noise.mixed:
            # As the latent means are those of types whose outcomes are determined, so are these.
            known = ~MixedMoments(self.problem, self.rule).undetermined()
            each, chances = self._by_type(reported, rows)
            by_type = np.array([one.latent(values, rows, shift=shift) for one, values in each])
            shares = chances[:, :, None] * known
            return np.asarray(np.einsum("nmk,mnk->nk", shares, by_type) / shares.sum(axis=1))
        moments = moments_of(self.problem, self.rule)
        found = moments.exponentials(reported, rows, self.logarithm.rate, shift=shift)
        return found - self.logarithm.offset

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Integrate over the latent outcomes of rows; `shift` is in units of the logarithm."""
        if self.problem.noise.selected:
            return self._selected(reported, rows, shift)
        if self.problem.noise.mixed:
            each, chances = self._by_type(reported, rows)
            found = [one.expectations(values, rows, shift=shift) for one, values in each]
            average = average_expectations(found, chances)
            return MixedMoments(self.problem, self.rule).without_unknown(average)
        moments, offset = moments_of(self.problem, self.rule), self.logarithm.offset
        chance = moments.chances(reported, rows, shift=shift)
        weighed = moments.weighed(reported, rows, self.logarithm.rate, shift=shift)
        with np.errstate(divide="ignore", invalid="ignore"):
            given = weighed / chance[:, None, :] - offset
        given[np.broadcast_to(chance[:, None, :] < NEGLIGIBLE, given.shape)] = np.nan
        return Expectations(chance, np.einsum("nll->n", weighed) - offset, given)

    def _by_type(
        self, reported: Array, rows: Rows
    ) -> tuple[list[tuple[LevelMoments, Array]], Array]:
        """Return the moments of every unobserved type at its parameters, and the types' chances."""
        mixed = MixedMoments(self.problem, self.rule)
        types = mixed.types(reported, rows)
        inner = replace(self, problem=mixed.components.inner)
        return [(inner, values) for values in types.reported], types.chances

    def _selected(self, reported: Array, rows: Rows, shift: Array | None) -> Expectations:
        """Return the same where a selection equation selects.

        Weighing by e^(cy) moves the mean of the selection's noise by c times its covariance with y.
        """
        moments, offset = SelectionMoments(self.problem, self.rule), self.logarithm.offset
        plain = moments.expectations(reported, rows)
        levels = self.latent(reported, rows, shift=shift) + offset
        ratio = moments.weighed_chances(reported, rows, self.logarithm.rate)
        given = levels[:, :, None] * ratio - offset
        if given.shape[1] == 1:
            return Expectations(plain.chance, given[:, 0, 0], given)
        own = np.einsum("nll->nl", given)
        return Expectations(plain.chance, (plain.chance * own).sum(axis=1), given)

    def check_cells(self) -> None:
        moments_of(self.problem, self.rule).check_cells()

    def of_averages(self) -> LevelMoments:
        return replace(self, problem=moments_of(self.problem, self.rule).of_averages().problem)

    def cells(self, reported: Array, rows: Rows) -> Array:
        self.check_cells()
        return self.of_averages()._shifted_cells(reported, rows)

    def _shifted_cells(self, reported: Array, rows: Rows, *, shift: Array | None = None) -> Array:
        """Return the cells where `shift` (k,) is added to the latent means of the logarithm."""
        found = self.expectations(reported, rows, shift=shift)
        means = self.latent(reported, rows, shift=shift)
        given = found.given_seen[:, :, : means.shape[1]]
        outcome = np.where(np.isnan(given), 0.0, given) * found.chance[:, None, :]
        return as_cells(np.concatenate([found.chance[:, None, :], outcome], axis=1), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        layout, moments = self.problem.layout, self.of_averages()
        sizes = np.linalg.norm(layout.report(layout.read(reported)).jacobian, axis=1)
        here = self.cells(reported, rows)
        slope = np.zeros((here.shape[1], len(reported)))
        of_coefficients: set[int] = set()
        scales = layout.central_scales(reported)
        for j, (equation, where) in enumerate(
            zip(self.problem.equations.each, layout.reported_places, strict=True)
        ):
            shift = np.zeros(len(scales))
            shift[j] = STEP * scales[j]
            ends = [moments._shifted_cells(reported, rows, shift=way * shift) for way in (1, -1)]
            by_mean = (ends[0] - ends[1]) / (2.0 * shift[j]) * weights[:, None]
            carry_to_coefficients(slope, by_mean, equation.columns, where, rows)
            of_coefficients |= set(where.tolist())
        for place in set(range(len(reported))) - of_coefficients:
            step = STEP * sizes[place]
            up, down = reported.copy(), reported.copy()
            up[place] += step
            down[place] -= step
            difference = moments.cells(up, rows) - moments.cells(down, rows)
            slope[:, place] = weights @ difference / (2.0 * step) if step else 0.0
        return here, slope

r"""Moments of outcomes that a selection equation selects, in closed form.

With the index :math:`m = z'\gamma`, u standard normal, and :math:`c_l` the covariance of outcome
l's noise with u, alternative g of sign :math:`d_g` is chosen where :math:`d_g (m + u) > 0`:

.. math:: P(g) = \Phi(d_g m), \qquad
   E[y_l; g] = \mu_l \Phi(d_g m) + d_g c_l \phi(m).

One outcome alone (sample selection) has one alternative; its chance is that of being selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.tails import INV_SQRT_TWO_PI, log_cdf, mills_terms
from selfselect.moments.base import Expectations, Moments, as_cells, latent_means
from selfselect.noises.selection import SelectionCovariance

__all__ = ["SelectionMoments"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SelectionMoments(Moments):
    """Chances by the index alone, and means by Mills ratios."""

    @property
    def signs(self) -> Array:
        """By alternative, the sign (k,) of the index that selects it."""
        if self.rule != self.problem.ordered_rule:
            raise UnsupportedError(
                "A selection equation selects by its own index. What another rule would select "
                "depends on the correlation of the outcomes, and no row shows two of them."
            )
        found: Array = self.rule.signs(self.problem.equations.alternatives)
        return found

    @property
    def groups(self) -> Array:
        """The signs of the groups that means are given for: one outcome alone has a second."""
        signs = self.signs
        return signs if len(signs) > 1 else np.array([signs[0], -signs[0]])

    def index(self, reported: Array, rows: Rows) -> Array:
        """Return the index m (n,) of rows."""
        selection = self.problem.equations.selection
        assert selection is not None
        index = np.zeros(len(rows))
        coefficients = self.problem.layout.selection_of(reported)
        for column, coefficient in zip(selection.columns, coefficients, strict=True):
            index += coefficient if column == 0 else coefficient * rows.covariates[:, column - 1]
        return index

    def _with_selection(self, reported: Array) -> SelectionCovariance:
        layout = self.problem.layout
        noise: Any = self.problem.noise
        found: SelectionCovariance = noise.with_selection(
            layout.scales_of(reported), layout.extras_of(reported)
        )
        return found

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Integrate over the latent outcomes of rows, at reported parameters.

        `shift` (k,) is added to the means of the outcomes, which the index does not see. With one
        alternative `outcome` is the mean where it is selected, and `given_seen` (n, 1, 2)
        has a second group: the rows that are not selected.
        """
        means, index = latent_means(self.problem, reported, rows), self.index(reported, rows)
        means = means if shift is None else means + shift
        signs, groups = self.signs, self.groups
        noise = np.column_stack([sign * mills_terms(sign * index).ratio for sign in groups])
        covariance = self._with_selection(reported).value
        given = means[:, :, None] + covariance[:, None] * noise[:, None, :]
        chance = ndtr(signs * index[:, None])
        if len(signs) == 1:
            return Expectations(chance, given[:, 0, 0], given)
        return Expectations(chance, (chance * np.einsum("nll->nl", given)).sum(axis=1), given)

    def weighed_chances(self, reported: Array, rows: Rows, rate: float) -> Array:
        """Return by how much the chance of each group grows (n, k, groups) if y_l is weighed.

        It is E[e^(c y_l) | group] over E[e^(c y_l)], with `rate` c.
        """
        index = self.index(reported, rows)
        covariance = self._with_selection(reported).value
        moved = index[:, None, None] + rate * covariance[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Array = np.exp(
                log_cdf(self.groups * moved) - log_cdf(self.groups * index[:, None, None])
            )
        return ratio

    def cells(self, reported: Array, rows: Rows) -> Array:
        means, index = latent_means(self.problem, reported, rows), self.index(reported, rows)
        chance = ndtr(self.signs * index[:, None])
        lift = self.signs * _density(index)[:, None]
        covariance = self._with_selection(reported).value
        outcome = means[:, :, None] * chance[:, None, :] + covariance[:, None] * lift[:, None, :]
        return as_cells(np.concatenate([chance[:, None, :], outcome], axis=1), means)

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        problem, layout, signs = self.problem, self.problem.layout, self.signs
        k = len(signs)
        means, index = latent_means(problem, reported, rows), self.index(reported, rows)
        chance = ndtr(signs * index[:, None])
        lift = signs * _density(index)[:, None]
        own = self._with_selection(reported)
        slope = np.zeros((2 * k + 2 * k * k, len(reported)))
        # In the index: dΦ(dm) = d φ(m), dφ(m) = -m φ(m).
        by_index = (means - own.value * index[:, None])[:, :, None] * lift[:, None, :]
        predicted_by_index = means[:, :, None] * lift[:, None, :]
        flat = (len(rows), -1)
        of_index = np.hstack(
            [
                lift,
                by_index.reshape(flat),
                predicted_by_index.reshape(flat),
                np.zeros((len(rows), k)),
            ]
        )
        selection = problem.equations.selection
        assert selection is not None
        places = layout.reported_extras[-len(selection.terms) :]
        _carry(slope, of_index * weights[:, None], selection.columns, places, rows)
        at_extras = layout.reported_extras[: layout.n_noise_extras]
        for j, equation in enumerate(problem.equations.each):
            # In its mean: both E[y_j; g] and E[x_j'w_j; g] by P(g), and the mean itself.
            of_mean = np.zeros((len(rows), slope.shape[0]))
            of_mean[:, k + j * k : k + (j + 1) * k] = chance
            of_mean[:, k + k * k + j * k : k + k * k + (j + 1) * k] = chance
            of_mean[:, k + 2 * k * k + j] = 1.0
            _carry(
                slope, of_mean * weights[:, None], equation.columns, layout.reported_places[j], rows
            )
            by_covariance = weights @ lift
            mine = slice(k + j * k, k + (j + 1) * k)
            slope[mine, layout.reported_scales[j]] += by_covariance * own.by_scale[j]
            slope[mine, at_extras] += np.outer(by_covariance, own.by_extra[j])
        return self.cells(reported, rows), slope


def _carry(
    slope: Array, weighted: Array, columns: tuple[int, ...], places: NDArray[np.intp], rows: Rows
) -> None:
    """Add derivatives (n, q) in a linear predictor to those in its coefficients."""
    for column, place in zip(columns, places, strict=True):
        values = np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
        slope[:, place] += values @ weighted


def _density(a: Array) -> Array:
    """Evaluate the standard normal density."""
    density: Array = INV_SQRT_TWO_PI * np.exp(-0.5 * a * a)
    return density

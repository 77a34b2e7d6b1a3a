r"""Moments of a binary outcome that a selection equation selects.

With :math:`a = x'\beta` and :math:`m = z'\gamma` the outcome is one with probability
:math:`\Phi(a)`, selected with :math:`\Phi(m)`, and both with :math:`\Phi_2(a, m; \rho)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.orthants import bivariate_terms, log_bivariate_cdf
from selfselect.kernels.tails import INV_SQRT_TWO_PI, log_cdf, ndtr
from selfselect.moments.base import Expectations, latent_means
from selfselect.moments.selection import SelectionMoments, carry_to_coefficients

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BinarySelectionMoments(SelectionMoments):
    """Probabilities that the outcome is one, among all and by selection."""

    def _arguments(self, reported: Array, rows: Rows) -> tuple[Array, Array, float]:
        """Return a (n,), m (n,) and the correlation."""
        means = latent_means(self.problem, reported, rows)[:, 0]
        correlation = float(self.problem.layout.extras_of(reported)[0])
        return means, self.index(reported, rows), correlation

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        """Return the chance to be selected, and that the outcome is one where it is and is not.

        `shift` (1,) is added to the mean of what decides on the outcome.
        """
        _ = self.groups
        a, m, rho = self._arguments(reported, rows)
        a = a if shift is None else a + shift[0]
        given = np.exp(
            np.column_stack(
                [
                    log_bivariate_cdf(a, m, rho) - log_cdf(m),
                    log_bivariate_cdf(a, -m, -rho) - log_cdf(-m),
                ]
            )
        )
        return Expectations(np.asarray(ndtr(m))[:, None], given[:, 0], given[:, None, :])

    def cells(self, reported: Array, rows: Rows) -> Array:
        _ = self.groups
        a, m, rho = self._arguments(reported, rows)
        chance, mean = ndtr(m), ndtr(a)
        both = np.exp(log_bivariate_cdf(a, m, rho))
        return np.column_stack([chance, both, mean * chance, mean])

    def cells_and_slope(self, reported: Array, rows: Rows, weights: Array) -> tuple[Array, Array]:
        a, m, rho = self._arguments(reported, rows)
        layout, selection = self.problem.layout, self.problem.equations.selection
        assert selection is not None
        terms = bivariate_terms(a, m, float(np.arctanh(rho)))
        both = np.exp(terms.log_mass)
        by_a, by_m = both * terms.slope[0], both * terms.slope[1]
        of_a, of_m = (INV_SQRT_TWO_PI * np.exp(-0.5 * one * one) for one in (a, m))
        mean, chance, nothing = ndtr(a), ndtr(m), np.zeros(len(rows))
        slope = np.zeros((4, len(reported)))
        in_a = np.column_stack([nothing, by_a, of_a * chance, of_a])
        in_m = np.column_stack([of_m, by_m, mean * of_m, nothing])
        (equation,) = self.problem.equations.each
        carry_to_coefficients(
            slope, in_a * weights[:, None], equation.columns, layout.reported_places[0], rows
        )
        places = layout.reported_extras[-len(selection.terms) :]
        carry_to_coefficients(slope, in_m * weights[:, None], selection.columns, places, rows)
        # From t to the correlation itself.
        by_rho = both * terms.slope[2] / (1.0 - rho**2)
        slope[1, layout.reported_extras[0]] += weights @ by_rho
        return self.cells(reported, rows), slope

r"""Moments of three jointly normal outcomes, in closed form.

Alternative j is chosen where its differences from the other two, net of costs,
:math:`D_i = \pm(y_j - y_i) - (c_j - c_i)`, are both positive: two normal numbers with means
:math:`d_i`, standard deviations :math:`s_i` and correlation r. With :math:`\delta_i = d_i/s_i`,

.. math:: P(j) = \Phi_2(\delta_1, \delta_2; r), \qquad
   E[y_l; j] = \mu_l P(j) + \sum_i \frac{\mathrm{cov}(y_l, D_i)}{s_i} \phi(\delta_i)\,
   \Phi\Big(\frac{\delta_{i'} - r \delta_i}{\sqrt{1 - r^2}}\Big),

where :math:`i'` is the other of the two (Tallis 1961).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.bivariate import log_bivariate_cdf
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    costs_of_rows,
    latent_means,
    noise_covariance,
    with_outcome,
)
from selfselect.moments.pair import PairMoments
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules import direction_of

__all__ = ["TripleMoments"]

Array = NDArray[np.float64]

FAR = 40.0
"""Standard deviations by which any other alternative is ahead of one that is not available."""


@dataclass(frozen=True, eq=False)
class TripleMoments(PairMoments):
    """Three alternatives, jointly normal noise of one covariance for all rows."""

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        way = direction_of(self.rule)
        assert way is not None
        means = latent_means(self.problem, reported, rows, shift=shift)
        (covariance,) = noise_covariance(self.problem, reported, rows)
        net = way * means - costs_of_rows(self.problem, reported, rows)
        chance = np.empty((len(rows), 3))
        given = np.full((len(rows), 3, 3), np.nan)
        for chosen in range(3):
            chance[:, chosen], gain = self._of(chosen, net, covariance, way, rows)
            likely = chance[:, chosen] >= NEGLIGIBLE
            added = gain[likely] / chance[likely][:, [chosen]]
            given[likely, :, chosen] = means[likely] + added
        return with_outcome(chance, given)

    def _of(
        self, chosen: int, net: Array, covariance: Array, way: float, rows: Rows
    ) -> tuple[Array, Array]:
        """Return the chance (n,) of an alternative, and what outcomes gain (n, 3) from its choice.

        `covariance` is that of the outcomes; `way` is 1 where the largest is chosen, else -1.
        """
        others = [j for j in range(3) if j != chosen]
        # Covariances of the outcomes with the two differences, and of these with each other.
        along = way * (covariance[:, [chosen]] - covariance[:, others])
        between = way * (along[[chosen]] - along[others])
        spread = np.sqrt(np.diag(between))
        r = float(between[0, 1] / (spread[0] * spread[1]))
        delta = (net[:, [chosen]] - net[:, others]) / spread
        available = rows.known.available
        if available is not None:
            delta = np.where(available[:, others], delta, FAR)
        chance = np.exp(log_bivariate_cdf(delta[:, 0], delta[:, 1], r))
        left = np.sqrt(1.0 - r * r)
        edge = NORMAL.pdf(delta) * NORMAL.cdf((delta[:, ::-1] - r * delta) / left)
        gain = edge @ (along / spread).T
        if available is not None:
            chance, gain = chance * available[:, chosen], gain * available[:, [chosen]]
        return chance, gain

r"""Moments of two jointly normal outcomes, in closed form.

The first of two is chosen where :math:`D = \pm(y_1 - y_2) - (c_1 - c_2)` is positive, a normal
number with mean d and standard deviation s. With :math:`\delta = d/s`,

.. math:: P(1) = \Phi(\delta), \qquad
   E[y_l; 1] = \mu_l \Phi(\delta) + \frac{\mathrm{cov}(y_l, D)}{s} \phi(\delta).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.moments.base import (
    NEGLIGIBLE,
    Expectations,
    Moments,
    costs_of_rows,
    latent_means,
    noise_covariance,
    with_outcome,
)
from selfselect.moments.joint import JointMoments
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules import direction_of

__all__ = ["PairMoments"]

Array = NDArray[np.float64]

NO_SPREAD = 1e-12
"""Variance of the difference of two noises, over the sum of theirs, that is taken for none."""


@dataclass(frozen=True, eq=False)
class PairMoments(JointMoments):
    """Two alternatives, jointly normal noise, the largest or smallest outcome net of costs."""

    quick: ClassVar[bool] = True

    def expectations(
        self, reported: Array, rows: Rows, *, shift: Array | None = None
    ) -> Expectations:
        way = direction_of(self.rule)
        assert way is not None
        means = latent_means(self.problem, reported, rows, shift=shift)
        covariance = noise_covariance(self.problem, reported, rows)
        net = way * means - costs_of_rows(self.problem, reported, rows)
        both = covariance[:, 0, 0] + covariance[:, 1, 1]
        # A step of a numerical derivative may take a correlation at its boundary beyond one.
        spread = np.sqrt(np.maximum(both - 2.0 * covariance[:, 0, 1], NO_SPREAD * both))
        delta = (net[:, 0] - net[:, 1]) / spread
        chance = np.stack([NORMAL.cdf(delta), NORMAL.cdf(-delta)], axis=1)
        # cov(y_l, D)/s times the density, which is what the mean of y_l gains where D is positive.
        gain = way * (covariance[:, :, 0] - covariance[:, :, 1]) / spread[:, None]
        gain = gain * NORMAL.pdf(delta)[:, None]
        available = rows.known.available
        if available is not None:
            alone = ~available.all(axis=1)
            chance[alone], gain[alone] = available[alone], 0.0
        given = np.full((len(rows), 2, 2), np.nan)
        for chosen, sign in ((0, 1.0), (1, -1.0)):
            likely = chance[:, chosen] >= NEGLIGIBLE
            added = sign * gain[likely] / chance[likely][:, [chosen]]
            given[likely, :, chosen] = means[likely] + added
        return with_outcome(chance, given)

    def of_averages(self) -> Moments:
        return self

"""What the model expects of rows, at given parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.multinomial.logit import log_chances
from selfselect.multinomial.two_steps import Model

__all__ = ["Expected", "expect"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of rows.

    Attributes
    ----------
    chance : (n, k) of each alternative.
    latent : (n, k) mean of every outcome; without its constant's level where that is unknown.
    given : (n, k, k) mean of outcome l where g is chosen, at [row, l, g]; nan off the diagonal
        where the correction says nothing of it.
    """

    chance: Array
    latent: Array
    given: Array

    @property
    def outcome(self) -> Array:
        """The mean (n,) of the observed outcome."""
        own = np.where(self.chance > 0, np.einsum("nll->nl", self.given), 0.0)
        return np.asarray((self.chance * own).sum(axis=1))

    @property
    def cells(self) -> Array:
        """Chances, latent means, and E[y_l; g] in one row each: (n, 2k + k²)."""
        # What is expected of a group without anybody in it is no number.
        chance = self.chance[:, None, :]
        parts = np.where(chance > 0, self.given, 0.0) * chance
        return np.hstack([self.chance, self.latent, parts.reshape(len(parts), -1)])


def expect(model: Model, values: Array, rows: Rows) -> Expected:
    """Return what the model expects of rows, at parameters as users read them."""
    coefficients, corrections, choice = model.read(values)
    log_p = log_chances(model.choice_design(rows), choice, rows.known.available)
    k = model.n_alternatives
    latent = np.column_stack(
        [model.outcome_design(rows, j) @ own for j, own in enumerate(coefficients)]
    )
    given = np.full((len(rows), k, k), np.nan)
    for g in range(k):
        for j, regressors in model.correction.means(log_p, g).items():
            given[:, j, g] = latent[:, j] + regressors @ corrections[j]
    return Expected(np.exp(log_p), latent, given)

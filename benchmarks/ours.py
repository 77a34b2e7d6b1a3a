"""selfselect, from NumPy arrays, standard errors included."""

from __future__ import annotations

import numpy as np

import selfselect as ss
from benchmarks.problems import Arrays


def solve(data: Arrays) -> np.ndarray:
    model = ss.SelfSelectionRegressor().fit(data.covariates, data.outcome, chosen=data.chosen)
    assert model.result_.converged
    assert np.isfinite(model.result_.covariance.matrix).all()
    return np.column_stack([model.intercept_, model.coef_])

"""Fits whose likelihood joins the alternatives, and the independent fit of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from selfselect._fit import fit_design
from selfselect.data.build import design_from_arrays
from selfselect.data.design import Design
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.solvers import Continuation

CORRELATION = 0.4


def problem(n_rows: int, n_covariates: int, n_alternatives: int, *, seed: int = 0) -> Design:
    """Draw rows in which all pairs of alternatives are correlated by 0.4."""
    rng = np.random.default_rng(seed)
    slopes = 0.4 * rng.standard_normal((n_alternatives, n_covariates))
    covariates = rng.standard_normal((n_rows, n_covariates))
    shared = np.sqrt(CORRELATION) * rng.standard_normal((n_rows, 1))
    own = np.sqrt(1.0 - CORRELATION) * rng.standard_normal((n_rows, n_alternatives))
    latent = covariates @ slopes.T + shared + own
    return design_from_arrays(
        covariates,
        latent.max(axis=1),
        latent.argmax(axis=1),
        alternatives=list(range(n_alternatives)),
        names=[f"x{i}" for i in range(n_covariates)],
    )


def independent(design: Design) -> Any:
    return fit_design(design, noise=Independent(), progress=False)


def correlated(design: Design) -> Any:
    return fit_design(design, noise=Correlated(), progress=False)


def simulated(design: Design) -> Any:
    """Fit by 256 points, as they are."""
    solver = Continuation(steady=None)
    return fit_design(design, noise=Correlated(draws=256), solver=solver, progress=False)


def shared_shock(design: Design) -> Any:
    return fit_design(design, noise=SharedShock(nodes=15), progress=False)

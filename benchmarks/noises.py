"""Fits with other noises than the normal one, and the normal fit of the same rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from selfselect._fit import fit_design
from selfselect.data.build import design_from_arrays
from selfselect.data.design import Design
from selfselect.noises import Independent, Mixture, Student, Types

NOISES = {
    "normal": Independent(),
    "logistic": Independent(shape="logistic"),
    "gumbel": Independent(shape="gumbel"),
    "mixture": Mixture(2),
    "known student": Student(5),
    "student": Student(),
    "types": Types(3),
}

SHIFTS = np.array([[1.0, -0.5], [-0.5, 1.0], [-1.0, -1.0]])
"""By how much three types, equally frequent, move the means of two alternatives."""

YEARS = 5
"""Rows of a person in the panel."""


def problem(noise: str, n_rows: int, k: int, *, panel: bool = False, seed: int = 0) -> Design:
    """Draw rows with ten covariates under a noise; a mixture is fitted to Student's t noise."""
    rng = np.random.default_rng(seed)
    slopes = rng.standard_normal((k, 10))
    slopes /= np.linalg.norm(slopes, axis=1, keepdims=True)
    covariates = rng.standard_normal((n_rows, 10))
    size = (n_rows, k)
    heavy = partial(rng.standard_t, 5)
    draws: dict[str, Any] = {
        "logistic": rng.logistic,
        "gumbel": rng.gumbel,
        "mixture": heavy,
        "known student": heavy,
        "student": heavy,
        "types": rng.standard_normal,
    }
    latent = covariates @ slopes.T + draws[noise](size=size)
    if noise == "types":
        people = np.arange(n_rows) // (YEARS if panel else 1)
        latent += SHIFTS[rng.integers(0, 3, people[-1] + 1)][people]
    design = design_from_arrays(
        covariates,
        latent.max(axis=1),
        latent.argmax(axis=1),
        alternatives=list(range(k)),
        names=[f"x{i}" for i in range(10)],
    )
    if panel:
        design = replace(design, rows=replace(design.rows, groups=people))
    return design


def fit(design: Design, noise: str) -> Any:
    """Fit, with standard errors; a fit that does not converge is none to time."""
    found = fit_design(design, noise=NOISES[noise], progress=False)
    assert found.converged
    return found

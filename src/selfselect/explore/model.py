"""A fitted model as plain data, for the page: where in the estimates everything stands."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.problem.problem import Problem

__all__ = ["model_of", "packed"]

Array = NDArray[np.float64]


def model_of(problem: Problem, reported: Array, covariance: Array) -> dict[str, Any]:
    """Return estimates, their covariance, and how means, scales and correlation follow from them.

    Parameters
    ----------
    problem : equations and noise.
    reported : (m,) estimates.
    covariance : (m, m) of them; not finite where there is none.
    """
    layout = problem.layout
    known = bool(np.isfinite(covariance).all())
    lower = covariance[np.tril_indices(len(reported))]
    return {
        "estimates": reported.tolist(),
        "covariance": packed(lower) if known else None,
        "equations": [
            {"columns": list(map(int, equation.columns)), "places": places.tolist()}
            for equation, places in zip(problem.equations.each, layout.reported_places, strict=True)
        ],
        "scales": [_scale(problem, j) for j in range(problem.equations.n_alternatives)],
        "correlation": _correlation(problem, reported),
    }


def _scale(problem: Problem, j: int) -> dict[str, Any]:
    """Say whether a scale is known, an estimate, or the exponential of a line."""
    layout = problem.layout
    if layout.scales is not None:
        return {"value": float(layout.scales[j])}
    place, spread = int(layout.reported_scales[j]), layout.spread_of[j]
    if spread is None:
        return {"place": place}
    at = layout.reported_extras[spread.places - int(layout.starts[-1])]
    return {"log": place, "columns": list(map(int, spread.columns)), "places": at.tolist()}


def _correlation(problem: Problem, reported: Array) -> dict[str, Any]:
    if not problem.noise.correlated:
        return {"value": 0.0, "place": -1}
    layout = problem.layout
    return {
        "value": float(layout.extras_of(reported)[0]),
        "place": int(layout.reported_extras[0]),
    }


def packed(values: Array) -> str:
    """Write numbers as text, exactly: doubles, the lowest byte first, in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")

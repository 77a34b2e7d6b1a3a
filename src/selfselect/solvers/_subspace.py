r"""The subspace that holds the coefficients, by the paper's matrix or by residual pHd."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import OptionError
from selfselect.likelihoods import Batch
from selfselect.solvers._search import SearchSpace

__all__ = ["Subspace", "coefficient_basis", "find_subspace", "white_rows"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Subspace:
    """Directions in search coordinates with their eigenvalues, the strongest first.

    Attributes
    ----------
    directions : (p, p) orthonormal columns.
    eigenvalues : (p,) for a scree plot: those of noise scatter around zero.
    """

    directions: Array
    eigenvalues: Array


def find_subspace(
    space: SearchSpace, engine: Engine, method: Literal["paper", "residual"]
) -> Subspace:
    r"""Find the directions in which coefficients lie.

    ``paper``: the top eigenvectors of :math:`E[\max(0, y)^2 (xx' - I)]`, which span
    :math:`w_1, ..., w_k` (section 4.2). ``residual``: those of :math:`E[e (xx' - I)]` with the
    residuals e of least squares, which span the differences of the w (dimension k - 1), at about
    half the error. Both suppose covariates that are normal with mean zero; with an intercept
    ``paper`` sees outcomes less their mean.
    """
    if method not in ("paper", "residual"):
        raise OptionError(f"subspace={method!r} is not possible: use 'residual' or 'paper'.")
    total, weighted, trace = engine.sum(partial(_weighted_moments, space, method))
    matrix = weighted / total - trace / total * np.eye(len(weighted))
    values, vectors = np.linalg.eigh(matrix)
    return Subspace(vectors[:, ::-1], values[::-1])


def coefficient_basis(
    space: SearchSpace, engine: Engine, method: Literal["paper", "residual"], size: int
) -> Array:
    """Return an orthonormal basis (p, size) of a subspace that holds the coefficients themselves.

    Residual directions hold only their differences, so least squares, their mean, joins them.
    """
    directions = find_subspace(space, engine, method).directions
    if method == "paper":
        return directions[:, :size]
    joined = np.column_stack([space.naive[0], directions[:, : size - 1]])
    return np.asarray(np.linalg.qr(joined)[0])


def _weighted_moments(space: SearchSpace, method: str, batch: Batch) -> Parts:
    white, outcome, weights = white_rows(space, batch)
    if method == "paper":
        factor = weights * np.maximum(0.0, outcome) ** 2
    else:
        factor = weights * (outcome - space.problem.side * (white @ space.naive[0]))
    return Parts((float(weights.sum()), white.T @ (white * factor[:, None]), float(factor.sum())))


def white_rows(space: SearchSpace, batch: Batch) -> tuple[Array, Array, Array]:
    """Return whitened covariates, outcomes as if the largest were observed, and weights."""
    rows, problem = batch.rows, space.problem
    assert rows.outcome is not None
    design = problem.units.design(rows.covariates, problem.equations.each[0].columns)
    white = design @ space.inverse_roots[0].T
    weights = np.ones(len(batch)) if rows.weights is None else rows.weights
    return white, problem.side * problem.units.limits(rows.outcome), weights

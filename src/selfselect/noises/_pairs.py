"""Values that belong to pairs of alternatives: reading what a user gave, and matrices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.rules.base import Label

__all__ = ["as_matrix", "completed", "fixed_pairs", "name_limit"]

Array = NDArray[np.float64]

POSITIVE, PROJECTIONS = 0.01, 500
"""Smallest eigenvalue that a completed matrix should have, and steps to get there."""


def fixed_pairs(given: Any, alternatives: Sequence[Label]) -> dict[tuple[int, int], float]:
    """Return what is fixed, by positions of pairs: from a number, a matrix or a mapping."""
    pairs = list(combinations(range(len(alternatives)), 2))
    if isinstance(given, str):
        return {}
    if isinstance(given, Mapping):
        return _from_mapping(given, alternatives)
    values = np.asarray(given, dtype=float)
    if values.ndim == 0:
        return dict.fromkeys(pairs, float(values))
    k = len(alternatives)
    if values.shape != (k, k) or not np.allclose(values, values.T, equal_nan=True):
        raise OptionError(
            f"The matrix of correlations has shape {values.shape}; for {k} alternatives it must "
            f"be symmetric, {k} by {k}, with nan where a correlation is to be estimated."
        )
    if not np.allclose(np.diag(values), 1.0):
        raise OptionError(
            "The diagonal of a matrix of correlations is 1. Give scales with `scale=`, not as "
            "variances on the diagonal."
        )
    return {pair: float(values[pair]) for pair in pairs if not np.isnan(values[pair])}


def _from_mapping(
    given: Mapping[Any, float], alternatives: Sequence[Label]
) -> dict[tuple[int, int], float]:
    place = {str(label): i for i, label in enumerate(alternatives)}
    found: dict[tuple[int, int], float] = {}
    for key, value in given.items():
        both = tuple(str(one) for one in key) if isinstance(key, tuple) else ()
        if len(both) != 2 or both[0] == both[1] or not set(both) <= set(place):
            raise OptionError(
                f"{key!r} is not a pair of two of the alternatives "
                f"({', '.join(map(str, alternatives))}). Write correlation={{('a', 'b'): 0.5}}."
            )
        j, m = sorted(place[one] for one in both)
        found[j, m] = float(value)
    return found


def as_matrix(values: Sequence[float] | Array, k: int) -> Array:
    """Put values of the pairs (1, 2), (1, 3), ... into a matrix with a unit diagonal."""
    matrix = np.eye(k)
    for (j, m), value in zip(combinations(range(k), 2), values, strict=True):
        matrix[j, m] = matrix[m, j] = value
    return matrix


def completed(fixed: Mapping[tuple[int, int], float], k: int) -> Array:
    """Return a positive definite matrix that holds the fixed correlations, the others near zero.

    Where zeros will not do, it is sought by projecting in turn onto the matrices that are positive
    definite and onto those that hold the fixed values.
    """
    pairs = list(combinations(range(k), 2))
    matrix = as_matrix([fixed.get(pair, 0.0) for pair in pairs], k)
    for _ in range(PROJECTIONS):
        values, vectors = np.linalg.eigh(matrix)
        if values[0] > POSITIVE:
            return matrix
        if len(fixed) == len(pairs):
            break
        nearest = (vectors * np.maximum(values, 2.0 * POSITIVE)) @ vectors.T
        matrix = as_matrix([fixed.get(pair, float(nearest[pair])) for pair in pairs], k)
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if not smallest > 0:
        raise OptionError(
            "The given correlations are those of no distribution: their matrix is not positive "
            f"definite (smallest eigenvalue {smallest:.3g}). Move them towards zero."
        )
    return matrix


def name_limit(
    alternatives: Sequence[Label], covariance: Array, free: Sequence[bool], limit: float
) -> str | None:
    """Return a sentence that names a free correlation beyond `limit`; None where there is none."""
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    for (j, m), estimated in zip(combinations(range(len(alternatives)), 2), free, strict=True):
        if estimated and abs(correlation[j, m]) > limit:
            sign = "positive" if correlation[j, m] > 0 else "negative"
            return (
                f"the correlation of {alternatives[j]!r} and {alternatives[m]!r} is estimated at "
                f"{correlation[j, m]:.4f}. There the noise of one is a {sign} multiple of the "
                "other's, and such an estimate has no standard error."
            )
    return None

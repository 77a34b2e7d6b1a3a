"""What all rows together say of the noise and of the covariates: sums that the summary reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from selfselect.problem.batch import Parts
from selfselect.problem.units import by_columns

if TYPE_CHECKING:
    from selfselect.likelihoods.base import RowTerms

__all__ = ["Asked", "RowSums", "sum_terms"]

Array = NDArray[np.float64]
NOTHING = np.zeros(0)


@dataclass(frozen=True)
class Asked:
    """Which sums are wanted: what was not asked for is empty."""

    pairs: bool = True
    moments: bool = True
    grams: bool = True


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, by weight. Sums + sums = sums.

    Attributes
    ----------
    weight : of all rows.
    pairs : (k (k - 1)/2,) mean products of the residuals of two alternatives given the row.
    shape : (m, 2) means of Hermite polynomials of orders 3 and 4 of every noise given the row.
    spread : of every alternative, the scores of its log scale times its covariates, (p_j,).
    everywhere, where_chosen : of every alternative, the products (p_j, p_j) of its covariates, over
        all rows and as often as it was chosen.
    counts : (k,) how often each was chosen.
    """

    weight: float
    pairs: Array
    shape: Array
    spread: Parts
    everywhere: Parts
    where_chosen: Parts
    counts: Array

    def __add__(self, other: RowSums) -> RowSums:
        names = [field.name for field in fields(self)]
        return RowSums(*(getattr(self, name) + getattr(other, name) for name in names))


def sum_terms(terms: RowTerms, asked: Asked) -> RowSums:
    """Add up terms of rows, by NumPy; the oracle of the compiled sums."""
    problem, rows = terms.problem, terms.batch.rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    k = problem.equations.n_alternatives
    pairs, shape, counts = NOTHING, NOTHING, NOTHING
    spread, everywhere, where_chosen = Parts(), Parts(), Parts()
    if asked.pairs:
        products = (weights @ terms.products.reshape(len(rows), k * k)).reshape(k, k)
        pairs = np.array([products[j, m] for j, m in combinations(range(k), 2)])
    if asked.moments:
        excess = terms.excess
        shape = np.column_stack([weights @ order for order in terms.hermite[3:]])
        spread = Parts(
            design.T @ (weights * excess[:, j]) for j, design in enumerate(terms.designs)
        )
    if asked.grams:
        chance = terms.chance
        counts = weights @ chance
        alike = {
            equation.columns: design
            for equation, design in zip(problem.equations.each, terms.designs, strict=True)
        }
        everywhere = Parts(
            by_columns(problem.equations, lambda columns: _gram(alike[columns], weights))
        )
        where_chosen = Parts(
            _gram(design, weights * chance[:, j]) for j, design in enumerate(terms.designs)
        )
    return RowSums(float(weights.sum()), pairs, shape, spread, everywhere, where_chosen, counts)


def _gram(design: Array, weights: Array) -> Array:
    return np.asarray(design.T @ (design * weights[:, None]))

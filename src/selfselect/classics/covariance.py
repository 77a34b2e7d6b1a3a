"""Covariances from what every single row does to the estimates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.errors import OptionError
from selfselect.inference.bootstrap import Bootstrap
from selfselect.inference.covariance import Covariance
from selfselect.inference.sandwich import (
    CORRECTED_CLUSTERS,
    CORRECTED_ROWS,
    ONE_CLUSTER,
    STEP,
    reduce_bias,
)

__all__ = ["corrected_units", "covariance_kind", "describe", "plain_sandwich", "sum_by_units"]

Array = NDArray[np.float64]

KINDS = ("observed", "robust", "clustered")


def covariance_kind(kind: object, design: Design) -> str:
    """Return which covariance is meant, or say which there are."""
    if kind == "bootstrap" or isinstance(kind, Bootstrap):
        raise OptionError(
            "There is no bootstrap of models with a selection equation. Use covariance='robust', "
            "or cluster='column' where rows of a cluster depend on each other."
        )
    if not isinstance(kind, str) or kind not in KINDS:
        raise OptionError(
            f"There is no covariance {kind!r} for models with a selection equation. Use one of "
            f"{', '.join(KINDS)}."
        )
    if kind == "clustered" and design.clusters is None:
        raise OptionError(
            "covariance='clustered' needs to know the clusters. Give cluster='column'."
        )
    if design.clusters is not None:
        return "clustered"
    # The inverse information is no variance of estimates from rows drawn unequally.
    return "robust" if design.facts.weights_kind == "probability" else kind


def sum_by_units(values: Array, design: Design) -> Array:
    """Sum what rows (n, m) say by clusters, or leave it where there are none; shape (G, m).

    A row's values have its weight in them. Where weights are numbers of rows, outer products are
    those of all of them.
    """
    if design.clusters is None:
        return values / _root_repeats(design)
    n_clusters = int(design.clusters.max()) + 1
    if n_clusters < 2:
        raise OptionError(ONE_CLUSTER)
    totals = np.zeros((n_clusters, values.shape[1]))
    np.add.at(totals, design.clusters, values)
    return totals


def corrected_units(
    scores: Callable[[Array], Array], at: Array, information: Array, design: Design
) -> Array:
    """Return scores (G, p) of rows or clusters, corrected as in `inference.sandwich`.

    Parameters
    ----------
    scores : from parameters (p,) to the scores (n, p) of rows.
    at : the estimate.
    information : (p, p) there.
    design : which rows belong together.
    """
    here = sum_by_units(scores(at), design)
    n_units, n_rows = _n_units(design), len(design.positive)
    if n_units > CORRECTED_CLUSTERS and n_rows > CORRECTED_ROWS:
        return here * np.sqrt(n_units / (n_units - 1.0))
    parts = np.empty((*here.shape, len(at)))
    for place in range(len(at)):
        moved = at.copy()
        moved[place] += STEP
        parts[:, :, place] = (here - sum_by_units(scores(moved), design)) / STEP
    if design.clusters is None:
        # The part of one of the rows that each stands for.
        parts /= _root_repeats(design)[:, :, None]
    return reduce_bias(here, 0.5 * (parts + parts.transpose(0, 2, 1)), information)


def plain_sandwich(influence: Array, design: Design) -> Array:
    """Return the covariance of estimates from each row's influence (n, m), not corrected."""
    units, count = sum_by_units(influence, design), _n_units(design)
    return units.T @ units * count / (count - 1.0)


def _n_units(design: Design) -> float:
    if design.clusters is not None:
        return float(design.clusters.max()) + 1.0
    if design.weights is None:
        return float(len(design.positive))
    frequency = design.facts.weights_kind == "frequency"
    return float(design.weights.sum() if frequency else (design.weights > 0).sum())


def _root_repeats(design: Design) -> Array:
    """Return the root (n, 1) of how many rows each stands for."""
    if design.weights is None or design.facts.weights_kind != "frequency":
        return np.ones((1, 1))
    return np.sqrt(np.where(design.weights > 0, design.weights, 1.0))[:, None]


def describe(kind: str, design: Design, matrix: Array) -> Covariance:
    """Return a robust or clustered covariance with its description and degrees of freedom."""
    if design.clusters is None:
        return Covariance(kind, "robust (sandwich)", matrix)
    n_clusters = int(design.clusters.max()) + 1
    description = f"clustered by {design.facts.cluster} ({n_clusters} clusters)"
    return Covariance(kind, description, matrix, n_clusters - 1.0)

"""Covariances from what every single row does to the estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.errors import OptionError
from selfselect.inference.bootstrap import Bootstrap

__all__ = ["covariance_kind", "sandwich"]

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


def sandwich(influence: Array, design: Design) -> tuple[Array, str]:
    """Return the covariance of estimates from each row's influence (n, m), and its description.

    The influence of a row has its weight in it; where weights are numbers of rows, it is that of
    all of them together.
    """
    if design.clusters is None:
        weights, n_rows = design.weights, float(len(influence))
        if weights is not None:
            influence, weights = influence[weights > 0], weights[weights > 0]
            n_rows = float(len(weights))
            if design.facts.weights_kind == "frequency":
                influence, n_rows = influence / np.sqrt(weights)[:, None], float(weights.sum())
        return influence.T @ influence * n_rows / (n_rows - 1.0), "robust (sandwich)"
    n_clusters = int(design.clusters.max()) + 1
    if n_clusters < 2:
        raise OptionError("There is only one cluster, so nothing can be said of its spread.")
    totals = np.zeros((n_clusters, influence.shape[1]))
    np.add.at(totals, design.clusters, influence)
    matrix = totals.T @ totals * n_clusters / (n_clusters - 1)
    return matrix, f"clustered by {design.facts.cluster} ({n_clusters} clusters)"

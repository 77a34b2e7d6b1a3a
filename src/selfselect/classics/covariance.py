"""Covariances from what every single row does to the estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.errors import OptionError

__all__ = ["covariance_kind", "sandwich"]

Array = NDArray[np.float64]

KINDS = ("observed", "robust", "clustered")


def covariance_kind(kind: object, clustered: bool) -> str:
    """Return which covariance is meant, or say which there are."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise OptionError(
            f"There is no covariance {kind!r} for models with a selection equation. Use one of "
            f"{', '.join(KINDS)}."
        )
    if kind == "clustered" and not clustered:
        raise OptionError(
            "covariance='clustered' needs to know the clusters. Give cluster='column'."
        )
    return "clustered" if clustered else kind


def sandwich(influence: Array, design: Design) -> tuple[Array, str]:
    """Return the covariance of estimates from each row's influence (n, m), and its description."""
    if design.clusters is None:
        n_rows = len(influence)
        return influence.T @ influence * n_rows / (n_rows - 1), "robust (sandwich)"
    n_clusters = int(design.clusters.max()) + 1
    if n_clusters < 2:
        raise OptionError("There is only one cluster, so nothing can be said of its spread.")
    totals = np.zeros((n_clusters, influence.shape[1]))
    np.add.at(totals, design.clusters, influence)
    matrix = totals.T @ totals * n_clusters / (n_clusters - 1)
    return matrix, f"clustered by {design.facts.cluster} ({n_clusters} clusters)"

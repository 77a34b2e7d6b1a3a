"""Clusters and weights: which rows depend on each other, and sums over clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.likelihoods import Batch
from selfselect.plain import archived
from selfselect.problem.batch import Parts

# What keeps rows from being independent draws: clusters, and weights that say how.


@dataclass(frozen=True)
class Dependence:
    """What keeps rows from being independent draws of the model.

    Attributes
    ----------
    clusters : how many clusters there are, one number per way of clustering.
    cluster_name : the name of the cluster column.
    weights_kind : frequency or probability; None where it was not said.
    by_person : whether clusters are the people whose rows the model takes together.
    """

    clusters: tuple[int, ...] = ()
    cluster_name: str | None = None
    weights_kind: str | None = None
    by_person: bool = False

    @property
    def repeated(self) -> bool:
        """Whether every row stands for as many as its weight says."""
        return self.weights_kind == "frequency"

    @property
    def reason(self) -> str | None:
        """Say what it is; None where the model knows how sums over rows vary."""
        if self.clusters and not self.by_person:
            return f"rows are clustered by {self.cluster_name}"
        return "rows have probability weights" if self.weights_kind == "probability" else None


# Sums over clusters, and how many clusters of equal size they are worth.
#
# Clusters of unequal size know less of their own spread than as many equal ones. With :math:`N_g`
# the weight of the rows of cluster g, they are worth
#
# .. math:: G^* = \frac{(\sum_g N_g)^2}{\sum_g N_g^2}
#
# clusters: the effective number of Carter, Schnepel and Steigerwald (2017), where a cluster's part
# in the variance of an estimate is in proportion to its size.


Array = NDArray[np.float64]
Indices = NDArray[np.intp]

ONE_CLUSTER = "There is only one cluster, so the variance between clusters is not known."

ROUNDING = 1e-10
"""Relative size below which a negative eigenvalue is rounding, not a covariance gone wrong."""

UNEQUAL = 0.75
"""Effective clusters, as a share of all, below which descriptions say their number."""


@dataclass(frozen=True)
class ClusterCount:
    """How many clusters a way of clustering has, and how many of equal size they are worth."""

    count: int
    effective: float


def fewest(counts: Sequence[ClusterCount]) -> ClusterCount:
    """Return the way of clustering that has the fewest effective clusters."""
    return min(counts, key=lambda one: one.effective)


def degrees(counts: Sequence[ClusterCount]) -> float:
    """Return the degrees of freedom that clusters leave: one less than the fewest effective.

    Fewer than two are refused, as one cluster is. Two of nearly equal size count as two.
    """
    if not counts:
        return float("inf")
    least = fewest(counts)
    if round(least.effective, 1) < 2.0:
        raise OptionError(
            f"The {least.count} clusters differ so much in size that they are equivalent to "
            f"{least.effective:.2f} of equal size. Fewer than two do not identify a variance. "
            "Cluster by another column, or leave `cluster` out."
        )
    return max(least.effective - 1.0, 1.0)


def describe_clusters(name: str | None, counts: Sequence[ClusterCount]) -> str:
    """Say by what rows are clustered, and into how many clusters."""
    listed = " and ".join(str(one.count) for one in counts)
    if all(one.effective >= UNEQUAL * one.count for one in counts):
        return f"clustered by {name} ({listed} clusters)"
    effective = " and ".join(f"{one.effective:.1f}" for one in counts)
    return f"clustered by {name} ({listed} clusters, effectively {effective})"


@archived("cluster totals")
@dataclass(frozen=True, eq=False)
class ClusterTotals:
    """Sums over the clusters met so far; adding joins what is said of the same cluster.

    Attributes
    ----------
    codes : (G,) numbers of the clusters, in order.
    weights : (G,) of their rows.
    totals : (G, p) summed scores.
    parts : (G, p, p) their parts in the information; None where they are not wanted.
    """

    codes: Indices
    weights: Array
    totals: Array
    parts: Array | None = None

    @classmethod
    def of_rows(
        cls, codes: Indices, weights: Array, scores: Array, parts: Array | None = None
    ) -> ClusterTotals:
        """Sum what rows, or parts of clusters, say by their clusters (n,)."""
        if not len(codes):
            return cls(codes, weights, scores, parts)
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable")
            codes, weights, scores = codes[order], weights[order], scores[order]
            parts = None if parts is None else parts[order]
        first = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
        return cls(
            codes[first],
            np.add.reduceat(weights, first),
            np.add.reduceat(scores, first, axis=0),
            None if parts is None else np.add.reduceat(parts, first, axis=0),
        )

    def __add__(self, other: ClusterTotals) -> ClusterTotals:
        parts = None
        if self.parts is not None and other.parts is not None:
            parts = np.concatenate([self.parts, other.parts])
        codes = np.concatenate([self.codes, other.codes])
        weights = np.concatenate([self.weights, other.weights])
        totals = np.concatenate([self.totals, other.totals])
        if len(self.codes) and len(other.codes) and self.codes[-1] < other.codes[0]:
            return ClusterTotals(codes, weights, totals, parts)  # No cluster is in both.
        return ClusterTotals.of_rows(codes, weights, totals, parts)

    @property
    def counted(self) -> ClusterCount:
        """How many clusters there are; one alone is refused."""
        if len(self.codes) < 2:
            raise OptionError(ONE_CLUSTER)
        shares = self.weights / self.weights.max()
        return ClusterCount(len(shares), float(shares.sum() ** 2 / (shares @ shares)))


def cluster_totals(rows: Rows, values: Array, sizes: tuple[int, ...]) -> Parts:
    """Sum what rows say (n, p), weights included, by clusters: one sum per join of ways.

    Clusters of rows without weight do not count.
    """
    assert rows.clusters is not None
    ways = rows.clusters.reshape(len(rows), -1)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    if rows.weights is not None:
        counted = weights > 0
        ways, weights, values = ways[counted], weights[counted], values[counted]
    return Parts(
        ClusterTotals.of_rows(join_ways(ways, which, sizes), weights, values)
        for which in every_join(len(sizes))
    )


def cluster_products(found: Parts, n_ways: int) -> tuple[Array, list[ClusterCount]]:
    """Return the summed outer products of clusters' totals, and how many clusters there are.

    Ways of clustering are added and subtracted as in `sandwich.cluster_meat`, each with its own
    small-sample factor G/(G - 1).
    """
    products = np.zeros((found[0].totals.shape[1],) * 2)
    counts: list[ClusterCount] = []
    for which, clusters in zip(every_join(n_ways), found, strict=True):
        counted, totals = clusters.counted, clusters.totals
        if len(which) == 1:
            counts.append(counted)
        factor = sign_of_join(which) * counted.count / (counted.count - 1.0)
        products += factor * (totals.T @ totals)
    return products, counts


def cluster_covariance(found: Parts, n_ways: int) -> tuple[Array, list[ClusterCount], bool]:
    """Return the covariance of estimates, of which `found` holds what clusters do to them.

    It is that of `cluster_products`, of several ways without negative eigenvalues; the last value
    says whether there were any.
    """
    products, counts = cluster_products(found, n_ways)
    if n_ways == 1:
        return products, counts, False
    # The triangle of all ways and intersections together: what they subtract lies in it too.
    triangle = np.linalg.qr(np.vstack([one.totals for one in found]))[1]
    positive, repaired = without_negative_eigenvalues(products, triangle.T)
    return positive, counts, repaired


def without_negative_eigenvalues(products: Array, root: Array) -> tuple[Array, bool]:
    """Set negative eigenvalues of a difference of covariances to zero, and say if any were.

    They are those in units of a covariance of the same parameters, given by its `root` (p, r) whose
    columns span the products, so what is repaired does not depend on the units of the covariates.
    """
    if not (np.isfinite(products).all() and np.isfinite(root).all()):
        return products, False
    sizes = np.sqrt((root**2).sum(axis=1, keepdims=True))
    sizes[sizes == 0] = 1.0
    inverse = np.linalg.pinv(root / sizes, rcond=ROUNDING) / sizes.T
    values, axes = np.linalg.eigh(inverse @ products @ inverse.T)
    if values[0] >= -ROUNDING * abs(values[-1]):
        return products, False
    carry = root @ axes
    return (carry * np.maximum(values, 0.0)) @ carry.T, True


def count_clusters(engine: Engine, sizes: tuple[int, ...]) -> list[ClusterCount]:
    """Count the clusters of each way, of which there are `sizes`; none of rows without weight."""
    if not sizes:
        return []
    return [one.counted for one in engine.sum(partial(_weights_by_cluster, sizes))]


def count_in_rows(rows: Rows, sizes: tuple[int, ...]) -> list[ClusterCount]:
    """Count the clusters of rows, as `count_clusters` does."""
    return [one.counted for one in _weights_of_rows(rows, sizes)] if sizes else []


def _weights_by_cluster(sizes: tuple[int, ...], batch: Batch) -> Parts:
    return _weights_of_rows(batch.rows, sizes)


def _weights_of_rows(rows: Rows, sizes: tuple[int, ...]) -> Parts:
    found = cluster_totals(rows, np.empty((len(rows), 0)), sizes)
    return Parts(found[: len(sizes)])


def cluster_sizes(engine: Engine) -> tuple[int, ...]:
    """Return how many clusters there are, one number per way; nothing where there are none."""
    if engine.holds_rows:
        return engine.rows.cluster_sizes
    largest: Largest = engine.sum(_largest_codes)
    return tuple((largest.codes + 1).tolist())


@archived("largest cluster numbers")
@dataclass(frozen=True, eq=False)
class Largest:
    """The largest cluster number met so far, by way of clustering; adding takes the larger."""

    codes: Indices

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.codes, other.codes))


def _largest_codes(batch: Batch) -> Largest:
    if batch.rows.clusters is None:
        return Largest(np.empty(0, dtype=np.intp))
    return Largest(batch.rows.clusters.reshape(len(batch), -1).max(axis=0, initial=-1))


def every_join(n_ways: int) -> list[tuple[int, ...]]:
    """Return all ways of clustering, then their intersections, each as the ways it is of."""
    return [which for n in range(1, n_ways + 1) for which in combinations(range(n_ways), n)]


def sign_of_join(which: tuple[int, ...]) -> float:
    """Return whether products of an intersection of ways are added, 1, or subtracted, -1."""
    return (-1.0) ** (len(which) + 1)


def join_ways(ways: Indices, which: tuple[int, ...], sizes: tuple[int, ...]) -> Indices:
    """Return a number for each intersection of some ways (n, ways) of clustering."""
    code = np.zeros(len(ways), dtype=np.intp)
    for way in which:
        code = code * sizes[way] + ways[:, way]
    return code

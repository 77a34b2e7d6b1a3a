"""What a model is to the oracle: means, a law of the noise, a rule, and what a row records.

Nothing here knows how the package does any of it. Rules choose from latent outcomes, laws are those
of SciPy, and a likelihood is an integral over what was not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from oracle.integrals import Array, Event, Mask, integrate

Indices = NDArray[np.intp]
Choose = Callable[[Array, Indices], Indices]
"""From latent outcomes (m, d) of rows (m,) to the alternative that is recorded; -1 for none."""


@dataclass(frozen=True)
class Mixed:
    """A mixture of normal distributions with the face of one of SciPy's."""

    shares: Array
    means: Array
    spreads: Array

    def _sum(self, function: Callable[..., Array], at: Array) -> Array:
        parts = zip(self.shares, self.means, self.spreads, strict=True)
        return sum((p * function(at, m, s) for p, m, s in parts), np.zeros(np.shape(at)))

    def pdf(self, at: Array) -> Array:
        return self._sum(stats.norm.pdf, at)

    def cdf(self, at: Array) -> Array:
        return self._sum(stats.norm.cdf, at)

    def sf(self, at: Array) -> Array:
        return self._sum(stats.norm.sf, at)

    def rvs(self, size: Any, random_state: np.random.Generator) -> Array:
        which = random_state.choice(len(self.shares), size, p=self.shares)
        return self.means[which] + self.spreads[which] * random_state.normal(size=size)


EULER = float(np.euler_gamma)
STANDARD: dict[str, Any] = {
    "normal": stats.norm(),
    "logistic": stats.logistic(),
    "laplace": stats.laplace(),
    "gumbel": stats.gumbel_r(loc=-EULER),
    "gumbel_min": stats.gumbel_l(loc=EULER),
}
"""Noise of mean zero, of the standard scale."""

REACH = {"normal": 11.0, "logistic": 45.0, "laplace": 45.0, "gumbel": 45.0, "gumbel_min": 45.0}


@dataclass(frozen=True)
class Independent:
    """Outcomes that are independent of each other, each of a shape of its own."""

    means: Array
    scales: Array
    shapes: tuple[Any, ...]
    reach: float

    def centre(self, at: Array, dimension: int, given: list[int]) -> tuple[Array, Array]:
        return self.means[:, dimension], self.scales[:, dimension]

    def _standard(self, at: Array, dimension: int) -> Array:
        return (at - self.means[:, dimension]) / self.scales[:, dimension]

    def density(self, at: Array, dimension: int, given: list[int]) -> Array:
        z = self._standard(at[:, dimension], dimension)
        return self.shapes[dimension].pdf(z) / self.scales[:, dimension]

    def tail(self, at: Array, dimension: int, given: list[int], end: Array, upper: Mask) -> Array:
        z, shape = self._standard(end, dimension), self.shapes[dimension]
        return np.where(upper, shape.sf(z), shape.cdf(z))

    def take(self, which: Indices) -> Independent:
        return Independent(self.means[which], self.scales[which], self.shapes, self.reach)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        noise = [shape.rvs((n_draws, len(self.means)), random_state=rng) for shape in self.shapes]
        return self.means + self.scales * np.stack(noise, axis=-1)


@dataclass(frozen=True)
class Normal:
    """Outcomes that are jointly normal, with the covariances (b, d, d) of every row."""

    means: Array
    covariances: Array
    reach: float = REACH["normal"]

    def centre(self, at: Array, dimension: int, given: list[int]) -> tuple[Array, Array]:
        own = self.covariances[:, dimension, dimension]
        if not given:
            return self.means[:, dimension], np.sqrt(own)
        with_others = self.covariances[:, dimension, given]
        among = self.covariances[:, given][:, :, given]
        slopes = np.linalg.solve(among, with_others[:, :, None])[:, :, 0]
        away = at[:, given] - self.means[:, given]
        left = np.maximum(own - (slopes * with_others).sum(axis=1), 1e-300)
        return self.means[:, dimension] + (slopes * away).sum(axis=1), np.sqrt(left)

    def density(self, at: Array, dimension: int, given: list[int]) -> Array:
        return stats.norm.pdf(at[:, dimension], *self.centre(at, dimension, given))

    def tail(self, at: Array, dimension: int, given: list[int], end: Array, upper: Mask) -> Array:
        centre, scale = self.centre(at, dimension, given)
        z = (end - centre) / scale
        return stats.norm.cdf(np.where(upper, -z, z))

    def take(self, which: Indices) -> Normal:
        return Normal(self.means[which], self.covariances[which], self.reach)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        roots = np.linalg.cholesky(self.covariances)
        noise = rng.normal(size=(n_draws, *self.means.shape))
        return self.means + np.einsum("bij,nbj->nbi", roots, noise)


Law = Independent | Normal


@dataclass(frozen=True)
class Recorded:
    """What a table records of its rows.

    Attributes
    ----------
    outcome : (n,) nan where it was not recorded.
    chosen : (n,) index of the recorded alternative; -1 where it was not recorded.
    possible : (n, d) which alternatives may be the recorded one.
    limits : (n, 2) between which an outcome lies that was not recorded.
    groups : (n,) rows of a group share one atom.
    weights : (n,) of each row.
    """

    outcome: Array
    chosen: Indices
    possible: Mask
    limits: Array
    groups: Indices
    weights: Array

    def take(self, which: Indices) -> Recorded:
        return Recorded(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Atom:
    """One value that all rows of a group may share: a type, or a node of a shock."""

    log_weight: Array
    law: Law
    choose: Choose
    crossings: Callable[[Array, Indices, int], Array] | None = None


@dataclass(frozen=True)
class Model:
    """Rows with the law of their outcomes, atom by atom.

    Attributes
    ----------
    atoms : what groups of rows may share, with weights (n,) that are equal within groups.
    used : the outcomes that the rule looks at, beside the one that is recorded.
    """

    atoms: tuple[Atom, ...]
    used: tuple[int, ...]
    silent: tuple[int, ...] = field(default=())
    """Alternatives that have no outcome of their own: rows not selected."""

    def row_logliks(self, recorded: Recorded, asked: Mask | None = None) -> Array:
        """Return the log-likelihood of every group, at its first row; others are zero.

        Of rows that are not `asked` for (n,) nothing is computed; groups stay whole.
        """
        each = np.column_stack([atom.log_weight for atom in self.atoms])
        if asked is None:
            asked = np.ones(len(recorded.outcome), dtype=bool)
        _, first, group = np.unique(recorded.groups, return_index=True, return_inverse=True)
        by_group = each[first]
        for place, atom in enumerate(self.atoms):
            with np.errstate(divide="ignore"):
                rows = np.where(asked, np.log(self._likelihoods(atom, recorded, asked)), 0.0)
            np.add.at(by_group[:, place], group, rows)
        top = by_group.max(axis=1, keepdims=True)
        found = np.zeros(len(recorded.outcome))
        found[first] = top[:, 0] + np.log(np.exp(by_group - top).sum(axis=1))
        return np.where(asked, found, 0.0)

    def _likelihoods(self, atom: Atom, recorded: Recorded, asked: Mask) -> Array:
        found = np.zeros(len(recorded.outcome))
        for j in range(recorded.possible.shape[1]):
            may = np.where(recorded.chosen < 0, recorded.possible[:, j], recorded.chosen == j)
            for is_known in (True, False):
                here = np.flatnonzero(asked & may & (np.isfinite(recorded.outcome) == is_known))
                if len(here):
                    found[here] += self._as_chosen(j, atom, recorded, here, is_known)
        return found

    def _as_chosen(
        self, j: int, atom: Atom, recorded: Recorded, here: Indices, is_known: bool
    ) -> Array:
        """Return the likelihood of rows `here` if alternative `j` is the recorded one."""
        low, high = recorded.limits[here].T
        at = np.zeros((len(here), atom.law.means.shape[1]))
        has_outcome = j not in self.silent
        bounded = has_outcome and bool(np.isfinite(recorded.limits[here]).any())
        free = [m for m in self.used if m != j or not has_outcome]
        known: list[int] = []
        if has_outcome and is_known:
            at[:, j], known = recorded.outcome[here], [j]
        elif bounded or j in self.used:
            free = [j, *free] if has_outcome else free

        def holds(latent: Array, rows: Indices) -> Mask:
            right = atom.choose(latent, here[rows]) == j
            if bounded and not is_known:
                right &= (latent[:, j] > low[rows]) & (latent[:, j] < high[rows])
            return right

        def crossings(latent: Array, rows: Indices, dimension: int) -> Array:
            return atom.crossings(latent, here[rows], dimension)

        hints = np.column_stack([recorded.outcome[here], low, high])
        event = Event(holds, hints, crossings if atom.crossings else None)
        return integrate(atom.law.take(here), event, at, known, free)

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[Array, Indices]:
        """Draw latent outcomes (draws, n, d) and the recorded alternatives (draws, n)."""
        weights = np.exp(np.column_stack([atom.log_weight for atom in self.atoms]))
        n_rows = len(weights)
        edges = np.cumsum(weights, axis=1)
        which = (rng.random((n_draws, n_rows, 1)) > edges[:, :-1]).sum(axis=-1)
        latent = np.empty((n_draws, n_rows, self.atoms[0].law.means.shape[1]))
        chosen = np.empty((n_draws, n_rows), dtype=np.intp)
        rows = np.tile(np.arange(n_rows), n_draws)
        for place, atom in enumerate(self.atoms):
            here = which == place
            drawn = atom.law.draw(n_draws, rng)
            picked = atom.choose(drawn.reshape(len(rows), -1), rows).reshape(which.shape)
            latent[here], chosen[here] = drawn[here], picked[here]
        return latent, chosen


def maximum(cost: Array, open_to: Mask, sign: float = 1.0) -> Choose:
    """Choose the best outcome net of costs (n, d), the largest or, with sign -1, the smallest."""

    def choose(latent: Array, rows: Indices) -> Indices:
        net = sign * latent[:, : cost.shape[1]] - cost[rows]
        return np.where(open_to[rows], net, -np.inf).argmax(axis=1)

    return choose


def transformed(
    functions: Sequence[Callable[[Array], Array]], cost: Array, open_to: Mask
) -> Choose:
    """Choose the outcome whose transform is best, net of costs in its units."""

    def choose(latent: Array, rows: Indices) -> Indices:
        with np.errstate(over="ignore"):
            values = np.column_stack([f(y) for f, y in zip(functions, latent.T, strict=True)])
        return np.where(open_to[rows], values - cost[rows], -np.inf).argmax(axis=1)

    return choose


def mixing(matrix: Array, constant: Array, cost: Array, open_to: Mask) -> Choose:
    """Choose by the largest entry of outcomes mixed with each other."""

    def choose(latent: Array, rows: Indices) -> Indices:
        net = latent @ matrix.T + constant - cost[rows]
        return np.where(open_to[rows], net, -np.inf).argmax(axis=1)

    return choose


def mixing_crossings(
    matrix: Array, constant: Array, cost: Array
) -> Callable[[Array, Indices, int], Array]:
    """Return where two of the mixed outcomes are equal, along one of the outcomes."""
    k = len(matrix)
    first, second = np.triu_indices(k, 1)

    def crossings(latent: Array, rows: Indices, dimension: int) -> Array:
        rest = latent.copy()
        rest[:, dimension] = 0.0
        net = rest @ matrix.T + constant - cost[rows]
        slopes = matrix[first, dimension] - matrix[second, dimension]
        with np.errstate(divide="ignore", invalid="ignore"):
            return -(net[:, first] - net[:, second]) / slopes

    return crossings


def ranked(rank: int, open_to: Mask) -> Choose:
    """Choose the outcome of a rank from the top, among those that are open to a row."""

    def choose(latent: Array, rows: Indices) -> Indices:
        return np.argsort(np.where(open_to[rows], -latent, np.inf), axis=1)[:, rank - 1]

    return choose


def by_cuts(cuts: Sequence[float], silent_below: bool = False) -> Choose:
    """Choose by where the last outcome, the index of a selection equation, lies among cuts."""

    def choose(latent: Array, rows: Indices) -> Indices:
        regime = np.searchsorted(np.asarray(cuts), latent[:, -1])
        return np.where(regime == 0, 1, 0) if silent_below else regime

    return choose

r"""Types: what the parameters of a mixture over unobserved types say of each type.

Type m has the weight :math:`\pi_m = \mathrm{softmax}(l)_m` with :math:`l_0 = 0`, moves the mean
of alternative j by the shift :math:`\alpha_{mj}` and its cost by :math:`\kappa_{mj}`. Shifts have
mean zero over the types that determine them, whatever the parameters are:

.. math:: \alpha_{mj} = d_{mj} - \bar d_j, \qquad
    \bar d_j = \sum_{m \in D_j} \omega_{mj} d_{mj}, \qquad
    \omega_{mj} = \pi_m / \sum_{m \in D_j} \pi_m,

with :math:`d = 0` for the first type of :math:`D_j`. A shift or cost that is held is a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["TypeMap", "TypeValues", "grouped_sum", "mix_groups"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

RAREST = 1e-300
"""Weight below which a type is as good as none: its logarithm is still a number."""


@dataclass(frozen=True, eq=False)
class TypeValues:
    """Weights, shifts and costs of all types, with their derivatives in the parameters (e,).

    Attributes
    ----------
    logits : (M,) of the weights, the first zero.
    shifts, costs : (M, k).
    shift_slopes, cost_slopes : (M, k, e) first derivatives.
    shift_bends : (k, e, e) second derivatives, the same for all types whose shift is not held.
    """

    logits: Array
    shifts: Array
    costs: Array
    shift_slopes: Array
    cost_slopes: Array
    shift_bends: Array

    @property
    def weights(self) -> Array:
        """(M,) weights of the types."""
        return _softmax(self.logits)


@dataclass(frozen=True, eq=False)
class TypeMap:
    """Where the parameters of types stand: logits, then shifts, then costs.

    Attributes
    ----------
    held_shifts, held_costs : (M, k) numbers where a shift or cost is held, nan where it is
        estimated.
    talent : whether a type has one shift for all alternatives.
    priced : whether types have costs of their own, of all alternatives but the first.
    """

    held_shifts: Array
    held_costs: Array
    talent: bool
    priced: bool

    @property
    def n_types(self) -> int:
        """How many types there are."""
        return len(self.held_shifts)

    @property
    def n_alternatives(self) -> int:
        """How many alternatives there are."""
        return self.held_shifts.shape[1]

    @cached_property
    def blocks(self) -> list[tuple[Indices, Indices]]:
        """Of each alternative, the types that determine its shifts and the places of theirs.

        The first of them has no parameter. With one talent the blocks of all are the same.
        """
        place = self.n_types - 1
        blocks: list[tuple[Indices, Indices]] = []
        for j in range(self.n_alternatives):
            if self.talent and j:
                blocks.append(blocks[0])
                continue
            free = np.flatnonzero(np.isnan(self.held_shifts[:, j]))
            blocks.append((free, np.arange(place, place + len(free) - 1)))
            place += len(free) - 1
        return blocks

    @cached_property
    def cost_places(self) -> NDArray[np.intp]:
        """(M, k) place of the parameter of each cost; -1 where there is none."""
        places = np.full(self.held_costs.shape, -1, dtype=np.intp)
        if self.priced:
            place = 1 + max((int(at[-1]) for _, at in self.blocks if len(at)), default=-1)
            place = max(place, self.n_types - 1)
            for j in range(1, self.n_alternatives):
                for m in np.flatnonzero(np.isnan(self.held_costs[:, j])):
                    places[m, j] = place
                    place += 1
        return places

    @cached_property
    def size(self) -> int:
        """How many parameters there are."""
        shifts = {int(one) for _, at in self.blocks for one in at}
        return self.n_types - 1 + len(shifts) + int((self.cost_places >= 0).sum())

    def at(self, parameters: Array) -> TypeValues:
        """Return weights, shifts and costs at parameters (e,)."""
        # Every batch of a pass asks for the same ones.
        return _values_at(self, parameters.tobytes())

    def _at(self, parameters: Array) -> TypeValues:
        n_types, k, size = self.n_types, self.n_alternatives, self.size
        logits = np.concatenate([[0.0], parameters[: n_types - 1]])
        shifts = np.where(np.isnan(self.held_shifts), 0.0, self.held_shifts)
        slopes, bends = np.zeros((n_types, k, size)), np.zeros((k, size, size))
        for j, (which, at) in enumerate(self.blocks):
            weight = _softmax(logits[which])
            d = np.concatenate([[0.0], parameters[at]])
            mean = float(weight @ d)
            shifts[which, j] = d - mean
            pull = weight * (d - mean)
            # The first type has no logit, and the first of the block no shift, to move.
            for_logit, own = which > 0, which[1:]
            at_logit = which[for_logit] - 1
            slopes[which[:, None], j, at] -= weight[1:]
            slopes[own, j, at] += 1.0
            slopes[which[:, None], j, at_logit] -= pull[for_logit]
            mixed = np.diag(weight) - np.outer(weight, weight)
            twice = np.diag(pull) - np.outer(weight, pull) - np.outer(pull, weight)
            bends[j][np.ix_(at, at_logit)] -= mixed[1:][:, for_logit]
            bends[j][np.ix_(at_logit, at)] -= mixed[1:][:, for_logit].T
            bends[j][np.ix_(at_logit, at_logit)] -= twice[np.ix_(for_logit, for_logit)]
        costs = np.where(np.isnan(self.held_costs), 0.0, self.held_costs)
        cost_slopes = np.zeros((n_types, k, size))
        placed = self.cost_places >= 0
        costs[placed] = parameters[self.cost_places[placed]]
        cost_slopes[(*np.nonzero(placed), self.cost_places[placed])] = 1.0
        return TypeValues(logits, shifts, costs, slopes, cost_slopes, bends)

    def parameters(self, weights: Array, shifts: Array, costs: Array) -> Array:
        """Return the parameters of weights (M,), shifts (M, k) and costs (M, k)."""
        made = np.zeros(self.size)
        some = np.maximum(weights, RAREST)
        made[: self.n_types - 1] = np.log(some[1:]) - np.log(some[0])
        for j, (which, at) in enumerate(self.blocks):
            made[at] = shifts[which[1:], j] - shifts[which[0], j]
        placed = self.cost_places >= 0
        made[self.cost_places[placed]] = costs[placed]
        return made


@lru_cache(maxsize=32)
def _values_at(types: TypeMap, held: bytes) -> TypeValues:
    return types._at(np.frombuffer(held))


def mix_groups(log_prior: Array, loglik: Array) -> tuple[Array, Array]:
    """Return the log-likelihood (G,) of groups and the chances (G, M) of their types.

    `log_prior` (G, M) or (1, M), and `loglik` (G, M) of each group under each type.
    """
    joint = log_prior + loglik
    largest = joint.max(axis=1, keepdims=True)
    # A group that no type explains has no chances; its weight may be zero.
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.exp(joint - largest)
        total = share.sum(axis=1, keepdims=True)
        return largest[:, 0] + np.log(total[:, 0]), share / total


def grouped_sum(values: Array, starts: Indices | None) -> Array:
    """Sum rows (n, ...) by groups that begin at `starts`; None where each row is its own."""
    return values if starts is None else np.add.reduceat(values, starts, axis=0)


def _softmax(logits: Array) -> Array:
    raised: Array = np.exp(logits - logits.max())
    return raised / raised.sum()

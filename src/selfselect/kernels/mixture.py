"""The oracles of mixed noise and of unobserved types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

Array = NDArray[np.float64]


# Mixtures of normal distributions: logarithms of density and tails with all their derivatives.
#
# Component m has the share :math:`\pi_m`, the mean :math:`\mu_m` and the spread :math:`s_m`. With
# :math:`z = (a - \mu_m)/s_m`, each component adds :math:`\log\pi_m` and the logarithm of its
# density or tail; the mixture is the log-sum of these. With :math:`\tau_m` the posterior share of
# component m, its gradient is :math:`\sum_m \tau_m g_m` and its Hessian :math:`\sum_m \tau_m (H_m
# + g_m g_m') - g g'`.

Codes = NDArray[np.int8]


class ShapeTerms(NamedTuple):
    """A logarithm and its derivatives in a, and in the parameters of a shape.

    Attributes
    ----------
    value : (n,)
    gradient : (n, 1 + m) in a first.
    hessian : (n, 1 + m, 1 + m); None where it was not wanted.
    """

    value: Array
    gradient: Array
    hessian: Array | None


class ShapeSums(NamedTuple):
    """The same with second derivatives in the parameters of the shape added up over rows.

    Attributes
    ----------
    value, slope, bend : (n,) the logarithm and its derivatives in a.
    by : (m, n) first derivatives in the parameters.
    mixed : (m, n) second derivatives in a and in these.
    twice : (m, m) weighted sum of second derivatives in these.

    Where no second derivatives were wanted, they mean nothing.
    """

    value: Array
    slope: Array
    bend: Array
    by: Array
    mixed: Array
    twice: Array


SIDES = {OBSERVED: 0, BELOW: 1, ABOVE: -1}
"""Which logarithm a row of each status adds."""


def summed(
    evaluate: Callable[[Array, int], ShapeTerms],
    a: Array,
    status: Codes,
    weights: Array,
    n_parameters: int,
) -> ShapeSums:
    """Evaluate an alternative's rows by their status; those between limits or silent add nothing.

    Parameters
    ----------
    evaluate : returns the terms of `a` on a side: 0 for log f, 1 for log F, -1 for log(1 - F).
    a : (n,) standardised outcome or limit.
    status : (n,) what each row says of the alternative.
    weights : (n,) of the sum.
    n_parameters : how many parameters the terms are differentiated in.
    """
    value, slope, bend = np.zeros((3, len(a)))
    by, mixed = np.zeros((2, n_parameters, len(a)))
    twice = np.zeros((n_parameters, n_parameters))
    for code, side in SIDES.items():
        here = np.flatnonzero(status == code)
        if not len(here):
            continue
        terms = evaluate(a[here], side)
        value[here], slope[here] = terms.value, terms.gradient[:, 0]
        by[:, here] = terms.gradient[:, 1:].T
        if terms.hessian is not None:
            bend[here], mixed[:, here] = terms.hessian[:, 0, 0], terms.hessian[:, 0, 1:].T
            twice += np.tensordot(weights[here], terms.hessian[:, 1:, 1:], axes=(0, 0))
    return ShapeSums(value, slope, bend, by, mixed, twice)


def mixture_sums(
    a: Array, status: Codes, components: Array, weights: Array, *, curvature: bool
) -> ShapeSums:
    """Evaluate an alternative's rows under a mixture, by compiled code where there is any."""
    native = extension()
    if native is None:
        return mixture_sums_by_numpy(a, status, components, weights, curvature=curvature)
    m = len(components)
    terms, twice = np.empty((3 + 6 * m, len(a))), np.zeros((3 * m, 3 * m))
    native.mixture_rows(
        np.ascontiguousarray(a), status, np.ascontiguousarray(components),
        np.ascontiguousarray(weights), float(curvature), terms, twice,
    )  # fmt: skip
    return ShapeSums(terms[0], terms[1], terms[2], terms[3 : 3 + 3 * m], terms[3 + 3 * m :], twice)


def mixture_sums_by_numpy(
    a: Array, status: Codes, components: Array, weights: Array, *, curvature: bool
) -> ShapeSums:
    """Do the same by NumPy: the oracle of the compiled kernel."""

    def evaluate(some: Array, side: int) -> ShapeTerms:
        return mixture_terms(some, side, components, curvature=curvature)

    return summed(evaluate, a, status, weights, components.size)


def mixture_terms(a: Array, side: int, components: Array, *, curvature: bool = True) -> ShapeTerms:
    """Evaluate a mixture at `a` (n,).

    Parameters
    ----------
    a : where.
    side : 0 for the log-density, 1 for log F, -1 for log(1 - F).
    components : (M, 3) share, mean and spread of each. Derivatives are in a, then in these, row
        by row.
    curvature : whether second derivatives are wanted.
    """
    share, mean, spread = components.T[:, :, None]
    z = (a - mean) / spread
    if side == 0:
        with np.errstate(over="ignore"):
            logs = -0.5 * z * z - HALF_LOG_TWO_PI - np.log(spread)
        slope, bend = -z, np.full_like(z, -1.0)
    else:
        tail = mills_terms(side * z)
        logs, slope, bend = tail.log_cdf, side * tail.ratio, -tail.slope
    logs = logs + np.log(share)
    largest = logs.max(axis=0)
    relative = np.exp(logs - largest)
    total = relative.sum(axis=0)
    chance = relative / total
    own = 1.0 if side == 0 else 0.0
    # Derivatives of each component's term in a, share, mean and spread.
    by_a = slope / spread
    by_spread = -(slope * z + own) / spread
    each = np.stack([by_a, np.broadcast_to(1.0 / share, z.shape), -by_a, by_spread])
    n_components, n = z.shape
    gradient = np.empty((n, 1 + 3 * n_components))
    gradient[:, 0] = (chance * by_a).sum(axis=0)
    # (n, M, 3), row by row of the components.
    weighted = (chance * each[1:]).transpose(2, 1, 0)
    gradient[:, 1:] = weighted.reshape(n, -1)
    value = largest + np.log(total)
    if not curvature:
        return ShapeTerms(value, gradient, None)
    second = _second_derivatives(z, share, spread, slope, bend, own)
    whole = chance * (second + each[:, None] * each[None, :])
    hessian = -gradient[:, :, None] * gradient[:, None, :]
    hessian[:, 0, 0] += whole[0, 0].sum(axis=0)
    for m in range(n_components):
        at = slice(1 + 3 * m, 4 + 3 * m)
        cross = whole[0, 1:, m].T
        hessian[:, 0, at] += cross
        hessian[:, at, 0] += cross
        hessian[:, at, at] += whole[1:, 1:, m].transpose(2, 0, 1)
    return ShapeTerms(value, gradient, hessian)


def _second_derivatives(
    z: Array, share: Array, spread: Array, slope: Array, bend: Array, own: float
) -> Array:
    """Return those (4, 4, M, n) of each component's term in a, share, mean and spread."""
    second = np.zeros((4, 4, *z.shape))
    square = spread**2
    twice = bend / square
    mixed = (bend * z + slope) / square
    second[0, 0] = second[2, 2] = twice
    second[0, 2] = second[2, 0] = -twice
    second[0, 3] = second[3, 0] = -mixed
    second[2, 3] = second[3, 2] = mixed
    second[3, 3] = (bend * z * z + 2.0 * slope * z + own) / square
    second[1, 1] = -1.0 / share**2
    return second


# Types: what the parameters of a mixture over unobserved types say of each type.
#
# Type m has the weight :math:`\pi_m = \mathrm{softmax}(l)_m` with :math:`l_0 = 0`, moves the mean
# of alternative j by the shift :math:`\alpha_{mj}` and its cost by :math:`\kappa_{mj}`. Shifts
# have mean zero over the types that determine them, whatever the parameters are:
#
# .. math:: \alpha_{mj} = d_{mj} - \bar d_j, \qquad
#     \bar d_j = \sum_{m \in D_j} \omega_{mj} d_{mj}, \qquad
#     \omega_{mj} = \pi_m / \sum_{m \in D_j} \pi_m,
#
# with :math:`d = 0` for the first type of :math:`D_j`. A shift or cost that is held is a number.

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

"""Rows and normal tails for tensors of any device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from selfselect.kernels.tails import CENTRE, GAP

# Rows as tensors of one device, and sums of products over them.


BITS: Final = 4
"""Bits per code where they are packed."""

MOST_PACKED: Final = 7
"""Alternatives whose codes fit into a number of 32 bits with its sign."""

WIDEST_TERMS: Final = 64
WIDEST_GRAMS: Final = 32
"""Rows of the table that a card's kernels keep in registers; wider ones are left to its library."""


@dataclass(frozen=True, eq=False)
class TensorRows:
    """What the kernels take, in internal units, one column per row of the data.

    Each row of a tensor lies in one piece, so that neighbouring threads of a card read neighbouring
    numbers, and so that all linear predictors are one matrix product.

    Attributes
    ----------
    table : (D + 2, n) the covariates, a row of ones, and minus the outcome. With the parameters
        (g, constant, h) of an alternative a row's a = h y - g'x is minus their product with it.
    status : (k, n) codes of `selfselect.kernels.known_index`.
    weights : (n,), or None for ones.
    limits : (k, n) where alternatives have limits of their own, zero where they mean nothing; None
        where the outcome is the limit of all.
    upper : (k, n) upper limits where between two; None where no row has that status.
    codes : (n,) all codes of a row packed into one number, for the kernels of a card; None where
        there are none.
    """

    table: Tensor
    status: Tensor
    weights: Tensor | None = None
    limits: Tensor | None = None
    upper: Tensor | None = None
    codes: Tensor | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.table.shape[1]

    @property
    def n_bytes(self) -> int:
        """How much memory they take."""
        return sum(
            one.numel() * one.element_size() for one in vars(self).values() if one is not None
        )

    def slice(self, first: int, last: int) -> TensorRows:
        """Return views of some neighbouring rows."""
        if first == 0 and last >= self.n_rows:
            return self
        return self._each(lambda one: one[..., first:last])

    def take(self, which: Tensor) -> TensorRows:
        """Return copies of some rows, on the same device."""
        return self._each(lambda one: one.index_select(-1, which))

    def _each(self, change: Callable[[Tensor], Tensor]) -> TensorRows:
        return TensorRows(
            **{name: None if one is None else change(one) for name, one in vars(self).items()}
        )


def pack(status: Tensor) -> Tensor | None:
    """Pack the codes (k, n) of a row into one number (n,); None where they are too many."""
    if len(status) > MOST_PACKED:
        return None
    packed = torch.zeros(status.shape[1], dtype=torch.int32, device=status.device)
    for j, codes in enumerate(status):
        packed += codes.to(torch.int32) << (BITS * j)
    return packed


def weighted_grams(table: Tensor, factors: Tensor) -> Tensor:
    """Return Z diag(c) Z' for each row c of `factors` (k, n): one product for all, (k, m, m)."""
    n_columns, n_rows = table.shape
    weighted = (table * factors[:, None, :]).reshape(len(factors) * n_columns, n_rows)
    return torch.matmul(weighted, table.T).reshape(len(factors), n_columns, n_columns)


# Normal tails of tensors, on any device: the twin of `tails`, by the polynomial of `_scalars`.
#
# `_scalars` says how :math:`\gamma(x) = \lambda(-x) - x` gives log Φ, λ and its slope right to a
# few ulps at any distance. Here every step is an operation on whole tensors; the kernels for a
# card do the same in registers.


HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
INV_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)

NARROW: Final = 1.0
"""Width of an interval, and fall of the log density over it, up to which ten nodes are exact."""


@dataclass(frozen=True, eq=False)
class Tails:
    """Elementwise log Φ(a), λ(a), a + λ(a), and log λ(a)."""

    log_cdf: Tensor
    ratio: Tensor
    excess: Tensor
    log_ratio: Tensor


def _gap(x: Tensor) -> Tensor:
    """Evaluate λ(-x) - x for x >= 0."""
    reciprocal = 1.0 / (x + CENTRE)
    u = (x - CENTRE) * reciprocal
    total = torch.full_like(u, GAP[-1])
    for coefficient in GAP[-2::-1]:
        total.mul_(u).add_(coefficient)
    return total.mul_(reciprocal)


def tails(a: Tensor) -> Tails:
    """Evaluate log Φ, λ and a + λ at every element of `a`."""
    x = a.abs()
    left = a <= 0.0
    gap = _gap(x)
    left_ratio = x + gap
    half_square = -0.5 * x * x
    density = half_square.exp() * INV_SQRT_TWO_PI
    right_ratio = density * left_ratio / (left_ratio - density)
    log_density = half_square - HALF_LOG_TWO_PI
    log_left = left_ratio.log()
    log_right_cdf = torch.log1p(-density / left_ratio)
    return Tails(
        log_cdf=torch.where(left, log_density - log_left, log_right_cdf),
        ratio=torch.where(left, left_ratio, right_ratio),
        excess=torch.where(left, gap, right_ratio + x),
        log_ratio=torch.where(left, log_left, log_density - log_right_cdf),
    )


@dataclass(frozen=True, eq=False)
class TensorInterval:
    """log P(a < Z < b), and the densities φ(a)/P and φ(b)/P at its two ends."""

    log_mass: Tensor
    lower_density: Tensor
    upper_density: Tensor


def interval(lower: Tensor, upper: Tensor) -> TensorInterval:
    """Evaluate the normal mass between two tensors, as `tails.interval_terms` does."""
    reflect = lower + upper < 0
    near, far = torch.where(reflect, -upper, lower), torch.where(reflect, -lower, upper)
    width = far - near
    fall = 0.5 * width * (far + near)
    around = (near < 0) & (width >= NARROW)
    narrow = (fall < NARROW) & (width < NARROW)

    # Every formula is evaluated everywhere, where need be at a harmless place, and one is kept.
    short = torch.where(narrow, width, 1.0)
    log_density = -0.5 * near * near - HALF_LOG_TWO_PI
    at_zero, at_one = near.abs(), far.abs()
    mills_near, mills_far = 1.0 / (at_zero + _gap(at_zero)), 1.0 / (at_one + _gap(at_one))
    outside = (log_density.exp() * mills_near) + (
        torch.exp(-0.5 * at_one * at_one - HALF_LOG_TWO_PI) * mills_far
    )
    relative = mills_near - torch.exp(-fall) * mills_far
    relative = torch.where(narrow, _quadrature(torch.where(narrow, near, 0.0), short), relative)
    inside = (1.0 - outside) * torch.exp(torch.where(around, -log_density, 0.0))
    relative = torch.where(around, inside, relative)
    log_mass = log_density + relative.log()
    log_mass = torch.where(around, torch.log1p(torch.where(around, -outside, 0.0)), log_mass)
    near_density, far_density = 1.0 / relative, torch.exp(-fall) / relative
    return TensorInterval(
        log_mass,
        torch.where(reflect, far_density, near_density),
        torch.where(reflect, near_density, far_density),
    )


def _quadrature(near: Tensor, width: Tensor) -> Tensor:
    """Integrate exp(-near t - t²/2) over [0, width] by ten nodes."""
    from numpy.polynomial.legendre import leggauss

    total = torch.zeros_like(near)
    for node, weight in zip(*leggauss(10), strict=True):
        t = 0.5 * width * (1.0 + float(node))
        total += float(weight) * torch.exp(-t * (near + 0.5 * t))
    return 0.5 * width * total

"""Which kernels sum tensors of a device: those written for a card, or operations of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

import torch

from selfselect.errors import SelfSelectWarning, warn_user
from selfselect.kernels import torch_known, torch_unknown
from selfselect.kernels.torch_rows import MOST_PACKED, WIDEST_GRAMS, WIDEST_TERMS

__all__ = ["Kernels", "kernels_for"]


@dataclass(frozen=True)
class Kernels:
    """Sums over rows of the two kinds of likelihood, and whether they read rows in registers."""

    known: Callable[..., Any]
    unknown: Callable[..., Any]
    in_registers: bool

    def doubles_per_row(
        self, n_alternatives: int, width: int, *, known: bool, curvature: str, own_limits: bool
    ) -> int:
        """Return how many numbers a pass keeps per row beside the rows themselves."""
        k = n_alternatives
        narrow = self.in_registers and width <= WIDEST_GRAMS
        if self.in_registers and width <= WIDEST_TERMS and k <= MOST_PACKED and not own_limits:
            if curvature == "none":
                return 0
            if known and narrow:
                return k
        n_grams = 0 if curvature == "none" else k if known else k * (k + 1) // 2
        return k * (20 + k) + (0 if narrow else n_grams * width)


PLAIN = Kernels(torch_known.sum_known_rows, torch_unknown.sum_unknown_rows, False)
"""By operations of PyTorch alone, on any device."""


@cache
def kernels_for(device: str) -> Kernels:
    """Return the kernels for a device; compiled ones where there is a compiler for it."""
    if device == "cpu" or find_spec("triton") is None:
        return PLAIN
    from selfselect.kernels import triton_known, triton_unknown

    return Kernels(
        _or_else(triton_known.sum_known_rows, PLAIN.known),
        _or_else(triton_unknown.sum_unknown_rows, PLAIN.unknown),
        True,
    )


def _or_else(compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return kernels that go on by operations of PyTorch where a card's compiler gives up."""
    broken = False
    # Solvers climb from several starts at once; a compiler is no place to meet.
    one_by_one = Lock()

    def kernel(*args: Any, **options: Any) -> Any:
        nonlocal broken
        if not broken:
            try:
                with one_by_one:
                    return compiled(*args, **options)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                broken = True
                warn_user(
                    "The kernels for this card could not be compiled; sums are done by operations "
                    f"of PyTorch, several times slower. ({type(error).__name__}: {error})",
                    SelfSelectWarning,
                )
        return plain(*args, **options)

    return kernel

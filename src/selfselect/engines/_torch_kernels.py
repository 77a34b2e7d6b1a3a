"""Which kernels sum tensors of a device: those written for a card, or operations of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import torch

from selfselect.errors import SelfSelectWarning, warn_user
from selfselect.kernels import torch_card, torch_known, torch_unknown
from selfselect.kernels.torch_cuda import card
from selfselect.kernels.torch_rows import WIDEST_GRAMS
from selfselect.kernels.unknown_index import Curvature

__all__ = ["Kernels", "kernels_for"]


@dataclass(frozen=True)
class Kernels:
    """Sums over rows of the two kinds of likelihood.

    Attributes
    ----------
    known, unknown : at one place.
    places : of the unknown index at several places, without curvature.
    room : shared memory of a card's multiprocessors, where its own kernels read rows into it.
    """

    known: Callable[..., Any]
    unknown: Callable[..., Any]
    places: Callable[..., Any]
    room: int = 0

    def doubles_per_row(
        self,
        n_alternatives: int,
        width: int,
        *,
        known: bool,
        curvature: Curvature,
        own_limits: bool,
    ) -> int:
        """Return how many numbers a pass keeps per row beside the rows themselves."""
        k = n_alternatives
        if not own_limits and torch_card.fits(
            width, k, known=known, curvature=curvature, room=self.room
        ):
            return 0
        narrow = self.room > 0 and width <= WIDEST_GRAMS
        n_grams = 0 if curvature == "none" else k if known else k * (k + 1) // 2
        return k * (20 + k) + (0 if narrow else n_grams * width)


OLDEST = (8, 0)
"""The first cards (Ampere) with matrix units for double precision, and copies to shared memory."""

PLAIN = Kernels(
    torch_known.sum_known_rows,
    torch_unknown.sum_unknown_rows,
    torch_unknown.sum_unknown_places,
)
"""By operations of PyTorch alone, on any device."""


@cache
def kernels_for(device: str) -> Kernels:
    """Return the kernels for a device; compiled ones where there is a compiler for it."""
    if device == "cpu" or torch.version.cuda is None:
        return PLAIN
    if torch.cuda.get_device_capability(device) < OLDEST:
        return PLAIN
    return Kernels(
        _or_else(torch_card.sum_known_rows, PLAIN.known),
        _or_else(torch_card.sum_unknown_rows, PLAIN.unknown),
        _or_else(torch_card.sum_unknown_places, PLAIN.places),
        card(torch.device(device).index or 0).shared_bytes,
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

"""Sums as a tree of fixed shape: the same to the last bit, whoever adds which part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["add_up", "merge"]

Span = tuple[int, int]
"""Leaves from the first number to before the second."""


def merge(leaves: Mapping[int, Any], n_leaves: int) -> dict[Span, Any]:
    """Add up every branch of the tree of which all leaves are given; return the largest ones.

    Parameters
    ----------
    leaves : by number, the leaves that are at hand.
    n_leaves : how many the whole tree has.
    """
    found: dict[Span, Any] = {}

    def visit(low: int, high: int) -> Any:
        if high - low == 1:
            return leaves.get(low)
        middle = _middle(low, high)
        left, right = visit(low, middle), visit(middle, high)
        if left is not None and right is not None:
            return left + right
        for span, value in (((low, middle), left), ((middle, high), right)):
            if value is not None:
                found[span] = value
        return None

    whole = visit(0, n_leaves)
    return found if whole is None else {(0, n_leaves): whole}


def add_up(branches: Mapping[Span, Any], n_leaves: int) -> Any:
    """Add branches that together have all leaves."""

    def visit(low: int, high: int) -> Any:
        if (low, high) in branches:
            return branches[low, high]
        middle = _middle(low, high)
        return visit(low, middle) + visit(middle, high)

    return visit(0, n_leaves)


def _middle(low: int, high: int) -> int:
    """Cut where the left part is the largest power of two: it stays when leaves are added."""
    half = 1 << ((high - low - 1).bit_length() - 1)
    return low + half

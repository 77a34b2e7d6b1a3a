"""How numbers look in tables and sentences."""

from __future__ import annotations

import numpy as np

__all__ = [
    "STARS",
    "format_count",
    "format_number",
    "stars_of",
]

STARS = "* p < 0.05, ** p < 0.01, *** p < 0.001"


def format_number(value: float) -> str:
    """Write a number with about five digits, in a width that tables can bear."""
    if not np.isfinite(value):
        return ""
    size = abs(value)
    if size != 0 and (size >= 1e6 or size < 1e-4):
        return f"{value:.3e}"
    return f"{value:.4f}" if size < 1e4 else f"{value:.1f}"


def format_count(total: float) -> str:
    """Write a number of rows or parameters, or a sum of weights."""
    return str(int(total)) if float(total).is_integer() else format_number(float(total))


def stars_of(p_value: float) -> str:
    """Return the stars of a p-value, in a width that keeps numbers in line."""
    return ("*" * sum(p_value < bound for bound in (0.05, 0.01, 0.001))).ljust(3)

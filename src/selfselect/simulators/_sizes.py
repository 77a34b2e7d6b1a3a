"""How large a sample may be, asked before anything is drawn."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from selfselect.data.sizes import refuse_beyond_memory
from selfselect.errors import OptionError

__all__ = ["check_sizes"]

COLUMNS = 8
"""Columns of doubles that a sample holds at least, with its latent outcomes and their noise."""


def check_sizes(n_rows: Any, *, n_covariates: Any = 1, n_alternatives: Any = 1) -> None:
    """Refuse sizes that are no whole numbers from 1 on, and samples that no memory holds."""
    sizes = {"n_rows": n_rows, "n_covariates": n_covariates, "n_alternatives": n_alternatives}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise OptionError(f"{name}={size!r} is not possible. Give a whole number from 1 on.")
    columns = COLUMNS + int(n_covariates) + 2 * int(n_alternatives)
    values = int(n_rows) * columns + int(n_covariates) * int(n_alternatives)
    refuse_beyond_memory(
        f"A sample of {int(n_rows):,} rows", 8.0 * min(values, 10**300), "Ask for less."
    )

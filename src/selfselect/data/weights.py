"""What weights mean: numbers of identical rows, or corrections of unequal sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import DataError, OptionError

__all__ = ["check_weights_kind", "refuse_huge_weights", "scale_weights", "weighted_quantiles"]

Array = NDArray[np.float64]

LARGEST = 1e100
"""Weights up to this can be squared and summed over any number of rows."""

KINDS = ("frequency", "probability")


def check_weights_kind(kind: Any, weights: Any) -> None:
    """Refuse a meaning that weights cannot have, and one that no weights are given for."""
    if kind is None:
        return
    if kind not in KINDS:
        raise OptionError(
            f"weights_kind={kind!r} is not possible. Use 'frequency' or 'probability'."
        )
    if weights is None:
        raise OptionError(
            f"weights_kind={kind!r} says how weights are meant, but there are none. Give "
            "weights='column', or leave it out."
        )


def refuse_huge_weights(weights: Array) -> None:
    """Refuse weights whose sums, or sums of squares, no double can hold."""
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST:
        raise DataError(
            f"The weights go up to {largest:.4g}, and their sums are beyond double precision. "
            "Divide them by their mean."
        )


def scale_weights(weights: Array, kind: str | None) -> Array:
    """Scale probability weights to average one over the rows that count.

    Only their ratios mean anything; so scaled, log-likelihoods and tests count rows.
    """
    refuse_huge_weights(weights)
    total = float(weights.sum())
    if kind != "probability" or total <= 0.0:
        return weights
    return weights * ((weights > 0).sum() / total)


def weighted_quantiles(values: Array, levels: Any, weights: Array | None) -> Array:
    """Return the values at or below which these shares of the weight lie.

    They are values that were met, and those of repeated rows where weights are frequencies.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    # Sums of weights are rounded: a share that is met exactly counts as met.
    place = np.searchsorted(below, (np.asarray(levels) - 1e-12) * below[-1])
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])

r"""Standard errors of predictions for rows, by the delta method.

With the covariance of the estimates written as :math:`V = LL'`, the variance of a prediction
:math:`f(\theta)` is the sum of its squared derivatives along the columns of L. Each is a central
difference over a small part of a standard error, so that steps suit parameters of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.moments.choose import moments_of
from selfselect.progress import progress_bar

if TYPE_CHECKING:
    from selfselect.results.estimates import Estimates
    from selfselect.results.fit_result import FitResult

__all__ = ["QUANTITIES", "errors_of_rows", "refuse_errors", "root_of", "with_intervals"]

Array = NDArray[np.float64]

QUANTITIES = ("estimate", "std_error", "conf_low", "conf_high")

STEP = 1e-3
"""Of the differences, in standard errors: they err by about its square, relatively."""


def refuse_errors(fit: FitResult, kind: str) -> None:
    """Refuse standard errors of predictions where there are none."""
    if not np.isfinite(fit.covariance.matrix).all():
        raise UnsupportedError(
            "The fit has no covariance of its estimates, so its predictions have no standard "
            "errors. Fit with covariance='bootstrap', or leave `level` out."
        )
    if kind not in ("latent", "scale") and not moments_of(fit.problem).smooth:
        raise UnsupportedError(
            f"Predictions of the kind {kind!r} are simulated under this rule or noise: they do not "
            "move smoothly with the estimates, so the delta method gives no standard errors. Leave "
            "`level` out, or ask for kind='latent'."
        )


def root_of(covariance: Array) -> Array:
    """Return L (m, r) with L L' = V; columns without length are left out."""
    sizes = np.sqrt(np.diag(covariance))
    sizes[sizes == 0] = 1.0
    variances, axes = np.linalg.eigh(covariance / np.outer(sizes, sizes))
    kept = variances > 1e-14 * max(variances.max(), 0.0)
    return np.asarray(sizes[:, None] * axes[:, kept] * np.sqrt(variances[kept]))


def errors_of_rows(
    fit: Estimates,
    predict: Callable[[Array], Array],
    values: Array,
    progress: bool | None = None,
) -> Array:
    """Return the standard errors of `values`, which `predict` makes of reported parameters."""
    variance = np.zeros_like(values)
    directions = root_of(fit.covariance.matrix).T
    with progress_bar(progress, what="Standard errors", total=2 * len(directions)) as bar:
        for direction in directions:
            ends = []
            for sign in (1.0, -1.0):
                ends.append(predict(fit.values + sign * STEP * direction))
                bar.update(1)
            variance += ((ends[0] - ends[1]) / (2.0 * STEP)) ** 2
    return np.sqrt(variance)


def with_intervals(
    values: Array,
    errors: Array,
    ends: tuple[Array, Array],
    columns: pd.Index[Any],
    index: pd.Index[Any],
) -> pd.DataFrame:
    """Return a table with the four quantities of every prediction (n, c) beside each other."""
    each = np.stack([values, errors, *ends], axis=-1)
    if values.shape[1] == 1:
        return pd.DataFrame(each[:, 0], index=index, columns=list(QUANTITIES))
    keys = [
        (*(key if isinstance(key, tuple) else (key,)), quantity)
        for key in columns
        for quantity in QUANTITIES
    ]
    names = [*columns.names, "quantity"]
    labels = pd.MultiIndex.from_tuples(keys, names=names)
    return pd.DataFrame(each.reshape(len(values), len(keys)), index=index, columns=labels)

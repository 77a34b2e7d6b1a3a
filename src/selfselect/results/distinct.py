"""Whether alternatives can be told apart where the choice was not recorded.

An outcome whose alternative is unknown has the density of a mixture. Where the equations of two
alternatives are nearly the same, the likelihood is far from quadratic and standard errors are too
small, as they are for two components of a mixture that nearly coincide.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Difference", "hardly_distinct", "least_difference"]

APART = 30.0
"""By how much the Wald statistic of two equal equations should exceed its degrees of freedom. In
docs/studies/unknown-index-intervals.md intervals of fits below this cover too little."""


class Difference(NamedTuple):
    """The Wald test that the equations of two alternatives are equal."""

    one: Any
    other: Any
    statistic: float
    df: int


def hardly_distinct(fit: FitResult) -> tuple[str, ...]:
    """Name the two alternatives whose equations differ least, where that is too little."""
    found = least_difference(fit)
    if found is None or found.statistic - found.df >= APART:
        return ()
    return (
        f"ALTERNATIVES HARDLY DISTINCT: the equations of {found.one} and {found.other} differ by "
        f"only chi2({found.df}) = {found.statistic:.1f}. With so small a difference and the choice "
        "not recorded, standard errors are too small: in simulations 95% intervals covered about "
        "80%. Use result.rehearse() to estimate the errors.",
    )


def least_difference(fit: FitResult) -> Difference | None:
    """Test the two equations that differ least; None where choices are known or errors are not."""
    if fit.problem.index != "unknown" or not np.isfinite(fit.covariance.matrix).all():
        return None
    pairs = combinations(fit.problem.equations.alternatives, 2)
    apart = [Difference(*pair, *_difference(fit, *pair)) for pair in pairs]
    tested = [one for one in apart if np.isfinite(one.statistic)]
    return min(tested, key=lambda one: one.statistic - one.df, default=None)


def _difference(fit: FitResult, one: object, other: object) -> tuple[float, int]:
    """Return the Wald statistic of two equal equations, and its degrees of freedom."""
    labels = fit.reported.labels
    terms = {term for alternative, term in labels if alternative in (one, other)}
    places = {label: place for place, label in enumerate(labels)}
    rows = np.zeros((len(terms), len(labels)))
    for row, term in zip(rows, sorted(terms), strict=True):
        for label, sign in (((one, term), 1.0), ((other, term), -1.0)):
            if label in places:
                row[places[label]] = sign
    # Coefficients that are shared or known do not differ, and have no error to be tested with.
    varies = np.einsum("ij,jk,ik->i", rows, fit.covariance.matrix, rows) > 0.0
    if not varies.any():
        return float("nan"), 0
    test = fit.wald_test(rows[varies])
    # With clusters it is an F statistic, which is divided by the number of restrictions.
    times = 1 if np.isinf(test.df_residual or np.inf) else test.df
    return times * test.statistic, test.df

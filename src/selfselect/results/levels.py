r"""Predictions of the outcome itself, where its logarithm was modelled.

The mean of :math:`e^y` is not :math:`e^{E y}`. For normal noise it is known exactly: weighing a
normal density by :math:`e^{c y_j}` gives one whose means are moved by c times the covariances with
:math:`y_j`,

.. math:: e^{cy_j}\,\phi(y; \mu, \Sigma) =
   e^{c\mu_j + c^2\Sigma_{jj}/2}\,\phi(y; \mu + c\Sigma_{\cdot j}, \Sigma),

so the mean of :math:`e^{c y_j}` among rows in which l is chosen is the constant before it times the
chance of l with the means moved so, over its chance without.

Smearing (averaging the exponentials of residuals) would be wrong here: the residuals that are
observed are those of outcomes that were selected.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.base import NEGLIGIBLE, Expectations, latent_means, noise_covariance
from selfselect.moments.choose import moments_of
from selfselect.moments.selection import SelectionMoments
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = [
    "Logarithm",
    "expected_levels",
    "find_logarithm",
    "latent_levels",
    "mean_levels",
    "refuse_other_shapes",
]

Array = NDArray[np.float64]

RATES = {"log": 1.0, "log2": float(np.log(2.0)), "log10": float(np.log(10.0)), "log1p": 1.0}
"""By function, c in e^(cy), which undoes it; log1p leaves one to subtract."""


@dataclass(frozen=True)
class Logarithm:
    """A left side that is a logarithm.

    Attributes
    ----------
    level : what it is the logarithm of, as text.
    rate : c, where the level is e^(cy) less the offset.
    offset : one for log1p, else zero.
    """

    level: str
    rate: float
    offset: float


def find_logarithm(fit: FitResult) -> Logarithm:
    """Read off the formula which logarithm its left side is, or say that it is none."""
    outcome = fit.problem.equations.outcome
    try:
        call: Any = ast.parse(outcome.strip(), mode="eval").body
    except SyntaxError:
        call = None
    if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name in RATES:
            level = ast.unparse(call.args[0])
            return Logarithm(level, RATES[name], 1.0 if name == "log1p" else 0.0)
    raise OptionError(
        f"scale='level' undoes a logarithm, but the left side of the formula is {outcome!r}. Where "
        "that column holds logarithms, fit the column they were taken of: 'log(wage) ~ ...'. "
        "Where it holds levels, leave `scale` out."
    )


def refuse_other_shapes(problem: Problem) -> None:
    """Refuse noise whose exponential has no mean that is known exactly."""
    shape = problem.noise.margin
    if not shape.normal:
        raise UnsupportedError(
            f"scale='level' needs normal noise, and this fit has {shape.name} noise: the mean of "
            "its exponential is another one, and may be infinite. Leave `scale` out."
        )


def latent_levels(logarithm: Logarithm, means: Array, variances: Array) -> Array:
    """Return the mean (n, k) of every outcome's level."""
    rate = logarithm.rate
    with np.errstate(over="ignore"):
        levels: Array = np.exp(rate * means + 0.5 * rate**2 * variances) - logarithm.offset
    return levels


def mean_levels(problem: Problem, logarithm: Logarithm, reported: Array, rows: Rows) -> Array:
    """Return the mean (n, k) of every outcome's level in rows."""
    if problem.noise.mixed:
        # Imported here: few fits have types, and all should start quickly.
        from selfselect.moments.mixed import MixedMoments

        mixed = MixedMoments(problem, problem.ordered_rule)
        types, inner = mixed.types(reported, rows), mixed.components.inner
        each = [mean_levels(inner, logarithm, one, rows) for one in types.reported]
        return np.asarray(np.einsum("nm,mnk->nk", types.chances, np.array(each)))
    means = latent_means(problem, reported, rows)
    variances = np.einsum("nkk->nk", noise_covariance(problem, reported, rows))
    return latent_levels(logarithm, means, variances)


def expected_levels(
    problem: Problem, logarithm: Logarithm, reported: Array, rows: Rows
) -> Expectations:
    """Return expectations over rows in which outcomes are levels; chances stay what they are."""
    if problem.noise.selected:
        return _selected_levels(problem, logarithm, reported, rows)
    if problem.noise.mixed:
        from selfselect.moments.mixed import MixedMoments, average_expectations

        mixed = MixedMoments(problem, problem.ordered_rule)
        types = mixed.types(reported, rows)
        inner = mixed.components.inner
        each = [expected_levels(inner, logarithm, one, rows) for one in types.reported]
        return average_expectations(each, types.chances)
    moments = moments_of(problem)
    means = latent_means(problem, reported, rows)
    covariance = noise_covariance(problem, reported, rows)
    chance = moments.expectations(reported, rows).chance
    variances = np.einsum("nkk->nk", covariance)
    plain = latent_levels(logarithm, means, variances) + logarithm.offset
    given = np.empty((*means.shape, means.shape[1]))
    outcome = np.full(len(means), -logarithm.offset)
    for j in range(means.shape[1]):
        shift = logarithm.rate * covariance[:, :, j]
        weighed = moments.expectations(reported, rows, shift=shift).chance
        with np.errstate(divide="ignore", invalid="ignore"):
            given[:, j, :] = plain[:, [j]] * weighed / chance - logarithm.offset
        outcome += plain[:, j] * weighed[:, j]
    given[np.repeat(chance[:, None, :] < NEGLIGIBLE, means.shape[1], axis=1)] = np.nan
    return Expectations(chance, outcome, given)


def _selected_levels(
    problem: Problem, logarithm: Logarithm, reported: Array, rows: Rows
) -> Expectations:
    """Return the same where a selection equation selects.

    Weighing by e^(cy) moves the mean of the selection's noise by c times its covariance with y.
    """
    moments = SelectionMoments(problem, problem.ordered_rule)
    plain = moments.expectations(reported, rows)
    means, scales = latent_means(problem, reported, rows), problem.layout.scales_of(reported)
    levels = latent_levels(logarithm, means, scales**2) + logarithm.offset
    ratio = moments.weighed_chances(reported, rows, logarithm.rate)
    given = levels[:, :, None] * ratio - logarithm.offset
    if given.shape[1] == 1:
        return Expectations(plain.chance, given[:, 0, 0], given)
    own = np.einsum("nll->nl", given)
    return Expectations(plain.chance, (plain.chance * own).sum(axis=1), given)

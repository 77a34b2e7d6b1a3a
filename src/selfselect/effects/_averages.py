r"""Averages over rows with their standard errors, and smooth functions of them.

An effect is a function of averages :math:`\bar m(\theta) = \sum_i v_i m_i(\theta) / \sum_i v_i`
over rows with weights :math:`v_i`. Its estimate errs because :math:`\hat\theta` does, and, where
the rows are a sample, because their covariates do:

.. math:: \hat m - m \approx J (\hat\theta - \theta) + \sum_i v_i (m_i - \bar m) / \sum_i v_i.

Rows' moments depend on covariates alone, given which scores have mean zero: the two parts are
uncorrelated if the model is right. Where the covariance is robust or clustered nothing relies on
that, and their covariance is estimated too. With first stages of endogenous covariates it is
always estimated: rows move the coefficients of these, which move both the estimates and the
residuals that the moments depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows, refuse_beyond_memory
from selfselect.effects._moments import (
    Setting,
    by_first_stages,
    errors_of_units,
    moved_by_first_stages,
    n_cells,
    row_values,
    rows_are_repeated,
    without_negative,
)
from selfselect.errors import OptionError
from selfselect.moments.base import latent_means
from selfselect.moments.mixed import Logarithm
from selfselect.problem.batch import Parts
from selfselect.progress import progress_bar
from selfselect.threads import one_blas_thread, parallel_map

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

ROWS_AT_ONCE = 1_024
"""Rows of a block: its temporaries stay in cache, and there are enough to share among cores."""

CENTRED_ON = 16
COMPLEX_STEP = 1e-20
"""Of derivatives, relative to what is moved: a share may be as small as 1e-100."""

STEEPEST = 1e150
"""Slope above which a function has no error: the variances of what it divides by are no numbers."""

CANCELLED = 1e-7
"""Part of the errors of its terms below which that of a sum is rounding: a root of precision."""

ROUNDED = 1e-12
"""Part of its terms below which a sum is rounding."""

_OF_FITS: WeakKeyDictionary[FitResult, dict[tuple[str, Logarithm | None], Averages]] = (
    WeakKeyDictionary()
)
"""Averages over the rows of a fit under its own rule, which many effects are made of."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Averages with the covariance of their errors.

    Attributes
    ----------
    mean : (q,) averages.
    covariance : (q, q) of their errors.
    jacobian : (q, m) their derivatives in the reported parameters.
    draws : (b, q) of bootstrap samples, whose percentiles are the intervals where no covariance
        says how the averages err; none of them where they are too few for that. None elsewhere.
    """

    mean: Array
    covariance: Array
    jacobian: Array
    draws: Array | None = None


def check_covariates_word(word: str) -> None:
    """Refuse words other than the two there are."""
    if word not in ("sampled", "fixed"):
        raise OptionError(
            f"covariates={word!r} is not possible. Use 'sampled' (the rows are a sample of those "
            "you ask about) or 'fixed' (they are all you ask about)."
        )


@one_blas_thread()
def average(
    fit: FitResult,
    settings: Sequence[Setting],
    *,
    own: bool,
    covariates: str,
    steps: Array | None = None,
) -> Averages:
    """Average the cells of rows in one or several settings of the same rows.

    Parameters
    ----------
    fit : estimates and their covariance.
    settings : each with the same number of rows; row i of all of them is the same unit. Weights
        and clusters are those of the first.
    own : whether these are the rows of the fit.
    covariates : ``"sampled"`` or ``"fixed"``.
    steps : (n,) where the cells of the first of two settings less those of the second, over each
        row's step, are to be averaged; None for the cells of all settings side by side.
    """
    check_covariates_word(covariates)
    problem, rows = fit.problem, settings[0].rows
    k = problem.equations.n_alternatives
    # Their covariance, what is added to it, and the products on the way.
    refuse_beyond_memory(
        f"The covariance of all {n_cells(k):,} means of {k} alternatives among those who choose "
        "each",
        32.0 * (len(settings) * n_cells(k)) ** 2,
        "Mean outcomes alone are few: result.predict(rows, kind='latent').",
    )
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    total = weights.sum()
    squared = weights if rows_are_repeated(fit) else weights**2
    # Any point amid the values will do: sums of squares about it lose no digits.
    # Rows of weight zero may be far from all others.
    some = np.flatnonzero(weights)[:CENTRED_ON]
    few = [replace(one, rows=one.rows.take(some)) for one in settings]
    centre = _together([row_cells(fit, one) for one in few], steps, some).mean(axis=0)
    leverage = weights if steps is None else weights / steps

    def sums(start: int) -> Parts:
        block = slice(start, start + ROWS_AT_ONCE)
        parts, slopes = [], []
        for setting in settings:
            rows_here = setting.rows.take(block)
            moments = setting.moments(problem)
            found, slope = moments.cells_and_slope(fit.values, rows_here, leverage[block])
            parts.append(found)
            slopes.append(slope)
        centred = _together(parts, steps, block) - centre
        return Parts(
            (
                np.vstack(slopes) if steps is None else slopes[0] - slopes[1],
                weights[block] @ centred,
                squared[block] @ centred,
                centred.T @ (centred * squared[block][:, None]),
            )
        )

    jacobian, first, first_squared, second = _added(sums, len(rows))
    jacobian, mean = jacobian / total, first / total
    covariance = jacobian @ fit.covariance.matrix @ jacobian.T
    if covariates == "sampled":
        if own and _by_units(fit):

            def cells_of(change: Callable[[Rows], Rows]) -> Array:
                each = [row_cells(fit, replace(one, rows=change(one.rows))) for one in settings]
                return _together(each, steps, slice(None))

            centred = cells_of(lambda rows: rows) - centre - mean
            direct = centred * weights[:, None] / total
            direct += by_first_stages(fit, cells_of)
            covariance = _with_units(fit, covariance, direct, jacobian)
        else:
            outer = np.outer(first_squared, mean)
            spread = second - outer - outer.T + squared.sum() * np.outer(mean, mean)
            covariance += spread / total**2
    return Averages(centre + mean, covariance, jacobian)


def _together(parts: Sequence[Array], steps: Array | None, block: Any) -> Array:
    """Put the cells of settings side by side, or take the difference of two over a row's step."""
    if steps is None:
        return np.hstack(parts)
    return np.asarray((parts[0] - parts[1]) / steps[block, None])


@one_blas_thread()
def average_of_fit(
    fit: FitResult, *, covariates: str, logarithm: Logarithm | None = None
) -> Averages:
    """Average the cells of the rows of a fit under its own rule; computed once per fit."""
    kept, asked = _OF_FITS.setdefault(fit, {}), (covariates, logarithm)
    if asked not in kept:
        setting = Setting(fit.rows, fit.problem.ordered_rule, logarithm)
        kept[asked] = average(fit, [setting], own=True, covariates=covariates)
    return kept[asked]


def average_means(fit: FitResult, rows: Rows, *, covariates: str) -> Averages:
    """Average the latent means (k) of the rows of a fit, with weights of their own.

    They are the last of the cells, and depend on no choice, so that nothing is integrated.
    """
    problem = fit.problem
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    total = weights.sum()
    means = latent_means(problem, fit.values, rows)
    jacobian = np.zeros((means.shape[1], len(fit.values)))
    for j, (equation, where) in enumerate(
        zip(problem.equations.each, problem.layout.reported_places, strict=True)
    ):
        for column, position in zip(equation.columns, where, strict=True):
            if position >= 0:  # An offset has no coefficient that could be off.
                along = total if column == 0 else weights @ rows.covariates[:, column - 1]
                jacobian[j, position] += along / total
    mean = weights @ means / total
    covariance = jacobian @ fit.covariance.matrix @ jacobian.T
    if covariates == "sampled":
        centred = means - mean
        if _by_units(fit):
            direct = centred * (weights / total)[:, None]
            direct += by_first_stages(
                fit, lambda change: latent_means(problem, fit.values, change(rows))
            )
            covariance = _with_units(fit, covariance, direct, jacobian)
        else:
            squared = weights if rows_are_repeated(fit) else weights**2
            covariance += centred.T @ (centred * squared[:, None]) / total**2
    return Averages(mean, covariance, jacobian)


def _by_blocks(task: Callable[[int], Any], n_rows: int) -> Iterator[Any]:
    """Yield what `task` returns for every block of rows; threads are not worth it for two."""
    starts = range(0, n_rows, ROWS_AT_ONCE)
    if len(starts) <= 2:
        yield from map(task, starts)
        return
    with progress_bar(None, what="Averages", total=n_rows, unit="rows") as bar:
        for start, part in zip(starts, parallel_map(task, starts), strict=True):
            bar.update(min(ROWS_AT_ONCE, n_rows - start))
            yield part


def _added(sums: Callable[[int], Parts], n_rows: int) -> Parts:
    done = _by_blocks(sums, n_rows)
    total = next(done)
    for part in done:
        total = total + part
    return total


def _by_units(fit: FitResult) -> bool:
    """Whether what rows add to errors is crossed with what they do to the estimates."""
    return fit.covariance.sandwich or fit.rows.clusters is not None or fit.carried is not None


def _with_units(fit: FitResult, covariance: Array, direct: Array, jacobian: Array) -> Array:
    """Add to the covariance of averages what independent units (rows or clusters) add to it.

    `direct` (n, q) is each row's share in the error of the averages at given parameters. It is
    crossed with the error of the parameters, unless that comes from a bootstrap or of estimates
    that maximise no likelihood.
    """
    known = np.isfinite(covariance).all() and np.isfinite(fit.solution.information).all()
    crossed = fit.covariance.kind != "bootstrap" and bool(known)
    reach = (jacobian @ fit.reported.jacobian).T if crossed else None
    each = list(errors_of_units(fit, direct, reach, moved_by_first_stages(fit, jacobian)))
    total = covariance + sum(one.direct_and_crossed for one in each)
    return without_negative(total) if len(each) > 1 else total


def row_cells(fit: FitResult, setting: Setting) -> Array:
    """Return the cells (n, q) of every row."""

    def block(start: int) -> Array:
        rows = setting.rows.take(slice(start, start + ROWS_AT_ONCE))
        return row_values(fit.problem, fit.values, replace(setting, rows=rows))

    return np.vstack(list(_by_blocks(block, len(setting.rows))))


def mean_cells(fit: FitResult, setting: Setting) -> Array:
    """Average the cells of rows (q,), without errors."""
    return np.average(row_cells(fit, setting), axis=0, weights=setting.rows.weights)


def joined(fit: FitResult, one: Averages, other: Averages) -> Averages:
    """Put averages over two independent sets of rows together: they share the estimates."""
    crossed = one.jacobian @ fit.covariance.matrix @ other.jacobian.T
    return Averages(
        np.concatenate([one.mean, other.mean]),
        np.block([[one.covariance, crossed], [crossed.T, other.covariance]]),
        np.vstack([one.jacobian, other.jacobian]),
    )


def transform(averages: Averages, function: Callable[[Any], Any]) -> Averages:
    """Return a smooth function of averages, its covariance by the delta method.

    Derivatives are taken by complex steps, exact to rounding: `function` must take a complex
    vector (q,) and be made of sums, products and quotients.
    """
    # The mean over a group that no row is expected to be in is not a number, nor is its error.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.asarray(function(averages.mean), dtype=float)
        slope = _slope(function, averages.mean)
        covariance = slope @ averages.covariance @ slope.T
        jacobian = slope @ averages.jacobian
        # What the model makes zero is a sum of terms that cancel but for rounding.
        terms = np.abs(slope) @ np.sqrt(np.maximum(np.diag(averages.covariance), 0.0))
        cancelled = (np.diag(covariance) < (CANCELLED * terms) ** 2) & (
            np.abs(value) < ROUNDED * (np.abs(slope) @ np.abs(averages.mean))
        )
    value[cancelled], covariance[cancelled], covariance[:, cancelled] = 0.0, 0.0, 0.0
    return Averages(value, covariance, jacobian)


def beside_parameters(
    fit: FitResult,
    function: Callable[[Any], Any],
    values: Array,
    slopes: Array,
    *,
    covariates: str,
) -> Averages:
    """Put a function of the averages of a fit's rows beside functions of its parameters alone.

    Rows, or clusters, that move both are counted in their covariance.

    Parameters
    ----------
    fit : its rows are meant.
    function : as in `transform`.
    values, slopes : (s,) and (s, m), what depends on parameters alone, and its derivatives.
    covariates : ``"sampled"`` or ``"fixed"``.
    """
    averages, rows = average_of_fit(fit, covariates=covariates), fit.rows
    found = transform(averages, function)
    size = len(found.mean)
    jacobian = np.vstack([found.jacobian, slopes])
    covariance = jacobian @ fit.covariance.matrix @ jacobian.T
    if covariates == "sampled" and _by_units(fit):
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        setting = Setting(rows, fit.problem.ordered_rule)
        cells = (row_cells(fit, setting) - averages.mean) * (weights / weights.sum())[:, None]
        cells += by_first_stages(
            fit, lambda change: row_cells(fit, replace(setting, rows=change(rows)))
        )
        direct = np.zeros((len(rows), len(jacobian)))
        direct[:, :size] = cells @ _slope(function, averages.mean).T
        covariance = _with_units(fit, covariance, direct, jacobian)
    else:
        covariance[:size, :size] = found.covariance
    return Averages(np.append(found.mean, values), covariance, jacobian)


def _slope(function: Callable[[Any], Any], at: Array) -> Array:
    """Return the derivatives (r, q) of a function by complex steps."""
    sizes = COMPLEX_STEP * np.abs(at)
    sizes[~((sizes >= np.finfo(float).tiny) & np.isfinite(sizes))] = COMPLEX_STEP
    moved = [np.imag(function(at + 1j * step)) for step in np.diag(sizes)]
    slope: Array = np.stack(moved, axis=-1) / sizes
    slope[(np.abs(slope) > STEEPEST).any(axis=1)] = np.nan
    return slope


def variances_beside(
    fit: FitResult, rows: Rows, function: Callable[[Any], Any], shares: Array
) -> tuple[float, float]:
    """Return the variances of a statistic of the rows, and of how far it is from the model's.

    Parameters
    ----------
    fit : whose rows are meant.
    rows : those of the fit, with weights of their own.
    function : from the averages of the rows to what the model says, one number.
    shares : (n,) each row's share in the error of the statistic.
    """
    setting = Setting(rows, fit.problem.ordered_rule)
    if rows is fit.rows:
        averages = average_of_fit(fit, covariates="sampled")
    else:
        averages = average(fit, [setting], own=True, covariates="sampled")
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    slope = _slope(function, averages.mean)
    cells = (row_cells(fit, setting) - averages.mean) * (weights / weights.sum())[:, None]
    cells += by_first_stages(
        fit, lambda change: row_cells(fit, replace(setting, rows=change(rows)))
    )
    own = sum(float(one.whole[0, 0]) for one in errors_of_units(fit, shares[:, None]))
    if not all(np.isfinite(one).all() for one in (fit.covariance.matrix, fit.solution.information)):
        return max(own, 0.0), float("nan")
    reach = -(slope @ averages.jacobian @ fit.reported.jacobian).T
    left = shares[:, None] - cells @ slope.T
    moved = moved_by_first_stages(fit, -slope @ averages.jacobian)
    gap = sum(float(one.whole[0, 0]) for one in errors_of_units(fit, left, reach, moved))
    return max(own, 0.0), max(gap, 0.0)

r"""Averages over rows with their standard errors, and how effects ask for them.

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

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import Rows, refuse_beyond_memory
from selfselect.effects._moments import (
    AverageCells,
    Setting,
    by_first_stages,
    cells,
    errors_of_units,
    moved_by_first_stages,
    n_cells,
    row_values,
    rows_are_repeated,
    without_negative,
)
from selfselect.effects.base import (
    NUMBERS,
    TOO_LARGE,
    Averages,
    check_covariates_word,
    doubts,
    how_averaged,
    key_name,
    only_estimation,
    slope_of,
    transform,
)
from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.base import latent_means
from selfselect.moments.mixed import Logarithm
from selfselect.problem.batch import Parts
from selfselect.progress import progress_bar
from selfselect.results.averaged_rows import asked_logarithm, code_rows, make_profiles, sample_of
from selfselect.threads import one_blas_thread, parallel_map

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

ROWS_AT_ONCE = 1_024
"""Rows of a block: its temporaries stay in cache, and there are enough to share among cores."""

CENTRED_ON = 16


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
    known, asked = fit.answers.averages, (covariates, logarithm)
    if asked not in known:
        setting = Setting(fit.rows, fit.problem.ordered_rule, logarithm)
        known[asked] = average(fit, [setting], own=True, covariates=covariates)
    return known[asked]


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
        direct[:, :size] = cells @ slope_of(function, averages.mean).T
        covariance = _with_units(fit, covariance, direct, jacobian)
    else:
        covariance[:size, :size] = found.covariance
    return Averages(np.append(found.mean, values), covariance, jacobian)


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
    slope = slope_of(function, averages.mean)
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


# Over which unobserved types effects are averaged, where some never choose an alternative.


WORDS = ("visiting", "all")


def check_types_word(types: Any) -> None:
    """Refuse a word that says nothing of types."""
    if types not in WORDS:
        raise OptionError(f"types={types!r} is not possible. Use 'visiting' or 'all'.")


def visiting(
    fit: FitResult, alternatives: Sequence[int], types: str
) -> tuple[FitResult, tuple[str, ...]]:
    """Return the fit with its effects averaged over types that choose the alternatives.

    Where every shift is determined, nothing changes. `types` is ``"visiting"`` or ``"all"``.
    """
    check_types_word(types)
    problem = fit.problem
    noise: Any = problem.noise
    labels = [problem.equations.alternatives[j] for j in alternatives]
    lost = {m for m, label, _ in getattr(noise, "held_shifts", ()) if label in labels}
    if not lost:
        return fit, ()
    named = " and ".join(map(repr, labels))
    which = ", ".join(f"type {m + 1}" for m in sorted(lost))
    which += " hardly ever chooses" if len(lost) == 1 else " hardly ever choose"
    if types == "all":
        said = (
            f"UNDETERMINED: {which} one of {named}, so the data do not identify their outcomes "
            "there. These numbers use shifts that were held fixed, and their errors ignore this."
        )
        everyone = tuple(range(noise.count))
        return _averaged(fit, everyone), (said,)
    kept = tuple(m for m in range(noise.count) if m not in lost)
    if not kept:
        raise UnsupportedError(
            f"No type chooses all of {named} often enough, so the data identify no gains. "
            "types='all' gives numbers that use shifts held fixed."
        )
    share = sum(noise.values(_extras(fit), problem.equations.alternatives).weights[list(kept)])
    said = (
        f"Over types that choose {named}, {100 * share:.0f}% of people: {which} one of them, so "
        "the data do not identify their outcomes there. types='all' averages over everybody."
    )
    return _averaged(fit, kept), (said,)


def _averaged(fit: FitResult, types: tuple[int, ...]) -> FitResult:
    noise: Any = fit.problem.noise
    return replace(fit, problem=replace(fit.problem, noise=replace(noise, averaged=types)))


def _extras(fit: FitResult) -> Any:
    layout = fit.problem.layout
    return layout.extras_of(fit.values)[: layout.n_noise_extras]


# Asking the model: a function of the cells, averaged over rows or at profiles.


@dataclass(frozen=True, eq=False)
class EffectAnswer:
    """What was found.

    Attributes
    ----------
    found : estimates; those of the first profile first, where there are profiles.
    points : the profiles' values, one row each; one row without columns for an average.
    warnings, notes : for the table.
    """

    found: Averages
    points: pd.DataFrame
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def keys(self, **own: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the key columns: the profiles' values, then the effect's own for each."""
        size = len(next(iter(own.values())))
        taken = {*own, *NUMBERS}
        repeated = {
            key_name(str(name), taken): list(np.repeat(self.points[name], size))
            for name in self.points
        }
        return repeated | {name: list(values) * len(self.points) for name, values in own.items()}


def ask(
    fit: FitResult,
    function: Callable[[AverageCells], Any],
    *,
    data: Any = None,
    at: Any = None,
    covariates: str = "sampled",
    scale: str = "model",
    needed: Sequence[int] = (),
) -> EffectAnswer:
    """Evaluate a smooth function of the cells.

    Parameters
    ----------
    fit : estimates.
    function : from averaged cells to a vector; sums, products and quotients only.
    data : rows to average over; None for those of the fit.
    at : None to average; else what `make_profiles` takes.
    covariates : ``"sampled"`` or ``"fixed"``.
    scale : ``"model"``, or ``"level"`` where a logarithm was modelled.
    needed : the alternatives whose covariates rows must have, whatever is open to them.
    """
    check_covariates_word(covariates)
    logarithm = asked_logarithm(fit, scale)
    k, rule = fit.problem.equations.n_alternatives, fit.problem.ordered_rule

    def of_vector(vector: Any) -> Any:
        return function(cells(vector, k))

    if at is None:
        sample = sample_of(fit, data, needed=needed)
        if sample.own and sample.left_out is None:
            found = average_of_fit(fit, covariates=covariates, logarithm=logarithm)
        else:
            settings = [Setting(sample.rows, rule, logarithm)]
            found = average(fit, settings, own=sample.own, covariates=covariates)
        note = how_averaged(
            fit, len(sample.rows), covariates, own=sample.own, left_out=sample.left_out
        )
        return EffectAnswer(
            transform(found, of_vector),
            pd.DataFrame(index=range(1)),
            (*doubts(fit, levels=logarithm is not None), *sample.warnings),
            (note,),
        )
    profiles = make_profiles(fit, at, data)
    rows = code_rows(fit, profiles.table)
    # Values far outside of the data may have levels that overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        averages = [
            average(
                fit,
                [Setting(rows.take(slice(i, i + 1)), rule, logarithm)],
                own=False,
                covariates="fixed",
            )
            for i in range(len(rows))
        ]
    each = [transform(one, of_vector) for one in averages]
    overflows = logarithm is not None and not all(
        np.isfinite(cells(one.mean, k).mean).all() for one in averages
    )
    jacobian = np.vstack([one.jacobian for one in each])
    found = Averages(
        np.concatenate([one.mean for one in each]),
        jacobian @ fit.covariance.matrix @ jacobian.T,
        jacobian,
    )
    warnings = (*doubts(fit, levels=logarithm is not None), *profiles.warnings)
    notes = (profiles.sentence, only_estimation(fit), *((TOO_LARGE,) if overflows else ()))
    return EffectAnswer(found, profiles.points, warnings, notes)

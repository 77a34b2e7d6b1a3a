"""Sensitivity: what the estimates would be were the noise correlated by this much or that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.inference.statistics import check_level
from selfselect.kernels.tails import chdtri
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.noises import Correlated
from selfselect.problem.problem import Problem
from selfselect.results.hypotheses import why_no_likelihood_ratio
from selfselect.results.refit import solve_again
from selfselect.results.tables import Tables
from selfselect.solvers.continuation import Continuation
from selfselect.threads import one_blas_thread
from selfselect.trust.beside import Answer, beside, fitted, std_errors, tabulate

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

GRID = np.linspace(-0.9, 0.9, 19)


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Tables):
    """Estimates along a grid of fixed correlations.

    Attributes
    ----------
    table : one row per correlation: ``loglik``, whether the likelihood supports it
        (``supported``, not there where that cannot be said), coefficients by name, for each pair
        of alternatives the mean gap over all rows (``gap``) and over those who choose the first
        (``effect on a``), in the outcome's units. In long data both are over the cases in which
        the covariates of the pair are known.
    std_errors : of the coefficients, laid out alike, of the kind that the fit has.
    level : of the supported region.
    left_out : correlations of the grid at which no distribution, or no optimum, exists.
    reason : why it cannot be said which correlations the likelihood supports; None where it can.
    with_both : whether cases without a row for one of a pair count in none of its gaps.
    """

    table: pd.DataFrame
    std_errors: pd.DataFrame
    level: float
    left_out: tuple[float, ...]
    reason: str | None = None
    with_both: bool = False

    @property
    def supported(self) -> tuple[float, float]:
        """Smallest and largest correlation that the likelihood supports; nan with a `reason`."""
        if self.reason is not None:
            return float("nan"), float("nan")
        inside = self.table.index[self.table["supported"]]
        return float(inside.min()), float(inside.max())

    @property
    def best(self) -> float:
        """The correlation of the grid with the highest likelihood."""
        return float(self.table.index[int(self.table["loglik"].argmax())])

    def sentence(self) -> str:
        """Say what the likelihood supports."""
        if self.reason is not None:
            return (
                f"Which correlations the likelihood supports is not computed: {self.reason}. Fit "
                "with noise='correlated' and use its wald_test and conf_int."
            )
        low, high = self.supported
        where = f"from {low:g} to {high:g}" if low < high else f"of about {low:g} only"
        edge = ""
        if len(self.table) > 1 and self.best in (self.table.index[0], self.table.index[-1]):
            edge = " The best is the last of the grid: the likelihood may rise further beyond."
        return (
            f"The likelihood supports correlations {where} ({100 * self.level:g}% region on this "
            f"grid; best: {self.best:g}).{edge} This relies only on the assumed normal shape and "
            "the excluded covariates."
        )

    def _sentences(self) -> tuple[str, ...]:
        said = "Gaps and effects of a pair are over the cases with a row for both."
        return (self.sentence(), said) if self.with_both else (self.sentence(),)

    def __str__(self) -> str:
        return "\n".join((self.table.to_string(float_format="%.4f"), *self._sentences()))

    def _repr_html_(self) -> str:
        from selfselect.report.page import Block, Page

        block = Block.of("at each correlation", self.table.rename_axis("correlation"))
        return Page("Sensitivity to correlation", (), (), (block,), self._sentences()).to_html()


def sensitivity(
    fit: FitResult, rho: Any = None, *, level: float = 0.95, progress: bool | None = None
) -> Sensitivity:
    """Show coefficients, gaps and effects at each of several assumed correlations of the noise.

    Parameters
    ----------
    rho : correlations to hold the noise at, the same for all pairs; None for -0.9 to 0.9.
    level : of the region that the likelihood supports.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.
    """
    try:
        grid = np.sort(np.unique(np.asarray(GRID if rho is None else rho, dtype=float)))
    except (TypeError, ValueError):
        grid = np.empty(0)
    if not grid.size or not (np.abs(grid) < 1).all():
        raise OptionError("Give correlations between -1 and 1 in `rho`.")
    check_level(level)
    if fit.problem.noise.selected:
        raise UnsupportedError(
            "Sensitivity is to the correlation of the alternatives' noises. With a selection "
            "equation no row shows two outcomes, so the likelihood says nothing of it. "
            "Correlations with the selection are estimated: see result.correlations and "
            "result.conf_int(method='profile')."
        )
    noise = fit.problem.noise
    if fit.problem.rank is not None or noise.one_sided or noise.mixed:
        raise UnsupportedError(
            "Sensitivity to the correlation is for rules with bounds and noise that is independent "
            "or correlated, not for ranked rules, a shared shock or types."
        )
    shape = fit.problem.noise.margin
    if not shape.normal:
        raise UnsupportedError(
            "Sensitivity to the correlation compares fits with correlated normal noise, and this "
            f"fit has {shape.name} noise. Fit with normal noise to ask."
        )
    with one_blas_thread():
        compared = beside(
            models_along(fit, grid), partial(_described, fit), what="Correlations",
            apart=True, progress=progress,
        )  # fmt: skip
    found = sorted((one for one in compared if one.model is not None), key=lambda one: one.name)
    if not found:
        raise UnsupportedError("No correlation of the grid could be fitted. Use a finer one.")
    left_out = tuple(sorted(one.name for one in compared if one.model is None))
    names, index = list(found[0].answers), "correlation"
    table = tabulate(found, index)[["loglik", *names]]
    errors = std_errors(found, index)[next(iter(fitted(found).values())).names]
    reason = why_no_likelihood_ratio(fit)
    made = Sensitivity(table, errors, level, left_out, reason, fit.rows.known.described is not None)
    if reason is not None:
        return made
    highest = float(table["loglik"].max())
    if fit.problem.noise.correlated and fit.converged:
        highest = max(highest, fit.llf)
    fall = 0.5 * float(chdtri(1, 1.0 - level))
    table.insert(1, "supported", table["loglik"] >= highest - fall)
    if not table["supported"].any():
        # The grid is coarser than the region: what comes nearest stands for it.
        table.loc[table["loglik"].idxmax(), "supported"] = True
    return made


def models_along(fit: FitResult, grid: Array) -> dict[float, Callable[[], FitResult]]:
    """Return how to fit at every correlation, from the one nearest to zero outwards.

    Each begins where those before it lead, so they are to be fitted in this order.
    """
    centre = int(np.abs(grid).argmin())
    up: list[tuple[float, Array]] = []
    down: list[tuple[float, Array]] = []
    makers: dict[float, Callable[[], FitResult]] = {
        value: partial(_fit_at, fit, value, up, []) for value in grid[centre:].tolist()
    }
    for value in grid[:centre][::-1].tolist():
        makers[value] = partial(_fit_at, fit, value, down, up)
    return makers


def _fit_at(
    fit: FitResult,
    value: float,
    path: list[tuple[float, Array]],
    other: list[tuple[float, Array]],
) -> FitResult:
    """Fit at a correlation, and note where on the path that leads there."""
    if not path:
        # Each way starts from the middle.
        path += other[:1]
    problem = _at(fit, value)
    for start in _starts(path, value) or [_begin(fit, problem)]:
        solved = solve_again(
            problem, fit.engine_of_rows(), fit.facts, solver=Continuation(steady=None), start=start
        )
        if solved.converged:
            path.append((value, solved.solution.free))
            return solved.with_errors(fit)
    raise DataError("there is no optimum")


def _starts(path: list[tuple[float, Array]], value: float) -> list[Array]:
    """Return where to begin: on the line through the last two fits, else at the last one."""
    if len(path) < 2:
        return [free for _, free in path[-1:]]
    (one, before), (two, last) = path[-2:]
    return [last + (value - two) / (two - one) * (last - before), last]


def _begin(fit: FitResult, problem: Problem) -> Array:
    """Return the fit's coefficients, log scales and costs as parameters of another noise."""
    natural = fit.problem.layout.natural(fit.solution.free)
    n_equations = int(fit.problem.layout.starts[-1])
    # Behind the noise's own come the same log scales and costs.
    n_others = len(fit.problem.layout.extras) - fit.problem.layout.n_noise_extras
    extras = problem.layout.extra_starts.copy()
    if n_others:
        extras[-n_others:] = natural[-n_others:]
    return problem.layout.gather(np.concatenate([natural[:n_equations], extras]))


def _at(fit: FitResult, value: float) -> Problem:
    """Return the problem with all correlations fixed, or say that no distribution has them."""
    noise = fit.problem.noise
    fixed = Correlated(noise.scale, correlation=value)
    points = noise.points(fit.problem.equations.n_alternatives)
    problem = replace(
        fit.problem, noise=fixed if points is None else fixed.with_points(points.number)
    )
    problem.noise.extras(problem.equations.alternatives)
    return problem


def _described(fit: FitResult, found: FitResult) -> dict[str, Answer]:
    """Return the coefficients with their standard errors, and gaps and effects."""
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(found.covariance.matrix))
    values = zip(found.names, found.values.tolist(), errors.tolist(), strict=True)
    answers = {name: Answer(value, error) for name, value, error in values}
    rows, problem = fit.rows, found.problem
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    means = latent_means(problem, found.values, rows)
    expected = moments_of(problem).expectations(found.values, rows)
    labels = problem.equations.alternatives
    for j, m in combinations(range(len(labels)), 2):
        gap = means[:, j] - means[:, m]
        known = rows.known.described
        counted = weights if known is None else weights * known[:, [j, m]].all(axis=1)
        with np.errstate(invalid="ignore"):
            average = float(counted @ gap / counted.sum())
        answers[f"gap {labels[j]} - {labels[m]}"] = Answer(average)
        for group in (j, m):
            share = counted * expected.chance[:, group]
            effect = np.nan_to_num(
                expected.given_seen[:, j, group] - expected.given_seen[:, m, group]
            )
            name = f"effect {labels[j]} - {labels[m]} on {labels[group]}"
            answers[name] = Answer(float(share @ effect / share.sum()))
    return answers

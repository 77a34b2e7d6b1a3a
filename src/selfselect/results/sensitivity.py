"""Sensitivity: what the estimates would be were the noise correlated by this much or that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.statistics import check_level
from selfselect.kernels.tails import chdtri
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.noises import Correlated
from selfselect.problem.parameters import flat_names
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.results.hypotheses import why_no_likelihood_ratio
from selfselect.results.refit import covariance_of_refit
from selfselect.results.tables import Tables
from selfselect.solvers.base import Solution
from selfselect.solvers.continuation import Continuation
from selfselect.threads import one_blas_thread

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
    found: dict[float, tuple[dict[str, float], dict[str, float]]] = {}
    left_out: list[float] = []
    with (
        one_blas_thread(),
        progress_bar(progress, what="Correlations", total=len(grid)) as bar,
    ):
        for value, problem, solution in fits_along(fit, grid):
            if problem is None or solution is None:
                left_out.append(value)
            else:
                found[value] = _described(fit, problem, solution)
            bar.update()
    if not found:
        raise UnsupportedError("No correlation of the grid could be fitted. Use a finer one.")
    left_out.sort()
    index = pd.Index(sorted(found), name="correlation")
    table, std_errors = (
        pd.DataFrame([found[value][part] for value in index], index=index) for part in (0, 1)
    )
    reason = why_no_likelihood_ratio(fit)
    made = Sensitivity(
        table, std_errors, level, tuple(left_out), reason, fit.rows.known.described is not None
    )
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


def fits_along(
    fit: FitResult, grid: Array
) -> Iterator[tuple[float, Problem | None, Solution | None]]:
    """Fit from the correlation nearest to zero outwards, each from where those before lead.

    Yields every correlation with its fit; with none where there is no distribution or no optimum.
    """
    engine, solver = fit.engine_of_rows(), Continuation(steady=None)
    centre = int(np.abs(grid).argmin())
    middle: list[tuple[float, Array]] = []
    for way in (grid[centre:], grid[:centre][::-1]):
        # Each way starts from the middle.
        path = middle.copy()
        for value in map(float, way):
            problem, solution = _at(fit, value), None
            if problem is not None:
                starts = _starts(path, value) or [_begin(fit, problem)]
                for start in starts:
                    solution = solver.solve(
                        problem, engine, rng=np.random.default_rng(0), start=start, progress=False
                    )
                    if solution.converged:
                        path.append((value, solution.free))
                        break
                else:
                    solution = None
            yield value, problem, solution
            middle = middle or path.copy()


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


def _at(fit: FitResult, value: float) -> Problem | None:
    """Return the problem with all correlations fixed; None where no distribution has them."""
    noise = fit.problem.noise
    fixed = Correlated(noise.scale, correlation=value)
    points = noise.points(fit.problem.equations.n_alternatives)
    problem = replace(
        fit.problem, noise=fixed if points is None else fixed.with_points(points.number)
    )
    try:
        problem.noise.extras(problem.equations.alternatives)
    except OptionError:
        return None
    return problem


def _described(
    fit: FitResult, problem: Problem, solution: Solution
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the log-likelihood and estimates, and standard errors of the coefficients."""
    names, estimates = _describe(fit, problem, solution)
    spread = covariance_of_refit(fit, problem, solution, Continuation())
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(spread.matrix))
    named = dict(zip(names, errors.tolist(), strict=True))
    return {"loglik": solution.loglik} | estimates, named


def _describe(
    fit: FitResult, problem: Problem, solution: Solution
) -> tuple[list[str], dict[str, float]]:
    """Return names and values of the coefficients, and gaps and effects."""
    reported = problem.layout.report(solution.free)
    names = flat_names(reported.labels)
    values = dict(zip(names, reported.values.tolist(), strict=True))
    rows = fit.rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    means = latent_means(problem, reported.values, rows)
    expected = moments_of(problem).expectations(reported.values, rows)
    labels = problem.equations.alternatives
    for j, m in combinations(range(len(labels)), 2):
        gap = means[:, j] - means[:, m]
        known = rows.known.described
        counted = weights if known is None else weights * known[:, [j, m]].all(axis=1)
        with np.errstate(invalid="ignore"):
            average = float(counted @ gap / counted.sum())
        values[f"gap {labels[j]} - {labels[m]}"] = average
        for group in (j, m):
            share = counted * expected.chance[:, group]
            effect = np.nan_to_num(
                expected.given_seen[:, j, group] - expected.given_seen[:, m, group]
            )
            name = f"effect {labels[j]} - {labels[m]} on {labels[group]}"
            values[name] = float(share @ effect / share.sum())
    return names, values

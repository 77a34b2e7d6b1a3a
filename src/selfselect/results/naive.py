"""The naive fit: least squares per alternative on the rows where it was chosen.

Where the choice was not recorded, that is least squares on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine
from selfselect.inference.dependence import cluster_products, cluster_totals
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.problem.units import Ties

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Naive:
    """Least squares that ignores selection, alternative by alternative.

    Attributes
    ----------
    coefficients, std_errors : per alternative, in the order of its estimated terms; those that
        alternatives share are fitted to the rows of all who do.
    scales : (k,) residual standard deviations, with the degrees-of-freedom correction, over the
        standard deviation of the noise's shape: what the fit calls a scale.
    """

    coefficients: tuple[Array, ...]
    std_errors: tuple[Array, ...]
    scales: Array


@dataclass(frozen=True)
class ErrorKind:
    """What standard errors allow for.

    Attributes
    ----------
    robust : whether each row's own residual says how much it varies, rather than one variance.
    clusters : how many clusters there are, one number per way of clustering.
    repeated : whether weights are numbers of identical rows.
    """

    robust: bool = False
    clusters: tuple[int, ...] = ()
    repeated: bool = False

    @classmethod
    def of(cls, fit: FitResult) -> ErrorKind:
        """Return what errors of least squares beside a fit allow for: what its own do."""
        return cls(
            robust=not fit.covariance.of_model,
            clusters=fit.cluster_sizes,
            repeated=fit.facts.weights_kind == "frequency",
        )


CLASSICAL = ErrorKind()


def fit_naive(problem: Problem, engine: Engine, errors: ErrorKind = CLASSICAL) -> Naive:
    """Fit every alternative by least squares on its own rows; robust errors take a second pass."""
    return fit_naive_jointly(problem, engine, errors)[0]


def fit_naive_jointly(
    problem: Problem, engine: Engine, errors: ErrorKind = CLASSICAL
) -> tuple[Naive, Array]:
    """Return the naive fit, and the covariance of all its coefficients, equation after equation."""
    if problem.noise.sign_only:
        return _fit_probit(problem, engine, errors)
    sums = _pairs(engine.sum(partial(_grams, problem)))
    if problem.layout.ties is not None:
        return _fit_restricted(problem, engine, problem.layout.ties, sums, errors)
    units = problem.units
    coefficients, std_errors, scales = [], [], []
    slopes, inverses, turned = [], [], []
    for equation, (gram, _) in zip(problem.equations.each, sums, strict=True):
        size = len(equation.columns)
        inverses.append(np.linalg.pinv(gram[:size, :size], rcond=1e-12, hermitian=True))
        slopes.append(inverses[-1] @ gram[:size, size])
    meat = _meat(problem, engine, slopes, sums, errors) if errors.robust else None
    end = 0
    for j, (equation, (gram, count)) in enumerate(zip(problem.equations.each, sums, strict=True)):
        size = len(equation.columns)
        start, end = end, end + size
        if count == 0:
            # Chosen, but its outcome was never recorded: there is nothing to regress.
            coefficients.append(np.full(size, np.nan))
            std_errors.append(np.full(size, np.nan))
            scales.append(np.nan)
            turned.append((np.full((size, size), np.nan), np.zeros((size, size))))
            continue
        inverse, slope = inverses[j], slopes[j]
        left_over = max(float(gram[size, size] - slope @ gram[:size, size]), 0.0)
        variance = left_over / max(count - size, 1.0)
        carry = _to_user_units(units.unit, units.shift, equation.columns) * units.outcome_unit
        shift = np.array([units.outcome_shift if c == 0 else 0.0 for c in equation.columns])
        coefficients.append(carry @ slope + shift)
        spread = inverse * variance
        if meat is not None:
            spread = inverse @ meat[start:end, start:end] @ inverse
        std_errors.append(_root(np.diag(carry @ spread @ carry.T)))
        scales.append(np.sqrt(variance) * units.outcome_unit)
        turned.append((carry @ inverse, gram[:size, :size] * variance))
    deviation = problem.noise.margin.deviation
    found = Naive(tuple(coefficients), tuple(std_errors), np.array(scales) / deviation)
    reach = _block_diagonal(*(one for one, _ in turned))
    middle = _block_diagonal(*(one for _, one in turned)) if meat is None else meat
    return found, reach @ middle @ reach.T


def _fit_probit(problem: Problem, engine: Engine, errors: ErrorKind) -> tuple[Naive, Array]:
    """Fit a binary outcome by a probit on the rows that show it."""
    # Imported here: few outcomes are binary, and all fits should start quickly.
    from selfselect.solvers.climb import climb

    layout = problem.layout
    (equation,) = problem.equations.each
    own = slice(len(equation.columns))
    held = np.ones(layout.n_free, dtype=bool)
    held[own] = False
    found = climb(problem, engine, np.zeros(layout.n_free), max_steps=100, tol=1e-8, held=held)
    spread = np.linalg.inv(found.information[own, own])
    if errors.robust:
        meat = engine.sum(partial(_probit_scores, problem, found.free, errors))
        if errors.clusters:
            meat = cluster_products(meat, len(errors.clusters))[0]
        spread = spread @ meat @ spread
    carry = _to_user_units(problem.units.unit, problem.units.shift, equation.columns)
    covariance: Array = carry @ spread @ carry.T
    return Naive((carry @ found.free[own],), (_root(np.diag(covariance)),), np.ones(1)), covariance


def _probit_scores(problem: Problem, free: Array, errors: ErrorKind, batch: Batch) -> Any:
    """Sum products of what rows, or clusters, say of the probit's coefficients."""
    own = slice(len(problem.equations.each[0].columns))
    scores = row_terms(problem, problem.layout.natural(free), batch).score[:, own]
    return _products(batch.rows, scores, errors)


def _block_diagonal(*blocks: Array) -> Array:
    size = sum(len(one) for one in blocks)
    found, end = np.zeros((size, size)), 0
    for one in blocks:
        start, end = end, end + len(one)
        found[start:end, start:end] = one
    return found


def _root(variances: Array) -> Array:
    """Return standard errors; nan where a difference of products made a variance negative."""
    with np.errstate(invalid="ignore"):
        found: Array = np.sqrt(variances)
    return found


def _meat(
    problem: Problem,
    engine: Engine,
    slopes: list[Array],
    sums: list[tuple[Array, float]],
    errors: ErrorKind,
) -> Array:
    """Return summed outer products of the scores of all equations' coefficients, stacked.

    Each equation's has the factor n/(n - p), clusters G/(G - 1) besides.
    """
    factors = [
        np.sqrt(count / max(count - len(slope), 1.0))
        for slope, (_, count) in zip(slopes, sums, strict=True)
    ]
    found = engine.sum(partial(_scores, problem, slopes, factors, errors))
    meat: Array = cluster_products(found, len(errors.clusters))[0] if errors.clusters else found
    return meat


def _scores(
    problem: Problem, slopes: list[Array], factors: list[float], errors: ErrorKind, batch: Batch
) -> Any:
    """Sum products of what each row says of every coefficient, or what clusters say of them."""
    rows = batch.rows
    parts = []
    for j, (own, joined) in enumerate(_own_rows(problem, batch)):
        each = np.zeros((len(batch), len(slopes[j])))
        each[own] = (
            joined[:, :-1] * (factors[j] * (joined[:, -1] - joined[:, :-1] @ slopes[j]))[:, None]
        )
        parts.append(each)
    return _products(rows, np.concatenate(parts, axis=1), errors)


def _products(rows: Rows, scores: Array, errors: ErrorKind) -> Any:
    """Return products of the scores of rows, or the totals of clusters."""
    if rows.weights is not None:
        repeated = errors.repeated and not errors.clusters
        scores *= (np.sqrt(rows.weights) if repeated else rows.weights)[:, None]
    if errors.clusters:
        return cluster_totals(rows, scores, errors.clusters)
    return scores.T @ scores


def _fit_restricted(
    problem: Problem,
    engine: Engine,
    ties: Ties,
    sums: list[tuple[Array, float]],
    errors: ErrorKind,
) -> tuple[Naive, Array]:
    """Fit all alternatives at once, each by its own rows, with the coefficients they share."""
    units, equations = problem.units, problem.equations
    total, towards = ties.gather_grams([gram for gram, _ in sums])
    inverse = np.linalg.pinv(total, rcond=1e-12, hermitian=True)
    every = ties.coefficients(inverse @ towards)
    n_parameters = np.array(equations.own_terms) + len(equations.shared) / len(sums)
    variances = np.full(len(sums), np.nan)
    spread = np.zeros_like(total)
    for j, (gram, count) in enumerate(sums):
        if count == 0:
            continue
        own = ties.alternative == j
        residual = np.append(-every[own], 1.0)
        variances[j] = max(residual @ gram @ residual, 0.0) / max(count - n_parameters[j], 1.0)
        matrix = ties.matrix[own]
        spread += variances[j] * matrix.T @ gram[:-1, :-1] @ matrix
    if errors.robust:
        slopes = [every[ties.alternative == j] for j in range(len(sums))]
        spread = ties.matrix.T @ _meat(problem, engine, slopes, sums, errors) @ ties.matrix
    covariance = inverse @ spread @ inverse
    coefficients, std_errors, reaches = [], [], []
    for j, equation in enumerate(equations.each):
        own = ties.alternative == j
        carry = _to_user_units(units.unit, units.shift, equation.columns) * units.outcome_unit
        shift = np.array([units.outcome_shift if c == 0 else 0.0 for c in equation.columns])
        along = carry @ ties.matrix[own]
        kept = slice(len(equation.estimated))
        coefficients.append((carry @ every[own] + shift)[kept])
        std_errors.append(_root(np.diag(along @ covariance @ along.T))[kept])
        reaches.append(along[kept])
    scales = np.sqrt(variances) * units.outcome_unit / problem.noise.margin.deviation
    reach = np.vstack(reaches)
    return Naive(tuple(coefficients), tuple(std_errors), scales), reach @ covariance @ reach.T


def _grams(problem: Problem, batch: Batch) -> Parts:
    weights = batch.rows.weights
    parts: list[Array | float] = []
    for own, joined in _own_rows(problem, batch):
        mine = None if weights is None else weights[own]
        weighted = joined if mine is None else joined * mine[:, None]
        parts += [joined.T @ weighted, float(len(joined) if mine is None else mine.sum())]
    return Parts(parts)


def _own_rows(problem: Problem, batch: Batch) -> Iterator[tuple[Indices | slice, Array]]:
    """Yield by alternative which rows it was recorded in, and their covariates and outcomes."""
    rows = batch.rows
    assert rows.outcome is not None
    for j, equation in enumerate(problem.equations.each):
        mine = ~np.isnan(rows.outcome)
        if rows.chosen is not None:
            mine &= rows.chosen == j
        which: Indices | slice = slice(None) if mine.all() else np.flatnonzero(mine)
        design = problem.units.design(rows.covariates[which], equation.columns)
        yield which, np.column_stack([design, problem.units.limits(rows.outcome[which])])


def _pairs(sums: Parts) -> list[tuple[Array, float]]:
    return list(zip(sums[::2], sums[1::2], strict=True))


def _to_user_units(unit: Array, shift: Array, columns: tuple[int, ...]) -> Array:
    """Return the matrix that carries coefficients of internal covariates to the user's."""
    carry = np.diag([1.0 / unit[column] for column in columns])
    if 0 in columns:
        constant = columns.index(0)
        for place, column in enumerate(columns):
            if column != 0:
                carry[constant, place] = -shift[column] / unit[column]
    return carry

"""Both steps and their covariance, and what they expect of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.columns import refuse_unshown
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.rows import Rows
from selfselect.errors import DataError
from selfselect.inference.covariance import (
    UNCORRECTED,
    Bootstrap,
    Covariance,
    plain_meat,
    resampled_estimates,
)
from selfselect.inference.dependence import (
    Dependence,
    cluster_covariance,
    cluster_totals,
    count_in_rows,
    describe_clusters,
)
from selfselect.multinomial.corrections import Correction, Logit, fit_logit, log_chances, scores
from selfselect.rules.base import Label

Array = NDArray[np.float64]


# Both steps and their joint covariance.
#
# Step one is the logit of the choice, step two least squares of each outcome on its covariates and
# the correction's regressors. With :math:`\gamma` the logit's coefficients, :math:`R_i` the
# regressors of a row and :math:`e_i` what they leave over, the second step solves
# :math:`\sum_i R_i(\gamma) e_i = 0`, so a row moves its estimates by
#
# .. math:: A^{-1}\Big(R_i e_i + \frac{\partial}{\partial\gamma'} \sum_l R_l e_l
#    \cdot H^{-1} s_i\Big),
#
# where :math:`s_i` is its score in the logit and H the logit's information. Standard errors are
# made of these influences, summed by rows or clusters.

Mask = NDArray[np.bool_]

DEPENDENT = 1e-9
"""Share of a regressor's length that others do not explain below which it is one of them."""


def choice_label(label: Any) -> str:
    """Return the name of an alternative's equation in the choice."""
    return f"choice of {label}"


@dataclass(frozen=True, eq=False)
class Model:
    """What is estimated, without rows.

    Attributes
    ----------
    equations : of outcomes, and of the choice as `selection`.
    correction : of the second step.
    base : position of the alternative whose coefficients in the choice are zero.
    """

    equations: Equations
    correction: Correction
    base: int

    @property
    def labels(self) -> tuple[Label, ...]:
        """The alternatives."""
        return self.equations.alternatives

    @property
    def n_alternatives(self) -> int:
        """How many there are."""
        return len(self.labels)

    @property
    def choice_terms(self) -> tuple[str, ...]:
        """The terms of the choice."""
        assert self.equations.selection is not None
        return self.equations.selection.terms

    def own_terms(self, j: int) -> list[str]:
        """Return the terms of an outcome, those of its correction last."""
        return [*self.equations.each[j].terms, *self.correction.terms(j, self.labels)]

    @property
    def parameters(self) -> tuple[tuple[Label, str], ...]:
        """Labels of all parameters: outcome by outcome, then the choice."""
        outcomes = [
            (label, term) for j, label in enumerate(self.labels) for term in self.own_terms(j)
        ]
        choice = [
            (choice_label(label), term)
            for m, label in enumerate(self.labels)
            if m != self.base
            for term in self.choice_terms
        ]
        return (*outcomes, *choice)

    def blocks(self) -> Iterator[tuple[int, slice]]:
        """Yield where the parameters of each outcome stand."""
        place = 0
        for j in range(self.n_alternatives):
            size = len(self.own_terms(j))
            yield j, slice(place, place + size)
            place += size

    def read(self, values: Array) -> tuple[list[Array], list[Array], Array]:
        """Return coefficients and corrections by outcome, and those (k, q) of the choice."""
        coefficients, corrections, end = [], [], 0
        for j, own in self.blocks():
            size, end = len(self.equations.each[j].terms), own.stop
            coefficients.append(values[own][:size])
            corrections.append(values[own][size:])
        choice = values[end:].reshape(self.n_alternatives - 1, -1)
        return coefficients, corrections, np.insert(choice, self.base, 0.0, axis=0)

    def outcome_design(self, rows: Rows, j: int, which: Any = slice(None)) -> Array:
        """Return the covariates (n, p) of an outcome for some rows."""
        return _design(rows.covariates[which], self.equations.each[j].columns)

    def choice_design(self, rows: Rows) -> Array:
        """Return the covariates (n, q) of the choice."""
        assert self.equations.selection is not None
        return _design(rows.covariates, self.equations.selection.columns)


@dataclass(frozen=True, eq=False)
class TwoStepEstimate:
    """Both steps, estimated.

    Attributes
    ----------
    values : of all parameters, in the user's units.
    logit : the first step, in standardised covariates.
    turn : (q, q) from standardised coefficients to those of the user.
    """

    values: Array
    logit: Logit
    turn: Array


def _design(covariates: Array, columns: Sequence[int]) -> Array:
    """Return columns (n, p) of the covariates; 0 is the constant."""
    made = np.ones((len(covariates), len(columns)))
    for place, column in enumerate(columns):
        if column:
            made[:, place] = covariates[:, column - 1]
    return made


def _weights(rows: Rows) -> Array:
    return np.ones(len(rows)) if rows.weights is None else rows.weights


def _standardising(z: Array, terms: Sequence[str]) -> Array:
    """Return the matrix (q, q) that makes covariates of order one."""
    turn = np.eye(z.shape[1])
    spread = z.std(axis=0)
    constant = terms.index(INTERCEPT) if INTERCEPT in terms else None
    for place, term in enumerate(terms):
        if term == INTERCEPT:
            continue
        size = spread[place] if constant is not None else np.sqrt((z[:, place] ** 2).mean())
        size = float(size) or 1.0
        turn[place, place] = 1.0 / size
        if constant is not None:
            turn[constant, place] = -z[:, place].mean() / size
    return turn


def solve(model: Model, rows: Rows, start: TwoStepEstimate | None = None) -> TwoStepEstimate:
    """Estimate both steps.

    Parameters
    ----------
    model, rows : what is estimated, on which rows.
    start : estimates of the same rows with other weights.
    """
    assert rows.chosen is not None and rows.outcome is not None
    z = model.choice_design(rows)
    turn = _standardising(z, model.choice_terms) if start is None else start.turn
    z, weights = z @ turn, _weights(rows)
    logit = fit_logit(
        z, rows.chosen, weights, model.n_alternatives, base=model.base,
        available=rows.known.available, terms=model.choice_terms,
        start=None if start is None else start.logit.coefficients,
    )  # fmt: skip
    values = []
    for j, label in enumerate(model.labels):
        own = recorded_rows(rows, j)
        regressors = _regressors(model, rows, logit.log_chances, own, j)
        values.append(
            _least_squares(regressors, rows.outcome[own], weights[own], label, model.own_terms(j))
        )
    choice = np.delete(logit.coefficients @ turn.T, model.base, axis=0)
    return TwoStepEstimate(np.concatenate([*values, choice.ravel()]), logit, turn)


def recorded_rows(rows: Rows, j: int) -> NDArray[np.intp]:
    """Return where an alternative was chosen, with some weight, and its outcome was recorded."""
    assert rows.outcome is not None
    return np.flatnonzero((rows.chosen == j) & (_weights(rows) > 0) & ~np.isnan(rows.outcome))


def _regressors(model: Model, rows: Rows, log_p: Array, own: NDArray[np.intp], j: int) -> Array:
    x = model.outcome_design(rows, j, own)
    return np.hstack([x, model.correction.regressors(log_p[own], j, j).values])


def _least_squares(
    regressors: Array, outcome: Array, weights: Array, label: Label, terms: Sequence[str]
) -> Array:
    n, size = regressors.shape
    if n <= size:
        raise DataError(
            f"The alternative {label!r} is chosen in {n} rows but has {size} parameters, those of "
            "its correction included. Give it fewer covariates, join it with another alternative, "
            "or use correction='lee', which has one."
        )
    root = np.sqrt(weights)
    weighed = regressors * root[:, None]
    lengths = np.sqrt((weighed**2).sum(axis=0))
    lengths[lengths == 0] = 1.0
    q, r = np.linalg.qr(weighed / lengths)
    left = np.abs(np.diag(r))
    if left.min() < DEPENDENT:
        refuse_unshown(label, [terms[int(left.argmin())]])
        raise DataError(
            f"In the equation of {label!r} {terms[int(left.argmin())]!r} is a combination of the "
            "other regressors, so the selection is not identified separately from the "
            "covariates. Put a covariate in the choice that the outcome does not have, or leave "
            "out what repeats."
        )
    return np.asarray(np.linalg.solve(r, q.T @ (outcome * root)) / lengths)


def condition_numbers(model: Model, rows: Rows, found: TwoStepEstimate) -> tuple[float, ...]:
    """Return how nearly corrections are combinations of covariates, one number per outcome.

    It is the condition number of both together, each as a whole: with c their largest canonical
    correlation, sqrt((1 + c) / (1 - c)). However a correction is written, and however covariates
    are scaled or correlated with each other, it is the same. Standard errors of the outcome's
    coefficients are up to half of it times those without a correction. A correction that leaves
    constants open may be close to one.
    """
    numbers = []
    for j in range(model.n_alternatives):
        own = recorded_rows(rows, j)
        root = np.sqrt(_weights(rows)[own])[:, None]
        constant = None if model.correction.levels else root / np.linalg.norm(root)
        regressors = model.correction.regressors(found.logit.log_chances[own], j, j).values
        covariates = _basis(model.outcome_design(rows, j, own) * root, constant)
        correction = _basis(regressors * root, constant)
        left = np.linalg.svd(
            covariates - correction @ (correction.T @ covariates), compute_uv=False
        )
        sine = min(float(left.min(initial=1.0)), 1.0)
        numbers.append((1.0 + np.sqrt(1.0 - sine**2)) / max(sine, DEPENDENT))
    return tuple(map(float, numbers))


def _basis(columns: Array, without: Array | None) -> Array:
    """Return an orthonormal basis (n, r) of what columns span beside a direction (n, 1)."""
    lengths = np.sqrt((columns**2).sum(axis=0))
    columns = columns / np.where(lengths > 0, lengths, 1.0)
    if without is not None:
        columns = columns - without @ (without.T @ columns)
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > DEPENDENT])


def influences(model: Model, rows: Rows, found: TwoStepEstimate) -> Array:
    """Return what each row, by its weight, does to all estimates: (n, m)."""
    assert rows.chosen is not None and rows.outcome is not None
    weights, log_p = _weights(rows), found.logit.log_chances
    z = model.choice_design(rows) @ found.turn
    first = scores(z, rows.chosen, log_p, model.base) * weights[:, None]
    first = first @ np.linalg.inv(found.logit.information)
    influence = np.zeros((len(rows), len(found.values)))
    chances = np.exp(log_p)
    rest = [m for m in range(model.n_alternatives) if m != model.base]
    end = 0
    for j, place in model.blocks():
        own, end = recorded_rows(rows, j), place.stop
        made = model.correction.regressors(log_p[own], j, j)
        x = model.outcome_design(rows, j, own)
        regressors = np.hstack([x, made.values])
        theta, weight = found.values[place], weights[own]
        left_over = rows.outcome[own] - regressors @ theta
        bread = np.linalg.inv(regressors.T @ (regressors * weight[:, None]))
        influence[own, place] = (regressors * (weight * left_over)[:, None]) @ bread
        # How log chances, and through them regressors, move with the logit's coefficients.
        push = np.zeros((len(theta), len(rest), z.shape[1]))
        n_x = x.shape[1]
        for at, m in enumerate(rest):
            by_utility = made.slopes[:, :, m] - chances[own, m][:, None] * made.slopes.sum(axis=2)
            drift = (weight * left_over)[:, None] * by_utility
            push[n_x:, at] += drift.T @ z[own]
            moved = weight * (by_utility @ theta[n_x:])
            push[:, at] -= regressors.T @ (moved[:, None] * z[own])
        influence[:, place] += first @ (bread @ push.reshape(len(theta), -1)).T
    size = len(model.choice_terms)
    for at in range(len(rest)):
        mine = slice(at * size, (at + 1) * size)
        influence[:, end + at * size : end + (at + 1) * size] = first[:, mine] @ found.turn.T
    return influence


def summed(
    rows: Rows, influence: Array, kind: str, dependence: Dependence, n_parameters: int
) -> Covariance:
    """Return the summed products of influences: the covariance of what rows have them on."""
    if dependence.clusters:
        found = cluster_totals(rows, influence, dependence.clusters)
        matrix, counts, repaired = cluster_covariance(found, len(dependence.clusters))
        description = f"{describe_clusters(dependence.cluster_name, counts)}, over both steps"
        return Covariance.of_clusters(kind, description, matrix, counts, repaired=repaired)
    weights = _weights(rows)
    counted = weights > 0
    kept = influence[counted]
    count = float(counted.sum())
    if dependence.repeated:
        kept = kept / np.sqrt(weights[counted])[:, None]
        count = float(weights.sum())
    products = kept.T @ kept
    if kind in UNCORRECTED:
        made, description = plain_meat(kind, products, count, n_parameters)
        return Covariance(kind, f"{description}, over both steps", made)
    return Covariance(kind, "robust (sandwich), over both steps", products * count / (count - 1.0))


def robust_covariance(
    model: Model, rows: Rows, found: TwoStepEstimate, *, kind: str, dependence: Dependence
) -> tuple[Covariance, Array]:
    """Return the covariance of all estimates, and the influences it is made of."""
    influence = influences(model, rows, found)
    return summed(rows, influence, kind, dependence, len(found.values)), influence


def bootstrap_covariance(
    model: Model,
    rows: Rows,
    found: TwoStepEstimate,
    options: Bootstrap,
    dependence: Dependence,
    *,
    seed: SeedSequence,
    progress: bool | None,
) -> Covariance:
    """Return the covariance of estimates of samples of rows, or of clusters, both steps each."""

    def estimate(sample: Rows, rng: Generator) -> Array:
        del rng
        assert sample.weights is not None
        return solve(model, sample.take(np.flatnonzero(sample.weights > 0)), found).values

    done = resampled_estimates(estimate, rows, options, dependence, seed=seed, progress=progress)
    unit = "rows"
    if dependence.clusters:
        unit = f"{dependence.clusters[0]} clusters of {dependence.cluster_name}"
    return Covariance.of_clusters(
        "bootstrap",
        f"bootstrap of {unit} over both steps, {len(done)} samples",
        np.atleast_2d(np.cov(done, rowvar=False)),
        count_in_rows(rows, dependence.clusters),
    )


# What the model expects of rows, at given parameters.


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of rows.

    Attributes
    ----------
    chance : (n, k) of each alternative.
    latent : (n, k) mean of every outcome; without its constant's level where that is unknown.
    given : (n, k, k) mean of outcome l where g is chosen, at [row, l, g]; nan off the diagonal
        where the correction says nothing of it.
    """

    chance: Array
    latent: Array
    given: Array

    @property
    def outcome(self) -> Array:
        """The mean (n,) of the observed outcome."""
        own = np.where(self.chance > 0, np.einsum("nll->nl", self.given), 0.0)
        return np.asarray((self.chance * own).sum(axis=1))

    @property
    def cells(self) -> Array:
        """Chances, latent means, and E[y_l; g] in one row each: (n, 2k + k²)."""
        # What is expected of a group without anybody in it is no number.
        chance = self.chance[:, None, :]
        parts = np.where(chance > 0, self.given, 0.0) * chance
        return np.hstack([self.chance, self.latent, parts.reshape(len(parts), -1)])


def expect(model: Model, values: Array, rows: Rows) -> Expected:
    """Return what the model expects of rows, at parameters as users read them."""
    coefficients, corrections, choice = model.read(values)
    log_p = log_chances(model.choice_design(rows), choice, rows.known.available)
    k = model.n_alternatives
    latent = np.column_stack(
        [model.outcome_design(rows, j) @ own for j, own in enumerate(coefficients)]
    )
    given = np.full((len(rows), k, k), np.nan)
    for g in range(k):
        for j, regressors in model.correction.means(log_p, g).items():
            given[:, j, g] = latent[:, j] + regressors @ corrections[j]
    return Expected(np.exp(log_p), latent, given)

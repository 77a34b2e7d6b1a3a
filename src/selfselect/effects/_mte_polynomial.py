r"""Marginal treatment effects by local instrumental variables: a polynomial in the resistance.

Nothing is assumed of the noise's shape. With p the propensity of the selection's probit,

.. math:: E[y \mid x, p] = (1 - p)\,x_0'b_0 + p\,x_1'b_1 + K(p), \qquad
   MTE(x, v) = x_1'b_1 - x_0'b_0 + K'(v),

and K is a polynomial without terms of order 0 and 1, which the constants have. Intervals are
percentiles of a bootstrap over both steps. There are no standard errors: an effect per net mover is
a ratio, and a few samples in which hardly anyone moves decide how widely it scatters over samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._mte_normal import propensity, treated_first
from selfselect.effects.base import Averages
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.noises import Selection
from selfselect.progress import progress_bar
from selfselect.solvers.selection_search import fit_independent, selection_places
from selfselect.threads import parallel_map

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

DEPENDENT = 1e-10
"""Relative size of the smallest singular value below which regressors repeat each other."""

ENOUGH = 0.9
"""Share of the samples that must be fitted for their percentiles to be believed."""

FEWEST = 499
"""Samples below which percentiles of 2.5% and 97.5% are those of a handful of samples."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """One estimate of both steps.

    Attributes
    ----------
    selection : reported parameters of which only those of the selection are read.
    treated, untreated : coefficients of both outcomes.
    powers : coefficients of p², p³, and so on.
    """

    selection: Array
    treated: Array
    untreated: Array
    powers: Array

    def integral(self, p: Array) -> Array:
        """Return K at propensities."""
        return np.asarray(sum(c * p**r for r, c in enumerate(self.powers, 2)))

    def slope(self, v: Array) -> Array:
        """Return K' at resistances."""
        return np.asarray(sum(r * c * v ** (r - 1) for r, c in enumerate(self.powers, 2)))


@dataclass(frozen=True, eq=False)
class PolynomialCurve:
    """Marginal treatment effects by local instrumental variables.

    Attributes
    ----------
    fit : whose rows and equations are meant.
    estimate : of all rows.
    draws : of bootstrap samples, each with the weights of the rows in it.
    replications : how many samples were drawn; some may not have been fitted.
    covariates : ``"sampled"`` or ``"fixed"``.
    """

    fit: FitResult
    estimate: Estimate
    draws: tuple[tuple[Estimate, SeedSequence], ...]
    replications: int
    covariates: str

    @property
    def kept(self) -> tuple[tuple[Estimate, SeedSequence], ...]:
        """The draws whose percentiles are intervals; none where they are too few."""
        return self.draws if self.replications >= FEWEST else ()

    @property
    def note(self) -> str:
        """How errors were made, and why there are no others."""
        if self.replications < FEWEST:
            return (
                f"There are no intervals: {self.replications} bootstrap samples over both steps "
                f"are too few for percentiles. Use replications={FEWEST} or more."
            )
        return (
            f"Intervals are percentiles of {len(self.draws)} bootstrap samples over both steps. "
            "There is no standard error: a few samples in which hardly anyone moves would decide "
            "it."
        )

    def _with_errors(self, value: Callable[[Estimate, Array], Array]) -> Averages:
        """Return a function of an estimate and the rows' weights, with its draws."""
        weights = _weights(self.fit.rows)
        here = value(self.estimate, weights)
        made = [
            value(one, self._weights_of(seed) if self.covariates == "sampled" else weights)
            for one, seed in self.kept
        ]
        size, n_values = len(here), len(self.fit.values)
        unknown, slopes = np.full((size, size), np.nan), np.full((size, n_values), np.nan)
        return Averages(here, unknown, slopes, np.reshape(made, (len(made), size)))

    def _weights_of(self, seed: SeedSequence) -> Array:
        return _weights(_resampled(self.fit, self.fit.engine_of_rows(), seed).rows)

    def _gains(self, one: Estimate) -> Array:
        x1, x0 = _designs(self.fit, self.fit.rows)
        return np.asarray(x1 @ one.treated - x0 @ one.untreated)

    def propensity(self, rows: Rows) -> Array:
        """Return each row's propensity (n,)."""
        return propensity(self.fit, rows, self.estimate.selection)

    def at(self, resistance: Array) -> Averages:
        """Return the effects at resistances, averaged over the rows."""
        return self._with_errors(
            lambda one, weights: (
                np.average(self._gains(one), weights=weights) + one.slope(resistance)
            )
        )

    def shift(
        self,
        before: Rows | float | None,
        after: Rows | float | None,
    ) -> Averages:
        """Return the effect on those who are moved by a change of the propensity.

        Each end is that of changed rows, a number, or None for the rows as they are.
        """

        def end(one: Estimate, rows: Rows | float | None) -> Array:
            if isinstance(rows, float):
                return np.full(len(self.fit.rows), rows)
            return propensity(self.fit, self.fit.rows if rows is None else rows, one.selection)

        def effect(one: Estimate, weights: Array) -> Array:
            early, late = end(one, before), end(one, after)
            moved = (late - early) * self._gains(one) + one.integral(late) - one.integral(early)
            return np.array([weights @ moved / (weights @ (late - early))])

        return self._with_errors(effect)


def _weights(rows: Rows) -> Array:
    return np.ones(len(rows)) if rows.weights is None else rows.weights


def _designs(fit: FitResult, rows: Rows) -> tuple[Array, Array]:
    """Return the covariates of the treated and of the untreated outcome, constants included."""
    ones = np.ones(len(rows))
    one, other = (
        np.column_stack(
            [
                ones if column == 0 else rows.covariates[:, column - 1]
                for column in fit.problem.equations.each[place].columns
            ]
        )
        for place in treated_first(fit)
    )
    return one, other


def _resampled(fit: FitResult, engine: Engine, seed: SeedSequence) -> Engine:
    sizes = fit.dependence.clusters
    return engine.resampled(
        np.random.default_rng(seed),
        repeated=fit.dependence.repeated,
        n_clusters=sizes[0] if sizes else 0,
    )


def fit_polynomial(
    fit: FitResult,
    *,
    degree: int,
    replications: int,
    seed: SeedSequence,
    covariates: str,
    progress: bool | None,
) -> PolynomialCurve:
    """Estimate both steps, on all rows and on bootstrap samples.

    Parameters
    ----------
    fit : a switching regression with its rows.
    degree : of K.
    replications, seed, progress : of the bootstrap.
    covariates : ``"sampled"`` or ``"fixed"``.
    """
    joint = replace(fit.problem, noise=Selection())
    engine = fit.engine_of_rows().single_threaded()
    designs = _designs(fit, fit.rows)

    def estimate(sample: Engine, gamma: Array | None) -> tuple[Estimate, Array]:
        probit = fit_independent(joint, sample, gamma=gamma)
        found = probit.free[selection_places(joint)]
        # Where two steps report more than the joint model, only the selection's places are read.
        reported = _with_selection(fit, joint.layout.report(probit.free).values)
        return _second_step(fit, designs, _weights(sample.rows), reported, degree), found

    whole, gamma = estimate(engine, None)

    def draw(one: SeedSequence) -> tuple[Estimate, SeedSequence] | None:
        try:
            return estimate(_resampled(fit, engine, one), gamma)[0], one
        except DataError:
            return None

    done: list[tuple[Estimate, SeedSequence]] = []
    with progress_bar(progress, what="Bootstrap", total=replications) as bar:
        for made in parallel_map(draw, seed.spawn(replications)):
            bar.update()
            if made is not None:
                done.append(made)
    if len(done) < max(2, ENOUGH * replications):
        raise DataError(
            f"Only {len(done)} of {replications} bootstrap samples could be fitted. Use a lower "
            "degree, or fewer covariates."
        )
    return PolynomialCurve(fit, whole, tuple(done), replications, covariates)


def _with_selection(fit: FitResult, joint: Array) -> Array:
    """Return the reported parameters of a fit with those of its selection replaced."""
    selection = fit.problem.equations.selection
    assert selection is not None
    size = len(selection.terms)
    reported = fit.values.copy()
    places = fit.problem.layout.reported_extras[-size:]
    reported[places] = replace(fit.problem, noise=Selection()).layout.selection_of(joint)
    return reported


def _second_step(
    fit: FitResult, designs: tuple[Array, Array], weights: Array, reported: Array, degree: int
) -> Estimate:
    x1, x0 = designs
    p = propensity(fit, fit.rows, reported)
    powers = p[:, None] ** np.arange(2, degree + 1)
    regressors = np.hstack([x1 * p[:, None], x0 * (1.0 - p)[:, None], powers])
    root = np.sqrt(weights)
    weighed = regressors * root[:, None]
    sizes = np.sqrt((weighed**2).sum(axis=0))
    if not (sizes > 0).all():
        raise DataError("A covariate is zero in all rows, so its effect is not determined.")
    outcome: Any = fit.rows.outcome
    found, _, _, singular = np.linalg.lstsq(weighed / sizes, outcome * root, rcond=None)
    if singular[-1] < DEPENDENT * singular[0]:
        raise DataError(
            "The propensity is nearly a combination of the outcome's covariates, so a polynomial "
            "in it is not determined. Put a covariate in the selection that outcomes do not have, "
            "or use a lower degree."
        )
    found = found / sizes
    first, second = x1.shape[1], x1.shape[1] + x0.shape[1]
    return Estimate(reported, found[:first], found[first:second], found[second:])

"""What is compared: the package with the oracle, and with itself where it may not differ.

Every check takes a `Compared` case and raises `AssertionError` with what differs. `CHECKS` lists
them by name; a check that cannot be made of a case raises `NotAskedError` with the reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

import selfselect as ss
from oracle import library
from oracle.generator import Case, Spec, column_of, draw_case, means_of, scales_of
from oracle.integrals import Array

CLOSE = 1e-9
"""Difference between two exact log-likelihoods of a row, relative where they are large."""

SIMULATED = 3e-3
"""The same where the package simulates: correlated noise of three alternatives."""

CLOSE_SLOPE = 2e-5
"""Difference between a derivative and a central difference, relative to the largest."""

CLOSE_SUM = 1e-9
"""Relative difference between sums that are added in another order."""

CLOSE_ERROR = 2e-3
"""Relative difference between a standard error and that of numeric slopes."""

MONTE_CARLO = 6.0
"""Standard errors by which an expectation may differ from its simulation."""

DRAWS = 4_000

SAMPLES = 40

FEW_CASES = 25
"""Rows over which slopes of effects are compared."""

MANY_PREDICTED, MANY_SIMULATED = 1_100, 130
"""More rows than are predicted or averaged at once, and where each is simulated."""

MANY_ROWS, MANY_SLOW_ROWS = 34_000, 2_500
"""More rows than any one task is given, of quick kernels and of those with many points a row."""

SLOW_ROWS, FAST_ROWS = 4, 40
"""Rows that the oracle integrates over two free outcomes or more, and over fewer."""

AT_OPTIMUM = 1e-5
"""Log-likelihood that a climb may gain on a fit that says it converged."""


BETWEEN_OPTIMA = 0.05
"""The same of a fit that searches among several optima: nobody tells such a difference."""


class NotAskedError(Exception):
    """A check that a case has no place for."""


@dataclass(frozen=True, eq=False)
class Compared:
    """A case with what several checks need of it, computed once."""

    case: Case
    folder: Path

    @property
    def spec(self) -> Spec:
        return self.case.spec

    @cached_property
    def posed(self) -> library.Evaluated:
        return library.pose(self.case, self.folder)

    @cached_property
    def free(self) -> Array:
        """The free parameters of the truth."""
        posed, truth = self.posed, self.case.truth
        missing = [name for name in posed.names if name not in truth]
        if missing:
            raise NotAskedError(f"the noise was simplified: no truth for {missing}")
        return posed.free(truth)

    @cached_property
    def _fitted(self) -> Any:
        try:
            return library.fit(self.case, self.folder)
        except Exception as error:
            return error

    @property
    def result(self) -> Any:
        """The fit of the case; the same error each time where there is none."""
        if isinstance(self._fitted, Exception):
            raise self._fitted
        return self._fitted

    @cached_property
    def of_truth(self) -> Any:
        """The fit moved to the truth."""
        of_fit = library.of_fit(self.result)
        missing = set(self.case.truth) ^ set(of_fit.names)
        if missing:
            raise NotAskedError(f"the fit is simpler than the truth: {sorted(map(str, missing))}")
        return library.at(self.result, of_fit.free(self.case.truth))

    @cached_property
    def draws(self) -> tuple[Array, Any]:
        """Latent outcomes (m, n, d) and choices (m, n) under the truth."""
        rng = np.random.default_rng(self.spec.seed)
        return self.case.model_of(self.case.truth).draw(DRAWS, rng)

    @cached_property
    def rows(self) -> Any:
        """What to give a method that averages over rows: None where the fit has its own."""
        return None if self.result.has_rows else self.case.table

    @property
    def n_outcomes(self) -> int:
        return len(self.case.labels)


def close(found: Any, wanted: Any, tolerance: float, what: str, floor: float = 1.0) -> None:
    """Assert that numbers agree, relative to their size where they are larger than `floor`."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, not {wanted.shape}"
    both_missing = np.isnan(found) & np.isnan(wanted)
    away = np.where(both_missing, 0.0, np.abs(found - wanted))
    allowed = tolerance * np.maximum(np.abs(wanted), floor)
    wrong = ~(away <= allowed) & ~both_missing
    if wrong.any():
        worst = np.unravel_index(np.nanargmax(np.where(np.isnan(away), np.inf, away)), away.shape)
        raise AssertionError(
            f"{what}: {found[worst]:.12g}, not {wanted[worst]:.12g}, at {tuple(map(int, worst))} "
            f"({int(wrong.sum())} of {wrong.size} differ)"
        )


def drawn(found: Any, draws: Array, unit: float, what: str) -> None:
    """Assert that numbers agree with the means of draws (m, ...), by their Monte-Carlo errors."""
    mean = np.nanmean(draws, axis=0)
    counts = np.maximum(np.isfinite(draws).sum(axis=0), 1)
    error = np.nanstd(draws, axis=0) / np.sqrt(counts)
    away = np.abs(np.asarray(found, dtype=float) - mean)
    enough = counts >= 400
    seldom = 5.0 / counts * unit  # what happens less often than that may not be drawn at all
    wrong = enough & ~(away <= MONTE_CARLO * error + 1e-3 * unit + seldom)
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.where(wrong, away, -1.0)), away.shape)
        raise AssertionError(
            f"{what}: {np.asarray(found)[worst]:.6g}, but {mean[worst]:.6g} ± {error[worst]:.2g} "
            f"by simulation, at {tuple(map(int, worst))} ({wrong.sum()} of {wrong.size} differ)"
        )


# likelihoods


def free_outcomes(case: Case) -> int:
    """Return over how many outcomes the oracle integrates, at most."""
    spec, k = case.spec, len(case.labels)
    lost = spec.outcome != "recorded"
    if spec.door != "fit":
        return 1 + lost
    return k - 1 + lost


def asked_rows(case: Case) -> Array:
    """Return which rows the oracle looks at: whole groups, few where it is slow."""
    dimensions, groups = free_outcomes(case), case.recorded.groups
    atoms = 120 if "shock" in case.spec.noise and case.spec.panel == "people" else 1
    if dimensions >= 3 or (dimensions == 2 and atoms > 1):
        raise NotAskedError("too many free outcomes for quadrature")
    most = {1: FAST_ROWS, 2: SLOW_ROWS}.get(dimensions, FAST_ROWS)
    if dimensions == 1 and atoms > 1:
        most = 9
    if dimensions == 2:  # rows that lack something first
        lacks = ~np.isfinite(case.recorded.outcome) | ~case.known["described"].all(axis=1)
        lost = np.flatnonzero(lacks)[: SLOW_ROWS // 2]
        some = np.unique(groups[np.concatenate([lost, np.arange(SLOW_ROWS // 2)])])
        return np.isin(groups, some)
    return groups <= groups[min(most, len(groups)) - 1]


def likelihood_of_rows(compared: Compared) -> None:
    """Each row's log-likelihood is the integral of the density over what was not recorded."""
    case, posed, free = compared.case, compared.posed, compared.free
    close(
        [posed.values(free)[name] for name in posed.names],
        [case.truth[name] for name in posed.names], 1e-8,
        "parameters read and shown again", floor=1e-6 * case.known["unit"],
    )  # fmt: skip
    asked = asked_rows(case)
    mine = case.model_of(posed.values(free)).row_logliks(case.recorded, asked)
    theirs = posed.row_logliks(free)
    grouped = len(np.unique(case.recorded.groups)) < len(mine)
    if grouped:
        firsts = np.unique(case.recorded.groups, return_index=True)[1]
        sums = np.bincount(case.recorded.groups, theirs)
        theirs = np.zeros(len(mine))
        theirs[firsts] = sums
    simulated = case.spec.noise.startswith("correlated") and len(case.labels) > 2
    close(theirs[asked], mine[asked], SIMULATED if simulated else CLOSE, "log-likelihood of rows")
    weights = case.recorded.weights
    if grouped and case.spec.weights != "none":
        return
    total = float(theirs.sum()) if grouped else float(weights @ theirs)
    close(posed.evaluation(free)[0], total, CLOSE_SUM, "sum of the log-likelihoods of rows")


def derivatives(compared: Compared) -> None:
    """Scores and Hessians are the derivatives of the log-likelihood."""
    posed, free = compared.posed, compared.free
    _, score, hessian = posed.evaluation(free)
    step = 1e-5 * np.maximum(np.abs(free), 0.3)
    numeric, bent = np.empty(len(free)), np.empty((len(free), len(free)))
    for i in range(len(free)):
        away = np.zeros(len(free))
        away[i] = step[i]
        above, below = posed.evaluation(free + away), posed.evaluation(free - away)
        numeric[i] = (above[0] - below[0]) / (2.0 * step[i])
        bent[i] = (above[1] - below[1]) / (2.0 * step[i])
    close(score, numeric, CLOSE_SLOPE, "score", floor=float(np.abs(numeric).max()))
    if np.isfinite(hessian).all():
        close(hessian, bent, CLOSE_SLOPE, "Hessian", floor=float(np.abs(bent).max()))
        close(hessian, hessian.T, CLOSE, "symmetry", floor=float(np.abs(bent).max()))


def residuals(compared: Compared) -> None:
    """What a row says of a noise is the slope of its log-likelihood in the mean, by the scale."""
    case, spec = compared.case, compared.spec
    if spec.door != "fit" or spec.noise != "normal" or spec.rule == "ranked":
        raise NotAskedError("no residuals that are means of the noise")
    asked, values = asked_rows(case), compared.posed.values(compared.free)
    theirs = compared.posed.residuals(compared.free)
    scales, offset = scales_of(case, values), case.known["offset"]
    for j in range(len(case.labels)):
        step = 1e-4 * scales * (np.arange(len(case.labels)) == j)
        above, below = (
            case.model_of(values, offset=offset + sign * step).row_logliks(case.recorded, asked)
            for sign in (1.0, -1.0)
        )
        slope = (above - below) / 2e-4
        close(theirs[asked, j], slope[asked], 1e-5, f"residuals of {case.labels[j]}")


def kernels_agree(compared: Compared) -> None:
    """Compiled kernels return what the NumPy ones do."""
    posed, free = compared.posed, compared.free
    for backend in posed.backends:
        for name, one, other in zip(
            ("log-likelihood", "score", "Hessian"), posed.evaluation(free),
            posed.evaluation(free, backend), strict=True,
        ):  # fmt: skip
            size = float(np.abs(np.asarray(other)).max())
            close(one, other, 1e-9, f"{name} by the kernels for {backend}", floor=size)


# optima


def optimum(compared: Compared) -> None:
    """A fit that says it converged is at an optimum, and no climb from the truth ends above it."""
    result = compared.result
    at_fit = library.of_fit(result)
    free = np.asarray(result.solution.free)
    total, score, hessian = at_fit.evaluation(free)
    if result.converged:
        close(result.llf, total, 1e-9, "log-likelihood of the fit")
    if not result.converged or result.solution.held:
        raise NotAskedError("the fit did not converge, or is at a boundary")
    errors = np.sqrt(np.abs(np.diag(np.linalg.pinv(hessian))))
    assert np.abs(score * errors).max() < 1e-2, (
        f"slope at the optimum: {np.abs(score * errors).max():.3g} standard errors"
    )
    start = compared.free
    if set(at_fit.names) != set(compared.posed.names):
        raise NotAskedError("the fit is simpler than the problem")

    def downhill(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            loglik, slope, _ = at_fit.evaluation(x)
        if not np.isfinite(loglik) or not np.isfinite(slope).all():
            return 1e10, np.zeros(len(x))
        return -loglik, -slope

    climbed = optimize.minimize(downhill, start, jac=True, method="BFGS")
    gain = -climbed.fun - total
    values = at_fit.values(climbed.x)
    sound = climbed.success and all(np.isfinite(list(values.values())))
    scales = scales_of(compared.case, values) if sound else np.ones(1)
    collapsed = scales.min() < 0.1 * scales.max()
    if compared.spec.noise in ("mixture", "mixture each", "types", "talent types", "types by z"):
        collapsed = True  # likelihoods of mixtures have no upper end
    aside = result.starts["loglik"][result.starts["fault"].notna()].to_numpy(dtype=float)
    if np.isclose(aside, total + gain, rtol=0.0, atol=1e-3).any():
        collapsed = True  # the fit came there and says what is wrong with it
    most = BETWEEN_OPTIMA if searched(compared) else AT_OPTIMUM + 1e-8 * abs(total)
    assert not (sound and not collapsed) or gain <= most, (
        f"a climb from the truth gains {gain:.3g} on log-likelihood {total:.6g}"
    )


CLOSE_COVARIANCE = 1e-3
"""Difference of two covariances, in standard errors."""


def covariances(compared: Compared) -> None:
    """Observed covariances are the inverse of the information, by the slopes of what is shown."""
    result = compared.result
    free = np.asarray(result.solution.free)
    if result.covariance.kind != "observed" or not result.converged or result.solution.held:
        raise NotAskedError("the errors are not those of the information")
    if compared.spec.noise == "laplace":
        raise NotAskedError("the log-likelihood has kinks")
    if compared.spec.noise.startswith("correlated") and compared.n_outcomes > 2:
        raise NotAskedError("the information is that of a simulation with other points")
    at_fit = library.of_fit(result)
    _, _, hessian = at_fit.evaluation(free)
    slopes = slopes_of(lambda at: list(at_fit.values(at).values()), free)
    wanted = slopes @ np.linalg.solve(-hessian, slopes.T)
    same_covariance(result.cov_params(), wanted, "covariance of the estimates")


def slopes_of(function: Callable[[Array], Any], at: Array, size: float = 1e-5) -> Array:
    """Return how numbers (m,) move with each argument (p,), by central differences: (m, p)."""
    columns = []
    for i, step in enumerate(size * np.maximum(np.abs(at), 0.3)):
        away = step * (np.arange(len(at)) == i)
        above, below = (np.asarray(function(at + sign * away)) for sign in (1.0, -1.0))
        columns.append((above - below) / (2.0 * step))
    return np.column_stack(columns)


def same_covariance(found: Any, wanted: Array, what: str) -> None:
    """Assert that covariances agree, in standard errors, where they are there."""
    found, size = np.asarray(found), np.sqrt(np.diag(wanted))
    size = np.outer(size, size)
    close(found / size, np.where(np.isnan(found), np.nan, wanted / size), CLOSE_COVARIANCE, what)


def counted_rows(case: Case) -> float:
    """Return how many rows count."""
    weights = case.recorded.weights
    return float(weights.sum() if case.spec.weights == "frequency" else (weights > 0).sum())


def squared(case: Case, scores: Array) -> Array:
    """Return summed outer products of unweighted scores (n, p), as weights count rows."""
    weights = case.recorded.weights
    counts = weights if case.spec.weights == "frequency" else weights**2
    return (scores * counts[:, None]).T @ scores


def sandwiches(compared: Compared) -> None:
    """HC1 is the sandwich of the rows' scores, by differences of their log-likelihoods."""
    case, spec = compared.case, compared.spec
    if spec.noise == "laplace" or (spec.noise.startswith("correlated") and compared.n_outcomes > 2):
        raise NotAskedError("the log-likelihood has kinks, or is simulated")
    if spec.panel == "people" or spec.errors == "clustered" or spec.index == "unknown":
        raise NotAskedError("rows are not independent, or their order is that of a search")
    held = replace(case, spec=replace(spec, table="pandas"))
    same_sandwich(case, library.fit(held, covariance="HC1"))


def same_sandwich(case: Case, result: Any) -> None:
    """Assert that HC1 errors of a fit are those of its rows' scores, by numeric slopes."""
    free, at_fit = np.asarray(result.solution.free), library.of_fit(result)
    if not result.converged or result.solution.held:
        raise NotAskedError("the fit did not converge, or is at a boundary")
    scores = slopes_of(at_fit.row_logliks, free)
    if np.abs(scores).max(axis=0).min() < 1e-6:
        raise NotAskedError("a score vanishes in every row, as that of a loading of zero")
    bread = np.linalg.pinv(-at_fit.evaluation(free)[2], hermitian=True)
    rows, slopes = counted_rows(case), slopes_of(lambda at: list(at_fit.values(at).values()), free)
    middle = squared(case, scores) * rows / (rows - len(free))
    same_covariance(result.cov_params(), slopes @ bread @ middle @ bread @ slopes.T, "HC1")


def binary_outcomes(compared: Compared) -> None:
    """A probit with selection has the derivatives and the sandwich of its log-likelihood."""
    case, spec = compared.case, compared.spec
    if spec.door != "sample_selection" or spec.outcome != "recorded" or spec.response != "itself":
        raise NotAskedError("no outcome to cut in two")
    if spec.errors == "clustered":
        raise NotAskedError("rows are not independent")
    outcome = case.table["y"]
    cut = (outcome > outcome.median()).astype(float).where(outcome.notna())
    held = replace(spec, table="pandas")
    binary = replace(case, table=case.table.assign(y=cut), spec=held)
    result = library.fit(binary, binary=True, covariance="HC1")
    at_fit = library.of_fit(result)
    at = np.asarray(result.solution.free) * 0.9 + 0.02
    weights = case.recorded.weights
    score = slopes_of(at_fit.row_logliks, at).T @ weights
    close(at_fit.evaluation(at)[1], score, CLOSE_SLOPE, "score", float(np.abs(score).max()))
    same_sandwich(binary, result)


def two_steps(compared: Compared) -> None:
    """Robust errors of two steps are those of their stacked equations, by numeric slopes."""
    case, spec, labels = compared.case, compared.spec, compared.case.labels
    if spec.door in ("fit", "ordered") or spec.shared != "none":
        raise NotAskedError("there are no two steps, or their equations share parameters")
    ways = {"method": "two-step"} | ({"covariance": "robust"} if spec.errors != "clustered" else {})
    result = library.fit(case, compared.folder, **ways)
    recorded, unit = case.recorded, case.known["unit"]
    first = [("selection", term) for term in case.designs["selection"]]
    names, here, x, y = list(first), [], [], []
    for j, label in enumerate(labels):
        here.append((recorded.chosen == j) & np.isfinite(recorded.outcome))
        x.append(np.column_stack(list(case.designs[label].values())))
        y.append(np.where(here[j], recorded.outcome / unit, 0.0))
        names += [(label, term) for term in case.designs[label]]
    z = np.column_stack(list(case.designs["selection"].values()))
    sizes = [np.abs(one).mean(axis=0) for one in (z, *x)]  # all is asked in units of size one
    z, x = z / sizes[0], [one / size for one, size in zip(x, sizes[1:], strict=True)]
    turned = np.concatenate([sizes[0], *(size / unit for size in sizes[1:])])
    params = dict(zip(names, [result.params[name] for name in names] * turned, strict=True))
    # The index is positive in the regime True, and where the one outcome is selected.
    side = np.where(recorded.chosen == (spec.door == "switching"), 1.0, -1.0)

    def log_chance(gamma: Array) -> Array:
        return stats.norm.logcdf(side * (z @ gamma))

    def mills(gamma: Array) -> Array:
        return side * np.exp(stats.norm.logpdf(z @ gamma) - log_chance(gamma))

    def equations(at: Array) -> Array:
        """Return what every row adds to the stacked equations (n, p)."""
        gamma, rest = at[: len(first)], at[len(first) :]
        parts, ratio, place = [slopes_of(log_chance, gamma, 1e-4)], mills(gamma), 0
        for j in range(len(labels)):
            regressors = np.column_stack([x[j], ratio])
            own = rest[place : place + regressors.shape[1]]
            place += regressors.shape[1]
            parts.append(regressors * (here[j] * (y[j] - regressors @ own))[:, None])
        return np.column_stack(parts)

    gamma = np.array([params[name] for name in first])
    at, kept, ratio = list(gamma), list(range(len(first))), mills(gamma)
    for j, label in enumerate(labels):
        own = np.array([params[label, term] for term in case.designs[label]])
        weights = recorded.weights * here[j] * ratio
        kept += range(len(at), len(at) + len(own))
        at += [*own, weights @ (y[j] - x[j] @ own) / (weights @ ratio)]
    scores, weights = equations(np.array(at)), recorded.weights
    norm = np.sqrt((scores**2).mean(axis=0))
    total = np.abs(weights @ scores) / (norm * len(scores))
    assert total.max() < 1e-6, f"the two steps do not solve their equations: {total.max():.2g}"
    bread = np.linalg.inv(slopes_of(lambda to: weights @ equations(to) / norm, np.array(at), 1e-4))
    scores, rows = scores / norm, counted_rows(case)
    if spec.errors == "clustered":
        blocks = case.table["block"].to_numpy()
        sums = np.array([(weights[:, None] * scores)[blocks == b].sum(axis=0)
                         for b in np.unique(blocks[weights > 0])])  # fmt: skip
        middle = sums.T @ sums * len(sums) / (len(sums) - 1.0)
    else:
        middle = squared(case, scores) * rows / (rows - 1.0)
    wanted = np.sqrt(np.diag(bread @ middle @ bread.T))[kept]
    found = np.array([result.bse[name] for name in names]) * turned
    close(found / wanted, np.ones_like(wanted), CLOSE_COVARIANCE, "errors of two steps")


# expectations


def given(values: Array, here: Array) -> Array:
    """Return values (m, n, ...) where `here`, nan elsewhere."""
    return np.where(here, values, np.nan)


def predictions(compared: Compared) -> None:
    """Means, probabilities, and means given the choice, of every row, are those of simulations."""
    fit, (latent, chosen) = compared.of_truth, compared.draws
    unit, labels = compared.case.known["unit"], compared.case.labels
    n, selects = latent.shape[1], compared.spec.door == "sample_selection"
    means = np.asarray(fit.predict(compared.rows, kind="latent")).reshape(n, -1)
    wanted = compared.case.model_of(compared.case.truth)
    weights = np.exp(np.column_stack([atom.log_weight for atom in wanted.atoms]))
    each = np.stack([atom.law.means for atom in wanted.atoms], axis=1)
    exact = (weights[:, :, None] * each).sum(axis=1) / weights.sum(axis=1)[:, None]
    known = np.where(compared.case.known["described"], 0.0, np.nan)
    close(means, exact[:, : len(labels)] + known, 1e-7, "latent means", floor=unit)
    scales = np.asarray(fit.predict(compared.rows, kind="scale")).reshape(n, -1)
    lost = compared.spec.scale == "moving"  # else a scale is known without covariates
    exact = scales_of(compared.case, compared.case.truth) + (known if lost else 0.0)
    close(scales, exact, 1e-7, "scales of noise", floor=unit)
    chance = np.asarray(fit.predict(compared.rows, kind="chance")).reshape(n, -1)
    for j in range(chance.shape[1]):
        drawn(chance[:, j], (chosen == j).astype(float), 1.0, f"probability of {labels[j]}")
    picked = np.take_along_axis(latent, np.maximum(chosen, 0)[:, :, None], axis=2)[:, :, 0]
    outcome = np.asarray(fit.predict(compared.rows, kind="outcome")).ravel()
    drawn(outcome, given(picked, chosen == 0) if selects else picked, unit, "mean outcome")
    by_choice = fit.predict(compared.rows, kind="given_seen")
    for label, seen in by_choice.columns if not selects else []:
        a, b = labels.index(label), labels.index(seen)
        if np.isnan(known).any():
            continue
        drawn(
            by_choice[label, seen], given(latent[:, :, a], chosen == b), unit,
            f"mean of {label} where {seen} is chosen",
        )  # fmt: skip
    if selects:
        for seen, j in ((True, 0), (False, 1)):
            drawn(
                by_choice[seen], given(latent[:, :, 0], chosen == j), unit,
                f"mean where selected is {seen}",
            )  # fmt: skip


def levels_of(compared: Compared) -> Array:
    """Return draws (m, n, k) of what the outcome is the logarithm of, where they have a mean."""
    if compared.spec.response == "itself":
        raise NotAskedError("the outcome is no logarithm")
    latent = compared.draws[0][:, :, : compared.n_outcomes]
    levels = np.exp(latent) - (compared.spec.response == "log1p")
    if not (np.isfinite(levels.max()) and levels.max() < 1e4 * levels.mean()):
        raise NotAskedError("draws of levels have no mean to speak of")
    return levels


def prediction_levels(compared: Compared) -> None:
    """Means of levels of a logarithm are means of exponentials."""
    levels, described = levels_of(compared), compared.case.known["described"]
    fit, chosen, labels = compared.of_truth, compared.draws[1], compared.case.labels
    found = np.asarray(fit.predict(compared.rows, kind="latent", scale="level"))
    found = found.reshape(levels.shape[1], -1)
    assert np.array_equal(np.isnan(found), ~described), "levels that are missing"
    drawn(np.where(described, found, levels.mean(axis=0)), levels, 1.0, "means of levels")
    selects = compared.spec.door == "sample_selection"
    picked = levels[:, :, 0] if selects else np.take_along_axis(
        levels, np.maximum(chosen, 0)[:, :, None], axis=2
    )[:, :, 0]  # fmt: skip
    outcome = np.asarray(fit.predict(compared.rows, kind="outcome", scale="level")).ravel()
    drawn(outcome, given(picked, chosen == 0) if selects else picked, 1.0, "mean level")
    if not described.all():
        return
    by_choice = fit.predict(compared.rows, kind="given_seen", scale="level")
    for column in by_choice.columns:
        label, seen = (labels[0], column) if selects else column
        here = chosen == (int(not seen) if selects else labels.index(seen))
        drawn(
            by_choice[column], given(levels[:, :, labels.index(label)], here), 1.0,
            f"mean level of {label} given {seen}",
        )  # fmt: skip


LEVEL = 0.9


def intervals(compared: Compared) -> None:
    """Intervals are symmetric in what has no bounds: logits, and logarithms of the distance."""
    fit, spec = compared.of_truth, compared.spec
    if "types" in spec.noise:
        raise NotAskedError("chances of types are not predicted with errors")
    rows = few_cases(compared.case, FEW_CASES)
    z = stats.norm.ppf(0.5 + 0.5 * LEVEL)
    if np.isfinite(fit.covariance.df):
        z = stats.t.ppf(0.5 + 0.5 * LEVEL, fit.covariance.df)
    asked = [("chance", "model", 0.0), ("scale", "model", 0.0)]
    asked += [(kind, "model", -np.inf) for kind in ("latent", "outcome", "given_seen")]
    if spec.response != "itself" and spec.noise in ("normal", "correlated"):
        bound = -1.0 if spec.response == "log1p" else 0.0
        asked += [(kind, "level", bound) for kind in ("latent", "outcome", "given_seen")]
    for kind, scale, bound in asked:
        table = fit.predict(rows, kind=kind, scale=scale, level=LEVEL)
        at, error, low, high = np.asarray(table).reshape(len(table), -1, 4).transpose(2, 0, 1)
        sound = np.isfinite(error) & (at > bound) & ((kind != "chance") | (at < 1.0))
        at, error, low, high = (one[sound] for one in (at, error, low, high))
        if kind == "chance":
            link, slope = special.logit, 1.0 / (at * (1.0 - at))
        elif np.isfinite(bound):
            link, slope = (lambda x, bound=bound: np.log(x - bound)), 1.0 / (at - bound)
        else:
            link, slope = (lambda x: x), np.ones_like(at)
        reach = z * slope * error
        # An end within rounding of 1 has no logit to compare.
        usual = reach + np.abs(link(at)) < 12.0 if kind == "chance" else reach < np.inf
        if np.isfinite(bound):
            usual &= reach < 20.0
        for end, sign in ((low, -1.0), (high, 1.0)):
            with np.errstate(all="ignore"):
                away = (link(end) - link(at))[usual]
            close(
                away, sign * reach[usual], 1e-6, f"ends of intervals of {kind}, {scale}",
                floor=1e-6 + float(np.max(np.abs(reach[usual]), initial=0.0)),
            )  # fmt: skip


def scales_of_absent(compared: Compared) -> None:
    """In long data a noise scale is known where the case has a row that says its covariates."""
    case, spec = compared.case, compared.spec
    if spec.layout != "long" or spec.noise != "normal" or searched(compared):
        raise NotAskedError("one row per case, or a search")
    noise = ss.noises.Independent(scale="~ price")
    fit = library.fit(case, compared.folder, noise=noise)
    found = fit.predict(compared.rows, kind="scale")
    for place, label in enumerate(case.labels):
        price = np.where(case.known["open"][:, place], case.known["prices"][:, place], np.nan)
        at = (fit.params[label, f"log scale: {term}"] for term in ("Intercept", "price"))
        wanted = np.exp(next(at) + next(at) * price)
        close(found[label], wanted, 1e-8, f"scales of {label}", 1e-6 * case.known["unit"])


def averaged(
    compared: Compared, draws: Array, condition: Array | None = None
) -> tuple[float, float]:
    """Return the weighted mean of draws (m, n), where a condition holds, and its error."""
    weights = np.broadcast_to(compared.case.recorded.weights, draws.shape).copy()
    if condition is not None:
        weights = weights * condition
    mean = (weights * draws).sum() / weights.sum()
    by_draw = (weights * (draws - mean)).sum(axis=1) / weights.sum(axis=1).mean()
    return float(mean), float(by_draw.std() / np.sqrt(len(draws)))


def same_mean(found: float, wanted: tuple[float, float], unit: float, what: str) -> None:
    mean, error = wanted
    assert abs(found - mean) <= MONTE_CARLO * error + 1e-4 * unit, (
        f"{what}: {found:.6g}, but {mean:.6g} ± {error:.2g} by simulation"
    )


def effects(compared: Compared) -> None:
    """Average outcomes, probabilities and treatment effects are those of simulations."""
    fit, (latent, chosen) = compared.of_truth, compared.draws
    unit, labels = compared.case.known["unit"], compared.case.labels
    options = {"covariates": "fixed", "data": compared.rows}
    if compared.rows is not None and compared.spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    selects = compared.spec.door == "sample_selection"
    table = fit.choice_probabilities(**options).table.set_index("alternative")["estimate"]
    for j, label in enumerate(labels):
        same_mean(table[label], averaged(compared, (chosen == j) * 1.0), 1.0, f"share of {label}")
    described = compared.case.known["described"]
    everywhere = described.all(axis=1)
    outcomes = fit.potential_outcomes(**options).table
    for row in outcomes.itertuples():
        place = labels.index(row.alternative)
        here = everywhere
        if row.group != "everyone":
            here = here & (chosen == labels.index(row.group))
        same_mean(
            row.estimate, averaged(compared, latent[:, :, place], here), unit,
            f"mean outcome of {row.alternative} for {row.group}",
        )  # fmt: skip
    if selects:
        return
    to, versus = len(labels) - 1, 0
    change, both = latent[:, :, to] - latent[:, :, versus], described[:, [to, versus]].all(axis=1)
    table = fit.treatment_effects(labels[to], labels[versus], **options).table.set_index("effect")
    every = np.ones_like(chosen, dtype=bool)
    for name, here in (("ATE", every), ("ATT", chosen == to), ("ATU", chosen != to)):
        same_mean(table["estimate"][name], averaged(compared, change, here & both), unit, name)


def groups_of_choosers(compared: Compared) -> None:
    """Outcomes and effects in the groups of those who choose an alternative, also of levels."""
    fit, (latent, chosen) = compared.of_truth, compared.draws
    labels, described = compared.case.labels, compared.case.known["described"]
    if compared.spec.door == "sample_selection":
        raise NotAskedError("there is one outcome")
    if compared.rows is not None and compared.spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    to, versus = len(labels) - 1, 0
    both = described[:, [to, versus]].all(axis=1)
    names = {"of": labels[to], "versus": labels[versus]}
    scales = ["model"] + ["level"] * (compared.spec.response != "itself")
    for scale in scales:
        values = latent if scale == "model" else levels_of(compared)
        unit = compared.case.known["unit"] if scale == "model" else 1.0
        options = {"covariates": "fixed", "data": compared.rows, "scale": scale}
        table = fit.heterogeneity(*names.values(), **options).table
        found = table.set_index(["group", "of"])["estimate"]
        wanted = {
            f"{labels[to]} chosen": (chosen == to) & both,
            f"{labels[to]} not chosen": (chosen != to) & both,
        }
        of = {
            labels[to]: values[:, :, to], labels[versus]: values[:, :, versus],
            "effect": values[:, :, to] - values[:, :, versus],
        }  # fmt: skip
        for name, draws in of.items():
            for group, here in wanted.items():
                what = f"{scale} of {name} where {group}"
                same_mean(found[group, name], averaged(compared, draws, here), unit, what)
            first, second = (found[group, name] for group in wanted)
            close(found["difference", name], first - second, 1e-9, "difference of groups", unit)
        made = fit.treatment_effects(*names.values(), **options).table
        if scale == "level":
            made = made[~made["unit"].str.contains("%|per cent")]
        made = made.set_index("effect")["estimate"]
        close([found[group, "effect"] for group in wanted], made[["ATT", "ATU"]], 1e-9, "effects",
              unit)  # fmt: skip
        mean = averaged(compared, of["effect"], np.broadcast_to(both, chosen.shape))
        same_mean(made["ATE"], mean, unit, f"ATE of the {scale}")


def policies(compared: Compared) -> None:
    """A policy recommends the best mean, net of known costs, and is worth what it promises."""
    case, spec, fit, labels = compared.case, compared.spec, compared.of_truth, compared.case.labels
    if spec.door != "fit" or not case.known["described"].all():
        raise NotAskedError("some outcomes have no mean, or regimes are not chosen for an outcome")
    if compared.rows is not None and spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    unit, (latent, chosen) = case.known["unit"], compared.draws
    means = np.asarray(fit.predict(compared.rows, kind="latent"))
    each = np.arange(len(means))
    weights = case.recorded.weights
    for goal in ("largest", "smallest"):
        sign = 1.0 if goal == "largest" else -1.0
        cost = case.known["cost"] if spec.rule in ("max", "min") else 0.0
        worth = np.where(case.known["open"], sign * means - cost, -np.inf)
        order = np.argsort(-worth, axis=1)
        best, margin = order[:, 0], worth[each, order[:, 0]] - worth[each, order[:, 1]]
        found = fit.policy(compared.rows, goal=goal, covariates="fixed")
        sure = margin > 1e-9 * unit
        names = np.array(labels, dtype=object)[best]
        assert (np.asarray(found.recommended)[sure] == names[sure]).all(), f"{goal}: recommended"
        close(found.rows["expected"], means[each, best], 1e-9, f"{goal}: expected", unit)
        margin = np.where(np.isinf(margin), np.nan, margin)
        close(found.rows["margin"], margin, 1e-9, f"{goal}: margin", unit)
        picked = np.take_along_axis(latent, chosen[:, :, None], axis=2)[:, :, 0]
        drawn(found.rows["expert"], picked, unit, f"{goal}: mean of the expert")
        value = found.value.table.set_index("quantity")["estimate"]
        worth_it = np.average(means[each, best], weights=weights)
        close(value["policy"], worth_it, 1e-8, f"{goal}: value of the policy", unit)
        same_mean(value["expert"], averaged(compared, picked), unit, f"{goal}: value of the expert")
        alone = {f"everyone in {label}": np.average(means[:, j], weights=weights)
                 for j, label in enumerate(labels)}  # fmt: skip
        for name, mean in ({"expert": value["expert"]} | alone).items():
            close(value[name], mean, 1e-8, f"{goal}: {name}", unit)
            close(value[f"policy - {name}"], worth_it - mean, 1e-8, f"{goal}: less {name}", unit)
    default = fit.policy(compared.rows, covariates="fixed").goal
    assert default == ("smallest" if spec.rule == "min" else "largest"), f"goal: {default}"


def priced(case: Case, label: Any, term: str) -> str:
    """Return the column of a term: a shared price is one column per alternative."""
    return f"price_{case.labels.index(label)}" if term == "price" else term


def typical_rows(compared: Compared) -> None:
    """Effects at means are those of a row whose columns are at their means by weight."""
    case, spec, fit, table = compared.case, compared.spec, compared.of_truth, compared.case.table
    if spec.layout == "long" or compared.rows is not None:
        raise NotAskedError("no rows of one value per column, or none that are held")
    weights = case.recorded.weights
    made: dict[str, Any] = {}
    for name in table:
        if table[name].dtype.kind in "fiu":
            made[str(name)] = [np.average(table[name], weights=weights)]
        else:
            made[str(name)] = [pd.Series(weights).groupby(table[name].to_numpy()).sum().idxmax()]
    row = pd.DataFrame(made)
    options = {"covariates": "fixed"}
    asked: dict[str, Callable[..., Any]] = {
        "choice probabilities": fit.choice_probabilities, "outcomes": fit.potential_outcomes,
    }  # fmt: skip
    if spec.formula != "intercept":
        asked["marginal effects"] = partial(fit.marginal_effects, "x")
    designs = {
        name: {term: column_of(priced(case, name, term), row) for term in terms}
        for name, terms in case.designs.items()
    }
    offset = {"offset": np.zeros((1, len(case.labels)))}
    if spec.offset == "none":
        typical = replace(case, designs=designs, known=case.known | offset)
        found = fit.potential_outcomes(at="means", **options).table
        found = found[found["group"] == "everyone"]["estimate"]
        if "types" not in spec.noise:
            means = means_of(typical, case.truth)[0]
            close(found, means, 1e-8, "outcomes at means of covariates", case.known["unit"])
    for name, ask in asked.items():
        wanted, found = ask(data=row, **options).table, ask(at="means", **options).table
        for column in ("estimate", "std_error"):
            floor = max(1e-6, float(np.nanmax(np.abs(wanted[column]), initial=0.0)))
            close(found[column], wanted[column], 1e-6, f"{name} at means: {column}", floor)


CLOSE_EFFECT = 2e-3
"""Difference of two marginal effects, relative to the largest: both are differences."""


def marginal_effects(compared: Compared) -> None:
    """Average marginal effects are differences of predictions, averaged by weight."""
    case, fit, table = compared.case, compared.of_truth, compared.case.table
    if case.spec.formula == "intercept":
        raise NotAskedError("there is no covariate")
    if compared.rows is not None and case.spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    if case.spec.noise.startswith("correlated") and compared.n_outcomes > 2:
        raise NotAskedError("averages of what is simulated take fewer points")
    kinds = ["chance"] if case.spec.door == "sample_selection" else ["chance", "outcome"]
    step = 1e-3 * float(table["x"].std())
    changes = {"x": [("dy/dx", table["x"] + step, table["x"] - step, 2.0 * step)]}
    if case.spec.formula in ("categories", "labels"):
        changes["g"] = [(f"{level} - u", level, "u", 1.0) for level in "vw"]
    for kind in kinds:
        for name, each in changes.items():
            found = fit.marginal_effects(name, compared.rows, of=kind, covariates="fixed").table
            for change, after, before, size in each:
                up, down = (
                    np.asarray(fit.predict(table.assign(**{name: values}), kind=kind))
                    for values in (after, before)
                )
                wanted = np.average((up - down) / size, axis=0, weights=case.recorded.weights)
                own = found.loc[found["change"] == change, "estimate"]
                least = 1e-6 * (1.0 if kind == "chance" else case.known["unit"])
                floor = float(np.abs((up - down) / size).max()) + least / np.mean(size)
                close(own, np.atleast_1d(wanted), CLOSE_EFFECT, f"{change} of {name}", floor)


def types_of_people(compared: Compared) -> None:
    """Chances of types are their parts of the likelihood of a person; tables count by weight."""
    case, spec = compared.case, compared.spec
    if "types" not in spec.noise:
        raise NotAskedError("there are no types")
    if compared.rows is not None:
        raise NotAskedError("only of rows that are held")
    found, asked = compared.of_truth.types(), asked_rows(case)
    people, firsts = np.unique(case.recorded.groups, return_index=True)
    model = case.model_of(case.truth)
    parts = np.column_stack([
        replace(model, atoms=(atom,)).row_logliks(case.recorded, asked)[firsts]
        for atom in model.atoms
    ])  # fmt: skip
    parts = np.exp(parts - parts.max(axis=1, keepdims=True))
    mine = found.people.to_numpy()
    assert len(mine) == len(people), f"{len(mine)} people, not {len(people)}"
    here = asked[firsts]
    close(mine[here], (parts / parts.sum(axis=1, keepdims=True))[here], 1e-7, "chances of types")
    weights = case.recorded.weights
    wanted = {
        "expected people": weights[firsts] @ mine,
        "expected rows": weights @ mine[np.searchsorted(people, case.recorded.groups)],
    }
    for name, values in wanted.items():
        close(found.table.loc[name], values, 1e-9, name)


def sorting_and_gains(compared: Compared) -> None:
    """By how much noise sorts people into alternatives, and how gains are spread, as in draws."""
    fit, (latent, chosen) = compared.of_truth, compared.draws
    unit, labels = compared.case.known["unit"], compared.case.labels
    if compared.spec.door == "sample_selection" or not compared.case.known["described"].all():
        raise NotAskedError("some outcomes have no mean")
    if compared.rows is not None and compared.spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    options = {"covariates": "fixed", "data": compared.rows}
    table = fit.sorting(**options).table
    found = table[table["quantity"] == "advantage by noise"].set_index("alternative")["estimate"]
    for j, label in enumerate(labels):
        noise = latent[:, :, j] - latent[:, :, j].mean(axis=0)
        wanted = averaged(compared, noise, chosen == j)
        same_mean(found[label], wanted, unit, f"advantage by noise in {label}")
    if compared.spec.door != "fit":
        return  # how outcomes of two regimes go together is nobody's business
    gain = latent[:, :, -1] - latent[:, :, 0]
    gains = fit.gains(labels[-1], labels[0], quantiles=[0.2, 0.8], **options).table
    every = gains[gains["group"] == "everyone"].set_index("quantity")
    for quantity, level in (("quantile 0.2", 0.2), ("quantile 0.8", 0.8)):
        at = every["estimate"][quantity]
        share, error = averaged(compared, (gain <= at) * 1.0)
        slack = every["mc_error"][quantity] / max(float(gain.std()), 1e-4 * unit)
        same_mean(level, (share, float(np.hypot(error, slack))), 1.0, f"share below {quantity}")


def simulations(compared: Compared) -> None:
    """Samples drawn from a fit have the outcomes and choices of the model."""
    case, labels, unit = compared.case, compared.case.labels, compared.case.known["unit"]
    if case.spec.outcome != "recorded" or case.spec.index == "partly":
        raise NotAskedError("what was not recorded is not drawn")
    fit, (latent, chosen) = compared.of_truth, compared.draws
    if case.spec.door == "sample_selection":
        outcome = given(latent[:, :, 0], chosen == 0)
    else:
        outcome = np.take_along_axis(latent, chosen[:, :, None], axis=2)[:, :, 0]
    samples = [fit.simulate(compared.rows, seed=seed) for seed in range(SAMPLES)]
    column = np.array([np.asarray(sample["y"], dtype=float) for sample in samples])
    column = column[:, : outcome.shape[1]]
    if case.spec.response != "itself":
        column = np.log(column) if case.spec.response == "logarithm" else np.log1p(column)
    if case.spec.layout == "wide":
        for name, values in (("mean", column), ("spread", column**2 / unit)):
            wanted = outcome if name == "mean" else outcome**2 / unit
            mean, error = np.nanmean(values), np.nanstd(values) / np.sqrt(np.isfinite(values).sum())
            same_mean(np.nanmean(wanted), (mean, error), unit, f"{name} of drawn outcomes")
    if case.spec.index == "known" and case.spec.door == "fit" and case.spec.layout == "wide":
        jobs = np.concatenate([np.asarray(sample["job"], dtype=object) for sample in samples])
        for j, label in enumerate(labels):
            share = (jobs == label) * 1.0
            error = max(share.std(), 0.01) / np.sqrt(len(share))
            same_mean((chosen == j).mean(), (share.mean(), error), 1.0, f"drawn share of {label}")


def decompositions(compared: Compared) -> None:
    """A decomposition begins from the recorded means by weight, and its parts add up."""
    case, spec, labels = compared.case, compared.spec, compared.case.labels
    if spec.door != "fit" or spec.index != "known" or spec.outcome != "recorded":
        raise NotAskedError("no recorded means")
    if compared.rows is not None or not case.known["described"].all():
        raise NotAskedError("only of rows that are held and whole")
    table = compared.of_truth.decompose(labels[1], labels[0], covariates="fixed").table
    parts = table.set_index("part")["estimate"]
    outcome, chosen, weights = case.recorded.outcome, case.recorded.chosen, case.recorded.weights
    means = [np.average(outcome[chosen == j], weights=weights[chosen == j]) for j in (0, 1)]
    unit = case.known["unit"]
    close(parts["gap in the data"], means[1] - means[0], 1e-8, "gap in the data", floor=unit)
    left = parts["gap in the data"] - parts["gap under the model"]
    close(parts["not reproduced"], left, 1e-8, "what is not reproduced", floor=unit)
    latent, picked = compared.draws
    predicted = means_of(case, case.truth)
    at = [
        [averaged(compared, np.broadcast_to(predicted[:, j], picked.shape), picked == g)
         for j in (0, 1)] for g in (0, 1)
    ]  # fmt: skip
    (of_a, _), (of_b, _) = (averaged(compared, latent[:, :, j], picked == j) for j in (1, 0))
    mean = np.array([[one[0] for one in each] for each in at])  # group, outcome
    error = max(one[1] for each in at for one in each) + max(
        averaged(compared, latent[:, :, j], picked == j)[1] for j in (0, 1)
    )
    for reference, share in (("both", 0.5), (labels[1], 1.0), (labels[0], 0.0)):
        table = compared.of_truth.decompose(
            labels[1], labels[0], reference=reference, covariates="fixed"
        ).table
        parts = table.set_index("part")["estimate"]
        explained = mean[1] - mean[0]
        paid = mean[:, 1] - mean[:, 0]
        wanted = {
            "covariates": share * explained[1] + (1.0 - share) * explained[0],
            "pay": share * paid[0] + (1.0 - share) * paid[1],
            "gap under the model": of_a - of_b,
        }
        wanted["selection"] = wanted["gap under the model"] - wanted["covariates"] - wanted["pay"]
        for name, value in wanted.items():
            same_mean(parts[name], (value, error), unit, f"{name}, reference {reference}")


SHAPES = (
    "normal", "logistic", "laplace", "gumbel", "gumbel_min", "student", "student5", "mixture",
    "mixture each",
)  # fmt: skip
"""Noise that is independent across alternatives: those who move under another rule are drawn."""


def counterfactuals(compared: Compared) -> None:
    """What happens when an alternative is closed or subsidised is what simulation says."""
    if compared.spec.door != "fit":
        raise NotAskedError("selection models have no counterfactuals")
    case, fit, labels = compared.case, compared.of_truth, compared.case.labels
    unit, (latent, chosen) = case.known["unit"], compared.draws
    before = np.take_along_axis(latent, chosen[:, :, None], axis=2)[:, :, 0]
    cost = case.known["cost"].copy()
    cost[:, 1] -= 0.2 * unit
    asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "subsidy": ({"subsidy": {labels[1]: 0.2 * unit}}, {"cost": cost}),
    }
    if len(labels) == 3 and compared.spec.rule != "ranked":
        shut = case.known["open"].copy()
        shut[:, 1] = False
        asked["closing"] = ({"close": [labels[1]]}, {"open": shut})
    if compared.spec.rule == "transforms":
        del asked["subsidy"]
    spec = compared.spec
    refused = spec.noise not in SHAPES or spec.cost in ("estimated", "by price")
    turned = {"max": "min", "min": "max"}.get(spec.rule)
    if turned and not refused and compared.result.converged:
        asked["another rule"] = ({"rule": turned}, {"cost": np.zeros_like(cost)})
    if compared.rows is not None and compared.spec.weights != "none":
        raise NotAskedError("a new table has no weights")
    if not asked or compared.spec.rule == "ranked":
        raise NotAskedError("nothing to close or to subsidise")
    rng = np.random.default_rng(compared.spec.seed)
    for name, (options, known) in asked.items():
        found = fit.counterfactual(covariates="fixed", data=compared.rows, **options)
        if "rule" in options:
            case = replace(case, spec=replace(case.spec, rule=options["rule"]))
        new_latent, now = case.model_of(case.truth, **known).draw(DRAWS, rng)
        after = np.take_along_axis(new_latent, now[:, :, None], axis=2)[:, :, 0]
        table = found.outcomes.table
        table = table[table["quantity"].str.startswith("mean")].set_index("when")["estimate"]
        same_mean(table["before"], averaged(compared, before), unit, f"{name}: mean before")
        same_mean(table["after"], averaged(compared, after), unit, f"{name}: mean after")
        shares = found.shares.table.set_index(["alternative", "when"])["estimate"]
        for j, label in enumerate(labels):
            wanted = averaged(compared, (now == j) * 1.0)
            if (label, "after") in shares.index:
                same_mean(shares[label, "after"], wanted, 1.0, f"{name}: share of {label}")


def standard_errors(compared: Compared) -> None:
    """Standard errors of effects and predictions are absolute slopes, as differences have them.

    Estimates are made to vary along one random direction alone, so that an error is one slope.
    """
    fit, labels = compared.of_truth, compared.case.labels
    free = np.asarray(fit.solution.free, dtype=float)
    rng = np.random.default_rng(compared.spec.seed)
    direction = rng.normal(size=len(free)) * np.maximum(np.abs(free), 0.1)
    moving = library.along(fit, 0.01 * direction)
    above, below = (library.at(fit, free + sign * 1e-4 * direction) for sign in (1.0, -1.0))
    rows = compared.rows
    if compared.spec.weights == "none" and compared.spec.panel == "none":
        rows = few_cases(compared.case, FEW_CASES)
    options = {"covariates": "fixed", "data": rows}
    asked: dict[str, Callable[[Any], Any]] = {
        "choice probabilities": lambda fit: fit.choice_probabilities(**options),
        "potential outcomes": lambda fit: fit.potential_outcomes(**options),
    }
    if compared.spec.door != "sample_selection":
        asked["treatment effects"] = lambda fit: fit.treatment_effects(
            labels[-1], labels[0], **options
        )
    if "types" not in compared.spec.noise and compared.spec.formula != "intercept":
        for of in ("chance", "outcome"):
            asked[f"marginal effects on the {of}"] = lambda fit, of=of: fit.marginal_effects(
                "x", of=of, **options
            )
    for name, ask in asked.items():
        table = ask(moving).table
        up, down = (ask(fit).table["estimate"].to_numpy() for fit in (above, below))
        errors = 0.01 * np.abs(up - down) / 2e-4
        unit = 1.0 if name == "choice probabilities" else compared.case.known["unit"]
        size = max(float(np.nanmax(errors)), 1e-4 * unit)
        close(table["std_error"], errors, CLOSE_ERROR, f"standard errors of {name}", 0.05 * size)
    if "types" in compared.spec.noise:
        return
    made = moving.predict(rows, kind="chance", level=0.95)
    found = (
        made.xs("std_error", axis=1, level=-1) if made.columns.nlevels > 1 else made[["std_error"]]
    )
    up, down = (
        np.asarray(fit.predict(rows, kind="chance")).reshape(len(found), -1)
        for fit in (above, below)
    )
    errors = 0.01 * np.abs(up - down) / 2e-4
    size = max(float(np.nanmax(errors)), 1e-4)
    close(found, errors, CLOSE_ERROR, "standard errors of probabilities", 0.05 * size)


def few_cases(case: Case, most: int) -> pd.DataFrame:
    """Return the first rows of a table; of long data those of the first cases."""
    table = case.table
    return table[table["case"] < most] if case.spec.layout == "long" else table.head(most)


def some_cases(case: Case, which: Any) -> pd.DataFrame:
    """Return rows of a table by their places; of long data those of such cases."""
    if case.spec.layout == "long":
        return case.table[case.table["case"].isin(which)]
    return case.table.iloc[which]


# what may not make a difference


def same_fit(compared: Compared, found: Any, wanted: Any, what: str) -> None:
    """Assert that two fits have the same log-likelihood, and parameters where they converged.

    Types that few people have leave the likelihood flat: parameters may differ where it does not.
    """
    close(found.llf, wanted.llf, 1e-8, f"log-likelihood {what}")
    if "types" in compared.spec.noise:
        return
    if found.converged and wanted.converged and list(found.names) == list(wanted.names):
        errors = np.nan_to_num(wanted.bse.to_numpy(), nan=1.0)
        away = np.abs(found.params.to_numpy() - wanted.params.to_numpy())
        worst = float((away / np.maximum(errors, 1e-12)).max())
        assert worst < 1e-2, f"parameters {what} differ by {worst:.3g} standard errors"


def same_errors(found: Any, wanted: Any, what: str) -> None:
    """Assert that two fits have the same standard errors, and lack the same ones."""
    close(found.bse / wanted.bse, wanted.bse / wanted.bse, 1e-3, f"standard errors {what}")


def searched(compared: Compared) -> bool:
    """Say whether where a fit ends may depend on the starts of a search."""
    spec = compared.spec
    return spec.index != "known" or spec.rule == "ranked" or spec.noise not in (
        "normal", "logistic", "gumbel", "gumbel_min"
    )  # fmt: skip


def formats(compared: Compared) -> None:
    """A table in another format, or in files, makes the same fit and the same predictions."""
    plain = replace(compared.case, spec=replace(compared.spec, table="pandas"))
    if compared.spec.table == "pandas":  # only predictions, from another format
        other = replace(compared.case, spec=replace(compared.spec, table="dict"))
        table = library.table_of(other)
        wanted, found = compared.result, None
    else:
        table = library.table_of(compared.case, compared.folder)
        wanted, found = library.fit(plain), compared.result
    if found is not None:
        same_fit(compared, found, wanted, f"of {compared.spec.table}")
    if compared.spec.table == "dask":
        raise NotAskedError("predictions of partitions are written, not returned")
    mine = np.asarray(wanted.predict(plain.table, kind="latent"))
    theirs = np.asarray(wanted.predict(table, kind="latent"))
    close(theirs, mine, 1e-9, f"latent means of {compared.spec.table}", floor=1e-9)


def ordered_categories(compared: Compared) -> None:
    """The first of ordered categories is the base, whatever the table is kept in."""
    case, spec = compared.case, compared.spec
    if spec.formula not in ("categories", "labels") or searched(compared):
        raise NotAskedError("there are no categories, or a search begins from them")
    order = pd.CategoricalDtype(["w", "u", "v"], ordered=True)
    ordered = replace(case, table=case.table.assign(g=case.table["g"].astype(order)))
    name = "g" if spec.formula == "labels" else "C(g)"
    for table in ("pandas", "arrow", "parquet"):
        one = replace(ordered, spec=replace(spec, table=table))
        made = library.fit(one, compared.folder)
        close(made.llf, compared.result.llf, 1e-7, f"log-likelihood of ordered categories, {table}")
        terms = {term for _, term in made.params.index if "[T." in term}
        wanted = {f"{name}[T.{level}]" for level in "uv"}
        assert terms == wanted, f"terms of ordered categories in {table}: {sorted(terms)}"


OF_ESTIMATOR = frozenset({"index", "alternatives", "rule", "noise", "scale", "panel", "units"})
"""Options that the estimator has too."""


def estimator(compared: Compared) -> None:
    """The estimator fits what `fit` does, whatever kind its arrays are of, and refuses dates."""
    case, spec = compared.case, compared.spec
    if set(spec.unusual()) - OF_ESTIMATOR or spec.scale == "moving" or spec.index == "partly":
        raise NotAskedError("the estimator has no such option")
    table = case.table
    kinds = {
        "arrays": (table[["x", "t"]].to_numpy(), table["y"].to_numpy()),
        "a frame and a list": (table[["x", "t"]], table["y"].tolist()),
        "objects": (table[["x", "t"]].astype(object), table["y"].astype(object)),
    }
    for kind, (values, outcome) in kinds.items():
        found = library.estimate(case, values, outcome)
        close(found.llf, compared.result.llf, 1e-7, f"log-likelihood by the estimator, {kind}")
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(len(table)), unit="D")
    for odd in (days, days - days[0]):
        try:
            library.estimate(case, table[["x", "t"]], odd)
        except library.Refused:
            continue
        raise AssertionError(f"outcomes of type {odd.dtype} were taken")


def new_rows(compared: Compared) -> None:
    """The rows of the fit, given as a new table, are predicted alike."""
    fit, table = compared.result, compared.case.table
    if not fit.has_rows:
        raise NotAskedError("the fit has no rows of its own")
    for kind in ("latent", "chance", "outcome"):
        own, new = np.asarray(fit.predict(kind=kind)), np.asarray(fit.predict(table, kind=kind))
        close(new, own, 1e-9, f"{kind} of the rows as a new table", floor=1e-9)
        last = np.arange(len(own))[-FEW_CASES:]
        for some in (last, *last[-4:, None]):  # few rows lack categories, and are in one block
            few = np.asarray(fit.predict(some_cases(compared.case, some), kind=kind))
            close(few, own[some], 1e-9, f"{kind} of {len(some)} rows alone", floor=1e-9)
    options = {"covariates": "fixed"}
    own, new = fit.choice_probabilities(**options), fit.choice_probabilities(table, **options)
    if compared.spec.weights == "none":
        close(new.table["estimate"], own.table["estimate"], 1e-9, "shares of a new table")


def saved(compared: Compared) -> None:
    """A fit that was saved and loaded says the same."""
    fit, path = compared.result, compared.folder / "fit.json"
    fit.save(path)
    loaded, table = ss.load(path), compared.case.table
    close(loaded.llf, fit.llf, 1e-12, "log-likelihood of the loaded fit")
    close(loaded.params, fit.params, 1e-12, "parameters of the loaded fit", floor=1e-12)
    close(loaded.cov_params(), fit.cov_params(), 1e-12, "their covariance", floor=1e-12)
    close(loaded.conf_int(), fit.conf_int(), 1e-12, "intervals", floor=1e-12)
    close(loaded.naive, fit.naive, 1e-12, "least squares of the loaded fit", floor=1e-12)
    for kind in ("latent", "chance", "outcome"):
        close(
            loaded.predict(table, kind=kind), fit.predict(table, kind=kind), 1e-12,
            f"{kind} of the loaded fit", floor=1e-12,
        )  # fmt: skip


def order_of_rows(compared: Compared) -> None:
    """Rows in another order make the same fit."""
    if compared.spec.table != "pandas":
        raise NotAskedError("formats refits such a table already")
    table = compared.case.table
    rng = np.random.default_rng(compared.spec.seed)
    shuffled = table.iloc[rng.permutation(len(table))].reset_index(drop=True)
    if searched(compared) and compared.spec.index == "unknown":
        raise NotAskedError("starts depend on the order of rows")
    other = library.fit(replace(compared.case, table=shuffled), compared.folder)
    if other.converged and compared.result.converged:
        same_fit(compared, other, compared.result, "in another order")


def repeated_rows(compared: Compared) -> None:
    """Frequency weights stand for repeated rows."""
    spec, case = compared.spec, compared.case
    if (
        spec.weights != "frequency"
        or spec.layout == "long"
        or case.recorded.groups.max() < len(case.table) - 1
    ):
        raise NotAskedError("no frequency weights of single rows")
    times = case.table["often"].to_numpy()
    repeated = case.table.iloc[np.repeat(np.arange(len(times)), times)].reset_index(drop=True)
    options = {n: v for n, v in case.options.items() if not n.startswith("weights")}
    alike = replace(case, table=repeated, options=options)
    other = library.fit(alike, compared.folder)
    if other.converged and compared.result.converged and not searched(compared):
        same_fit(compared, other, compared.result, "of repeated rows")
        close(other.nobs, compared.result.nobs, 0.0, "rows that are counted")
        close(other.bic, compared.result.bic, 1e-8, "BIC of repeated rows")
        found, wanted = (fit.choice_probabilities().table for fit in (other, compared.result))
        close(found["estimate"], wanted["estimate"], 1e-6, "shares of repeated rows")
        if np.isfinite(compared.result.bse).all():
            same_errors(other, compared.result, "of repeated rows")
            close(found["std_error"], wanted["std_error"], 1e-4, "their errors", floor=1e-3)
            found, wanted = (fit.naive["std_error"] for fit in (other, compared.result))
            close(found / wanted, wanted / wanted, 1e-6, "errors of least squares, repeated rows")
    if spec.door in ("fit", "ordered"):
        return  # two steps are there for two regimes, and for one
    for errors in ("observed", "robust") if spec.errors != "clustered" else ("clustered",):
        ways = {"method": "two-step", "covariance": errors}
        two_steps = [library.fit(one, compared.folder, **ways) for one in (alike, case)]
        same_errors(*two_steps, f"of repeated rows, {errors} by two steps")
        if spec.formula != "plain" or spec.outcome != "recorded":
            continue
        ways = {"covariance": errors, "endogenous": {"t": "~ base"}}
        with_first_stage = [library.fit(one, compared.folder, **ways) for one in (alike, case)]
        if all(one.converged for one in with_first_stage):
            same_errors(*with_first_stage, f"of repeated rows, {errors} with a first stage")


def weightless_rows(compared: Compared) -> None:
    """Rows of weight zero are as if they were not there."""
    case, spec = compared.case, compared.spec
    counts = case.recorded.weights > 0
    if counts.all() or spec.layout == "long" or searched(compared):
        raise NotAskedError("all rows count, or starts depend on all")
    options, wanted = {}, compared.result
    if spec.errors == "robust" and spec.panel == "none":
        options = {"covariance": "HC1"}
        wanted = library.fit(case, compared.folder, **options)
    table = case.table[counts].reset_index(drop=True)
    other = library.fit(replace(case, table=table), compared.folder, **options)
    same_fit(compared, other, wanted, "without rows of weight zero")
    if other.converged and wanted.converged and list(other.names) == list(wanted.names):
        close(other.bic, wanted.bic, 1e-8, "BIC without rows of weight zero")
        same_errors(other, wanted, "without rows of weight zero")


def chunks(compared: Compared) -> None:
    """Many rows are summed as few are: a table repeated many times has as many times the sums."""
    case = compared.case
    slow = compared.posed.backends == ("joint",) or case.spec.outcome != "recorded"
    times = (MANY_SLOW_ROWS if slow else MANY_ROWS) // len(case.table)
    if case.spec.table not in ("pandas", "dict", "arrow", "polars"):
        raise NotAskedError("files are read by the check of formats")
    if case.spec.layout == "long" or case.spec.door != "fit":
        raise NotAskedError("posed through another door")
    table = pd.concat([case.table] * times, ignore_index=True)
    if case.spec.panel == "people":
        table["who"] = table["who"] + 10_000 * np.repeat(np.arange(times), len(case.table))
    many = library.pose(replace(case, table=table, spec=replace(case.spec, table="pandas")))
    free = many.free(case.truth)
    one = compared.posed.evaluation(compared.free)
    found = many.evaluation(free)
    if case.spec.noise == "types by z":
        raise NotAskedError("weights are shown at the mean of the rows")
    close(found[0], times * one[0], 1e-9, "log-likelihood of repeated rows")
    shown = (
        many.problem.layout.report(free).jacobian,
        compared.posed.problem.layout.report(compared.free).jacobian,
    )
    ours, theirs = (
        np.linalg.lstsq(jacobian.T, score, rcond=None)[0]
        for jacobian, score in zip(shown, (found[1], times * one[1]), strict=True)
    )
    close(ours, theirs, 1e-6, "score of repeated rows", floor=float(np.abs(theirs).max()))


def many_rows(compared: Compared) -> None:
    """Many rows are predicted and averaged as few are, in one block or in several."""
    case, spec, fit = compared.case, compared.spec, compared.of_truth
    if not fit.has_rows:
        raise NotAskedError("formats reads such a table already")
    simulated = spec.noise.startswith("correlated") and compared.n_outcomes > 2
    most = MANY_SIMULATED if simulated else MANY_PREDICTED
    times = most // len(case.recorded.outcome) + 1
    many = pd.concat([case.table] * times, ignore_index=True)
    if spec.layout == "long":
        step = len(case.recorded.outcome)
        many["case"] = many["case"] + step * np.repeat(np.arange(times), len(case.table))
    for kind in ("scale", "chance", "outcome"):
        one, found = (np.asarray(fit.predict(table, kind=kind)) for table in (case.table, many))
        wanted = np.concatenate([one] * times)
        close(found, wanted, 1e-9, f"{kind} of many rows", floor=1e-9)
    if simulated:
        return
    options = {"covariates": "fixed"}
    few, found = (fit.choice_probabilities(table, **options).table for table in (case.table, many))
    for name in ("estimate", "std_error"):
        close(found[name], few[name], 1e-7, f"shares of many rows: {name}", floor=1e-3)


# pages


def pages(compared: Compared) -> None:
    """Two prints of a fit are identical, and count what was there."""
    fit = compared.result
    text = str(fit.summary())
    assert text == str(fit.summary()), "two prints of a summary differ"
    assert ("NOT CONVERGED" in text) != fit.converged, "the summary does not say how it ended"
    weights = compared.case.recorded.weights
    wanted = len(weights) if compared.spec.weights != "frequency" else int(weights.sum())
    if compared.spec.weights == "probability":
        wanted = int((weights > 0).sum())
    assert fit.nobs == wanted, f"{fit.nobs} rows used, not {wanted}"
    assert np.isfinite(fit.llf), "the log-likelihood is no number"
    if compared.spec.layout == "wide":
        people = np.unique(compared.case.table["who"], return_index=True)[1]
        total = weights[people].sum() if compared.spec.panel == "people" else weights.sum()
        expected = np.log(total) * fit.n_parameters - 2.0 * fit.llf
        close(fit.bic, expected, 1e-8, "BIC by people or rows")
    counts, (chosen, labels) = fit.counts, (compared.case.recorded.chosen, compared.case.labels)
    if compared.spec.index == "known" and compared.spec.door != "sample_selection":
        counted = weights if compared.spec.weights == "frequency" else (weights > 0) * 1.0
        expected = [counted[chosen == j].sum() for j in range(len(labels))]
        close(counts.to_numpy(), expected, 1e-12, "counts of alternatives")
    share = float(np.sum(fit.shares))
    if compared.spec.door != "sample_selection":
        assert abs(share - 1.0) < 1e-8, f"shares add up to {share}"


CHECKS: dict[str, Callable[[Compared], None]] = {
    check.__name__: check
    for check in (
        likelihood_of_rows, derivatives, residuals, kernels_agree, chunks, optimum, covariances,
        predictions, prediction_levels, scales_of_absent, intervals, effects,
        groups_of_choosers, policies, typical_rows, sorting_and_gains, marginal_effects,
        types_of_people, decompositions, simulations, counterfactuals, standard_errors, formats,
        ordered_categories,
        estimator, new_rows, many_rows, saved, order_of_rows, repeated_rows, weightless_rows,
        sandwiches, binary_outcomes, two_steps, pages,
    )
}  # fmt: skip


QUICK = frozenset({"likelihood_of_rows", "derivatives", "kernels_agree"})
"""Checks that pose a model and do not fit it."""


def is_slow(spec: Spec) -> bool:
    """Say whether fits of a model take seconds: several kinds of integral or search at once."""
    lost, three = spec.outcome != "recorded", spec.alternatives == "3"
    points = lost or spec.index == "partly" or spec.cost in ("estimated", "by price")
    searched = "types" in spec.noise or spec.noise.startswith("mixture")
    return (
        (spec.noise.startswith(("correlated", "shock")) and (three or points))
        or (searched and (points or spec.index == "unknown"))
        or (lost and (three or spec.noise != "normal" or spec.rule == "transforms"))
    )


@dataclass(frozen=True)
class Outcome:
    """What became of a check: `passed`, `not asked`, `refused`, or `failed`, with the words."""

    kind: str
    words: str = ""


def run(spec: Spec, only: Mapping[str, Any] | None = None) -> dict[str, Outcome]:
    """Make a case and run every check on it."""
    with TemporaryDirectory() as folder:
        return _run(Compared(draw_case(spec), Path(folder)), only)


def _run(compared: Compared, only: Mapping[str, Any] | None) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for name, check in CHECKS.items():
        if only is not None and name not in only:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = _outcome(check, compared)
    return found


def _outcome(check: Callable[[Compared], None], compared: Compared) -> Outcome:
    try:
        check(compared)
    except NotAskedError as reason:
        return Outcome("not asked", str(reason))
    except library.Refused as error:
        return Outcome("refused", f"{type(error).__name__}: {error}")
    except AssertionError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("passed")

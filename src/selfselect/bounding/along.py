"""Bounds along a covariate, by distribution regression (Foresi and Peracchi 1995).

The share of rows with an end at or below a value is a logit in the covariate and its square, one
for each of some values. That is the one assumption bounds along a covariate make; with as few
values as the logit has terms it is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.bounding.bounds import Bounds, BoundsAsked, lower_share, upper_share
from selfselect.bounding.targets import Targets
from selfselect.data.panels import weighted_quantiles
from selfselect.data.rows import Rows, counted_rows
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.inference.dependence import Dependence
from selfselect.inference.statistics import interval_reach
from selfselect.kernels.tails import expit
from selfselect.problem.batch import Batch, Parts
from selfselect.solvers.climb import ROUNDING, Hill, Point, ascend

Array = NDArray[np.float64]

SAMPLE = 20_000
"""Rows from which values of the covariate and of the outcome are chosen."""

BINS = 1_000
"""Values of the covariate that are told apart; more are put into as many bins of equal size."""

PLACES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Quantiles of the covariate at which bounds are given."""

VALUES = 39
"""Values of the outcome that have a logit each."""

DEGREE = 2

FLATTEST = 1e-15
"""Smallest curvature in any direction, as a share of the largest."""

FEWEST = 5.0
"""Rows on either side of a value below which its share is taken as the same everywhere."""

STEPS, CLOSE, FLAT = 200, 1e-10, 1e-4
"""Newton steps of a logit at most; twice the gain in log-likelihood below which it is fitted, and
below which it is where steps do not shorten."""


@dataclass(frozen=True, eq=False)
class Logits:
    """What is regressed on what.

    Attributes
    ----------
    targets : outcomes and differences.
    column : the place of the covariate.
    bins : upper ends of the bins of the covariate.
    centre, scale, degree : of its powers.
    values : per target, the values that have a logit each.
    """

    targets: Targets
    column: int
    bins: Array
    centre: float
    scale: float
    degree: int
    values: tuple[Array, ...]

    def powers(self, x: Array) -> Array:
        """Return the terms (n, degree + 1) at values of the covariate."""
        return np.vander((x - self.centre) / self.scale, self.degree + 1, increasing=True)

    def places(self, rows: Rows) -> NDArray[np.intp]:
        """Return the bin of each row."""
        found = np.searchsorted(self.bins, rows.covariates[:, self.column])
        return np.minimum(found, len(self.bins) - 1)

    def ends(self, batch: Batch) -> list[tuple[Array, Array]]:
        """Return the values and the ends of rows, by target, then lower and upper end."""
        sides = self.targets.ends(batch)
        return [(v, side[:, j]) for j, v in enumerate(self.values) for side in sides]


@dataclass(frozen=True, eq=False)
class Binned:
    """All that the logits need of the rows, summed by bin of the covariate.

    Attributes
    ----------
    design : (bins, p) terms at the mean covariate of each bin.
    weight : (bins,) sums of the weights.
    below : (bins, M) those of the rows with an end at or below each value.
    squares, squares_below : the same of what a row's weight adds to variances.
    ends, ends_squared : (bins, 2 targets) sums of the ends, and weighed as variances, of squares.
    varied : (bins, 2 targets) sums of the ends, weighed as variances.
    infinite : (2 targets,) rows with an infinite end.
    """

    design: Array
    weight: Array
    below: Array
    squares: Array
    squares_below: Array
    ends: Array
    ends_squared: Array
    varied: Array
    infinite: Array


def bounds_along(
    targets: Targets,
    engine: Engine,
    name: str,
    column: int,
    asked: BoundsAsked,
    dependence: Dependence,
) -> Bounds:
    """Compute bounds at some values of a covariate.

    Parameters
    ----------
    targets, engine, asked, dependence : as in `compute_bounds`.
    name, column : of the covariate, and its place among the covariates of rows.
    """
    logits, places = _plan(targets, engine, name, column, asked)
    sizes = np.repeat([len(values) for values in logits.values], 2)
    binned = _binned(logits, engine, dependence)
    total = float(binned.weight.sum())
    share = binned.below.sum(axis=0) / total
    curved = np.minimum(share, 1.0 - share) * total >= FEWEST
    found = _climb(binned, share, name, curved)
    slopes, spread, least = _spread(logits, binned, engine, found, curved, dependence)
    df = max(min(dependence.clusters) - 1.0, 1.0) if dependence.clusters else float("inf")
    reach = interval_reach(asked.level, df)
    frames: dict[str, list[dict[str, Any]]] = {"distribution": [], "quantiles": [], "means": []}
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for x in places:
        d = logits.powers(np.array([x]))[0]
        index = found @ d
        error = np.sqrt(np.einsum("p,mapq,q->am", d, spread, d).max(axis=0, initial=0.0))
        tail = 0.5 * (1.0 - asked.level)
        middle = np.where(curved, expit(index), share)
        low = np.where(curved, expit(index - reach * error), lower_share(share, total, tail))
        high = np.where(curved, expit(index + reach * error), upper_share(share, total, tail))
        for place, label in enumerate(targets.names):
            # The lower ends of rows give the upper bound of a distribution function.
            own = [slice(starts[2 * place + end], starts[2 * place + end + 1]) for end in (0, 1)]
            key = {name: x, "of": label}
            # Logits of their own do not know which share is larger; putting both in order, and
            # making them rise, brings them closer to the truth.
            crossed = middle[own[1]] > middle[own[0]]
            ends = [
                np.where(crossed, shares[own[1 - end]], shares[own[end]])
                for shares, end in ((middle, 1), (middle, 0), (low, 1), (high, 0))
            ]
            lower, upper, fewest, most = (np.maximum.accumulate(one) for one in ends)
            rows = zip(logits.values[place], lower, upper, fewest, most, strict=True)
            frames["distribution"] += [{**key, **_row(*row)} for row in rows]
            limits, values = targets.limits[:, place], logits.values[place]
            for q in asked.quantiles:
                found_here = _quantile(values, q, lower, upper, fewest, most)
                frames["quantiles"].append({**key, "quantile": q, **_possible(found_here, limits)})
            of_mean = _mean(d, slopes, least, place, reach)
            frames["means"].append({**key, **_possible(of_mean, limits)})
    notes = (
        f"The share at or below each of {VALUES} values of the outcome is a logit in {name} and "
        "its square; quantiles are rounded outwards to the next of these values.",
    )
    return Bounds(
        distribution=pd.DataFrame(frames["distribution"]),
        quantiles=pd.DataFrame(frames["quantiles"]),
        means=pd.DataFrame(frames["means"]),
        tests=(),
        level=asked.level,
        by=(name,),
        n_rows=engine.n_rows,
        warnings=(),
        notes=notes,
    )


def _plan(
    targets: Targets, engine: Engine, name: str, column: int, asked: BoundsAsked
) -> tuple[Logits, list[float]]:
    """Choose values of the outcome and of the covariate from a sample of rows."""
    rows = counted_rows(engine.sample(SAMPLE, np.random.default_rng(0)).rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    x = rows.covariates[:, column]
    met = np.unique(x)
    if len(met) < 2:
        raise DataError(f"{name!r} has one value only, so there is nothing to go along.")
    assert rows.outcome is not None
    recorded = ~np.isnan(rows.outcome)
    outcome = (rows.outcome[recorded], weights[recorded])
    batch = Batch(rows, targets.problem.likelihood.observe(rows))
    values = []
    for place, ends in enumerate(zip(*(side.T for side in targets.ends(batch)), strict=True)):
        both, twice = np.concatenate(ends), np.concatenate([weights, weights])
        finite = np.isfinite(both)
        of, by = outcome if place < targets.n_alternatives else (both[finite], twice[finite])
        levels = np.arange(1, VALUES + 1) / (VALUES + 1.0)
        own = weighted_quantiles(of, levels, by) if len(of) else np.zeros(1)
        values.append(np.unique(np.concatenate([own, asked.points or []])))
    few = len(met) <= len(PLACES)
    places = met if few else np.unique(weighted_quantiles(x, PLACES, weights))
    bins = met
    if len(met) > BINS:
        bins = np.unique(weighted_quantiles(x, np.arange(1, BINS + 1) / BINS, weights))
    degree = min(DEGREE, len(met) - 1)
    logits = Logits(targets, column, bins, float(x.mean()), float(x.std()), degree, tuple(values))
    return logits, places.tolist()


def _binned(logits: Logits, engine: Engine, dependence: Dependence) -> Binned:
    probability = dependence.weights_kind == "probability"
    x, weight, squares, below, squares_below, ends, ends_squared, varied, infinite = engine.sum(
        partial(_count, logits, probability)
    )
    met = weight > 0
    mean = x[met] / weight[met]
    return Binned(
        logits.powers(mean), weight[met], below[met], squares[met], squares_below[met], ends[met],
        ends_squared[met], varied[met], infinite,
    )  # fmt: skip


def _count(logits: Logits, probability: bool, batch: Batch) -> Parts:
    """Sum by bin of the covariate: rows, those below each value, and ends."""
    rows, place, size = batch.rows, logits.places(batch.rows), len(logits.bins)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    spread = weights**2 if probability else weights

    def summed(values: Array) -> Array:
        return np.bincount(place, values, size).astype(np.float64)

    below: list[Array] = []
    squares_below: list[Array] = []
    ends, ends_squared, varied, infinite = [], [], [], []
    for values, end in logits.ends(batch):
        width = len(values) + 1
        code = place * width + np.searchsorted(values, end)
        for found, counted in ((below, weights), (squares_below, spread)):
            counts = np.bincount(code, counted, size * width).reshape(size, width)
            found.append(np.asarray(np.cumsum(counts, axis=1)[:, :-1], dtype=np.float64))
        finite = np.isfinite(end)
        held = np.where(finite, end, 0.0)
        ends.append(summed(weights * held))
        varied.append(summed(spread * held))
        ends_squared.append(summed(spread * held**2))
        infinite.append(float((~finite).sum()))
    return Parts(
        (
            summed(weights * rows.covariates[:, logits.column]), summed(weights), summed(spread),
            np.hstack(below), np.hstack(squares_below), np.column_stack(ends),
            np.column_stack(ends_squared), np.column_stack(varied), np.array(infinite),
        )
    )  # fmt: skip


def _climb(binned: Binned, share: Array, name: str, curved: NDArray[np.bool_]) -> Array:
    """Maximise the log-likelihood of every logit (M, p); those not `curved` are level."""
    total, size = float(binned.weight.sum()), binned.design.shape[1]
    inside = np.clip(share, 0.5 / total, 1.0 - 0.5 / total)
    found = np.zeros((len(share), size))
    found[:, 0] = np.log(inside / (1.0 - inside))
    # Terms without correlation and of the same size, whatever the tails of the covariate.
    basis = np.linalg.qr(binned.design * np.sqrt(binned.weight / total)[:, None]).R
    terms = np.linalg.solve(basis.T, binned.design.T).T
    for place in np.flatnonzero(curved):
        hill = _Share(terms, binned.weight, binned.below[:, place])
        ascent = ascend(hill, basis @ found[place], max_steps=STEPS)
        if not ascent.ending.converged:
            raise DataError(
                f"A logit in {name!r} and its square was not fitted in {STEPS} Newton steps. A few "
                f"values of {name!r} may lie far from all others: go along its logarithm or its "
                "rank instead, or give cells by `by`."
            )
        found[place] = np.linalg.solve(basis, ascent.point.free)
    return found


class _Share(Hill):
    """The log-likelihood of one logit, of counts in bins."""

    def __init__(self, terms: Array, weight: Array, below: Array) -> None:
        self.terms, self.weight, self.below = terms, weight, below
        self.total = float(weight.sum())

    def at(self, place: Array) -> Point:
        index = self.terms @ place
        chance = expit(index)
        loglik = float(self.below @ index - self.weight @ np.logaddexp(0.0, index))
        score = self.terms.T @ (self.below - self.weight * chance)
        information = self.terms.T @ (self.terms * (self.weight * chance * (1 - chance))[:, None])
        # A little of the identity keeps the step finite where the log-likelihood is flat.
        information += (1e-14 * np.trace(information) + 1e-18 * self.total) * np.eye(len(place))
        step = np.asarray(np.linalg.solve(information, score), dtype=np.float64)
        gain = max(float(score @ step), 0.0)
        return Point(place, loglik, score, information, step, gain, float(np.sqrt(gain)))

    def arrived(self, here: Point, before: float, size: float) -> bool:
        del size
        # Where the covariate separates rows, the log-likelihood has a limit and no optimum: steps
        # go on and gain ever less.
        return here.gain < CLOSE or (here.gain < FLAT and here.distance > 0.5 * before)

    def slack(self, here: Point) -> float:
        return ROUNDING * (abs(here.loglik) + self.total)

    def largest_step(self, here: Point) -> float:
        del here
        return 1.0


def _products(design: Array, weights: Array) -> Array:
    """Return sums of products of terms (M, p, p), weighed by columns (bins, M)."""
    size = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    return (weights.T @ products).reshape(-1, size, size)


def _information(binned: Binned, chance: Array, curved: NDArray[np.bool_]) -> Array:
    found = _products(binned.design, binned.weight[:, None] * chance * (1.0 - chance))
    found[~curved] = np.eye(found.shape[1])
    return found


def _inverse(information: Array) -> Array:
    """Invert (M, p, p), with huge variances in directions of which the rows say nothing."""
    values, vectors = np.linalg.eigh(information)
    values = np.maximum(values, FLATTEST * values[:, -1:])
    return np.asarray(np.einsum("mpi,mi,mqi->mpq", vectors, 1.0 / values, vectors))


def _spread(
    logits: Logits,
    binned: Binned,
    engine: Engine,
    found: Array,
    curved: NDArray[np.bool_],
    dependence: Dependence,
) -> tuple[Array, Array, Array]:
    """Return coefficients of the ends, covariances (M, 2, p, p) of logits, and those of the ends.

    Logits have one by the rows' scores and one by the curvature, of which the larger counts: where
    the covariate separates rows the former knows of no error.
    """
    design, chance = binned.design, expit(binned.design @ found.T)
    gram = design.T @ (design * binned.weight[:, None])
    slopes = np.asarray(np.linalg.solve(gram, design.T @ binned.ends).T, dtype=np.float64)
    if dependence.clusters:
        totals = engine.sum(partial(_by_cluster, logits, found, slopes, dependence.clusters))
        # Several ways of clustering: the sum of their variances is at least the variance.
        meat = sum((np.einsum("gmp,gmq->mpq", one, one) for one in totals), np.zeros(1))
    else:
        above = binned.squares[:, None] - binned.squares_below
        varied = binned.squares_below * (1.0 - chance) ** 2 + above * chance**2
        line = design @ slopes.T
        residual = binned.ends_squared - 2.0 * line * binned.varied
        residual += line**2 * binned.squares[:, None]
        meat = _products(design, np.hstack([varied, np.maximum(residual, 0.0)]))
    bread, inverse = _inverse(_information(binned, chance, curved)), np.linalg.inv(gram)
    covariance = bread @ meat[: len(found)] @ bread
    of_ends = inverse @ meat[len(found) :] @ inverse
    by_curvature = bread * (binned.squares.sum() / binned.weight.sum())
    both = np.stack([covariance, by_curvature], axis=1)
    return np.where(binned.infinite[:, None] > 0, np.nan, slopes), both, of_ends


def _by_cluster(
    logits: Logits, found: Array, slopes: Array, clusters: tuple[int, ...], batch: Batch
) -> Parts:
    """Sum the rows' scores by cluster (clusters, M + 2 targets, p), per way of clustering."""
    rows, ends = batch.rows, logits.ends(batch)
    assert rows.clusters is not None
    design = logits.powers(rows.covariates[:, logits.column])
    below = np.hstack([end[:, None] <= values for values, end in ends])
    held = np.column_stack([np.where(np.isfinite(end), end, 0.0) for _, end in ends])
    residual = np.hstack([below - expit(design @ found.T), held - design @ slopes.T])
    if rows.weights is not None:
        residual *= rows.weights[:, None]
    ways = rows.clusters.reshape(len(rows), -1)
    totals = []
    for way, size in enumerate(clusters):
        total = np.zeros((size, residual.shape[1], design.shape[1]))
        for term, values in enumerate(design.T):
            np.add.at(total[:, :, term], ways[:, way], residual * values[:, None])
        totals.append(total)
    return Parts(totals)


def _row(at: float, lower: float, upper: float, low: float, high: float) -> dict[str, float]:
    return {
        "at": float(at), "lower": float(lower), "upper": float(upper), "conf_low": float(low),
        "conf_high": float(high),
    }  # fmt: skip


def _possible(ends: dict[str, float], limits: Array) -> dict[str, float]:
    """Return ends within the lowest and the highest value that is possible."""
    return {name: float(np.clip(end, *limits)) for name, end in ends.items()}


def _quantile(
    values: Array, share: float, lower: Array, upper: Array, fewest: Array, most: Array
) -> dict[str, float]:
    def first(shares: Array) -> int:
        return int(np.searchsorted(shares, share - 1e-12))

    def below(place: int) -> float:
        return float(values[place - 1]) if place else -np.inf

    def above(place: int) -> float:
        return float(values[place]) if place < len(values) else np.inf

    return {
        "lower": below(first(upper)),
        "upper": above(first(lower)),
        "conf_low": below(first(most)),
        "conf_high": above(first(fewest)),
    }


def _mean(d: Array, slopes: Array, spread: Array, place: int, reach: float) -> dict[str, float]:
    ends = [2 * place, 2 * place + 1]
    middle = slopes[ends] @ d
    error = reach * np.sqrt(np.maximum(np.einsum("p,mpq,q->m", d, spread[ends], d), 0.0))
    if middle[0] > middle[1]:
        # Lines of their own may cross where rows are few; the ends of a row never do.
        middle, error = middle[::-1], error[::-1]
    infinite = np.array([-np.inf, np.inf])
    low, high = np.where(np.isnan(middle), infinite, middle)
    least, most = np.where(np.isnan(middle), infinite, middle + error * [-1.0, 1.0])
    return {"lower": low, "upper": high, "conf_low": least, "conf_high": most}

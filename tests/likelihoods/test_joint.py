"""Rows whose likelihood joins the alternatives: limits far out, and outcomes that were weighed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from selfselect.data.build import design_from_arrays
from selfselect.data.equations import Equation
from selfselect.engines.memory import Memory
from selfselect.likelihoods import evaluate, row_terms
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.noises._shaped import as_matrix
from selfselect.problem.problem import Problem
from selfselect.problem.units import measure_units
from selfselect.rules import Maximum, Minimum, MonotoneArgmax

STEP = 1e-5
SCORE = 1e-6
HESSIAN = 1e-5
"""Relative to the largest entry: central differences of scores of some dozen rows."""

EXACT = 1e-6
"""What every likelihood owes to brute force."""

N_ROWS = 30
LABELS = ("a", "b", "c")

NOISES = {
    "independent": Independent(),
    "correlated": Correlated(draws=16),
    "one correlation": Correlated(correlation="common", scale="common", draws=16),
    "shared shock": SharedShock(),
}
RULES = {
    "max": Maximum(),
    "min": Minimum(),
    # One transform falls: the limits of others lie below it and above it.
    "monotone": MonotoneArgmax(["negative", 1.5, "identity"]),
}


def make(noise, k=2, rule="max", index="known", *, partial=False, costs=False, known=False, seed=0):
    """Return a problem, an engine and natural parameters away from any optimum."""
    rng = np.random.default_rng([seed, k])
    x = rng.standard_normal((N_ROWS, 2))
    latent = x @ rng.standard_normal((2, k)) + rng.standard_normal((N_ROWS, k))
    the_rule = RULES[rule]
    if rule == "monotone":
        the_rule = MonotoneArgmax(the_rule.transforms[:k])
    chosen = the_rule.choose(latent)
    outcome = latent[np.arange(N_ROWS), chosen]
    design = design_from_arrays(
        x,
        outcome,
        chosen if index == "known" else None,
        alternatives=LABELS[:k],
        names=["x1", "x2"],
        weights=rng.integers(1, 4, N_ROWS).astype(float),
    )
    equations, rows = design.equations, design.rows
    if costs:
        of_costs = (Equation("b", ("Intercept", "x2"), (0, 2)), Equation("a", ("x1",), (1,)))
        equations = replace(equations, costs=of_costs)
    if known:
        available = rng.uniform(size=(N_ROWS, k)) < 0.7
        available[np.arange(N_ROWS), chosen] = True
        rows = replace(
            rows, known=replace(rows.known, costs=rng.uniform(0, 0.5, (N_ROWS, k)),
                                available=available)
        )  # fmt: skip
    if partial:
        # Silent rows, some bounded on one side or both, and rows of which nobody knows who it was.
        silent, between = outcome.copy(), np.full((N_ROWS, 2), np.nan)
        silent[:13] = np.nan
        between[4:8, 0], between[6:11, 1] = 0.3, 1.0
        undecided, possible = chosen.copy(), np.ones((N_ROWS, k), dtype=bool)
        undecided[11:22] = -1
        if known:
            possible = rows.known.available.copy()
        elif k > 2:
            possible[12:16, 0] = False
        rows = replace(rows, outcome=silent, chosen=undecided if index == "known" else None,
                       between=between, possible=possible)  # fmt: skip
    problem = Problem(
        equations, the_rule, noise,
        measure_units(equations, design.rows), index, False, partial,
    )  # fmt: skip
    parts = [np.append(0.3 * rng.standard_normal(3), rng.uniform(0.7, 1.4)) for _ in range(k)] + [
        0.3 * rng.standard_normal(len(problem.layout.extras))
    ]
    natural = problem.layout.natural(problem.layout.gather(np.concatenate(parts)))
    return problem, Memory().load(problem, rows), natural


def moments(problem, natural, rows):
    """Return means (n, k) and covariance (k, k) of the latent outcomes, in the user's units."""
    layout, k = problem.layout, problem.equations.n_alternatives
    reported = layout.report(layout.gather(natural))
    means = np.column_stack(
        [own[0] + rows.covariates @ own[1:] for own in layout.coefficients_of(reported.values)]
    )
    scales, extras = layout.scales_of(reported.values), layout.extras_of(reported.values)
    covariance = np.diag(scales**2)
    if isinstance(problem.noise, Correlated):
        covariance = as_matrix(extras[: k * (k - 1) // 2], k) * np.outer(scales, scales)
    if isinstance(problem.noise, SharedShock):
        covariance = covariance + np.outer(extras[:k], extras[:k])
    return means, covariance


FINE = np.polynomial.legendre.leggauss(60)


def brute_row(problem, mean, covariance, seen, low, high, known):
    """Integrate the density of the one seen times the chance of the others, over its range."""
    spread = np.sqrt(covariance[seen, seen])
    # Far out the density fades over a fraction of its spread: panels are fine near either end.
    start = max(low, mean[seen] - 12 * spread)
    stop = min(high, max(mean[seen] + 12 * spread, low + 12 * spread))
    start = min(start, stop - 24 * spread) if np.isinf(low) else start
    edges = np.linspace(start, stop, 401)
    width = np.diff(edges)[:, None]
    y = (edges[:-1, None] + width * 0.5 * (1.0 + FINE[0])).ravel()
    weight = (0.5 * width * FINE[1]).ravel()
    density = norm.pdf(y, mean[seen], spread)
    return float(weight @ (density * others_agree(problem, mean, covariance, seen, y, known)))


def others_agree(problem, mean, covariance, seen, y, known):
    """Return the chance that the others explain each outcome y of the one seen, for k = 2."""
    other = 1 - seen
    if known.available is not None and not known.available[0, other]:
        return np.ones(len(y))
    each = replace(
        known,
        costs=None if known.costs is None else np.repeat(known.costs, len(y), 0),
        available=None if known.available is None else np.repeat(known.available, len(y), 0),
    )
    rule = problem.ordered_rule
    lower, upper = rule.bounds(np.full(len(y), seen), y, each)
    lower, upper = (np.broadcast_to(one, (len(y), 2))[:, other] for one in (lower, upper))
    ratio = covariance[other, seen] / covariance[seen, seen]
    centre = mean[other] + ratio * (y - mean[seen])
    left = np.sqrt(covariance[other, other] - ratio * covariance[other, seen])
    return norm.cdf((upper - centre) / left) - norm.cdf((lower - centre) / left)


@pytest.mark.parametrize("noise", ["independent", "correlated", "shared shock"])
@pytest.mark.parametrize("far", [3.0, 6.0, 10.0, 20.0])
@pytest.mark.parametrize("end", ["above", "below", "interval"])
def test_limits_far_out_in_the_tails_keep_their_digits(noise, far, end):
    # Twenty standard deviations out, others' chances are steep: fifteen nodes leave three digits.
    given = SharedShock(nodes=41) if noise == "shared shock" else NOISES[noise]
    problem, engine, natural = make(given, 2, partial=True)
    rows = engine.rows.take(np.arange(4))
    means, covariance = moments(problem, natural, rows)
    chosen = np.array([0, 1, 0, 1])
    spread = np.sqrt(np.diag(covariance))[chosen]
    mean = means[np.arange(4), chosen]
    between = np.full((4, 2), np.nan)
    if end in ("above", "interval"):
        between[:, 0] = mean + far * spread
    if end == "interval":
        between[:, 1] = between[:, 0] + 0.1 * spread
    if end == "below":
        between[:, 1] = mean - far * spread
    rows = replace(rows, outcome=np.full(4, np.nan), chosen=chosen, between=between)
    found = row_terms(problem, natural, Memory().load(problem, rows).batch)
    for i in range(4):
        j, other = chosen[i], 1 - chosen[i]
        low = -np.inf if np.isnan(between[i, 0]) else between[i, 0]
        high = np.inf if np.isnan(between[i, 1]) else between[i, 1]
        # In logarithms, relative to the density at the limit, so that nothing underflows.
        edge = low if np.isfinite(low) else high
        reach = min(12.0 * spread[i], 60.0 * spread[i] / far)
        start, stop = max(low, edge - reach), min(high, edge + reach)
        at, weight = FINE
        edges = np.linspace(start, stop, 101)
        width = np.diff(edges)[:, None]
        y = (edges[:-1, None] + width * 0.5 * (1 + at)).ravel()
        ratio = covariance[other, j] / covariance[j, j]
        left = np.sqrt(covariance[other, other] - ratio * covariance[other, j])
        z = (y - means[i, other] - ratio * (y - mean[i])) / left
        logs = norm.logpdf(y, mean[i], spread[i]) + norm.logcdf(z)
        top = logs.max()
        wanted = top + np.log((0.5 * width * weight).ravel() @ np.exp(logs - top))
        assert found.loglik[i] == pytest.approx(wanted, abs=EXACT)


def test_pairs_come_in_the_order_of_their_labels():
    extras = Correlated().extras(LABELS)
    assert [extra.label[0] for extra in extras] == [
        f"{one} & {other}" for one, other in combinations(LABELS, 2)
    ]


TILTED = ["monotone", "costs"]
"""Rules that weigh outcomes before the best is seen, here of rows that do not say whose it is."""


def make_tilted(noise, k, rule):
    """Return a problem whose index is unknown and whose rule is not the plain maximum."""
    problem, engine, natural = make(
        noise, k, "monotone" if rule == "monotone" else "max", "unknown", known=rule == "costs"
    )
    if rule == "costs":
        problem = replace(problem, rule=Maximum(cost=dict.fromkeys(LABELS[:k], 0.2)))
    assert problem.likelihood.weighed
    rows = replace(engine.rows, known=replace(engine.rows.known, available=None))
    return problem, Memory().load(problem, rows), natural


@pytest.mark.parametrize("rule", TILTED)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("noise", ["independent", "correlated", "shared shock"])
def test_scores_of_outcomes_that_were_weighed_are_slopes(noise, k, rule):
    problem, engine, natural = make_tilted(NOISES[noise], k, rule)
    batch = engine.batch
    found = evaluate(problem, natural, batch)
    size = max(np.abs(found.score).max(), 1.0)
    for place in range(len(natural)):
        up, down = (
            evaluate(problem, natural + move * (np.arange(len(natural)) == place), batch)
            for move in (STEP, -STEP)
        )
        slope = (up.loglik - down.loglik) / (2 * STEP)
        assert found.score[place] == pytest.approx(slope, abs=SCORE * size)
        bend = (up.score - down.score) / (2 * STEP)
        np.testing.assert_allclose(
            found.hessian[place], bend, atol=HESSIAN * np.abs(found.hessian).max()
        )


@pytest.mark.parametrize("rule", TILTED)
@pytest.mark.parametrize("noise", ["independent", "correlated", "shared shock"])
def test_outcomes_that_were_weighed_have_the_density_of_all_who_may_have_been_seen(noise, rule):
    problem, engine, natural = make_tilted(NOISES[noise], 2, rule)
    rows = engine.rows
    found = row_terms(problem, natural, engine.batch)
    means, covariance = moments(problem, natural, rows)
    for i in range(N_ROWS):
        y, here = rows.outcome[i : i + 1], rows.known.take(np.array([i]))
        parts = [
            norm.pdf(y[0], means[i, j], np.sqrt(covariance[j, j]))
            * others_agree(problem, means[i], covariance, j, y, here)[0]
            for j in range(2)
        ]
        wanted = np.log(np.sum(parts) * problem.units.outcome_unit)
        assert found.loglik[i] == pytest.approx(wanted, abs=EXACT)
        np.testing.assert_allclose(found.chance[i], parts / np.sum(parts), atol=EXACT)
        # All outcomes there may be have chance one.
        if i < 3:
            low, high = means[i].min() - 12.0, means[i].max() + 12.0
            every = sum(brute_row(problem, means[i], covariance, j, low, high, here)
                        for j in range(2))  # fmt: skip
            assert every == pytest.approx(1.0, abs=EXACT)

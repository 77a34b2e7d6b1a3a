"""Moments of every model against brute-force simulation, and scores of scales by differences."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import norm

import selfselect as ss
from selfselect.inference.simulation import noise_moments, simulate_rows
from selfselect.likelihoods import row_terms
from selfselect.noises.shapes import find_shape

N_DRAWS = 200_000
N_ROWS = 300

SIMULATED = 0.01
"""Error of a likelihood that is simulated itself, with 256 points a row."""

SCALES = np.array([0.8, 1.0, 1.3])
SLOPES = np.array([[0.8, -0.5, 0.3], [-0.4, 0.6, 0.2]])


def table(k, covariance=None, *, seed=0, draw=None, cost=0.0, moves=0.0):
    """Draw rows of which the largest outcome, net of a cost of a that x1 moves, is chosen.

    Log scales move with `moves` times x1.
    """
    rng = np.random.default_rng([seed, k])
    x = rng.normal(size=(N_ROWS, 2))
    e = rng.normal(size=(N_ROWS, k)) if draw is None else draw(rng, (N_ROWS, k))
    if covariance is not None:
        e = e @ np.linalg.cholesky(covariance).T
    slopes = SLOPES[:, :k].copy()
    if cost:
        slopes[0, 0] = 0.0
    latent = 0.2 + x @ slopes + e * SCALES[:k] * np.exp(moves * x[:, :1])
    net = latent - np.column_stack([cost * (0.3 + x[:, 0]), np.zeros((N_ROWS, k - 1))])
    chosen = net.argmax(axis=1)
    columns = {"y": latent[np.arange(N_ROWS), chosen], "who": np.array(list("abc"))[chosen]}
    return pd.DataFrame({**columns, "x1": x[:, 0], "x2": x[:, 1]})


def correlation(k, rho):
    return (1 - rho) * np.eye(k) + rho


def silent(data):
    data.loc[data.index % 4 == 1, "y"] = np.nan
    return data


def bounded(data):
    return data.assign(y=data["y"].where(data["y"] < 1.0), top=1.0)


def undecided(data):
    return data.assign(who=data["who"].where(data.index % 4 != 1), open=True)


FIXED = ss.noises.Correlated(SCALES.tolist(), 0.4)
MOVING = ss.noises.Independent("~ x1")
ONE_MOVES = ss.noises.Independent({"a": "~ x1", "b": "~ 1"})


def moving(covariance=None, **options):
    return table(2, covariance, moves=0.4, **options)


MODELS = {
    "correlated pair": lambda: ss.fit(
        "y ~ x1 + x2", table(2, correlation(2, 0.5)), chosen="who", noise="correlated"
    ),
    "correlated three": lambda: ss.fit(
        "y ~ x1 + x2", table(3, correlation(3, 0.4)), chosen="who", noise=FIXED
    ),
    "shared shock": lambda: ss.fit(
        "y ~ x1 + x2", table(3, correlation(3, 0.5)), chosen="who",
        noise=ss.noises.SharedShock(loading="common"),
    ),
    "steep shared shock": lambda: ss.fit(
        "y ~ x1 + x2", table(2, correlation(2, 0.9)), chosen="who",
        noise=ss.noises.SharedShock(scale=0.3, loading=0.9),
    ),
    "costs": lambda: ss.fit(
        {"a": "y ~ x2", "b": "y ~ x1 + x2"}, table(2, cost=0.5), chosen="who", cost={"a": "~ x1"}
    ),
    "silent": lambda: ss.fit(
        "y ~ x1 + x2", silent(table(2)), chosen="who", missing_outcome="silent"
    ),
    "bounded": lambda: ss.fit(
        "y ~ x1 + x2", bounded(table(2)), chosen="who", outcome_between=("top", None)
    ),
    "silent and correlated": lambda: ss.fit(
        "y ~ x1 + x2", silent(table(2, correlation(2, 0.5))), chosen="who",
        missing_outcome="silent", noise=ss.noises.Correlated(correlation=0.5),
    ),
    "logistic": lambda: ss.fit(
        "y ~ x1 + x2", table(2, draw=lambda rng, size: rng.logistic(size=size)), chosen="who",
        noise=ss.noises.Independent(shape="logistic"),
    ),
    "logistic, silent": lambda: ss.fit(
        "y ~ x1 + x2", silent(table(2, draw=lambda rng, size: rng.logistic(size=size))),
        chosen="who", missing_outcome="silent", noise=ss.noises.Independent(shape="logistic"),
    ),
    "unknown index": lambda: ss.fit("y ~ x1 + x2", table(2), alternatives=2),
    "some choices": lambda: ss.fit(
        "y ~ x1 + x2", undecided(table(2, correlation(2, 0.5))), chosen="who",
        possible={"a": "open", "b": "open"}, noise=ss.noises.Correlated([0.8, 1.0], 0.5),
    ),
    "laplace": lambda: ss.fit(
        "y ~ x1 + x2", table(2, draw=lambda rng, size: rng.laplace(size=size)), chosen="who",
        noise=ss.noises.Independent(shape="laplace"),
    ),
    "gumbel": lambda: ss.fit(
        "y ~ x1 + x2", table(2, draw=lambda rng, size: rng.gumbel(size=size)), chosen="who",
        noise=ss.noises.Independent(shape="gumbel"),
    ),
    "student": lambda: ss.fit(
        "y ~ x1 + x2", table(2, draw=lambda rng, size: rng.standard_t(4, size)), chosen="who",
        noise=ss.noises.Student(),
    ),
    "mixture": lambda: ss.fit(
        "y ~ x1 + x2", table(2, draw=lambda rng, size: rng.gumbel(size=size)), chosen="who",
        noise=ss.noises.Mixture(2),
    ),
    "moving": lambda: ss.fit("y ~ x1 + x2", moving(), chosen="who", noise=MOVING),
    "one moves": lambda: ss.fit("y ~ x1 + x2", moving(), chosen="who", noise=ONE_MOVES),
    "moving, logistic": lambda: ss.fit(
        "y ~ x1 + x2", moving(draw=lambda rng, size: rng.logistic(size=size)), chosen="who",
        noise=ss.noises.Independent("~ x1", shape="logistic"),
    ),
    "moving, correlated": lambda: ss.fit(
        "y ~ x1 + x2", moving(correlation(2, 0.5)), chosen="who",
        noise=ss.noises.Correlated("~ x1", 0.5),
    ),
    "moving, costs": lambda: ss.fit(
        {"a": "y ~ x2", "b": "y ~ x1 + x2"}, moving(cost=0.5), chosen="who", cost={"a": "~ x1"},
        noise=MOVING,
    ),
    "moving, silent": lambda: ss.fit(
        "y ~ x1 + x2", silent(moving()), chosen="who", missing_outcome="silent", noise=MOVING
    ),
    "moving, bounded": lambda: ss.fit(
        "y ~ x1 + x2", bounded(moving()), chosen="who", outcome_between=("top", None), noise=MOVING
    ),
    "moving, unknown index": lambda: ss.fit(
        "y ~ x1 + x2", moving(), alternatives=2, noise=MOVING
    ),
}  # fmt: skip

MOVING_MODELS = [name for name in MODELS if name.startswith(("moving", "one moves"))]


def selected(seed=1):
    """Draw rows of a selection equation: u selects in or out, whose noises go with u."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.normal(size=(3, N_ROWS))
    inside = 0.2 + 0.5 * x + z + u > 0
    noise = np.array([[0.6], [-0.4]]) * u + np.array([[0.8], [0.9]]) * rng.normal(size=(2, N_ROWS))
    y = np.where(inside, 1 + x + noise[0], 0.5 - x + 1.2 * noise[1])
    return pd.DataFrame({"y": y, "x": x, "z": z, "where": np.where(inside, "in", "out")})


def levels(seed=1):
    """Draw rows of three levels, between whose cut points an index lies."""
    rng = np.random.default_rng(seed)
    x, z, u = rng.normal(size=(3, N_ROWS))
    level = np.digitize(0.5 * x + z + u, [-0.6, 0.7])
    noise = np.array([[0.5], [-0.4], [0.3]]) * u + 0.9 * rng.normal(size=(3, N_ROWS))
    y = np.array([1.0, 0.5, 0.0])[level] + x * (level - 1) + noise[level, np.arange(N_ROWS)]
    return pd.DataFrame({"y": y, "x": x, "z": z, "level": np.array(LEVELS)[level]})


LEVELS = ["none", "part", "full"]


def sampled(lost=0):
    """Draw rows in which outcomes are observed inside only, every so many of them not at all."""
    data = selected().assign(works=lambda t: t["where"] == "in")
    observed = data["works"] & ((data.index % lost > 0) if lost else True)
    return data.assign(y=data["y"].where(observed))


SELECTIONS = {
    "switching": lambda: ss.switching("y ~ x", "where ~ x + z", selected(), towards="in"),
    "sample selection": lambda: ss.sample_selection("y ~ x", "works ~ x + z", sampled()),
    "silent selection": lambda: ss.sample_selection(
        "y ~ x", "works ~ x + z", sampled(6), missing_outcome="silent"
    ),
    "ordered": lambda: ss.switching("y ~ x", "level ~ x + z", levels(), ordered=LEVELS),
}  # fmt: skip


@cache
def fitted(name):
    fit = {**MODELS, **SELECTIONS}[name]()
    assert fit.converged
    return fit


def hermite(order, z):
    return np.polynomial.hermite_e.hermeval(z, [0] * order + [1])


def parameters(fit):
    return fit.problem.layout.natural(fit.solution.free)


def margin_of(problem, natural):
    """Return the shape of all noises, with the parameters that were estimated."""
    first = int(problem.layout.starts[-1])
    extras = natural[first : first + problem.layout.n_noise_extras]
    return problem.noise.margins(extras, problem.equations.n_alternatives)[0]


def noises_given(fit, row, rng):
    """Draw all noises of a row, on the normal scale, given what was recorded of it: (draws, k)."""
    problem, natural = fit.problem, parameters(fit)
    k, rows = problem.equations.n_alternatives, fit.rows.take(slice(row, row + 1))
    mean, scale = fit.predict().iloc[row].to_numpy(), problem.row_scales(fit.values, rows)[0]
    extras = natural[problem.layout.starts[-1] :]
    h = natural[problem.layout.inverse_scale_positions]
    covariance = problem.noise.standard_covariance(extras, h)
    total = np.sqrt(np.diag(covariance))
    covariance = covariance / np.outer(total, total)
    shape = margin_of(problem, natural)
    outcome, chosen = rows.outcome[0], -1 if rows.chosen is None else rows.chosen[0]
    costs = np.zeros(k)
    if problem.equations.costs:
        line = fit.params["a"]
        costs[0] = line["cost: Intercept"] + line["cost: x1"] * table(2, cost=0.5)["x1"].iloc[row]
    z = rng.normal(size=(N_DRAWS, k)) @ np.linalg.cholesky(covariance).T
    if np.isnan(outcome):
        latent = mean + scale * total * (z if shape.normal else shape.quantile(norm.cdf(z)))
        kept = (latent - costs).argmax(axis=1) == chosen
        if rows.between is not None:
            kept &= latent[:, chosen] > rows.between[0, 0]
        return [(z[kept], 1.0)]
    cases = []
    for j in range(k) if chosen < 0 else [chosen]:
        own = (outcome - mean[j]) / (scale[j] * total[j])
        density = float(shape.pdf(np.array([own]))[0])
        score = own if shape.normal else float(ndtri(shape.cdf(np.array([own])))[0])
        given = z + np.outer(score - z[:, j], covariance[:, j])
        latent = mean + scale * total * (given if shape.normal else shape.quantile(norm.cdf(given)))
        latent[:, j] = outcome
        others = np.delete(latent - costs, j, axis=1) < outcome - costs[j]
        kept = others.all(axis=1)
        cases.append((given[kept], density / (scale[j] * total[j]) * kept.mean()))
    return cases


@pytest.mark.parametrize("name", MODELS)
def test_moments_are_means_over_what_a_row_leaves_open(name):
    fit = fitted(name)
    found = row_terms(fit.problem, parameters(fit), fit.engine.batch).hermite
    rng = np.random.default_rng(1)
    # The likelihoods of three correlated alternatives are simulated themselves.
    exact = 0.0 if name != "correlated three" else SIMULATED
    for row in (0, 1, 2, 5, 9):
        cases = noises_given(fit, row, rng)
        weight = sum(share for _, share in cases)
        for order in (1, 3, 4):
            wanted, error = 0.0, 0.0
            for z, share in cases:
                values = hermite(order, z)
                wanted += share / weight * values.mean(axis=0)
                error += share / weight * values.std(axis=0) / np.sqrt(len(z))
            reach = 4.5 * error + exact * (1 + np.abs(wanted)) + 1e-6
            assert (np.abs(found[order, row] - wanted) < reach).all(), (row, order)


@pytest.mark.parametrize("name", SELECTIONS)
def test_moments_of_selection_are_means_over_what_a_row_leaves_open(name):
    fit = fitted(name)
    natural, problem = parameters(fit), fit.problem
    found = row_terms(problem, natural, fit.engine.batch).hermite
    k, rng = problem.equations.n_alternatives, np.random.default_rng(2)
    assert found.shape == (5, N_ROWS, k + 1)
    scale, rho = np.asarray(fit.scales, dtype=float), np.asarray(fit.correlations, dtype=float)
    own = fit.params["selection"].to_numpy()
    data = levels() if name == "ordered" else selected()
    x, z = (np.asarray(data[one]) for one in ("x", "z"))
    if name == "ordered":
        index, ends = own[0] * x + own[1] * z, [-np.inf, *own[2:], np.inf]
        between = list(pairwise(ends))
    else:
        index = own[0] + own[1] * x + own[2] * z
        between = [(0.0, np.inf), (-np.inf, 0.0)]
        if fit.problem.equations.alternatives[0] == "out":
            between.reverse()
    for row in range(12):
        chosen, outcome = fit.rows.chosen[row], fit.rows.outcome[row]
        u = rng.normal(size=N_DRAWS)
        low, high = between[chosen] - index[row]
        coarse = given = u[(low < u) & (u <= high)]
        observed = not np.isnan(outcome)
        if observed:
            line = fit.params[problem.equations.alternatives[chosen]].to_numpy()
            own = (outcome - line[0] - line[1] * x[row]) / scale[chosen]
            given = rho[chosen] * own + np.sqrt(1 - rho[chosen] ** 2) * u
            assert hermite(3, own) == pytest.approx(found[3, row, chosen], rel=1e-8)
            given = given[(low < given) & (given <= high)]
        for order in (1, 3, 4):
            values = hermite(order, given)
            error = 4.5 * values.std() / np.sqrt(len(values)) + 1e-6
            assert abs(found[order, row, k] - values.mean()) < error
            # An outcome that was not observed is known by the selection alone.
            values = hermite(order, coarse)
            error = 4.5 * values.std() / np.sqrt(len(values)) + 1e-6
            for j in set(range(k)) - ({chosen} if observed else set()):
                assert abs(found[order, row, j] - rho[j] ** order * values.mean()) < error


@pytest.mark.parametrize("name", [*MODELS, *SELECTIONS])
def test_the_excess_of_every_model_is_the_score_of_its_log_scale(name):
    fit = fitted(name)
    natural, layout = parameters(fit), fit.problem.layout
    found = row_terms(fit.problem, natural, fit.engine.batch).excess
    step = 1e-5

    def loglik(j, size):
        """Return the rows' log-likelihoods where a scale is multiplied by exp(size)."""
        moved = natural.copy()
        moved[layout.starts[j] : layout.starts[j + 1]] *= np.exp(-size)
        return row_terms(fit.problem, moved, fit.engine.batch).loglik

    for j in range(fit.problem.equations.n_alternatives):
        slope = (loglik(j, step) - loglik(j, -step)) / (2 * step)
        np.testing.assert_allclose(found[:, j], slope, rtol=1e-5, atol=2e-5)


def moved_by_all(fit):
    """Return the model in which every covariate of an equation moves its scale, new ones by zero.

    With it go its parameters, and the places of what moves scales there and did not before.
    """
    problem, natural = fit.problem, parameters(fit)
    equations, old = problem.equations, problem.layout
    spreads = []
    for equation, own in zip(equations.each, equations.spreads, strict=True):
        more = {*zip(equation.columns, equation.terms, strict=True)} - {
            *zip(own.columns, own.terms, strict=True)
        }
        columns, terms = zip(*sorted(more), strict=True) if more else ((), ())
        spreads.append(replace(own, columns=own.columns + columns, terms=own.terms + terms))
    wider = replace(problem, equations=replace(equations, spreads=tuple(spreads)))
    found, new = np.zeros(wider.layout.n_natural), wider.layout
    before = int(old.starts[-1]) + old.n_noise_extras
    n_costs = sum(len(cost.terms) for cost in equations.costs)
    found[:before] = natural[:before]
    found[len(found) - n_costs :] = natural[len(natural) - n_costs :]
    places = []
    for spread, moved in zip(new.spread_of, old.spread_of, strict=True):
        had = {} if moved is None else dict(zip(moved.columns, moved.places, strict=True))
        for column, place in zip(spread.columns, spread.places, strict=True):
            if column in had:
                found[place] = natural[had[column]]
            else:
                places.append(place)
    return wider, found, places


@pytest.mark.parametrize("name", MOVING_MODELS)
def test_moments_of_spread_are_scores_of_what_could_move_the_scale_further(name):
    fit = fitted(name)
    wider, natural, places = moved_by_all(fit)
    batch = fit.engine.batch
    found = noise_moments(fit.problem, parameters(fit), batch)["heteroskedasticity"]
    assert found.shape == (N_ROWS, len(places))
    loglik = row_terms(fit.problem, parameters(fit), batch).loglik
    np.testing.assert_allclose(row_terms(wider, natural, batch).loglik, loglik, rtol=1e-10)
    for column, place in zip(found.T, places, strict=True):
        up, down = (natural + way * 1e-5 * np.eye(len(natural))[place] for way in (1, -1))
        slope = row_terms(wider, up, batch).loglik - row_terms(wider, down, batch).loglik
        np.testing.assert_allclose(column, slope / 2e-5, rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("name", [*MODELS, *SELECTIONS])
def test_moments_of_rows_drawn_from_the_model_average_zero(name):
    fit = fitted(name)
    rows, counts = simulate_rows(fit.problem, fit.engine, parameters(fit))
    batch = ss.engines.Memory().load(fit.problem, rows).batch
    for found in noise_moments(fit.problem, parameters(fit), batch).values():
        mean = counts @ found / counts.sum()
        error = np.sqrt(counts**2 @ (found - mean) ** 2) / counts.sum()
        assert (np.abs(mean) < 4.5 * error).all()
        assert found.std(axis=0).min() > 1e-3


@pytest.mark.parametrize("name", ["normal", "logistic"])
def test_normal_scores_have_the_same_mass_below_and_lead_back(name):
    shape = find_shape(name)
    a = np.linspace(-7.0, 7.0, 29)
    scores = shape.normal_scores(a)
    np.testing.assert_allclose(norm.cdf(scores), shape.cdf(a), rtol=1e-10)
    np.testing.assert_allclose(shape.from_normal(scores), a, rtol=1e-6, atol=1e-9)
    far = shape.normal_scores(np.array([-600.0, 600.0]))
    assert np.isfinite(far).all() and far[0] == pytest.approx(-far[1])

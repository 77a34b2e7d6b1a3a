"""Logistic noise: one file in `noises/shapes`, and everything that rests on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.common_scale import common_scale_test
from selfselect.inference.dependence import Dependence
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, SEEN, UNKNOWN
from selfselect.likelihoods import Batch, evaluate, row_terms
from selfselect.noises import Independent
from selfselect.noises.shapes.logistic import SHAPE
from selfselect.rules import Maximum
from selfselect.solvers import MaximumLikelihood, MonteCarloNewton, ProjectedSGD

REFERENCE = Path(__file__).parent.parent / "reference"

LOGISTIC = Independent(shape="logistic")

STEP = 1e-5
DIFFERENCE = 1e-6
"""Central differences with that step, relative to the largest entry."""

EXACT = 1e-9
"""What quadrature owes to brute force."""

SURVREG = 1e-6
"""Both stop at the same optimum; survreg's own tolerance leaves some eight digits."""

MONTE_CARLO = 5.0
"""Standard errors by which one of a few dozen simulated means may be off."""

DRAWS = 400_000

COEFFICIENTS = {
    "a": {"Intercept": 1.0, "x": 1.0, "z": 0.5},
    "b": {"Intercept": 0.5, "x": -0.5, "z": 1.0},
}
SCALES = {"a": 1.0, "b": 0.7}


def rows(n_rows=600, seed=1):
    rng = np.random.default_rng([seed, 7])
    table = pd.DataFrame(rng.standard_normal((n_rows, 2)), columns=["x", "z"])
    return table.assign(town=np.arange(n_rows) % 40)


def simulated(n_rows=600, seed=1, **options):
    options = {"scales": SCALES, "noise": LOGISTIC} | options
    return ss.simulate(COEFFICIENTS, rows(n_rows, seed), seed=seed, **options).data


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def result(data):
    return ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)


def drawn_outcomes(means, scales, seed=2):
    """Draw latent outcomes (draws, k) of one row, from NumPy's own logistic distribution."""
    rng = np.random.default_rng(seed)
    return means + rng.logistic(size=(DRAWS, len(means))) * scales


def assert_mean(expected, draws):
    assert abs(draws.mean() - expected) < MONTE_CARLO * draws.std() / np.sqrt(len(draws))


# the shape


def test_it_is_the_standard_logistic_distribution():
    a = np.linspace(-30.0, 30.0, 61)
    np.testing.assert_allclose(SHAPE.pdf(a), expit(a) * expit(-a), rtol=1e-13)
    np.testing.assert_allclose(np.exp(SHAPE.below(a).value), expit(a), rtol=1e-13)
    np.testing.assert_allclose(np.exp(SHAPE.above(a).value), expit(-a), rtol=1e-13)
    np.testing.assert_allclose(SHAPE.quantile(expit(a[a < 20])), a[a < 20], rtol=1e-7, atol=1e-12)
    draws = SHAPE.draw((DRAWS,), np.random.default_rng(0))
    assert draws.std() == pytest.approx(SHAPE.deviation, rel=0.01)


def test_its_tails_stay_exact_at_any_distance():
    far = np.array([-800.0, -300.0, 300.0, 800.0])
    np.testing.assert_array_equal(SHAPE.below(far).value[:2], far[:2])
    np.testing.assert_allclose(SHAPE.below(far).value[2:], -np.exp(-far[2:]), rtol=1e-12)
    np.testing.assert_array_equal(SHAPE.density(far).value, -np.abs(far))
    for terms in (SHAPE.density(far), SHAPE.below(far), SHAPE.above(far)):
        assert all(np.isfinite(part).all() for part in terms)
    # The mean over the tail, times its mass e^a: a - 1.
    left = np.array([-40.0, -300.0, -700.0])
    np.testing.assert_allclose(SHAPE.partial_mean(left), (left - 1.0) * np.exp(left), rtol=1e-12)
    np.testing.assert_array_equal(SHAPE.partial_mean(-left), SHAPE.partial_mean(left))


def test_derivatives_of_its_logarithms_are_differences():
    a = np.linspace(-12.0, 12.0, 49)
    for terms in (SHAPE.density, SHAPE.below, SHAPE.above):
        up, down, here = terms(a + STEP), terms(a - STEP), terms(a)
        slope = (up.value - down.value) / (2 * STEP)
        curvature = (up.slope - down.slope) / (2 * STEP)
        np.testing.assert_allclose(here.slope, slope, atol=1e-8)
        np.testing.assert_allclose(here.curvature, curvature, atol=1e-8)


def test_its_means_between_limits_are_integrals():
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for low, high in ((-3.0, 1.0), (0.5, 4.0), (-60.0, -2.0), (6.0, 60.0)):
        t = low + 0.5 * (high - low) * (1.0 + nodes)
        density = 0.5 * (high - low) * weights * SHAPE.pdf(t)
        ends = np.array([low]), np.array([high])
        assert SHAPE.mass(*ends)[0] == pytest.approx(density.sum(), rel=EXACT)
        assert SHAPE.partial(*ends)[0] == pytest.approx(density @ t, rel=EXACT)
        mean = density @ t / density.sum()
        assert SHAPE.mean_between(*ends)[0] == pytest.approx(mean, rel=EXACT)


# likelihoods


def differences(function, at):
    columns = []
    for i in range(len(at)):
        move = STEP * (np.arange(len(at)) == i)
        columns.append((function(at + move) - function(at - move)) / (2 * STEP))
    return np.array(columns).T


def assert_derivatives(problem, natural, batch):
    found = evaluate(problem, natural, batch)
    score = differences(lambda at: evaluate(problem, at, batch).loglik, natural)
    hessian = differences(lambda at: evaluate(problem, at, batch).score, natural)
    close = DIFFERENCE * np.abs(score).max()
    np.testing.assert_allclose(found.score, score, atol=close)
    close = DIFFERENCE * np.abs(hessian).max()
    np.testing.assert_allclose(found.hessian, hessian, atol=close)


def test_terms_of_every_status_have_their_derivatives():
    status = np.array([SEEN, BELOW, ABOVE, BETWEEN, UNKNOWN] * 3, dtype=np.int8)
    rng = np.random.default_rng(3)
    location, limit = rng.normal(size=(2, len(status))) * 3.0
    upper = limit + rng.uniform(0.1, 4.0, len(status))

    def terms(shift, h):
        return SHAPE.row_terms(location + shift, h, status=status, limit=limit, upper=upper)

    here = terms(0.0, 1.3)
    by_g = [terms(way * STEP, 1.3) for way in (1.0, -1.0)]
    by_h = [terms(0.0, 1.3 + way * STEP) for way in (1.0, -1.0)]

    def slope(ends, name):
        return (getattr(ends[0], name) - getattr(ends[1], name)) / (2 * STEP)

    np.testing.assert_allclose(here.residual, slope(by_g, "loglik"), atol=1e-8)
    np.testing.assert_allclose(here.score_h, slope(by_h, "loglik"), atol=1e-8)
    np.testing.assert_allclose(here.curvature, slope(by_g, "residual"), atol=1e-8)
    np.testing.assert_allclose(here.curvature_gh, slope(by_h, "residual"), atol=1e-8)
    np.testing.assert_allclose(here.curvature_hh, slope(by_h, "score_h"), atol=1e-8)
    assert not here.loglik[status == UNKNOWN].any()


class Band(Maximum):
    """The others lie below the chosen one, but by no more than three."""

    def bounds(self, _chosen, outcome, *_):
        upper = np.broadcast_to(outcome[:, None], (len(outcome), 2))
        return upper - 3.0, upper


@pytest.mark.parametrize("rule", ["max", "min", "between"])
def test_the_likelihood_has_its_derivatives(result, rule):
    problem = result.problem if rule == "max" else replace(
        result.problem, rule=Band() if rule == "between" else ss.rules.Minimum()
    )  # fmt: skip
    batch = Batch(result.rows, problem.likelihood.observe(result.rows))
    natural = problem.layout.natural(result.solution.free) * 1.15
    assert_derivatives(problem, natural, batch)


def partly_recorded(data):
    """Return rows without an outcome, some of them with limits, and rows without a choice."""
    table = data.assign(low=np.nan, high=np.nan, open=True)
    table.loc[:60, "outcome"] = np.nan
    table.loc[20:40, "low"] = 0.5
    table.loc[30:50, "high"] = 2.0
    table.loc[200:260, "chosen"] = None
    return table


KINDS = {
    "estimated costs": {"chosen": "chosen", "cost": {"a": "~ z"}},
    "partly recorded": {
        "chosen": "chosen",
        "missing_outcome": "silent",
        "outcome_between": ("low", "high"),
        "possible": {"a": "open", "b": "open"},
    },
    "unknown index": {"alternatives": 2},
}


@pytest.fixture(scope="module", params=KINDS)
def joint(request, data):
    return ss.fit("outcome ~ x + z", partly_recorded(data) if request.param == "partly recorded"
                  else data, noise=LOGISTIC, seed=1, **KINDS[request.param])  # fmt: skip


def test_fits_that_join_alternatives_find_the_truth(joint):
    assert joint.converged
    assert "Continuation" in joint.solution.solver
    truth = [value for each, scale in zip(COEFFICIENTS.values(), SCALES.values(), strict=True)
             for value in (*each.values(), scale)]  # fmt: skip
    estimates, errors = joint.params.to_numpy(), joint.bse.to_numpy()
    assert (np.abs(estimates[:8] - truth) < 4.0 * errors[:8]).all()
    assert (np.abs(estimates[8:]) < 4.0 * errors[8:]).all()  # costs, which are zero


def test_likelihoods_that_join_alternatives_have_their_derivatives(joint):
    natural = joint.problem.layout.natural(joint.solution.free) * 1.1
    assert_derivatives(joint.problem, natural, joint.engine.batch.take(slice(0, 300)))


def test_the_unknown_index_adds_up_all_that_may_have_been(data):
    fit = ss.fit("outcome ~ x + z", data, alternatives=2, noise=LOGISTIC, seed=1)
    means, scales = fit.predict().to_numpy(), fit.scales.to_numpy()
    a = (data["outcome"].to_numpy()[:, None] - means) / scales
    density, below = expit(a) * expit(-a) / scales, expit(a)
    wanted = np.log(density[:, 0] * below[:, 1] + density[:, 1] * below[:, 0]).sum()
    assert fit.llf == pytest.approx(wanted, rel=1e-12)
    shares = fit.responsibilities().to_numpy()
    own = density[:, 0] * below[:, 1]
    other = density[:, 1] * below[:, 0]
    np.testing.assert_allclose(shares[:, 0], own / (own + other), rtol=1e-9)


def test_rows_without_an_outcome_are_integrated_exactly(data):
    fit = ss.fit("outcome ~ x + z", partly_recorded(data), noise=LOGISTIC, seed=1,
                 **KINDS["partly recorded"])  # fmt: skip
    natural = fit.problem.layout.natural(fit.solution.free)
    batch = fit.engine.batch
    found = row_terms(fit.problem, natural, batch).loglik
    means, scales = fit.predict().to_numpy(), fit.scales.to_numpy()
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for row in (3, 25, 35, 45):
        own = 0 if data["chosen"][row] == "a" else 1
        low, high = (max(means[row, own] - 40.0, 0.5 if 20 <= row <= 40 else -np.inf),
                     min(means[row, own] + 40.0, 2.0 if 30 <= row <= 50 else np.inf))  # fmt: skip
        edges = np.linspace(low, high, 201)
        half = 0.5 * np.diff(edges)
        y = (edges[:-1, None] + half[:, None] * (1.0 + nodes)).ravel()
        a = (y[:, None] - means[row]) / scales
        density = expit(a[:, own]) * expit(-a[:, own]) / scales[own] * expit(a[:, 1 - own])
        wanted = np.log((half[:, None] * weights).ravel() @ density)
        assert found[row] == pytest.approx(wanted, abs=EXACT)


@pytest.fixture(params=["max", "min"])
def rule(request):
    return request.param


def test_a_known_index_is_survregs_logistic_regressions(rule):
    """With independent noise the likelihood is a product of censored regressions."""
    table = pd.read_csv(REFERENCE / "survreg_logistic_result.csv", comment="#")
    wanted = table[table["rule"] == rule].set_index(["alternative", "term"])
    rows = pd.read_csv(REFERENCE / "survreg_data.csv")
    fit = ss.fit(f"y_{rule} ~ x1 + x2", rows, chosen=f"chosen_{rule}", rule=rule, noise=LOGISTIC)
    total = wanted.xs("loglik", level="term")["estimate"].sum()
    assert fit.llf == pytest.approx(total, rel=SURVREG)
    np.testing.assert_allclose(fit.params, wanted["estimate"][fit.params.index], rtol=SURVREG)
    np.testing.assert_allclose(fit.bse, wanted["std_error"][fit.bse.index], rtol=SURVREG)


def test_it_is_fitted_where_normal_noise_is_not_true(data, result):
    normal = ss.fit("outcome ~ x + z", data, chosen="chosen")
    assert result.llf > normal.llf
    truth = [value for each in COEFFICIENTS.values() for value in each.values()]
    slopes = result.params.drop("scale", level="term")
    assert (np.abs(slopes - truth) < 4.0 * result.bse[slopes.index]).all()


# predictions and effects


def test_predictions_are_what_brute_force_gives(result):
    new = pd.DataFrame({"x": [-1.0, 0.2, 2.5], "z": [0.5, -2.0, 1.0]})
    means, scales = result.predict(new).to_numpy(), result.scales.to_numpy()
    chance = result.predict(new, kind="chance").to_numpy()
    outcome = result.predict(new, kind="outcome").to_numpy()
    given = result.predict(new, kind="given_seen").to_numpy().reshape(3, 2, 2)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for row in range(3):
        total = 0.0
        for own, other in ((0, 1), (1, 0)):
            edges = np.linspace(means[row, own] - 45.0, means[row, own] + 45.0, 301)
            half = 0.5 * np.diff(edges)
            y = (edges[:-1, None] + half[:, None] * (1.0 + nodes)).ravel()
            a = (y[:, None] - means[row]) / scales
            weight = (half[:, None] * weights).ravel() / scales[own]
            weight *= expit(a[:, own]) * expit(-a[:, own])
            below = expit(a[:, other])
            # The mean of the other below y, times its chance: a F - log(1 + e^a) scales more.
            partial = a[:, other] * below - np.logaddexp(0.0, a[:, other])
            beneath = means[row, other] * below + scales[other] * partial
            share = weight @ below
            total += weight @ (below * y)
            assert chance[row, own] == pytest.approx(share, abs=EXACT)
            assert given[row, own, own] == pytest.approx(weight @ (below * y) / share, abs=EXACT)
            assert given[row, other, own] == pytest.approx(weight @ beneath / share, abs=EXACT)
        assert outcome[row] == pytest.approx(total, abs=EXACT)


def test_predictions_with_estimated_costs_are_what_simulation_says(data):
    fit = ss.fit("outcome ~ x + z", data, noise=LOGISTIC, **KINDS["estimated costs"])
    new = pd.DataFrame({"x": [0.3], "z": [0.5]})
    latent = drawn_outcomes(fit.predict(new).to_numpy()[0], fit.scales.to_numpy())
    net = latent[:, 0] - fit.params["a", "cost: Intercept"] - 0.5 * fit.params["a", "cost: z"]
    own = net > latent[:, 1]
    assert_mean(fit.predict(new, kind="chance")["a"].iloc[0], own)
    given = fit.predict(new, kind="given_seen")
    for j, label in enumerate("ab"):
        assert_mean(given[label, "a"].iloc[0], latent[own, j])
        assert_mean(given[label, "b"].iloc[0], latent[~own, j])


@pytest.fixture(scope="module")
def world(result):
    """Latent outcomes of 400 draws for every row of the fit, at its estimates."""
    means = np.tile(result.predict().to_numpy(), (400, 1))
    noise = np.random.default_rng(5).logistic(size=means.shape)
    return means + noise * result.scales.to_numpy()


def assert_close(table, name, values):
    """Compare an effect with draws; rows are those of the fit, so their sampling does not count."""
    error = MONTE_CARLO * values.std() / np.sqrt(len(values))
    assert abs(float(table[name]) - values.mean()) < error


def test_effects_are_what_simulation_says(result, world):
    own = world[:, 0] > world[:, 1]
    gain = world[:, 0] - world[:, 1]
    effects = result.treatment_effects("a", "b").table.set_index("effect")["estimate"]
    for name, group in (("ATE", own | True), ("ATT", own), ("ATU", ~own)):
        assert_close(effects, name, gain[group])
    means = result.potential_outcomes().table.set_index(["group", "alternative"])["estimate"]
    assert_close(means, ("a", "b"), world[own, 1])
    parts = result.decompose("a", "b").table.set_index("part")["estimate"]
    gap = world[own, 0].mean() - world[~own, 1].mean()
    assert parts["gap under the model"] == pytest.approx(gap, abs=0.02)


def test_gains_are_draws_of_logistic_noise(result, world):
    gain = world[:, 0] - world[:, 1]
    table = result.gains("a", "b", quantiles=[0.05, 0.95], seed=1).table
    everyone = table[table["group"] == "everyone"].set_index("quantity")
    for quantity, wanted in (
        ("std", gain.std()),
        ("quantile 0.05", np.quantile(gain, 0.05)),
        ("quantile 0.95", np.quantile(gain, 0.95)),
    ):
        found = everyone.loc[quantity]
        assert abs(found["estimate"] - wanted) < MONTE_CARLO * (found["mc_error"] + 0.005)


def test_counterfactuals_and_policies_are_what_simulation_says(result, world):
    own = world[:, 0] > world[:, 1]
    subsidised = result.counterfactual(subsidy={"a": 1.0})
    after = world[:, 0] + 1.0 > world[:, 1]
    shares = subsidised.shares.table.set_index(["when", "alternative"])["estimate"]
    assert_close(shares, ("after", "a"), after)
    outcomes = subsidised.outcomes.table.set_index(["quantity", "when"])["estimate"]
    assert_close(outcomes, ("mean outcome", "after"), np.where(after, world[:, 0], world[:, 1]))
    closed = result.counterfactual(close=["a"]).outcomes.table
    closed = closed.set_index(["quantity", "when"])["estimate"]
    assert_close(closed, ("mean outcome", "after"), world[:, 1])
    value = result.policy().value.table.set_index("quantity")["estimate"]
    assert_close(value, "expert", np.where(own, world[:, 0], world[:, 1]))
    best = np.tile(result.predict().to_numpy().argmax(axis=1), 400)
    assert_close(value, "policy", world[np.arange(len(world)), best])


def test_derivatives_of_effects_are_right(result):
    """Standard errors by the delta method are those of differences of the estimate itself."""
    found = result.treatment_effects("a", "b", covariates="fixed").table
    problem, values = result.problem, result.values

    def at(moved):
        solution = replace(result.solution, free=problem.layout.read(moved))
        table = replace(result, solution=solution).treatment_effects("a", "b").table
        return table["estimate"].to_numpy()

    steps = 1e-4 * np.eye(len(values))
    slopes = np.array([(at(values + one) - at(values - one)) / 2e-4 for one in steps]).T
    errors = np.sqrt(np.diag(slopes @ result.covariance.matrix @ slopes.T))
    np.testing.assert_allclose(found["std_error"], errors, rtol=1e-5)


def test_marginal_effects_are_differences_of_chances(result):
    table = result.marginal_effects("x").table.set_index("alternative")["estimate"]
    up, down = (
        result.predict(result.table.assign(x=result.table["x"] + way), kind="chance").mean()
        for way in (STEP, -STEP)
    )
    np.testing.assert_allclose(table, (up - down) / (2 * STEP), rtol=1e-5)


# what belongs to a fit


def test_a_saved_fit_is_the_same_fit(result, tmp_path):
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.problem.noise == LOGISTIC
    assert str(loaded.summary()) == str(result.summary())
    new = pd.DataFrame({"x": [0.1], "z": [2.0]})
    np.testing.assert_array_equal(
        loaded.predict(new, kind="given_seen"), result.predict(new, kind="given_seen")
    )


def test_robust_and_clustered_errors_are_sandwiches(data, result):
    natural = result.problem.layout.natural(result.solution.free)
    scores = row_terms(result.problem, natural, result.engine.batch).score
    pulled = result.problem.layout.pull_back_vector(scores, result.solution.free)
    towns = np.array([pulled[data["town"] == town].sum(axis=0) for town in range(40)])
    inverse = np.linalg.inv(result.solution.information)
    jacobian = result.reported.jacobian
    for part, options in ((pulled, {"covariance": "robust"}), (towns, {"cluster": "town"})):
        fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC, **options)
        plain = np.sqrt(np.diag(jacobian @ inverse @ part.T @ part @ inverse @ jacobian.T))
        # Small samples are corrected on top, for clusters by some percent.
        np.testing.assert_allclose(fit.bse, plain, rtol=0.1)
        np.testing.assert_array_equal(fit.params, result.params)


def test_residuals_are_means_of_the_noise(result):
    found = ss.plots.residuals(result).data
    assert (np.abs(found["mean"]) < 5.0 * found["std_error"]).all()
    residuals = row_terms(
        result.problem, result.problem.layout.natural(result.solution.free), result.engine.batch
    ).residual
    chosen = (result.table["chosen"] == "b").to_numpy().astype(int)
    outcome, means = result.table["outcome"].to_numpy(), result.predict().to_numpy()
    scales, each = result.scales.to_numpy(), np.arange(len(outcome))
    a = (outcome[:, None] - means) / scales
    np.testing.assert_allclose(residuals[each, chosen], a[each, chosen], rtol=1e-9, atol=1e-9)
    other = a[each, 1 - chosen]
    wanted = other - np.logaddexp(0.0, other) / expit(other)
    np.testing.assert_allclose(residuals[each, 1 - chosen], wanted, rtol=1e-9)


def test_residuals_are_the_same_where_alternatives_are_joined(data, result):
    """A cost that is estimated near zero changes little of what a row says of the noise."""
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC, cost={"a": "~ z - 1"})
    alone, joined = (
        row_terms(one.problem, one.problem.layout.natural(one.solution.free), one.engine.batch)
        for one in (result, fit)
    )
    assert np.corrcoef(alone.residual.ravel(), joined.residual.ravel())[0, 1] > 0.999


@pytest.mark.parametrize("options", [{}, {"cluster": "town"}])
def test_independence_is_tested_with_its_size(options):
    p_values = []
    for seed in range(60):
        fit = ss.fit("outcome ~ x + z", simulated(400, seed), chosen="chosen", noise=LOGISTIC,
                     **options)  # fmt: skip
        p_values.append(fit.independence_test().p_value)
    # Of 60 uniform p-values more than 9 are below 5% once in a thousand times.
    assert np.sum(np.array(p_values) < 0.05) <= 9
    assert 0.3 < np.mean(p_values) < 0.7


def test_dependence_is_found():
    shock = 2.0 * np.random.default_rng(9).logistic(size=3_000)
    table = rows(3_000)
    means = np.column_stack([1.0 + table["x"] + 0.5 * table["z"], 0.5 - 0.5 * table["x"]])
    latent = means + shock[:, None] + np.random.default_rng(10).logistic(size=(3_000, 2))
    data = table.assign(outcome=latent.max(axis=1), chosen=np.array(["a", "b"])[latent.argmax(1)])
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)
    assert fit.independence_test().p_value < 1e-3


def test_one_scale_for_all_is_tested_under_the_same_shape(data):
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen",
                 noise=Independent("common", shape="logistic"))  # fmt: skip
    each = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC)
    score = common_scale_test(
        fit.problem, fit.engine, fit.solution, dependence=Dependence((), None, None)
    )
    ratio = fit.lr_test(each)
    assert ratio.possible
    assert score.statistic == pytest.approx(ratio.statistic, rel=0.5)


def test_the_naive_scale_is_comparable():
    """Where nothing is selected both estimate the scale, not the standard deviation."""
    table = rows(4_000)
    table["to_a"], table["to_b"] = table["town"] % 2 == 0, table["town"] % 2 == 1
    only = {"a": "to_a", "b": "to_b"}
    sample = ss.simulate(COEFFICIENTS, table, scales=SCALES, noise=LOGISTIC, available=only, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", available=only, noise=LOGISTIC)
    compared = fit.compare().table.xs("scale", level="term")
    np.testing.assert_allclose(compared["naive"], compared["corrected"], rtol=0.03)
    np.testing.assert_allclose(compared["naive"], list(SCALES.values()), rtol=0.05)


# what is made for normal noise


def test_its_own_shape_and_spread_are_tested_and_departures_refused(result):
    shape, spread = result.normality_test(0), result.heteroskedasticity_test(0)
    assert shape.possible and spread.possible and not (shape.rejects() or spread.rejects())
    assert "test of the logistic shape (null: logistic noise)" in str(shape)
    with pytest.raises(UnsupportedError, match="assumes logistic noise"):
        result.departures()


@pytest.mark.parametrize("kind", ["wald", "lr"])
def test_independence_is_not_compared_with_correlated_normal_noise(result, kind):
    assert "normal noise only" in str(result.independence_test(kind))


def test_pages_name_the_shape_and_never_claim_normality(result, tmp_path):
    page = str(result.summary())
    assert "Noise: logistic, independent across alternatives (assumed)" in page
    assert "logistic noise" in " ".join(page.split())
    result.report(tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the logistic shape and constant variance are not rejected" in report
    assert "against logistic ones" in report
    for words in ("ormality is not rejected", "against normal", "noise is normal"):
        assert words not in report
        assert words not in page


def test_levels_of_a_logarithm_are_refused(data):
    table = data.assign(wage=np.exp(data["outcome"]))
    fit = ss.fit("log(wage) ~ x + z", table, chosen="chosen", noise=LOGISTIC)
    for kind in ("latent", "outcome", "given_seen"):
        with pytest.raises(UnsupportedError, match="scale='level' needs normal noise"):
            fit.predict(kind=kind, scale="level")
    assert fit.predict(kind="outcome").notna().all()


def test_solvers_that_draw_and_rules_without_bounds_are_refused(data):
    known = Independent(scale=[1.0, 0.7], shape="logistic")
    for solver, noise in ((MonteCarloNewton(), LOGISTIC), (ProjectedSGD(), known)):
        with pytest.raises(UnsupportedError, match="drawn for normal noise only"):
            ss.fit("outcome ~ x + z", data, chosen="chosen", noise=noise, solver=solver, seed=1)
    with pytest.raises(UnsupportedError, match="MaximumLikelihood"):
        ss.fit("outcome ~ x + z", data, alternatives=2, noise=LOGISTIC, solver=MaximumLikelihood())
    with pytest.raises(UnsupportedError, match="Ranked rules need normal noise"):
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC, rule=ss.rules.Ranked(1))


def test_what_compares_normal_fits_is_refused(data, result):
    with pytest.raises(UnsupportedError, match="has logistic noise"):
        result.sensitivity([0.0, 0.3])
    with pytest.raises(OptionError, match="under normal noise only, not logistic"):
        ss.choose_alternatives("outcome ~ x + z", data, [1, 2], noise=LOGISTIC)
    correlated = ss.fit("outcome ~ x + z", data, chosen="chosen", noise="correlated")
    assert "not a special case" in str(result.lr_test(correlated))
    assert "theorems assume normal noise" in str(ss.assumptions(result))


def test_quantiles_are_drawn_against_logistic_ones(result):
    points = ss.plots.qq(result).data
    inner = points[points["logistic"].abs() < 2.0]
    assert (np.abs(inner["logistic"] - inner["empirical"]) < 2.0 * inner["reach"]).all()


def test_a_card_is_asked_for_nothing_it_does_not_know(data, result):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=LOGISTIC,
                 engine=ss.engines.Torch("cpu"))  # fmt: skip
    np.testing.assert_allclose(fit.params, result.params, rtol=1e-7)


def test_shapes_that_do_not_exist_are_refused_with_those_that_do():
    with pytest.raises(OptionError, match="one of gumbel, gumbel_min, laplace, logistic, normal"):
        Independent(shape="logit")

"""The assumptions of the theory, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


def by_hand(slopes):
    """Return B and Δ, written out from assumption (A)."""
    lengths = [np.linalg.norm(w) for w in slopes]
    separation = min(
        lengths[j] - abs(slopes[i] @ slopes[j]) / lengths[j]
        for i in range(len(slopes))
        for j in range(len(slopes))
        if i != j
    )
    return max(lengths), separation


def root_of(covariates):
    """Return a root of their covariance: slopes times it are those of uncorrelated covariates."""
    return np.linalg.cholesky(np.cov(covariates.to_numpy(), rowvar=False, ddof=0))


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(1_500, 2, 2, norm=2.0, seed=1)


@pytest.fixture(scope="module")
def result(sample):
    return ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)


def test_both_numbers_are_those_of_the_definition(result, sample):
    found = ss.assumptions(result)
    root = root_of(sample.data[["x1", "x2"]])
    slopes = [result.params[j][["x1", "x2"]].to_numpy() @ root / result.scales[j] for j in (1, 2)]
    bound, separation = by_hand(slopes)
    assert found["B"] == pytest.approx(bound, rel=1e-9)
    assert found["Delta"] == pytest.approx(separation, rel=1e-9)
    assert found["smallest share"] == result.shares.min()
    assert f"B = {bound:.3g}" in str(found)


def test_they_do_not_depend_on_units(result, sample):
    moved = sample.data.assign(
        x1=1e3 * sample.data["x1"] + 5.0, outcome=0.01 * sample.data["outcome"] - 7.0
    )
    other = ss.assumptions(ss.fit("outcome ~ x1 + x2", moved, alternatives=2))
    for name in ("B", "Delta", "smallest share"):
        assert other[name] == pytest.approx(ss.assumptions(result)[name], rel=1e-4)


def test_they_do_not_depend_on_which_combinations_of_the_covariates_are_given(result, sample):
    mixed = sample.data.assign(x2=0.3 * sample.data["x2"] + sample.data["x1"])
    other = ss.assumptions(ss.fit("outcome ~ x1 + x2", mixed, alternatives=2))
    for name in ("B", "Delta"):
        assert other[name] == pytest.approx(ss.assumptions(result)[name], rel=1e-4)


def test_correlated_covariates_can_break_what_their_slopes_alone_keep():
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.95], [0.95, 1.0]], 1_000)
    y = (x @ np.array([[1.0, -0.2], [0.2, 1.0]]) + rng.standard_normal((1_000, 2))).max(axis=1)
    table = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": y})
    found = ss.assumptions(ss.fit("y ~ x1 + x2", table, alternatives=2))
    assert found["Delta"] < 0.0 and "assumption (A) fails" in str(found)


def test_opposite_slopes_break_the_assumption_and_it_is_said():
    """The model is identified all the same: a shift of both would mend it (paper's slip)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1_000)
    y = np.maximum(2 * x, -2 * x) + 0.0
    table = pd.DataFrame({"x": x, "y": y + rng.standard_normal(1_000) * 0.5})
    found = ss.assumptions(ss.fit("y ~ x - 1", table, alternatives=2))
    assert found["Delta"] < 0.2
    weak = ss.assumptions(ss.fit("y ~ 1", table, alternatives=2))
    assert weak["B"] == 0.0 and weak["Delta"] == 0.0
    assert "! Δ = 0: assumption (A) fails" in str(weak)


def test_equations_with_covariates_of_their_own_are_compared_over_all(result):
    del result
    market = ss.simulators.market(800, seed=1)
    fit = ss.fit(market.formula, market.data, rule="min")
    root = root_of(market.data[["rate", "stock", "deposits"]])
    scale = fit.scales["demand"]
    demand = np.array([fit.params["demand", "rate"], fit.params["demand", "stock"], 0.0])
    supply = np.array([fit.params["supply", "rate"], 0.0, fit.params["supply", "deposits"]])
    bound, separation = by_hand([demand @ root / scale, supply @ root / scale])
    found = ss.assumptions(fit)
    assert found["B"] == pytest.approx(bound, rel=1e-9)
    assert found["Delta"] == pytest.approx(separation, rel=1e-9)


def test_a_recorded_index_has_them_too():
    village = ss.simulators.village(500, seed=1)
    fit = ss.fit(village.formula, village.data, chosen="job")
    found = ss.assumptions(fit)
    assert found["smallest share"] == fit.shares.min() == fit.counts.min() / 500


def test_the_known_index_is_measured_by_its_own_assumptions():
    sample = ss.simulators.gaussian(1_500, 2, 3, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="chosen")
    found = ss.assumptions(result)
    assert found["alpha (share)"] == pytest.approx(3 * result.shares.min())
    # By hand: chances times squares of the covariates, in standard deviations.
    x = sample.data[["x1", "x2"]].to_numpy()
    z = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / x.std(axis=0)])
    chance = result.predict(kind="chance").to_numpy()
    thickness = min(np.linalg.eigvalsh(z.T @ (z * chance[:, [j]]) / len(z))[0] for j in range(3))
    assert found["thickness"] == pytest.approx(thickness, rel=1e-6)
    assert found["C"] == pytest.approx(np.linalg.norm(z, axis=1).max(), rel=1e-6)
    assert 0 < found["alpha (mass)"] < 1 and all(one.met for one in found.each)
    assert "Delta" not in str(found) and "α =" in str(found)


def test_a_dominated_alternative_is_called_thin():
    truth = {"a": {"Intercept": 2.5, "x": 0.5}, "b": {"Intercept": 0.0, "x": 0.5}}
    x = np.random.default_rng(0).standard_normal(3_000)
    sample = ss.simulate(truth, {"x": x}, seed=1)
    found = ss.assumptions(ss.fit(sample.formula, sample.data, chosen="chosen"))
    by_name = {one.name: one for one in found.each}
    assert found["alpha (share)"] < 0.15
    assert by_name["thickness"].value < 0.1


def test_rules_without_bounds_are_measured_too():
    sample = ss.simulators.curved(600, seed=1)
    solver = ss.solvers.MonteCarloNewton(mc_tol=0.5, loglik_draws=64)
    result = ss.fit(
        sample.formula, sample.data, chosen="chosen", rule=sample.rule, solver=solver,
        noise=ss.noises.Independent(1.0),
    )  # fmt: skip
    found = ss.assumptions(result)
    assert 0.05 < found["alpha (mass)"] < 0.5 and found["thickness"] > 0.01


def test_a_problem_is_measured_before_it_is_fitted():
    sample = ss.simulators.gaussian(1_500, 2, 3, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="chosen")
    posed = ss.pose(sample.formula, sample.data, chosen="chosen")
    there, fitted = ss.assumptions(posed, result.params), ss.assumptions(result)
    assert [one.name for one in there.each] == [one.name for one in fitted.each]
    for one, other in zip(there.each, fitted.each, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9), one.name
    assert there.note == "" and str(there) == str(fitted)
    guess = ss.assumptions(posed)
    naive = result.naive["estimate"].to_dict()
    by_hand = ss.assumptions(posed, naive)
    assert guess["B"] == pytest.approx(by_hand["B"], rel=1e-6)
    assert guess["thickness"] == pytest.approx(by_hand["thickness"], rel=1e-6)
    assert "which selection biases: a first look" in str(guess)


def test_a_rule_without_bounds_is_measured_before_it_is_fitted():
    sample = ss.simulators.curved(600, seed=1)
    options = {"chosen": "chosen", "rule": sample.rule, "noise": ss.noises.Independent(1.0)}
    posed = ss.pose(sample.formula, sample.data, **options)
    found = ss.assumptions(posed, sample.params)
    assert 0.05 < found["alpha (mass)"] < 0.5 and found["thickness"] > 0.01
    wrong = sample.data.assign(chosen=np.roll(sample.data["chosen"], 1))
    with pytest.raises(ss.errors.RuleError):
        ss.pose(sample.formula, wrong, **options)


def test_what_cannot_be_measured_is_refused(sample, result):
    with pytest.raises(ss.errors.OptionError, match=r"Problem holds none.*selfselect\.pose"):
        ss.assumptions(result.problem)
    posed = ss.pose("outcome ~ x1 + x2", sample.data, alternatives=2)
    with pytest.raises(ss.errors.OptionError, match="no quick guess"):
        ss.assumptions(posed)
    there, fitted = ss.assumptions(posed, result.params), ss.assumptions(result)
    assert there["Delta"] == pytest.approx(fitted["Delta"], rel=1e-9)
    with pytest.raises(ss.errors.OptionError, match="params has no"):
        ss.assumptions(posed, result.params.iloc[1:])
    with pytest.raises(ss.errors.OptionError, match="not finite"):
        ss.assumptions(posed, result.params * np.nan)


def test_of_an_unknown_index_the_covariates_should_be_normal():
    """Definition 4: maximum likelihood does not need it, the paper's methods do."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2_000, 2))
    for shape, met in ((x, True), (np.exp(x), False), (np.sign(x), False)):
        data = pd.DataFrame(shape, columns=["a", "b"])
        data["y"] = (shape @ [[1.0, -1.0], [0.5, 0.0]] + rng.standard_normal((2_000, 2))).max(
            axis=1
        )
        posed = ss.pose("y ~ a + b", data, alternatives=2)
        params = dict.fromkeys(
            [(j, t) for j in (1, 2) for t in ("Intercept", "a", "b")] + [("(common)", "scale")], 1.0
        )
        found = {one.name: one for one in ss.assumptions(posed, params).each}["normal covariates"]
        assert found.met == met
        assert ("Definition 4" in found.sentence) and (found.value < 1e-3) != met
        assert met or "maximum likelihood does not" in found.sentence


def test_rows_of_weight_zero_are_no_part_of_what_is_measured():
    table = ss.simulators.village(600, seed=3).data.assign(w=1.0)
    counted = ss.fit("income ~ height + weight", table, chosen="job")
    strange = table.head(200).assign(w=0.0, height=900.0)
    options = {"weights": "w", "weights_kind": "frequency"}
    both = ss.fit("income ~ height + weight", pd.concat([table, strange]), chosen="job", **options)
    assert str(ss.assumptions(both)) == str(ss.assumptions(counted))
    assert str(both.diagnose()) == str(counted.diagnose())

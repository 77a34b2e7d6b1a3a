"""Scales that move with covariates: estimates, and what may be given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import (
    ConvergenceWarning,
    DataError,
    OptionError,
    SelfSelectWarning,
    UnsupportedError,
)
from selfselect.likelihoods import evaluate
from selfselect.noises import Correlated, Independent, Mixture, SharedShock, Student

REFERENCE = Path(__file__).parent.parent / "reference"

AGE = Independent(scale="~ age")


SAME = 1e-9
"""The same optimum, found in other units or in another order."""

SURVREG = 1e-6
"""Both stop at the same optimum; survreg's own tolerance leaves some eight digits."""

FAR = 4.5
"""Standard errors by which one of a few dozen estimates may miss its truth."""

LOG_SCALES = {"a": (0.0, 0.5), "b": (-0.1, -0.3)}
"""True constants and slopes of log scales, per decade from the age of 40 on."""


def latent(n_rows, seed=0):
    """Draw covariates, and the outcomes of both alternatives."""
    rng = np.random.default_rng([seed, 15])
    table = pd.DataFrame({"x": rng.standard_normal(n_rows), "age": rng.uniform(20, 60, n_rows)})
    decades = (table["age"].to_numpy() - 40) / 10
    means = np.column_stack([1.0 + table["x"], 1.2 - 0.5 * table["x"] + 0.02 * table["age"]])
    spread = np.column_stack([np.exp(c + d * decades) for c, d in LOG_SCALES.values()])
    return table, means + spread * rng.standard_normal((n_rows, 2))


def made(n_rows=400, seed=0, smallest=False):
    table, outcomes = latent(n_rows, seed)
    best = outcomes.argmin(axis=1) if smallest else outcomes.argmax(axis=1)
    rng = np.random.default_rng(seed)
    return table.assign(
        y=outcomes[np.arange(n_rows), best],
        job=np.array(["a", "b"])[best],
        toll=rng.uniform(size=n_rows),
        town=np.arange(n_rows) % 40,
        region=np.where(table["x"] + rng.standard_normal(n_rows) > 0, "south", "north"),
        count=rng.integers(1, 3, n_rows),
    )


@pytest.fixture(scope="module")
def data():
    return made()


@pytest.fixture(scope="module")
def result(data):
    return ss.fit("y ~ x + age", data, chosen="job", noise=AGE)


def somewhere(problem, seed=0):
    """Return natural parameters that are no optimum."""
    layout, rng = problem.layout, np.random.default_rng(seed)
    natural = 0.2 * rng.standard_normal(layout.n_natural)
    natural[layout.inverse_scale_positions] = 1.0 + rng.uniform(size=len(layout.sizes))
    # Parameters of a shape exist around where they begin only.
    starts, extras = layout.extra_starts, natural[layout.starts[-1] :]
    natural[layout.starts[-1] :] = np.where(starts != 0.0, starts * (1.0 + 0.2 * extras), extras)
    return layout.natural(layout.gather(natural))


EACH = Independent(scale={"a": "~ age + toll", "b": "~ age"})

POSED = {
    "known": {"chosen": "job"},
    "smallest": {"chosen": "job", "rule": "min"},
    "logistic": {"chosen": "job", "noise": Independent(EACH.scale, shape="logistic")},
    "mixture": {"chosen": "job", "noise": Mixture(2, scale=EACH.scale)},
    "a mixture each": {"chosen": "job", "noise": Mixture(2, each=True, scale="~ age")},
    "student": {"chosen": "job", "noise": Student(scale=EACH.scale)},
    "unknown mixture": {"alternatives": 2, "noise": Mixture(2, scale="~ age")},
    "unknown": {"alternatives": 2, "noise": AGE},
    "unknown smallest": {"alternatives": 2, "noise": AGE, "rule": "min"},
    "unknown logistic": {"alternatives": 2, "noise": Independent("~ age", shape="logistic")},
    "costs": {"chosen": "job", "cost": {"b": "~ toll"}},
    "weights": {"chosen": "job", "weights": "count", "weights_kind": "frequency"},
    "shared": {"chosen": "job", "shared": ["x"]},
    "correlated": {"chosen": "job", "noise": Correlated(EACH.scale)},
    "correlated costs": {
        "chosen": "job", "noise": Correlated(EACH.scale), "cost": {"b": "~ toll"}
    },
}  # fmt: skip


@pytest.mark.parametrize("case", ["known", "student", "unknown", "unknown logistic"])
def test_a_trial_step_to_scales_beyond_all_numbers_has_a_likelihood_next_to_zero(data, case):
    posed = ss.pose("y ~ x", data, **({"noise": EACH} | POSED[case]))
    layout, batch = posed.problem.layout, posed.engine.batch
    natural = somewhere(posed.problem)
    for spread in layout.spread_of:
        natural[spread.places] = 600.0
    for one in (batch, replace(batch, backend="numpy")):
        found = evaluate(posed.problem, natural, one)
        assert found.loglik < -10 * len(data)
        assert np.isfinite(found.score).all()
        assert np.isfinite(found.hessian).all()


@pytest.mark.compiled
@pytest.mark.parametrize("n_rows", [5, 255, 256, 257, 1_000])
@pytest.mark.parametrize("case", ["max", "min", "available"])
def test_the_fused_pass_is_the_oracles(n_rows, case):
    table = made(3_000, seed=9, smallest=case == "min").assign(
        job=lambda rows: np.where(rows["toll"] > 0.7, "c", rows["job"]),
        open=lambda rows: (rows["job"] == "c") | (rows["town"] > 10),
    )
    posed = ss.pose(
        {"a": "y ~ x + toll", "b": "y ~ 1", "c": "y ~ x - 1"},
        table,
        chosen="job",
        rule="min" if case == "min" else "max",
        available={"c": "open"} if case == "available" else None,
        weights="count",
        noise=Independent({"a": "~ age + toll + C(region)", "b": "~ 1", "c": "~ x"}),
    )
    problem, batch = posed.problem, posed.engine.batch.take(slice(0, n_rows))
    assert batch.backend == "fused"
    natural = somewhere(problem)
    found = evaluate(problem, natural, batch)
    oracle = evaluate(problem, natural, replace(batch, backend="numpy"))
    assert found.loglik == pytest.approx(oracle.loglik, rel=1e-12)
    for ours, theirs in ((found.score, oracle.score), (found.hessian, oracle.hessian)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * np.abs(theirs).max())
    without = problem.likelihood.evaluate(natural, batch, "none")
    np.testing.assert_array_equal(without.score, found.score)


@pytest.mark.parametrize("scale", ["~ 1", {"a": "~ 1", "b": "~ 1"}])
def test_a_log_scale_of_a_constant_is_one_scale_each(data, scale):
    plain = ss.fit("y ~ x + age", data, chosen="job")
    same = ss.fit("y ~ x + age", data, chosen="job", noise=Independent(scale=scale))
    assert same.params.index.equals(plain.params.index)
    np.testing.assert_allclose(same.params, plain.params, rtol=SAME)
    np.testing.assert_allclose(same.bse, plain.bse, rtol=SAME)
    assert same.llf == pytest.approx(plain.llf, rel=SAME)
    assert same.problem.likelihood.concave


@pytest.mark.parametrize("shape", ["gaussian", "logistic"])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_a_scale_for_each_region_is_survregs_with_strata(rule, shape):
    table = pd.read_csv(REFERENCE / "survreg_spread_result.csv", comment="#")
    table = table[(table["rule"] == rule) & (table["shape"] == shape)]
    wanted = table.set_index(["alternative", "term"])
    data = pd.read_csv(REFERENCE / "survreg_data.csv")
    data["region"] = np.where(data["x2"] > 0, "south", "north")
    result = ss.fit(
        f"y_{rule} ~ x1 + x2",
        data,
        chosen=f"chosen_{rule}",
        rule=rule,
        noise=Independent("~ C(region)", shape={"gaussian": "normal"}.get(shape, shape)),
    )
    total = wanted.xs("loglik", level="term")["estimate"].sum()
    assert result.llf == pytest.approx(total, rel=SURVREG)
    for ours, theirs in ((result.params, "estimate"), (result.bse, "std_error")):
        np.testing.assert_allclose(ours, wanted[theirs][ours.index], rtol=SURVREG, atol=SURVREG)


def test_estimates_recover_the_truth_where_constant_scales_do_not():
    data = made(6_000, seed=3)
    moving = ss.fit("y ~ x + age", data, chosen="job", noise=AGE)
    assert moving.converged and not moving.problem.likelihood.concave
    truth = {
        ("a", "Intercept"): 1.0, ("a", "x"): 1.0, ("a", "age"): 0.0,
        ("b", "Intercept"): 1.2, ("b", "x"): -0.5, ("b", "age"): 0.02,
    }  # fmt: skip
    for label, (constant, slope) in LOG_SCALES.items():
        truth[label, "log scale: Intercept"] = constant - 4.0 * slope
        truth[label, "log scale: age"] = slope / 10
    wanted = pd.Series([truth[label] for label in moving.params.index], moving.params.index)
    assert ((moving.params - wanted) / moving.bse).abs().max() < FAR
    plain = ss.fit("y ~ x + age", data, chosen="job")
    assert moving.llf > plain.llf + 100
    slopes = [key for key in truth if key[1] in ("x", "age")]
    off, off_plain = (
        max(abs(one.params[key] - truth[key]) for key in slopes) for one in (moving, plain)
    )
    assert off < 0.5 * off_plain


def test_equations_without_a_constant_fit_too(data):
    result = ss.fit("y ~ x + age - 1", data, chosen="job", noise=AGE)
    moved = data.assign(age=data["age"] * 12)
    other = ss.fit("y ~ x + age - 1", moved, chosen="job", noise=AGE)
    assert result.converged and other.llf == pytest.approx(result.llf, rel=1e-8)


def test_reading_what_is_reported_returns_the_free_parameters(result):
    layout = result.problem.layout
    np.testing.assert_allclose(layout.read(result.values), result.solution.free, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["robust", "clustered"])
def test_robust_errors_are_near_the_observed_ones(data, result, covariance):
    cluster = "town" if covariance == "clustered" else None
    other = ss.fit(
        "y ~ x + age", data, chosen="job", noise=AGE, covariance=covariance, cluster=cluster
    )
    assert ((other.bse / result.bse).to_numpy() > 0.5).all()
    assert ((other.bse / result.bse).to_numpy() < 2.0).all()


def test_a_wider_log_scale_nests_a_constant_one(data, result):
    plain = ss.fit("y ~ x + age", data, chosen="job")
    test = result.lr_test(plain)
    assert test.df == 2 and test.p_value < 1e-6
    other = ss.fit("y ~ x + age", data, chosen="job", noise=Independent("~ toll + x"))
    assert "terms of the smaller model" in other.lr_test(result).reason


def test_correlated_noise_with_moving_scales_finds_the_correlation():
    rng = np.random.default_rng(5)
    table, _ = latent(4_000, seed=5)
    decades = (table["age"].to_numpy() - 40) / 10
    noise = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], len(table))
    outcomes = np.column_stack([1 + table["x"], 1.5 - table["x"]])
    outcomes += noise * np.exp(np.column_stack([0.4 * decades, -0.2 * decades]))
    best = outcomes.argmax(axis=1)
    table = table.assign(y=outcomes[np.arange(len(table)), best], job=np.array(["a", "b"])[best])
    result = ss.fit("y ~ x", table, chosen="job", noise=Correlated("~ age"))
    assert result.converged
    assert abs(result.correlations.iloc[0] - 0.6) < FAR * result.bse["a & b", "correlation"]
    slopes = result.params.xs("log scale: age", level="term")
    errors = result.bse.xs("log scale: age", level="term")
    assert (abs(slopes - [0.04, -0.02]) < FAR * errors).all()


def test_tests_of_noise_leave_out_what_moves_the_scale(result, data):
    test = result.heteroskedasticity_test(0)
    assert test.df == 2  # x of both equations; age is in the log scale.
    all_in = ss.fit("y ~ x + age", data, chosen="job", noise=Independent("~ x + age"))
    assert "move with every covariate" in all_in.heteroskedasticity_test(0).reason
    assert result.normality_test(0).p_value > 1e-4
    assert result.independence_test().p_value > 1e-4
    assert result.independence_test("lr").p_value > 1e-4


# What may be given


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        ("age", "There is no scale 'age'"),
        ("y ~ age", "must begin with '~'"),
        ({"a": "~ age", "b": 1.0}, "are formulas and 1.0"),
        ({"a": "~ age", "b": "each"}, "must begin with '~'"),
    ],
)
def test_a_scale_that_is_no_right_side_is_refused(scale, said):
    with pytest.raises(OptionError, match=said):
        Independent(scale=scale)


@pytest.mark.parametrize(
    ("scale", "error", "said"),
    [
        ("~ age - 1", OptionError, "has no constant"),
        ("~ 0 + C(region)", OptionError, "has no constant"),
        ("~ y", OptionError, "depends on the outcome 'y'"),
        ("~ nowhere", DataError, "nowhere"),
        ("~ age + one", DataError, "'one' of the log scale of 'a' cannot be told apart"),
        ("~ age + I(2 * age)", DataError, "cannot be told apart"),
        ({"a": "~ age"}, OptionError, "No scale is given for b"),
        ({"a": "~ age", "b": "~ 1", "c": "~ 1"}, OptionError, "'c'"),
    ],
)
def test_a_log_scale_that_cannot_be_is_refused_by_name(data, scale, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        ss.fit("y ~ x", data.assign(one=1.0), chosen="job", noise=Independent(scale=scale))


def test_what_has_no_moving_scales_refuses_them(data):
    with pytest.raises(OptionError, match="SharedShock does not have"):
        SharedShock("~ age")
    three = data.assign(job=np.resize(["a", "b", "c"], len(data)))
    with pytest.raises(UnsupportedError, match="Ranked rules need scales that do not move"):
        ss.fit("y ~ x", three, chosen="job", rule=ss.rules.Ranked(2), noise=AGE)
    rule = ss.rules.LinearArgmax([[1.0, 0.2], [0.2, 1.0]])
    with pytest.raises(UnsupportedError, match="offers no `bounds`"):
        ss.fit("y ~ x", data, chosen="job", rule=rule, noise=AGE)
    with pytest.raises(UnsupportedError, match="rows were made without one"):
        ss.SelfSelectionRegressor(noise=AGE).fit(data[["x", "age"]], data["y"], chosen=data["job"])
    with pytest.raises(OptionError, match="a formula gives no numbers"):
        ss.simulate({"a": {"x": 1.0}, "b": {"x": -1.0}}, data[["x", "age"]], noise=AGE)
    with pytest.raises(OptionError, match="scales that do not move"):
        ss.choose_alternatives("y ~ x", data, noise=AGE)
    with pytest.raises(UnsupportedError, match="scales that move with covariates"):
        ss.fit("y ~ x", data, chosen="job", noise=AGE, solver=ss.solvers.Newton())


def test_a_loaded_or_new_row_with_an_unseen_category_is_refused_by_name(data):
    result = ss.fit("y ~ x", data, chosen="job", noise=Independent("~ C(region)"))
    with pytest.raises(DataError, match="west"):
        result.predict(data[:3].assign(region="west"), kind="scale")


def test_rows_that_lack_what_moves_the_scale_are_dropped_and_counted(data):
    gaps = data.copy()
    gaps.loc[:9, "age"] = np.nan
    with pytest.warns(SelfSelectWarning, match="10 of 400 rows"):
        result = ss.fit("y ~ x", gaps, chosen="job", noise=AGE)
    assert result.nobs == len(data) - 10
    with pytest.raises(DataError, match="age"):
        ss.fit("y ~ x", gaps, chosen="job", noise=AGE, missing="raise")


def with_a_region_of_its_own(n_chosen, seed=0):
    """Make rows in which 'b' is hardly ever chosen in the west: `n_chosen` times."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.standard_normal(800)})
    outcomes = np.column_stack([1 + table["x"], 1 - table["x"]])
    outcomes += 0.5 * rng.standard_normal((800, 2))
    region = np.where(table["x"] > 1.2, "west", rng.choice(["north", "south"], 800))
    table = table.assign(
        y=outcomes.max(axis=1), job=np.array(["a", "b"])[outcomes.argmax(axis=1)], region=region
    )
    table = table[(table["job"] == "a") | (table["region"] != "west")]
    table.loc[table.index[table["job"] == "b"][:n_chosen], "region"] = "west"
    return table


def test_a_log_scale_without_information_is_named():
    data = with_a_region_of_its_own(0)
    with pytest.warns(ConvergenceWarning, match=r"log scale: C\(region\)\[T.west\]' of 'b'"):
        result = ss.fit("y ~ x", data, chosen="job", noise=Independent("~ C(region)"))
    assert not result.converged


def test_a_scale_that_collapses_onto_a_row_is_named():
    data = with_a_region_of_its_own(1, seed=3)
    with pytest.warns(ConvergenceWarning, match="scale of 'b' collapsed: of the rows .* 1 have"):
        result = ss.fit("y ~ x", data, chosen="job", noise=Independent("~ C(region)"))
    assert not result.converged


def test_there_is_no_one_scale_of_an_alternative(result, data):
    with pytest.raises(UnsupportedError, match="every row has scales of its own"):
        _ = result.scales
    one = ss.fit("y ~ x", data, chosen="job", noise=Independent({"a": "~ age", "b": "~ 1"}))
    assert ("b", "scale") in one.params.index and ("a", "scale") not in one.params.index
    compared = one.compare().table
    assert np.isnan(compared["corrected"]["a", "scale"])
    assert compared["corrected"]["b", "scale"] == pytest.approx(one.params["b", "scale"])

"""Tests and comparisons of fits whose rows are clustered, or were drawn unequally."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.inference.simulation import Samples

OPTIONS = {
    "clustered": {"cluster": "g"},
    "robust": {"covariance": "robust"},
    "probability weights": {"weights": "w", "weights_kind": "probability"},
}
FORMULA = "y ~ x1 + x2"


@pytest.fixture(scope="module")
def table():
    """Rows of 40 groups that share most of their noise."""
    rng = np.random.default_rng(5)
    g = np.repeat(np.arange(40), 10)
    x = rng.normal(size=(400, 2))
    noise = np.sqrt(0.7) * rng.normal(size=(40, 2))[g] + np.sqrt(0.3) * rng.normal(size=(400, 2))
    latent = 0.2 + x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + noise
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(400), chosen],
            "who": np.array(["a", "b"])[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
            "g": g,
            "t": np.arange(400) % 10,
            "w": rng.uniform(0.5, 3.0, 400),
        }
    )


def fit_of(table, formula=FORMULA, **options):
    return ss.fit(formula, table, chosen="who", **options)


# likelihood ratios


@pytest.mark.parametrize("name", OPTIONS)
def test_likelihood_ratios_are_refused_and_name_the_wald_test(table, name):
    large, small = (fit_of(table, f, **OPTIONS[name]) for f in (FORMULA, "y ~ x1"))
    for test in (large.lr_test(small), small.lr_test(fit_of(table))):
        assert not test.possible and test.reason.endswith("not chi-square; use wald_test")
    ratio = large.independence_test("lr")
    assert not ratio.possible and ratio.reason.endswith("use kind='wald'")
    assert large.independence_test("wald").possible


@pytest.mark.parametrize("options", [{"cluster": "g"}, {"covariance": "robust"}])
def test_those_of_switching_are_refused_too(table, options):
    large = ss.switching(FORMULA, "who ~ x1 + x2", table, **options)
    small = ss.switching("y ~ x1", "who ~ x1 + x2", table, **options)
    for other in (small, fit_of(table), fit_of(table, **options)):
        assert large.lr_test(other).reason.endswith("use wald_test")
    assert large.independence_test().name.startswith("Wald")


def test_a_bootstrap_without_clusters_keeps_them(table):
    options = {"covariance": ss.inference.Bootstrap(5), "seed": 1}
    assert fit_of(table, **options).lr_test(fit_of(table, "y ~ x1", **options)).possible


# independence


@pytest.mark.parametrize("name", OPTIONS)
def test_walds_test_uses_the_covariance_of_the_fit(table, name):
    fit = fit_of(table, noise="correlated", **OPTIONS[name])
    place = ("a and b", "correlation")
    if place not in fit.params.index:
        place = next(label for label in fit.params.index if label[1] == "correlation")
    rho, error = fit.params[place], np.sqrt(fit.cov_params().loc[place, place])
    wanted = (np.arctanh(rho) * (1 - rho**2) / error) ** 2
    assert fit.independence_test().statistic == pytest.approx(wanted, rel=1e-9)
    assert fit.independence_test("wald") == fit.independence_test()
    alone = fit_of(table, **OPTIONS[name])
    assert alone.independence_test("wald").statistic == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("name", OPTIONS)
def test_sensitivity_has_errors_of_the_kind_of_the_fit_and_no_supported_region(table, name):
    fit = fit_of(table, **OPTIONS[name])
    found = fit.sensitivity([-0.3, 0.0, 0.3])
    np.testing.assert_allclose(found.std_errors.loc[0.0], fit.bse, rtol=1e-3)
    assert "supported" not in found.table and np.isnan(found.supported).all()
    assert "is not computed" in found.sentence() and "wald_test" in str(found)
    assert len(ss.plots.sensitivity(found).data) == 3


# shape and spread


@pytest.mark.parametrize("name", ["clustered", "probability weights"])
def test_without_a_bootstrap_there_is_a_statistic_and_no_verdict(table, name, tmp_path):
    fit = fit_of(table, **OPTIONS[name])
    for test in (fit.normality_test(0), fit.heteroskedasticity_test(0)):
        assert test.undecided and not test.possible and not test.rejects(0.5)
        assert test.statistic > 0 and test.df == 4 and np.isnan(test.p_value)
        assert f"statistic {test.statistic:.4g}, no verdict: rows " in str(test)
        assert f"{test}".rstrip(".") in " ".join(fit.summary().notes)
    assert not any("NORMALITY" in said or "VARIANCE" in said for said in fit.rejections())
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.normality_test(0)) == str(fit.normality_test(0))
    assert loaded.normality_test(0).undecided
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.normality_test(39)


@pytest.mark.parametrize("name", ["clustered", "probability weights"])
def test_the_bootstrap_ranks_the_same_statistic(table, name):
    fit = fit_of(table, **OPTIONS[name])
    for kind in ("normality_test", "heteroskedasticity_test"):
        quick, slow = (getattr(fit, kind)(n) for n in (0, 99))
        assert slow.statistic == pytest.approx(quick.statistic, rel=1e-9)
        assert slow.replications == 99 and 1 / 100 <= slow.p_value <= 1.0
    assert "no verdict" not in " ".join(fit.summary().notes)


def test_samples_of_the_bootstrap_share_as_much_within_clusters_as_the_data():
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(400), 5)
    x = rng.normal(size=(400, 2))[g]
    noise = np.sqrt(0.5) * rng.normal(size=(400, 2))[g] + np.sqrt(0.5) * rng.normal(size=(2_000, 2))
    latent = x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + noise
    chosen = latent.argmax(axis=1)
    data = pd.DataFrame({"y": latent[np.arange(2_000), chosen], "who": chosen, "g": g,
                         "x1": x[:, 0], "x2": x[:, 1]})  # fmt: skip
    fit = fit_of(data, cluster="g")
    natural = fit.problem.layout.natural(fit.solution.free)
    samples = Samples.like(fit.problem, fit.engine, natural, fit.dependence, 0)
    shared = samples.shared
    # Of 400 groups; the estimate's standard error is 0.03.
    np.testing.assert_allclose(shared, 0.5, atol=0.1)
    drawn = samples.noise(samples.common(rng), rng)
    assert drawn.std(axis=0) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(
        pd.DataFrame(drawn).groupby(g).mean().var(), shared + (1 - shared) / 5, atol=0.1
    )


def test_samples_of_rows_that_were_drawn_by_their_outcome_are_drawn_so_too():
    """Weights go with outcomes in samples as in the data; fixed ones would be unrelated to them."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6_000, 2))
    latent = x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + rng.normal(size=(6_000, 2))
    chosen = latent.argmax(axis=1)
    y = latent.max(axis=1)
    chance = 0.15 + 0.85 / (1.0 + np.exp(2.0 * (y - 0.5)))
    data = pd.DataFrame({"y": y, "who": chosen, "x1": x[:, 0], "x2": x[:, 1], "w": 1 / chance})
    data = data[rng.uniform(size=6_000) < chance]
    fit = fit_of(data, weights="w", weights_kind="probability")
    natural = fit.problem.layout.natural(fit.solution.free)
    drawn = Samples.like(fit.problem, fit.engine, natural, fit.dependence, 0).draw(rng)
    rows = fit.rows
    np.testing.assert_array_equal(drawn.covariates, rows.covariates)

    def facts(one):
        """Return the outcome's mean and spread as drawn and as weighed, and how weights go."""
        weighed = np.average(one.outcome, weights=one.weights)
        ratio = np.quantile(one.weights, 0.95) / np.quantile(one.weights, 0.05)
        together = np.corrcoef(one.outcome, np.log(one.weights))[0, 1]
        return np.array([one.outcome.mean(), one.outcome.std(), weighed, together, ratio / 6])

    np.testing.assert_allclose(facts(drawn), facts(rows), atol=0.12)


def test_weights_that_covariates_decide_stay_with_their_covariates():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3_000, 2))
    latent = x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + rng.normal(size=(3_000, 2))
    data = pd.DataFrame({"y": latent.max(axis=1), "who": latent.argmax(axis=1), "x1": x[:, 0],
                         "x2": x[:, 1], "w": np.exp(0.8 * x[:, 0])})  # fmt: skip
    fit = fit_of(data, weights="w", weights_kind="probability")
    natural = fit.problem.layout.natural(fit.solution.free)
    drawn = Samples.like(fit.problem, fit.engine, natural, fit.dependence, 0).draw(rng)
    assert np.corrcoef(np.log(drawn.weights), x[:, 0])[0, 1] > 0.99
    assert drawn.outcome.mean() == pytest.approx(fit.rows.outcome.mean(), abs=0.1)
    fit = fit_of(data.assign(w=data["w"].where(data.index > 9, 0.0)), weights="w",
                 weights_kind="probability")  # fmt: skip
    drawn = Samples.like(fit.problem, fit.engine, natural, fit.dependence, 0).draw(rng)
    np.testing.assert_array_equal(drawn.weights > 0, fit.rows.weights > 0)


def test_as_many_moments_as_clusters_are_no_test(table):
    fit = fit_of(table.assign(g=np.arange(len(table)) % 4), cluster="g")
    for test in (fit.normality_test(0), fit.heteroskedasticity_test(39)):
        assert not (test.possible or test.undecided)
        assert "4 clusters are too few to estimate the covariance of 4 moments" in str(test)


def test_clusters_in_two_ways_have_a_statistic_and_say_why_there_is_no_bootstrap(table):
    fit = fit_of(table, cluster=["g", "t"])
    assert fit.independence_test().possible
    quick, slow = fit.normality_test(0), fit.normality_test(39)
    assert quick.undecided and "several ways" in quick.reason
    assert not slow.possible and "cluster by one of them" in slow.reason


def test_normal_noise_within_clusters_is_not_rejected_and_skewed_noise_is():
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(150), 10)
    x = rng.normal(size=(1_500, 2))

    def rejects(draw):
        noise = np.sqrt(0.5) * rng.normal(size=(150, 2))[g] + np.sqrt(0.5) * draw((1_500, 2))
        latent = 0.2 + x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + noise
        chosen = latent.argmax(axis=1)
        data = pd.DataFrame({"y": latent[np.arange(1_500), chosen], "who": chosen, "g": g,
                             "x1": x[:, 0], "x2": x[:, 1]})  # fmt: skip
        return fit_of(data, cluster="g").normality_test(39, seed=1).rejects(0.94)

    assert not rejects(rng.standard_normal)
    assert rejects(lambda shape: (rng.chisquare(1, size=shape) - 1) / np.sqrt(2))


# naive errors


def by_hand(table, label, weights, middle):
    own = (table["who"] == label).to_numpy()
    x = np.column_stack([np.ones(own.sum()), table.loc[own, ["x1", "x2"]]])
    y, w = table.loc[own, "y"].to_numpy(), weights[own]
    bread = np.linalg.inv(x.T @ (x * w[:, None]))
    residual = y - x @ (bread @ x.T @ (w * y))
    count = w.sum()
    meat = middle(x * residual[:, None], w, own) * count / (count - 3)
    return np.sqrt(np.diag(bread @ meat @ bread))


def clustered(table):
    def middle(scores, w, own):
        totals = pd.DataFrame(scores * w[:, None]).groupby(table["g"][own].to_numpy()).sum()
        return (totals.T @ totals).to_numpy() * 40 / 39

    return middle


def by_rows(scores, w, own):
    del own
    return (scores * w[:, None]).T @ (scores * w[:, None])


def repeated(scores, w, own):
    del own
    return scores.T @ (scores * w[:, None])


def test_naive_errors_are_of_the_kind_of_the_corrected_ones(table):
    ones, times = np.ones(400), np.arange(400) % 3 + 1.0
    scaled = (table["w"] / table["w"].mean()).to_numpy()
    counted = {"weights": times, "weights_kind": "frequency"}
    cases = [
        ({"covariance": "robust"}, ones, by_rows),
        ({"cluster": "g"}, ones, clustered(table)),
        (OPTIONS["probability weights"], scaled, by_rows),
        (counted | {"covariance": "robust"}, times, repeated),
        (counted | {"cluster": "g"}, times, clustered(table)),
        ({"covariance": ss.inference.Bootstrap(5), "seed": 1}, ones, by_rows),
        ({"covariance": ss.inference.Bootstrap(5), "seed": 1, "cluster": "g"}, ones,
         clustered(table)),
    ]  # fmt: skip
    for options, weights, middle in cases:
        compared = fit_of(table, **options).compare().table
        for label in ("a", "b"):
            wanted = by_hand(table, label, weights, middle)
            np.testing.assert_allclose(compared.loc[label]["naive_se"][:3], wanted, rtol=1e-6)


def test_shared_coefficients_have_clustered_naive_errors_too(table):
    twice = table.loc[table.index.repeat(2)].assign(row=np.arange(400).repeat(2))
    once = fit_of(table, shared=["x1"], covariance="robust").compare().table["naive_se"].dropna()
    found = fit_of(twice, shared=["x1"], cluster="row").compare().table["naive_se"].dropna()
    # But for the small-sample factors, rows that are there twice say nothing new.
    np.testing.assert_allclose(found, once, rtol=0.02)


@pytest.mark.parametrize("cluster", [None, "g"])
def test_those_of_switching_are_too(table, cluster):
    options = {"covariance": "robust"} if cluster is None else {"cluster": cluster}
    ours = ss.switching(FORMULA, "who ~ x1 + x2", table, **options).compare().table["naive_se"]
    theirs = fit_of(table, **options).compare().table["naive_se"]
    np.testing.assert_allclose(ours, theirs.loc[ours.index], rtol=0.01)
    plain = ss.switching(FORMULA, "who ~ x1 + x2", table).compare().table["naive_se"]
    assert not np.allclose(ours, plain, rtol=0.02)


# what weights of selection models mean


def test_frequency_weights_of_selection_models_are_repeated_rows(table):
    times = np.arange(400) % 3 + 1
    longer = table.loc[table.index.repeat(times)]
    for options in ({}, {"covariance": "robust"}, {"method": "two-step", "covariance": "robust"}):
        weighted, plain = (
            ss.switching(FORMULA, "who ~ x1 + x2", data, **options, **more)
            for data, more in (
                (table, {"weights": times, "weights_kind": "frequency"}),
                (longer, {}),
            )
        )
        np.testing.assert_allclose(weighted.bse, plain.bse, rtol=1e-5)


def test_probability_weights_of_selection_models_give_robust_errors(table):
    options = {"weights": "w", "weights_kind": "probability"}
    one = ss.switching(FORMULA, "who ~ x1 + x2", table, **options)
    other = ss.switching(FORMULA, "who ~ x1 + x2", table.assign(w=1e4 * table["w"]), **options)
    assert one.covariance.kind == "robust"
    np.testing.assert_allclose(one.bse, other.bse, rtol=1e-5)
    assert "(probability, sum 400)" in str(one.summary())
    with pytest.raises(ss.errors.DataError, match="weights_kind='probability' for"):
        ss.switching(FORMULA, "who ~ x1 + x2", table, weights="w")

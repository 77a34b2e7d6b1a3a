"""Coefficients shared by alternatives, and offsets, from the front door to the summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

import selfselect as ss
from selfselect.cli.main import main
from selfselect.data.plan import share
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.noises import Correlated, Independent

SAME_OPTIMUM = 2e-3
"""A search by numerical derivatives stops about this close, in standard errors; log-likelihoods
agree far better."""

SAME_LOGLIK = 1e-6
SURE = 5.0


@pytest.fixture(scope="module")
def workers() -> pd.DataFrame:
    """Two alternatives with a common return to x, an offset of b, and different scales."""
    rng = np.random.default_rng(4)
    n = 1_200
    x, z, bonus = rng.normal(40.0, 8.0, n), rng.normal(size=n), rng.exponential(1.0, n)
    a = 1.0 + 0.1 * x + 0.5 * z + rng.normal(size=n)
    b = 1.5 + 0.1 * x - 0.8 * z + bonus + 1.6 * rng.normal(size=n)
    return pd.DataFrame(
        {"x": x, "z": z, "bonus": bonus, "y": np.maximum(a, b), "job": np.where(a > b, "a", "b")}
    )


def known(data: pd.DataFrame, means: list[Any], scales: list[float]) -> float:
    """Return the log-likelihood of the known index, written down anew: density times chance."""
    y, seen_a = data["y"].to_numpy(), (data["job"] == "a").to_numpy()
    a, b = ((y - m) / s for m, s in zip(means, scales, strict=True))
    of_a = norm.logpdf(a) - np.log(scales[0]) + norm.logcdf(b)
    of_b = norm.logpdf(b) - np.log(scales[1]) + norm.logcdf(a)
    return float(np.where(seen_a, of_a, of_b).sum())


def unknown(data: pd.DataFrame, means: list[Any], scales: list[float]) -> float:
    y = data["y"].to_numpy()
    a, b = ((y - m) / s for m, s in zip(means, scales, strict=True))
    of_a = norm.logpdf(a) - np.log(scales[0]) + norm.logcdf(b)
    of_b = norm.logpdf(b) - np.log(scales[1]) + norm.logcdf(a)
    return float(np.logaddexp(of_a, of_b).sum())


def correlated(data: pd.DataFrame, means: list[Any], scales: list[float], rho: float) -> float:
    y, seen_a = data["y"].to_numpy(), (data["job"] == "a").to_numpy()
    a, b = ((y - m) / s for m, s in zip(means, scales, strict=True))
    root = np.sqrt(1.0 - rho**2)
    of_a = norm.logpdf(a) - np.log(scales[0]) + norm.logcdf((b - rho * a) / root)
    of_b = norm.logpdf(b) - np.log(scales[1]) + norm.logcdf((a - rho * b) / root)
    return float(np.where(seen_a, of_a, of_b).sum())


def brute_force(objective: Any, start: Any) -> Any:
    """Maximise by numerical derivatives."""
    return minimize(lambda at: -objective(at), start, method="BFGS", options={"gtol": 1e-3})


# against brute force


@pytest.mark.parametrize("scale", ["each", "common", [1.0, 1.6]], ids=["each", "common", "known"])
@pytest.mark.parametrize("index", ["known", "unknown"])
def test_a_shared_slope_is_the_optimum_of_the_restricted_likelihood(
    workers: pd.DataFrame, scale: Any, index: str
) -> None:
    data = workers.assign(x=workers["x"] - 40.0)
    x, z, bonus = (data[name].to_numpy() for name in ("x", "z", "bonus"))
    loglik = known if index == "known" else unknown

    def objective(at: Any) -> float:
        means = [at[0] + at[1] * z + at[4] * x, at[2] + at[3] * z + at[4] * x + bonus]
        estimated = np.exp(np.resize(at[5:], 2)) if isinstance(scale, str) else scale
        return loglik(data, means, estimated)

    options: dict[str, Any] = {"chosen": "job"}
    formula: Any = "y ~ z + x"
    if index == "unknown":
        options, formula = {}, {"a": "y ~ z + x", "b": "y ~ z + x"}
    result = ss.fit(
        formula, data, shared=["x"], offset={"b": "bonus"}, noise=Independent(scale), **options
    )
    n_scales = {"each": 2, "common": 1}.get(scale if isinstance(scale, str) else "", 0)
    start = [5.0, 0.5, 5.5, -0.8, 0.1, 0.0, 0.4][: 5 + n_scales]
    best = brute_force(objective, start)
    assert result.converged
    assert result.llf == pytest.approx(-best.fun, abs=SAME_LOGLIK * 100)
    assert result.llf >= -best.fun - SAME_LOGLIK
    names = [("a", "Intercept"), ("a", "z"), ("b", "Intercept"), ("b", "z"), ("(common)", "x")]
    for name, value in zip(names, best.x, strict=False):
        assert abs(result.params[name] - value) < SAME_OPTIMUM * result.bse[name]


@pytest.mark.parametrize("noise", [Independent(), Correlated()], ids=["independent", "correlated"])
def test_a_shared_constant_is_the_optimum_where_covariates_are_far_from_zero(
    workers: pd.DataFrame, noise: Any
) -> None:
    x, z = workers["x"].to_numpy(), workers["z"].to_numpy()

    def objective(at: Any) -> float:
        means = [at[0] + at[1] * x + at[2] * z, at[0] + at[3] * x + at[4] * z]
        if isinstance(noise, Correlated):
            return correlated(workers, means, np.exp(at[5:7]), np.tanh(at[7]))
        return known(workers, means, np.exp(at[5:7]))

    result = ss.fit("y ~ x + z", workers, chosen="job", shared=["Intercept"], noise=noise)
    values = result.params
    found = [values["(common)", "Intercept"], values["a", "x"], values["a", "z"], values["b", "x"],
             values["b", "z"], *np.log(result.scales)]  # fmt: skip
    if isinstance(noise, Correlated):
        found.append(np.arctanh(values.iloc[-1]))
    assert result.converged
    assert result.llf == pytest.approx(objective(np.array(found)), rel=1e-10)
    best = brute_force(objective, np.array(found) + 1e-3)
    assert result.llf >= -best.fun - SAME_LOGLIK


def test_symmetric_bidders_are_a_tobit_of_all_their_rows() -> None:
    data = ss.simulators.tender(400, seed=3).data
    result = ss.fit("bid ~ size + distance", data, chosen="won", case="tender",
                    alternatives="firm", shared="all", rule="min")  # fmt: skip
    lowest = data.groupby("tender")["bid"].transform("max").to_numpy()
    design = np.column_stack([np.ones(len(data)), data["size"], data["distance"]])
    won = data["won"].to_numpy()

    def tobit(at: Any) -> float:
        a = (lowest - design @ at[:3]) / np.exp(at[3])
        return float(np.where(won, norm.logpdf(a) - at[3], norm.logsf(a)).sum())

    best = brute_force(tobit, [4.0, 0.5, 0.0, 0.0])
    assert result.llf == pytest.approx(-best.fun, abs=1e-4)
    np.testing.assert_allclose(result.params[:3], best.x[:3], atol=1e-4)
    assert result.params["(common)", "scale"] == pytest.approx(np.exp(best.x[3]), abs=1e-4)


def test_symmetric_bidders_without_names_are_order_statistics() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=2_000)
    data = pd.DataFrame({"x": x, "y": (2.0 + x[:, None] + rng.normal(size=(2_000, 3))).max(1)})
    result = ss.fit("y ~ x", data, alternatives=3, shared="all")

    def highest_of_three(at: Any) -> float:
        a = (data["y"] - at[0] - at[1] * data["x"]) / np.exp(at[2])
        return float((np.log(3.0) + norm.logpdf(a) - at[2] + 2.0 * norm.logcdf(a)).sum())

    best = brute_force(highest_of_three, [2.0, 1.0, 0.0])
    assert result.converged
    assert result.llf == pytest.approx(-best.fun, abs=1e-4)
    np.testing.assert_allclose(result.shares, 1 / 3)
    said = " ".join(str(result.summary()).split())
    assert "share all their coefficients: nothing distinguishes them" in said


# invariances


def test_units_and_origin_of_a_covariate_do_not_matter(workers: pd.DataFrame) -> None:
    moved = workers.assign(x=1e4 * workers["x"] - 7e6)
    for shared in (["x"], ["Intercept", "z"], "all"):
        one, other = (
            ss.fit("y ~ x + z", data, chosen="job", shared=shared, noise=Independent())
            for data in (workers, moved)
        )
        # A shared constant means something else where the covariate has another origin.
        if shared == ["Intercept", "z"]:
            assert other.converged
            continue
        assert one.llf == pytest.approx(other.llf, rel=1e-9)
        np.testing.assert_allclose(one.params["(common)", "x"], 1e4 * other.params["(common)", "x"])


def test_an_offset_of_all_is_the_outcome_less_it(workers: pd.DataFrame) -> None:
    one = ss.fit("y ~ x + z", workers, chosen="job", offset="bonus")
    other = ss.fit("net ~ x + z", workers.assign(net=workers["y"] - workers["bonus"]), chosen="job")
    assert one.llf == pytest.approx(other.llf, rel=1e-9)
    np.testing.assert_allclose(one.params, other.params, rtol=1e-5)
    np.testing.assert_allclose(one.bse, other.bse, rtol=1e-5)
    np.testing.assert_allclose(one.naive, other.naive, rtol=1e-6)
    expected = other.predict(workers.head(), kind="outcome") + workers["bonus"].head()
    np.testing.assert_allclose(one.predict(workers.head(), kind="outcome"), expected, rtol=1e-5)


def test_columns_of_other_names_are_shared_like_one(workers: pd.DataFrame) -> None:
    named = workers.assign(xa=workers["x"], xb=workers["x"])
    one = ss.fit("y ~ z + x", workers, chosen="job", shared=["x"])
    other = ss.fit({"a": "y ~ z + xa", "b": "y ~ z + xb"}, named, chosen="job",
                   shared={"x": {"a": "xa", "b": "xb"}})  # fmt: skip
    np.testing.assert_allclose(one.params, other.params, rtol=1e-6)
    assert other.params.index.equals(one.params.index)


def test_categories_are_shared_code_by_code(workers: pd.DataFrame) -> None:
    data = workers.assign(region=np.array(["n", "s", "w"])[np.arange(len(workers)) % 3])
    result = ss.fit("y ~ x + region", data, chosen="job", shared=["region"])
    assert ("(common)", "region[T.s]") in result.params and (
        "(common)",
        "region[T.w]",
    ) in result.params


# inference and tables


def test_the_restriction_is_tested_alike_by_likelihood_ratio_and_wald(
    workers: pd.DataFrame,
) -> None:
    options: dict[str, Any] = {"chosen": "job", "offset": {"b": "bonus"}}
    wide = ss.fit("y ~ x + z", workers, **options)
    narrow = ss.fit("y ~ x + z", workers, shared=["x"], **options)
    ratio, wald = wide.lr_test(narrow), wide.wald_test("a:x = b:x")
    assert ratio.df == wald.df == 1
    assert ratio.statistic == pytest.approx(wald.statistic, rel=0.05)
    assert not ratio.rejects()
    wrong = wide.lr_test(ss.fit("y ~ x + z", workers, shared=["z"], **options))
    assert wrong.rejects()


def test_models_that_do_not_nest_are_not_compared(workers: pd.DataFrame) -> None:
    def small(**options: Any) -> ss.FitResult:
        return ss.fit("y ~ x", workers, chosen="job", **options)

    large = ss.fit("y ~ x + z", workers, chosen="job", shared=["z"])
    assert large.lr_test(small()).df == 1
    assert "different offsets" in str(large.lr_test(small(offset="bonus")))
    free = ss.fit("y ~ x + bonus", workers, chosen="job", shared=["bonus"])
    assert free.lr_test(small(offset="bonus")).df == 1
    tied = ss.fit("y ~ x + z", workers, chosen="job", shared=["x"])
    assert "shares coefficients" in str(tied.lr_test(small()))
    assert tied.lr_test(small(shared=["x"])).df == 2


def test_the_likelihood_ratio_of_a_true_restriction_is_chi_square() -> None:
    statistics = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, noise = rng.normal(size=300), rng.normal(size=(300, 2))
        latent = np.array([0.0, 0.3]) + 0.7 * x[:, None] + noise * [1.0, 1.5]
        data = pd.DataFrame({"x": x, "y": latent.max(1), "job": latent.argmax(1)})
        wide = ss.fit("y ~ x", data, chosen="job")
        statistics.append(wide.lr_test(ss.fit("y ~ x", data, chosen="job", shared=["x"])).statistic)
    # The mean of 60 chi-squares of one degree is 1 with standard error 0.18.
    assert abs(np.mean(statistics) - 1.0) < 4 * 0.18
    assert np.mean(np.array(statistics) > 3.84) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)


@pytest.mark.parametrize("covariance", ["observed", "robust"])
def test_the_truth_is_found_with_more_certainty_than_without_the_restriction(
    workers: pd.DataFrame, covariance: str
) -> None:
    options: dict[str, Any] = {"chosen": "job", "offset": {"b": "bonus"}, "covariance": covariance}
    result = ss.fit("y ~ x + z", workers, shared=["x"], **options)
    truth = {("a", "Intercept"): 1.0, ("a", "z"): 0.5, ("a", "scale"): 1.0, ("b", "Intercept"): 1.5,
             ("b", "z"): -0.8, ("b", "scale"): 1.6, ("(common)", "x"): 0.1}  # fmt: skip
    for name, value in truth.items():
        assert abs(result.params[name] - value) < SURE * result.bse[name]
    wide = ss.fit("y ~ x + z", workers, **options)
    assert result.bse["(common)", "x"] < min(wide.bse["a", "x"], wide.bse["b", "x"])


def test_naive_and_corrected_estimates_heed_the_same_restrictions(workers: pd.DataFrame) -> None:
    result = ss.fit("y ~ x + z", workers, chosen="job", shared=["x"], offset={"b": "bonus"})
    table = result.compare().table
    assert list(table.index[:4]) == [("a", t) for t in ("Intercept", "x", "z", "scale")]
    assert table["naive"]["a", "x"] == pytest.approx(table["naive"]["b", "x"])
    assert table["corrected_se"]["b", "x"] == result.bse["(common)", "x"]
    seen_b = (workers["job"] == "b").to_numpy()
    blocks = [np.column_stack([own, own * workers["z"]]) for own in (~seen_b, seen_b)]
    design = np.column_stack([*blocks, workers["x"]])
    net = workers["y"] - np.where(seen_b, workers["bonus"], 0.0)
    slope = np.linalg.lstsq(design, net, rcond=None)[0]
    assert table["naive"]["a", "x"] == pytest.approx(slope[4], rel=1e-8)
    assert table["naive"]["b", "z"] == pytest.approx(slope[3], rel=1e-8)


def test_the_summary_shows_every_equation_whole(workers: pd.DataFrame) -> None:
    text = str(
        ss.fit("y ~ x + z", workers, chosen="job", shared=["x"], offset={"b": "bonus"}).summary()
    )
    assert text.count("(shared)") == 2 and text.count("(offset)") == 1
    assert "all alternatives" in text and "Shared: x" in text


def test_a_saved_fit_keeps_its_restrictions(workers: pd.DataFrame, tmp_path: Any) -> None:
    result = ss.fit("y ~ x + z", workers, chosen="job", shared=["x"], offset={"b": "bonus"})
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(loaded.params, result.params)
    assert str(loaded.summary()) == str(result.summary())
    new = workers.head(7)
    pd.testing.assert_frame_equal(
        loaded.predict(new, "given_seen"), result.predict(new, "given_seen")
    )
    with pytest.raises(DataError, match="no column 'bonus'"):
        loaded.predict(new.drop(columns="bonus"))


def test_correlated_noise_of_three_shares_coefficients_too() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(150, 3))
    noise = multivariate_normal([0, 0, 0], 0.5 + 0.5 * np.eye(3)).rvs(150, random_state=1)
    latent = 0.8 * x + [0.0, 0.5, 0.2] + noise
    data = pd.DataFrame(x, columns=["xa", "xb", "xc"]).assign(
        y=latent.max(1), job=np.array(["a", "b", "c"])[latent.argmax(1)]
    )
    formulas = {label: f"y ~ x{label}" for label in "abc"}
    result = ss.fit(formulas, data, chosen="job", shared={"x": {c: f"x{c}" for c in "abc"}},
                    noise=Correlated("common", correlation=0.5, draws=64),
                    solver=ss.solvers.Continuation(steady=None))  # fmt: skip
    assert abs(result.params["(common)", "x"] - 0.8) < SURE * result.bse["(common)", "x"]


# the command line


def test_the_shell_takes_restrictions(
    workers: pd.DataFrame, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    workers.to_csv(tmp_path / "workers.csv", index=False)
    arguments = ["fit", str(tmp_path / "workers.csv"), "y ~ x + z", "--chosen", "job", "--format",
                 "csv"]  # fmt: skip

    def printed(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *more])
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert "(common),x" in printed("--shared", "x", "--offset", "b=bonus")
    assert "(common),scale" in printed("--shared", "all", "--offset", "bonus")
    assert "(common),x" in printed("--shared", "x=a,b")
    assert "(common),x" in printed("--shared", "x=a:x,b:x")


# bad input


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        (["hieght"], "no term 'hieght' to share"),
        ([], "names no term"),
        ("x", "shared='x' is not possible"),
        ({"x": ["a", "c"]}, "given for 'c', but the alternatives are a, b"),
        ({"x": ["a"]}, "equation of 'a' alone"),
        ({"x": {"a": "x", "b": "zz"}}, "equation of 'b' has no term 'zz'"),
        ({"x": {"a": "Intercept", "b": "x"}}, "ties an intercept to a covariate"),
        (["x", "x"], "'x' of 'a' is shared twice"),
        ({"x": 3}, r"shared\['x'\] is 3"),
    ],
)
def test_terms_that_cannot_be_shared_are_named(
    workers: pd.DataFrame, shared: Any, words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ss.fit("y ~ x + z", workers, chosen="job", shared=shared)


def test_restrictions_that_restrict_nothing_or_everything_are_refused(
    workers: pd.DataFrame,
) -> None:
    with pytest.raises(OptionError, match="leave nothing free"):
        ss.fit("y ~ 0", workers, chosen="job", offset="bonus", noise=Independent(1.0))
    with pytest.raises(OptionError, match="finds no term that two alternatives have"):
        ss.fit({"a": "y ~ x - 1", "b": "y ~ z - 1"}, workers, chosen="job", shared="all")
    with pytest.raises(OptionError, match="cannot share 'x' among some"):
        ss.fit("y ~ x + z", workers, alternatives=3, shared={"x": [1, 2]})
    with pytest.raises(UnsupportedError, match="does not support shared coefficients"):
        ss.fit("y ~ x + z - 1", workers, alternatives=2, shared=["x"],
               solver=ss.solvers.TwoModels())  # fmt: skip


def test_offsets_must_be_columns_of_numbers(workers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match="offset=3 is not possible"):
        ss.fit("y ~ x", workers, chosen="job", offset=3)
    with pytest.raises(DataError, match="The offset column 'town' must hold numbers"):
        ss.fit("y ~ x", workers.assign(town="Bergen"), chosen="job", offset="town")
    with pytest.raises(DataError, match="no column 'bonuss'"):
        ss.fit("y ~ x", workers, chosen="job", offset={"b": "bonuss"})


def test_a_covariate_that_sharing_makes_collinear_is_named() -> None:
    data = ss.simulators.tender(200, seed=1).data
    with pytest.raises(DataError, match="cannot be told apart: as they are shared"):
        ss.fit("bid ~ size + I(2 * size)", data, chosen="won", case="tender", alternatives="firm",
               shared="all", rule="min")  # fmt: skip
    # What does not vary within an alternative is found by comparing them, where that is possible.
    years = {"Alder": 3.0, "Birch": 9.0, "Cedar": 5.0, "Dogwood": 1.0}
    result = ss.fit("bid ~ size + years", data.assign(years=data["firm"].map(years)), chosen="won",
                    case="tender", alternatives="firm", shared="all", rule="min")  # fmt: skip
    assert result.converged and np.isfinite(result.bse).all()


def test_sharing_nothing_changes_nothing(workers: pd.DataFrame) -> None:
    equations = ss.fit("y ~ x", workers, chosen="job").problem.equations
    assert share(equations, None) is equations

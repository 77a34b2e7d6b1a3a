"""Profile-likelihood intervals: their ends, what they do not depend on, and who has none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.profile import ProblemSurface, profile_intervals
from selfselect.likelihoods import evaluate
from selfselect.solvers.climb import climb

QUARTER = 1.9207294103470
"""Half of the 95% quantile of a chi-square with one degree of freedom."""
EXACT = 1e-4
"""Ends are found to 1e-5 standard errors, so the fall there to some 1e-5."""


def weak(n_rows=200, seed=0, strength=0.1):
    rng = np.random.default_rng([seed, 3])
    x, z, u, v = rng.standard_normal((4, n_rows))
    works = 0.2 + 0.5 * x + strength * z + u > 0
    y = 1 + 0.7 * x + 1.5 * (0.6 * u + 0.8 * v)
    return pd.DataFrame({"x": x, "z": z, "works": works, "y": np.where(works, y, np.nan)})


def selection(table):
    return ss.sample_selection("y ~ x", "works ~ x + z", table)


@pytest.fixture(scope="module")
def fit():
    return selection(weak())


@pytest.fixture(scope="module")
def ends(fit):
    return fit.conf_int(method="profile")


@pytest.fixture(scope="module")
def village():
    return ss.simulators.village(250, seed=2)


def test_the_likelihood_falls_by_half_a_quantile_at_the_ends_of_a_correlation(fit, ends):
    at_t = int(fit.problem.layout.starts[-1])
    held = np.arange(len(fit.values)) == at_t
    for end in ends.loc[("outcome", "correlation"), ["conf_low", "conf_high"]]:
        free = fit.solution.free.copy()
        free[at_t] = np.arctanh(end)
        best = climb(
            fit.problem, fit.engine, free, max_steps=100, tol=1e-7, progress=False, held=held
        )
        assert fit.llf - best.loglik == pytest.approx(QUARTER, abs=EXACT)


def test_the_likelihood_falls_by_half_a_quantile_at_the_ends_of_a_coefficient(fit, ends):
    """Maximise by another method over everything but the coefficient of z."""
    from scipy.optimize import minimize

    layout = fit.problem.layout
    place = fit.names.index("selection:z")
    for end in ends.iloc[place][["conf_low", "conf_high"]]:

        def fall(others, end=end):
            values = np.insert(others, place, end)
            free = layout.read(np.where(values == 0, 1e-12, values))
            found = evaluate(fit.problem, layout.natural(free), fit.engine.batch)
            carry = np.linalg.inv(layout.report(free).jacobian)
            return -found.loglik, -np.delete(found.score @ carry, place)

        start = np.delete(fit.values, place)
        best = minimize(fall, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        assert best.fun + fit.llf == pytest.approx(QUARTER, abs=EXACT)


def fits_of_many_kinds(village):
    data = village.data
    silent = data.assign(income=data["income"].where(data["job"] == "hunting"))
    formula = "income ~ height"
    yield ss.fit(formula, data, chosen="job")
    yield ss.fit(formula, data, chosen="job", shared=["height"])
    yield ss.fit(formula, data, chosen="job", noise=ss.noises.Correlated())
    yield ss.fit(formula, data, chosen="job", noise=ss.noises.SharedShock())
    yield ss.fit(formula, data, chosen="job", noise=ss.noises.Independent(scale="common"))
    yield ss.fit("income ~ height + weight", silent, chosen="job", missing_outcome="silent")
    apart = ss.simulate(
        {"a": {"Intercept": 0.0, "x": 2.0}, "b": {"Intercept": 0.0, "x": -2.0}},
        {"x": np.random.default_rng(0).standard_normal(250)}, outcome="y", chosen="who", seed=1,
    )  # fmt: skip
    yield ss.fit("y ~ x", apart.data, alternatives=2, seed=0)


def test_profiles_of_every_model_fall_by_half_a_quantile_and_no_nearby_place_is_better(village):
    from selfselect.inference.profile import _Walk
    from selfselect.inference.statistics import interval_reach

    rng = np.random.default_rng(0)
    for fit in fits_of_many_kinds(village):
        surface = fit._surface()
        top = surface.at(surface.coordinates)
        assert top.loglik == pytest.approx(fit.llf, abs=1e-4)
        for place in (0, len(fit.names) - 1):
            walk = _Walk(surface, top, place, fit.bse.iloc[place])
            end, reason = walk.end(1.0, interval_reach(0.95))
            if reason:
                continue
            target = walk._moved(end)
            found = walk.visit(top, target)
            assert top.loglik - found.loglik == pytest.approx(QUARTER, abs=EXACT)
            # Nowhere else where the parameter has that value is the likelihood higher.
            for _ in range(5):
                moved = found.coordinates + 0.01 * rng.standard_normal(len(found.coordinates))
                there = walk.onto(moved, walk._direction(found), target)
                assert surface.at(there).loglik < found.loglik


def test_profiles_do_not_depend_on_units_or_the_order_of_rows(ends):
    table = weak()
    shuffled = table.sample(frac=1.0, random_state=1)
    np.testing.assert_allclose(
        selection(shuffled).conf_int(method="profile").iloc[:, :2].to_numpy(dtype=float),
        ends.iloc[:, :2].to_numpy(dtype=float), rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    scaled = selection(table.assign(y=100 * table["y"], x=10 * table["x"] + 3))
    found = scaled.conf_int(method="profile")
    for label, factor in ((("outcome", "x"), 10), (("outcome", "scale"), 100),
                          (("outcome", "correlation"), 1), (("selection", "z"), 1)):  # fmt: skip
        np.testing.assert_allclose(
            found.loc[label, ["conf_low", "conf_high"]].to_numpy(dtype=float),
            factor * ends.loc[label, ["conf_low", "conf_high"]].to_numpy(dtype=float),
            rtol=1e-3, atol=1e-3,
        )  # fmt: skip


@pytest.mark.parametrize("known", [True, False], ids=["errors", "no errors"])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_ends_follow_the_unit_of_the_outcome_with_standard_errors_or_without(village, unit, known):
    def ends_in(unit):
        table = village.data.assign(income=unit * village.data["income"])
        fit = ss.fit(village.formula, table, chosen="job")
        errors = fit.bse.to_numpy() if known else np.full(len(fit.values), np.nan)
        surface = ProblemSurface(fit.problem, fit.engine, fit.solution.free)
        return profile_intervals(surface, errors, 0.95, range(len(errors)), False)

    for here, there in zip(ends_in(1.0), ends_in(unit), strict=True):
        assert here.reason == there.reason == ""
        assert (there.low / unit, there.high / unit) == pytest.approx((here.low, here.high))


def test_the_end_of_a_scale_is_where_the_fit_with_that_scale_known_has_fallen(village):
    """With a common scale, fits at a known scale are the profile; it knows no parametrisation."""
    noise = ss.noises.Independent(scale="common")
    fit = ss.fit("income ~ height", village.data, chosen="job", noise=noise)
    for end in fit.conf_int(method="profile", params="scale").iloc[0, :2]:
        noise = ss.noises.Independent(scale=float(end))
        held = ss.fit("income ~ height", village.data, chosen="job", noise=noise)
        assert fit.llf - held.llf == pytest.approx(QUARTER, abs=EXACT)


def test_the_end_of_a_coefficient_is_where_the_fit_with_it_as_an_offset_has_fallen(village):
    fit = ss.fit("income ~ height", village.data, chosen="job")
    for end in fit.conf_int(method="profile", params="hunting:height").iloc[0, :2]:
        data = village.data.assign(held=end * village.data["height"])
        formulas = {"hunting": "income ~ 1", "fishing": "income ~ height"}
        held = ss.fit(formulas, data, chosen="job", offset={"hunting": "held"})
        assert fit.llf - held.llf == pytest.approx(QUARTER, abs=EXACT)


def test_profiles_agree_with_standard_errors_in_large_samples():
    fit = selection(weak(20_000, strength=1.0))
    gap = fit.conf_int(method="profile").iloc[:, :2].to_numpy(dtype=float) - fit.conf_int()
    assert np.abs(gap.to_numpy() / fit.bse.to_numpy()[:, None]).max() < 0.05


def test_the_slope_of_a_profile_leads_to_its_ends_in_a_few_steps(monkeypatch):
    from selfselect.inference.profile import _Walk

    fit = selection(weak(2_000, strength=1.0))
    planes, visit = [], _Walk.visit

    def counted(self, origin, target):
        planes.append(target)
        return visit(self, origin, target)

    monkeypatch.setattr(_Walk, "visit", counted)
    fit.conf_int(method="profile", params="selection:z")
    # Two ends, each by Newton's method from where standard errors put it.
    assert len(planes) <= 8


def test_a_chosen_few_are_the_same_as_among_all(fit, ends):
    few = fit.conf_int(method="profile", params=["selection:z", "scale"])
    assert list(few.index) == [("selection", "z"), ("outcome", "scale")]
    pd.testing.assert_frame_equal(few, ends.loc[list(few.index)])
    wald = fit.conf_int(params="selection:z")
    assert wald.index.tolist() == [("selection", "z")] and "reason" not in wald


def test_an_interval_without_an_end_says_why():
    fit = selection(weak(60, seed=2))
    found = fit.conf_int(0.999, method="profile", params="correlation").iloc[0]
    assert found["conf_high"] == 1.0 or found["conf_low"] == -1.0
    assert "does not fall enough" in found["reason"]
    page = str(fit.summary(0.999, intervals="profile"))
    assert "Intervals: profile likelihood" in page
    assert "does not fall enough" in " ".join(page.split())


def test_a_scale_without_an_upper_end_is_followed_in_few_passes(monkeypatch):
    """With a scale a hundred times another's, values and slopes of integrals disagree a little."""
    rng = np.random.default_rng([22, 1_000, 1])
    x, z = rng.standard_normal((2, 1_000))
    latent = np.column_stack([0.2 + 0.8 * x + 0.3 * z, 0.1 - 0.6 * x + 0.2 * z])
    latent += rng.standard_normal((1_000, 2))
    a = latent[:, 0] > latent[:, 1]
    table = pd.DataFrame(
        {"x": x, "z": z, "who": np.where(a, "a", "b"), "y": np.where(a, latent[:, 0], np.nan)}
    )
    found = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent")
    passes, at = [], ProblemSurface.at
    monkeypatch.setattr(
        ProblemSurface, "at", lambda self, place: passes.append(1) or at(self, place)
    )
    ends = found.conf_int(method="profile", params=["a:Intercept", "b:scale"], progress=False)
    assert ends["conf_high"].iloc[1] == np.inf
    low, high = ends.iloc[0][["conf_low", "conf_high"]]
    assert low < found.params.iloc[0] < high
    assert len(passes) < 150


def test_tidy_and_summary_show_profiles(fit, ends):
    table = fit.tidy(intervals="profile")
    np.testing.assert_array_equal(table["conf_low"], ends["conf_low"])
    np.testing.assert_array_equal(table["std_error"], fit.tidy()["std_error"])
    assert str(fit.summary(intervals="profile")) != str(fit.summary())


def test_a_summary_points_to_profiles_where_the_quadratic_is_poor(fit):
    sentence = "far from quadratic around"
    assert sentence in " ".join(fit.summary().notes)
    assert sentence not in " ".join(selection(weak(2_000, strength=1.0)).summary().notes)
    roots = fit.curvature
    assert roots.loc[("selection", "z")].abs().sub(2).abs().max() < 0.2
    assert roots.loc[("outcome", "correlation")].abs().sub(2).abs().max() > 0.25


def test_a_silent_alternative_is_pointed_to_and_a_loaded_fit_still_says_so(tmp_path):
    rng = np.random.default_rng(8)
    x, z = rng.standard_normal((2, 300))
    means = np.column_stack([0.2 + 0.8 * x + 0.3 * z, 0.1 - 0.6 * x + 0.2 * z])
    latent = means + rng.standard_normal((300, 2))
    seen = latent.argmax(axis=1)
    y = np.where(seen == 0, latent[:, 0], np.nan)
    data = pd.DataFrame({"x": x, "z": z, "y": y, "who": np.array(["a", "b"])[seen]})
    fit = ss.fit("y ~ x + z", data, chosen="who", missing_outcome="silent")
    assert "far from quadratic around" in str(fit.diagnose())
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(fit.summary())
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.conf_int(method="profile")


def test_who_has_no_profile_is_told_why(village):
    data = village.data.assign(
        w=np.linspace(0.5, 2.0, 250), hut=np.arange(250) % 50, one=1.0
    )  # fmt: skip

    def fitted(**options):
        return ss.fit("income ~ height", data, chosen="job", **options)

    for options, reason in (
        ({"covariance": "robust"}, "not chi-square"),
        ({"cluster": "hut"}, "not chi-square"),
        ({"weights": "w", "weights_kind": "probability"}, "probability weights"),
    ):
        fit = fitted(**options)
        with pytest.raises(UnsupportedError, match=reason):
            fit.conf_int(method="profile")
        assert fit.curvature is None
    two_steps = ss.sample_selection("y ~ x", "works ~ x + z", weak(), method="two-step")
    with pytest.raises(UnsupportedError, match="method='ml'"):
        two_steps.conf_int(method="profile")
    with pytest.raises(OptionError, match="wald, profile"):
        fitted().conf_int(method="bayes")
    with pytest.raises(OptionError, match="Did you mean 'hunting:height'"):
        fitted().conf_int(params="hunting:heigt")
    with pytest.raises(OptionError, match="confidence level"):
        fitted().conf_int(95, method="profile")


def test_simulated_likelihoods_have_no_profile(village):
    fit = ss.fit("income ~ height", village.data, chosen="job")
    drawn = replace(fit, solution=replace(fit.solution, loglik_error=0.1))
    with pytest.raises(UnsupportedError, match="simulated"):
        drawn.conf_int(method="profile")


def test_the_shell_prints_profiles(capsys, tmp_path):
    weak(80).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SystemExit):
        main(["selection", str(tmp_path / "rows.csv"), "y ~ x", "works ~ x + z",
              "--intervals", "profile", "--format", "json"])  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    fit = selection(weak(80))
    wanted = fit.conf_int(method="profile")["conf_low"].to_numpy()
    shown = [entry["conf_low"] for entry in found["coefficients"]]
    np.testing.assert_allclose(shown, wanted, rtol=1e-3, atol=1e-3)

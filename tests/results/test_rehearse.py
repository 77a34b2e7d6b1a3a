"""A fit rehearsed: samples of it, fitted from scratch, say how far it can be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import (
    ConvergenceWarning,
    OptionError,
    UnsupportedError,
    without_warnings,
)
from selfselect.inference.rehearsal import DrawnFit, Ended, rehearse_fits
from selfselect.inference.simulation import redraw
from selfselect.kernels.tails import stdtrit
from selfselect.results.rehearse import _errors
from selfselect.solvers.order import closest_order, reordered

CLOSE = 0.3
"""Relative error of a standard deviation of 39 samples, two and a half of its own errors."""


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(600, seed=1).data


@pytest.fixture(scope="module")
def rehearsed(villagers):
    return ss.fit("income ~ height + weight", villagers, chosen="job").rehearse(39, seed=2)


def test_samples_of_a_sound_fit_return_and_spread_as_its_standard_errors_say(rehearsed):
    assert rehearsed.returned == 1.0
    ratio = rehearsed.table["spread"] / rehearsed.table["std_error"]
    assert np.allclose(np.log(ratio), 0.0, atol=np.log1p(CLOSE) + 0.1)
    assert rehearsed.table["coverage"].mean() > 0.9
    assert not rehearsed.warnings
    assert len(rehearsed.draws) == 39


def test_intervals_are_t_and_percentiles_need_99_samples(rehearsed, villagers):
    stats = pytest.importorskip("scipy.stats")
    row = rehearsed.table.iloc[0]
    reach = stats.t.ppf(0.975, 38) * rehearsed.draws.iloc[:, 0].std(ddof=1)
    low, high = rehearsed.conf_int().iloc[0]
    assert (low, high) == pytest.approx((row["estimate"] - reach, row["estimate"] + reach))
    with pytest.raises(OptionError, match="Percentiles of 39 samples are unreliable"):
        rehearsed.conf_int(method="percentile")
    many = ss.fit("income ~ height", villagers, chosen="job").rehearse(99, seed=1)
    both = [many.conf_int(method=method).to_numpy() for method in ("t", "percentile")]
    width = [one[:, 1] - one[:, 0] for one in both]
    assert np.allclose(width[0] / width[1], 1.0, atol=0.35)
    with pytest.raises(OptionError, match="no method 'bca'"):
        many.conf_int(method="bca")


def test_where_fewer_than_half_of_the_samples_can_be_fitted_there_is_no_rehearsal(
    villagers, monkeypatch
):
    fit = ss.fit("income ~ height", villagers, chosen="job")
    done = DrawnFit(Ended.RETURNED, fit.values, fit.bse.to_numpy())

    def with_failures(failures):
        drawn = [DrawnFit(Ended.FAILED)] * failures + [done] * (10 - failures)
        monkeypatch.setattr("selfselect.results.rehearse.rehearse_fits", lambda *_, **__: drawn)
        return fit.rehearse(10, seed=1)

    assert len(with_failures(5).draws) == 5
    with pytest.raises(UnsupportedError, match="Only 4 of 10 samples"):
        with_failures(6)


@pytest.mark.parametrize(("n_drawn", "ratio", "said"), [
    (10, 1.7, False), (10, 1.8, True), (39, 1.45, False), (39, 1.6, True),
])  # fmt: skip
def test_few_samples_that_spread_widely_by_chance_say_nothing_of_standard_errors(
    villagers, monkeypatch, n_drawn, ratio, said
):
    fit = ss.fit("income ~ height", villagers, chosen="job")
    errors = fit.bse.to_numpy()
    draws = np.random.default_rng(0).normal(size=(n_drawn, len(errors)))
    draws = (draws - draws.mean(axis=0)) / draws.std(axis=0, ddof=1)
    drawn = [DrawnFit(Ended.RETURNED, fit.values + ratio * errors * one, errors) for one in draws]
    monkeypatch.setattr("selfselect.results.rehearse.rehearse_fits", lambda *_, **__: drawn)
    found = fit.rehearse(n_drawn)
    assert found.table["spread"].to_numpy() == pytest.approx(ratio * errors)
    assert (
        any(
            f"STANDARD ERRORS TOO SMALL: in the samples, estimates spread at least {ratio:.1f}"
            in one
            for one in found.warnings
        )
        is said
    )


def test_the_same_seed_gives_the_same_samples(villagers):
    result = ss.fit("income ~ height", villagers, chosen="job")
    one, other = (result.rehearse(10, seed=5).draws for _ in range(2))
    assert (one == other).all(axis=None)
    assert not np.allclose(one, result.rehearse(10, seed=6).draws)


@pytest.mark.parametrize(
    "model",
    [
        {"noise": "correlated"},
        {"cost": {"fishing": "~ weight"}},
        {"noise": ss.noises.Independent(shape="logistic")},
        {"noise": ss.noises.Independent(scale="~ height")},
        {"cost": {"fishing": 3.0}, "covariance": "robust"},
        {"rule": "min"},
    ],
)
def test_every_model_of_fit_is_rehearsed(villagers, model):
    result = ss.fit("income ~ height", villagers, chosen="job", **model)
    found = result.rehearse(10, seed=1)
    assert found.returned >= 0.9
    assert (np.abs(found.table["bias"]) < 2.0 * found.table["spread"]).all()
    assert "Rehearsal" in str(found)
    assert "<table" in found._repr_html_()


def test_an_unknown_index_is_searched_again_in_every_sample():
    sample = ss.simulators.gaussian(400, 2, 2, norm=2.0, seed=1)
    result = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    found = result.rehearse(10, seed=1)
    assert found.returned >= 0.9
    assert (np.abs(found.table["bias"]) < 2.0 * found.table["spread"]).all()


@pytest.mark.parametrize(
    ("model", "seed"),
    [
        ({"chosen": "job", "noise": ss.noises.Mixture(2)}, 1),
        ({"chosen": "job", "noise": ss.noises.Mixture(2, each=True)}, 1),
        ({"chosen": "job", "noise": ss.noises.Mixture(3)}, 1),
        ({"alternatives": 2, "noise": ss.noises.Mixture(2)}, 2),
    ],
    ids=["one shape", "a shape each", "three components", "unknown index"],
)
def test_a_sample_that_settles_on_simpler_noise_counts_as_what_it_is(model, seed):
    few = ss.simulators.village(300, seed=1).data
    with without_warnings(ConvergenceWarning):
        result = ss.fit("income ~ height", few, seed=0, **model)
    found = result.rehearse(12, seed=seed)
    simpler = int(found.ended[Ended.SIMPLER.value])
    assert simpler > 0
    of_shape = np.array(["shape" in term for _, term in found.draws.columns])
    lacking = found.draws.isna().to_numpy()
    assert (lacking[:, of_shape].all(axis=1).sum() == lacking.any(axis=1).sum()) and not (
        lacking[:, ~of_shape].any()
    )
    assert lacking[:, of_shape].all(axis=1).sum() == simpler
    assert found.table[["bias", "spread"]].notna().all(axis=None)
    assert f"Searches that settled on simpler noise: {simpler}" in str(found)
    assert f"{len(found.draws) - simpler} samples that have them" in " ".join(found.notes)
    row = found.table.iloc[-1]
    reach = row["spread"] * stdtrit(len(found.draws) - simpler - 1, 0.975)
    # The last is a spread, which has its interval on the log scale.
    wanted = row["estimate"] * np.exp(reach / row["estimate"])
    assert found.conf_int().iloc[-1, 1] == pytest.approx(wanted)


def test_a_sample_of_simpler_noise_has_the_estimates_and_errors_of_that_noise(villagers):
    few = villagers.iloc[:300]
    result = ss.fit("income ~ height", few, chosen="job", noise=ss.noises.Mixture(2))
    normal = ss.fit("income ~ height", few, chosen="job", noise=ss.noises.Mixture(1))

    class Settled:
        requires, concave = (), False

        def solve(self, *_, **__):
            return replace(normal.solution, settled=normal.problem.noise)

    drawn = rehearse_fits(
        result.problem, result.rows, result.solution, Settled(), _errors(result, Settled()),
        replications=1, seed=0, progress=False,
    )[0]  # fmt: skip
    assert drawn.ended is Ended.SIMPLER
    n_own = len(normal.values)
    assert drawn.values[:n_own] == pytest.approx(normal.values)
    assert drawn.errors[:n_own] == pytest.approx(normal.bse.to_numpy())
    assert np.isnan(drawn.values[n_own:]).all() and np.isnan(drawn.errors[n_own:]).all()


def test_samples_that_leave_shifts_of_types_undetermined_are_counted_and_left_out():
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(40), 4)
    rare = (rng.random(240) < 0.25)[person]
    x = rng.normal(size=160)
    a = 1 + x + np.where(rare, -0.9, 0.5) + 0.5 * rng.normal(size=160)
    b = -0.3 * x + np.where(rare, 0.5, -0.3) + 0.5 * rng.normal(size=160)
    data = pd.DataFrame(
        {"x": x, "y": np.maximum(a, b), "j": np.where(a > b, "a", "b"), "id": person}
    )
    result = ss.fit("y ~ x", data, chosen="j", noise=ss.noises.Types(2), panel="id", seed=0)
    assert result.problem.noise.undetermined() is None
    found = result.rehearse(12, seed=1)
    left = int(found.ended[Ended.UNDETERMINED.value])
    assert left > 1
    assert len(found.draws) == 12 - left - int(found.ended[Ended.FAILED.value])
    assert found.draws.notna().all(axis=None)
    assert any(f"NOT DETERMINED: in {left} of 12 samples" in said for said in found.warnings)


def test_alternatives_that_change_places_take_their_information_with_them():
    sample = ss.simulators.gaussian(400, 2, 2, norm=2.0, seed=1)
    result = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    problem, found = result.problem, result.solution
    turned = reordered(problem, found, np.array([1, 0]))
    report = problem.layout.report(turned.free)
    covariance = np.linalg.inv(turned.information)
    errors = np.sqrt(np.diag(report.jacobian @ covariance @ report.jacobian.T))
    one, two = ([owner == name for owner, _ in report.labels] for name in (1, 2))
    assert report.values[one] == pytest.approx(result.values[two])
    assert errors[one] == pytest.approx(result.bse.to_numpy()[two])
    again = closest_order(problem, [np.array([0, 1])], turned.free, problem, found.free)
    assert again.tolist() == [1, 0]
    assert reordered(problem, turned, again).free == pytest.approx(found.free)


def test_models_with_a_selection_equation_are_rehearsed(villagers):
    both = ss.switching("income ~ height", "job ~ height + weight", villagers).rehearse(10, seed=1)
    assert both.returned >= 0.9
    assert any("profile intervals first" in note for note in both.notes)
    one = villagers.assign(
        works=villagers["job"] == "fishing",
        pay=villagers["income"].where(villagers["job"] == "fishing"),
    )
    result = ss.sample_selection("pay ~ height", "works ~ height + weight", one)
    found = result.rehearse(10, seed=1)
    assert found.returned >= 0.9


def test_silent_alternatives_stay_silent_in_the_samples():
    sample = ss.simulators.village(600, seed=3).data
    data = sample.assign(income=sample["income"].where(sample["job"] != "fishing"))
    result = ss.fit(
        {"fishing": "income ~ height", "hunting": "income ~ height + weight"}, data, chosen="job",
        missing_outcome="silent",
        noise=ss.noises.Independent(scale={"fishing": 9.0, "hunting": 12.0}),
    )  # fmt: skip
    drawn = redraw(result.problem, result.values, result.rows, np.random.default_rng(1))
    assert (np.isnan(drawn.outcome) == (drawn.chosen == 0)).all()
    assert 0.2 < np.isnan(drawn.outcome).mean() < 0.8
    assert result.rehearse(10, seed=1).returned >= 0.9


def test_draws_have_the_moments_of_the_fit(villagers):
    result = ss.fit("income ~ height + weight", villagers, chosen="job", noise="correlated")
    rows = result.rows.take(np.tile(np.arange(len(result.rows)), 60))
    drawn = redraw(result.problem, result.values, rows, np.random.default_rng(1))
    chance = result.predict(kind="chance").mean().to_numpy()
    assert np.allclose(np.bincount(drawn.chosen) / len(rows), chance, atol=0.01)
    assert drawn.outcome.mean() == pytest.approx(result.predict(kind="outcome").mean(), rel=0.005)


def test_frequency_weights_are_written_out_and_clusters_are_spoken_of(villagers):
    data = villagers.assign(copies=1 + np.arange(len(villagers)) % 2, place=np.arange(600) % 50)
    weighted = ss.fit(
        "income ~ height", data, chosen="job", weights="copies", weights_kind="frequency"
    )
    written = data.loc[data.index.repeat(data["copies"])].reset_index(drop=True)
    alone = ss.fit("income ~ height", written, chosen="job")
    both = [one.rehearse(10, seed=1).draws.to_numpy() for one in (weighted, alone)]
    assert np.allclose(*both, rtol=1e-4)
    clustered = ss.fit("income ~ height", data, chosen="job", cluster="place").rehearse(10)
    assert any("does not include what clusters add" in note for note in clustered.notes)


def test_what_cannot_be_rehearsed_is_refused_with_the_reason(villagers, tmp_path):
    result = ss.fit("income ~ height", villagers, chosen="job")
    for wrong in (3, 0, 12.5, True):
        with pytest.raises(OptionError, match="whole number of at least 10"):
            result.rehearse(wrong)
    result.save(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.load(tmp_path / "fit.json").rehearse()
    villagers.to_parquet(tmp_path / "rows.parquet")
    files = ss.fit("income ~ height", str(tmp_path / "rows.parquet"), chosen="job")
    with pytest.raises(UnsupportedError, match=r"piece by piece.* Fit a sample of them as a table"):
        files.rehearse()
    capped = villagers.assign(income=villagers["income"].where(villagers["income"] < 85), top=85.0)
    limited = ss.fit("income ~ height", capped, chosen="job", outcome_between=("top", None))
    with pytest.raises(UnsupportedError, match="between limits"):
        limited.rehearse()


def test_intervals_stay_where_parameters_can_be():
    """Near one, a correlation less its spread twice is beyond it."""
    rng = np.random.default_rng(3)
    x, z, u, e = rng.normal(size=(4, 120))
    selected = 0.3 + 0.5 * x + 0.4 * z + u > 0
    y = np.where(selected, 1 + x + 0.85 * u + 0.5 * e, np.nan)
    fit = ss.sample_selection("y ~ x", "d ~ x + z", pd.DataFrame(
        {"x": x, "z": z, "d": selected.astype(int), "y": y}
    ))  # fmt: skip
    found = fit.rehearse(99, seed=0, progress=False)
    for method in ("t", "percentile"):
        ends = found.conf_int(method=method)
        low, high = ends.loc[("outcome", "correlation")]
        assert -1.0 <= low < fit.params["outcome", "correlation"] < high <= 1.0
        assert (ends.xs("scale", level="term")["conf_low"] > 0).all()
    plain = found.table.loc[("outcome", "correlation")]
    assert plain["estimate"] + 2 * plain["spread"] > 1.0
    slope = found.conf_int().loc[("outcome", "x")]
    reach = found.table.loc[("outcome", "x"), "spread"] * stdtrit(len(found.draws) - 1.0, 0.975)
    assert slope["conf_high"] - slope["conf_low"] == pytest.approx(2 * reach)

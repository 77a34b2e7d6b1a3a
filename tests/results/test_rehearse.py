"""A fit rehearsed: samples of it, fitted from scratch, say how far it can be trusted."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.rehearsal import Drawn, Ended
from selfselect.inference.simulation import redraw

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
    done = Drawn(Ended.RETURNED, fit.values, fit.bse.to_numpy())

    def with_failures(failures):
        drawn = [Drawn(Ended.FAILED)] * failures + [done] * (10 - failures)
        monkeypatch.setattr("selfselect.results.rehearse.rehearse_fits", lambda *_, **__: drawn)
        return fit.rehearse(10, seed=1)

    assert len(with_failures(5).draws) == 5
    with pytest.raises(UnsupportedError, match="Only 4 of 10 samples"):
        with_failures(6)


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
    with pytest.raises(UnsupportedError, match="piece by piece"):
        files.rehearse()
    capped = villagers.assign(income=villagers["income"].where(villagers["income"] < 85), top=85.0)
    limited = ss.fit("income ~ height", capped, chosen="job", outcome_between=("top", None))
    with pytest.raises(UnsupportedError, match="between limits"):
        limited.rehearse()

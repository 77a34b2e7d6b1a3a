"""Samples drawn from a fit look like its data and can be fitted again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture(scope="module")
def fit():
    sample = ss.simulators.village(2_000, seed=1)
    return ss.fit(sample.formula, sample.data, chosen="job")


def test_a_sample_fitted_again_finds_the_fit(fit):
    drawn = fit.simulate(seed=1)
    again = ss.fit("income ~ height + weight", drawn, chosen="job")
    assert (((again.params - fit.params) / fit.bse).abs() < 4).all()
    pd.testing.assert_frame_equal(drawn[["height", "weight"]], fit.table[["height", "weight"]])


def test_the_same_seed_draws_the_same_sample(fit):
    pd.testing.assert_frame_equal(fit.simulate(seed=5), fit.simulate(seed=5))
    assert not fit.simulate(seed=5)["income"].equals(fit.simulate(seed=6)["income"])


def test_new_rows_get_outcomes_and_choices(fit):
    new = pd.DataFrame({"height": [170.0] * 4_000, "weight": 70.0}, index=range(5, 4_005))
    drawn = fit.simulate(new, seed=1)
    assert list(drawn) == ["income", "job"]
    assert drawn.index.equals(new.index)
    chance = fit.predict(new[:1], kind="chance")["hunting"].iloc[0]
    assert (drawn["job"] == "hunting").mean() == pytest.approx(chance, abs=0.03)
    mean = fit.predict(new[:1], kind="outcome").iloc[0]
    assert drawn["income"].mean() == pytest.approx(mean, abs=0.6)


def test_a_logarithm_is_undone(fit):
    table = fit.table.assign(income=np.exp(fit.table["income"] / 50))
    logs = ss.fit("log(income) ~ height + weight", table, chosen="job")
    drawn = logs.simulate(seed=1)
    assert (drawn["income"] > 0).all()
    assert np.log(drawn["income"]).mean() == pytest.approx(np.log(table["income"]).mean(), abs=0.05)


def test_an_unrecorded_choice_stays_unrecorded(fit):
    unknown = ss.fit("income ~ height + weight", fit.table.drop(columns="job"), alternatives=2)
    assert "job" not in unknown.simulate(seed=1)
    assert "chosen" not in unknown.simulate(seed=1)


def test_a_selection_equation_selects_in_draws():
    rng = np.random.default_rng(0)
    x, z, u, e, f = rng.normal(size=(5, 1_000))
    chosen = z + u > 0
    table = pd.DataFrame({"x": x, "z": z, "s": chosen * 1})
    one = ss.sample_selection(
        "y ~ x", "s ~ z", table.assign(y=np.where(chosen, 1 + x + 0.5 * u + e, np.nan))
    ).simulate(seed=1)
    assert one["y"].notna().equals(one["s"] == 1)
    both = ss.switching("y ~ x", "s ~ z", table.assign(y=np.where(chosen, 1 + x + e, f)))
    drawn = both.simulate(seed=1)
    assert set(drawn["s"]) == {0, 1}
    assert drawn["y"].notna().all()


def test_a_selection_equation_selects_among_new_rows():
    rng = np.random.default_rng(0)
    x, z, u, e = rng.normal(size=(4, 1_000))
    chosen = z + u > 0
    y = np.where(chosen, 1 + x + 0.5 * u + e, np.nan)
    table = pd.DataFrame({"x": x, "z": z, "s": chosen * 1, "y": y})
    new = pd.DataFrame({"x": 0.5, "z": [0.3] * 4_000})
    one = ss.sample_selection("y ~ x", "s ~ z", table)
    both = ss.switching("y ~ x", "s ~ z", table.assign(y=np.where(chosen, y, 0.2 * x + e)))
    for fit in (one, both):
        drawn = fit.simulate(new, seed=1)
        chance = np.ravel(fit.predict(new[:1], kind="chance"))[-1]
        assert (drawn["s"] == 1).mean() == pytest.approx(chance, abs=0.03)
        mean = fit.predict(new[:1], kind="outcome").to_numpy().item()
        assert drawn["y"].mean() == pytest.approx(mean, abs=0.08)
    assert one.simulate(new, seed=1)["y"].notna().equals(one.simulate(new, seed=1)["s"] == 1)


@pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
def test_people_are_drawn_with_their_types():
    sample = ss.simulators.village(200, seed=1)
    table = sample.data.assign(person=np.arange(200) // 4)
    fit = ss.fit(
        sample.formula, table, chosen="job", noise=ss.noises.Types(2), panel="person", seed=1
    )
    for data in (None, table):
        drawn = fit.simulate(data, seed=2)
        assert len(drawn) == 200
        assert set(drawn["job"]) <= {"fishing", "hunting"}
        assert abs(drawn["income"].mean() - table["income"].mean()) < 5.0


def test_bounds_that_were_found_can_be_drawn(fit):
    found = fit.bounds()
    assert len(fit.plot.bounds(found).data) == len(fit.plot.bounds().data)

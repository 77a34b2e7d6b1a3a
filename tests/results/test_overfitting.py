"""One alternative too many: the test of one fewer, and what summaries say without being asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError
from selfselect.results import overfitting
from selfselect.results.overfitting import least_squares_fit

FORMULA = "outcome ~ x1 + x2"


@pytest.fixture(scope="module")
def two():
    return ss.simulators.gaussian(600, 2, 2, norm=2.0, seed=1).data


@pytest.fixture(scope="module")
def overfitted(two):
    return ss.fit(FORMULA, two, alternatives=3, seed=1)


def test_the_likelihood_of_one_alternative_is_that_of_least_squares(two):
    result = ss.fit(FORMULA, two, alternatives=2)
    loglik, size, (mean, scale) = least_squares_fit(result.problem, result.engine)
    x = np.column_stack([np.ones(len(two)), two[["x1", "x2"]]])
    y = two["outcome"].to_numpy()
    b = np.linalg.lstsq(x, y, rcond=None)[0]
    s = np.sqrt(np.mean((y - x @ b) ** 2))
    exact = -0.5 * len(y) * (np.log(2 * np.pi * s**2) + 1.0)
    assert (loglik, scale, size) == pytest.approx((exact, s, 4))
    assert np.allclose(mean, x @ b)


def test_the_test_rejects_one_alternative_where_there_are_two(two):
    result = ss.fit(FORMULA, two.iloc[:200], alternatives=2)
    found = result.overfitted_test(19, solver=ss.solvers.MaximumLikelihood(starts=2), seed=1)
    alone, size, _ = least_squares_fit(result.problem, result.engine)
    assert found.statistic == pytest.approx(2.0 * (result.llf - alone))
    assert found.p_value == pytest.approx(0.05)
    assert found.df == result.n_parameters - size
    assert "likelihood ratio" in str(found)
    assert not any("TOO MANY" in notice for notice in result.summary().notices)


def test_a_summary_says_that_an_alternative_may_be_one_too_many(two, overfitted):
    (notice,) = (n for n in overfitted.summary().notices if "TOO MANY" in n)
    assert "PERHAPS TOO MANY ALTERNATIVES: alternative 3 is expected in only" in notice
    assert "BIC is smaller by at least" in notice
    # What one climb gains is a bound: a whole search for two finds a BIC at least as small.
    whole = ss.fit(FORMULA, two, alternatives=2)
    assert overfitted.bic - whole.bic >= overfitted.answers.bic_gain - 1e-6
    assert not any("TOO MANY" in notice for notice in whole.summary().notices)


def six(n):
    """Return rows of six alternatives, some of them rare, that are easily told apart."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((n, 3)), rng.standard_normal((6, 3))
    w *= 3.0 / np.linalg.norm(w, axis=1, keepdims=True)
    y = (x @ w.T + 0.5 * rng.standard_normal(6) + 0.5 * rng.standard_normal((n, 6))).max(axis=1)
    return pd.DataFrame(x, columns=list("abc")).assign(y=y, g=np.arange(n) // 2)


@pytest.mark.parametrize("options", [{}, {"cluster": "g"}], ids=["rows", "clusters"])
def test_what_bic_wants_is_not_too_many_however_rare(options):
    few = ss.solvers.MaximumLikelihood(starts=24)
    fit = ss.fit("y ~ a + b + c", six(5_000), alternatives=6, seed=0, solver=few, **options)
    assert fit.converged and fit.shares.min() < 0.1
    assert not any("TOO MANY" in notice for notice in fit.summary().notices)
    assert fit.answers.bic_gain < -10.0
    more = ss.fit("y ~ a + b + c", six(5_000), alternatives=7, seed=0, solver=few, **options)
    (notice,) = (n for n in more.summary().notices if "TOO MANY" in n)
    assert "BIC is smaller by at least" in notice


def test_where_bic_is_not_known_rows_per_coefficient_tell():
    few = ss.solvers.MaximumLikelihood(starts=8)
    right, more = (
        ss.fit("y ~ a + b + c", six(25_000), alternatives=k, seed=0, solver=few) for k in (6, 7)
    )
    assert right.shares.min() < 0.1
    assert not any("TOO MANY" in notice for notice in right.summary().notices)
    (notice,) = (n for n in more.summary().notices if "TOO MANY" in n)
    assert "for each of its coefficients" in notice and "BIC is" not in notice


def test_a_summary_advises_only_what_there_is_for_the_fit(two, overfitted, tmp_path):
    def notice(result):
        return next(n for n in result.summary().notices if "TOO MANY" in n)

    assert notice(overfitted).endswith("Use result.overfitted_test().")
    options = {"alternatives": 3, "seed": 1}
    clustered = ss.fit(FORMULA, two.assign(g=np.arange(len(two)) // 2), cluster="g", **options)
    assert "overfitted_test" not in notice(clustered)
    assert "There is no test of that here: rows are clustered by g" in notice(clustered)
    assert notice(clustered).endswith("Fit 2 and compare the BIC.")
    with pytest.raises(UnsupportedError, match="rows are clustered by g"):
        clustered.overfitted_test()
    two.to_parquet(tmp_path / "rows.parquet")
    filed = ss.fit(FORMULA, str(tmp_path / "rows.parquet"), **options)
    assert "There is no test of that here: its rows are not all in memory." in notice(filed)
    with pytest.raises(UnsupportedError, match="its rows are not all in memory"):
        filed.overfitted_test()


def test_where_the_shape_is_estimated_there_is_no_test_and_none_is_advised():
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    skewed = np.where(rng.random((800, 2)) < 0.7, -0.6, 1.4) + 0.4 * rng.normal(size=(800, 2))
    y = np.maximum(1.2 - 0.4 * x + 0.9 * skewed[:, 0], -1.2 + 0.5 * x + 0.8 * skewed[:, 1])
    result = ss.fit(
        "y ~ x", pd.DataFrame({"x": x, "y": y}), alternatives=2, seed=0,
        noise=ss.noises.Mixture(2),
    )  # fmt: skip
    (notice,) = (n for n in result.summary().notices if "TOO MANY" in n)
    assert "overfitted_test" not in notice
    assert "made for independent normal noise. result.rehearse()" in notice
    assert result.rehearse(10).replications == 10


def test_a_loaded_fit_says_the_same(overfitted, tmp_path):
    overfitted.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(overfitted.summary())
    loaded.save(tmp_path / "again.json")
    assert ss.load(tmp_path / "again.json").summary().notices == overfitted.summary().notices


def test_a_summary_shows_the_test_once_it_was_run(overfitted, monkeypatch):
    # Ratios of samples as they would come: searches are tested elsewhere.
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [5.0 * i for i in range(19)])
    found = overfitted.overfitted_test(19, seed=1)
    larger = sum(5.0 * i >= found.statistic for i in range(19))
    assert found.p_value == pytest.approx((1 + larger) / 20)
    (notice,) = (n for n in overfitted.summary().notices if "TOO MANY" in n)
    assert "do not fit significantly better" in notice
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [0.1] * 19)
    assert overfitted.overfitted_test(19, seed=1).p_value == pytest.approx(0.05)
    assert not any("TOO MANY" in n for n in overfitted.summary().notices)


def test_a_test_of_fewer_samples_does_not_replace_one_of_more(overfitted, monkeypatch):
    overfitted = replace(overfitted)  # It remembers nothing.
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [1e6] * 3 + [0.0] * 36)
    assert overfitted.overfitted_test(39, seed=1).p_value == pytest.approx(0.1)
    (notice,) = (n for n in overfitted.summary().notices if "TOO MANY" in n)
    assert "(p = 0.100, 39 samples)" in notice
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [0.0] * 19)
    assert overfitted.overfitted_test(19, seed=1).p_value == pytest.approx(0.05)
    assert [n for n in overfitted.summary().notices if "TOO MANY" in n] == [notice]


def test_a_test_of_so_few_samples_that_it_cannot_reject_is_not_shown(overfitted, monkeypatch):
    overfitted = replace(overfitted)  # It remembers nothing.
    before = overfitted.summary().notices
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [0.0] * 18 + [None])
    assert not overfitted.overfitted_test(19, seed=1).rejects(0.95)
    assert overfitted.summary().notices == before


def test_numbers_are_recommended_by_tests_from_the_smallest_on(two, monkeypatch):
    monkeypatch.setattr(overfitting, "map_draws", lambda *_: [1.0 + i for i in range(19)])
    found = ss.choose_alternatives(FORMULA, two, [1, 2, 3], method="bootstrap", replications=19)
    p = found.table["p_value"]
    assert p[2] == pytest.approx(0.05)
    assert np.isnan(p[1])
    assert found.recommended == (2 if p[3] > 0.05 else 3)
    assert "2 against 1: p = 0.050" in found.reason


def test_what_has_no_such_test_is_refused_with_the_reason(two, overfitted):
    named = ss.simulators.village(200, seed=1)
    with pytest.raises(UnsupportedError, match="alternatives have names"):
        ss.fit(named.formula, named.data, chosen="job").overfitted_test()
    with pytest.raises(OptionError, match="at least 19"):
        overfitted.overfitted_test(9)
    with pytest.raises(OptionError, match="follow each other"):
        ss.choose_alternatives(FORMULA, two, [1, 3], method="bootstrap")
    with pytest.raises(OptionError, match="no method 'aic'"):
        ss.choose_alternatives(FORMULA, two, [1, 2], method="aic")
    weighted = ss.fit(
        FORMULA, two.assign(w=1.0 + np.arange(len(two)) % 3), alternatives=2, weights="w",
        weights_kind="probability",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="probability weights"):
        weighted.overfitted_test()

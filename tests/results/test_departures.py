"""What departures of the noise do to slopes: found by simulation as they are in truth."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.noises import Correlated, Independent
from selfselect.results.archive import sealed
from selfselect.results.departures import QUICK
from selfselect.rules import Maximum, Ranked

SLOPES = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5]])


def table(noise, *, k=2, n_rows=4_000, seed=0, rule="max", unit=1.0):
    """Draw rows; `noise` draws standardised noise (n, k) from a generator and covariates."""
    rng = np.random.default_rng([seed, k, 77])
    x = rng.normal(size=(n_rows, 2))
    latent = 0.2 + x @ SLOPES[:k].T + noise(rng, x, k) * np.array([0.8, 1.0, 1.3])[:k]
    chosen = latent.argmax(axis=1) if rule == "max" else latent.argmin(axis=1)
    return pd.DataFrame({"y": unit * latent[np.arange(n_rows), chosen], "x1": unit * x[:, 0],
                         "x2": x[:, 1], "who": np.array(list("abc"))[chosen]})  # fmt: skip


def normal(rng, x, k):
    return rng.normal(size=(len(x), k))


def heavy(rng, x, k):
    return rng.standard_t(5, (len(x), k)) / np.sqrt(5 / 3)


def uniform(rng, x, k):
    return rng.uniform(-np.sqrt(3), np.sqrt(3), (len(x), k))


def skewed(rng, x, k):
    return (rng.chisquare(3, (len(x), k)) - 3) / np.sqrt(6)


def correlated(rng, x, k, rho=0.6):
    return np.sqrt(1 - rho) * normal(rng, x, k) + np.sqrt(rho) * rng.normal(size=(len(x), 1))


def moving(rng, x, k):
    return normal(rng, x, k) * np.exp(0.4 * x[:, :1])


def fit_of(data, **options):
    return ss.fit("y ~ x1 + x2", data, chosen="who", **options)


def share_of_naive(fit, k):
    """Return the true error of the corrected slopes as a share of that of least squares."""
    labels = [(label, term) for label in "abc"[:k] for term in ("x1", "x2")]
    truth = SLOPES[:k].ravel()
    errors = [
        np.sqrt(np.mean([(values[label] - true) ** 2
                         for label, true in zip(labels, truth, strict=True)]))
        for values in (fit.params, fit.naive["estimate"])
    ]  # fmt: skip
    return errors[0] / errors[1]


@pytest.mark.parametrize("noise", [normal, heavy, uniform, skewed])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_a_wrong_shape_is_small(noise, k, rule):
    fit = fit_of(table(noise, k=k, rule=rule), rule=rule)
    found = fit.departures()
    assert found.small and share_of_naive(fit, k) < 0.3
    assert not any("LARGE" in said for said in fit.rejections())


@pytest.mark.parametrize("noise", [correlated, moving])
@pytest.mark.parametrize("k", [2, 3])
def test_correlation_and_moving_spread_are_large(noise, k):
    fit = fit_of(table(noise, k=k))
    found = fit.departures()
    assert not found.small and share_of_naive(fit, k) > 0.4
    assert any("EFFECT ON SLOPES LARGE" in said for said in fit.rejections())
    # Chance and the bases of the simulation, which are estimates, leave a factor of two.
    if found.explained:
        assert found.of_naive == pytest.approx(share_of_naive(fit, k), rel=0.6)


def test_correlation_shape_and_spread_are_estimated():
    found = fit_of(table(correlated, n_rows=10_000)).departures()
    assert found.correlations.to_numpy() == pytest.approx([0.6], abs=0.12)
    assert (found.noise["skewness"].abs() < 0.3).all() and (found.noise["kurtosis"] < 0.6).all()
    found = fit_of(table(skewed, n_rows=10_000)).departures()
    # That of a chi-square with three degrees of freedom is sqrt(8 / 3).
    assert found.noise["skewness"].to_numpy() == pytest.approx([1.63, 1.63], abs=0.5)
    found = fit_of(table(moving, n_rows=10_000)).departures()
    # exp(0.4 x) between the 5% and the 95% quantile of x.
    assert found.noise["spread"].to_numpy() == pytest.approx([3.73, 3.73], rel=0.35)


@pytest.mark.parametrize(
    ("noise", "expected"), [(normal, 0.0), (uniform, -1.2)], ids=["normal", "uniform"]
)
def test_kurtosis_is_that_of_the_noise_in_any_unit(noise, expected):
    """Under a fixed scale of half the truth, standardised noise has a variance of four and more."""
    found = fit_of(
        table(noise, n_rows=10_000), noise=Independent({"a": 0.4, "b": 0.5})
    ).departures()
    assert found.noise["kurtosis"].to_numpy() == pytest.approx([expected, expected], abs=0.4)


def test_a_sound_fit_shows_no_departure():
    found = fit_of(table(normal)).departures()
    assert found.small and found.in_errors < 0.5 and not found.correlations.any()
    assert (found.noise["spread"] == 1.0).all()


def test_the_answer_is_always_the_same_and_does_not_depend_on_units():
    one, again, scaled = (
        fit_of(table(correlated, unit=unit)).departures() for unit in (1.0, 1.0, 1e4)
    )
    assert one.sentence == again.sentence
    pd.testing.assert_frame_equal(one.slopes, again.slopes)
    assert scaled.of_naive == pytest.approx(one.of_naive, rel=1e-4)
    np.testing.assert_allclose(
        scaled.slopes["error"].xs("x2", level="term"),
        1e4 * one.slopes["error"].xs("x2", level="term"),
        rtol=1e-3, atol=1e-3,
    )  # fmt: skip


def test_costs_availability_weights_clusters_and_shared_terms_are_taken_as_they_are():
    data = table(heavy, n_rows=1_500)
    rng = np.random.default_rng(0)
    data = data.assign(fee=rng.uniform(size=1_500), group=np.arange(1_500) // 5,
                       times=rng.integers(1, 3, 1_500))  # fmt: skip
    for options in (
        {"rule": Maximum(cost={"b": "fee"})},
        {"weights": "times", "weights_kind": "frequency"},
        {"weights": "times", "weights_kind": "probability"},
        {"cluster": "group"},
        {"shared": ["x2"]},
        {"noise": Independent("common")},
    ):
        found = fit_of(data, **options).departures()
        assert np.isfinite([found.in_errors, found.of_naive, found.unexplained]).all()
        assert np.isfinite(found.slopes.to_numpy()).all()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"noise": Correlated()}, "needs independent noise"),
        ({"rule": Ranked(1)}, "an outcome of a given rank"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_a_reason(options, reason):
    fit = fit_of(table(normal, n_rows=400, k=2), **options)
    with pytest.raises(UnsupportedError, match=f"cannot be simulated: .*{reason}"):
        fit.departures()


def test_a_loaded_fit_has_no_rows_to_simulate_with(tmp_path):
    fit = fit_of(table(correlated))
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.rejections() == fit.rejections() and "LARGE" in loaded.rejections()[-1]
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.departures()


def test_a_file_of_an_earlier_version_is_put_into_words_again(tmp_path):
    import json

    path = tmp_path / "fit.json"
    fit_of(table(correlated)).save(path)
    content = json.loads(path.read_text())
    del content["kept"]["rejections"]
    path.write_text(json.dumps(sealed(content)))
    said = ss.load(path).rejections()
    assert said[0].startswith("INDEPENDENCE REJECTED")
    assert said[-1].startswith("EFFECT ON SLOPES UNKNOWN: no grade is computed, since the fit was")


def test_many_parameters_are_left_to_whoever_asks():
    rng = np.random.default_rng(1)
    wide = table(correlated, n_rows=3_000)
    names = [f"z{i}" for i in range(QUICK // 2)]
    wide = wide.assign(**{name: rng.normal(size=3_000) for name in names})
    fit = ss.fit("y ~ x1 + x2 + " + " + ".join(names), wide, chosen="who")
    assert "result.departures() simulates it" in fit.rejections()[-1]
    begin = time.process_time()
    found = fit.departures()
    assert time.process_time() - begin < 30.0
    assert found.sentence in fit.rejections()[-1]


def test_a_summary_of_many_rows_hardly_waits_for_it():
    fit = fit_of(table(correlated, n_rows=200_000))
    begin = time.process_time()
    fit.summary()
    whole = time.process_time() - begin
    assert fit.answers.departures is not None
    fit.answers.departures = None
    begin = time.process_time()
    fit.rejections()
    # Processor time of all threads; a second of it is well below one on the wall.
    assert time.process_time() - begin < 2.0
    assert whole < 8.0

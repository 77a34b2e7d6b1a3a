from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect import threads
from selfselect.errors import DataError, OptionError
from selfselect.inference import Bootstrap
from selfselect.inference.covariance import bootstrap_draws
from selfselect.inference.dependence import Dependence
from selfselect.solvers import Newton

REPLICATIONS = 200


def draws(result, *, seed=0, replications=30, n_clusters=0):
    return bootstrap_draws(
        result.problem,
        result.engine,
        result.solution,
        Newton(),
        Bootstrap(replications),
        Dependence((n_clusters,) if n_clusters else ()),
        rng=np.random.default_rng(seed),
        progress=False,
    )


def test_the_same_seed_gives_the_same_errors(world):
    made = world("max", 300)
    one, same, other = (made.fit(covariance=Bootstrap(20), seed=seed).bse for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


def test_draws_do_not_depend_on_the_number_of_threads(world, monkeypatch):
    result = world("max", 300).fit()
    many = draws(result)
    monkeypatch.setattr(threads, "thread_count", lambda: 1)
    np.testing.assert_array_equal(draws(result), many)


def first_draw(seed, n_units):
    """Draw the units of the first sample of a bootstrap as its documentation says."""
    stream = np.random.SeedSequence(int(np.random.default_rng(seed).integers(2**63)))
    return np.random.default_rng(stream.spawn(1)[0]).integers(n_units, size=n_units)


def test_a_draw_is_the_fit_of_the_rows_drawn(world):
    made = world("max", 300)
    by_hand = made.fit(made.data.iloc[first_draw(4, 300)])
    found = draws(made.fit(), seed=4, replications=2)[0]
    np.testing.assert_allclose(found, by_hand.params, rtol=1e-6, atol=1e-7)


def test_a_draw_of_clusters_is_the_fit_of_the_clusters_drawn(world):
    made = world("max", 300)
    clusters = np.arange(300) // 5
    rows = np.concatenate([np.flatnonzero(clusters == drawn) for drawn in first_draw(4, 60)])
    by_hand = made.fit(made.data.iloc[rows])
    found = draws(made.fit(cluster=clusters), seed=4, replications=2, n_clusters=60)[0]
    np.testing.assert_allclose(found, by_hand.params, rtol=1e-6, atol=1e-7)


def test_errors_are_close_to_the_observed_ones_where_the_model_is_right(world):
    made = world("max", 800)
    ratio = made.fit(covariance=Bootstrap(REPLICATIONS), seed=3).bse / made.fit().bse
    # Two hundred samples know a standard error to 5%; four of those.
    np.testing.assert_allclose(ratio, 1.0, atol=0.25)


def test_clusters_are_drawn_whole(world):
    made = world("max", 300)
    data = made.data.loc[made.data.index.repeat(2)]
    clusters = np.arange(300).repeat(2)
    clustered = made.fit(data, covariance=Bootstrap(REPLICATIONS), cluster=clusters, seed=5)
    sandwich = made.fit(data, cluster=clusters)
    np.testing.assert_allclose(clustered.bse / sandwich.bse, 1.0, atol=0.25)
    assert "clusters" in clustered.covariance.description
    assert clustered.covariance.kind == "bootstrap"
    ignored = made.fit(data, covariance=Bootstrap(REPLICATIONS), seed=5)
    assert (ignored.bse < 0.9 * clustered.bse).mean() > 0.8


def test_weights_are_kept_in_every_sample(world):
    made = world("max", 300)
    once, tenfold = (
        made.fit(weights=factor * made.data["w"].to_numpy(), covariance=Bootstrap(20), seed=2)
        for factor in (1.0, 2.0)
    )
    np.testing.assert_allclose(once.bse, tenfold.bse, rtol=1e-6)


def test_a_category_lost_in_most_samples_is_an_error_that_counts_them(world):
    data = world("max", 200).data
    rare = np.zeros(200)
    rare[np.flatnonzero(data["chosen"] == "a")[:1]] = 1.0
    rare[np.flatnonzero(data["chosen"] == "b")[:1]] = 1.0
    rare[np.flatnonzero(data["chosen"] == "c")[:1]] = 1.0
    with pytest.raises(DataError, match=r"Only \d+ of 40 bootstrap samples"):
        ss.fit(
            "outcome ~ x1 + rare",
            data.assign(rare=rare),
            chosen="chosen",
            covariance=Bootstrap(40),
        )


def test_a_bootstrap_of_one_sample_has_no_spread():
    with pytest.raises(OptionError, match="at least 2"):
        Bootstrap(1)

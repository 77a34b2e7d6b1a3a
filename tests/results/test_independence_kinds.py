"""The score, Wald and likelihood-ratio tests of independence agree where they should."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError

CLOSE = 0.35
"""The three statistics share a limit; with 2,000 rows they differ by this share at most."""


@pytest.fixture(scope="module")
def dependent():
    rng = np.random.default_rng(4)
    covariates = {"x": rng.standard_normal(2_000), "z": rng.standard_normal(2_000)}
    return ss.simulate(
        {"a": {"Intercept": 0.3, "x": 1.0}, "b": {"Intercept": 0.0, "z": 1.0}},
        covariates,
        noise=ss.noises.Correlated(correlation=0.15),
        seed=4,
    )


@pytest.fixture(scope="module")
def fits(dependent):
    return {
        noise: ss.fit(dependent.formula, dependent.data, chosen="chosen", noise=noise)
        for noise in ("independent", "correlated")
    }


def test_all_three_say_the_same(fits):
    alone = fits["independent"]
    score, wald, ratio = (alone.independence_test(kind) for kind in ("score", "wald", "lr"))
    for test in (wald, ratio):
        assert test.df == score.df == 1
        assert test.statistic == pytest.approx(score.statistic, rel=CLOSE)
        assert test.rejects()


def test_either_fit_gives_the_same_ratio(fits):
    statistics = [fit.independence_test("lr").statistic for fit in fits.values()]
    assert statistics[0] == pytest.approx(statistics[1], abs=1e-4)
    assert statistics[0] == pytest.approx(
        fits["correlated"].lr_test(fits["independent"]).statistic, abs=1e-4
    )


def test_what_a_fit_has_is_what_it_gives_by_itself(fits):
    alone, joined = fits["independent"], fits["correlated"]
    assert alone.independence_test() == alone.independence_test("score")
    assert joined.independence_test() == joined.independence_test("wald")
    assert not joined.independence_test("score").possible


def test_other_kinds_are_refused(fits):
    with pytest.raises(OptionError, match="no test 'rank'"):
        fits["independent"].independence_test("rank")

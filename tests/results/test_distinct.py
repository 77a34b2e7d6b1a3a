"""The warning that alternatives are hardly distinct where the choice was not recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.results.overfitting import hardly_distinct, least_difference

WARNING = "ALTERNATIVES HARDLY DISTINCT"


def sample(difference: float, n_rows: int = 400) -> pd.DataFrame:
    """Return the larger of two outcomes whose slopes differ by so much."""
    x, u, v = np.random.default_rng(4).standard_normal((3, n_rows))
    y = np.maximum(0.5 + difference * x + u, -difference * x + v)
    return pd.DataFrame({"x": x, "y": y})


@pytest.fixture(scope="module")
def alike() -> ss.FitResult:
    return ss.fit("y ~ x", sample(0.25), alternatives=2, seed=1)


def test_the_summary_and_the_answer_in_words_warn(alike: ss.FitResult, tmp_path: Path) -> None:
    assert WARNING in str(alike.summary())
    assert WARNING in str(alike.explain())
    alike.save(tmp_path / "fit.json")
    assert hardly_distinct(ss.load(tmp_path / "fit.json")) == hardly_distinct(alike)


def test_no_warning_where_equations_differ_or_choices_are_known() -> None:
    apart = ss.fit("y ~ x", sample(2.0), alternatives=2, seed=1)
    assert WARNING not in str(apart.summary())
    table = sample(0.25)
    known = ss.fit("y ~ x", table.assign(job=np.arange(400) % 2), chosen="job")
    assert least_difference(known) is None
    market = ss.simulators.market(1_000, seed=1).data
    sides = {"demand": "quantity ~ rate + stock", "supply": "quantity ~ rate + deposits"}
    assert not hardly_distinct(ss.fit(sides, market, rule="min"))


def test_the_statistic_is_that_of_the_wald_test_in_any_unit(alike: ss.FitResult) -> None:
    found = least_difference(alike)
    assert found is not None
    test = alike.wald_test(["1:Intercept - 2:Intercept", "1:x - 2:x"])
    assert (found.statistic, found.df) == (pytest.approx(test.statistic, rel=1e-9), test.df)
    small = ss.fit("y ~ x", sample(0.25).assign(x=lambda t: 1e6 * t["x"]), alternatives=2, seed=1)
    other = least_difference(small)
    assert other is not None
    assert (other.statistic, other.df) == (pytest.approx(found.statistic, rel=1e-5), found.df)


def test_a_column_of_one_equation_is_compared_with_zero() -> None:
    market = ss.simulators.market(300, seed=2).data
    sides = {"demand": "quantity ~ rate + stock", "supply": "quantity ~ rate + deposits"}
    fit = ss.fit(sides, market, rule="min", seed=1)
    found = least_difference(fit)
    test = fit.wald_test(
        ["demand:Intercept - supply:Intercept", "demand:rate - supply:rate", "demand:stock",
         "supply:deposits"]
    )  # fmt: skip
    assert found is not None
    assert (found.statistic, found.df) == (pytest.approx(test.statistic, rel=1e-9), test.df)


def test_clusters_and_shared_coefficients_are_allowed() -> None:
    table = sample(0.25).assign(group=np.arange(400) // 5)
    clustered = ss.fit("y ~ x", table, alternatives=2, seed=1, cluster="group")
    found = least_difference(clustered)
    test = clustered.wald_test(["1:Intercept - 2:Intercept", "1:x - 2:x"])
    assert found is not None
    assert found.statistic == pytest.approx(2 * test.statistic, rel=1e-9)
    shared = ss.fit({"a": "y ~ x", "b": "y ~ 1"}, table, shared=["Intercept"], seed=1)
    found = least_difference(shared)
    assert found is not None
    assert found.df == 1

"""Student's t under clusters, wherever an interval or a p-value is made; effective rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from selfselect.errors import ArchiveError, OptionError
from selfselect.inference import Bootstrap, sandwich
from selfselect.inference.statistics import (
    interval_reach,
    two_sided_p_values,
    wald_statistic_test,
)
from selfselect.results.archive import sealed


@pytest.fixture(scope="module")
def villagers():
    data = ss.simulators.village(240, seed=3).data
    rng = np.random.default_rng(1)
    return data.assign(
        hut=np.arange(240) % 12, many=np.arange(240) % 60, w=rng.uniform(1, 12.5, 240)
    )


def fit(data, **options):
    return ss.fit("income ~ height", data, chosen="job", **options)


@pytest.fixture(scope="module")
def clustered(villagers):
    return fit(villagers, cluster="hut")


def test_quantiles_and_tails_are_those_of_student_or_the_normal():
    assert interval_reach(0.95) == pytest.approx(stats.norm.ppf(0.975))
    assert interval_reach(0.9, 7) == pytest.approx(stats.t.ppf(0.95, 7))
    statistic = np.array([-2.0, 0.5])
    np.testing.assert_allclose(two_sided_p_values(statistic, 7), 2 * stats.t.sf([2.0, 0.5], 7))
    np.testing.assert_allclose(two_sided_p_values(statistic), 2 * stats.norm.sf([2.0, 0.5]))
    test = wald_statistic_test("Wald test", 9.0, 3, "null", 11.0)
    assert test.p_value == pytest.approx(stats.f.sf(3.0, 3, 11))
    assert "F(3, 11) = 3" in str(test)
    assert "chi2(3) = 9" in str(wald_statistic_test("Wald test", 9.0, 3, "null", np.inf))


def test_intervals_and_p_values_under_clusters_are_those_of_student(clustered):
    assert clustered.covariance.df == 11
    table = clustered.tidy(0.9)
    slope = table["term"] == "height"
    reach = (table["conf_high"] - table["estimate"]) / table["std_error"]
    np.testing.assert_allclose(reach[slope], stats.t.ppf(0.95, 11))
    np.testing.assert_allclose(
        table["p_value"][slope], 2 * stats.t.sf(np.abs(table["statistic"][slope]), 11)
    )
    scale = table["term"] == "scale"
    reach = np.log(table["conf_high"] / table["estimate"]) * table["estimate"] / table["std_error"]
    np.testing.assert_allclose(reach[scale], stats.t.ppf(0.95, 11))
    assert clustered.glance()["df"][0] == 11


def test_without_clusters_there_are_no_degrees_of_freedom_to_show(villagers):
    assert np.isnan(fit(villagers).glance()["df"][0])


def test_one_restriction_has_the_p_value_of_the_table_and_several_are_referred_to_f(clustered):
    one = clustered.wald_test("hunting:height = 0")
    assert one.p_value == pytest.approx(clustered.pvalues["hunting", "height"])
    assert one.statistic == pytest.approx(clustered.tvalues["hunting", "height"] ** 2)
    two = clustered.wald_test("hunting:height = 0, fishing:height = 0")
    assert (two.df, two.df_residual) == (2, 11)
    assert two.p_value == pytest.approx(stats.f.sf(two.statistic, 2, 11))


def test_more_restrictions_than_clusters_allow_are_not_tested(villagers):
    few = fit(villagers.assign(third=np.arange(240) % 3), cluster="third")
    names = [f"{name} = 1" for name in few.names[:3]]
    test = few.wald_test(names)
    assert not test.possible and "3 clusters" in test.reason


def test_the_page_says_that_clusters_are_few(clustered, villagers):
    page = " ".join(str(clustered.summary()).split())
    assert "Few clusters (12): standard errors are corrected" in page
    assert "Student's t with 11 degrees of freedom" in page and "P>|t|" in page
    assert "P&gt;|t|" in clustered.summary().to_html()
    many = " ".join(str(fit(villagers, cluster="many").summary()).split())
    assert "Few clusters" not in many and "P>|t|" in many
    assert "P>|z|" in str(fit(villagers).summary())


def test_degrees_of_freedom_survive_saving(clustered, villagers, tmp_path):
    for number, one in enumerate((clustered, fit(villagers))):
        path = tmp_path / f"{number}.json"
        one.save(path)
        loaded = ss.load(path)
        assert loaded.covariance.df == one.covariance.df
        pd.testing.assert_frame_equal(loaded.tidy(), one.tidy())
        assert str(loaded.summary()) == str(one.summary())


def test_a_bootstrap_of_clusters_has_their_degrees_of_freedom(villagers):
    drawn = fit(villagers, cluster="hut", covariance=Bootstrap(6), seed=0)
    assert drawn.covariance.df == 11
    assert "bootstrap of 12 clusters of hut" in drawn.covariance.description
    assert np.isinf(fit(villagers, covariance=Bootstrap(6), seed=0).covariance.df)
    with pytest.raises(OptionError, match="only one cluster"):
        fit(villagers.assign(one=1), cluster="one", covariance=Bootstrap(6))


def test_several_ways_leave_the_degrees_of_the_way_with_fewest(villagers):
    assert fit(villagers, cluster=["hut", "many"]).covariance.df == 11


def unequal(n_rows, n_large, n_clusters):
    """Rows of selection with shared noises, of which three clusters hold all but a few."""
    rng = np.random.default_rng(5)
    town = np.where(
        np.arange(n_rows) < n_large, np.arange(n_rows) % 3, 3 + np.arange(n_rows) % (n_clusters - 3)
    )
    x, z, u, v = rng.standard_normal((4, n_clusters))[:, town] / 2 + rng.standard_normal(
        (4, n_rows)
    )
    works = 0.3 + x + z + u > 0
    y = np.where(works, 1 + x + 0.5 * u + v, np.nan)
    return pd.DataFrame({"x": x, "z": z, "works": works, "y": y, "town": town})


@pytest.mark.parametrize("method", ["ml", "two-step"])
def test_clusters_of_unequal_size_count_as_few(method):
    table = unequal(600, 450, 40)
    sizes = table["town"].value_counts()
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    found = ss.sample_selection("y ~ x", "works ~ x + z", table, cluster="town", method=method)
    assert effective < 6 and found.covariance.df == pytest.approx(effective - 1)
    assert f"(40 clusters, effectively {effective:.1f})" in found.covariance.description
    page = " ".join(str(found.summary()).split())
    assert f"Few clusters ({effective:.1f} of equal size are worth as much)" in page
    doubled = ss.sample_selection(
        "y ~ x", "works ~ x + z", table.assign(w=2.0), cluster="town", method=method, weights="w",
        weights_kind="frequency",
    )  # fmt: skip
    assert doubled.covariance.df == pytest.approx(effective - 1)


def models(table, **options):
    """Yield every kind of fit that takes clusters, of rows with three jobs."""
    yield lambda: ss.sample_selection("y ~ x", "works ~ x + z", table, **options)
    yield lambda: ss.sample_selection("y ~ x", "works ~ x + z", table, method="two-step", **options)
    yield lambda: ss.sample_selection(
        "y ~ x", "works ~ x + z", table, endogenous={"x": "~ q"}, **options
    )
    job = np.where(table["works"], np.where(table["q"] > 0, "a", "b"), "c")
    whole = table.assign(job=job, y=table["y"].fillna(0) + table["q"])
    yield lambda: ss.multinomial_switching("y ~ x", "job ~ x + z", whole, **options)
    yield lambda: ss.fit("y ~ x", whole, chosen="job", **options)
    yield lambda: ss.fit("y ~ x", whole, chosen="job", covariance=Bootstrap(3), seed=0, **options)


@pytest.mark.parametrize("which", range(6))
def test_a_cluster_of_nearly_all_rows_is_refused_as_one_cluster_is(which):
    table = unequal(600, 0, 40)
    table["q"] = table["x"] + np.random.default_rng(1).standard_normal(600)
    one = table.assign(place=np.maximum(np.arange(600) - 589, 0))
    assert one["place"].nunique() == 11
    said = "The 11 clusters differ so much in size that they are equivalent to 1.03 of equal size"
    with pytest.raises(OptionError, match=said):
        list(models(one, cluster="place"))[which]()


def test_two_clusters_of_nearly_equal_size_count_as_two(villagers):
    found = fit(villagers.assign(half=np.arange(240) < 118), cluster="half")
    assert found.covariance.df == 1.0 and found.covariance.n_clusters == 2
    assert found.wald_test("hunting:height = 0").p_value == pytest.approx(
        found.pvalues["hunting", "height"]
    )
    assert "Few clusters (2)" in " ".join(str(found.summary()).split())
    two = found.wald_test("hunting:height = 0, fishing:height = 0")
    assert two.reason == "2 restrictions cannot be tested with 2 clusters"


def test_many_clusters_that_are_worth_three_do_not_read_as_three(villagers, tmp_path):
    """Of 240 rows 92, 92 and 48 are in three of 11 clusters, which are worth 3.0."""
    town = np.repeat(np.arange(11), [92, 92, 48, *[1] * 8])
    found = fit(villagers.assign(town=town), cluster="town")
    assert f"{found.covariance.df + 1:.1f}" == "3.0" and found.covariance.n_clusters == 11
    found.save(tmp_path / "fit.json")
    for one in (found, ss.load(tmp_path / "fit.json")):
        page = " ".join(str(one.summary()).split())
        assert "Few clusters (3.0 of equal size are worth as much)" in page
        assert "Where a few clusters hold most of the rows" in page
    names = [f"{name} = 1" for name in found.names[:3]]
    assert (
        "3 restrictions cannot be tested with 2.99 clusters of equal size, which the 11 are "
        in (found.wald_test(names).reason)
    )
    # Of 11 clusters of nearly equal size no few hold most of the rows.
    even = fit(villagers.assign(town=np.repeat(np.arange(11), [30] * 3 + [20] * 6 + [15] * 2)),
               cluster="town")  # fmt: skip
    page = " ".join(str(even.summary()).split())
    assert even.covariance.df + 1 < 10.5 and "of equal size are worth as much" in page
    assert "Where a few clusters hold most of the rows" not in page


def test_files_that_do_not_say_how_many_clusters_there_are_still_load(clustered, tmp_path):
    path = tmp_path / "fit.json"
    clustered.save(path)
    content = json.loads(path.read_text())
    assert content["covariance"].pop("n_clusters") == 12
    path.write_text(json.dumps(sealed(content)))
    old = ss.load(path)
    assert old.covariance.n_clusters is None
    assert "Few clusters (12)" in " ".join(str(old.summary()).split())
    one = content | {"covariance": content["covariance"] | {"n_clusters": 1}}
    path.write_text(json.dumps(sealed(one)))
    with pytest.raises(ArchiveError, match="number of clusters that no table has"):
        ss.load(path)


def test_large_clusters_are_corrected_among_many_small_ones(monkeypatch):
    """Of more than a hundred clusters those that hold more than a hundredth of the rows."""
    table = unequal(2_400, 2_000, 150)
    mixed = ss.sample_selection("y ~ x", "works ~ x + z", table, cluster="town")
    monkeypatch.setattr(sandwich, "CORRECTED_CLUSTERS", 200)
    every = ss.sample_selection("y ~ x", "works ~ x + z", table, cluster="town")
    monkeypatch.setattr(sandwich, "CORRECTED_CLUSTERS", 1)
    plain = ss.sample_selection("y ~ x", "works ~ x + z", table, cluster="town")
    np.testing.assert_allclose(mixed.bse, every.bse, rtol=0.01)
    assert (plain.bse < 0.95 * mixed.bse).mean() > 0.5


def test_models_with_a_selection_equation_have_them_too():
    rng = np.random.default_rng(2)
    x, z, u, v = rng.standard_normal((4, 300))
    works = 0.3 + x + z + u > 0
    y = np.where(works, 1 + x + 0.5 * u + v, np.nan)
    table = pd.DataFrame({"x": x, "z": z, "works": works, "y": y, "town": np.arange(300) % 10})
    for method in ("ml", "two-step"):
        found = ss.sample_selection("y ~ x", "works ~ x + z", table, cluster="town", method=method)
        assert found.covariance.df == 9
        reach = (found.conf_int()["conf_high"] - found.params) / found.bse
        assert reach["selection", "z"] == pytest.approx(stats.t.ppf(0.975, 9))
        assert "Few clusters" in " ".join(found.summary().notes)
        assert found.independence_test().df_residual == 9
        assert found.wald_test("outcome:x = 1").df_residual == 9


def test_effective_rows_are_on_the_page_in_memory_and_from_files(villagers, tmp_path):
    result = fit(villagers, weights="w", weights_kind="probability")
    weights = villagers["w"].to_numpy()
    wanted = weights.sum() ** 2 / (weights**2).sum()
    assert result.facts.n_effective == pytest.approx(wanted)
    assert f"Effective rows: {wanted:.1f}" in str(result.summary())
    villagers.to_parquet(tmp_path / "rows.parquet")
    read = fit(str(tmp_path / "*.parquet"), weights="w", weights_kind="probability")
    assert read.facts.n_effective == pytest.approx(wanted)
    np.testing.assert_allclose(read.bse, result.bse, rtol=1e-4)
    frequency = fit(villagers.assign(w=2), weights="w", weights_kind="frequency")
    assert "Effective rows" not in str(frequency.summary())


def test_files_have_the_same_corrected_errors_by_clusters(clustered, villagers, tmp_path):
    villagers.to_parquet(tmp_path / "rows.parquet")
    read = fit(str(tmp_path / "*.parquet"), cluster="hut")
    assert read.covariance.df == 11
    np.testing.assert_allclose(read.bse, clustered.bse, rtol=1e-4)


def test_a_correlation_near_one_does_not_look_certain():
    """On Fisher's scale, on which its interval is made, z and p-value agree with the interval."""
    rng = np.random.default_rng(0)
    for seed in range(3):
        x, u, v = np.random.default_rng([seed, 1]).standard_normal((3, 150))
        works = 0.2 + 0.5 * x + u > 0
        y = np.where(works, 1 + 0.7 * x + 0.3 * u + v, np.nan)
        table = pd.DataFrame({"x": x, "works": works, "y": y, "z": rng.standard_normal(150)})
        found = ss.sample_selection("y ~ x", "works ~ x + z", table)
        row = found.tidy().set_index("term").loc["correlation"]
        if np.isnan(row["std_error"]):
            continue
        inside = row["conf_low"] < 0 < row["conf_high"]
        assert inside == (row["p_value"] > 0.05)
        rho = row["estimate"]
        wanted = np.arctanh(rho) * (1 - rho**2) / row["std_error"]
        assert row["statistic"] == pytest.approx(wanted)
        assert abs(row["statistic"]) <= abs(rho / row["std_error"])


def test_correlated_noise_has_its_z_on_fishers_scale(villagers):
    found = fit(villagers, noise=ss.noises.Correlated())
    row = found.tidy().set_index("term").loc["correlation"]
    rho = row["estimate"]
    assert row["statistic"] == pytest.approx(np.arctanh(rho) * (1 - rho**2) / row["std_error"])
    name = next(name for name in found.names if name.endswith(":correlation"))
    for hypothesis in (f"{name} = 0", f"2*{name} = 0"):
        assert found.wald_test(hypothesis).p_value == pytest.approx(row["p_value"])
    other = found.wald_test(f"{name} = 0.5").statistic
    wanted = (np.arctanh(rho) - np.arctanh(0.5)) * (1 - rho**2) / row["std_error"]
    assert other == pytest.approx(wanted**2)

"""Several ways of clustering at once, against loops over pairs of rows and against simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError
from selfselect.inference.sandwich import cluster_meat, free_scores, make_positive


@pytest.fixture(scope="module")
def panel():
    """Return firms over years; each firm and each year shifts the outcomes of its rows."""
    rng = np.random.default_rng(7)
    firm, year = (part.ravel() for part in np.meshgrid(np.arange(30), np.arange(12)))
    x = rng.normal(size=30)[firm] + rng.normal(size=12)[year] + rng.normal(size=360)
    shift = 0.5 * rng.normal(size=30)[firm] + 0.5 * rng.normal(size=12)[year]
    latent = np.column_stack([0.5 + x, 0.3 - 0.5 * x]) + rng.normal(size=(360, 2))
    latent += shift[:, None]
    seen = latent.argmax(axis=1)
    return pd.DataFrame(
        {"y": latent[np.arange(360), seen], "who": np.array(["a", "b"])[seen], "x": x,
         "firm": firm, "year": year, "cell": firm * 100 + year}
    )  # fmt: skip


def fit(data, **options):
    return ss.fit("y ~ x", data, chosen="who", **options)


def test_two_ways_are_each_one_less_their_intersection(panel):
    both = fit(panel, cluster=["firm", "year"])
    firm, year, cell = (fit(panel, cluster=name) for name in ("firm", "year", "cell"))
    wanted = firm.cov_params() + year.cov_params() - cell.cov_params()
    np.testing.assert_allclose(both.cov_params(), wanted, rtol=1e-6, atol=1e-10)
    assert both.covariance.kind == "clustered"
    assert "no verdict: rows are clustered by firm and year" in " ".join(both.summary().notes)
    assert "no verdict" not in " ".join(fit(panel).summary().notes)
    assert "clustered by firm and year (30 and 12 clusters)" in both.covariance.description
    assert (both.bse > fit(panel).bse).mean() > 0.5


def test_the_middle_is_the_sum_over_pairs_of_rows_that_share_a_cluster(panel):
    """Sum products of scores over pairs, without factors for few clusters."""
    result = fit(panel, cluster=["firm", "year"])
    scores = free_scores(
        result.problem, result.problem.layout.natural(result.solution.free), result.engine.batch
    )
    firm, year = panel["firm"].to_numpy(), panel["year"].to_numpy()
    share = (firm[:, None] == firm) | (year[:, None] == year)
    plain = scores.T @ share @ scores
    bread, jacobian = np.linalg.inv(result.solution.information), result.reported.jacobian
    wanted = jacobian @ bread @ plain @ bread @ jacobian.T
    # Corrections for 30 and 12 clusters raise variances by a tenth to a third.
    ratio = np.diag(result.cov_params()) / np.diag(wanted)
    assert (ratio > 1.0).all() and (ratio < 1.5).all()


def test_three_ways_alternate_in_sign(panel):
    names = ["firm", "year", "team"]
    data = panel.assign(team=np.random.default_rng(1).integers(0, 15, 360))
    result = fit(data, cluster=names)
    problem, engine, solution = result.problem, result.engine, result.solution
    meat, counts = cluster_meat(
        problem, engine, solution.free, solution.information, result.rows.cluster_sizes
    )
    wanted = np.zeros_like(meat)
    for size in (1, 2, 3):
        for which in combinations(names, size):
            codes = data.groupby(list(which)).ngroup().to_numpy()
            rows = replace(engine.batch.rows, clusters=codes)
            alone = replace(engine, batch=replace(engine.batch, rows=rows))
            one, _ = cluster_meat(
                problem, alone, solution.free, solution.information, rows.cluster_sizes
            )
            wanted += (-1) ** (size + 1) * one
    np.testing.assert_allclose(meat, wanted, rtol=1e-9, atol=1e-9)
    assert [one.count for one in counts] == [30, 12, 15]


def test_the_order_of_the_ways_and_a_list_of_one_do_not_matter(panel):
    one, other = fit(panel, cluster=["firm", "year"]), fit(panel, cluster=("year", "firm"))
    np.testing.assert_allclose(one.bse, other.bse, rtol=1e-9)
    np.testing.assert_allclose(
        fit(panel, cluster=["firm"]).bse, fit(panel, cluster="firm").bse, rtol=1e-12
    )


def test_a_difference_that_is_not_positive_is_repaired_in_units_of_the_information():
    information = np.array([[4.0, 1.0], [1.0, 9.0]])
    root = np.linalg.cholesky(information)
    meat = root @ np.diag([2.0, -0.5]) @ root.T
    repaired, was_not = make_positive(meat, information)
    assert was_not
    np.testing.assert_allclose(repaired, root @ np.diag([2.0, 0.0]) @ root.T, atol=1e-12)
    same, was_not = make_positive(information, information)
    assert not was_not and same is information


def test_a_repair_is_said_in_the_description():
    rng = np.random.default_rng(0)
    for seed in range(30):
        sample = ss.simulators.gaussian(60, 2, 2, seed=seed)
        data = sample.data.assign(g=rng.integers(0, 4, 60), h=rng.integers(0, 4, 60))
        result = ss.fit(sample.formula, data, chosen="chosen", cluster=["g", "h"])
        assert np.linalg.eigvalsh(result.covariance.matrix)[0] > -1e-9
        if "negative eigenvalues were set to zero" in result.covariance.description:
            return
    raise AssertionError("among 30 samples with four clusters each, none needed a repair")


def test_two_way_errors_match_the_spread_of_estimates():
    """Shifts by firm and by year make naive errors far too small; two-way ones are near."""
    rng = np.random.default_rng(5)
    firm, year = (part.ravel() for part in np.meshgrid(np.arange(40), np.arange(40)))
    x = rng.normal(size=40)[firm] + rng.normal(size=40)[year]
    estimates, claimed, naive = [], [], []
    for _ in range(60):
        shift = 0.6 * rng.normal(size=(40, 2))[firm] + 0.6 * rng.normal(size=(40, 2))[year]
        latent = np.column_stack([0.5 + x, 0.5 - x]) + shift + rng.normal(size=(1600, 2))
        seen = latent.argmax(axis=1)
        data = pd.DataFrame({"y": latent[np.arange(1600), seen], "who": seen, "x": x,
                             "firm": firm, "year": year})  # fmt: skip
        result = fit(data, cluster=["firm", "year"])
        estimates.append(result.params.to_numpy())
        claimed.append(result.bse.to_numpy())
        carry = result.reported.jacobian
        inverse = np.linalg.inv(result.solution.information)
        naive.append(np.sqrt(np.diag(carry @ inverse @ carry.T)))
    spread = np.std(estimates, axis=0, ddof=1)
    ratio = np.mean(claimed, axis=0) / spread
    # The spread of 60 estimates is known to 9%, and 40 clusters bias errors down a little.
    assert (ratio > 0.65).all() and (ratio < 1.35).all()
    assert np.median(np.mean(naive, axis=0) / spread) < 0.5


def test_a_bootstrap_of_two_ways_is_refused(panel):
    with pytest.raises(OptionError, match="not possible for clusters by firm and year"):
        fit(panel, cluster=["firm", "year"], covariance="bootstrap")


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (["firm", "yaer"], "no column 'yaer' in the data to cluster by. Did you mean 'year'"),
        (["firm", "firm"], "one of them twice"),
        (["f", "g"], "one value per row"),
    ],
)
def test_ways_that_are_not_there_are_refused(panel, cluster, sentence):
    with pytest.raises(DataError, match=sentence):
        fit(panel, cluster=cluster)


def test_a_missing_cluster_of_the_second_way_is_refused(panel):
    holes = panel.assign(year=panel["year"].where(panel["year"] != 3))
    with pytest.raises(DataError, match="cluster column 'year' has 30 missing values"):
        fit(holes, cluster=["firm", "year"])


def test_labels_that_are_named_like_a_column_are_still_labels(panel):
    labels = np.where(panel["firm"] % 2 == 0, "firm", "year").tolist()
    assert "(2 clusters)" in fit(panel, cluster=labels).covariance.description


@pytest.fixture(scope="module")
def crossed():
    """Return rows whose two-way covariance of steps is not positive before the repair."""
    rng = np.random.default_rng(0)
    n = 1500
    x, z, q, v = (rng.normal(size=n) for _ in range(4))
    noise = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    works = 0.3 + 0.5 * x + 0.8 * z + noise[:, 0] > 0
    w = 0.5 * q + 0.6 * noise[:, 1] + rng.normal(size=n)
    utility = np.column_stack([0.5 * x + z, 0.3 * z - 0.5 * v, 0 * x]) + rng.gumbel(size=(n, 3))
    best = utility.argmax(axis=1)
    means = np.choose(best, [1 + 0.5 * x, 0.5 - 0.3 * x, 0.2 + 0.1 * x])
    return pd.DataFrame({
        "x": x, "z": z, "q": q, "v": v, "w": w, "works": works.astype(int),
        "y": np.where(works, 1 + 0.7 * x + 0.5 * w + noise[:, 1], np.nan),
        "job": np.array(list("abc"))[best],
        "pay": means + 0.4 * (utility.max(axis=1) - 1) + rng.normal(size=n),
        "f": rng.integers(0, 40, n), "t": rng.integers(0, 12, n),
        "even": np.arange(n) % 10,
        "large": np.where(np.arange(n) < 0.6 * n, 0, 1 + np.arange(n) % 15),
    })  # fmt: skip


def two_steps(table, **options):
    return ss.sample_selection("y ~ x + w", "works ~ x + z", table, method="two-step", **options)


def first_stage(table, **options):
    return ss.sample_selection(
        "y ~ x + w", "works ~ x + z", table, endogenous={"w": "~ q"}, **options
    )


def of_several(table, **options):
    return ss.multinomial_switching("pay ~ x", "job ~ x + z + v", table, **options)


@pytest.mark.parametrize(
    ("model", "ways"),
    [(two_steps, ["even", "large"]), (first_stage, ["even", "large"]), (of_several, ["f", "t"])],
)
def test_no_model_has_a_covariance_that_is_none(model, ways, crossed, tmp_path):
    found = model(crossed, cluster=ways)
    matrix = found.covariance.matrix
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    assert np.linalg.eigvalsh(matrix / np.outer(size, size))[0] > -1e-9
    assert "it was not positive, so negative eigenvalues were set" in found.covariance.description
    found.save(tmp_path / "fit.json")
    # What is repaired does not depend on the units of a covariate.
    scaled = model(crossed.assign(x=crossed["x"] * 1e4), cluster=ways)
    by_unit = np.array([1e4 if name.endswith(":x") else 1.0 for name in found.names])
    np.testing.assert_allclose(
        np.sqrt(np.diag(scaled.covariance.matrix)) * by_unit, np.sqrt(np.diag(matrix)), rtol=1e-3
    )


def test_two_ways_that_agree_are_not_repaired(crossed):
    """Where one way nests the other, the intersection is the finer: the coarser remains."""
    nested = crossed.assign(finer=crossed["even"] * 100 + np.arange(len(crossed)) % 4)
    both, one = (two_steps(nested, cluster=ways) for ways in (["even", "finer"], "even"))
    assert "not positive" not in both.covariance.description
    np.testing.assert_allclose(both.cov_params(), one.cov_params(), rtol=1e-8, atol=1e-14)


def test_a_negative_variance_of_a_combination_is_missing_not_zero(crossed):
    found = of_several(crossed)
    at = [found.names.index(name) for name in ("a:x", "b:x")]
    matrix = np.array(found.covariance.matrix)
    matrix[np.ix_(at, at)] = [[1.0, 2.0], [2.0, 1.0]]
    bad = replace(found, covariance=replace(found.covariance, matrix=matrix))
    made = bad.lincom("a:x - b:x, a:x - a:x, a:x + b:x")
    np.testing.assert_allclose(made.table["std_error"], [np.nan, 0.0, np.sqrt(6.0)])
    assert made.table.loc[0, ["p_value", "conf_low", "conf_high"]].isna().all()
    assert "no standard error where the covariance gives a negative variance" in str(made)

"""Bounds by the rule alone: against brute force, and as they must be whatever the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, MissingRowsWarning, OptionError, UnsupportedError

QUANTILES = [0.1, 0.3, 0.5, 0.7, 0.9]
EXACT = 1e-9
"""Sums of the same numbers in another order."""


@pytest.fixture(scope="module")
def villagers():
    rng = np.random.default_rng(3)
    data = ss.simulators.village(900, seed=3).data
    return data.assign(
        region=rng.choice(["north", "south"], len(data)),
        children=rng.integers(0, 3, len(data)),
        z=rng.integers(0, 4, len(data)),
        village=rng.integers(0, 60, len(data)),
        copies=rng.integers(1, 4, len(data)),
        share=rng.uniform(0.5, 2.0, len(data)),
        boat=rng.uniform(0.0, 8.0, len(data)),
        water=rng.uniform(size=len(data)) < 0.8,
    )


def weighted_quantile(ends, weights, share):
    """Return the smallest value with at least a share of the weight at or below it."""
    order = np.argsort(ends, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum() >= share - 1e-12
    return ends[order][reached][0]


def brute_force(lower, upper, weights=None):
    """Return bounds of quantiles and of the mean by sorting the ends of all rows."""
    weights = np.ones(len(lower)) if weights is None else np.asarray(weights, float)
    found = [
        (weighted_quantile(lower, weights, q), weighted_quantile(upper, weights, q))
        for q in QUANTILES
    ]
    return found, (np.average(lower, weights=weights), np.average(upper, weights=weights))


def compare(found, name, lower, upper, weights=None):
    quantiles, mean = brute_force(lower, upper, weights)
    own = found.quantiles[found.quantiles["of"] == name]
    assert np.allclose(
        own[["lower", "upper"]].to_numpy(), quantiles, atol=EXACT, rtol=0, equal_nan=True
    )
    own = found.means[found.means["of"] == name]
    assert np.allclose(own[["lower", "upper"]].to_numpy(), [mean], atol=EXACT, rtol=EXACT)
    shares = found.distribution[found.distribution["of"] == name]
    weights = np.ones(len(lower)) if weights is None else np.asarray(weights, float)
    for row in shares.itertuples():
        assert row.lower == pytest.approx(
            np.average(upper <= row.at + EXACT, weights=weights), abs=EXACT
        )
        assert row.upper == pytest.approx(
            np.average(lower <= row.at + EXACT, weights=weights), abs=EXACT
        )


def test_tables_show_twentieths_of_the_outcomes_and_a_support_holds_both_of_its_ends(villagers):
    y = villagers["income"].to_numpy()
    found = ss.bounds("income", villagers, chosen="job", support=(y.min(), y.max()))
    shown = found.distribution.loc[found.distribution["of"] == "hunting", "at"]
    twentieths = [weighted_quantile(y, np.ones(len(y)), i / 20) for i in range(1, 20)]
    np.testing.assert_array_equal(shown, np.unique(twentieths))


@pytest.mark.parametrize("rule", ["max", "min"])
def test_bounds_are_the_distributions_of_both_ends_of_every_row(villagers, rule):
    found = ss.bounds(
        "income", villagers, chosen="job", rule=rule, quantiles=QUANTILES, support=(-500, 500)
    )
    y, fishes = villagers["income"].to_numpy(), (villagers["job"] == "fishing").to_numpy()
    low, high = (-500.0, y) if rule == "max" else (y, 500.0)
    ends = {
        "fishing": (np.where(fishes, y, low), np.where(fishes, y, high)),
        "hunting": (np.where(fishes, low, y), np.where(fishes, high, y)),
    }
    for name, (lower, upper) in ends.items():
        compare(found, name, lower, upper)
    (f_low, f_high), (h_low, h_high) = ends["fishing"], ends["hunting"]
    compare(found, "fishing - hunting", f_low - h_high, f_high - h_low)


def test_known_costs_and_availability_move_the_limits(villagers):
    data = villagers[villagers["water"] | (villagers["job"] == "hunting")]
    found = ss.bounds(
        "income", data, chosen="job", cost={"fishing": "boat"}, available={"fishing": "water"},
        quantiles=QUANTILES,
    )  # fmt: skip
    y, cost = data["income"].to_numpy(), data["boat"].to_numpy()
    fishes, water = (data["job"] == "fishing").to_numpy(), data["water"].to_numpy()
    upper = np.where(fishes, y, np.where(water, y + cost, np.inf))
    compare(found, "fishing", np.where(fishes, y, -np.inf), upper)
    compare(found, "hunting", np.where(fishes, -np.inf, y), np.where(fishes, y - cost, y))
    gap = found.distribution[found.distribution["of"] == "fishing - hunting"]
    assert (gap["lower"] <= gap["upper"]).all()


def test_three_alternatives_bound_every_pair():
    x = np.random.default_rng(2).normal(size=400)
    sample = ss.simulate(
        {"a": {"x": 1.0}, "b": {"x": -1.0}, "c": {"Intercept": 0.5}}, {"x": x}, seed=1
    )
    found = ss.bounds(
        "outcome", sample.data, chosen="chosen", quantiles=QUANTILES, support=(-9.0, None)
    )
    y, job = sample.data["outcome"].to_numpy(), sample.data["chosen"].to_numpy()
    lower = {name: np.where(job == name, y, -9.0) for name in "abc"}
    for name in "abc":
        compare(found, name, lower[name], y)
    # Where c was chosen, both of the others lie anywhere below it.
    compare(found, "a - b", lower["a"] - y, y - lower["b"])
    latent = sample.latent
    rows = found.means.set_index("of")
    assert rows.loc["a - b", "lower"] <= (latent["a"] - latent["b"]).mean()
    assert rows.loc["a - b", "upper"] >= (latent["a"] - latent["b"]).mean()


def test_several_ways_of_clustering_are_at_least_as_wide_as_each(villagers):
    data = villagers.assign(other=np.arange(len(villagers)) % 25)
    width = {}
    for name, cluster in (("one", "village"), ("two", "other"), ("both", ["village", "other"])):
        found = ss.bounds("income", data, chosen="job", cluster=cluster, support=(0, 300)).means
        width[name] = (found["conf_high"] - found["conf_low"]).to_numpy()
    assert (width["both"] >= np.maximum(width["one"], width["two"]) - 1e-9).all()


def test_clusters_may_be_labels_beside_the_table(villagers):
    ask = {"chosen": "job", "support": (0, 300)}
    named = ss.bounds("income", villagers, cluster="village", **ask).means
    beside = ss.bounds("income", villagers, cluster=villagers["village"].to_numpy(), **ask).means
    alone = ss.bounds("income", villagers, **ask).means
    pd.testing.assert_frame_equal(beside, named)
    assert not np.allclose(named["conf_low"], alone["conf_low"])


def test_differences_that_are_equal_on_paper_are_equal_however_large_the_outcomes():
    tenths = np.tile(np.arange(1, 10), 40)
    job = np.repeat(["a", "b"], 180)
    data = {"y": 1_000_000 + tenths / 10, "job": job}
    found = ss.bounds("y", data, chosen="job", points=[0.3], support=(1_000_000, 1_000_001))
    own = found.distribution.query("of == 'a - b' and at == 0.3")
    # Where a is chosen, it is ahead by at most what it is above the least outcome.
    assert own["lower"].item() == pytest.approx(np.mean((job == "b") | (tenths <= 3)), abs=EXACT)


def test_a_fit_of_long_data_has_bounds_of_its_cases():
    sample = ss.simulators.tender(200, seed=1)
    result = ss.fit(
        sample.formula, sample.data, case="tender", alternatives="firm", chosen="won", rule="min",
        shared="all",
    )  # fmt: skip
    found = result.bounds(support=(0.0, 9.0))
    assert found.n_rows == 200
    # Every firm stayed away from some tender, and what it would have bid there is not known.
    assert found.means["fit"].isna().all() and found.quantiles["fit"].isna().all()
    assert len(found.outside()) == 0 and "have no row for" in " ".join(found.notes)
    always = sample.data.assign(stays=sample.data.groupby("tender")["firm"].transform("size") == 4)
    result = ss.fit(
        sample.formula, always[always["stays"]], case="tender", alternatives="firm", chosen="won",
        rule="min", shared="all",
    )  # fmt: skip
    found = result.bounds(support=(0.0, 9.0))
    assert len(found.outside()) == 0
    assert (found.means["lower"] < found.means["fit"]).all()


def test_rules_with_transforms_bound_in_units_of_each_outcome():
    rng = np.random.default_rng(1)
    sample = ss.simulate(
        {"a": {"Intercept": 1.0, "x": 0.5}, "b": {"Intercept": 0.5, "x": -0.5}},
        {"x": rng.normal(size=400)}, rule=ss.rules.MonotoneArgmax({"a": 2.0, "b": "exp"}), seed=2,
    )  # fmt: skip
    found = ss.bounds(
        "outcome", sample.data, chosen="chosen", rule=sample.rule, quantiles=QUANTILES
    )
    y, a = sample.data["outcome"].to_numpy(), (sample.data["chosen"] == "a").to_numpy()
    compare(found, "a", np.where(a, y, -np.inf), np.where(a, y, np.exp(y) / 2.0))


def test_rows_that_lack_something_bound_what_they_can(villagers):
    data = villagers.copy()
    data.loc[data.index[:200], "income"] = np.nan
    data["least"] = np.where(np.arange(len(data)) < 100, 60.0, np.nan)
    data["most"] = np.where(np.arange(len(data)) < 100, 90.0, np.nan)
    data.loc[data.index[200:260], "job"] = np.nan
    found = ss.bounds(
        "income", data.assign(may=True), chosen="job", outcome_between=("least", "most"),
        possible={"fishing": "may"}, quantiles=QUANTILES,
    )  # fmt: skip
    y, fishes = data["income"].to_numpy(), (data["job"] == "fishing").to_numpy()
    first, silent = np.arange(len(y)) < 100, np.isnan(y)
    undecided = data["job"].isna().to_numpy()
    own_low = np.where(silent, np.where(first, 60.0, -np.inf), y)
    own_high = np.where(silent, np.where(first, 90.0, np.inf), y)
    lower = np.where(fishes & ~undecided, own_low, -np.inf)
    compare(found, "fishing", lower, own_high)


def test_weights_count_as_duplicates_do(villagers):
    written = villagers.loc[villagers.index.repeat(villagers["copies"])].reset_index(drop=True)
    one = ss.bounds("income", written, chosen="job", by="region", instrument="z")
    other = ss.bounds(
        "income", villagers, chosen="job", by="region", instrument="z", weights="copies",
        weights_kind="frequency", points=sorted(set(one.distribution["at"])),
    )  # fmt: skip
    both = [found.quantiles.select_dtypes("number").to_numpy() for found in (one, other)]
    assert np.allclose(*both, atol=EXACT, equal_nan=True)
    assert one.tests[0].statistic != 0.0


def test_probability_weights_are_averaged_over_and_widen_intervals(villagers):
    plain = ss.bounds("income", villagers, chosen="job", support=(0, 300))
    found = ss.bounds(
        "income", villagers, chosen="job", support=(0, 300), quantiles=QUANTILES, weights="share",
        weights_kind="probability",
    )  # fmt: skip
    y, fishes = villagers["income"].to_numpy(), (villagers["job"] == "fishing").to_numpy()
    compare(found, "fishing", np.where(fishes, y, 0.0), y, villagers["share"])
    width = [(one.means["conf_high"] - one.means["upper"]).to_numpy()[0] for one in (plain, found)]
    w = villagers["share"].to_numpy()
    assert width[1] / width[0] == pytest.approx(np.sqrt((w**2).mean()) / w.mean(), rel=0.1)


def test_the_order_of_rows_does_not_matter_and_units_only_rescale(villagers):
    one = ss.bounds("income", villagers, chosen="job", by="region", support=(0, 200))
    shuffled = villagers.sample(frac=1.0, random_state=1).reset_index(drop=True)
    shuffled["income"] *= 100.0
    other = ss.bounds("income", shuffled, chosen="job", by="region", support=(0, 20_000))
    for what in ("quantiles", "means"):
        ours, theirs = (getattr(found, what) for found in (one, other))
        names = ["lower", "upper", "conf_low", "conf_high"]
        assert (ours["of"] == theirs["of"]).all()
        assert np.allclose(100.0 * ours[names], theirs[names], atol=1e-6)


def test_clusters_that_repeat_rows_tell_as_much_as_one_row_each(villagers):
    each = villagers.assign(person=np.arange(len(villagers)))
    thrice = pd.concat([each] * 3, ignore_index=True)
    one = ss.bounds("income", each, chosen="job", points=[70.0, 80.0])
    found = ss.bounds("income", thrice, chosen="job", cluster="person", points=[70.0, 80.0])
    assert np.allclose(one.distribution["lower"], found.distribution["lower"])
    wide = [f.distribution["conf_high"] - f.distribution["conf_low"] for f in (one, found)]
    assert np.allclose(*wide, atol=0.01)
    naive = ss.bounds("income", thrice, chosen="job", points=[70.0, 80.0]).distribution
    assert (wide[1] > naive["conf_high"] - naive["conf_low"] + 0.01).any()


def test_files_give_the_same_bounds_as_tables(villagers, tmp_path):
    villagers.iloc[:500].to_parquet(tmp_path / "a.parquet")
    villagers.iloc[500:].to_parquet(tmp_path / "b.parquet")
    ask = {
        "chosen": "job", "by": ["region", "children"], "instrument": "z", "cluster": "village",
        "points": [60.0, 70.0, 80.0], "support": (0, 300),
    }  # fmt: skip
    one = ss.bounds("income ~ height", villagers, **ask)
    other = ss.bounds("income ~ height", str(tmp_path / "*.parquet"), **ask)
    for what in ("distribution", "quantiles", "means"):
        ours, theirs = (getattr(found, what).select_dtypes("number") for found in (one, other))
        assert np.allclose(ours, theirs, atol=1e-8), what
    assert one.tests[0].statistic == pytest.approx(other.tests[0].statistic)


def test_the_outcome_may_be_any_column_or_expression(villagers):
    plain = ss.bounds("income", villagers, chosen="job").quantiles["upper"]
    odd = villagers.rename(columns={"income": "income (per day)"})
    assert (ss.bounds("income (per day)", odd, chosen="job").quantiles["upper"] == plain).all()
    logs = ss.bounds("log(income)", villagers, chosen="job").quantiles
    outcomes = logs["of"] != "fishing - hunting"
    assert np.allclose(np.exp(logs["upper"][outcomes]), plain[outcomes])


def test_cells_are_the_rows_with_those_values(villagers):
    found = ss.bounds(
        "income", villagers, chosen="job", by=["region", "children"], support=(0, 300)
    )
    assert len(found.means) == 2 * 3 * 3
    own = villagers[(villagers["region"] == "south") & (villagers["children"] == 1)]
    alone = ss.bounds("income", own, chosen="job", support=(0, 300)).means
    cell = found.means[(found.means["region"] == "south") & (found.means["children"] == 1)]
    assert np.allclose(cell[["lower", "conf_high"]], alone[["lower", "conf_high"]])


def test_a_fit_of_the_right_model_lies_inside_its_bounds_and_a_wrong_one_outside():
    sample = ss.simulators.village(1_500, seed=5)
    result = ss.fit(sample.formula, sample.data, chosen="job")
    found = result.bounds()
    assert len(found.outside()) == 0
    assert "a fit inside them is not confirmed" in str(found).replace("\n  ", " ")
    # Outcomes of heavy tails, fitted by normal noise.
    rng = np.random.default_rng(1)
    x = rng.normal(size=4_000)
    latent = np.column_stack([x, 0.3 - x]) + rng.standard_t(1.2, size=(4_000, 2))
    data = {"x": x, "y": latent.max(axis=1), "job": np.array(["a", "b"])[latent.argmax(axis=1)]}
    out = ss.fit("y ~ x", data, chosen="job").bounds()
    assert len(out.outside()) > 0
    assert "OUTSIDE" in out.warnings[0]


def test_bounds_of_a_fit_use_its_columns_and_rows(villagers):
    result = ss.fit("income ~ height + C(region) + children", villagers, chosen="job")
    found = result.bounds("region", support=(0, 300))
    alone = ss.bounds("income", villagers, chosen="job", by="region", support=(0, 300))
    names = ["lower", "upper", "conf_low", "conf_high"]
    assert np.allclose(found.means[names], alone.means[names])
    with pytest.raises(OptionError, match=r"no column 'village'.*selfselect\.bounds"):
        result.bounds("village")
    with pytest.raises(OptionError, match="in the equation of every outcome"):
        result.bounds(instrument="children")


def test_bounds_of_a_fit_of_files_and_of_correlated_noise(villagers, tmp_path):
    villagers.to_parquet(tmp_path / "a.parquet")
    result = ss.fit("income ~ height", str(tmp_path / "a.parquet"), chosen="job")
    ours = ss.bounds("income", villagers, chosen="job").quantiles
    assert np.allclose(result.bounds().quantiles["upper"], ours["upper"])
    joint = ss.fit("income ~ height", villagers, chosen="job", noise="correlated").bounds()
    assert np.allclose(joint.quantiles["upper"], ours["upper"])
    assert {"fit"} <= set(joint.means)


@pytest.mark.parametrize("shape", ["correlated", "skewed", "heteroskedastic"])
def test_intervals_hold_the_truth_whatever_the_noise(shape):
    held = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        x, noise = rng.normal(size=500), rng.normal(size=(500, 2))
        if shape == "correlated":
            noise[:, 1] = 0.9 * noise[:, 0] + 0.4 * noise[:, 1]
        elif shape == "skewed":
            noise = np.exp(noise) - 1.6
        else:
            noise *= np.exp(0.5 * x)[:, None]
        latent = np.column_stack([0.5 + x, 1.0 - 0.5 * x]) + noise
        data = {"y": latent.max(axis=1), "job": np.array(["a", "b"])[latent.argmax(axis=1)]}
        found = ss.bounds("y", data, chosen="job", quantiles=[0.25, 0.75]).quantiles
        # The outcomes of these very rows: a harder truth than that of the population.
        for name, own in (
            ("a", latent[:, 0]),
            ("b", latent[:, 1]),
            ("a - b", latent[:, 0] - latent[:, 1]),
        ):
            truth = np.quantile(own, [0.25, 0.75], method="inverted_cdf")
            rows = found[found["of"] == name]
            held += list((rows["conf_low"] <= truth) & (truth <= rows["conf_high"]))
    assert np.mean(held) >= 0.95


def test_quantiles_of_many_rows_are_rounded_outwards():
    rng = np.random.default_rng(2)
    latent = rng.normal(size=(60_000, 2))
    y, a = latent.max(axis=1), latent.argmax(axis=1) == 0
    found = ss.bounds("y", {"y": y, "job": np.where(a, "a", "b")}, chosen="job", quantiles=[0.6])
    own = found.quantiles[found.quantiles["of"] == "a"].iloc[0]
    one = np.ones(len(y))
    exact = [weighted_quantile(np.where(a, y, -np.inf), one, 0.6), weighted_quantile(y, one, 0.6)]
    assert own["lower"] <= exact[0] <= own["lower"] + 0.01
    assert exact[1] <= own["upper"] <= exact[1] + 0.01
    assert any("rounded outwards" in note for note in found.notes)


@pytest.mark.parametrize("asked", [{"by": "z"}, {"instrument": "z"}, {"along": "z"}])
def test_rows_that_were_left_out_are_counted_on_the_page(asked):
    rng = np.random.default_rng(5)
    a, b = 0.5 + rng.normal(size=500), 0.8 + rng.normal(size=500)
    z = rng.integers(0, 3, 500).astype(float)
    z[20:125] = np.nan
    data = pd.DataFrame({"z": z, "y": np.maximum(a, b), "j": np.where(a > b, "a", "b")})
    formulas = {"a": "y ~ z", "b": "y ~ 1"} if "instrument" in asked else "y"
    with pytest.warns(MissingRowsWarning, match="105 of 500 rows") as warned:
        found = ss.bounds(formulas, data, chosen="j", **asked)
    assert len(warned) == 1
    assert found.n_rows == 395
    said = "105 rows with a missing value of a column that is used were left out."
    assert said in found.notes and "105 rows with a missing value" in str(found)
    complete = ss.bounds(formulas, data.dropna(), chosen="j", **asked)
    assert said not in complete.notes


def exact_quantiles(data, chosen, support, quantiles):
    """Quantiles of both ends under the maximum rule, of two alternatives and their difference."""
    y, first = data["y"], data[chosen] == "a"
    ends = {"a": (np.where(first, y, support[0]), y), "b": (np.where(first, support[0], y), y)}
    ends["a - b"] = (
        np.where(first, 0.0, support[0] - y),
        np.where(first, y - support[0], 0.0),
    )
    found = []
    for name, (low, high) in ends.items():
        for q in quantiles:
            made = (np.quantile(one, q, method="inverted_cdf") for one in (low, high))
            found.append((name, q, *made))
    return pd.DataFrame(found, columns=["of", "quantile", "lower", "upper"])


def outcomes_of(kind, n):
    rng = np.random.default_rng(0)
    a, b = 1 + rng.normal(size=n), rng.normal(size=n)
    y = np.maximum(a, b)
    if kind == "rounded":
        y = y.round(1)
    elif kind == "partly rounded":
        y = np.where(rng.random(n) < 0.5, y.round(), y)
    return pd.DataFrame({"y": y, "job": np.where(a > b, "a", "b")})


@pytest.mark.parametrize("kind", ["rounded", "partly rounded", "continuous"])
@pytest.mark.parametrize("n_rows", [20_000, 20_001])
def test_quantiles_of_any_number_of_rows_keep_signs_and_support(kind, n_rows):
    data, support, quantiles = outcomes_of(kind, n_rows), (-10.0, 10.0), [0.1, 0.5, 0.75]
    found = ss.bounds("y", data, chosen="job", quantiles=quantiles, support=support)
    exact = exact_quantiles(data, "job", support, quantiles)
    lower, upper = found.quantiles["lower"], found.quantiles["upper"]
    assert (lower <= exact["lower"] + 1e-9).all() and (upper >= exact["upper"] - 1e-9).all()
    rounding = 0.0
    if kind == "rounded":
        # Every outcome that there is stands on the grid, however few rows made it.
        assert not any("rounded outwards" in note for note in found.notes)
    else:
        (note,) = [note for note in found.notes if "rounded outwards" in note]
        rounding = 1.1 * float(note.rsplit("at most ", 1)[1].rstrip("."))
        assert rounding < 0.05
    for side, outward in (("lower", -1.0), ("upper", 1.0)):
        gap = outward * (found.quantiles[side] - exact[side])
        assert gap.max() <= rounding + 1e-9
    difference = found.quantiles[found.quantiles["of"] == "a - b"].set_index("quantile")
    # Two thirds chose a, so its difference is not negative in the upper half.
    assert difference.loc[0.5, "lower"] == 0.0 and difference.loc[0.1, "upper"] == 0.0
    limits = found.quantiles[["lower", "upper", "conf_low", "conf_high"]]
    assert np.isfinite(limits).all(axis=None)
    own = limits[found.quantiles["of"] != "a - b"]
    assert own.ge(-10.0).all(axis=None) and own.le(10.0).all(axis=None)


@pytest.mark.parametrize("n_rows", [15_000, 40_000])
def test_the_sign_of_a_difference_does_not_depend_on_the_number_or_order_of_rows(n_rows):
    data = ss.simulators.village(n_rows, seed=1).data
    mixed = data.iloc[np.random.default_rng(1).permutation(n_rows)]
    for rows in (data, mixed):
        found = ss.bounds("income", rows, chosen="job", quantiles=[0.25, 0.75], support=(0, 400))
        own = found.quantiles.set_index(["of", "quantile"])
        assert own.loc[("fishing - hunting", 0.75), "lower"] == 0.0
        assert own.loc[("fishing - hunting", 0.25), "upper"] == 0.0
        assert own.loc[("fishing", 0.25), "lower"] == own.loc[("hunting", 0.25), "conf_low"] == 0.0


@pytest.mark.parametrize("kind", ["rounded", "continuous"])
def test_frequency_weights_are_as_many_rows_also_where_a_grid_is_needed(kind):
    data = outcomes_of(kind, 8_000)
    options = {"chosen": "job", "support": (-10, 10), "quantiles": [0.1, 0.5, 0.75]}
    weighted = ss.bounds("y", data.assign(w=3), weights="w", weights_kind="frequency", **options)
    written = ss.bounds("y", data.loc[data.index.repeat(3)], **options)
    numbers = ["lower", "upper", "conf_low", "conf_high"]
    tolerance = 1e-12 if kind == "rounded" else 0.02  # the largest rounding of either
    assert weighted.quantiles[numbers].to_numpy() == pytest.approx(
        written.quantiles[numbers].to_numpy(), abs=tolerance
    )
    assert weighted.means[numbers].to_numpy() == pytest.approx(written.means[numbers].to_numpy())


def test_outcomes_beyond_those_of_the_sample_are_rounded_outwards_too():
    data = outcomes_of("rounded", 60_000)
    # One row in thousands has an outcome that no sample of rows need have.
    data.loc[data.index[::5_000], "y"] = 1_000.0 + np.arange(12)
    data.loc[data.index[::5_000], "job"] = "a"
    found = ss.bounds("y", data, chosen="job", quantiles=[0.5, 0.99995], support=(-10, 2_000))
    exact = exact_quantiles(data, "job", (-10, 2_000), [0.5, 0.99995])
    assert (found.quantiles["lower"] <= exact["lower"]).all()
    assert (found.quantiles["upper"] >= exact["upper"]).all()
    middle = found.quantiles["quantile"] == 0.5
    assert found.quantiles.loc[middle, "lower"].to_numpy() == pytest.approx(
        exact.loc[middle, "lower"].to_numpy()
    )
    assert found.quantiles["upper"].le(2_010.0).all()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"chosen": None}, OptionError, "which alternative its outcome"),
        ({"rule": ss.rules.Ranked(2)}, Exception, "rank|bounds"),
        ({"rule": ss.rules.LinearArgmax([[1.0, 0.5], [0.0, 1.0]])}, UnsupportedError, "no box"),
        ({"cost": {"fishing": "~ height"}}, UnsupportedError, "no model that could estimate it"),
        ({"support": (80.0, 90.0)}, DataError, "excludes outcomes"),
        ({"support": (3.0, 1.0)}, OptionError, "is empty"),
        ({"support": "wide"}, OptionError, "is no pair"),
        ({"quantiles": [1.5]}, OptionError, "between 0 and 1"),
        ({"points": ["a"]}, OptionError, "values of the outcome"),
        ({"level": 95}, OptionError, "between 0 and 1"),
        ({"by": "village"}, DataError, "more than 50 values.*along"),
        ({"by": "height"}, DataError, "more than 50 values"),
        ({"by": "nothing"}, DataError, "no column"),
        ({"by": ["region", "region"]}, OptionError, "named twice"),
        ({"by": "z", "instrument": "z"}, OptionError, "named twice"),
        ({"formula": "income ~ z", "instrument": "z"}, OptionError, "equation of every outcome"),
        ({"by": 3}, OptionError, "by=3 must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused_with_the_reason(villagers, options, error, words):
    formula = options.pop("formula", "income")
    with pytest.raises(error, match=words):
        ss.bounds(formula, villagers, **{"chosen": "job", **options})


def test_cells_with_too_few_rows_are_refused_by_name(villagers):
    data = villagers.assign(region=np.where(np.arange(len(villagers)) < 12, "island", "land"))
    with pytest.raises(DataError, match=r"region = island \(12 rows\)"):
        ss.bounds("income", data, chosen="job", by="region")


def test_fits_without_a_record_of_choices_or_with_a_selection_equation_have_no_bounds(tmp_path):
    sample = ss.simulators.market(200, seed=1)
    with pytest.raises(UnsupportedError, match="chosen alternative was not recorded"):
        ss.fit(sample.formula, sample.data, rule="min").bounds()
    villagers = ss.simulators.village(300, seed=1).data
    saved = ss.fit("income ~ height", villagers, chosen="job")
    saved.save(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.load(tmp_path / "fit.json").bounds()
    both = ss.switching("income ~ height", "job ~ height + weight", villagers)
    with pytest.raises(UnsupportedError, match="selection equation"):
        both.bounds()
    costs = ss.fit("income ~ height", villagers, chosen="job", cost={"fishing": "~ weight"})
    with pytest.raises(UnsupportedError, match="cost of 'fishing' is estimated"):
        costs.bounds()


@pytest.mark.parametrize("options", [{}, {"instrument": "z"}, {"along": "z"}])
def test_frequency_weights_are_repeated_rows_wherever_values_are_chosen(options):
    rng = np.random.default_rng(4)
    z, latent = rng.normal(size=900), rng.normal(size=(900, 2))
    latent[:, 0] += z
    times = rng.integers(0, 4, 900)
    chosen = latent.argmax(axis=1)
    data = {"y": latent.max(axis=1), "job": np.array(["a", "b"])[chosen], "z": z, "times": times}
    repeated = {name: np.repeat(column, times) for name, column in data.items()}
    one = ss.bounds(
        "y", data, chosen="job", weights="times", weights_kind="frequency", support=(-6, 6),
        **options,
    )  # fmt: skip
    other = ss.bounds("y", repeated, chosen="job", support=(-6, 6), **options)
    for own, theirs in (
        (one.distribution, other.distribution),
        (one.quantiles, other.quantiles),
        (one.means, other.means),
    ):
        numbers = own.select_dtypes("number").columns
        np.testing.assert_allclose(own[numbers], theirs[numbers], rtol=1e-6, atol=1e-9)
    assert [t.statistic for t in one.tests] == pytest.approx([t.statistic for t in other.tests])

"""Bounds along a covariate, by distribution regression."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.bounding import along as along_room
from selfselect.errors import DataError, OptionError

NUMBERS = ["lower", "upper", "conf_low", "conf_high"]


def simulate(n_rows, seed, x=None):
    rng = np.random.default_rng([seed, 21])
    x = rng.normal(size=n_rows) if x is None else x(rng, n_rows)
    latent = np.column_stack([x, 0.5 - 0.5 * x]) + rng.gumbel(size=(n_rows, 2))
    y, job = latent.max(axis=1), np.array(["a", "b"])[latent.argmax(axis=1)]
    return {"y": y, "job": job, "x": x, "w": rng.integers(1, 4, n_rows)}, latent


def test_with_as_many_values_as_terms_it_is_the_shares_of_cells():
    data, _ = simulate(3_000, 1, x=lambda rng, n: rng.integers(0, 3, n).astype(float))
    points = [-0.5, 0.5, 1.5]
    along = ss.bounds("y", data, chosen="job", along="x", points=points).distribution
    cells = ss.bounds("y", data, chosen="job", by="x", points=points).distribution
    for row in cells.to_dict("records"):
        own = along[
            (along["x"] == row["x"]) & (along["of"] == row["of"]) & (along["at"] == row["at"])
        ]
        assert len(own) == 1
        assert np.allclose(own[["lower", "upper"]], [[row["lower"], row["upper"]]], atol=1e-6)
        inside = row["lower"] > 0.02 and row["upper"] < 0.98
        assert not inside or np.allclose(own[NUMBERS], [[row[n] for n in NUMBERS]], atol=0.01)


def test_bounds_hold_the_truth_at_every_value():
    held = []
    for seed in range(10):
        data, _ = simulate(800, seed)
        found = ss.bounds("y", data, chosen="job", along="x", quantiles=[0.5]).quantiles
        for name, mean in (("a", lambda x: x), ("b", lambda x: 0.5 - 0.5 * x)):
            own = found[found["of"] == name]
            truth = mean(own["x"]) - np.log(np.log(2.0))
            held += list((own["conf_low"] <= truth) & (truth <= own["conf_high"]))
    assert np.mean(held) >= 0.95


def test_weights_count_as_duplicates_and_files_as_tables(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(simulate(600, 4)[0])
    written = frame.loc[frame.index.repeat(frame["w"])].reset_index(drop=True)
    ask = {"chosen": "job", "along": "x", "points": [0.0, 1.0], "support": (-20.0, 20.0)}
    one = ss.bounds("y", written, **ask)
    frame.to_parquet(tmp_path / "rows.parquet")
    for rows in (frame, str(tmp_path / "rows.parquet")):
        other = ss.bounds("y", rows, weights="w", weights_kind="frequency", **ask)
        # Values with a logit each are quantiles of rows, which repeated rows move.
        assert len(other.means) == len(one.means)
        assert np.isfinite(other.means[NUMBERS]).all(axis=None)
    both = [ss.bounds("y", rows, **ask) for rows in (frame, str(tmp_path / "rows.parquet"))]
    for what in ("distribution", "quantiles", "means"):
        ours, theirs = (getattr(found, what).select_dtypes("number") for found in both)
        assert np.allclose(ours, theirs, atol=1e-6), what


def test_many_values_are_put_into_bins(monkeypatch):
    data, _ = simulate(2_000, 5)
    ask = {"chosen": "job", "along": "x", "points": [0.0, 1.0], "support": (-20.0, 20.0)}
    every = ss.bounds("y", data, **ask)
    monkeypatch.setattr(along_room, "BINS", 200)
    binned = ss.bounds("y", data, **ask)
    for what in ("distribution", "means"):
        ours, theirs = (getattr(found, what)[NUMBERS] for found in (binned, every))
        assert np.allclose(ours, theirs, rtol=0.01, atol=0.01), what
        assert not np.allclose(ours, theirs, rtol=0, atol=1e-12), what


def test_rows_beyond_the_sampled_values_count_to_the_last_bin(monkeypatch):
    data, _ = simulate(600, 6, x=lambda rng, n: np.append(rng.integers(0, 2, n - 1), 1.01))
    cells = ss.bounds("y", {**data, "x": np.floor(data["x"])}, chosen="job", by="x", points=[0.5])
    monkeypatch.setattr(along_room, "SAMPLE", 100)
    found = ss.bounds("y", data, chosen="job", along="x", points=[0.5]).distribution
    for x in (0.0, 1.0):
        own, its = (
            table[(table["x"] == x) & (table["at"] == 0.5)].set_index("of")[["lower", "upper"]]
            for table in (found, cells.distribution)
        )
        assert len(own) == 3
        assert np.allclose(own, its.loc[own.index], atol=1e-3)


def test_means_along_are_least_squares_of_both_ends():
    data, _ = simulate(500, 2)
    found = ss.bounds("y", data, chosen="job", along="x", support=(-10.0, None)).means
    own = found[found["of"] == "a"]
    x, a = data["x"], data["job"] == "a"
    powers = np.vander(x, 3)
    for name, end in (("lower", np.where(a, data["y"], -10.0)), ("upper", data["y"])):
        slopes = np.linalg.lstsq(powers, end, rcond=None)[0]
        assert np.allclose(own[name], np.vander(own["x"], 3) @ slopes, atol=1e-8)


def test_clusters_widen_what_repeats_itself():
    import pandas as pd

    frame = pd.DataFrame(simulate(400, 3)[0]).assign(person=np.arange(400))
    thrice = pd.concat([frame] * 3, ignore_index=True)
    ask = {"chosen": "job", "along": "x", "points": [0.5]}
    one = ss.bounds("y", frame, **ask).distribution
    other = ss.bounds("y", thrice, cluster="person", **ask).distribution
    own, its = (f[f["at"] == 0.5] for f in (one, other))
    width = [f["conf_high"].to_numpy() - f["conf_low"].to_numpy() for f in (own, its)]
    assert np.allclose(*width, rtol=0.05)


def test_what_cannot_be_gone_along_is_refused():
    data, _ = simulate(200, 1)
    with pytest.raises(OptionError, match="without by= and instrument="):
        ss.bounds("y", data, chosen="job", along="x", by="w")
    with pytest.raises(DataError, match="holds no numbers"):
        ss.bounds("y", {**data, "g": np.array(["p", "q"] * 100)}, chosen="job", along="g")
    with pytest.raises(DataError, match="one value only"):
        ss.bounds("y", {**data, "g": np.ones(200)}, chosen="job", along="g")


def test_far_values_of_the_covariate_do_not_keep_logits_from_their_optimum():
    from scipy.optimize import minimize

    rng = np.random.default_rng(5)
    x = rng.standard_t(2, 800)
    latent = 5.0 * np.tanh(x)[:, None] * [1.0, -0.5] + rng.normal(size=(800, 2))
    data = {"x": x, "y": latent.max(axis=1), "job": np.array(["a", "b"])[latent.argmax(axis=1)]}
    found = ss.bounds("y", data, chosen="job", along="x").distribution
    terms = np.linalg.qr(np.vander(x, 3, increasing=True))[0]
    # The upper end of either outcome is the observed one. Shares at smaller values are not
    # monotone as fitted, and bounds are.
    large = found[(found["of"] == "a") & (found["at"] > 3.1)]
    assert large["at"].nunique() >= 10
    for at, own in large.groupby("at"):
        below = data["y"] <= at

        def loss(free, below=below):
            index = terms @ free
            return np.logaddexp(0.0, index).sum() - index[below].sum()

        best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
        places = [int(np.flatnonzero(x == one)[0]) for one in own["x"]]
        expected = 1.0 / (1.0 + np.exp(-terms[places] @ best.x))
        # Where the two logits of a value cross, bounds are put in order.
        off = np.abs(own[["lower", "upper"]].to_numpy() - expected[:, None]).min(axis=1)
        assert off.max() < 1e-3


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_in_order_whatever_the_rows(seed):
    rng = np.random.default_rng(seed)
    n_rows = int(rng.choice([20, 60, 1_500]))
    draw = rng.choice(["normal", "cauchy", "three", "one apart"])
    x = {
        "normal": rng.normal(size=n_rows),
        "cauchy": rng.standard_cauchy(n_rows),
        "three": rng.integers(0, 3, n_rows).astype(float),
        "one apart": np.append(np.zeros(n_rows - 1), 1.0),
    }[draw]
    latent = rng.choice([0.0, 1.0, 30.0]) * np.tanh(x)[:, None] * [1.0, -1.0]
    latent = latent + rng.normal(size=(n_rows, 2))
    latent[:4] = [[0.0, 1.0], [1.0, 0.0], [0.5, 2.0], [2.0, 0.5]]
    data = {"x": x, "y": latent.max(axis=1), "job": np.array(["a", "b"])[latent.argmax(axis=1)]}
    data["w"] = rng.integers(1, 4, n_rows)
    asked = {"weights": "w", "weights_kind": "frequency"} if seed % 2 else {"support": (-99, 99)}
    found = ss.bounds("y", data, chosen="job", along="x", **asked)
    for table in (found.distribution, found.quantiles, found.means):
        numbers = table[NUMBERS]
        assert not numbers.isna().any(axis=None)
        assert (table["lower"] <= table["upper"]).all()
        assert (table["conf_low"] <= table["lower"]).all()
        assert (table["conf_high"] >= table["upper"]).all()


def test_quantiles_and_means_along_a_covariate_stay_within_the_support():
    rng = np.random.default_rng(1)
    x = rng.normal(size=2_000)
    outcomes = rng.normal(size=(2_000, 2)) + np.column_stack([x, np.zeros(2_000)]) + 5
    y, job = np.maximum(outcomes.max(axis=1), 4.9), np.array(["a", "b"])[outcomes.argmax(axis=1)]
    options = {"chosen": "job", "along": "x", "quantiles": [0.1, 0.9], "support": (0.0, 12.0)}
    found = ss.bounds("y", {"x": x, "y": y, "job": job}, **options)
    for table in (found.quantiles, found.means):
        of_outcome = table["of"].isin(["a", "b"])
        assert table.loc[of_outcome, NUMBERS].ge(0.0).all(axis=None)
        assert table.loc[of_outcome, NUMBERS].le(12.0).all(axis=None)
        assert table.loc[~of_outcome, NUMBERS].abs().le(12.0).all(axis=None)
        assert (table["lower"] <= table["upper"]).all()

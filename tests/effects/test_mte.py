"""Marginal treatment effects: curves, weighted means, shifts, refusals."""

from __future__ import annotations

import re
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr, ndtri

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError

matplotlib.use("Agg")


def made(n: int = 1_200, seed: int = 1, reach: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, u = rng.standard_normal((3, n))
    treated = 0.2 + 0.4 * x + reach * z + u > 0
    one = 1 + x + 0.6 * u + 0.8 * rng.standard_normal(n)
    other = 0.5 * x - 0.3 * u + 0.9 * rng.standard_normal(n)
    d = np.where(treated, "in", "out")
    return pd.DataFrame({"x": x, "z": z, "d": d, "y": np.where(treated, one, other)})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return made()


@pytest.fixture(scope="module")
def result(table: pd.DataFrame) -> ss.FitResult:
    return ss.switching("y ~ x", "d ~ x + z", table, towards="in")


@pytest.fixture(scope="module")
def found(result: ss.FitResult) -> ss.effects.MarginalTreatment:
    return result.mte()


def pieces(result: ss.FitResult, values: np.ndarray | None = None) -> tuple[Any, Any, float]:
    """Return gains and indices of the rows, and the selection on gains, by hand."""
    params = result.params if values is None else result.params * 0 + values
    rows = result.table
    gain = sum(
        sign * (params[label, "Intercept"] + params[label, "x"] * rows["x"].to_numpy())
        for label, sign in (("in", 1), ("out", -1))
    )
    index = params["selection", "Intercept"] + params["selection", "x"] * rows["x"].to_numpy()
    index = index + params["selection", "z"] * rows["z"].to_numpy()
    slope = sum(
        sign * params[label, "correlation"] * params[label, "scale"]
        for label, sign in (("in", 1), ("out", -1))
    )
    return gain, index, float(slope)


def test_the_curve_is_the_mean_gain_less_what_resistance_costs(
    result: ss.FitResult, found: ss.effects.MarginalTreatment
) -> None:
    gain, _, slope = pieces(result)
    curve = found.table
    np.testing.assert_allclose(
        curve["estimate"], gain.mean() - slope * ndtri(curve["resistance"]), rtol=1e-9
    )


def test_direct_effects_are_weighted_means_of_the_curve(
    result: ss.FitResult, found: ss.effects.MarginalTreatment
) -> None:
    gain, index, slope = pieces(result)
    p = ndtr(index)
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def integral(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Integrate the curve of each row, in u, where its tails are thin."""
        low, high = (np.clip(ndtri(one), -9, 9)[:, None] for one in (low, high))
        u = 0.5 * (high - low) * nodes + 0.5 * (high + low)
        density = np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
        return (0.5 * (high - low) * weights * density * (gain[:, None] - slope * u)).sum(axis=1)

    zero, one = np.zeros_like(p), np.ones_like(p)
    expected = [
        integral(zero, one).mean(),
        integral(zero, p).sum() / p.sum(),
        integral(p, one).sum() / (1 - p).sum(),
    ]
    np.testing.assert_allclose(found.averages.table["estimate"], expected, rtol=1e-7)


def test_errors_of_the_curve_are_those_of_differences(result: ss.FitResult) -> None:
    fixed = result.mte(covariates="fixed").table
    values = result.values
    slopes = []
    for place in range(len(values)):
        step = 1e-4 * result.bse.to_numpy()[place]
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[place] += sign * step
            gain, _, slope = pieces(result, moved)
            ends.append(gain.mean() - slope * ndtri(fixed["resistance"].to_numpy()))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    jacobian = np.array(slopes).T
    errors = np.sqrt(np.diag(jacobian @ result.covariance.matrix @ jacobian.T))
    np.testing.assert_allclose(fixed["std_error"], errors, rtol=1e-5)


def test_a_shift_moves_those_whom_a_simulation_moves(
    result: ss.FitResult, found: ss.effects.MarginalTreatment
) -> None:
    rng = np.random.default_rng(3)
    gain, index, _ = pieces(result)
    u = rng.standard_normal((2_000, len(gain)))
    move = result.params["selection", "z"] * 0.5
    moved = (index + move + u > 0) & (index + u <= 0)
    noise = sum(
        sign * result.correlations[label] * result.scales[label] * u
        for label, sign in (("in", 1), ("out", -1))
    )
    effect = found.policy({"z": lambda column: column + 0.5}).table.iloc[0]
    # About 300,000 people move; their gains scatter by 1.
    assert effect["estimate"] == pytest.approx((gain + noise)[moved].mean(), abs=0.01)
    before, after = -0.25, 0.25
    base = index - result.params["selection", "z"] * result.table["z"].to_numpy()
    low, high = (base + result.params["selection", "z"] * end for end in (before, after))
    moved = (high + u > 0) & (low + u <= 0)
    effect = found.late({"z": (before, after)}).table.iloc[0]
    assert effect["estimate"] == pytest.approx((gain + noise)[moved].mean(), abs=0.01)


def test_a_shift_from_no_one_to_everyone_is_the_average_effect(
    found: ss.effects.MarginalTreatment,
) -> None:
    late = found.late({"z": (-60.0, 60.0)}).table.iloc[0]
    ate = found.averages.table.iloc[0]
    assert late["estimate"] == pytest.approx(ate["estimate"], rel=1e-9)
    assert late["std_error"] == pytest.approx(ate["std_error"], rel=1e-6)


def test_the_direction_of_a_shift_does_not_matter(found: ss.effects.MarginalTreatment) -> None:
    one, other = (found.late({"z": ends}).table.iloc[0] for ends in ((0.0, 1.0), (1.0, 0.0)))
    assert one["estimate"] == pytest.approx(other["estimate"], rel=1e-12)


@pytest.mark.parametrize("kind", ["normal", "polynomial"])
def test_a_shift_says_how_many_it_moves_and_which_way(kind: Any, result: ss.FitResult) -> None:
    found = result.mte(kind=kind, replications=2)
    shares = [
        found.curve.propensity(
            result.coding.code(result.table.assign(z=z), with_known=True).rows
        ).mean()
        for z in (-0.5, 0.5)
    ]
    assert shares[1] - shares[0] > 0.2
    there, back = found.late({"z": (-0.5, 0.5)}), found.late({"z": (0.5, -0.5)})
    low, high = (f"{share:.4f}" for share in shares)
    moved = f"{shares[1] - shares[0]:.4f}"
    assert f"The share of in moves by +{moved}, from {low} to {high}." in there.notes
    assert f"The share of in moves by -{moved}, from {high} to {low}." in back.notes
    for one in (there, back):
        assert not any("moved towards it and some away" in note for note in one.notes)
    assert there.table["estimate"][0] == pytest.approx(back.table["estimate"][0], rel=1e-9)
    # Those who gain most are treated first, and these are nearly all of them: they gain.
    assert there.table["estimate"][0] > 0.5


def test_moves_to_everyone_and_from_no_one_are_the_effects_on_the_rest(
    found: ss.effects.MarginalTreatment,
) -> None:
    _, att, atu = found.averages.table["estimate"]
    assert found.policy({"z": 80.0}).table["estimate"][0] == pytest.approx(atu, rel=1e-9)
    assert found.policy({"z": -80.0}).table["estimate"][0] == pytest.approx(att, rel=1e-9)


def test_the_other_alternative_as_treatment_mirrors_the_curve(
    table: pd.DataFrame, found: ss.effects.MarginalTreatment
) -> None:
    other = ss.switching("y ~ x", "d ~ x + z", table, towards="out").mte()
    np.testing.assert_allclose(
        other.table["estimate"], -found.table["estimate"][::-1].to_numpy(), rtol=1e-4, atol=1e-4
    )


def test_two_steps_have_a_curve_with_errors(table: pd.DataFrame) -> None:
    result = ss.switching("y ~ x", "d ~ x + z", table, towards="in", method="two-step")
    curve = result.mte().table
    assert (curve["std_error"] > 0).all()
    mills = result.params["in", "mills ratio"] - result.params["out", "mills ratio"]
    slope = np.polyfit(-ndtri(curve["resistance"]), curve["estimate"], 1)[0]
    assert slope == pytest.approx(mills, rel=1e-9)


def test_few_samples_of_a_polynomial_have_no_percentiles_and_say_so(result: ss.FitResult) -> None:
    found = result.mte(kind="polynomial", degree=2, replications=498)
    for table in (found.effect, found.averages, found.late({"z": (-0.2, 0.2)})):
        said = "There are no intervals: 498 bootstrap samples .* Use replications=499 or more"
        assert re.search(said, " ".join(table.notes))
        numbers = table.table[["std_error", "statistic", "p_value", "conf_low", "conf_high"]]
        assert numbers.isna().all(axis=None)


def weakly_moved(n: int = 700) -> pd.DataFrame:
    """Rows of which an instrument of two values moves a tenth."""
    rng = np.random.default_rng(3)
    x, z = rng.standard_normal(n), rng.integers(0, 2, n)
    v = rng.uniform(size=n)
    d = v < ndtr(0.1 * x + 0.25 * z)
    y = x + (1 + 0.5 * x + 2 * (0.5 - v)) * d + 0.5 * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "z": z, "d": d, "y": y})


def test_intervals_of_a_polynomial_are_percentiles_without_a_standard_error() -> None:
    """A few samples in which hardly anyone moves made it 1.2 to 13.9, by the seed."""
    result = ss.switching("y ~ x", "d ~ x + z", weakly_moved(), method="two-step")
    lows, highs, p_values = [], [], []
    for seed in range(3):
        found = result.mte(kind="polynomial", degree=2, seed=seed)
        late = found.late({"z": (0, 1)})
        row = late.table.iloc[0]
        assert np.isnan(row["std_error"]) and np.isnan(row["statistic"])
        assert "There is no standard error" in late.notes[-1]
        assert "499 bootstrap samples over both steps" in late.notes[-1]
        draws = found.curve.shift(*shifted(result)).draws[:, 0]
        # Of 499 samples the 2.5th percentile lies half way between the 12th and the 13th.
        ordered = np.sort(draws)
        assert row["conf_low"] == pytest.approx(ordered[11:13].mean(), rel=1e-9)
        assert row["conf_high"] == pytest.approx(ordered[486:488].mean(), rel=1e-9)
        assert row["p_value"] == pytest.approx(2 * (1 + (draws <= 0).sum()) / 500, rel=1e-12)
        lows.append(row["conf_low"])
        highs.append(row["conf_high"])
        p_values.append(row["p_value"])
    assert max(highs) - min(highs) < 0.3
    assert max(lows) - min(lows) < 2.0
    assert max(p_values) - min(p_values) < 0.1
    wide = found.late({"z": (0, 1)}, level=1 - p_values[-1] + 0.01).table.iloc[0]
    near = found.late({"z": (0, 1)}, level=1 - p_values[-1] - 0.01).table.iloc[0]
    assert wide["conf_low"] < 0 < near["conf_low"]


def shifted(result: ss.FitResult) -> Any:
    table = result.table
    return [result.coding.code(table.assign(z=z), with_known=True).rows for z in (0, 1)]


def test_a_polynomial_is_least_squares_on_the_propensity(result: ss.FitResult) -> None:
    found = result.mte(kind="polynomial", degree=3, replications=5)
    p, rows = found.curve.propensity(result.rows), result.table
    x = np.column_stack([np.ones(len(rows)), rows["x"]])
    design = np.column_stack([x * p[:, None], x * (1 - p)[:, None], p**2, p**3])
    b = np.linalg.lstsq(design, rows["y"], rcond=None)[0]
    v = found.table["resistance"].to_numpy()
    expected = (x @ (b[:2] - b[2:4])).mean() + 2 * b[4] * v + 3 * b[5] * v**2
    np.testing.assert_allclose(found.table["estimate"], expected, rtol=1e-7)
    early, late = (found.curve.propensity(one) for one in (result.rows, result.rows))
    assert np.array_equal(early, late)
    effect = found.late({"z": (-0.5, 0.5)}).table["estimate"][0]
    ends = [
        found.curve.propensity(result.coding.code(rows.assign(z=z), with_known=True).rows)
        for z in (-0.5, 0.5)
    ]
    gain = x @ (b[:2] - b[2:4])
    numerator = (ends[1] - ends[0]) * gain
    numerator += b[4] * (ends[1] ** 2 - ends[0] ** 2) + b[5] * (ends[1] ** 3 - ends[0] ** 3)
    assert effect == pytest.approx(numerator.sum() / (ends[1] - ends[0]).sum(), rel=1e-7)


def test_a_polynomial_finds_effects_that_are_not_normal() -> None:
    rng = np.random.default_rng(8)
    n = 6_000
    x, z = rng.standard_normal(n), 2.5 * rng.standard_normal(n)
    v = rng.uniform(size=n)
    treated = v < ndtr(0.3 * x + z)
    gain = 1.0 + 0.5 * x + 2.0 * (0.5 - v)
    y = x + gain * treated + 0.5 * rng.standard_normal(n)
    table = pd.DataFrame({"x": x, "z": z, "d": treated, "y": y})
    result = ss.switching("y ~ x", "d ~ x + z", table, method="two-step")
    found = result.mte(kind="polynomial", degree=2, level=0.99, seed=1)
    curve = found.table
    truth = 1.0 + 2.0 * (0.5 - curve["resistance"])
    assert curve["conf_low"].lt(truth).all() and curve["conf_high"].gt(truth).all()
    ate = found.averages.table.iloc[0]
    assert ate["conf_low"] < 1.0 < ate["conf_high"] < ate["conf_low"] + 0.4
    assert ate["p_value"] == 2 / 500
    same = result.mte(kind="polynomial", degree=2, level=0.99, seed=1)
    pd.testing.assert_frame_equal(same.table, curve)


def test_effects_whose_weights_leave_the_support_are_refused() -> None:
    result = ss.switching("y ~ x", "d ~ x + z", made(600, 2, reach=0.5), towards="in")
    found = result.mte(kind="polynomial", replications=4, degree=2)
    assert found.averages.table["estimate"].isna().all()
    assert "weight of ATE lies outside the support" in " ".join(str(found).split())
    assert found.table["supported"].eq("yes").all()
    with pytest.raises(UnsupportedError, match="lies outside the support"):
        found.late({"z": (-9.0, 9.0)})
    normal = result.mte()
    assert "relies on normal noise alone" in " ".join(str(normal.averages).split())
    assert set(normal.table["supported"]) == {"yes", "no"}


def test_weights_and_clusters_are_followed(table: pd.DataFrame) -> None:
    small = table[:400]
    twice = pd.concat([small, small], ignore_index=True)
    weighed = ss.switching(
        "y ~ x", "d ~ x + z", small.assign(w=2), weights="w", weights_kind="frequency"
    )
    repeated = ss.switching("y ~ x", "d ~ x + z", twice)
    for kind in ("normal", "polynomial"):
        one, other = (
            fit.mte(kind=kind, replications=3, covariates="fixed").table["estimate"]
            for fit in (weighed, repeated)
        )
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    clustered = ss.switching("y ~ x", "d ~ x + z", small.assign(g=np.arange(400) % 20), cluster="g")
    for kind in ("normal", "polynomial"):
        made = clustered.mte(kind=kind)
        assert (made.table["conf_high"] > made.table["conf_low"]).all() and made.effect.df == 19


def test_splines_make_the_propensity_flexible(table: pd.DataFrame) -> None:
    result = ss.switching("y ~ x", "d ~ x * bs(z, df=4)", table, towards="in")
    found = result.mte(kind="polynomial", degree=2)
    effect = found.late({"z": (-0.2, 0.2)}).table.iloc[0]
    assert effect["conf_low"] < effect["estimate"] < effect["conf_high"]


def test_mixed_moves_are_said(found: ss.effects.MarginalTreatment) -> None:
    text = " ".join(str(found.policy({"z": lambda z: 1.5 * z + 0.2})).split())
    assert "Some rows are moved towards it and some away" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": (0, 1)}, "'x' is in an outcome equation. .*: 'z'"),
        ({"w": (0, 1)}, "'w' is in no equation"),
        ({"z": 1}, "values before and after"),
        ({}, "given by columns"),
        ({"z": (1, 1)}, "moves no one"),
    ],
)
def test_what_is_no_instrument_shift_is_refused(
    change: Any, words: str, found: ss.effects.MarginalTreatment
) -> None:
    with pytest.raises(OptionError, match=words):
        found.late(change)


def test_what_has_no_marginal_effects_is_refused(
    table: pd.DataFrame, result: ss.FitResult, found: ss.effects.MarginalTreatment, tmp_path: Any
) -> None:
    roy = ss.fit("y ~ x", table, chosen="d")
    alone = ss.sample_selection("y ~ x", "works ~ x + z", table.assign(works=table["d"] == "in"))
    third = table.assign(d=np.where(table["z"] > 1, "most", table["d"]))
    by_order = ss.switching("y ~ x", "d ~ x + z", third, ordered=["out", "in", "most"])
    for fit, why in (
        (roy, r"in this fit the outcomes decide. Fit it with selfselect\.switching"),
        (alone, "one outcome, so there is nothing to compare it with"),
        (by_order, "this one is between 3, by order. Use treatment_effects for each pair"),
    ):
        with pytest.raises(UnsupportedError, match=why):
            fit.mte()
    with pytest.raises(OptionError, match="Use 'normal' or 'polynomial'"):
        result.mte(kind="spline")  # type: ignore[arg-type]
    for options in ({"degree": 1}, {"replications": 1}, {"degree": 2.5}):
        with pytest.raises(OptionError, match="is not possible"):
            result.mte(kind="polynomial", **options)
    with pytest.raises(DataError, match="3 values for 1200 rows"):
        found.policy({"z": [1, 2, 3]})
    same = ss.switching("y ~ x", "d ~ x", table)
    with pytest.raises(OptionError, match="none"):
        same.mte().policy({"x": 0})
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    curve = loaded.mte(table).table
    assert "supported" not in curve
    np.testing.assert_allclose(curve["estimate"], found.table["estimate"], rtol=1e-9)
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.mte()


def test_models_beside_plain_switching_are_told_apart(table: pd.DataFrame) -> None:
    treatment = ss.switching("y ~ x", "d ~ x + z", table, towards="in", shared="slopes")
    # One noise for both outcomes: no one gains more than others.
    assert np.ptp(treatment.mte().table["estimate"]) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(UnsupportedError, match="shared coefficients or offsets"):
        treatment.mte(kind="polynomial")
    ordered = ss.switching("y ~ x", "d ~ x + z", table, ordered=["out", "in"])
    with pytest.raises(UnsupportedError, match="Leave `ordered` out"):
        ordered.mte()


@pytest.mark.parametrize("kind", ["normal", "polynomial"])
def test_the_picture_holds_the_curve(kind: Any, result: ss.FitResult) -> None:
    found = result.mte(kind=kind, replications=4)
    picture = ss.plots.mte(found)
    pd.testing.assert_frame_equal(picture.data, found.table)
    assert len(picture.marks[0].texts) == len(found.table)
    assert result.plot.mte().data.shape[0] > 0
    matplotlib.pyplot.close(picture.axes[0].figure)


def test_shifts_are_averaged_over_the_rows_that_the_curve_is_averaged_over(
    result: ss.FitResult, table: pd.DataFrame, tmp_path: Any
) -> None:
    part = table[table["x"] > 0.5]
    gain, index, slope = pieces(result)
    which = (table["x"] > 0.5).to_numpy()
    z = result.params["selection", "z"]
    at_zero = index[which] - z * part["z"].to_numpy()
    # The mean gain of the movers of a row: density differences over differences of chances.
    moved = ndtr(at_zero + z) - ndtr(at_zero)
    density = np.exp(-0.5 * at_zero**2) - np.exp(-0.5 * (at_zero + z) ** 2)
    total = gain[which] * moved - slope * density / np.sqrt(2 * np.pi)
    found = result.mte(part)
    late = found.late({"z": (0, 1)}).table["estimate"][0]
    assert late == pytest.approx(total.sum() / moved.sum(), rel=1e-9)
    assert abs(late - result.mte().late({"z": (0, 1)}).table["estimate"][0]) > 0.05
    policy = found.policy({"z": lambda column: column + 1}).table["estimate"][0]
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json").mte(part)
    assert loaded.late({"z": (0, 1)}).table["estimate"][0] == pytest.approx(late, rel=1e-9)
    assert loaded.policy({"z": lambda column: column + 1}).table["estimate"][0] == pytest.approx(
        policy, rel=1e-9
    )


def test_a_shift_that_is_no_mapping_is_refused(found: ss.effects.MarginalTreatment) -> None:
    with pytest.raises(OptionError, match="by columns and their values before and after"):
        found.late("z")  # type: ignore[arg-type]


def test_a_policy_that_is_a_series_is_put_in_order_by_its_index(
    table: pd.DataFrame, found: ss.effects.MarginalTreatment
) -> None:
    moved = table["z"] + 1
    expected = found.policy({"z": moved.to_numpy()}).table["estimate"][0]
    shuffled = found.policy({"z": moved.sample(frac=1, random_state=1)}).table["estimate"][0]
    assert shuffled == expected
    with pytest.raises(DataError, match="whose index is not that of the table"):
        found.policy({"z": moved.set_axis(range(5, 1_205))})


def test_a_change_to_missing_values_is_refused(found: ss.effects.MarginalTreatment) -> None:
    with pytest.raises(DataError, match="makes it missing in 1200 of 1200 rows"):
        found.late({"z": (0, np.nan)})
    with pytest.raises(DataError, match="makes it missing in"):
        found.policy({"z": lambda column: column.where(column > 0)})


def test_a_shift_of_an_offset_is_refused_since_it_moves_outcomes(table: pd.DataFrame) -> None:
    offset = table.assign(o=np.linspace(-1, 1, len(table)))
    result = ss.switching("y ~ x", "d ~ x + z + o", offset, towards="in", offset="o")
    with pytest.raises(OptionError, match="'o' is in an outcome equation"):
        result.mte().late({"o": (0, 1)})
    with pytest.raises(OptionError, match="'o' is in an outcome equation"):
        result.mte().policy({"o": 0})
    assert np.isfinite(result.mte().late({"z": (0, 1)}).table["estimate"][0])


RESISTANCES = (0.1, 0.5, 0.9)


def test_errors_of_a_clustered_curve_count_clusters_that_move_gains_and_noise() -> None:
    """Beside an infinitesimal jackknife: what the weight of each cluster does to the curve.

    Clusters of large x have large gains, and noise of the treated that says so, too: the mean gain
    and the slope of the curve then err together.
    """
    n_clusters, size = 30, 16
    rng = np.random.default_rng(4)
    g = np.repeat(np.arange(n_clusters), size)
    centre = rng.uniform(-1, 1, n_clusters)[g]
    x = 1 + centre + 0.3 * rng.standard_normal(len(g))
    z, u, e, other = rng.standard_normal((4, len(g)))
    d = 0.2 + 0.3 * (x - 1) + 0.8 * z + u > 0
    y = np.where(d, 1 + x + 0.6 * u + 0.8 * e + 0.35 * centre * u, 0.3 * x - 0.4 * u + other)
    data = pd.DataFrame({"x": x, "z": z, "d": d.astype(int), "y": y, "g": g})

    def curve(rows: pd.DataFrame, **options: Any) -> tuple[ss.FitResult, np.ndarray]:
        fit = ss.switching("y ~ x", "d ~ x + z", rows, start="two-step", **options)
        one, other = fit.params[1], fit.params[0]
        mean = np.average(rows["x"], weights=rows["w"])
        gain = one["Intercept"] - other["Intercept"] + mean * (one["x"] - other["x"])
        slope = one["correlation"] * one["scale"] - other["correlation"] * other["scale"]
        return fit, gain - slope * ndtri(RESISTANCES)

    weighed: dict[str, Any] = {
        "weights": "w", "weights_kind": "probability", "covariance": "HC0",
    }  # fmt: skip
    base, step = curve(data.assign(w=1.0), **weighed)[1], 1e-3
    pulls = [
        (curve(data.assign(w=np.where(g == one, 1 + step, 1.0)), **weighed)[1] - base) / step
        for one in range(n_clusters)
    ]
    wanted = np.sqrt((np.array(pulls) ** 2).sum(axis=0) * n_clusters / (n_clusters - 1))
    fit, estimate = curve(data.assign(w=1.0), cluster="g")
    made = fit.mte().table.set_index("resistance").loc[list(RESISTANCES)]
    np.testing.assert_allclose(made["estimate"], estimate, rtol=1e-6)
    ratio = made["std_error"] / wanted
    # Small clusters' scores are corrected for their bias, the same at every resistance.
    assert ratio.between(1.0, 1.06).all() and ratio.max() - ratio.min() < 0.03

"""Standard errors and intervals of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning, OptionError, UnsupportedError
from selfselect.results.predictions import QUANTITIES

BY_DIFFERENCES = 1e-5
"""Central differences over a thousandth of a standard error err by less, relatively."""


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    table = ss.simulators.village(500, seed=2).data
    return table.assign(pay=np.exp(0.05 * (table["income"] - table["income"].mean())))


@pytest.fixture(scope="module")
def result(villagers: pd.DataFrame) -> ss.FitResult:
    return ss.fit("income ~ height + weight", villagers, chosen="job")


@pytest.fixture(scope="module")
def switching(villagers: pd.DataFrame) -> ss.FitResult:
    return ss.switching("income ~ height", "job ~ height + weight", villagers)


def drawn_errors(result: ss.FitResult, predict: Any, size: int = 4_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(result.values, result.covariance.matrix, size=size)
    return np.std([predict(draw) for draw in draws], axis=0)


def test_the_error_of_a_latent_mean_is_that_of_least_squares(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    made = result.predict(villagers[:5], level=0.9)
    x = np.column_stack([np.ones(5), villagers[["height", "weight"]][:5]])
    for label in ("hunting", "fishing"):
        own = [(label, term) for term in ("Intercept", "height", "weight")]
        covariance = result.cov_params().loc[own, own].to_numpy()
        errors = np.sqrt(np.einsum("ni,ij,nj->n", x, covariance, x))
        np.testing.assert_allclose(made[label]["std_error"], errors, rtol=1e-8)
        reach = made[label]["conf_high"] - made[label]["estimate"]
        np.testing.assert_allclose(reach, 1.6448536269514722 * errors, rtol=1e-8)


@pytest.mark.parametrize("model", ["result", "switching"])
def test_errors_agree_with_the_exact_derivatives_of_effects(
    model: str, request: pytest.FixtureRequest, villagers: pd.DataFrame
) -> None:
    fit: ss.FitResult = request.getfixturevalue(model)
    row = villagers[7:8]
    chances = fit.predict(row, kind="chance", level=0.95)
    exact = fit.choice_probabilities(row, covariates="fixed").table
    found = chances.iloc[0].unstack("quantity").loc[exact["alternative"]]
    for name in QUANTITIES:
        np.testing.assert_allclose(found[name], exact[name], rtol=BY_DIFFERENCES)
    means = fit.predict(row, kind="given_seen", level=0.95).iloc[0].unstack("quantity")
    exact = fit.potential_outcomes(row, covariates="fixed").table[2:]
    found = means.loc[list(zip(exact["alternative"], exact["group"], strict=True))]
    for name in QUANTITIES:
        np.testing.assert_allclose(found[name], exact[name], rtol=BY_DIFFERENCES)


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen", "scale"])
def test_estimates_are_the_predictions_themselves(
    kind: str, result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    plain = np.asarray(result.predict(villagers[:9], kind=kind)).reshape(9, -1)
    made = result.predict(villagers[:9], kind=kind, level=0.95)
    assert isinstance(made, pd.DataFrame)
    shaped = made.to_numpy().reshape(9, -1, 4)
    np.testing.assert_array_equal(shaped[:, :, 0], plain)
    assert (shaped[:, :, 1] > 0).all()
    assert ((shaped[:, :, 2] < plain) & (plain < shaped[:, :, 3])).all()


def test_intervals_of_chances_stay_within_their_range(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    made = result.predict(villagers, kind="chance", level=0.999)
    ends = (
        made.xs("conf_low", level="quantity", axis=1),
        made.xs("conf_high", level="quantity", axis=1),
    )
    assert (ends[0].to_numpy() > 0).all() and (ends[1].to_numpy() < 1).all()


def test_the_observed_outcome_scatters_as_draws_of_the_estimates_do(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    rows = villagers[:3]
    made = result.predict(rows, kind="outcome", level=0.95)
    assert made.columns.tolist() == list(QUANTITIES)
    from selfselect.moments.choose import moments_of

    coded = result.coding.code(rows, with_known=True).rows
    drawn = drawn_errors(
        result, lambda draw: moments_of(result.problem).expectations(draw, coded).outcome, 500
    )
    # The spread of 500 draws errs by 3%.
    np.testing.assert_allclose(made["std_error"], drawn, rtol=0.12)


@pytest.mark.parametrize("kind", ["latent", "outcome", "given_seen"])
def test_levels_have_positive_intervals(kind: str, villagers: pd.DataFrame) -> None:
    result = ss.fit("log(pay) ~ height + weight", villagers, chosen="job")
    made = result.predict(villagers[:4], kind=kind, scale="level", level=0.99)
    each = made.to_numpy().reshape(-1, 4)
    assert (each[:, 2] > 0).all()
    np.testing.assert_allclose(each[:, 2] * each[:, 3], each[:, 0] ** 2, rtol=1e-9)
    if kind == "latent":
        # exp(m + s²/2) by hand, from the fit's own covariance.
        own = [("fishing", term) for term in ("Intercept", "height", "weight", "scale")]
        covariance = result.cov_params().loc[own, own].to_numpy()
        row = villagers.iloc[0]
        slope = np.array([1.0, row["height"], row["weight"], result.scales["fishing"]])
        assert each[0, 1] / each[0, 0] == pytest.approx(
            np.sqrt(slope @ covariance @ slope), rel=BY_DIFFERENCES
        )


def test_sample_selection_has_intervals_of_every_kind(villagers: pd.DataFrame) -> None:
    table = villagers.assign(works=villagers["job"] == "hunting")
    result = ss.sample_selection("income ~ height", "works ~ height + weight", table)
    for kind, width in {"latent": 4, "chance": 4, "outcome": 4, "given_seen": 8}.items():
        made = result.predict(table[:3], kind=kind, level=0.95)
        assert made.shape == (3, width)
        assert (made.to_numpy().reshape(-1, 4)[:, 1] > 0).all()


def test_clusters_leave_the_t_distribution(villagers: pd.DataFrame) -> None:
    table = villagers.assign(house=np.arange(500) % 10)
    result = ss.fit("income ~ height + weight", table, chosen="job", cluster="house")
    row = result.predict(table[:1], level=0.95)["hunting"].iloc[0]
    reach = (row["conf_high"] - row["estimate"]) / row["std_error"]
    assert reach == pytest.approx(2.2621571628540997, rel=1e-9)


def test_rows_that_lack_something_have_no_interval(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    table = villagers[:3].copy()
    table.loc[table.index[1], "height"] = np.nan
    with pytest.warns(MissingRowsWarning):
        made = result.predict(table, kind="chance", level=0.95)
    assert made.isna().all(axis=1).tolist() == [False, True, False]


def test_a_loaded_fit_has_the_same_intervals(
    result: ss.FitResult, villagers: pd.DataFrame, tmp_path: Any
) -> None:
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(
        loaded.predict(villagers[:3], level=0.9), result.predict(villagers[:3], level=0.9)
    )


def test_files_of_predictions_have_a_column_for_each_quantity(
    result: ss.FitResult, villagers: pd.DataFrame, tmp_path: Any
) -> None:
    villagers.to_parquet(tmp_path / "rows.parquet")
    (file,) = result.write_predictions(tmp_path / "made", tmp_path / "rows.parquet", level=0.95)
    made = pd.read_parquet(file)
    assert made.columns.tolist() == [
        f"{label}:{name}" for label in ("fishing", "hunting") for name in QUANTITIES
    ]
    expected = result.predict(villagers, level=0.95)
    np.testing.assert_allclose(made.to_numpy(), expected.to_numpy(), rtol=1e-12)


def test_errors_that_take_seconds_show_progress(
    result: ss.FitResult, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("selfselect.progress.PATIENCE_S", 0.0)
    result.predict(kind="chance", level=0.95, progress=True)
    assert "Standard errors" in capsys.readouterr().err
    result.predict(kind="chance", level=0.95)  # standard error is no terminal
    assert not capsys.readouterr().err


def test_what_has_no_errors_is_refused(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match="is not a confidence level"):
        result.predict(level=95)
    known = ss.fit(
        "income ~ height", villagers, chosen="job",
        noise=ss.noises.KnownCovariance([[400.0, 50.0], [50.0, 400.0]]),
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="are simulated"):
        known.predict(kind="chance", level=0.95)
    assert known.predict(kind="latent", level=0.95).shape == (500, 8)


def test_scales_that_move_have_intervals_and_move_levels(villagers: pd.DataFrame) -> None:
    result = ss.fit(
        "log(pay) ~ height + weight", villagers, chosen="job",
        noise=ss.noises.Independent(scale="~ height"),
    )  # fmt: skip
    rows = villagers[:3]
    scales = result.predict(rows, kind="scale", level=0.95)["hunting"]
    own = [label for label in result.params.index if label[0] == "hunting" and "scale" in label[1]]
    covariance = result.cov_params().loc[own, own].to_numpy()
    x = np.column_stack([np.ones(3), rows["height"]])
    errors = scales["estimate"] * np.sqrt(np.einsum("ni,ij,nj->n", x, covariance, x))
    np.testing.assert_allclose(scales["std_error"], errors, rtol=BY_DIFFERENCES)
    assert (scales["conf_low"] > 0).all()
    means = result.potential_outcomes(rows[:1], covariates="fixed", scale="level").table[:2]
    exact = result.predict(rows[:1], scale="level", level=0.95)
    for label in ("hunting", "fishing"):
        row = means[means["alternative"] == label].iloc[0]
        assert row["std_error"] == pytest.approx(exact[label]["std_error"].iloc[0], rel=1e-5)


ONE_PER_ROW = {
    "normal": {},
    "mixture": {"noise": ss.noises.Mixture(2)},
    "moving scale": {"noise": ss.noises.Independent(scale="~ height")},
    "correlated": {"noise": ss.noises.Correlated(correlation=0.3)},
    "correlated, moving scale": {
        "noise": ss.noises.Correlated(correlation=0.3, scale="~ height"),
        "cost": {"hunting": "~ 1"},
    },
}  # fmt: skip


@pytest.mark.parametrize("model", ONE_PER_ROW)
@pytest.mark.parametrize("scale", ["model", "level"])
def test_no_rows_have_predictions_of_no_rows(
    model: str, scale: Any, villagers: pd.DataFrame
) -> None:
    told: dict[str, Any] = ONE_PER_ROW[model]
    fit = ss.fit("log(pay) ~ height + weight", villagers[:200], chosen="job", **told)
    kinds = ("latent", "outcome", "given_seen", "chance", "scale")
    for kind in kinds[: 5 if scale == "model" else 3]:
        one, none = (fit.predict(villagers[:n], kind=kind, scale=scale, level=0.9) for n in (1, 0))
        assert len(none) == 0 and list(none.columns) == list(one.columns)
    lacking = villagers[:2].assign(height=np.nan)
    with pytest.warns(MissingRowsWarning):
        assert fit.predict(lacking, kind="outcome", scale=scale, level=0.9).isna().all(axis=None)

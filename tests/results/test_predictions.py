"""Predictions of every kind against simulation, and against each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning, OptionError, UnsupportedError

COST = {"a": "fee", "c": 0.3}
RULES = {
    "max": ss.rules.Maximum(),
    "min": ss.rules.Minimum(),
    "costs": ss.rules.Maximum(cost=COST),
    "transforms": ss.rules.MonotoneArgmax({"a": "exp", "b": "negative", "c": 2.0}),
}


def fit_of(rule: Any, available: dict[str, str] | None = None) -> tuple[ss.FitResult, Any]:
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"x": rng.normal(size=600), "fee": rng.uniform(0, 1, 600)})
    table["open"] = rng.uniform(size=600) < 0.7
    sample = ss.simulate(
        {"a": {"Intercept": 0.2, "x": 0.5}, "b": {"x": -0.5}, "c": {"Intercept": 0.1, "x": 0.2}},
        table,
        scales={"a": 0.6, "b": 1.0, "c": 1.4},
        rule=rule,
        available=available,
        seed=8,
    )
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", rule=rule, available=available)
    return fit, sample


@pytest.mark.parametrize("column", ["x", "fee", "open"])
def test_a_row_that_lacks_a_covariate_a_cost_or_an_availability_has_no_chance(column: str) -> None:
    fit, sample = fit_of(RULES["costs"], {"b": "open"})
    rows = sample.data.head(4).astype({"open": float})
    whole = fit.predict(rows, kind="chance")
    rows.loc[rows.index[1], column] = np.nan
    with pytest.warns(MissingRowsWarning, match="1 of 4 rows"):
        found = fit.predict(rows, kind="chance")
    assert found.iloc[1].isna().all()
    pd.testing.assert_frame_equal(
        found.drop(index=found.index[1]), whole.drop(index=found.index[1])
    )


def test_the_shapes_and_labels_of_every_kind(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    new = villagers.head(3).set_axis(["i", "j", "k"])
    for kind in ("latent", "chance"):
        found = result.predict(new, kind=kind)
        assert list(found.columns) == ["fishing", "hunting"]
        assert list(found.index) == ["i", "j", "k"]
    outcome = result.predict(new, kind="outcome")
    assert (outcome.name, list(outcome.index)) == ("income", ["i", "j", "k"])
    given = result.predict(new, kind="given_seen")
    assert given.columns.names == ["alternative", "seen"]
    assert given.shape == (3, 4)
    assert (given["hunting", "hunting"] > given["hunting", "fishing"]).all()


def test_without_new_rows_those_of_the_fit_are_predicted(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    np.testing.assert_array_equal(result.predict(), result.predict(villagers))


def test_an_unknown_kind_is_refused_with_the_known_ones(result: ss.FitResult) -> None:
    with pytest.raises(OptionError, match=r"no prediction 'mean'.*latent, chance, outcome"):
        result.predict(kind="mean")


def test_a_loaded_fit_has_no_rows_to_predict_but_new_ones(
    result: ss.FitResult, villagers: pd.DataFrame, tmp_path: Any
) -> None:
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        loaded.predict()
    assert len(loaded.predict(villagers)) == len(villagers)


def test_predictions_for_the_rows_of_the_fit_keep_their_labels() -> None:
    villagers = ss.simulators.village(300, seed=2).data
    villagers.index = [f"v{i}" for i in range(300)]
    villagers.loc["v7", "height"] = np.nan
    with pytest.warns(ss.errors.MissingRowsWarning):
        fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    kept = villagers.index.drop("v7")
    assert list(fit.predict().index) == list(kept)
    by_hand = fit.predict(villagers.loc[kept])
    assert np.allclose(fit.predict().to_numpy(), by_hand.to_numpy())


READERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda frame, _: frame,
    "polars": lambda frame, _: pytest.importorskip("polars").from_pandas(frame),
    "lazy polars": lambda frame, _: pytest.importorskip("polars").from_pandas(frame).lazy(),
    "arrow": lambda frame, _: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    "a mapping": lambda frame, _: {str(name): frame[name].to_numpy() for name in frame},
    "a csv file": lambda frame, folder: _written(frame, folder / "rows.csv", "to_csv"),
    "a parquet file": lambda frame, folder: _written(frame, folder / "rows.parquet", "to_parquet"),
}


def _written(frame: pd.DataFrame, path: Path, how: str) -> Path:
    getattr(frame, how)(path, index=False)
    return path


@pytest.mark.parametrize("reader", READERS)
def test_equations_without_covariates_have_a_prediction_for_every_row_of_any_table(
    reader: str, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    plain = ss.fit("income ~ 1", villagers, chosen="job")
    rows = READERS[reader](villagers.head(5), tmp_path)
    for kind in ("latent", "chance", "outcome"):
        expected = plain.predict(villagers.head(5), kind).to_numpy()
        assert len(expected) == 5
        np.testing.assert_array_equal(plain.predict(rows, kind).to_numpy(), expected)
    assert len(plain.simulate(rows, seed=1)) == 5
    found = plain.choice_probabilities(rows)
    assert "Averages over 5 given rows" in found.notes[0]


def test_equations_without_covariates_write_a_prediction_for_every_row_of_files(
    villagers: pd.DataFrame, tmp_path: Path
) -> None:
    plain = ss.fit("income ~ 1", villagers, chosen="job")
    source = _written(villagers.head(5), tmp_path / "rows.parquet", "to_parquet")
    (out,) = plain.write_predictions(tmp_path / "out", source, kind="chance")
    expected = plain.predict(villagers.head(5), "chance")
    np.testing.assert_allclose(pd.read_parquet(out), expected, rtol=1e-12)


def test_rows_that_lack_a_value_are_not_drawn_and_it_is_said():
    villagers = ss.simulators.village(120, seed=1).data
    fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    lacking = villagers.assign(height=villagers["height"].where(villagers.index != 3))
    with pytest.warns(MissingRowsWarning, match="1 of 120 rows have a missing value"):
        drawn = fit.simulate(lacking, seed=1)
    assert list(drawn.index) == [i for i in villagers.index if i != 3]

"""Values that come beside a table, or as arrays: aligned by their index, or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError

WEIGHTS = np.random.default_rng(0).integers(1, 4, 400)


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(400, seed=1).data


def fit(data, formula="income ~ height", **options):
    return ss.fit(formula, data, chosen="job", **options)


def test_a_series_of_weights_belongs_to_rows_by_its_index(villagers):
    wanted = fit(villagers, weights=WEIGHTS).values
    shuffled = pd.Series(WEIGHTS, index=villagers.index).sample(frac=1, random_state=1)
    np.testing.assert_array_equal(fit(villagers, weights=shuffled).values, wanted)
    named = villagers.set_axis([f"row {i}" for i in villagers.index])
    moved = pd.Series(WEIGHTS, index=named.index)[::-1]
    np.testing.assert_array_equal(fit(named, weights=moved).values, wanted)


def test_a_series_of_clusters_belongs_to_rows_by_its_index(villagers):
    firms = np.arange(400) // 5
    wanted = fit(villagers, cluster=firms).bse
    shuffled = pd.Series(firms, index=villagers.index).sample(frac=1, random_state=1)
    pd.testing.assert_series_equal(fit(villagers, cluster=shuffled).bse, wanted)


@pytest.mark.parametrize("option", ["weights", "cluster"])
def test_a_series_with_another_index_is_refused(villagers, option):
    for index in (np.arange(400) + 1_000, np.zeros(400, dtype=int)):
        with pytest.raises(DataError, match=f"`{option}` is a series whose index is not that"):
            fit(villagers, **{option: pd.Series(WEIGHTS, index=index)})


def test_a_mask_is_never_ignored(villagers):
    masked = np.ma.array(WEIGHTS, mask=WEIGHTS == 3)
    with pytest.raises(DataError, match="missing values"):
        fit(villagers, weights=masked)
    heights = np.ma.array(villagers["height"], mask=np.arange(400) < 50)
    columns = {name: villagers[name].to_numpy() for name in villagers} | {"height": heights}
    with pytest.warns(ss.errors.MissingRowsWarning, match="50 of 400"):
        found = fit(columns)
    np.testing.assert_array_equal(found.values, fit(villagers.iloc[50:]).values)


@pytest.mark.parametrize("odd", ["X", "y", "chosen", "sample_weight"])
def test_masked_arrays_and_text_are_refused_by_the_estimator(villagers, odd):
    arrays = {
        "X": villagers[["height", "weight"]].to_numpy(),
        "y": villagers["income"].to_numpy(),
        "chosen": villagers["job"].to_numpy(dtype=object),
        "sample_weight": WEIGHTS,
    }
    masked = arrays | {
        odd: np.ma.array(
            arrays[odd], mask=np.arange(arrays[odd].size).reshape(arrays[odd].shape) == 0
        )
    }
    with pytest.raises(DataError, match=f"{odd} is a masked array"):
        ss.SelfSelectionRegressor().fit(**masked)
    if odd != "chosen":
        text = arrays | {odd: arrays[odd].astype(str).astype(object)}
        with pytest.raises(DataError, match=f"{odd} must hold numbers, but it holds text such as"):
            ss.SelfSelectionRegressor().fit(**text)


DAYS = np.datetime64("2020-01-01") + np.arange(400).astype("timedelta64[D]")
HOURS = np.arange(400).astype("timedelta64[h]")
TEXT = np.arange(400).astype(str)
NO_NUMBERS = {
    "an array of dates": (DAYS, "dates"),
    "an array of durations": (HOURS, "durations"),
    "an array of text": (TEXT, "text"),
    "an array of bytes": (TEXT.astype(bytes), "bytes_"),
    "a series of dates": (pd.Series(DAYS), "dates"),
    "a series of dates with a zone": (pd.Series(DAYS).dt.tz_localize("UTC"), "dates"),
    "a series of durations": (pd.Series(HOURS), "durations"),
    "an index of dates": (pd.DatetimeIndex(DAYS), "dates"),
    "a series of periods": (pd.Series(pd.PeriodIndex(DAYS, freq="D")), "dates"),
    "a list of dates": (DAYS.tolist(), "dates"),
    "a list of durations": (HOURS.tolist(), "durations"),
    "a list of text": (TEXT.tolist(), "text"),
    "categories of numbers": (pd.Categorical(np.arange(400)), "categories"),
    "a frame of dates": (pd.DataFrame({"y": DAYS}), "dates"),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_is_no_number_is_no_outcome_nor_a_weight(villagers, kind):
    odd, said = NO_NUMBERS[kind]
    X, y, chosen = villagers[["height", "weight"]].to_numpy(), villagers["income"], villagers["job"]
    with pytest.raises(DataError, match=rf"y must hold numbers, but it holds .*{said}"):
        ss.SelfSelectionRegressor().fit(X, odd, chosen=chosen)
    with pytest.raises(DataError, match=rf"sample_weight must hold numbers.*{said}"):
        ss.SelfSelectionRegressor().fit(X, y, chosen=chosen, sample_weight=odd)
    model = ss.SelfSelectionRegressor().fit(X, y, chosen=chosen)
    assert 0.0 < model.score(X, y) < 1.0
    with pytest.raises(DataError, match=rf"y must hold numbers, but it holds .*{said}"):
        model.score(X, odd)


def test_what_is_no_number_is_no_covariate(villagers):
    X, y, chosen = villagers[["height", "weight"]].to_numpy(), villagers["income"], villagers["job"]
    mixed = np.column_stack([X.astype(object), DAYS.astype(object)])
    model = ss.SelfSelectionRegressor()
    for odd in (np.column_stack([DAYS, DAYS]), mixed, mixed.tolist()):
        with pytest.raises(DataError, match="X must hold numbers, but it holds dates"):
            model.fit(odd, y, chosen=chosen)
    text = X.astype(object)
    text[7, 1] = "tall"
    with pytest.raises(DataError, match=r"X must .* numbers and text such as 'tall'"):
        model.fit(text, y, chosen=chosen)
    with pytest.raises(DataError, match=r"X must .* holds text such as '.*' \(row 0\)"):
        model.fit(X.astype(str), y, chosen=chosen)
    model.fit(X, y, chosen=chosen)
    with pytest.raises(DataError, match="X must hold numbers, but it holds durations"):
        model.predict(np.column_stack([HOURS, HOURS]))


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
@pytest.mark.parametrize(("odd", "said"), [(DAYS, "dates"), (HOURS, "durations")])
def test_a_column_that_is_no_number_beside_one_that_is(villagers, kind, odd, said):
    made = pytest.importorskip(kind)
    make = made.DataFrame if kind == "polars" else made.table
    height, y, chosen = (villagers[name].to_numpy() for name in ("height", "income", "job"))
    table = make({"height": height, "since": odd.astype(f"{odd.dtype.kind}8[us]")})
    model = ss.SelfSelectionRegressor()
    with pytest.raises(DataError, match=f"'since' of X must hold numbers, but it holds {said}"):
        model.fit(table, y, chosen=chosen)
    model.fit(make({"height": height, "since": odd.astype(float)}), y, chosen=chosen)
    with pytest.raises(DataError, match=f"'since' of X must hold numbers, but it holds {said}"):
        model.predict(table)


def test_none_among_outcomes_is_missing_too(villagers):
    X, y = villagers[["height", "weight"]].to_numpy(), villagers["income"].astype(object)
    for lacking in (None, float("nan")):
        y.iloc[0] = lacking
        with pytest.raises(ValueError, match="NaN"):
            ss.SelfSelectionRegressor().fit(X, y.to_numpy(), chosen=villagers["job"])


def test_dates_are_refused_by_the_estimator(villagers):
    X = villagers[["height"]].assign(born=pd.Timestamp("2020-01-01"))
    with pytest.raises(DataError, match=r"'born' of X must hold numbers, but it holds dates"):
        ss.SelfSelectionRegressor().fit(X, villagers["income"], chosen=villagers["job"])


@pytest.mark.parametrize("labels", [(2**63 + 1, 2**63 + 5), (2**53, 2**53 + 1), (2**64 - 1, 0)])
def test_whole_numbers_of_any_size_are_labels(villagers, labels):
    low, high = np.array(labels, dtype=np.uint64)
    job = np.where(villagers["job"] == "fishing", low, high)
    found = fit(villagers.assign(job=job))
    assert set(found.problem.equations.alternatives) == set(labels)
    model = ss.SelfSelectionRegressor().fit(villagers[["height"]], villagers["income"], chosen=job)
    assert set(model.classes_.tolist()) == set(labels)


def test_an_empty_column_name_is_an_error(villagers):
    with pytest.raises(FormulaError, match="empty column name"):
        fit(villagers.rename(columns={"height": ""}), "income ~ ``")
    with pytest.raises(DataError, match="column name is empty"):
        ss.fit("income ~ height", villagers.rename(columns={"job": ""}), chosen="")
    with pytest.raises(DataError, match="column name is empty"):
        fit(villagers, weights="")


@pytest.mark.parametrize("engine", [None, ss.engines.Memory()])
def test_identifiers_of_many_digits_in_a_csv_stay_apart(villagers, tmp_path, engine):
    firms = 2**60 + np.arange(400) // 4
    wanted = fit(villagers, cluster=firms)
    villagers.assign(firm=firms).to_csv(tmp_path / "rows.csv", index=False)
    found = fit(tmp_path / "rows.csv", cluster="firm", engine=engine)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-9)
    long = np.where(villagers["job"] == "fishing", 2**53, 2**53 + 1)
    villagers.assign(job=long).to_csv(tmp_path / "jobs.csv", index=False)
    found = fit(tmp_path / "jobs.csv", engine=engine)
    assert found.problem.equations.alternatives == (str(2**53), str(2**53 + 1))
    np.testing.assert_allclose(found.values, fit(villagers).values, rtol=1e-9)

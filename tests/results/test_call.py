"""The call that a fit keeps can be made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rule": ss.rules.Maximum(cost={"fishing": "rent"}), "covariance": "robust"},
        {"noise": ss.noises.Independent(scale={"hunting": 14.0, "fishing": 9.0}), "weights": "w"},
        {"solver": ss.solvers.Newton(max_steps=70), "seed": 5, "missing": "raise"},
    ],
)
def test_it_gives_the_same_fit(villagers: pd.DataFrame, options: dict[str, object]) -> None:
    formulas = {"hunting": "income ~ height", "fishing": "income ~ weight"}
    fit = ss.fit(formulas, villagers, chosen="job", **options)
    again = eval(fit.call, {"ss": ss, "data": villagers})
    np.testing.assert_array_equal(again.values, fit.values)
    np.testing.assert_array_equal(again.covariance.matrix, fit.covariance.matrix)
    assert again.call == fit.call


def test_only_what_was_asked_is_written(villagers: pd.DataFrame) -> None:
    fit = ss.fit("income ~ height", villagers, chosen="job", rule="max", progress=False)
    assert fit.call == "ss.fit(\n    'income ~ height',\n    data,\n    chosen='job',\n)"


def test_arrays_are_described(villagers: pd.DataFrame) -> None:
    fit = ss.fit("income ~ height", villagers, chosen="job", weights=np.ones(len(villagers)))
    assert f"weights=<ndarray of {len(villagers)}>," in fit.call


def test_it_is_saved(result: ss.FitResult, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    result.save(path)
    assert ss.load(path).call == result.call


def test_the_estimator_keeps_its_own(villagers: pd.DataFrame) -> None:
    model = ss.SelfSelectionRegressor(fit_intercept=False)
    model.fit(villagers[["height"]], villagers["income"], chosen=villagers["job"])
    assert model.result_.call == "ss.SelfSelectionRegressor(fit_intercept=False).fit(X, y, chosen)"

"""Rows in another order, sizes that nothing holds, and options that are no numbers."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError

FORMULA = "income ~ height + weight"
SAMPLES = [
    *(getattr(ss.simulators, name) for name in ("village", "market", "auction", "tender")),
    ss.simulators.curved,
    ss.simulators.gaussian,
    lambda n_rows, seed=0: ss.simulators.hostile("rare", n_rows, seed=seed),
]


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(300, seed=5).data


@pytest.fixture(scope="module")
def fit(villagers):
    return ss.fit(FORMULA, villagers, chosen="job")


# orders


def test_a_dict_of_series_in_two_orders_is_refused(villagers, fit):
    columns = {name: villagers[name] for name in villagers}
    np.testing.assert_array_equal(ss.fit(FORMULA, columns, chosen="job").values, fit.values)
    turned = columns | {"height": villagers["height"][::-1]}
    for ask in (lambda: ss.fit(FORMULA, turned, chosen="job"), lambda: fit.predict(turned)):
        with pytest.raises(DataError, match=r"'height'.* the same index in another order"):
            ask()


def test_series_of_other_rows_belong_together_by_position(villagers, fit):
    """Parts of two tables have labels of their own, which say nothing of each other."""
    columns = {name: villagers[name] for name in villagers}
    columns["height"] = villagers["height"].set_axis(villagers.index + 1_000)
    np.testing.assert_array_equal(ss.fit(FORMULA, columns, chosen="job").values, fit.values)


@pytest.mark.parametrize("name", ["y", "chosen", "sample_weight"])
def test_the_estimator_refuses_a_series_in_another_order_than_x(villagers, name):
    given = {
        "y": villagers["income"],
        "chosen": villagers["job"],
        "sample_weight": pd.Series(np.arange(300) % 3 + 1, index=villagers.index),
    }
    X, model = villagers[["height", "weight"]], ss.SelfSelectionRegressor()
    model.fit(X, **given)
    turned = given | {name: given[name].sample(frac=1, random_state=1)}
    with pytest.raises(DataError, match=rf"{name} is a series with the index of X in another"):
        model.fit(X, **turned)
    model.fit(X, **(given | {name: given[name].set_axis(np.arange(300) + 1_000)}))


def test_the_estimator_refuses_a_frame_of_one_column_in_another_order_than_x(villagers):
    X, y, chosen = villagers[["height", "weight"]], villagers["income"], villagers["job"]
    turned = y.to_frame().sample(frac=1, random_state=1)
    with pytest.raises(DataError, match="y is a frame with the index of X in another order"):
        ss.SelfSelectionRegressor().fit(X, turned, chosen=chosen)


def test_the_estimator_refuses_series_in_two_orders_beside_an_array(villagers):
    X, y, chosen = villagers[["height", "weight"]], villagers["income"], villagers["job"]
    with pytest.raises(DataError, match="chosen is a series with the index of y in another order"):
        ss.SelfSelectionRegressor().fit(X.to_numpy(), y, chosen=chosen.sample(frac=1))


def test_the_estimator_takes_labels_from_a_frame_of_one_column(villagers):
    X, y, chosen = villagers[["height", "weight"]], villagers["income"], villagers["job"]
    one = ss.SelfSelectionRegressor().fit(X, y, chosen=chosen)
    two = ss.SelfSelectionRegressor().fit(X, y, chosen=chosen.to_frame())
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_the_estimator_refuses_two_columns_of_one_name(villagers):
    X = pd.concat([villagers[["height"]], villagers[["height"]]], axis=1)
    with pytest.raises(DataError, match="2 columns named 'height'"):
        ss.SelfSelectionRegressor().fit(X, villagers["income"], chosen=villagers["job"])


# sizes


def test_the_estimator_refuses_a_thousand_million_alternatives(villagers):
    model = ss.SelfSelectionRegressor(n_alternatives=10**9)
    with pytest.raises(DataError, match=r"1,000,000,000 alternatives .* would take at least"):
        model.fit(villagers[["height"]], villagers["income"])


@pytest.mark.parametrize("simulate", SAMPLES)
def test_samples_that_no_memory_holds_are_refused_at_once(simulate):
    begun = time.perf_counter()
    for size in (10**12, 2**63, 10**400):
        with pytest.raises(DataError, match=r"A sample of 1?.* rows would take at least .* memory"):
            simulate(size, seed=1)
    assert time.perf_counter() - begun < 2.0


@pytest.mark.parametrize("simulate", SAMPLES)
@pytest.mark.parametrize("size", [-1, 0, 1.5, "10", True, None, float("nan")], ids=repr)
def test_sizes_of_samples_are_whole_numbers_from_one_on(simulate, size):
    with pytest.raises(OptionError, match=r"n_rows=.* is not possible. Give a whole number from 1"):
        simulate(size, seed=1)


def test_covariates_and_alternatives_of_samples_are_within_reason():
    for sizes in ((10, 10**12, 2), (10, 2, 10**12)):
        with pytest.raises(DataError, match="would take at least"):
            ss.simulators.gaussian(*sizes, seed=1)
    with pytest.raises(OptionError, match="n_alternatives=0 is not possible"):
        ss.simulators.gaussian(10, 2, 0, seed=1)


def test_the_shell_refuses_a_sample_that_no_memory_holds():
    words = [sys.executable, "-m", "selfselect", "simulate", "village", "--rows", str(10**12)]
    ran = subprocess.run(words, check=False, capture_output=True, text=True)
    assert ran.returncode == 2 and "of memory" in ran.stderr


# options that are no numbers


@pytest.mark.parametrize("level", ["95%", None, [0.95], 1j], ids=repr)
def test_a_level_that_is_no_number_is_refused_everywhere(fit, level, tmp_path):
    asked = [
        lambda: fit.conf_int(level=level),
        lambda: fit.summary(level=level),
        lambda: fit.treatment_effects("hunting", "fishing", level=level),
        lambda: fit.sensitivity(level=level),
        lambda: fit.report(tmp_path / "fit.html", level=level),
    ]
    for ask in asked:
        with pytest.raises(OptionError, match="is not a confidence level"):
            ask()


def test_other_options_that_are_no_numbers_are_refused(villagers, fit):
    asked = {
        "correlations between -1 and 1": lambda: fit.sensitivity("a"),
        "needs at least 2 samples, not '9'": lambda: ss.inference.Bootstrap(replications="9"),
        "such as range": lambda: ss.choose_alternatives(FORMULA, villagers, 3),
        "has no term to estimate": lambda: ss.fit(
            FORMULA, villagers, chosen="job", cost={"hunting": "~ 0"}
        ),
        "would not end": lambda: ss.solvers.MaximumLikelihood(starts=10**9),
    }
    for words, ask in asked.items():
        with pytest.raises(OptionError, match=words):
            ask()


# little


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen"])
def test_predictions_for_no_rows_are_an_empty_table(villagers, fit, kind):
    wanted = fit.predict(villagers, kind)
    found = fit.predict(villagers.head(0), kind)
    assert len(found) == 0 and np.shape(found)[1:] == np.shape(wanted)[1:]


def test_an_equation_without_terms_has_a_scale_and_a_page(villagers, tmp_path):
    formulas = {"hunting": "income ~ height", "fishing": "income ~ 0"}
    fit = ss.fit(formulas, villagers, chosen="job")
    assert "fishing" in str(fit.summary())
    fit.save(tmp_path / "fit.json")
    pd.testing.assert_frame_equal(
        ss.load(tmp_path / "fit.json").predict(villagers), fit.predict(villagers)
    )
    assert (fit.predict(villagers)["fishing"] == 0).all()

"""Predictions are the means of what would be drawn from the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning, OptionError

DRAWS = 400_000
FIVE_ERRORS = 5.0


@pytest.fixture(scope="module")
def switching(table):
    return ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)


@pytest.fixture(scope="module")
def selection(table):
    return ss.sample_selection("wage ~ x", "works ~ x + z", table)


ROW = pd.DataFrame({"x": [0.3], "z": [-0.6], "w": [1.2]})


def draw(fit, label, rng):
    """Draw one row's selection and an outcome from the fitted model."""
    own, gamma = fit.params.loc[label], fit.params.loc["selection"]
    u = rng.standard_normal(DRAWS)
    noise = own["correlation"] * u + np.sqrt(1 - own["correlation"] ** 2) * rng.standard_normal(
        DRAWS
    )
    row = {"Intercept": 1.0, **ROW.iloc[0]}
    mean = sum(own[term] * row[term] for term in own.index if term in row)
    index = sum(gamma[term] * row[term] for term in gamma.index)
    return index + u > 0, mean + own["scale"] * noise


def agrees(predicted, drawn):
    return abs(predicted - drawn.mean()) < FIVE_ERRORS * drawn.std() / np.sqrt(len(drawn))


def test_predictions_of_switching_are_means_of_draws(switching):
    given = switching.predict(ROW, "given_seen").iloc[0]
    chance = switching.predict(ROW, "chance").iloc[0]
    latent = switching.predict(ROW, "latent").iloc[0]
    seen_part = 0.0
    for label in ("in", "out"):
        positive, outcome = draw(switching, label, np.random.default_rng(4))
        assert agrees(latent[label], outcome)
        assert agrees(given[label, "in"], outcome[positive])
        assert agrees(given[label, "out"], outcome[~positive])
        own = positive if label == "in" else ~positive
        assert agrees(chance[label], own)
        seen_part += chance[label] * given[label, label]
    assert chance.sum() == pytest.approx(1.0)
    assert switching.predict(ROW, "outcome").iloc[0] == pytest.approx(seen_part)


def test_predictions_of_sample_selection_are_means_of_draws(selection):
    positive, outcome = draw(selection, "outcome", np.random.default_rng(4))
    assert agrees(selection.predict(ROW).iloc[0], outcome)
    assert agrees(selection.predict(ROW, "chance").iloc[0], positive)
    assert agrees(selection.predict(ROW, "outcome").iloc[0], outcome[positive])
    given = selection.predict(ROW, "given_seen").iloc[0]
    assert agrees(given[True], outcome[positive])
    assert agrees(given[False], outcome[~positive])


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen"])
def test_the_rows_of_the_fit_are_predicted_alike_with_their_labels(table, switching, kind):
    named = table.set_axis([f"row {i}" for i in range(len(table))])
    fit = ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", named)
    own, given = fit.predict(kind=kind), fit.predict(named, kind)
    assert list(own.index) == list(named.index)
    np.testing.assert_allclose(own, given)
    np.testing.assert_allclose(own, switching.predict(table, kind), rtol=1e-9)


def test_only_the_columns_a_prediction_needs_are_asked_for(selection, switching):
    assert len(selection.predict({"x": [1.0, 2.0]})) == 2
    assert len(switching.predict({"x": [1.0], "z": [0.0]}, "chance")) == 1


def test_rows_that_lack_a_covariate_have_no_prediction(selection):
    new = pd.DataFrame({"x": [1.0, np.nan], "z": [0.0, 1.0]}, index=["a", "b"])
    with pytest.warns(MissingRowsWarning, match="1 of 2 rows"):
        found = selection.predict(new, "outcome")
    assert np.isfinite(found["a"])
    assert np.isnan(found["b"])


def test_rows_not_selected_that_lack_a_covariate_are_predicted_as_missing(table):
    lacking = table.assign(w=table["w"].where(table["works"]))
    fit = ss.sample_selection("wage ~ x + w", "works ~ x + z", lacking)
    own = fit.predict()
    assert own.isna().to_numpy().tolist() == (~table["works"]).tolist()


def test_two_steps_predict_with_their_own_numbers(table):
    fit = ss.sample_selection("wage ~ x", "works ~ x + z", table, method="two-step")
    seen = fit.predict(table[table["works"]], "outcome")
    # Least squares with a constant leaves residuals of mean zero.
    assert seen.mean() == pytest.approx(table["wage"].mean(), rel=1e-9)


def test_a_prediction_there_is_not_is_refused(selection):
    with pytest.raises(OptionError, match="no prediction 'link'"):
        selection.predict(kind="link")

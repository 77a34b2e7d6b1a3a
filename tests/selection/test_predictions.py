"""Predictions of selection models need their own columns only, and take missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning, OptionError


@pytest.fixture(scope="module")
def switching(table):
    return ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)


@pytest.fixture(scope="module")
def selection(table):
    return ss.sample_selection("wage ~ x", "works ~ x + z", table)


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

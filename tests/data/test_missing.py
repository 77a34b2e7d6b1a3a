"""What is missing is found, in columns of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from selfselect.data.missing import find_absent, find_any_absent


@pytest.mark.parametrize(
    "whole",
    [
        [1, 2, 3],
        [True, False, True],
        [1.0, 2.0, 3.0],
        [np.inf, -np.inf, 1.0],
        [1e308, 1e308, -1e308],
        ["a", "b", "c"],
        pd.Categorical(["a", "b", "a"]),
        pd.array([1, 2, 3], dtype="Int64"),
    ],
)
def test_nothing_is_missing_in_a_whole_column(whole):
    assert find_absent(pd.Series(whole)) is None


@pytest.mark.parametrize(
    "lacking",
    [
        [1.0, np.nan, 3.0],
        [np.inf, np.nan, -np.inf],
        ["a", None, "c"],
        pd.Categorical(["a", None, "a"]),
        pd.array([1, None, 3], dtype="Int64"),
        [True, None, False],
        pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
    ],
)
def test_what_is_missing_is_found(lacking):
    np.testing.assert_array_equal(find_absent(pd.Series(lacking)), [False, True, False])


def test_a_row_lacks_something_if_any_column_does():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "y": [1, 2, 3], "z": ["a", "b", None]})
    assert find_any_absent(frame, ["y"]) is None
    np.testing.assert_array_equal(find_any_absent(frame, ["x", "y", "z"]), [False, True, True])

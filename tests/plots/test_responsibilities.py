"""The picture of who is likely to have been seen over time."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError


def test_in_the_order_of_the_rows_it_is_what_the_fit_says(unknown: ss.FitResult) -> None:
    data = ss.plots.responsibilities(unknown, window=1).data
    expected = unknown.responsibilities().to_numpy()[data.index.to_numpy() - 1]
    np.testing.assert_allclose(data, expected)
    np.testing.assert_allclose(data.sum(axis=1), 1.0)


def test_rows_are_put_in_the_order_of_time_and_averaged(unknown: ss.FitResult) -> None:
    time = np.arange(300)[::-1]
    data = ss.plots.responsibilities(unknown, time, window=3).data
    demand = unknown.responsibilities()["demand"].to_numpy()[::-1]
    assert data.index[0] == 0
    np.testing.assert_allclose(data["demand"].iloc[0], demand[:2].mean())
    position = int(data.index[7])
    np.testing.assert_allclose(data["demand"].iloc[7], demand[position - 1 : position + 2].mean())


def test_dates_can_be_times(unknown: ss.FitResult) -> None:
    months = np.arange("1959-01", "1984-01", dtype="datetime64[M]")
    picture = ss.plots.responsibilities(unknown, months)
    picture.axes[0].figure.canvas.draw()
    low, high = picture.axes[0].get_xlim()
    assert ((picture.marks[0].x >= low) & (picture.marks[0].x <= high)).all()


def test_what_does_not_fit_is_refused(unknown: ss.FitResult, known: ss.FitResult) -> None:
    with pytest.raises(OptionError, match=r"`time` has the shape \(3,\), but the fit has 300 rows"):
        ss.plots.responsibilities(unknown, [1, 2, 3])
    with pytest.raises(OptionError, match="window=0 is not a number of rows"):
        ss.plots.responsibilities(unknown, window=0)
    with pytest.raises(OptionError, match="the choice was recorded"):
        ss.plots.responsibilities(known)


def test_the_axis_says_over_how_many_rows_chances_are_averaged(unknown: ss.FitResult) -> None:
    (single,), (several,) = (
        ss.plots.responsibilities(unknown, window=window).axes for window in (1, 7)
    )
    assert single.get_ylabel() == "chance of having been chosen"
    assert several.get_ylabel().endswith("mean of 7 rows")

"""The picture of where the starts of a search ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.solvers.base import StartRecord


def test_starts_that_agree_are_counted(unknown: ss.FitResult) -> None:
    picture = ss.plots.starts(unknown)
    ends = picture.data["end"].value_counts()
    assert len(picture.data) == len(unknown.solution.starts) and ends["best"] > 0
    labels = picture.axes[0].get_legend_handles_labels()[1]
    assert labels[0] == f"reached the best optimum ({ends['best']} of {len(picture.data)})"


def test_starts_that_fell_short_or_were_discarded_are_told_apart(unknown: ss.FitResult) -> None:
    records = (
        StartRecord("random", 300, -370.0, 0.0, None),
        StartRecord("annealed", 300, -375.0, -5.0, None),
        StartRecord("moments", 300, float("nan"), float("nan"), "collapsed on row 7"),
    )
    fit = replace(unknown, solution=replace(unknown.solution, starts=records))
    picture = ss.plots.starts(fit)
    assert picture.data["end"].tolist() == ["best", "behind", "discarded"]
    assert picture.marks[0].texts == (
        "random: 0 below the best", "annealed: 5 below the best", "moments: collapsed on row 7",
    )  # fmt: skip
    assert np.isfinite(picture.marks[0].x).all()
    assert [label.get_text() for label in picture.axes[0].get_yticklabels()] == [
        "random", "annealed", "moments",
    ]  # fmt: skip


def test_a_likelihood_of_one_optimum_has_no_starts(known: ss.FitResult) -> None:
    with pytest.raises(UnsupportedError, match="was not searched from several starts"):
        ss.plots.starts(known)

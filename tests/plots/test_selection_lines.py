"""The picture of naive and corrected lines: the numbers behind it, and what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError

matplotlib.use("Agg")

from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def sample() -> Any:
    return ss.simulators.village(400, seed=1)


@pytest.fixture(scope="module")
def result(sample: Any) -> ss.FitResult:
    return ss.fit(sample.formula, sample.data, chosen="job")


def test_lines_hold_the_other_covariates_at_their_means(result: ss.FitResult, sample: Any) -> None:
    lines = ss.plots.selection_lines(result, "height").lines
    weight = sample.data["weight"].mean()
    for label in ("fishing", "hunting"):
        own = lines[lines["alternative"] == label]
        for column, table in (("naive", result.naive["estimate"]), ("corrected", result.params)):
            expected = (
                table[label, "Intercept"]
                + table[label, "height"] * own["height"]
                + table[label, "weight"] * weight
            )
            np.testing.assert_allclose(own[column], expected, rtol=1e-9)


def test_points_are_the_outcomes_that_were_seen(result: ss.FitResult, sample: Any) -> None:
    points = ss.plots.selection_lines(result, "height").points
    assert points["seen"].all()
    assert len(points) == 400
    assert sorted(points["outcome"]) == sorted(sample.data["income"])
    assert points["alternative"].value_counts().to_dict() == result.counts.to_dict()


def test_with_all_outcomes_known_those_nobody_saw_are_drawn_too(
    result: ss.FitResult, sample: Any
) -> None:
    picture = ss.plots.selection_lines(result, "height", latent=sample.latent)
    assert len(picture.points) == 800
    assert picture.points["seen"].sum() == 400
    labels = picture.axes[-1].get_legend_handles_labels()[1]
    assert labels == ["not observed", "observed", "least squares", "corrected"]


def test_axes_are_labelled_and_may_be_given(result: ss.FitResult) -> None:
    figure, axes = pyplot.subplots(1, 2)
    picture = ss.plots.selection_lines(result, "weight", axes=axes)
    assert picture.axes == tuple(axes)
    assert [axis.get_title() for axis in axes] == ["fishing", "hunting"]
    assert axes[0].get_xlabel() == "weight"
    assert axes[0].get_ylabel() == "income"
    figure.canvas.draw()


def test_fits_with_known_or_common_scales_can_be_drawn(sample: Any) -> None:
    for scale in ("common", 10.0):
        fit = ss.fit(sample.formula, sample.data, chosen="job", noise=ss.noises.Independent(scale))
        lines = ss.plots.selection_lines(fit, "height").lines
        assert np.isfinite(lines[["naive", "corrected"]]).to_numpy().all()


def test_large_data_is_thinned() -> None:
    large = ss.simulators.village(5_000, seed=1)
    fit = ss.fit(large.formula, large.data, chosen="job")
    assert len(ss.plots.selection_lines(fit, "height").points) == 1_500


def test_an_unknown_covariate_is_answered_with_the_nearest(result: ss.FitResult) -> None:
    with pytest.raises(OptionError, match=r"no covariate 'hieght'.*Did you mean 'height'"):
        ss.plots.selection_lines(result, "hieght")


def test_what_does_not_fit_the_fit_is_refused(
    result: ss.FitResult, sample: Any, tmp_path: Any
) -> None:
    with pytest.raises(OptionError, match=r"`latent` has the shape \(10, 2\)"):
        ss.plots.selection_lines(result, "height", latent=sample.latent.head(10))
    with pytest.raises(OptionError, match="1 axes are given for 2 alternatives"):
        ss.plots.selection_lines(result, "height", axes=pyplot.subplots()[1])
    result.save(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.plots.selection_lines(ss.load(tmp_path / "fit.json"), "height")


def test_without_recorded_choices_points_go_to_the_most_likely_alternative(sample: Any) -> None:
    fit = ss.fit(sample.formula, sample.data, alternatives=2)
    picture = ss.plots.selection_lines(fit, "height")
    assert len(picture.points) == 400
    likely = fit.responsibilities().idxmax(axis=1)
    assert picture.points["alternative"].value_counts().to_dict() == likely.value_counts().to_dict()
    assert sorted(picture.points["outcome"]) == sorted(sample.data["income"])
    labels = picture.axes[-1].get_legend_handles_labels()[1]
    assert "most likely observed here" in labels
    assert [axis.get_title() for axis in picture.axes] == ["1", "2"]
    first, second = np.split(picture.lines["naive"].to_numpy(), 2)
    np.testing.assert_allclose(first, second)

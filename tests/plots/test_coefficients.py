"""The picture of naive and corrected coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError


def test_intervals_are_those_of_the_fit(known: ss.FitResult) -> None:
    data = ss.plots.coefficients(known, level=0.9).data
    corrected = data[data["estimate_of"] == "corrected"].set_index(["alternative", "term"])
    expected = known.conf_int(0.9).loc[corrected.index]
    np.testing.assert_allclose(corrected[["conf_low", "conf_high"]], expected)
    naive = data[data["estimate_of"] == "least squares"].set_index(["alternative", "term"])
    np.testing.assert_allclose(naive["estimate"], known.naive["estimate"].loc[naive.index])


def test_there_is_one_panel_per_term_and_every_mark_says_its_numbers(known: ss.FitResult) -> None:
    picture = ss.plots.coefficients(known)
    assert [axis.get_title() for axis in picture.axes] == ["Intercept", "height", "weight"]
    assert [len(marks.texts) for marks in picture.marks] == [4, 4, 4]
    height = known.params["hunting", "height"]
    assert any(
        said.startswith(f"hunting, corrected: {height:.4g}, 95% interval")
        for said in picture.marks[1].texts
    )


def test_terms_may_be_chosen_and_are_checked(known: ss.FitResult) -> None:
    assert len(ss.plots.coefficients(known, ["weight"]).axes) == 1
    with pytest.raises(OptionError, match=r"no term 'wieght'.*Did you mean"):
        ss.plots.coefficients(known, ["wieght"])
    with pytest.raises(OptionError, match=r"level=2 is not a confidence level"):
        ss.plots.coefficients(known, level=2)


def test_rows_are_not_needed(known: ss.FitResult, loaded: ss.FitResult) -> None:
    one, other = ss.plots.coefficients(known).data, ss.plots.coefficients(loaded).data
    np.testing.assert_allclose(one["conf_low"], other["conf_low"])


def test_at_most_twelve_terms_are_drawn_unasked() -> None:
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.normal(size=400) for i in range(14)}
    latent = rng.normal(size=(400, 2))
    table |= {"y": latent.max(axis=1), "who": latent.argmax(axis=1)}
    fit = ss.fit("y ~ " + " + ".join(f"x{i}" for i in range(14)), table, chosen="who")
    assert len(ss.plots.coefficients(fit).axes) == 12
    assert len(ss.plots.coefficients(fit, ["x12", "x13"]).axes) == 2

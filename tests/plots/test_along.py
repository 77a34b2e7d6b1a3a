"""Pictures along categories, and of changes: order, numbers, and legends that cover nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect import plots
from selfselect.plots.base import grid_of
from selfselect.plots.svg import draw_svg, page_axes, page_style

ORDER = ["none", "some", "much"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng([8, 2])
    school = rng.choice(ORDER, 300)
    latent = rng.normal(size=(300, 2)) + np.column_stack([school == "much", school == "none"])
    made = pd.DataFrame({"y": latent.max(axis=1), "who": latent.argmax(axis=1)})
    return made.assign(
        who=made["who"].map({0: "desk", 1: "field"}),
        school=pd.Categorical(school, [*ORDER, "never met"], ordered=True),
    )


@pytest.fixture(scope="module")
def fit(table: pd.DataFrame) -> ss.FitResult:
    return ss.fit("y ~ school", table, chosen="who")


def test_ordered_categories_stand_in_their_order(fit: ss.FitResult) -> None:
    for name, draw in (("chance", plots.choice_probabilities), ("mean", plots.potential_outcomes)):
        picture = draw(fit, "school")
        assert picture.data["value"].unique().tolist() == ORDER
        shown = [text.get_text() for text in picture.axes[0].get_xticklabels()]
        assert shown == ORDER
        assert np.isfinite(picture.data[name]).all()


def test_polars_enumerations_stand_in_their_order(table: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    rows = polars.DataFrame(
        {
            "y": table["y"].to_numpy(),
            "who": table["who"].tolist(),
            "school": polars.Series(table["school"].tolist(), dtype=polars.Enum(ORDER)),
        }
    )
    fit = ss.fit("y ~ school", rows, chosen="who")
    assert plots.choice_probabilities(fit, "school").data["value"].unique().tolist() == ORDER
    assert "desk:school[T.some]" in fit.names and "desk:school[T.none]" not in fit.names


def test_unordered_text_is_sorted() -> None:
    assert grid_of(pd.Series(["b", "a", "b", "c"])).tolist() == ["a", "b", "c"]


def test_means_along_a_covariate_are_those_of_everyone(fit: ss.FitResult) -> None:
    data = plots.potential_outcomes(fit, "school").data
    wide = data.pivot(index="value", columns="alternative", values="mean").loc[ORDER]
    rows = pd.DataFrame({"school": pd.Categorical(ORDER, ORDER, ordered=True)})
    np.testing.assert_allclose(wide, fit.predict(rows, kind="latent"), atol=1e-10)


def test_a_change_is_drawn_before_and_after(fit: ss.FitResult) -> None:
    found = fit.counterfactual(subsidy={"desk": 0.5})
    data = plots.counterfactual(found).data
    assert data["when"].tolist() == ["before", "after"] * 3
    shares = found.shares.table
    expected = shares[shares["when"] != "change"]["estimate"]
    np.testing.assert_allclose(data["estimate"][:4], expected)


def test_the_legend_of_a_page_lies_below_the_panel(fit: ss.FitResult) -> None:
    with page_style():
        picture = plots.choice_probabilities(fit, "school", axes=page_axes(1, width=4, height=3))
    draw_svg(picture, "chances", "chances")
    axis = picture.axes[0]
    assert axis.get_legend().get_window_extent().y1 < axis.get_window_extent().y0

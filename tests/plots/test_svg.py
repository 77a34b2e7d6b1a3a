"""Pictures as SVG: the same text every time, safe in a page, with places that answer."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.plots.base import Picture
from selfselect.plots.svg import draw_svg, page_axes, page_style

HOSTILE = '<script>alert(1)</script>--><!-- "x"'


def drawn(fit: ss.FitResult, name: str = "one") -> tuple[str, tuple[tuple[float, float, str], ...]]:
    with page_style():
        picture = ss.plots.selection_lines(fit, fit.problem.equations.covariates[0])
    (drawing,) = draw_svg(picture, name, "lines")
    return drawing.svg, drawing.marks


def test_axes_of_their_own_figures_become_drawings_of_their_own(known: ss.FitResult) -> None:
    with page_style():
        axes = page_axes(2, sharey=True)
        picture = ss.plots.selection_lines(known, "height", axes=axes)
    drawings = draw_svg(picture, "lines", "both")
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert len(drawings) == 2
    outcomes = [sum(", income " in said for *_, said in one.marks) for one in drawings]
    assert outcomes == known.counts.tolist()


@pytest.fixture(scope="module")
def hostile() -> ss.FitResult:
    rng = np.random.default_rng([5, 1])
    x = rng.normal(size=(200, 2))
    latent = x + rng.normal(size=(200, 2))
    table = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": latent.max(axis=1)})
    table["who"] = np.where(latent[:, 0] > latent[:, 1], HOSTILE, "b")
    return ss.fit("y ~ x1 + x2", table, chosen="who")


def test_the_same_picture_is_the_same_text(known: ss.FitResult) -> None:
    assert drawn(known) == drawn(known)


def test_names_inside_do_not_clash_with_those_of_another_picture(known: ss.FitResult) -> None:
    names = [set(re.findall(r' id="([^"]+)"', drawn(known, name)[0])) for name in ("one", "two")]
    assert names[0] and not names[0] & names[1]
    text = drawn(known, "one")[0]
    for used in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
        assert set(used) - {""} <= names[0]


def test_a_hostile_label_is_text(hostile: ss.FitResult) -> None:
    svg, marks = drawn(hostile)
    assert "<script" not in svg and "<!--" not in svg
    shown = ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("text")]
    assert HOSTILE in shown
    assert marks


def test_points_are_those_that_matplotlib_draws(
    known: ss.FitResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(svg: str) -> str:
        return re.sub(r'id="one-1-(PathCollection_|points-)\d+"', "", svg)

    quick = drawn(known)
    monkeypatch.setattr("selfselect.plots.svg._scatters", lambda _: {})
    slow = drawn(known)
    assert "points-0" in quick[0] and "points-0" not in slow[0]
    assert shown(quick[0]) == shown(slow[0]) and quick[1] == slow[1]


@pytest.mark.parametrize(("limits", "visible"), [((0.0, 1.0), 2), ((4.0, 9.0), 6), ((90, 99), 0)])
def test_points_that_lie_beyond_the_drawing_are_left_out(
    limits: tuple[float, float], visible: int
) -> None:
    with page_style():
        (axis,) = page_axes(1)
        axis.scatter([*range(20), np.nan], [0.5] * 21, s=9, color="#404040")
        axis.set(xlim=limits, ylim=(0, 1))
    (drawing,) = draw_svg(Picture((axis,), pd.DataFrame()), "one", "points")
    root = ElementTree.fromstring(drawing.svg)
    (group,) = (one for one in root.iter("g") if one.get("id") == "one-1-points-0")
    places = [float(point.get("x", "nan")) for point in group.iter("use")]
    assert all(0.0 <= x <= drawing.width for x in places)
    box = axis.get_window_extent()
    assert sum(box.x0 - 0.1 <= x <= box.x1 + 0.1 for x in places) == visible


def test_a_picture_that_was_put_into_a_page_still_has_all_its_points(known: ss.FitResult) -> None:
    with page_style():
        picture = ss.plots.residuals(known)
    points = [
        one for axis in picture.axes for one in axis.collections if len(one.get_offsets()) > 2
    ]
    counts = [len(one.get_offsets()) for one in points]
    draw_svg(picture, "one", "residuals")
    assert counts and [len(one.get_offsets()) for one in points] == counts
    assert all("draw" not in vars(one) and one.get_gid() is None for one in points)


def test_marks_lie_where_the_points_are_drawn(known: ss.FitResult) -> None:
    svg, marks = drawn(known)
    drawn_at = {
        (float(x), float(y)) for x, y in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg)
    }
    places = np.array(sorted(drawn_at))
    found = [
        np.abs(places - [x, y]).max(axis=1).min() for x, y, said in marks if ", income " in said
    ]
    assert len(found) == known.nobs
    assert max(found) <= 0.11


def test_colours_are_left_to_the_page(known: ss.FitResult) -> None:
    svg, _ = drawn(known)
    assert re.findall(r"#[0-9a-f]{6}\b", svg) == []
    assert "var(--blue)" in svg and "var(--orange)" in svg


def test_long_names_of_rows_take_two_lines_and_stay_in_their_panel() -> None:
    long = {"fishing": "Managerial and professional occupations of all kinds",
            "hunting": "$1 to $2 an hour, paid in the village where they live"}  # fmt: skip
    table = ss.simulators.village(200, seed=1).data.replace({"job": long})
    fit = ss.fit("income ~ height", table, chosen="job")
    with page_style():
        picture = ss.plots.coefficients(fit, axes=page_axes(2, width=3.3, height=2.3))
    for drawing, axis in zip(draw_svg(picture, "one", "names"), picture.axes, strict=True):
        names = [label.get_text() for label in axis.get_yticklabels()]
        assert all(name.count("\n") == 1 and name.endswith("…") for name in names)
        assert names[1].startswith("Managerial and")
        extents = [label.get_window_extent() for label in axis.get_yticklabels()]
        assert min(extent.x0 for extent in extents) >= 0.0
        assert "$1 to $2" in drawing.svg

"""Pictures as SVG for a page: of one piece with it, and with places that answer when pointed at.

Colours become variables of the page, so that it can be light or dark; names inside become unique,
so that many pictures share a page; and the same picture always gives the same text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from threading import RLock
from typing import Any, Protocol
from xml.etree import ElementTree

import numpy as np

from selfselect.plots.base import Marks, need_matplotlib
from selfselect.visible import left_to_right

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "selfselect",
    "axes.facecolor": "none",
    "legend.facecolor": "#ffffff",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10.0,
    "figure.dpi": 72.0,
}
LETTER, LINE = 0.083, 0.24
"""Inches that a letter is wide and a line high, at ten points."""

HANDLE = 0.6
"""Inches of a legend's entry beside its text."""
UNDER_TICKS = 0.29
"""Inches from an axis to its label, below the numbers at its ticks."""

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
COLOURS = {
    "#000000": "ink", "#262626": "ink", "#ffffff": "paper", "#404040": "seen", "#b8b8b8": "unseen",
    "#8c8c8c": "faint", "#cccccc": "faint", "#d55e00": "orange", "#0072b2": "blue",
    "#009e73": "green", "#cc79a7": "purple", "#e69f00": "amber", "#56b4e9": "sky",
}  # fmt: skip
"""What the page calls the colours of the plots room."""


class HasMarks(Protocol):
    """Any picture of the plots room."""

    @property
    def axes(self) -> tuple[Any, ...]:
        """What was drawn on."""

    @property
    def marks(self) -> tuple[Marks, ...]:
        """Places that have something to say."""


@dataclass(frozen=True)
class Drawing:
    """A figure as text.

    Attributes
    ----------
    svg : one element, safe to stand in a page.
    width : of the figure, in the units of the marks.
    marks : (x, y, text) in the figure's own units, for what shows values when pointed at.
    """

    svg: str
    width: float
    marks: tuple[tuple[float, float, str], ...]


ONE_BY_ONE = RLock()
"""Held by the thread that draws: matplotlib has one style for all of them."""


@contextmanager
def page_style() -> Iterator[None]:
    """Draw pictures for a page, one thread at a time."""
    need_matplotlib()
    from matplotlib import rc_context

    with ONE_BY_ONE, rc_context(SETTINGS):
        yield


def page_axes(
    n_axes: int, *, width: float = 4.4, height: float = 3.5, sharey: bool = False
) -> tuple[Any, ...]:
    """Return new axes, each a figure of its own that a page can put where there is room."""
    from matplotlib.figure import Figure

    axes: list[Any] = []
    for _ in range(n_axes):
        figure = Figure(figsize=(width, height))
        axes.append(figure.add_subplot(sharey=axes[0] if sharey and axes else None))
    return tuple(axes)


def draw_svg(picture: HasMarks, name: str, description: str) -> tuple[Drawing, ...]:
    """Turn a picture, drawn in `page_style`, into SVG: one drawing per figure.

    Parameters
    ----------
    picture : of the plots room.
    name : unique on the page; put before every name inside.
    description : for those who cannot see it.
    """
    figures = dict.fromkeys(axis.figure for axis in picture.axes)
    return tuple(
        _draw_figure(picture, figure, f"{name}-{number}", description)
        for number, figure in enumerate(figures, 1)
    )


def _make_room(figure: Any) -> None:
    """Leave margins for the labels of a figure with one panel.

    Measuring them as matplotlib's layouts do takes as long as drawing; counting letters is enough,
    since the page lets a picture overflow a little.
    """
    (axis,) = figure.axes
    below = _legend_below(figure, axis)
    width, height = figure.get_size_inches()
    beside = 0.2 + (LINE if axis.get_ylabel() else 0.0)
    longest = _fold_names(axis, int((0.5 * width - beside) / LETTER))
    slanted = min(_slanted(axis), 0.4 * height)
    left = min(beside + LETTER * longest, 0.5 * width)
    bottom = 0.1 + LINE + (LINE if axis.get_xlabel() else 0.0) + below + slanted
    top = 0.1 + (LINE if axis.get_title() else 0.0)
    figure.subplots_adjust(
        left=left / width, right=1.0 - 0.15 / width, bottom=bottom / height, top=1.0 - top / height
    )
    # Labels with a place of their own spare matplotlib measuring those of all ticks once more.
    inside = axis.get_position()
    axis.xaxis.set_label_coords(
        0.5 * (inside.x0 + inside.x1), (bottom - UNDER_TICKS - slanted) / height, figure.transFigure
    )
    axis.yaxis.set_label_coords(
        0.95 * LINE / width, 0.5 * (inside.y0 + inside.y1), figure.transFigure
    )


def _fold_names(axis: Any, most: int) -> int:
    """Fold the names of rows that are longer than `most` letters; return the longest line's."""
    names = [label.get_text() for label in axis.get_yticklabels()]
    if max(map(len, names), default=0) > most:
        # Dollars are escaped once lines are broken: a lone one would begin mathematics.
        folded = [
            "\n".join(wrap(name.replace(r"\$", "$"), most, max_lines=2, placeholder="…")).replace(
                "$", r"\$"
            )
            for name in names
        ]
        axis.set_yticks(axis.get_yticks(), folded)
        names = "\n".join(folded).split("\n")
    return max(map(len, names), default=0)


def _slanted(axis: Any) -> float:
    """Return the inches that slanted labels of categories need beyond a line."""
    labels = [label for label in axis.get_xticklabels() if label.get_rotation()]
    return 0.5 * LETTER * max((len(label.get_text()) for label in labels), default=0)


def _legend_below(figure: Any, axis: Any) -> float:
    """Put the legend below the panel, where it covers nothing; return how high it is, in inches."""
    legend = axis.get_legend()
    if legend is None:
        return 0.0
    texts = [text.get_text() for text in legend.get_texts()]
    handles, labels = axis.get_legend_handles_labels()
    if labels != texts:
        handles = legend.legend_handles
    width, height = figure.get_size_inches()
    columns = max(1, int(width / (LETTER * max(map(len, texts), default=0) + HANDLE)))
    lines = -(-len(texts) // columns)
    figure.set_size_inches(width, height + lines * LINE)
    axis.legend(
        handles, texts, loc="lower left", bbox_to_anchor=(0.0, 0.0), borderaxespad=0.2,
        bbox_transform=figure.transFigure, ncols=columns, frameon=False, fontsize="small",
    )  # fmt: skip
    return lines * LINE


def _draw_figure(picture: HasMarks, figure: Any, name: str, description: str) -> Drawing:
    if figure.get_layout_engine() is None and len(figure.axes) == 1:
        _make_room(figure)
    text, scatters = io.StringIO(), _scatters(figure)
    with page_style(), warnings.catch_warnings(), _first_points_only(scatters):
        # The page has fonts of its own for letters that matplotlib's lacks.
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="none")
    width, height = figure.get_size_inches() * 72.0
    points = {gid: _places(scatter, float(height)) for gid, scatter in scatters.items()}
    marks = tuple(
        entry
        for part in picture.marks
        if picture.axes[part.axis].figure is figure
        for entry in _located(picture, part, float(height))
    )
    svg = _cleaned(text.getvalue(), name, description, points)
    return Drawing(svg, float(width), marks)


def _scatters(figure: Any) -> dict[str, Any]:
    """Return the scatters of a figure whose points all look alike, by the names they get."""
    from matplotlib.collections import PathCollection

    every: list[Any] = [one for axis in figure.axes for one in axis.collections]
    alike = [one for one in every if isinstance(one, PathCollection) and _look_alike(one)]
    return {f"points-{number}": one for number, one in enumerate(alike)}


def _look_alike(scatter: Any) -> bool:
    looks = (
        scatter.get_paths(),
        scatter.get_facecolor(),
        scatter.get_edgecolor(),
        scatter.get_linewidth(),
        scatter.get_sizes(),
    )
    return len(scatter.get_offsets()) > 2 and max(map(len, looks)) <= 1


@contextmanager
def _first_points_only(scatters: dict[str, Any]) -> Iterator[None]:
    """Let matplotlib draw one point of each scatter: it takes as long over each as over a line.

    Only drawing sees one point. Whoever looks for a free corner, as a legend does, sees all.
    """

    def drawing(scatter: Any, draw: Any, renderer: Any) -> None:
        offsets = scatter.get_offsets()
        scatter.set_offsets(offsets[_on_page(scatter)][:1])
        draw(renderer)
        scatter.set_offsets(offsets)

    gids = {gid: scatter.get_gid() for gid, scatter in scatters.items()}
    for gid, scatter in scatters.items():
        scatter.set_gid(gid)
        scatter.draw = partial(drawing, scatter, scatter.draw)
    try:
        yield
    finally:
        for gid, scatter in scatters.items():
            scatter.set_gid(gids[gid])
            del scatter.draw


def _placed(scatter: Any) -> Any:
    """Return where the points of a scatter lie, in the units of the drawing, from its foot."""
    places = scatter.get_offset_transform().transform(np.asarray(scatter.get_offsets()))
    return places * (72.0 / scatter.figure.dpi)


def _on_page(scatter: Any) -> Any:
    """Say which points of a scatter lie within the drawing: matplotlib writes no others."""
    places, size = _placed(scatter), scatter.figure.get_size_inches() * 72.0
    return ((places >= 0.0) & (places <= size)).all(axis=1)


def _places(scatter: Any, height: float) -> Any:
    """Return where the points lie that can be seen, from the top of the drawing."""
    return _placed(scatter)[_on_page(scatter)] * [1.0, -1.0] + [0.0, height]


def _located(picture: HasMarks, marks: Marks, height: float) -> list[tuple[float, float, str]]:
    axis = picture.axes[marks.axis]
    places = axis.transData.transform(np.column_stack([marks.x, marks.y]))
    places *= 72.0 / axis.figure.dpi
    box = axis.get_window_extent()
    low, high = np.array([box.p0, box.p1]) * 72.0 / axis.figure.dpi
    inside = ((places >= low - 2.0) & (places <= high + 2.0)).all(axis=1)
    return [
        (round(float(x), 1), round(float(height - y), 1), left_to_right(said))
        for (x, y), said, shown in zip(places, marks.texts, inside, strict=True)
        if shown
    ]


def _cleaned(text: str, name: str, description: str, points: dict[str, Any]) -> str:
    # Parsing drops comments, into which matplotlib writes labels as they are.
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        element.tail = None
        if element.tag not in ("text", "tspan"):
            element.text = None
        given = {key.removeprefix(XLINK): value for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({key: _renamed(key, value, name) for key, value in given.items()})
    for group in root.iter("g"):
        _share_style(group)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", left_to_right(description))
    written = [
        _all_points(root, f"{name}-{gid}", places) for gid, places in points.items() if len(places)
    ]
    made: str = ElementTree.tostring(root, encoding="unicode")
    for one, many in written:
        made = made.replace(one, many, 1)
    return made


def _all_points(root: ElementTree.Element, gid: str, places: Any) -> tuple[str, str]:
    """Return the text of the one point of a scatter that was drawn, and that of all its points."""
    (parent,) = (
        group
        for whole in root.iter("g")
        if whole.get("id") == gid
        for group in whole.iter("g")
        if group.find("use") is not None
    )
    (point,) = parent.findall("use")
    parent.set("style", point.attrib.pop("style", ""))
    link = point.get("href")
    many = "".join(f'<use href="{link}" x="{x:.1f}" y="{y:.1f}" />' for x, y in places.tolist())
    return ElementTree.tostring(point, encoding="unicode"), many


def _renamed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value.removeprefix('#')}"
    if key in ("clip-path", "style"):
        value = value.replace("url(#", f"url(#{name}-")
    if key == "style":
        value = re.sub(r"#[0-9a-f]{6}", _variable, value)
        # The page chooses the fonts; sizes stay.
        value = re.sub(r"font-family: [^;]*(; )?", "", value)
    digits = {"x": 1, "y": 1, "d": 2, "transform": 2}.get(key)
    if digits is not None:
        value = re.sub(r"\d+\.\d+", lambda number: f"{float(number.group()):.{digits}f}", value)
    return " ".join(value.split())


def _variable(colour: re.Match[str]) -> str:
    known = COLOURS.get(colour.group())
    return f"var(--{known})" if known else colour.group()


def _share_style(group: ElementTree.Element) -> None:
    """Say once what all points of a scatter look like."""
    points = [child for child in group if child.tag == "use"]
    styles = {point.get("style") for point in points}
    if len(points) > 2 and len(points) == len(group) and len(styles) == 1:
        (style,) = styles
        group.set("style", style or "")
        for point in points:
            point.attrib.pop("style", None)

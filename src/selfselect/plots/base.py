"""The contract of pictures: axes, the numbers behind them, and how one looks in the family.

A picture is computed first and drawn after. It must be readable without colour: alternatives
differ by line style and marker too, and the colours (Okabe and Ito's) differ in lightness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import MissingDependencyError, OptionError
from selfselect.visible import on_one_line

__all__ = [
    "CORRECTED",
    "FAINT",
    "INK",
    "NAIVE",
    "OBSERVED",
    "UNOBSERVED",
    "Drawn",
    "Marks",
    "Picture",
    "Style",
    "check_drawn",
    "given_axes",
    "need_matplotlib",
    "new_axes",
    "plain",
    "pyplot",
    "records",
    "short",
    "style_of",
    "texts",
]

Array = NDArray[np.float64]

INK, FAINT = "#262626", "#8c8c8c"
OBSERVED, UNOBSERVED = "#404040", "#b8b8b8"
NAIVE, CORRECTED = "#d55e00", "#0072b2"

DRAWN = {
    "FitResult": ("a fit", "fit = selfselect.fit(...), or selfselect.load('fit.json')"),
    "Bounds": ("bounds", "selfselect.bounds(...), or fit.bounds()"),
    "Gains": ("gains", "fit.gains(...)"),
    "MarginalTreatment": ("marginal treatment effects", "fit.mte(...)"),
    "Counterfactual": ("a change", "fit.counterfactual(...)"),
    "Sensitivity": ("a sensitivity", "fit.sensitivity()"),
}
"""What pictures are of, by the class, and what returns it."""


@dataclass(frozen=True)
class Style:
    """How one alternative is drawn, whatever the picture."""

    colour: str
    line: Any
    marker: str


_STYLES = (
    Style("#0072b2", "-", "o"),
    Style("#d55e00", "--", "s"),
    Style("#009e73", "-.", "^"),
    Style("#cc79a7", ":", "D"),
    Style("#404040", (0, (7, 2)), "v"),
    Style("#e69f00", (0, (3, 1, 1, 1, 1, 1)), "P"),
    Style("#56b4e9", (0, (1, 2)), "X"),
)


def style_of(alternative: int) -> Style:
    """Return the style of the alternative at a position; they repeat after seven."""
    return _STYLES[alternative % len(_STYLES)]


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of a picture that show a value when pointed at.

    Attributes
    ----------
    axis : which of the picture's axes they lie on.
    x, y : where, in the axis' data.
    texts : what each one says.
    """

    axis: int
    x: Array
    y: Array
    texts: tuple[str, ...]


class Drawn:
    """What has been drawn on axes: shows itself in a notebook, and prints as one line."""

    axes: tuple[Any, ...]

    @property
    def figure(self) -> Any:
        """The matplotlib figure that was drawn on, to save or to change."""
        return self.axes[0].figure

    def __repr__(self) -> str:
        tables = [name for name, one in vars(self).items() if isinstance(one, pd.DataFrame)]
        held = ", ".join(f"{len(vars(self)[name])} rows in .{name}" for name in tables)
        return f"<{type(self).__name__}: {held}; .figure saves it>"

    def _repr_png_(self) -> bytes:
        """Show the picture in a notebook, once: its figure leaves pyplot's list of open ones."""
        from io import BytesIO

        page = BytesIO()
        self.figure.savefig(page, format="png", bbox_inches="tight", dpi=110)
        pyplot().close(self.figure)
        return page.getvalue()


@dataclass(frozen=True, eq=False, repr=False)
class Picture(Drawn):
    """What a picture shows: its axes, and the numbers behind it.

    Attributes
    ----------
    axes : what was drawn on.
    data : the numbers that were drawn, as a tidy table.
    marks : places that have something to say when pointed at, for pages that can.
    """

    axes: tuple[Any, ...]
    data: pd.DataFrame
    marks: tuple[Marks, ...] = ()


def pyplot() -> Any:
    """Return matplotlib's pyplot, or say how to get it."""
    need_matplotlib()
    from matplotlib import pyplot as found

    return found


def need_matplotlib() -> None:
    """Say how to get matplotlib where it is not installed, and what it lacks where it is."""
    try:
        import matplotlib

        matplotlib.get_cachedir()
    except ImportError as error:
        raise MissingDependencyError(
            "Pictures need matplotlib: pip install 'selfselect[plot]'"
        ) from error
    except OSError as error:
        raise MissingDependencyError(
            "Pictures need matplotlib, and matplotlib needs a folder that it may write to: set the "
            "environment variable MPLCONFIGDIR to one."
        ) from error


def new_axes(
    n_axes: int, *, width: float = 4.6, height: float = 4.2, columns: int = 3, sharey: bool = False
) -> tuple[Any, ...]:
    """Return new axes, side by side and wrapped after `columns`."""
    columns = min(n_axes, columns)
    lines = -(-n_axes // columns)
    _, grid = pyplot().subplots(
        lines, columns, figsize=(width * columns, height * lines),
        layout="constrained", squeeze=False, sharey=sharey,
    )  # fmt: skip
    every = tuple(grid.ravel())
    for unused in every[n_axes:]:
        unused.remove()
    return every[:n_axes]


def given_axes(axes: Any, n_axes: int, what: str) -> tuple[Any, ...]:
    """Check that the axes a caller gave are as many as are needed."""
    found = tuple(np.atleast_1d(axes).ravel())
    if len(found) != n_axes:
        raise OptionError(f"{len(found)} axes are given for {n_axes} {what}. Give one for each.")
    return found


def check_drawn(given: object, kind: str) -> None:
    """Refuse to draw another object than one of the class that a picture is of."""
    if kind not in (one.__name__ for one in type(given).__mro__):
        from_where, example = DRAWN[kind]
        raise OptionError(
            f"This picture is of {from_where}, not of a {type(given).__name__}. Give it that: "
            f"{example}."
        )


def plain(text: object) -> str:
    r"""Return a user's text so that matplotlib shows it as it is.

    Dollars would be read as mathematics, a leading underscore hides a legend entry, and control
    characters have no glyph and no place in SVG.
    """
    clean = on_one_line(str(text))
    return (" " if clean.startswith("_") else "") + clean.replace("$", r"\$")


def records(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a table, whose fields are named as its columns."""
    yield from table.itertuples(index=False)


def short(value: float) -> str:
    """Write a number with four digits."""
    return f"{value:.4g}"


def texts(*columns: tuple[str, Sequence[Any] | NDArray[Any]]) -> tuple[str, ...]:
    """Word one text per row from named columns of numbers or labels."""
    names = [name for name, _ in columns]
    return tuple(
        ", ".join(
            f"{name} {short(value) if isinstance(value, float) else value}"
            for name, value in zip(names, row, strict=True)
        )
        for row in zip(*(values for _, values in columns), strict=True)
    )

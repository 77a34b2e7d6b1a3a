"""What all pictures return and how all look, and lines along a covariate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import FormulaCoding
from selfselect.data.long import LongCoding
from selfselect.data.rows import Rows
from selfselect.data.tables import nearest
from selfselect.errors import MissingDependencyError, OptionError
from selfselect.results.averaged_rows import is_category as is_category_of
from selfselect.results.averaged_rows import typical_value
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# The contract of pictures: axes, the numbers behind them, and how one looks in the family.
#
# A picture is computed first and drawn after. It must be readable without colour: alternatives
# differ by line style and marker too, and the colours (Okabe and Ito's) differ in lightness.


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


# Walks along one covariate with the others at their means.


STEPS = 41
MOST_CATEGORIES = 12


@dataclass(frozen=True, eq=False)
class Path:
    """A walk along one covariate.

    Attributes
    ----------
    of_rows : (n,) its value in each row of the fit.
    grid : (m,) the values walked through.
    rows : coded rows at those values, the other columns at their means.
    """

    of_rows: Array
    grid: Array
    rows: Rows


def columns_of(fit: FitResult) -> pd.DataFrame:
    """Return the columns that the right sides of the formulas use, as they were given.

    What a formula takes as categories, ``C(year)``, is of a categorical type.
    """
    if fit.table is not None and isinstance(fit.coding, FormulaCoding):
        table = fit.table[list(fit.coding.columns)]
        made = [name for name in table if is_category_of(fit, table[name])]
        plain = [name for name in made if not is_category(table[name])]
        return table.astype(dict.fromkeys(plain, "category")) if plain else table
    return pd.DataFrame(fit.rows.covariates, columns=list(fit.problem.equations.covariates))


def is_category(values: pd.Series[Any]) -> bool:
    """Whether a column holds categories: text, booleans or a categorical type."""
    return pd.api.types.is_bool_dtype(values) or not pd.api.types.is_numeric_dtype(values)


def grid_of(values: pd.Series[Any]) -> NDArray[Any]:
    """Return the values to walk through: the commonest categories, or numbers from end to end.

    Rows of another outcome may lack a value.

    Only values that were met are taken, since a formula may know no others. Categories of a
    categorical type stand in its order, others are sorted.
    """
    values = values.dropna()
    if is_category(values):
        counts = values.value_counts()
        commonest = set(counts[counts > 0].index[:MOST_CATEGORIES])
        if isinstance(values.dtype, pd.CategoricalDtype):
            ordered = [label for label in values.cat.categories if label in commonest]
        else:
            ordered = sorted(commonest, key=str)
        found = np.empty(len(ordered), dtype=object)
        found[:] = ordered
        return found
    met: Array = np.unique(values.to_numpy(dtype=float))
    low, high = np.quantile(values.to_numpy(dtype=float), [0.005, 0.995])
    place = np.searchsorted(met, np.linspace(low, high, STEPS))
    return np.asarray(met[np.unique(np.clip(place, 0, len(met) - 1))])


def walk_along(fit: FitResult, covariate: str) -> Path:
    """Walk along a numeric column, or along one term where no column has that name."""
    table = columns_of(fit)
    terms = fit.problem.equations.covariates
    long = isinstance(fit.coding, LongCoding)
    if not long and covariate in table and not is_category(table[covariate]):
        grid = grid_of(table[covariate])
        weights = fit.rows.weights
        typical = {
            name: typical_value(table[name], weights, category=is_category(table[name]))
            for name in table
        }
        made = pd.DataFrame({name: [value] * len(grid) for name, value in typical.items()})
        made[covariate] = grid
        plain: Any = made if isinstance(fit.coding, FormulaCoding) else made.to_numpy(dtype=float)
        rows = fit.coding.code(plain, with_known=False).rows
        return Path(table[covariate].to_numpy(dtype=float), grid, rows)
    if covariate in terms:
        position = terms.index(covariate)
        values = fit.rows.covariates[:, position]
        grid = grid_of(pd.Series(values))
        known = np.ma.masked_invalid(fit.rows.covariates)
        means = np.asarray(np.ma.average(known, axis=0, weights=fit.rows.weights))
        at = np.tile(means, (len(grid), 1))
        at[:, position] = grid
        return Path(values, grid, Rows(at))
    numeric = [str(name) for name in table if not is_category(table[name])]
    hint = nearest(covariate, dict.fromkeys((*numeric, *terms)))
    if covariate in table:
        raise OptionError(f"{covariate!r} holds categories, along which there is no line.{hint}")
    raise OptionError(f"There is no covariate {covariate!r} in the fit.{hint}")


# What is drawn along a covariate: one line or one row of points per alternative, with bands.


APART = 0.12
"""How far the points of alternatives stand apart where they share a category."""


def values_along(fit: FitResult, covariate: str) -> pd.Series[Any]:
    """Return the values of a column to walk through, or say which columns there are."""
    table = columns_of(fit)
    if covariate not in table:
        raise OptionError(
            f"There is no covariate {covariate!r} in the fit.{nearest(covariate, table.columns)}"
        )
    return pd.Series(grid_of(table[covariate]))


def draw_along(
    axis: Any,
    data: pd.DataFrame,
    labels: Sequence[Any],
    covariate: str,
    said: Callable[[Any], str],
) -> tuple[Marks, ...]:
    """Draw estimates of every alternative along a covariate, with bands.

    Parameters
    ----------
    axis : matplotlib axes.
    data : ``value``, ``alternative``, ``estimate``, ``std_error``, ``conf_low`` and ``conf_high``,
        sorted by value.
    labels : the alternatives.
    covariate : the name of the column.
    said : what a row of `data` says when pointed at.
    """
    categories = is_category(data["value"])
    marks = tuple(
        _draw(axis, data[data["alternative"] == label], j, len(labels), covariate, said)
        for j, label in enumerate(labels)
    )
    if categories:
        names = [plain(value) for value in data["value"].drop_duplicates()]
        crowded = sum(map(len, names)) > 40
        axis.set_xticks(
            range(len(names)),
            names,
            rotation=30 if crowded else 0,
            ha="right" if crowded else "center",
        )
    axis.set_xlabel(plain(covariate))
    axis.legend(loc="best", fontsize="small", framealpha=0.9)
    return marks


def _draw(
    axis: Any, own: pd.DataFrame, j: int, k: int, covariate: str, said: Callable[[Any], str]
) -> Marks:
    style, label = style_of(j), plain(own["alternative"].iloc[0])
    categories = is_category(own["value"])
    x = np.arange(len(own), dtype=float) if categories else own["value"].to_numpy(dtype=float)
    y = own["estimate"].to_numpy(dtype=float)
    ends = np.nan_to_num([y - own["conf_low"], own["conf_high"] - y])
    if categories or len(own) <= 3:
        if categories:
            x = x + APART * (j - 0.5 * (k - 1)) * min(1.0, 6.0 / k)
        axis.errorbar(
            x, y, yerr=ends, fmt=style.marker, color=style.colour, ms=6, lw=1.8, label=label
        )
    else:
        axis.fill_between(x, y - ends[0], y + ends[1], color=style.colour, alpha=0.15, lw=0)
        axis.plot(
            x, y, ls=style.line, marker=style.marker, color=style.colour, lw=2.0, ms=5,
            markevery=max(1, len(x) // 5), label=label,
        )  # fmt: skip
    texts = tuple(
        f"{covariate} {one.value if categories else short(one.value)}: {said(one)}"
        for one in records(own)
    )
    return Marks(0, x, y, texts)

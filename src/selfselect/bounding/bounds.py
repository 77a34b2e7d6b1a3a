"""Bounds as a result: tables, tests, a page and the parametric answer beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.inference.statistics import TestResult
from selfselect.results.tables import Tables

if TYPE_CHECKING:
    from selfselect.plots.base import Picture
    from selfselect.report.page import Block, Page

__all__ = ["INSIDE", "Bounds"]

INSIDE = (
    "A correct model with this rule lies inside the bounds whatever its noise: a fit outside "
    "them is misspecified, a fit inside them is not confirmed."
)

LEVELS = (
    "Bounds hold for any distribution and correlation of the noise. Intervals cover both bounds, "
    "separately for each quantity."
)


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Tables):
    """What the rule alone says of potential outcomes and of the difference of two.

    Attributes
    ----------
    distribution : bounds of distribution functions, at the values ``at``.
    quantiles : bounds of quantiles; infinite where the rule and the support set no limit.
    means : bounds of means; finite on both sides only with a support.
    tests : of the rule, where there is an instrument.
    level : of the intervals ``conf_low`` to ``conf_high``, which cover both bounds.
    by : names of the columns that cells are made of.
    n_rows : rows in all.
    warnings, notes : sentences.

    The tables name cells, then ``of``, an outcome or a difference. Where they are of a fit, the
    column ``fit`` is what it says of the same number.
    """

    distribution: pd.DataFrame
    quantiles: pd.DataFrame
    means: pd.DataFrame
    tests: tuple[TestResult, ...]
    level: float
    by: tuple[str, ...]
    n_rows: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def outside(self) -> pd.DataFrame:
        """Return what a fit says that lies outside the confidence limits of the bounds."""
        kept = []
        for what in ("means", "quantiles", "distribution"):
            table: pd.DataFrame = getattr(self, what)
            if "fit" not in table:
                return pd.DataFrame()
            out = (table["fit"] < table["conf_low"]) | (table["fit"] > table["conf_high"])
            kept.append(table[out].assign(what=what))
        return pd.concat(kept, ignore_index=True)

    def plot(self, of: Sequence[str] | None = None, *, axes: Any = None) -> Picture:
        """Draw the bounds of distributions as bands; see `selfselect.plots.bounds`."""
        from selfselect.plots.bounds import bounds

        return bounds(self, of, axes=axes)

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Page

        facts = (("Rows", f"{self.n_rows}"), ("Confidence", f"{100 * self.level:g}%"))
        tests = tuple(str(one) + "." for one in self.tests)
        notes = (*tests, LEVELS, *self.notes)
        if "fit" in self.means:
            notes = (*notes, INSIDE)
        blocks = (*self._blocks("means", []), *self._blocks("quantiles", ["quantile"]))
        return Page("What the rule alone implies", self.warnings, facts, blocks, notes)

    def _blocks(self, what: str, keys: list[str]) -> tuple[Block, ...]:
        from selfselect.report.page import Block

        table: pd.DataFrame = getattr(self, what)
        numbers = [name for name in ("lower", "upper", "conf_low", "conf_high", "fit")
                   if name in table]  # fmt: skip
        tail = 50.0 * (1.0 - self.level)
        shown = {"conf_low": f"[{tail:g}%", "conf_high": f"{100 - tail:g}%]"}
        header = ("", *(shown.get(name, name) for name in numbers))
        outer = [*self.by, "of"] if keys else list(self.by)
        inner = keys or ["of"]
        groups = table.groupby(outer, sort=False, observed=True) if outer else [((), table)]
        blocks = []
        for values, own in groups:
            pairs = zip(outer, values, strict=True)
            named = ", ".join(str(v) if name == "of" else f"{name} = {v}" for name, v in pairs)
            lines = tuple(
                (
                    " ".join(str(one[key]) for key in inner),
                    *(_written(one[name]) for name in numbers),
                )
                for _, one in own.iterrows()
            )
            title = {"means": "Mean", "quantiles": "Quantiles of"}[what]
            blocks.append(
                Block(
                    f"{title}{', ' if what == 'means' and named else ' '}{named}".strip(),
                    header,
                    lines,
                )
            )
        return tuple(blocks)

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _written(value: float) -> str:
    from selfselect.report.numbers import format_number

    if np.isnan(value):
        return ""
    return format_number(value) if np.isfinite(value) else ("-inf" if value < 0 else "inf")

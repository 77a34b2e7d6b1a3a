"""What a fit says of the numbers that are bounded: the parametric answer, by draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.bounding.bounds import Bounds
from selfselect.bounding.cells import Cells
from selfselect.bounding.targets import Targets
from selfselect.data.rows import Rows
from selfselect.engines._sampling import spread_evenly
from selfselect.inference.simulation import draw_noise

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["beside_fit"]

Array = NDArray[np.float64]

ROWS, DRAWS = 20_000, 200_000
"""Rows that outcomes are drawn for, and draws in all: shares are good to a thousandth."""


def beside_fit(
    fit: FitResult, found: Bounds, targets: Targets, cells: Cells, with_cells: Rows | None
) -> Bounds:
    """Add what a fit says of every number, and say where it lies outside the bounds.

    Parameters
    ----------
    fit : of the same rule.
    found : bounds of its rows.
    targets, cells : what they are of.
    with_cells : the rows with the columns that tell cells apart; None where there are no cells.
    """
    rng = np.random.default_rng(0)
    if with_cells is None:
        rows = fit.engine_of_rows().sample(ROWS, rng).rows
        code = np.zeros(len(rows), dtype=np.intp)
    else:
        which = np.arange(len(with_cells))
        if len(which) > ROWS:
            which = spread_evenly(len(with_cells), ROWS, rng)
        rows = fit.rows.take(which)
        code = Cells(cells.by).codes(with_cells.take(which))
    natural = fit.problem.layout.natural(fit.solution.free)
    times = max(1, DRAWS // len(rows))
    every, copy = np.tile(np.arange(len(rows)), times), np.repeat(np.arange(times), len(rows))
    rows = rows.copies(every, copy)
    noise = draw_noise(fit.problem, natural, len(rows), rng)
    latent = fit.problem.likelihood.draw_latent(natural, rows, noise, rng)
    values = targets.latent(latent)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    answers: dict[tuple[Any, ...], _Drawn] = {}
    for named, codes in Cells(cells.by).groups():
        own = code[every] == codes[0]
        for place, name in enumerate(targets.names):
            answers[(*named, name)] = _Drawn.of(values[own, place], weights[own])
    tables = {
        what: _with_fit(getattr(found, what), found.by, answers, key)
        for what, key in (("distribution", "at"), ("quantiles", "quantile"), ("means", None))
    }
    found = replace(found, **tables)  # type: ignore[arg-type]
    out = found.outside()
    if not len(out):
        return found
    named_outside = ", ".join(dict.fromkeys(out["of"]))
    sentence = (
        f"OUTSIDE: the fit lies outside the bounds of {named_outside}, in {len(out)} of "
        f"{sum(map(len, tables.values()))} numbers. Either the model of outcomes and noise is "
        "wrong, or the rule is."
    )
    return replace(found, warnings=(*found.warnings, sentence))


class _Drawn:
    """Draws of one number, sorted, with the share of the weight up to each."""

    def __init__(self, values: Array, shares: Array, mean: float) -> None:
        self.values, self.shares, self.mean = values, shares, mean

    @classmethod
    def of(cls, values: Array, weights: Array) -> _Drawn:
        if not len(values) or weights.sum() <= 0:
            return cls(np.zeros(1), np.full(1, np.nan), float("nan"))
        order = np.argsort(values)
        shares = np.cumsum(weights[order]) / weights.sum()
        return cls(values[order], shares, float(weights @ values / weights.sum()))

    def share(self, value: float) -> float:
        place = int(np.searchsorted(self.values, value, side="right"))
        return float(self.shares[place - 1]) if place else 0.0

    def quantile(self, share: float) -> float:
        place = int(np.searchsorted(self.shares, share))
        return float(self.values[min(place, len(self.values) - 1)])


def _with_fit(
    table: pd.DataFrame,
    by: tuple[str, ...],
    answers: dict[tuple[Any, ...], _Drawn],
    key: str | None,
) -> pd.DataFrame:
    said = []
    for row in table.to_dict("records"):
        drawn = answers[(*(row[name] for name in by), row["of"])]
        if key is None:
            said.append(drawn.mean)
        else:
            said.append(drawn.share(row[key]) if key == "at" else drawn.quantile(row[key]))
    return table.assign(fit=said)

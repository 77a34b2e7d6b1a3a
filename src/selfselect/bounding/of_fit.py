"""Bounds of the rows of a fit, and what the fit says of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.bounding.ask import (
    cells_of,
    excluded_outcomes,
    kinds_of_columns,
    moved_by_costs,
    read_instrument,
    read_names,
    refuse_twice,
    saying_what_lacks,
)
from selfselect.bounding.bounds import Bounds, BoundsAsked, read_asked
from selfselect.bounding.compute import compute_bounds
from selfselect.bounding.targets import Cells, Targets
from selfselect.data.formulas import parse_formula
from selfselect.data.panels import learn_clusters
from selfselect.data.rows import Rows
from selfselect.engines.base import spread_evenly
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError
from selfselect.inference.simulation import draw_noise
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


def bounds(
    fit: FitResult,
    by: str | Sequence[str] | None = None,
    *,
    instrument: str | None = None,
    quantiles: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    points: Sequence[float] | None = None,
    support: Any = None,
    level: float = 0.95,
) -> Bounds:
    """Compute what the rule alone implies, beside the estimates of the fit.

    A correct fit lies inside these bounds: a fit outside them is misspecified, and a fit inside
    them is not confirmed. Parameters are those of `selfselect.bounds`; `by` and `instrument`
    are columns that the fit used. The rows must be in memory.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> len(result.bounds().outside())
    0
    """
    asked = read_asked(quantiles, points, support, level)
    with one_blas_thread():
        return _bounds(fit, by, instrument, asked)


def _bounds(fit: FitResult, by: Any, instrument: str | None, asked: BoundsAsked) -> Bounds:
    engine, problem = fit.engine_of_rows(), fit.problem
    targets = Targets.of(problem, asked.support)
    names, instrument = read_names(by), read_instrument(instrument)
    refuse_twice(names, instrument)
    every = names if instrument is None else (*names, instrument)
    own, cells, n_labels = engine, Cells(()), 0
    if every:
        frame = _columns_of(fit, every)
        numbers, labels = kinds_of_columns(frame, every)
        met, codes = learn_clusters(frame, labels)
        rows, n_labels = engine.rows, len(labels)
        clusters = [one.reshape(len(rows), -1) for one in (codes, rows.clusters) if one is not None]
        recorded = replace(
            rows,
            covariates=frame[list(numbers)].to_numpy(dtype=np.float64),
            clusters=np.hstack(clusters) if clusters else None,
        )
        # What a row says of the alternatives does not depend on its covariates.
        own = Memory().load(problem, recorded)
        levels = [list(one) for one in met]
        cells = cells_of(names, instrument, numbers, labels, levels, numbers, own)
    found = compute_bounds(
        targets,
        own,
        cells,
        asked,
        dependence=fit.dependence,
        first_cluster=n_labels,
        excluded=_excluded_from(fit, instrument),
        moved_by_costs=moved_by_costs(engine.sample(1, np.random.default_rng(0)).rows.known),
    )
    found = beside_fit(fit, found, targets, cells, own.rows if every else None)
    return saying_what_lacks(found, fit.facts)


@one_blas_thread()
def bounds_of_rows(fit: FitResult, asked: BoundsAsked, rows: Rows) -> Bounds:
    """Return the bounds of all rows of a fit together, with any weights, not what the fit says."""
    engine = fit.engine_of_rows() if rows is fit.rows else Memory().load(fit.problem, rows)
    return compute_bounds(
        Targets.of(fit.problem, asked.support),
        engine,
        Cells(()),
        asked,
        dependence=fit.dependence,
        first_cluster=0,
        excluded=(),
        moved_by_costs=False,
    )


def _excluded_from(fit: FitResult, instrument: str | None) -> tuple[int, ...]:
    """Return the alternatives of a fit in whose outcome the instrument has no part."""
    if instrument is None:
        return ()
    columns = [
        (
            *parse_formula(text).term_columns,
            *(t[7:-1] for t in one.terms if t.startswith("offset(")),
        )
        for text, one in zip(fit.facts.formulas, fit.problem.equations.each, strict=True)
    ]
    return excluded_outcomes(instrument, columns)


def _columns_of(fit: FitResult, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of the rows of a fit, as they were given."""
    for name in names:
        if fit.table is None or name not in fit.table:
            why = "its rows are not kept as a table"
            if fit.table is not None:
                why = f"it used the columns {', '.join(map(str, fit.table.columns))}"
            raise OptionError(
                f"The fit has no column {name!r}: {why}. Use selfselect.bounds(formula, data, "
                "...), which reads any column."
            )
    assert fit.table is not None
    return fit.table[list(names)]


# What a fit says of the numbers that are bounded: the parametric answer, by draws.


ROWS, DRAWS = 20_000, 200_000
"""Rows that outcomes are drawn for, and draws in all: shares are good to a thousandth."""

NOT_KNOWN = (
    "The fit says nothing of outcomes of alternatives that some cases have no row for: what they "
    "would be there is not known."
)


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
    if rows.known.described is not None:
        # What an alternative without a row would have brought a case is not known.
        latent = np.where(rows.known.described, latent, np.nan)
    values = targets.latent(latent)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    answers: dict[tuple[Any, ...], _SortedDraws] = {}
    for named, codes in Cells(cells.by).groups():
        own = code[every] == codes[0]
        for place, name in enumerate(targets.names):
            answers[(*named, name)] = _SortedDraws.of(values[own, place], weights[own])
    tables = {
        what: _with_fit(getattr(found, what), found.by, answers, key)
        for what, key in (("distribution", "at"), ("quantiles", "quantile"), ("means", None))
    }
    found = replace(found, **tables)  # type: ignore[arg-type]
    if rows.known.described is not None:
        found = replace(found, notes=(*found.notes, NOT_KNOWN))
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


class _SortedDraws:
    """Draws of one number, sorted, with the share of the weight up to each; none if some lack."""

    def __init__(self, values: Array, shares: Array, mean: float) -> None:
        self.values, self.shares, self.mean = values, shares, mean

    @classmethod
    def of(cls, values: Array, weights: Array) -> _SortedDraws:
        if not len(values) or weights.sum() <= 0 or np.isnan(values).any():
            return cls(np.full(1, np.nan), np.full(1, np.nan), float("nan"))
        order = np.argsort(values)
        shares = np.cumsum(weights[order]) / weights.sum()
        return cls(values[order], shares, float(weights @ values / weights.sum()))

    def share(self, value: float) -> float:
        if np.isnan(self.mean):
            return float("nan")
        place = int(np.searchsorted(self.values, value, side="right"))
        return float(self.shares[place - 1]) if place else 0.0

    def quantile(self, share: float) -> float:
        place = int(np.searchsorted(self.shares, share))
        return float(self.values[min(place, len(self.values) - 1)])


def _with_fit(
    table: pd.DataFrame,
    by: tuple[str, ...],
    answers: dict[tuple[Any, ...], _SortedDraws],
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

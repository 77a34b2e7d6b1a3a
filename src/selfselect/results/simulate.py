"""Outcomes and choices drawn from a fit, as a table that can be fitted again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.simulation import redraw, why_no_redraw
from selfselect.results.levels import find_logarithm
from selfselect.seeds import check_seed, generator

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["simulate"]

CHOSEN = "chosen"


def simulate(fit: FitResult, data: Any, seed: int | None) -> pd.DataFrame:
    """Draw a sample. Arguments are those of `FitResult.simulate`."""
    rng = generator(check_seed(seed, optional=True))
    table, problem = fit.table, fit.problem
    if data is None:
        rows, index = fit.rows, fit.row_labels
        reason = why_no_redraw(problem, rows)
    else:
        if fit.facts.case is not None:
            raise UnsupportedError("Long data is simulated at its own rows. Leave `data` out.")
        coded = fit.coding.code(data, with_known=True)
        rows, index, table = coded.rows, coded.index[coded.complete], None
        # New rows lack no outcome that is drawn for them.
        problem = replace(problem, partial=False)
        reason = None
        if problem.noise.mixed or problem.noise.sign_only or problem.noise.selected:
            rows = replace(rows, outcome=np.zeros(len(rows)), chosen=np.zeros(len(rows), np.intp))
            reason = why_no_redraw(problem, rows)
    if reason is not None:
        raise UnsupportedError(f"Samples cannot be drawn from this fit: {reason}.")
    drawn = redraw(problem, fit.values, rows, rng)
    made: dict[str, Any] = {}
    name, values = _outcome(fit, np.asarray(drawn.outcome))
    made[name] = values
    if drawn.chosen is not None:
        made[_chosen_name(fit)] = _labels(fit, drawn.chosen)
    found = pd.DataFrame(made, index=index)
    if table is None or fit.facts.case is not None or len(table) != len(found):
        return found
    kept = table.set_axis(found.index).drop(columns=[c for c in found if c in table])
    return found.join(kept)


def _outcome(fit: FitResult, values: Any) -> tuple[str, Any]:
    """Return the outcome by the name of its column, the logarithm undone where it is one."""
    try:
        logarithm = find_logarithm(fit)
    except OptionError:
        return fit.problem.equations.outcome, values
    return logarithm.level, np.exp(logarithm.rate * values) - logarithm.offset


def _chosen_name(fit: FitResult) -> str:
    if fit.problem.equations.selection is None or fit.facts.selection is None:
        return fit.facts.chosen or CHOSEN
    return str(fit.facts.selection).partition("~")[0].strip() or CHOSEN


def _labels(fit: FitResult, chosen: Any) -> Any:
    """Return the labels of alternatives; 0 and 1 where there is one, selected or not."""
    labels = fit.problem.equations.alternatives
    if len(labels) == 1:
        return (chosen >= 0).astype(int)
    return pd.Series(list(labels)).to_numpy()[chosen]

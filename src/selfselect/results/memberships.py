"""The chosen alternative, where it was not recorded: probabilities per row, and shares."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.errors import MissingRowsWarning, OptionError, warn_user
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.problem import Problem
from selfselect.results.predictions import say_lacking

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["expected_shares", "new_responsibilities", "responsibilities"]

Array = NDArray[np.float64]


def responsibilities(fit: FitResult, data: Any) -> pd.DataFrame:
    """Return the probability (n, k) that each alternative was the chosen one."""
    problem = fit.problem
    if problem.index == "known" and not (fit.facts.n_undecided and data is None):
        raise OptionError(
            "In this fit the choice was recorded, so there is nothing to infer but in its own rows "
            "that lack it. For chances before anything is observed use predict(kind='chance')."
        )
    if data is None:
        natural = problem.layout.natural(fit.solution.free)
        columns = pd.Index(problem.equations.alternatives, name="alternative")
        values = fit.engine_of_rows().collect(partial(_chance, problem, natural))
        return pd.DataFrame(values, index=fit.row_labels, columns=columns)
    made, n_lacking = new_responsibilities(fit, data)
    if n_lacking:
        warn_user(
            say_lacking(n_lacking, len(made), "value", "probabilities"),
            MissingRowsWarning,
        )
    return made


def new_responsibilities(fit: FitResult, data: Any) -> tuple[pd.DataFrame, int]:
    """Return the probabilities of new rows, and how many lack what is needed for them."""
    problem = fit.problem
    natural = problem.layout.natural(fit.solution.free)
    columns = pd.Index(problem.equations.alternatives, name="alternative")
    coded = fit.coding.code(data, with_known=True, with_outcome=True)
    values = np.full((len(coded.index), len(columns)), np.nan)
    batch = Batch(coded.rows, problem.likelihood.observe(coded.rows))
    values[coded.complete] = _chance(problem, natural, batch)
    return pd.DataFrame(values, index=coded.index, columns=columns), int((~coded.complete).sum())


def expected_shares(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the share (k,) of the rows in which each alternative is expected to be chosen."""
    total, weight = engine.sum(partial(_totals, problem, problem.layout.natural(free)))
    shares: Array = total / weight
    return shares


def _chance(problem: Problem, natural: Array, batch: Batch) -> Array:
    return row_terms(problem, natural, batch).chance


def _totals(problem: Problem, natural: Array, batch: Batch) -> Parts:
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return Parts((weights @ _chance(problem, natural, batch), float(weights.sum())))

"""Estimated costs of a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.problem.problem import Problem

__all__ = ["Costs", "cost_values", "costs_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Costs:
    """Estimated costs of a batch.

    Attributes
    ----------
    design : per alternative (n, q_j) covariates of its cost, in internal units.
    places : per alternative positions of its coefficients among the natural parameters.
    value : (n, k) costs.
    sign : 1 where costs are taken off outcomes that are sought large, -1 where they are added to
        outcomes that are sought small.
    """

    design: list[Array]
    places: list[Indices]
    value: Array
    sign: float


def costs_of(problem: Problem, natural: Array, rows: Rows) -> Costs | None:
    """Return the estimated costs of rows; None where no cost is estimated."""
    equations = problem.equations
    if not equations.costs:
        return None
    k = equations.n_alternatives
    design = [np.empty((len(rows), 0)) for _ in range(k)]
    places = [np.empty(0, dtype=np.intp) for _ in range(k)]
    value = np.zeros((len(rows), k))
    # Those of the costs are the last of the extras.
    place = len(natural) - sum(len(cost.terms) for cost in equations.costs)
    for cost in equations.costs:
        j = equations.alternatives.index(cost.alternative)
        # Only scaled, not centred: a cost without a constant has none to take the shift up.
        columns = [
            np.ones(len(rows)) if c == 0 else rows.covariates[:, c - 1] / problem.units.unit[c]
            for c in cost.columns
        ]
        design[j] = np.column_stack(columns)
        places[j] = np.arange(place, place + len(columns))
        value[:, j] = design[j] @ natural[places[j]]
        place += len(columns)
    return Costs(design, places, value, problem.cost_sign)


def cost_values(problem: Problem, natural: Array, rows: Rows) -> Array | float:
    """Return estimated costs (n, k) in units of the outcome, as they are taken off outcomes."""
    costs = costs_of(problem, natural, rows)
    return 0.0 if costs is None else costs.sign * problem.units.outcome_unit * costs.value

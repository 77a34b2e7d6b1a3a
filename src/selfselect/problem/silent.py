r"""Alternatives whose outcome was never recorded: what of them can be found at all.

With two alternatives, of which h is silent, rows tell the outcome of the other, j, and the sign of
:math:`y_h - y_j`. Stretching that difference by any factor leaves all of it as it was: it moves the
coefficients, scale and correlation of h together. Fixing one of the latter, or something whose part
in the difference is known (a covariate of j alone, a known cost by row), takes that freedom away.
"""

from __future__ import annotations

import numpy as np

from selfselect.data.rows import Rows
from selfselect.errors import DataError
from selfselect.problem.problem import Problem

__all__ = ["refuse_unidentified"]


def refuse_unidentified(problem: Problem, rows: Rows) -> None:
    """Refuse models in which nothing determines an alternative without recorded outcomes."""
    if not problem.partial or problem.index == "unknown":
        return
    for h in range(problem.equations.n_alternatives):
        if _never_recorded(h, rows):
            _refuse_confounded_costs(problem, h)
            if problem.equations.n_alternatives == 2:
                _refuse_free_stretch(problem, rows, h)


def _never_recorded(h: int, rows: Rows) -> bool:
    """Say whether no row has an outcome, or limits of one, that may be the alternative's."""
    assert rows.outcome is not None and rows.chosen is not None
    known = ~np.isnan(rows.outcome)
    if rows.between is not None:
        known |= np.isfinite(rows.between).any(axis=1)
    maybe = rows.chosen < 0
    if rows.possible is not None:
        maybe &= rows.possible[:, h]
    return not (known & ((rows.chosen == h) | maybe)).any()


def _refuse_confounded_costs(problem: Problem, h: int) -> None:
    equations = problem.equations
    silent = equations.each[h]
    for cost in equations.costs:
        # Of two alternatives, the cost of one is the other's as well, with its sign turned.
        if cost.alternative != silent.alternative and equations.n_alternatives > 2:
            continue
        both = [term for term in cost.terms if term in silent.terms]
        if both:
            raise DataError(
                f"No outcome of {silent.alternative!r} is recorded, so the cost of "
                f"{cost.alternative!r} and the outcome of {silent.alternative!r} cannot be told "
                f"apart in {', '.join(map(repr, both))}: the choice depends only on their "
                "difference. Leave these terms out of one of the two (write '- 1' for no "
                f"constant), or record some outcomes of {silent.alternative!r}."
            )


def _refuse_free_stretch(problem: Problem, rows: Rows, h: int) -> None:
    layout, equations = problem.layout, problem.equations
    n_extras = len(problem.noise.extras(equations.alternatives))
    place = int(layout.starts[-1])
    joined = (layout.position[place : place + n_extras] >= 0).any()
    own_scale = layout.scales is None and not layout.common
    if problem.noise.independent or not joined or not own_scale:
        return
    silent, other = equations.each[h], equations.each[1 - h]
    in_costs = {term for cost in equations.costs for term in cost.terms}
    if any(term not in silent.terms and term not in in_costs for term in other.terms):
        return
    costs = rows.known.costs
    if costs is not None and np.ptp(costs[:, 1] - costs[:, 0]) > 0:
        return
    label = silent.alternative
    raise DataError(
        f"No outcome of {label!r} is recorded, and noise is {problem.noise.name.split(';')[0]}: "
        f"then its scale, its coefficients and what it shares with {other.alternative!r} cannot be "
        "told apart, since choices show on which side the difference of both lies and not how "
        f"large it is. Any of these would identify it: a covariate in the equation of "
        f"{other.alternative!r} that is left out of that of {label!r}; a known cost that differs "
        "between rows; noise with scale='common'; a fixed correlation, as in "
        "noises.Correlated(correlation=0.5); independent noise; some recorded outcomes, or limits "
        f"of them, of {label!r}."
    )

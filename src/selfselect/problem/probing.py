"""Probing a rule on the rows it is to explain, before anything is fitted to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import RuleError
from selfselect.problem.problem import Problem
from selfselect.rules import is_trusted
from selfselect.rules.check import check_rows

if TYPE_CHECKING:
    from selfselect.samplers import Target

__all__ = ["probe_rule"]

Array = NDArray[np.float64]

PROBED_ROWS = 2_000
STEPS = 12
REACH = 1.5
"""Spread of the latent outcomes that are probed, in standard deviations of the outcome."""


def probe_rule(problem: Problem, rows: Rows, rng: Generator) -> None:
    """Raise where a user's rule breaks a promise on a sample of the rows.

    Points of the explaining sets are found by chance and by sampling. What the rule then says of
    them, of their projections, and of points between two of them, must agree.
    """
    if is_trusted(problem.rule) or problem.index != "known":
        return
    # Imported here: most rules need no probing, and fits should start quickly.
    from selfselect.samplers import EllipticalSlice, Target

    which = np.arange(len(rows))
    if len(rows) > PROBED_ROWS:
        which = np.sort(rng.choice(len(rows), PROBED_ROWS, replace=False))
    part = rows.take(which)
    assert part.chosen is not None and part.outcome is not None
    shape = (len(part), problem.equations.n_alternatives)
    target = Target(
        problem.ordered_rule,
        part.chosen,
        part.outcome,
        np.full(shape, float(np.mean(part.outcome))),
        np.full(shape[1], REACH * max(float(np.std(part.outcome)), 1e-12)),
        known=part.known,
    )
    _check_choices(target, rng)
    sampler = EllipticalSlice()
    first = second = sampler.init(target, rng)
    for _ in range(STEPS):
        first = sampler.step(target, first, rng).latent
        second = sampler.step(target, second, rng).latent
        found = check_rows(target.rule, first, second, part.chosen, part.outcome, part.known, rng)
        if not found:
            raise RuleError(f"The rule {type(problem.rule).__name__} is inconsistent. {found}")


def _check_choices(target: Target, rng: Generator) -> None:
    """Refuse choices that are no positions of alternatives."""
    k = target.means.shape[1]
    latent = target.center + target.deviations(rng)
    chosen: Any = np.asarray(target.rule.choose(latent, target.known))
    if chosen.shape != (len(latent),) or not np.issubdtype(chosen.dtype, np.integer):
        raise RuleError(
            f"choose must return one integer per row; it returned {chosen.dtype} of shape "
            f"{chosen.shape} for latent outcomes of shape {latent.shape}."
        )
    wrong = (chosen < 0) | (chosen >= k)
    if wrong.any():
        raise RuleError(
            f"choose must return positions from 0 to {k - 1}, since there are {k} alternatives; "
            f"it returned {int(chosen[wrong][0])}."
        )

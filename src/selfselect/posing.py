"""The other door: a problem is posed on its rows, as for a fit, and not solved."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from selfselect.data.build import build_design
from selfselect.data.costs import split_costs
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError
from selfselect.fit import one_cost, pose_design
from selfselect.noises import Independent
from selfselect.results.posed import Posed
from selfselect.rules import as_rule

__all__ = ["pose"]


def pose(
    formula: Any,
    data: Any,
    *,
    chosen: str | None = None,
    case: str | None = None,
    cost: Any = None,
    rule: Any = "max",
    noise: Any = None,
    seed: int | None = None,
    **options: Any,
) -> Posed:
    """Pose a problem on its rows without solving it, say to look at `assumptions` first.

    Rule and noise are checked against the rows as a fit would.

    Parameters
    ----------
    formula, data, chosen, case, cost, rule, noise, seed : as for `selfselect.fit`.
    **options : any others that say what is in the data: `alternatives`, `available`, `shared`,
        `offset`, `weights`, `missing`, and so on.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> posed = ss.pose("income ~ height + weight", villagers, chosen="job")
    >>> 0 < ss.assumptions(posed)["thickness"] < 1
    True
    """
    known = set(inspect.signature(build_design).parameters)
    strange = [name for name in options if name not in known]
    if strange:
        raise OptionError(
            f"pose takes what says what is in the data, and {strange[0]!r} does not: it belongs "
            "to selfselect.fit, or is misspelt."
        )
    rule = as_rule(rule)
    cost = one_cost(cost, getattr(rule, "cost", None))
    build: Any = build_design
    if case is not None:
        from selfselect.data.build_long import build_long_design

        build = partial(build_long_design, case=case)
    design = build(formula, data, chosen=chosen, cost=cost, **options)
    if noise is None and isinstance(options.get("shared"), str):
        noise = Independent(scale="common")
    fixed, _ = split_costs(cost)
    if fixed is not None and hasattr(rule, "cost"):
        rule = replace(rule, cost=fixed)
    rng = np.random.default_rng(0 if seed is None else seed)
    problem = pose_design(design, rule=rule, noise=noise, rng=rng)
    return Posed(problem, Memory().load(problem, design.rows), design.facts)

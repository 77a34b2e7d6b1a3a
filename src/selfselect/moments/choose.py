"""Which moments a problem has under a rule: the only place that distinguishes rule and noise.

Their modules are loaded when they are chosen, so that a process starts quickly.
"""

from __future__ import annotations

from typing import Any

from selfselect.errors import UnsupportedError
from selfselect.moments.base import Moments
from selfselect.problem.problem import Problem
from selfselect.rules import direction_of, has_bounds, rank_of


def is_joint(problem: Problem) -> bool:
    """Say whether the choice depends on more than independent noise and known costs."""
    return problem.noise.joint or bool(problem.equations.costs)


def moments_of(problem: Problem, rule: Any = None) -> Moments:
    """Return the moments of a problem under its own rule, or under another one."""
    rule = problem.ordered_rule if rule is None else rule
    if problem.noise.selected:
        if problem.noise.sign_only:
            from selfselect.moments.binary_selection import BinarySelectionMoments

            return BinarySelectionMoments(problem, rule)
        from selfselect.moments.selection import SelectionMoments

        return SelectionMoments(problem, rule)
    if problem.noise.mixed:
        from selfselect.moments.mixed import MixedMoments

        return MixedMoments(problem, rule)
    labels = problem.equations.alternatives
    boxes = has_bounds(rule)
    if is_joint(problem):
        if not boxes:
            raise UnsupportedError(
                f"{type(rule).__name__} offers no `bounds`, which effects need where noise is not "
                "independent or costs are estimated."
            )
        closed = problem.noise.gaussian and direction_of(rule) is not None
        if closed and len(labels) == 2:
            from selfselect.moments.joint import PairMoments

            return PairMoments(problem, rule)
        if closed and len(labels) == 3 and not problem.layout.spreads:
            from selfselect.moments.joint import TripleMoments

            return TripleMoments(problem, rule)
        if direction_of(rule) is not None and not problem.noise.joint:
            from selfselect.moments.margins import MarginMoments

            return MarginMoments(problem, rule)
        if not problem.noise.margin.smooth:
            raise UnsupportedError(
                "With estimated costs all outcomes are integrated over together, and the kink of "
                f"{problem.noise.margin.name} noise stands in the way. Use shape='logistic', or "
                "known costs."
            )
        from selfselect.moments.joint import JointMoments

        return JointMoments(problem, rule)
    ranked = rank_of(rule, len(labels)) is not None
    if problem.noise.known_correlation(labels) is not None or not (boxes or ranked):
        from selfselect.moments.mixed import SimulatedMoments

        return SimulatedMoments(problem, rule)
    from selfselect.moments.margins import MarginMoments

    return MarginMoments(problem, rule)

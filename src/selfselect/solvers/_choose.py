"""Choosing a solver where the user did not."""

from __future__ import annotations

from typing import Any

from selfselect.errors import OptionError, UnsupportedError
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solver
from selfselect.solvers.maximum_likelihood import MaximumLikelihood
from selfselect.solvers.newton import Newton

__all__ = ["choose_solver"]


def choose_solver(problem: Problem, given: Any) -> tuple[Solver, str]:
    """Return the solver to use and the reason for it."""
    if given is None and problem.index == "unknown":
        return MaximumLikelihood(), (
            "nobody recorded who was seen, so the likelihood has several optima and is searched "
            "from several starts"
        )
    if given is None:
        return Newton(), (
            f"{type(problem.rule).__name__} has box-shaped explaining sets and the noise is "
            "independent, so the likelihood is exact and concave"
        )
    if isinstance(given, type) or not isinstance(given, Solver):
        raise OptionError(
            f"{given!r} is not a solver. Use None to have one chosen, or an object such as "
            "selfselect.solvers.Newton(max_steps=100)."
        )
    if given.index != problem.index:
        what = {"known": "was recorded", "unknown": "was not recorded"}
        raise UnsupportedError(
            f"{type(given).__name__} is for data in which it {what[given.index]} who was seen; "
            f"here it {what[problem.index]}. Use solver=None to have one chosen."
        )
    return given, "as given"

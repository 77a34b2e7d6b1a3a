"""Solvers: from a problem and rows to a solution."""

from selfselect.solvers._choose import choose_solver
from selfselect.solvers.base import Solution, Solver, TraceEntry
from selfselect.solvers.newton import Newton

__all__ = ["Newton", "Solution", "Solver", "TraceEntry", "choose_solver"]

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError
from selfselect.rules import Maximum
from selfselect.solvers import Newton, Solution, Solver, choose_solver

SOLVERS = [
    member
    for name in ss.solvers.__all__
    if dataclasses.is_dataclass(member := getattr(ss.solvers, name)) and hasattr(member, "solve")
]


class OnlyChoose:
    """A rule that offers nothing beyond its choice."""

    name = "only choose"

    def choose(self, latent, *_):
        return latent.argmax(axis=1)


@pytest.fixture(params=SOLVERS, ids=lambda solver: solver.__name__)
def solver(request):
    return request.param()


def test_there_is_a_solver():
    assert SOLVERS


def test_a_solver_keeps_the_contract(solver):
    assert isinstance(solver, Solver)
    assert dataclasses.fields(solver), "options are fields"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(solver, dataclasses.fields(solver)[0].name, 1)


def test_every_problem_is_solved_or_what_it_lacks_is_said(
    solver, world, rule_name, noise, with_known
):
    made = world(rule_name, 400, known=with_known)
    if solver.index != "known":
        with pytest.raises(UnsupportedError, match=f"{type(solver).__name__} is for data in which"):
            made.fit(solver=solver, noise=noise)
        return
    result = made.fit(solver=solver, noise=noise)
    solution = result.solution
    assert isinstance(solution, Solution)
    assert solution.converged and np.isfinite(solution.free).all()
    assert solution.status.endswith(".") and solution.solver == repr(solver)
    assert np.linalg.eigvalsh(solution.information)[0] > 0
    assert len(solution.trace) >= 1 and solution.n_passes >= 1


def test_a_rule_without_bounds_is_refused_by_name(world):
    with pytest.raises(UnsupportedError, match="OnlyChoose offers no `bounds`"):
        ss.fit("outcome ~ x1", world("max", 200).data, chosen="chosen", rule=OnlyChoose())


def test_a_solver_refuses_a_rule_that_lacks_what_it_requires(solver, world):
    result = world("max", 200).fit()
    lacking = dataclasses.replace(result.problem, rule=OnlyChoose(), index=solver.index)
    with pytest.raises(UnsupportedError, match=r"needs|can be fitted where"):
        solver.solve(lacking, result.engine, rng=np.random.default_rng(0))


def test_the_chosen_solver_comes_with_a_reason(world):
    problem = world("max", 200).fit().problem
    chosen, reason = choose_solver(problem, None)
    assert isinstance(chosen, Solver) and Maximum.__name__ in reason
    given = Newton(max_steps=7)
    assert choose_solver(problem, given) == (given, "as given")
    for wrong in (Newton, "newton", 3):
        with pytest.raises(OptionError, match="not a solver"):
            choose_solver(problem, wrong)

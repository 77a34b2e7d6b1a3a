"""Every solver solves every problem, or says what is missing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from selfselect.rules import Maximum, Ranked
from selfselect.solvers import Newton, Solution, Solver, choose_solver

SOLVERS = [
    member
    for name in ss.solvers.__all__
    if dataclasses.is_dataclass(member := getattr(ss.solvers, name)) and hasattr(member, "solve")
]

FAST = {
    "EM": {"starts": 2},
    "MaximumLikelihood": {"starts": 2},
}
"""The contract does not ask for the best optimum, so two starts will do."""


class OnlyChoose:
    """A rule that offers nothing beyond its choice."""

    name = "only choose"

    def choose(self, latent, *_):
        return latent.argmax(axis=1)


@pytest.fixture(params=SOLVERS, ids=lambda solver: solver.__name__)
def solver(request):
    return request.param(**FAST.get(request.param.__name__, {}))


@pytest.fixture(params=["each", "common", 1.0], ids=str)
def scale(request):
    return ss.noises.Independent(request.param)


def assert_solved(result, solver):
    solution = result.solution
    assert isinstance(solution, Solution)
    assert solution.converged and np.isfinite(solution.free).all()
    assert str(solution.ending).endswith(".") and solution.solver == repr(solver)
    assert solution.n_passes >= 1
    if np.isfinite(solution.information).all():
        assert np.linalg.eigvalsh(solution.information)[0] > 0
        assert len(solution.trace) >= 1
        assert (result.bse > 0).all()
    else:
        kinds = ss.solvers.TwoModels | ss.solvers.NetSearch | ss.solvers.ProjectedSGD
        assert isinstance(solver, kinds)
        assert "not by maximum likelihood" in str(solution.ending)
        assert result.bse.isna().all()


def test_the_solvers_are_those_of_the_room():
    names = {solver.__name__ for solver in SOLVERS}
    moments = {"TwoModels", "MinVariance", "NetSearch"}
    assert (
        names
        == {"Newton", "MonteCarloNewton", "ProjectedSGD", "EM", "MaximumLikelihood", "Continuation"}
        | {"TypeSearch"}
        | moments
    )


def test_a_solver_keeps_the_contract(solver):
    assert isinstance(solver, Solver)
    assert isinstance(solver.concave, bool)
    assert dataclasses.fields(solver), "options are fields"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(solver, dataclasses.fields(solver)[0].name, 1)


def test_known_boxes_are_solved_or_what_they_lack_is_said(
    solver, world, rule_name, noise, with_known
):
    made = world(rule_name, 400, known=with_known)
    if not solver.concave:
        words = r"is for likelihoods with several optima; this one has\s+one optimum"
        if isinstance(solver, ss.solvers.Continuation):
            words = "is for likelihoods that join the alternatives"
        if isinstance(solver, ss.solvers.TypeSearch):
            words = "is for noise with unobserved types"
        with pytest.raises(UnsupportedError, match=f"{type(solver).__name__} {words}"):
            made.fit(solver=solver, noise=noise)
        return
    if isinstance(solver, ss.solvers.ProjectedSGD) and isinstance(noise.scale, str):
        with pytest.raises(UnsupportedError, match="noise scale is known"):
            made.fit(solver=solver, noise=noise)
        return
    if isinstance(solver, ss.solvers.ProjectedSGD):
        # One pass over 400 rows ends a few standard errors away, and says so.
        with pytest.warns(ConvergenceWarning, match="standard errors away"):
            result = made.fit(solver=solver, noise=noise)
        assert not result.converged and np.isfinite(result.values).all()
        return
    assert_solved(made.fit(solver=solver, noise=noise), solver)


@pytest.mark.parametrize("rank", [2, "median"])
def test_known_ranks_are_solved_or_what_they_lack_is_said(solver, scale, rank):
    sample = ss.simulators.gaussian(400, 2, 3, norm=1.5, rule=Ranked(rank), seed=2)
    options = {"chosen": "chosen", "rule": Ranked(rank), "noise": scale, "solver": solver}
    if isinstance(solver, ss.solvers.EM | ss.solvers.MaximumLikelihood):
        assert_solved(ss.fit(sample.formula, sample.data, **options), solver)
        return
    with pytest.raises(
        UnsupportedError,
        match=r"is for (likelihoods with one optimum|likelihoods that join|data in|noise with)",
    ):
        ss.fit(sample.formula, sample.data, **options)


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("n_alternatives", [2, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_unknown_indices_are_solved_or_what_they_lack_is_said(
    solver, rule, scale, n_alternatives, intercept
):
    sample = ss.simulators.gaussian(
        400, 2, n_alternatives, norm=2.5, rule=rule, intercept=intercept, seed=4
    )
    options = {"alternatives": n_alternatives, "rule": rule, "noise": scale, "solver": solver}
    missing = _missing(solver, scale, n_alternatives, intercept)
    if missing is not None:
        with pytest.raises(UnsupportedError, match=missing):
            ss.fit(sample.formula, sample.data, **options)
        return
    try:
        result = ss.fit(sample.formula, sample.data, **options)
    except (DataError, ConvergenceWarning) as error:
        said = "separated only" in str(error) or "the likelihood does not agree" in str(error)
        if not isinstance(solver, ss.solvers.NetSearch) or not said:
            raise
        return  # A net of directions may fail on few rows, and says so.
    assert_solved(result, solver)


def _missing(solver, noise, n_alternatives, intercept):
    """Say what a solver lacks for an unknown index, as its error does; None where nothing."""
    name = type(solver).__name__
    if solver.concave:
        return f"{name} is for likelihoods with one optimum; this one has several optima"
    if isinstance(solver, ss.solvers.Continuation):
        return "Continuation is for likelihoods that join the alternatives"
    if isinstance(solver, ss.solvers.TypeSearch):
        return "TypeSearch is for noise with unobserved types"
    if not isinstance(solver, ss.solvers.TwoModels | ss.solvers.NetSearch):
        return None
    if intercept:
        return f"{name} needs equations without an intercept"
    if isinstance(solver, ss.solvers.TwoModels) and n_alternatives != 2:
        return f"{name} is for two alternatives, not 3"
    if name != "TwoModels" and isinstance(noise.scale, str):
        return f"{name} needs a known noise scale"
    return None


def test_a_rule_without_bounds_is_fitted_by_draws_and_the_reason_says_so(world):
    made = world("max", 300)
    result = made.fit(rule=OnlyChoose(), solver=None)
    assert result.converged and "OnlyChoose has no bounds" in result.solver_reason
    assert result.solution.solver.startswith("MonteCarloNewton")


def test_a_rule_whose_unknown_index_has_no_likelihood_is_refused(world):
    data = world("max", 200).data
    for rule in (Ranked(2), OnlyChoose()):
        with pytest.raises(UnsupportedError, match=r"largest \('max'\) or the smallest"):
            ss.fit("outcome ~ x1", data, alternatives=2, rule=rule)


def test_a_solver_refuses_a_rule_that_lacks_what_it_requires(world):
    result = world("max", 200).fit()
    lacking = dataclasses.replace(result.problem, rule=OnlyChoose())
    with pytest.raises(UnsupportedError, match="Newton cannot solve this problem: it needs a rule"):
        Newton().solve(lacking, result.engine, rng=np.random.default_rng(0))


def test_the_chosen_solver_comes_with_a_reason(world):
    problem = world("max", 200).fit().problem
    chosen, reason = choose_solver(problem, None)
    assert isinstance(chosen, Newton) and Maximum.__name__ in reason
    given = Newton(max_steps=7)
    assert choose_solver(problem, given) == (given, "as given")
    for wrong in (Newton, "newton", 3):
        with pytest.raises(OptionError, match="not a solver"):
            choose_solver(problem, wrong)


def test_several_optima_are_searched_and_the_reason_says_so(world):
    problem = world("max", 200).fit().problem
    for change, words in (
        ({"index": "unknown"}, "the chosen alternative was not recorded"),
        ({"rule": Ranked(2)}, "explaining sets are not convex"),
    ):
        chosen, reason = choose_solver(dataclasses.replace(problem, **change), None)
        assert isinstance(chosen, ss.solvers.MaximumLikelihood) and words in reason

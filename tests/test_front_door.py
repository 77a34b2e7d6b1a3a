"""What a user types has explicit keywords, the same as what it calls."""

from __future__ import annotations

import inspect

import pytest

import selfselect as ss
from selfselect import effects
from selfselect.errors import OptionError
from selfselect.results.fit_result import FitResult

EFFECTS = sorted(name for name in effects.__all__ if inspect.isfunction(getattr(effects, name)))

NOT_POSED = {"solver", "covariance", "engine", "checkpoint", "progress"}
"""Options of `fit` that say how to solve and what to estimate."""

NOT_COMPARED = {"panel", "chosen", "alternatives", "case", "shared", "offset", "checkpoint"}
"""Options of `fit` that do not go with several numbers of alternatives, compared with least
squares; a checkpoint is of one fit."""


def parameters(function):
    """Return the parameters of a function by name."""
    return dict(inspect.signature(function).parameters)


def alike(one, other):
    return (one.kind, one.default, one.annotation) == (other.kind, other.default, other.annotation)


def test_methods_of_a_fit_are_the_functions_of_effects():
    assert len(EFFECTS) >= 9
    assert all(getattr(FitResult, name) is getattr(effects, name) for name in EFFECTS)


@pytest.mark.parametrize(
    ("door", "own", "left_out"),
    [
        (ss.pose, set(), NOT_POSED),
        (ss.choose_alternatives, {"numbers", "method", "replications", "subspace"}, NOT_COMPARED),
    ],
)
def test_doors_beside_fit_have_its_options(door, own, left_out):
    of_fit, given = parameters(ss.fit), parameters(door)
    assert set(given) == (set(of_fit) - left_out) | own
    differing = [p for p in set(given) - own - {"formula"} if not alike(given[p], of_fit[p])]
    assert not differing


def test_nothing_a_user_calls_takes_options_it_does_not_name():
    doors = [getattr(ss, name) for name in ss.__all__]
    members = inspect.getmembers(FitResult)
    methods = [member for name, member in members if not name.startswith("_")]
    for function in (*doors, *methods, *(getattr(effects, name) for name in EFFECTS)):
        if inspect.isfunction(function):
            kinds = {parameter.kind for parameter in parameters(function).values()}
            assert inspect.Parameter.VAR_KEYWORD not in kinds, function.__qualname__


def test_a_misspelt_option_of_a_door_is_an_error():
    villagers = ss.simulators.village(100, seed=1).data
    with pytest.raises(TypeError, match="'solvr'"):
        ss.pose("income ~ height", villagers, chosen="job", solvr=None)
    with pytest.raises(TypeError, match="'shared'"):
        ss.choose_alternatives("income ~ height", villagers, shared="all")


def test_pose_refuses_contradictions_as_a_fit_does():
    villagers = ss.simulators.village(100, seed=1).data
    for door in (ss.pose, ss.fit):
        with pytest.raises(OptionError, match="Both chosen='job' and alternatives=2"):
            door("income ~ height", villagers, chosen="job", alternatives=2)

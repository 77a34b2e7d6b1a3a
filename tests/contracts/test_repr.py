"""Rules, noises, solvers, samplers and engines print as the calls that make them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from selfselect import engines, noises, rules, samplers, solvers

ROOMS = (rules, noises, solvers, samplers, engines)

HELPERS = {
    "BoxRule", "Counterexample", "HasBounds", "HasProjection", "RowData", "RuleCheck",
    "SelectionRule", "FittedNoise", "Noise", "Ending", "Population", "Solution", "Solver",
    "StartRecord", "Status", "TraceEntry", "Engine", "Draw", "Sampler", "Target",
}  # fmt: skip
"""Public classes that no user passes to a fit: contracts, and what is returned."""

ARGUMENTS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Maximum": [((), {"cost": {"a": "fee", "b": 1.5}})],
    "LinearArgmax": [((np.array([[1.0, 0.4], [0.0, 1.0]]),), {}), (({"a": {"b": 0.4}},), {})],
    "MonotoneArgmax": [(({"a": "logistic", "b": 0.5},), {}), ((["identity", 0.9],), {})],
    "OrderedIndex": [((("low", "high"),), {})],
    "Ranked": [((2,), {})],
    "SelectionIndex": [(("a",), {})],
    "Transform": [((np.exp, np.log), {})],
    "ConvexRule": [((np.argmax,), {})],
    "KnownCovariance": [((np.array([[1.0, 0.3], [0.3, 2.0]]),), {})],
    "Independent": [((), {"scale": {"a": "~ 1", "b": "~ x"}}), ((), {"shape": "logistic"})],
    "MonteCarloNewton": [((), {"sampler": samplers.Gibbs()})],
    "MaximumLikelihood": [((), {"start": ((0.0, 1.0), (1.0, 0.5))})],
}

CODE = {"ConvexRule", "Transform"}
"""They hold functions, which print as no code; their names do."""


def members() -> dict[str, type]:
    found = {}
    for room in ROOMS:
        for name in room.__all__:
            one = getattr(room, name)
            if inspect.isclass(one) and name not in HELPERS:
                found[name] = one
    return found


MEMBERS = members()


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_prints_as_the_call_that_makes_it(name: str) -> None:
    if name == "Torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    needed = [
        one
        for one in inspect.signature(MEMBERS[name]).parameters.values()
        if one.default is one.empty
    ]
    calls = ARGUMENTS.get(name, [])
    if not needed and name != "MonotoneArgmax":
        calls = [((), {}), *calls]
    assert calls, f"say how {name} is made"
    for words, options in calls:
        made = MEMBERS[name](*words, **options)
        text = repr(made)
        assert text.startswith(f"{name}(") and " at 0x" not in text and "\n" not in text
        if name not in CODE:
            again = eval(text, {**MEMBERS, "array": np.array})
            assert repr(again) == text
            assert type(again) is type(made)

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import selfselect as ss
from selfselect.engines.memory import RowsInMemory
from selfselect.inference.simulation import noise_moments
from selfselect.likelihoods import Asked, sum_rows

ROUNDING = 1e-9
"""Relative: sums of the same numbers, added in another order."""


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(700, seed=3).data


def fitted(villagers, **options):
    return ss.fit("income ~ height + weight", villagers, chosen="job", **options)


def flat(value):
    parts = value if isinstance(value, tuple) else (value,)
    return np.concatenate([np.ravel(part) for part in parts])


def test_the_summary_takes_one_pass_over_the_rows(villagers, monkeypatch):
    result = fitted(villagers)
    passes, plain = [], RowsInMemory.sum

    def counted(engine, task):
        if engine is result.engine:
            passes.append(task)
        return plain(engine, task)

    monkeypatch.setattr(RowsInMemory, "sum", counted)
    str(result.summary())
    assert len(passes) == 1


@pytest.mark.compiled
@pytest.mark.parametrize("case", ["plain", "weighted", "own terms", "closed"])
def test_compiled_sums_are_those_of_the_rows(villagers, case):
    table, options = villagers.copy(), {}
    formula = "income ~ height + weight"
    if case == "weighted":
        table["w"] = np.random.default_rng(0).integers(1, 4, len(table))
        options = {"weights": "w", "weights_kind": "frequency"}
    if case == "own terms":
        first, *others = sorted(set(table["job"]))
        formula = {first: "income ~ height", **dict.fromkeys(others, formula)}
    if case == "closed":
        # Some rows have one alternative only, and say nothing of the others.
        first, *others = sorted(set(table["job"]))
        table["open"] = (table["job"] != first) | (np.arange(len(table)) % 3 > 0)
        options = {"available": dict.fromkeys(others, "open")}
    evidence = ss.fit(formula, table, chosen="job", **options).evidence
    problem, natural, batch = evidence.problem, evidence.natural, evidence.engine.batch
    assert batch.backend == "fused"
    compiled = sum_rows(problem, natural, Asked(), batch)
    by_numpy = sum_rows(problem, natural, Asked(), replace(batch, backend="numpy"))
    for field in fields(compiled):
        one, other = (flat(getattr(sums, field.name)) for sums in (compiled, by_numpy))
        np.testing.assert_allclose(one, other, rtol=ROUNDING, atol=ROUNDING * len(table))


def test_summed_moments_are_sums_of_the_moments_of_rows(villagers):
    evidence = fitted(villagers).evidence
    rows = noise_moments(evidence.problem, evidence.natural, evidence.engine.batch)
    for subject, sums in evidence.moments.items():
        np.testing.assert_allclose(sums, rows[subject].sum(axis=0), atol=ROUNDING * len(villagers))


def test_what_no_test_can_use_is_not_asked_of_the_rows(villagers):
    clustered = villagers.assign(village=np.arange(len(villagers)) % 40)
    assert fitted(villagers).evidence.asked == Asked()
    # Under clusters the tests sum by cluster, in passes of their own.
    asked = fitted(clustered, cluster="village").evidence.asked
    assert asked == Asked(pairs=False, moments=False, grams=True)

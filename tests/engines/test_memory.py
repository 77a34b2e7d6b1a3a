from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from selfselect.engines import memory
from selfselect.engines.base import spread_evenly
from selfselect.likelihoods import Batch, evaluate
from selfselect.problem.batch import Parts

ADDED = 1e-10
"""Sums of a few thousand terms in another order differ by rounding alone."""


@pytest.fixture(scope="module")
def fitted(world):
    return world("max", 3_000).fit(weights="w")


@pytest.fixture
def task(fitted):
    return partial(evaluate, fitted.problem, fitted.problem.layout.natural(fitted.solution.free))


@pytest.mark.parametrize("backend", ["numpy", pytest.param("fused", marks=pytest.mark.compiled)])
@pytest.mark.parametrize("step", [1, 7, 1_000, 2_999, 3_000, 10**9])
def test_sums_do_not_depend_on_the_chunks(fitted, task, monkeypatch, backend, step):
    engine = replace(
        fitted.engine,
        batch=Batch(fitted.engine.batch.rows, fitted.engine.batch.observation, backend),
    )
    whole = task(fitted.engine.batch)
    monkeypatch.setitem(memory.CHUNK, backend, step)
    total = engine.sum(task)
    assert total.loglik == pytest.approx(whole.loglik, rel=ADDED)
    np.testing.assert_allclose(total.hessian, whole.hessian, rtol=1e-8, atol=1e-8)


def test_sums_are_the_same_to_the_last_bit_on_any_number_of_threads(fitted, task, monkeypatch):
    monkeypatch.setitem(memory.CHUNK, "numpy", 100)
    totals = [replace(fitted.engine, n_threads=n).sum(task) for n in (1, 2, 5)]
    for other in totals[1:]:
        assert other.loglik == totals[0].loglik
        np.testing.assert_array_equal(other.score, totals[0].score)
        np.testing.assert_array_equal(other.hessian, totals[0].hessian)


@pytest.mark.parametrize(("step", "sizes"), [(3_000, {3_000}), (2_999, {750}), (1_100, {375})])
def test_rows_beyond_one_task_are_shared_out_alike(fitted, monkeypatch, step, sizes):
    monkeypatch.setitem(memory.CHUNK, "numpy", step)
    engine = replace(fitted.engine, batch=replace(fitted.engine.batch, backend="numpy"))
    assert {len(chunk) for chunk in engine._chunks} == sizes


def test_collecting_keeps_the_order_of_the_rows(fitted, monkeypatch):
    monkeypatch.setitem(memory.CHUNK, "numpy", 64)
    outcome = replace(fitted.engine, n_threads=4).collect(lambda batch: batch.rows.outcome)
    np.testing.assert_array_equal(outcome, fitted.rows.outcome)


@pytest.mark.parametrize("size", [1, 10, 999, 2_999])
def test_a_sample_has_distinct_rows_spread_over_all(fitted, size):
    numbered = replace(
        fitted.engine,
        batch=replace(fitted.engine.batch, rows=replace(fitted.rows, outcome=np.arange(3_000.0))),
    )
    which = numbered.sample(size, np.random.default_rng(0)).rows.outcome
    assert len(which) == size == len(np.unique(which))
    assert (np.diff(which) > 0).all()
    assert which[0] < 3_000 / size and which[-1] >= 3_000 - 3_000 / size - 1


def test_a_sample_is_drawn_from_every_row_alike(fitted):
    drawn = np.zeros(3_000)
    rng = np.random.default_rng(1)
    numbered = replace(
        fitted.engine,
        batch=replace(fitted.engine.batch, rows=replace(fitted.rows, outcome=np.arange(3_000.0))),
    )
    for _ in range(400):
        drawn[numbered.sample(700, rng).rows.outcome.astype(int)] += 1
    # Each is drawn 93 times on average, with a standard deviation of nine.
    assert drawn.min() > 45 and drawn.max() < 145


@pytest.mark.parametrize(
    ("total", "n_rows"),
    [(7, 7), (9, 1), (1_000, 30), (300_000, 3_000), (300_099, 3_000), (2**33 + 1, 1_000)],
)
def test_rows_drawn_in_runs_are_those_drawn_one_by_one(total, n_rows):
    edges = np.arange(n_rows + 1) * total // n_rows
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    which = spread_evenly(total, n_rows, rng)
    np.testing.assert_array_equal(which, other.integers(edges[:-1], edges[1:]))
    assert rng.bit_generator.state == other.bit_generator.state


def test_a_sample_of_all_rows_is_all_rows(fitted):
    assert fitted.engine.sample(3_000, np.random.default_rng(0)) is fitted.engine


def test_reweighting_multiplies_the_weights(fitted, task):
    factor = np.random.default_rng(2).integers(0, 3, 3_000).astype(float)
    reweighted = fitted.engine.reweighted(factor)
    np.testing.assert_array_equal(reweighted.rows.weights, fitted.rows.weights * factor)
    kept = replace(fitted.engine, batch=fitted.engine.batch.take(np.flatnonzero(factor == 1)))
    twice = replace(fitted.engine, batch=fitted.engine.batch.take(np.flatnonzero(factor == 2)))
    wanted = kept.sum(task).loglik + 2 * twice.sum(task).loglik
    assert reweighted.sum(task).loglik == pytest.approx(wanted, rel=ADDED)


def test_parts_add_part_by_part():
    assert Parts((1, np.ones(2))) + Parts((2, np.ones(2))) == Parts((3, pytest.approx([2, 2])))
    with pytest.raises(ValueError, match="zip"):
        Parts((1,)) + Parts((1, 2))


@pytest.mark.parametrize("kind", ["rows", "clusters", "repeated"])
def test_a_bootstrap_sample_multiplies_weights_by_whole_draws(fitted, kind):
    rng, n_rows, n_clusters = np.random.default_rng(5), 3_000, 40
    weights = rng.integers(0, 4, n_rows).astype(float)
    clusters = rng.integers(n_clusters, size=n_rows)
    clusters[:n_clusters] = np.arange(n_clusters)
    rows = replace(fitted.engine.rows, weights=weights, clusters=clusters)
    engine = replace(fitted.engine, batch=replace(fitted.engine.batch, rows=rows))
    asked = {"repeated": kind == "repeated", "n_clusters": n_clusters * (kind == "clusters")}
    found = engine.resampled(rng, **asked).rows.weights
    assert (found[weights == 0] == 0).all()
    if kind == "repeated":
        # As many as there were, one by one.
        np.testing.assert_allclose(found, np.round(found), atol=1e-9)
        assert found.sum() == pytest.approx(weights.sum())
        return
    times = found[weights > 0] / weights[weights > 0]
    np.testing.assert_allclose(times, np.round(times), atol=1e-9)
    # Of so many draws with replacement, a share of 1/e is never drawn.
    size = {"rows": n_rows, "clusters": n_clusters}[kind]
    assert np.mean(times == 0) == pytest.approx(np.exp(-1), abs=3.0 / np.sqrt(size))
    if kind == "clusters":
        drawn = [set(times[clusters[weights > 0] == one]) for one in range(n_clusters)]
        assert {len(one) for one in drawn} == {1}
        assert sum(one.pop() for one in drawn) == n_clusters

"""The Torch engine against Memory on the same rows; on the processor, and on a card if there is."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

import selfselect as ss
from selfselect.engines import Memory, Torch
from selfselect.errors import EngineError, MissingDependencyError, OptionError
from selfselect.likelihoods import evaluate, evaluate_places, sum_chances
from selfselect.problem.problem import sum_columns, sum_grams
from selfselect.rules.base import RowData

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from selfselect.engines import _torch_tasks  # noqa: E402
from selfselect.engines import torch as engine_module  # noqa: E402

SUMS = 1e-12
"""Sums in another order, relative to the largest of their kind."""

PARAMETERS = 1e-8
STANDARD_ERRORS = 1e-6

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def both(world, device, **options):
    """Fit the same rows on either engine."""
    return world.fit(**options), world.fit(engine=Torch(device), **options)


def assert_same_fit(one, other):
    np.testing.assert_allclose(other.params, one.params, rtol=PARAMETERS, atol=PARAMETERS)
    np.testing.assert_allclose(other.bse, one.bse, rtol=STANDARD_ERRORS)
    assert other.solution.loglik == pytest.approx(one.solution.loglik, rel=1e-12)
    assert other.solution.converged == one.solution.converged


def assert_same_sums(found, wanted):
    assert found.loglik == pytest.approx(wanted.loglik, rel=SUMS)
    for name in ("score", "hessian"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=SUMS * max(np.abs(other).max(), 1.0))


def away_from(fitted):
    natural = fitted.problem.layout.natural(fitted.solution.free)
    return natural * np.random.default_rng(4).uniform(0.8, 1.2, len(natural))


@pytest.mark.parametrize("curvature", ["none", "complete", "exact"])
def test_sums_of_the_known_index_are_those_of_memory(
    world, rule_name, with_known, curvature, device
):
    fitted = world(rule_name, 300, known=with_known).fit(weights="w")
    there = Torch(device, chunk_rows=77).load(fitted.problem, fitted.rows)
    task = partial(evaluate, fitted.problem, away_from(fitted), curvature=curvature)
    assert _torch_tasks.twin_of(task, there.problem) is not None
    assert_same_sums(there.sum(task), fitted.engine.sum(task))


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("curvature", ["none", "exact", "complete"])
def test_sums_of_the_unknown_index_are_those_of_memory(world, rule, curvature, device):
    # Equations of their own; the third alternative is not open to all rows.
    fitted = world(rule, 300).fit(weights="w")
    problem = replace(fitted.problem, index="unknown")
    available = np.random.default_rng(1).uniform(size=(300, 3)) < [1.0, 1.0, 0.7]
    rows = replace(fitted.rows, chosen=None, known=RowData(available=available))
    there = Torch(device, chunk_rows=77).load(problem, rows)
    task = partial(evaluate, problem, away_from(fitted), curvature=curvature)
    assert _torch_tasks.twin_of(task, there.problem) is not None
    wanted, found = Memory().load(problem, rows).sum(task), there.sum(task)
    if curvature == "none":
        wanted = replace(wanted, hessian=np.zeros_like(found.hessian))
    assert_same_sums(found, wanted)


def test_two_sided_bounds_are_summed_as_memory_does(world, device):
    class Band(ss.rules.Maximum):
        """The others lie below the one seen, but by no more than three."""

        def bounds(self, _chosen, outcome, *_):
            upper = np.broadcast_to(outcome[:, None], (len(outcome), 3))
            return upper - 3.0, upper

    fitted = world("max", 300).fit(weights="w")
    problem = replace(fitted.problem, rule=Band())
    host = Memory().load(problem, fitted.rows)
    there = Torch(device).load(problem, fitted.rows)
    for curvature in ("none", "exact"):
        task = partial(evaluate, problem, away_from(fitted), curvature=curvature)
        assert_same_sums(there.sum(task), host.sum(task))


@pytest.mark.parametrize("index", ["known", "unknown"])
@pytest.mark.parametrize("rule", ["max", "min"])
def test_several_places_are_summed_in_one_pass_as_memory_does(world, rule, index, device):
    fitted = world(rule, 300).fit(weights="w")
    problem = replace(fitted.problem, index=index)
    rows = fitted.rows if index == "known" else replace(fitted.rows, chosen=None)
    there = Torch(device, chunk_rows=77).load(problem, rows)
    places = away_from(fitted) * np.random.default_rng(5).uniform(0.9, 1.1, (3, 1))
    task = partial(evaluate_places, problem, places)
    assert _torch_tasks.twin_of(task, there.problem) is not None
    for found, wanted in zip(there.sum(task), Memory().load(problem, rows).sum(task), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=SUMS * np.abs(wanted).max())


def test_an_engine_says_what_moving_the_rows_took(world, device):
    fit = world("max", 300).fit(engine=Torch(device))
    moved = fit.engine.moved
    assert moved.device == device and moved.seconds > 0
    assert moved.n_bytes == fit.engine.resident.n_bytes >= 300 * 8 * 3
    assert str(moved) == (
        f"Moving {moved.n_bytes:,} bytes of rows to {device} took {1e3 * moved.seconds:,.1f} ms."
    )
    assert str(replace(moved, n_bytes=2_500_000_000)).startswith("Moving 2.50 GB of rows")


def test_gram_matrices_are_those_of_memory(world, device):
    for options in ({}, {"weights": "w"}):
        fitted = world("max", 200).fit(**options)
        there = Torch(device).load(fitted.problem, fitted.rows)
        task = partial(sum_grams, fitted.problem)
        for one, other in zip(there.sum(task), fitted.engine.sum(task), strict=True):
            np.testing.assert_allclose(one, other, atol=SUMS * np.abs(other).max())


def test_expected_counts_and_sums_of_columns_are_those_of_memory(world, device):
    fitted = world("max", 200).fit(weights="w")
    problem = replace(fitted.problem, index="unknown")
    for weights in (fitted.rows.weights, None):
        rows = replace(fitted.rows, chosen=None, weights=weights)
        there, host = Torch(device).load(problem, rows), Memory().load(problem, rows)
        for task in (
            partial(sum_chances, problem, away_from(fitted)),
            partial(sum_columns, problem),
        ):
            assert _torch_tasks.twin_of(task, problem) is not None
            np.testing.assert_allclose(there.sum(task), host.sum(task), rtol=0, atol=SUMS * 200)


@pytest.mark.parametrize("rule", ["max", "mixed"])
def test_fits_agree_whatever_the_scale(world, rule, noise, device):
    assert_same_fit(*both(world(rule, 400, known=True), device, noise=noise, weights="w"))


@pytest.mark.parametrize("options", [{"covariance": "robust"}, {"cluster": "group"}])
def test_robust_and_clustered_covariances_agree(world, options, device):
    assert_same_fit(*both(world("max", 400), device, weights="w", **options))


def test_what_follows_from_a_fit_agrees(world, device):
    one, other = both(world("max", 400), device)
    new = world("max", 50, seed=1).data
    np.testing.assert_allclose(other.predict(new), one.predict(new), rtol=PARAMETERS)
    np.testing.assert_allclose(
        other.compare().table["naive"],
        one.compare().table["naive"],
        rtol=PARAMETERS,
        equal_nan=True,
    )
    assert str(other.summary()) == str(one.summary())


def test_an_unknown_index_is_fitted_alike(device):
    data = ss.simulators.village(1_500, seed=3).data
    one, other = (
        ss.fit("income ~ height + weight", data, alternatives=2, engine=engine)
        for engine in (None, Torch(device))
    )
    assert_same_fit(one, other)


def test_a_moment_method_is_fitted_alike(device):
    sample = ss.simulators.gaussian(1_500, 2, 2, intercept=False, norm=2.0, seed=3)
    solver = ss.solvers.TwoModels()
    one, other = (
        ss.fit(sample.formula, sample.data, alternatives=2, solver=solver, engine=engine)
        for engine in (None, Torch(device))
    )
    np.testing.assert_allclose(other.params, one.params, rtol=PARAMETERS)


def test_noise_that_joins_alternatives_is_summed_on_the_host(world, device):
    made = world("max", 250, labels=("a", "b"))
    one, other = both(made, device, noise=ss.noises.Correlated())
    assert other.engine.resident is None
    assert_same_fit(one, other)


@pytest.fixture
def loaded(world, device):
    fitted = world("max", 3_000).fit(weights="w")
    there = Torch(device).load(fitted.problem, fitted.rows)
    # At the optimum scores are rounding and nothing else.
    task = partial(evaluate, fitted.problem, away_from(fitted))
    return fitted, there, task


def test_a_sample_is_the_one_memory_takes_and_stays_on_the_device(loaded):
    fitted, there, task = loaded
    taken = [there.sample(500, np.random.default_rng(1)) for _ in range(2)]
    host = fitted.engine.sample(500, np.random.default_rng(1))
    assert taken[0].n_rows == len(taken[0].rows) == 500
    for one in taken:
        assert str(one.resident.table.device).startswith(there.choice.device)
        np.testing.assert_array_equal(one.rows.outcome, host.rows.outcome)
        assert_same_sums(one.sum(task), host.sum(task))
        assert one.weight_total == pytest.approx(host.weight_total, rel=SUMS)
    assert taken[0].sum(task).loglik == taken[1].sum(task).loglik
    assert there.sample(3_000, np.random.default_rng(1)) is there


def test_sums_are_the_same_twice_to_the_last_bit(loaded):
    _, there, task = loaded
    one, other = there.sum(task), there.sum(task)
    assert one.loglik == other.loglik
    np.testing.assert_array_equal(one.hessian, other.hessian)


def test_reweighting_multiplies_the_weights_on_both_sides(loaded):
    fitted, there, task = loaded
    factor = np.random.default_rng(2).integers(0, 3, 3_000).astype(float)
    twice = there.reweighted(factor).reweighted(factor)
    host = fitted.engine.reweighted(factor**2)
    assert_same_sums(twice.sum(task), host.sum(task))
    np.testing.assert_array_equal(twice.rows.weights, host.rows.weights)
    assert twice.weight_total == pytest.approx(host.weight_total, rel=SUMS)
    plain = replace(fitted.rows, weights=None)
    unweighted = Torch(there.choice.device).load(fitted.problem, plain)
    assert unweighted.weight_total == 3_000
    assert_same_sums(
        unweighted.reweighted(factor).sum(task),
        Memory().load(fitted.problem, replace(plain, weights=factor)).sum(task),
    )


@pytest.mark.parametrize("index", ["known", "unknown"])
def test_no_rows_add_up_to_nothing(loaded, index):
    fitted, there, _ = loaded
    problem = replace(fitted.problem, index=index)
    rows = replace(fitted.rows, weights=None).take(slice(0, 0))
    empty = Torch(there.choice.device).load(problem, rows)
    found = empty.sum(partial(evaluate, problem, away_from(fitted)))
    assert found.loglik == 0.0
    assert not found.score.any() and not found.hessian.any()


def test_collecting_keeps_the_order_of_the_rows(loaded):
    fitted, there, _ = loaded
    outcome = there.single_threaded().collect(lambda batch: batch.rows.outcome)
    np.testing.assert_array_equal(outcome, fitted.rows.outcome)
    assert there.recorded() is there


def test_an_engine_can_be_sent_to_another_process(loaded):
    _, there, task = loaded
    again = pickle.loads(pickle.dumps(there.sample(100, np.random.default_rng(0))))
    # Its problem is another object, with units of the same values.
    assert _torch_tasks.twin_of(task, again.problem) is not None
    assert_same_sums(again.sum(task), there.sample(100, np.random.default_rng(0)).sum(task))


def test_other_units_than_those_of_the_tensors_are_left_to_the_host(loaded):
    fitted, there, _ = loaded
    units = replace(fitted.problem.units, outcome_shift=0.3)
    other = replace(fitted.problem, units=units)
    task = partial(evaluate, other, away_from(fitted))
    assert _torch_tasks.twin_of(task, there.problem) is None
    assert there.sum(task).loglik == pytest.approx(fitted.engine.sum(task).loglik, rel=SUMS)


def test_rows_that_do_not_fit_are_moved_in_every_pass(loaded, monkeypatch):
    fitted, there, task = loaded
    monkeypatch.setattr(engine_module, "free_bytes", lambda _: 50_000)
    small = Torch(there.choice.device, chunk_rows=700).load(fitted.problem, fitted.rows)
    assert small.resident is None
    assert_same_sums(small.sum(task), fitted.engine.sum(task))
    assert small.weight_total == pytest.approx(there.weight_total)
    # A sample of them fits.
    part = small.sample(300, np.random.default_rng(0))
    assert part.resident is not None
    wanted = fitted.engine.sample(300, np.random.default_rng(0)).sum(task)
    assert_same_sums(part.sum(task), wanted)


def limited(most):
    """Return kernels that have memory for so many rows at a time."""
    met = []

    def known(rows, parameters, *, curved):
        met.append(rows.n_rows)
        if rows.n_rows > most:
            raise torch.OutOfMemoryError("no memory")
        return _torch_tasks.PLAIN.known(rows, parameters, curved=curved)

    return met, lambda _: replace(_torch_tasks.PLAIN, known=known)


def test_a_pass_without_room_takes_smaller_chunks(loaded, monkeypatch):
    fitted, there, task = loaded
    met, kernels = limited(1_100)
    monkeypatch.setattr(_torch_tasks, "kernels_for", kernels)
    assert_same_sums(there.sum(task), fitted.engine.sum(task))
    assert max(met) == 3_000 and met[-1] <= 1_100


def test_a_device_without_any_room_is_said_so(loaded, monkeypatch):
    _, there, task = loaded
    monkeypatch.setattr(_torch_tasks, "kernels_for", limited(10)[1])
    monkeypatch.setattr(engine_module, "free_bytes", lambda _: 3 * 2**20)
    with pytest.raises(EngineError, match=r"3 MiB are free.*1,024 rows.*leave `engine` out"):
        there.sum(task)


@pytest.mark.parametrize("room", [0, 228 * 1024])
def test_what_a_pass_keeps_per_row_is_no_less_where_more_is_asked(room):
    kernels = replace(_torch_tasks.PLAIN, room=room)
    for known, own_limits, width in product((True, False), (True, False), (5, 30, 60, 90)):
        plain, whole = (
            kernels.doubles_per_row(
                3, width, known=known, curvature=curvature, own_limits=own_limits
            )
            for curvature in ("none", "exact")
        )
        assert 0 <= plain <= whole
        if own_limits or not room or width > 64:
            assert plain > 0
        elif width <= 30:
            assert plain == whole == 0
        if width > 32 or not room:
            assert whole >= 3 * width


def test_kernels_that_do_not_compile_give_way_to_plain_ones(loaded):
    _, there, _ = loaded

    def broken(*_, **__):
        raise RuntimeError("PassManager::run failed")

    kernel = _torch_tasks._or_else(broken, lambda value: value + 1)
    with pytest.warns(ss.errors.SelfSelectWarning, match="could not be compiled"):
        assert kernel(1) == 2
    assert kernel(2) == 3
    assert there.n_rows


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gpu", "not a device of PyTorch"),
        (3.5, "not a device of PyTorch"),
        ("mps", "double precision"),
        ("meta", "double precision"),
    ],
)
def test_a_device_that_cannot_be_is_refused(given, message):
    with pytest.raises(OptionError, match=message):
        Torch(given)


def test_a_card_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Torch().device == "cpu"
    with pytest.raises(OptionError, match=r"finds no CUDA card.*device='cpu'"):
        Torch("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Torch().device == "cuda"
    with pytest.raises(OptionError, match="there are 1 cards, counted from 0"):
        Torch("cuda:1")


@pytest.mark.parametrize("chunk_rows", [0, -5, 2.5, "many"])
def test_chunks_have_a_positive_number_of_rows(chunk_rows):
    with pytest.raises(OptionError, match="chunk_rows"):
        Torch("cpu", chunk_rows=chunk_rows)


def test_without_pytorch_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'selfselect\[torch\]'"):
        Torch("cpu")


def test_what_is_no_engine_is_refused(world):
    with pytest.raises(OptionError, match=r"not an engine.*engines\.Torch"):
        world("max", 100).fit(engine="cuda")


def test_columns_may_be_tensors_of_different_devices(world, device):
    made = world("max", 200)
    columns = {name: made.data[name].to_numpy() for name in made.data}
    columns["x1"] = torch.tensor(columns["x1"], device=device, requires_grad=True)
    columns["outcome"] = torch.tensor(columns["outcome"])
    assert_same_fit(made.fit(), made.fit(columns, engine=Torch(device)))

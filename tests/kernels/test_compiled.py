"""How compiled kernels are loaded, chosen and refused; threads, forks and interrupts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import selfselect as ss
from selfselect.engines.memory import RowsInMemory
from selfselect.errors import NotCompiledWarning, OptionError, StaleBuildError
from selfselect.kernels import compiled, joint, known_index, tails
from selfselect.kernels.fused_known import FusedSums, RowArguments, sum_known_index
from selfselect.likelihoods import evaluate


def arguments(n_rows: int, n_covariates: int = 4) -> RowArguments:
    rng = np.random.default_rng(n_rows)
    return RowArguments(
        covariates=rng.normal(size=(n_rows, n_covariates)),
        status=rng.integers(0, 3, (n_rows, 2)).astype(np.int8),
        limit=rng.normal(size=(n_rows, 1)),
        weights=None,
        columns=np.tile(np.arange(n_covariates + 1), (2, 1)),
        sizes=np.full(2, n_covariates + 1),
        shift=np.zeros(n_covariates + 1),
        unit=np.ones(n_covariates + 1),
        limit_shift=0.0,
        limit_unit=1.0,
        g=rng.normal(size=(2, n_covariates + 1)),
        h=np.ones(2),
    )


def same_bits(one: FusedSums, other: FusedSums) -> bool:
    return one.loglik == other.loglik and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("score", "hessian")
    )


@pytest.mark.compiled
def test_threads_that_share_the_rows_do_not_change_a_bit() -> None:
    rows = arguments(30_000)
    alone = sum_known_index(rows)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: sum_known_index(rows), range(8)))
    assert all(same_bits(alone, one) for one in together)


@pytest.mark.compiled
def test_the_number_of_threads_does_not_change_a_bit_of_a_pass() -> None:
    made = ss.simulators.gaussian(140_000, 3, 3, seed=4)
    fit = ss.fit(made.formula, made.data, chosen="chosen")
    problem, natural = fit.problem, fit.problem.layout.natural(fit.solution.free)
    sums = []
    for n_threads in (1, 2, 5):
        engine = RowsInMemory(fit.engine.batch, n_threads)
        sums.append(engine.sum(lambda batch: evaluate(problem, natural, batch)))
    for one in sums[1:]:
        assert one.loglik == sums[0].loglik
        np.testing.assert_array_equal(one.score, sums[0].score)
        np.testing.assert_array_equal(one.hessian, sums[0].hessian)


@pytest.mark.compiled
def test_a_kernel_lets_other_threads_run() -> None:
    rows = arguments(2_000_000, 1)
    done = threading.Event()

    def work() -> None:
        sum_known_index(rows)
        done.set()

    thread = threading.Thread(target=work)
    ticks = 0
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0)
    thread.join()
    assert ticks > 10


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_gets_the_same_sums() -> None:
    code = """
import os, sys
import numpy as np, selfselect as ss
from selfselect.kernels.compiled import extension
made = ss.simulators.gaussian(70_000, 3, 2, seed=4)
def fitted():
    return ss.fit(made.formula, made.data, chosen="chosen")
before = fitted()
assert before.engine.batch.backend == "fused"
child = os.fork()
if child == 0:
    os._exit(0 if fitted().params.equals(before.params) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=False, timeout=120
    )
    assert ran.returncode == 0


@pytest.mark.compiled
def test_an_interrupt_stops_a_kernel_in_the_middle() -> None:
    code = """
import sys, threading, time, signal, os
import numpy as np
from selfselect.kernels.fused_known import RowArguments
from selfselect.kernels.fused_known import sum_known_index
n = 40_000_000
one = np.broadcast_to(np.ones(1), (n, 1))
rows = RowArguments(
    covariates=one, status=np.broadcast_to(np.ones(1, np.int8), (n, 3)), limit=one, weights=None,
    columns=np.tile([0, 1], (3, 1)), sizes=np.full(3, 2), shift=np.zeros(2), unit=np.ones(2),
    limit_shift=0.0, limit_unit=1.0, g=np.ones((3, 2)), h=np.ones(3),
)
began = time.monotonic()
threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    sum_known_index(rows)
except KeyboardInterrupt:
    print(time.monotonic() - began)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.6  # of one and a half seconds and more


@pytest.mark.compiled
def test_nothing_is_interrupted_that_was_not_asked_to_be() -> None:
    before = signal.getsignal(signal.SIGINT)
    sum_known_index(arguments(300_000, 1))
    assert signal.getsignal(signal.SIGINT) is before


def run_with(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )


ASK = "from selfselect.kernels.compiled import extension\nprint(extension())"


@pytest.mark.compiled
def test_a_forced_instruction_set_must_be_one_of_the_machine() -> None:
    for name in compiled.extension().instructions():
        assert "module" in run_with(ASK, SELFSELECT_INSTRUCTIONS=name).stdout
    refused = run_with(ASK, SELFSELECT_INSTRUCTIONS="mmx")
    assert "OptionError" in refused.stderr and "baseline" in refused.stderr
    assert OptionError.__name__ in refused.stderr


def test_the_extension_can_be_left_out() -> None:
    assert run_with(ASK, SELFSELECT_PURE="1").stdout.strip() == "None"


@pytest.mark.compiled
def test_an_extension_of_other_sources_is_refused_with_how_to_rebuild(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.cpp").write_text("int changed;")
    monkeypatch.setattr(compiled, "SOURCES", tmp_path)
    compiled.extension.cache_clear()
    try:
        with pytest.raises(StaleBuildError, match=r"`make`.*pip install --editable"):
            compiled.extension()
    finally:
        monkeypatch.undo()
        compiled.extension.cache_clear()
        compiled.extension()


def test_the_digest_knows_names_and_contents(tmp_path: Any) -> None:
    (tmp_path / "a.hpp").write_text("one")
    first = compiled.source_digest(tmp_path)
    (tmp_path / "a.hpp").write_text("two")
    second = compiled.source_digest(tmp_path)
    (tmp_path / "a.hpp").rename(tmp_path / "b.hpp")
    assert len({first, second, compiled.source_digest(tmp_path)}) == 3


def test_a_large_fit_without_the_extension_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "extension", lambda: None)
    monkeypatch.setattr(compiled, "_left_out", lambda: False)
    monkeypatch.setattr(compiled, "_warned", False)
    compiled.warn_where_slow(1_000)
    with pytest.warns(NotCompiledWarning, match="install a C\\+\\+ compiler"):
        compiled.warn_where_slow(10**6)
    compiled.warn_where_slow(10**6)


def test_the_sources_hold_the_polynomials_and_codes_of_python() -> None:
    sources = Path(__file__).parents[2] / "src" / "selfselect" / "kernels" / "native"
    header = (sources / "normal.hpp").read_text("utf-8")
    for name in ("GAP", "EXP", "LOG"):
        body = re.search(rf"double {name}\[\d+\] = {{(.*?)}};", header, re.S)
        assert body is not None
        numbers = tuple(float(one) for one in body[1].split(",") if one.strip())
        assert numbers == getattr(tails, name)
    assert f"CENTRE = {tails.CENTRE};" in header
    blocks = (sources / "blocks.hpp").read_text("utf-8")
    codes = {"OBSERVED", "BELOW", "ABOVE", "BETWEEN", "UNKNOWN", "MAYBE"}
    assert all(f"{name} = {getattr(known_index, name)}" in blocks for name in codes)
    atoms = (sources / "atoms.hpp").read_text("utf-8")
    assert f"STEEP = {joint.STEEP}, REACH = {joint.REACH};" in atoms


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("covariates", np.zeros((10, 4), np.float32), TypeError),
        ("status", np.zeros((10, 2), np.int16), TypeError),
        ("columns", np.zeros((2, 5), np.int32), TypeError),
        ("covariates", np.zeros(10), TypeError),
        ("limit_unit", "one", TypeError),
    ],
)
def test_arguments_of_another_type_are_refused(name: str, value: Any, error: type) -> None:
    rows = replace(arguments(10), **{name: value})
    with pytest.raises(error):
        sum_known_index(rows)

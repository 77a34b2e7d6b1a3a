"""Time the Torch engine on a graphics card: ``python -m benchmarks.gpu``; prints JSON.

Rows are generated on the card. Every kernel is first checked against NumPy on a few rows. It needs
PyTorch, NumPy, SciPy and pandas, and nothing else that the package depends on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
import traceback
import types
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

try:
    import threadpoolctl  # noqa: F401
except ImportError:  # a bare machine: there is nothing to limit
    stand_in: Any = types.ModuleType("threadpoolctl")
    stand_in.ThreadpoolController = lambda: types.SimpleNamespace(
        limit=lambda **_: contextlib.nullcontext()
    )
    sys.modules["threadpoolctl"] = stand_in

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.engines import _torch_tasks
from selfselect.engines.memory import Memory, RowsInMemory
from selfselect.engines.torch import OnDevice, Torch
from selfselect.kernels.torch_rows import TensorRows, pack
from selfselect.likelihoods import evaluate
from selfselect.noises import Independent
from selfselect.problem.problem import Problem, sum_grams
from selfselect.problem.units import Units
from selfselect.rules import Maximum, Minimum
from selfselect.solvers import MaximumLikelihood, Newton
from selfselect.threads import one_blas_thread

FOUND: dict[str, Any] = {}
AGREEMENT = 1e-12


def say(name: str, value: Any) -> None:
    FOUND[name] = value
    print(name, json.dumps(value), flush=True)


def make_problem(
    n_covariates: int, n_alternatives: int, *, index: Any, noise: Any, rule: Any = None
) -> Problem:
    names = [f"x{i}" for i in range(n_covariates)]
    terms = [["Intercept", *names]] * n_alternatives
    equations = Equations.build("y", terms, [f"a{j}" for j in range(n_alternatives)])
    zero, one = np.zeros(n_covariates + 1), np.ones(n_covariates + 1)
    rule = Maximum() if rule is None else rule
    exchangeable = index == "unknown"
    return Problem(equations, rule, noise, Units(zero, one, 0.0, 1.0), index, exchangeable)


class Generated(OnDevice):
    """Rows that were never anywhere but on the device; the host is shown what it asks for."""

    def _taking(self, which: Any) -> OnDevice:
        assert self.resident is not None
        taken = self.resident.take(torch.from_numpy(which).to(self.choice.device))
        make_host = partial(_download, taken, self.problem)
        return Generated(self.choice, self.problem, make_host, taken, len(which))

    @property
    def rows(self) -> Rows:
        # Of all rows solvers want to know no more than whether some alternatives are closed.
        few = 2_000_000
        return self.host.rows if self.n_rows <= few else Rows(np.empty((0, 1)))


def generate(n_rows: int, problem: Problem, device: str) -> OnDevice:
    """Draw rows on the device: covariates, then outcomes of which the largest is observed."""
    k, d = problem.equations.n_alternatives, len(problem.equations.covariates)
    rng = np.random.default_rng(k)
    coefficients = torch.from_numpy(
        np.column_stack([rng.normal(size=(k, d)) / np.sqrt(d), np.linspace(-0.5, 0.5, k)])
    ).to(device)
    table = torch.empty((d + 2, n_rows), dtype=torch.float64, device=device)
    status = torch.empty((k, n_rows), dtype=torch.int8, device=device)
    generator = torch.Generator(device=device).manual_seed(1)
    step = 2**23
    for first in range(0, n_rows, step):
        here = slice(first, min(first + step, n_rows))
        size = here.stop - first
        table[:-2, here] = torch.randn(
            (d, size), dtype=torch.float64, device=device, generator=generator
        )
        table[-2, here] = 1.0
        latent = torch.matmul(coefficients, table[:-1, here])
        latent += torch.randn((k, size), dtype=torch.float64, device=device, generator=generator)
        outcome, chosen = latent.max(dim=0)
        table[-1, here] = -outcome
        if problem.index == "known":
            status[:, here] = 1
            status[:, here].scatter_(0, chosen[None], 0)
        else:
            status[:, here] = 5
    rows = TensorRows(table, status, codes=pack(status))
    return Generated(Torch(device), problem, partial(_download, rows, problem), rows, n_rows)


def _download(rows: TensorRows, problem: Problem) -> RowsInMemory:
    covariates = np.ascontiguousarray(rows.table[:-2].cpu().numpy().T)
    outcome = -rows.table[-1].cpu().numpy()
    status = np.ascontiguousarray(rows.status.cpu().numpy().T)
    chosen = None if problem.index == "unknown" else np.argmax(status == 0, axis=1)
    weights = None if rows.weights is None else rows.weights.cpu().numpy()
    given = Rows(covariates, outcome, chosen, weights)
    return Memory().load(problem, given)


def on_clock(task: Any, *, repeats: int = 5, cuda: bool = True) -> dict[str, float]:
    """Run once unmeasured, then several times; return medians in milliseconds."""
    task()
    walls, events = [], []
    for _ in range(repeats):
        if cuda:
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
        start = time.perf_counter()
        task()
        if cuda:
            end.record()
            torch.cuda.synchronize()
            events.append(begin.elapsed_time(end))
        walls.append(1e3 * (time.perf_counter() - start))
    found = {"wall_ms": round(float(np.median(walls)), 3)}
    if cuda:
        found["event_ms"] = round(float(np.median(events)), 3)
    return found


def check(device: str) -> None:
    """Compare the device with NumPy on a few thousand rows, in every kind of problem."""
    rng = np.random.default_rng(0)
    for index, n_covariates, k, weighted, rule in [
        ("known", 20, 3, False, Maximum()),
        ("known", 5, 2, True, Minimum()),
        ("known", 40, 3, True, Maximum()),
        ("known", 4, 9, True, Maximum()),
        ("known", 4, 3, True, Maximum(cost={"a1": 0.3})),
        ("unknown", 20, 4, False, Maximum()),
        ("unknown", 3, 2, True, Minimum()),
        ("unknown", 40, 3, True, Maximum()),
    ]:
        problem = make_problem(n_covariates, k, index=index, noise=Independent("each"), rule=rule)
        n_rows = 5_003
        covariates = rng.normal(size=(n_rows, n_covariates))
        rows = Rows(
            covariates,
            rng.normal(size=n_rows) * 2,
            rng.integers(k, size=n_rows) if index == "known" else None,
            rng.uniform(0, 2, n_rows) if weighted else None,
        )
        host = Memory().load(problem, rows)
        there = OnDevice.place(Torch(device), problem, partial(_itself, host), n_rows)
        natural = rng.normal(size=problem.layout.n_natural) * 0.7
        at_h = problem.layout.inverse_scale_positions
        natural[at_h] = np.abs(natural[at_h]) + 0.5
        for curvature in ("none", "complete", "exact"):
            task = partial(evaluate, problem, natural, curvature=curvature)
            wanted, found = host.sum(task), there.sum(task)
            worst = max(
                abs(found.loglik - wanted.loglik) / abs(wanted.loglik),
                np.abs(found.score - wanted.score).max() / np.abs(wanted.score).max(),
                np.abs(found.hessian - wanted.hessian).max()
                / max(np.abs(wanted.hessian).max(), 1.0),
            )
            again = there.sum(task)
            same = bool((again.score == found.score).all() and again.loglik == found.loglik)
            name = f"check {index} d={n_covariates} k={k} {type(rule).__name__} {curvature}"
            say(name, {"relative": float(worst), "same_twice": same})
            assert worst < AGREEMENT and same, name
        wanted, found = (
            host.sum(partial(sum_grams, problem)),
            there.sum(partial(sum_grams, problem)),
        )
        for one, other in zip(wanted, found, strict=True):
            assert np.abs(one - other).max() < AGREEMENT * np.abs(one).max()


def _itself(host: Memory) -> Memory:
    return host


def floors(engine: OnDevice) -> None:
    table = engine.resident.table  # type: ignore[union-attr]
    n_bytes = table.numel() * 8
    for name, task in {
        "read": table.sum,
        "gram": lambda: torch.matmul(table, table.T),
    }.items():
        found = on_clock(task)
        say(f"floor {name}", found | {"GB_per_s": round(n_bytes / found["event_ms"] / 1e6)})


def variants(engine: OnDevice, parameters: Any, what: str) -> None:
    """Time a pass cut in several ways; what has no room, or does not compile, is said."""
    from selfselect.kernels import torch_card

    rows, problem = engine.resident, engine.problem
    assert rows is not None
    at = torch.from_numpy(parameters).to(rows.table.device)
    names = ("MOST_TILES", "MOST_WARPS", "STAGES")
    kept = [getattr(torch_card, name) for name in names]
    for cut in product((12, 24), (8, 10, 12, 14, 16), (2, 3)):
        torch_card.planned.cache_clear()
        for name, value in zip(names, cut, strict=True):
            setattr(torch_card, name, value)
        for curvature in ("none", "exact"):
            task = (
                partial(torch_card.sum_known_rows, rows, at, curved=curvature != "none")
                if problem.index == "known"
                else partial(torch_card.sum_unknown_rows, rows, at, side=1.0, curvature=curvature)
            )
            if curvature != "none" or cut[0] == kept[0]:
                label = " ".join(f"{name}={value}" for name, value in zip(names, cut, strict=True))
                _try(f"{what} {curvature} {label}", task)
    torch_card.planned.cache_clear()
    for name, value in zip(names, kept, strict=True):
        setattr(torch_card, name, value)


def _parameters(problem: Problem, free: Any) -> Any:
    """Return what the kernels take: slopes, constant and inverse scale of every alternative."""
    natural = problem.layout.natural(free).reshape(problem.equations.n_alternatives, -1)
    return np.ascontiguousarray(natural[:, [*range(1, natural.shape[1] - 1), 0, -1]])


def _try(name: str, task: Any, **options: Any) -> None:
    try:
        say(name, on_clock(task, repeats=3, **options))
    except Exception as error:
        say(name, f"{type(error).__name__}: {str(error)[:200]}")
        torch.cuda.empty_cache()


def passes(engine: OnDevice, free: Any, what: str, *, cuda: bool) -> None:
    problem = engine.problem
    natural = problem.layout.natural(free)
    small = engine.sample(20_000, np.random.default_rng(0))
    large = engine.sample(1_000_000, np.random.default_rng(0))
    for size in (20_000, 1_000_000):
        task = partial(engine.sample, size, np.random.default_rng(0))
        say(f"{what} sample {size}", on_clock(task, cuda=cuda))
    say(f"{what} grams", on_clock(partial(engine.sum, partial(sum_grams, problem)), cuda=cuda))
    for curvature in ("none", "exact"):
        task = partial(evaluate, problem, natural, curvature=curvature)
        for name, part in {"20k": small, "1M": large, "all": engine}.items():
            say(f"{what} pass {curvature} {name}", on_clock(partial(part.sum, task), cuda=cuda))
    if cuda:
        for chunk in (2**16, 2**18, 2**20, 2**22):
            chunked = replace(engine, choice=replace(engine.choice, chunk_rows=chunk))
            task = partial(evaluate, problem, natural, curvature="exact")
            _try(f"{what} pass exact all, chunks of {chunk}", partial(chunked.sum, task))
        kept = _torch_tasks.kernels_for
        try:
            _torch_tasks.kernels_for = lambda _: _torch_tasks.PLAIN
            for curvature in ("none", "exact"):
                task = partial(evaluate, problem, natural, curvature=curvature)
                _try(f"{what} pass {curvature} all, by PyTorch alone", partial(engine.sum, task))
        finally:
            _torch_tasks.kernels_for = kept


def plain_loop() -> float:
    """Time a loop of Python, which says how fast the processor is at the moment."""
    begun, total = time.perf_counter(), 0
    for i in range(100_000):
        total += i * i
    return round(1e3 * (time.perf_counter() - begun), 1)


def fits(
    engine: OnDevice, solver: Any, what: str, *, cuda: bool, repeats: int = 9, start: Any = None
) -> Any:
    walls, loops = [], []
    for _ in range(repeats + 1):
        loops.append(plain_loop())
        if cuda:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        with one_blas_thread():
            solution = solver.solve(
                engine.problem, engine, rng=np.random.default_rng(0), start=start, progress=False
            )
        walls.append(round(1e3 * (time.perf_counter() - begun), 2))
    say(
        f"{what} fit {type(solver).__name__}",
        {
            "first_ms": walls[0],
            "median_ms": round(float(np.median(walls[1:])), 1),
            "wall_ms": walls[1:],
            "loop_ms": loops[1:],
            "converged": solution.converged,
            "passes": solution.n_passes,
            "status": str(solution.ending),
            "trace": [(one.rows, one.distance) for one in solution.trace],
        },
    )
    return solution


def frame(n_rows: int, n_covariates: int, device: str) -> None:
    """Fit a frame, whose rows have to be coded and moved first; and the same in memory."""
    import pandas as pd

    import selfselect as ss

    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(n_covariates)]
    data = {name: rng.standard_normal(n_rows) for name in names}
    slopes = rng.normal(size=(3, n_covariates)) / np.sqrt(n_covariates)
    latent = slopes @ np.array(list(data.values())) + rng.standard_normal((3, n_rows))
    table = pd.DataFrame(data)
    table["y"], table["chosen"] = latent.max(axis=0), latent.argmax(axis=0)
    del data, latent
    for engine in (Torch(device), Memory()):
        walls = []
        for _ in range(2):
            begun = time.perf_counter()
            fit = ss.fit(f"y ~ {' + '.join(names)}", table, chosen="chosen", engine=engine)
            walls.append(round(1e3 * (time.perf_counter() - begun), 1))
        found = {"wall_ms": walls, "loglik": fit.llf}
        if isinstance(fit.engine, OnDevice):
            found["moved"] = str(fit.engine.moved)
        say(f"frame of {n_rows:,} rows, {type(engine).__name__}", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--covariates", type=int, default=20)
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", default=None)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--no-unknown", action="store_true")
    parser.add_argument("--frame", type=float, default=1e7, help="rows of a frame; 0 for none")
    options = parser.parse_args()
    device = Torch(options.device).device
    cuda, n_rows = device != "cpu", int(options.rows)
    say("torch", torch.__version__)
    if cuda:
        say("device", torch.cuda.get_device_name(device))
    started = time.perf_counter()
    try:
        check(device)
        say("seconds", round(time.perf_counter() - started, 1))
        problem = make_problem(options.covariates, 3, index="known", noise=Independent(1.0))
        engine = generate(n_rows, problem, device)
        say("seconds", round(time.perf_counter() - started, 1))
        if cuda:
            floors(engine)
        solution = fits(engine, Newton(), "known", cuda=cuda)
        passes(engine, solution.free, "known", cuda=cuda)
        say("seconds", round(time.perf_counter() - started, 1))
        if cuda and options.variants:
            variants(engine, _parameters(problem, solution.free), "known")
            say("seconds", round(time.perf_counter() - started, 1))
        del engine
        if not options.no_unknown:
            problem = make_problem(options.covariates, 4, index="known", noise=Independent(1.0))
            engine = generate(n_rows, problem, device)
            natural = np.zeros(problem.layout.n_natural)
            natural[problem.layout.inverse_scale_positions] = 1.0
            task = partial(evaluate, problem, natural)
            say("known pass exact all, k=4", on_clock(partial(engine.sum, task), cuda=cuda))
            del engine
            problem = make_problem(
                options.covariates, 4, index="unknown", noise=Independent("common")
            )
            engine = generate(n_rows, problem, device)
            solution = fits(engine, MaximumLikelihood(), "unknown", cuda=cuda)
            start = solution.free + 1e-3
            fits(engine, MaximumLikelihood(), "unknown, from a start,", cuda=cuda, start=start)
            passes(engine, solution.free, "unknown", cuda=cuda)
            if cuda and options.variants:
                variants(engine, _parameters(problem, solution.free), "unknown")
            del engine
        if options.frame:
            frame(int(options.frame), options.covariates, device)
    except Exception:
        say("failed", traceback.format_exc())
    say("seconds", round(time.perf_counter() - started, 1))
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(FOUND, file, indent=1)


if __name__ == "__main__":
    main()

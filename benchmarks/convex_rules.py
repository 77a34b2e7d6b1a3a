"""Rules without bounds, what samplers and fits cost: python -m benchmarks.convex_rules.

Times are processor seconds of one process, so that a busy machine does not spoil them.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np

import selfselect as ss
from selfselect.engines import memory
from selfselect.noises import Independent
from selfselect.rules import ConvexRule, LinearArgmax, Maximum
from selfselect.samplers import (
    Antithetic,
    BoxExact,
    EllipticalSlice,
    Gibbs,
    ProjectedLangevin,
    Rejection,
    Target,
)
from selfselect.solvers import MonteCarloNewton, ProjectedSGD

MIXED = np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)


def largest_mix(latent):
    """A rule as a user would write it."""
    return (latent @ MIXED.T).argmax(axis=1)


def largest(latent):
    return latent.argmax(axis=1)


def spent(task):
    started = time.process_time()
    found = task()
    return found, time.process_time() - started


def sampler_table(budget: float) -> None:
    """Bias and scatter of conditional means after the same processor time, from a cold start."""
    rng = np.random.default_rng(0)
    n_rows = 500
    means = 0.7 * rng.standard_normal((n_rows, 4))
    latent = means + rng.standard_normal((n_rows, 4))
    chosen = latent.argmax(axis=1)
    target = Target(Maximum(), chosen, latent[np.arange(n_rows), chosen], means, np.ones(4))
    truth = BoxExact().step(target, latent, rng).first
    others = np.arange(4) != chosen[:, None]
    print(f"\n{n_rows} rows, the largest of four observed, {budget:g} s each; exact means known")
    print("| sampler | steps | bias of the mean | rms error of a row |")
    print("|---|---|---|---|")
    samplers = [
        *(ProjectedLangevin(gamma) for gamma in (0.2, 0.05, 0.01, 0.002)),
        EllipticalSlice(), Antithetic(), Gibbs(), Rejection(), BoxExact(moments=False), BoxExact(),
    ]  # fmt: skip
    for sampler in samplers:
        started, steps, total = time.process_time(), 0, np.zeros_like(means)
        place = sampler.init(target, rng)
        while time.process_time() - started < budget:
            draw = sampler.step(target, place, rng)
            place = draw.latent
            total += draw.first
            steps += 1
        gap = (total / steps - truth)[others]
        name = repr(sampler).replace(", steps=1000, radius=None", "")
        print(f"| {name} | {steps} | {gap.mean():+.4f} | {np.sqrt(np.mean(gap**2)):.4f} |")


RULES = {"LinearArgmax": LinearArgmax(MIXED), "a function": ConvexRule(largest_mix)}
"""The same rule as numbers, whose likelihood is exact, and as code, which is drawn from."""


def ratio(n_rows: int, scale: float | str, rule: str) -> tuple[float, float]:
    """Return processor seconds of a rule without bounds, and of the exact box fit of as many rows.

    Each is the median of three fits; of a function, which takes seconds, of one.
    """
    boxes = ss.simulators.gaussian(n_rows, 5, 4, seed=1)
    mixed = ss.simulators.gaussian(n_rows, 5, 4, rule=LinearArgmax(MIXED), seed=1)
    own = [_general(mixed, scale, rule)[1] for _ in range(3 if rule == "LinearArgmax" else 1)]
    return float(np.median(own)), _exact(boxes)


def _exact(boxes: ss.simulators.Sample) -> float:
    with patch.object(memory, "extension", lambda: None):
        ss.fit(boxes.formula, boxes.data, chosen="chosen")
        each = [
            spent(lambda: ss.fit(boxes.formula, boxes.data, chosen="chosen"))[1] for _ in range(3)
        ]
    return float(np.median(each))


def _general(
    mixed: ss.simulators.Sample, scale: float | str, rule: str
) -> tuple[ss.FitResult, float]:
    options = {"chosen": "chosen", "rule": RULES[rule], "noise": Independent(scale)}
    return spent(lambda: ss.fit(mixed.formula, mixed.data, **options))


def speed(n_rows: int, scales: tuple[float | str, ...] = (1.0, "common", "each")) -> None:
    """Rules without bounds against the exact box fit by NumPy, standard errors included."""
    boxes = ss.simulators.gaussian(n_rows, 5, 4, seed=1)
    mixed = ss.simulators.gaussian(n_rows, 5, 4, rule=LinearArgmax(MIXED), seed=1)
    seconds = _exact(boxes)
    print(f"\nn = {n_rows:g}, d = 5, k = 4: the exact box fit by NumPy takes {seconds:.2f} s")
    print("| rule | scale | seconds | times the box fit | status |")
    print("|---|---|---|---|---|")
    for rule in RULES:
        for scale in scales:
            result, own = _general(mixed, scale, rule)
            times = f"{own:.2f} | {own / seconds:.0f}"
            print(f"| {rule} | {scale} | {times} | {result.status} |", flush=True)


def against_langevin(n_rows: int) -> None:
    """MonteCarloNewton and the paper's method, both from the same rows, against the exact fit."""
    sample = ss.simulators.gaussian(n_rows, 2, 3, norm=0.8, seed=5)
    options = {"chosen": "chosen", "noise": Independent(1.0)}
    exact = ss.fit(sample.formula, sample.data, **options)
    print(f"\nn = {n_rows:g}, d = 2, k = 3, scale known: distance to the exact fit")
    print("| method | seconds | rms distance in standard errors |")
    print("|---|---|---|")
    hidden = ConvexRule(largest)
    methods = {
        "MonteCarloNewton, choose only": (hidden, MonteCarloNewton(loglik_draws=64)),
        "ProjectedSGD, Langevin 0.05 x 200, 1 pass": (
            "max", ProjectedSGD(sampler=ProjectedLangevin(0.05, 200))),
        "ProjectedSGD, Langevin 0.01 x 1000, 1 pass": (
            "max", ProjectedSGD(sampler=ProjectedLangevin(0.01, 1000))),
        "ProjectedSGD, Langevin 0.01 x 1000, 4 passes": (
            "max", ProjectedSGD(passes=4, sampler=ProjectedLangevin(0.01, 1000))),
    }  # fmt: skip
    for name, (rule, solver) in methods.items():
        result, own = spent(
            lambda rule=rule, solver=solver: ss.fit(
                sample.formula, sample.data, rule=rule, solver=solver, **options
            )
        )
        gap = float(np.sqrt(np.mean(((result.params - exact.params) / exact.bse) ** 2)))
        print(f"| {name} | {own:.1f} | {gap:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convex_rules")
    parser.add_argument("--rows", type=float, default=1e5, help="rows of the speed table")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds per sampler")
    options = parser.parse_args()
    sampler_table(options.budget)
    against_langevin(2_000)
    speed(int(options.rows))


if __name__ == "__main__":
    main()

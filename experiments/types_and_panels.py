"""Tests of panels, and of the number of types: python experiments/types_and_panels.py [--help].

Draws panels whose people have a type or a random effect, with own noise as assumed, heavy-tailed or
of a moving spread, and counts how often the tests of shape and spread reject at 5%. Then draws
panels of one, two or three types and counts how often one type fewer is rejected: ratios of the
data are ranked among those of samples drawn from the smaller fits, one from each.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss
from selfselect.engines.memory import Memory
from selfselect.results.overfitting import FewerTypes

LEVEL = 0.05
FORMULA = "y ~ x1 + x2"
FEW = ss.solvers.TypeSearch(starts=2)

TESTED = (
    ("types", "as assumed", 200, 5), ("types", "as assumed", 80, 3),
    ("random effect", "as assumed", 200, 5), ("types", "t 5", 200, 5),
    ("types", "exp 0.2x1", 200, 5),
)  # fmt: skip
"""Model, own noise, people and years."""

COUNTED = ((1, 2), (2, 3), (3, 3))
"""Types there are, and types that are fitted."""

SHIFTS = {
    1: np.zeros((1, 2)),
    2: np.array([[0.8, -0.6], [-0.8, 0.6]]),
    3: np.array([[0.8, -0.6], [-0.8, 0.6], [0.9, 0.9]]),
}


def draw(shifts: Any, noise: str, n_years: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw a panel of people with shifts (people, 2)."""
    person = np.repeat(np.arange(len(shifts)), n_years)
    n = len(person)
    x, own = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    if noise == "t 5":
        own = rng.standard_t(5, (n, 2)) / np.sqrt(5 / 3)
    if noise == "exp 0.2x1":
        own = own * np.exp(0.2 * x[:, :1])
    latent = 0.2 + x @ np.array([[0.8, -0.4], [-0.5, 0.6]]) + shifts[person] + own * [0.8, 1.0]
    chosen = latent.argmax(axis=1)
    outcome, who = latent[np.arange(n), chosen], np.array(["a", "b"])[chosen]
    return pd.DataFrame({"y": outcome, "who": who, "x1": x[:, 0], "x2": x[:, 1], "person": person})


def fitted(data: pd.DataFrame, noise: Any) -> ss.FitResult:
    solver = FEW if noise.mixed else None
    return ss.fit(
        FORMULA, data, chosen="who", panel="person", noise=noise, solver=solver, seed=0,
        progress=False,
    )  # fmt: skip


def tested(model: str, noise: str, n_people: int, n_years: int, samples: int) -> None:
    """Print how often the tests of shape and spread reject."""
    p_values = []
    for seed in range(samples):
        rng = np.random.default_rng([seed, n_people, n_years, 91])
        kind = (rng.uniform(size=n_people) < 0.4).astype(int)
        shifts = 1.2 * SHIFTS[2][kind]
        fit_with: Any = ss.noises.Types(2)
        if model == "random effect":
            shifts = np.repeat(0.8 * rng.standard_normal((n_people, 1)), 2, axis=1)
            fit_with = ss.noises.SharedShock(nodes=9)
        fit = fitted(draw(shifts, noise, n_years, rng), fit_with)
        if fit.converged:
            tests = (fit.normality_test(0), fit.heteroskedasticity_test(0))
            p_values.append([one.p_value for one in tests])
    shape, spread = 100 * (np.array(p_values) <= LEVEL).mean(axis=0)
    counts = f"{n_people}, {n_years} | {shape:.1f}% | {spread:.1f}% | {len(p_values)}"
    print(f"| {model} | {noise} | {counts} |", flush=True)


def counted(truth: int, number: int, samples: int, n_people: int = 100, n_years: int = 4) -> None:
    """Print how often one type fewer than `number` is rejected."""
    ratios = []
    for seed in range(samples):
        rng = np.random.default_rng([seed, n_people, truth, 5])
        shifts = SHIFTS[truth][rng.integers(0, truth, n_people)]
        fit = fitted(draw(shifts, "as assumed", n_years, rng), ss.noises.Types(number))
        smaller = FewerTypes(fit.problem, FEW)
        ratio = 2.0 * (fit.llf - smaller.loglik(fit.rows, rng))
        drawn = smaller.draw(fit.rows, rng)
        larger = FEW.solve(
            smaller.larger, Memory().load(smaller.larger, drawn), rng=rng, progress=False
        )
        ratios.append([ratio, 2.0 * (larger.loglik - smaller.loglik(drawn, rng))])
    data, chance = np.array(ratios).T
    p_values = np.array([(chance >= one).mean() for one in data])
    rejected = f"{100 * (p_values <= LEVEL).mean():.1f}%"
    print(f"| {truth} | {number - 1} against {number} | {rejected} | {samples} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    samples = parser.parse_args().samples
    warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
    print("| model | noise | people, years | normality | variance | samples |")
    print("|---|---|---|---|---|---|")
    for model, noise, n_people, n_years in TESTED:
        tested(model, noise, n_people, n_years, samples)
    print("\n| types there are | tested | rejected at 5% | samples |\n|---|---|---|---|")
    for truth, number in COUNTED:
        counted(truth, number, samples)


if __name__ == "__main__":
    main()

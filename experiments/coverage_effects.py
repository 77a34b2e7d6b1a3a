"""Coverage of 95% intervals of effects: python experiments/coverage_effects.py [--help].

Draws samples with fresh covariates, fits each, and counts how often the interval of every effect
holds the truth about the population. The truth comes from millions of simulated rows with all
their outcomes, by code that shares nothing with the library. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd

import selfselect as ss

LEVEL = 0.95
TRUTH_ROWS = 4_000_000
SUBSIDY, QUOTA = 0.4, 0.15
QUANTILES = (0.25, 0.5, 0.75)
GROUPS = ("everyone", "a chosen", "b chosen")


@dataclass(frozen=True)
class Design:
    """A rule and its alternatives; the first two are compared."""

    rule: str
    labels: str

    @property
    def sign(self) -> float:
        return 1.0 if self.rule == "max" else -1.0

    @property
    def coefficients(self) -> np.ndarray:
        """Intercept, slope of x, and effect of the dummy d, per alternative."""
        return np.array([[0.2, 0.8, 0.3], [0.4, -0.5, 0.1], [0.0, 0.3, -0.6]])[: len(self.labels)]

    @property
    def scales(self) -> np.ndarray:
        return np.array([0.8, 1.0, 1.2])[: len(self.labels)]

    def covariates(self, rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.standard_normal(n_rows), 1.0 * (rng.uniform(size=n_rows) < 0.4)


DESIGNS = [Design("max", "ab"), Design("max", "abc")]

Key = tuple[str, ...]


def truth_of(design: Design, seed: int = 0) -> dict[Key, float]:
    """Simulate the population and read every effect off its outcomes."""
    rng = np.random.default_rng([seed, 99])
    x, d = design.covariates(rng, TRUTH_ROWS)
    w, scales, labels, sign = design.coefficients, design.scales, design.labels, design.sign
    k = len(labels)
    mean = w[:, 0] + np.outer(x, w[:, 1]) + np.outer(d, w[:, 2])
    z = rng.standard_normal((TRUTH_ROWS, k))
    latent = mean + scales * z
    each = np.arange(TRUTH_ROWS)
    seen = (sign * latent).argmax(axis=1)
    groups = {"everyone": np.ones(TRUTH_ROWS, bool)} | {g: seen == j for j, g in enumerate(labels)}
    found: dict[Key, float] = {}

    for group, rows in groups.items():
        for j, label in enumerate(labels):
            found["potential outcomes", group, label] = latent[rows, j].mean()
    for j, label in enumerate(labels):
        found["choice probabilities", label] = (seen == j).mean()
    gain = latent[:, 0] - latent[:, 1]
    found["treatment effects", "ATE"] = gain.mean()
    found["treatment effects", "ATT"] = gain[seen == 0].mean()
    found["treatment effects", "ATU"] = gain[seen != 0].mean()

    explained = np.mean([mean[seen == 0, j].mean() - mean[seen == 1, j].mean() for j in (0, 1)])
    pay = np.mean([(mean[seen == g, 0] - mean[seen == g, 1]).mean() for g in (0, 1)])
    gap = latent[seen == 0, 0].mean() - latent[seen == 1, 1].mean()
    for part, value in zip(
        ("covariates", "pay", "selection", "gap under the model"),
        (explained, pay, gap - explained - pay, gap),
        strict=True,
    ):
        found["decomposition", part] = value
    for j, label in enumerate(labels):
        here = seen == j
        others = np.delete(latent, j, axis=1).mean(axis=1)
        comparative = (latent[here, j] - others[here]).mean() - (latent[:, j] - others).mean()
        found["sorting", label, "advantage by covariates"] = (
            mean[here, j].mean() - mean[:, j].mean()
        )
        found["sorting", label, "advantage by noise"] = (latent[here, j] - mean[here, j]).mean()
        found["sorting", label, "comparative advantage"] = comparative
        found["sorting", label, "covariance of choice and gain"] = here.mean() * comparative

    def shares(rows: np.ndarray) -> np.ndarray:
        return np.bincount((sign * rows).argmax(axis=1), minlength=k) / len(rows)

    without = latent - np.outer(d, w[:, 2])
    discrete = shares(without + w[:, 2]) - shares(without)
    for j, label in enumerate(labels):
        # The mean of a step is smooth in x: its derivative is a covariance with the noise.
        slope = sum(w[m, 1] / scales[m] * ((seen == j) * z[:, m]).mean() for m in range(k))
        found["marginal effects", "x", label] = slope
        found["marginal effects", "d", label] = discrete[j]

    def after(score: np.ndarray, name: str) -> np.ndarray:
        chosen = score.argmax(axis=1)
        outcome = latent[each, chosen]
        before = latent[each, seen]
        found[name, "after"] = outcome.mean()
        found[name, "change"] = (outcome - before).mean()
        for j, label in enumerate(labels):
            found[name, "share", label] = (chosen == j).mean()
        return chosen

    closed = sign * latent
    closed[:, 0] = -np.inf
    after(closed, "a closed")
    score = sign * latent
    score[:, 1] += SUBSIDY
    after(score, "b subsidised")
    margin = sign * latent[:, 0] - (sign * latent[:, 1:]).max(axis=1)
    fee = np.quantile(margin, 1 - QUOTA)
    score = sign * latent
    score[:, 0] -= fee
    after(score, "quota on a, fee")
    found["quota on a, fee", "fee"] = fee
    for label in labels:  # the share of a is given, and with it that of b where there are two
        if label == "a" or k == 2:
            del found["quota on a, fee", "share", label]
    if k == 2:
        del found["a closed", "share", "b"]
    del found["a closed", "share", "a"]
    best = (sign * mean).argmax(axis=1)
    found["policy", "policy"] = mean[each, best].mean()
    found["policy", "expert"] = latent[each, seen].mean()
    found["policy", "policy - expert"] = mean[each, best].mean() - latent[each, seen].mean()
    for group, rows in (
        ("everyone", seen >= 0),
        ("a chosen", seen == 0),
        ("b chosen", seen == 1),
    ):
        found["gains", group, "std"] = gain[rows].std()
        for q, value in zip(QUANTILES, np.quantile(gain[rows], QUANTILES), strict=True):
            found["gains", group, f"quantile {q:g}"] = value
    return found


def intervals_of(fit: ss.FitResult) -> dict[Key, tuple[float, float, float]]:
    """Return estimate and interval of every effect, by the keys of the truth."""
    found: dict[Key, tuple[float, float, float]] = {}

    def take(name: str, table: pd.DataFrame, *keys: Any) -> None:
        columns = [table[key] if key in table else [key] * len(table) for key in keys]
        numbers = (table["estimate"], table["conf_low"], table["conf_high"])
        for key, ends in zip(zip(*columns, strict=True), zip(*numbers, strict=True), strict=True):
            found[(name, *map(str, key))] = ends

    take("potential outcomes", fit.potential_outcomes().table, "group", "alternative")
    take("choice probabilities", fit.choice_probabilities().table, "alternative")
    take("treatment effects", fit.treatment_effects("a", "b").table, "effect")
    take("decomposition", fit.decompose("a", "b").table, "part")
    take("sorting", fit.sorting().table, "alternative", "quantity")
    take("marginal effects", fit.marginal_effects().table, "variable", "alternative")
    changes: list[tuple[str, dict[str, Any]]] = [
        ("a closed", {"close": ["a"]}),
        ("b subsidised", {"subsidy": {"b": SUBSIDY}}),
        ("quota on a, fee", {"quota": {"a": QUOTA}}),
    ]
    for name, options in changes:
        made = fit.counterfactual(**options)
        outcomes, shares = made.outcomes.table, made.shares.table
        is_fee = outcomes["quantity"] == "fee for a place"
        take(name, outcomes[outcomes["quantity"] == "mean outcome"], "when")
        take(name, shares[shares["when"] == "after"], "share", "alternative")
        take(name, outcomes[is_fee], "fee")
    take("policy", fit.policy().value.table, "quantity")
    gains = fit.gains("a", "b", quantiles=QUANTILES, draws=20_000)
    take("gains", gains.table, "group", "quantity")
    return found


def replicate(design: Design, n_rows: int, seed: int) -> dict[Key, tuple[float, float, float]]:
    rng = np.random.default_rng([seed, 1])
    x, d = design.covariates(rng, n_rows)
    sample = ss.simulate(
        {
            label: dict(zip(("Intercept", "x", "d"), map(float, row), strict=True))
            for label, row in zip(design.labels, design.coefficients, strict=True)
        },
        {"x": x, "d": d},
        scales=list(map(float, design.scales)),
        rule=design.rule,
        seed=seed,
    )
    return intervals_of(ss.fit(sample.formula, sample.data, chosen="chosen", rule=design.rule))


def study(design: Design, replications: int, n_rows: int) -> tuple[list[str], list[float]]:
    """Return the design's rows of the table, one per kind of effect, and every coverage."""
    truth = truth_of(design)
    covered: dict[Key, list[bool]] = {key: [] for key in truth}
    failed = 0
    for seed in range(replications):
        try:
            intervals = replicate(design, n_rows, seed)
        except ss.errors.SelfSelectError:
            failed += 1
            continue
        if seed % 100 == 99:
            print(f"{design}: {seed + 1} samples", flush=True)
        for key, value in truth.items():
            _, low, high = intervals[key]
            covered[key].append(low <= value <= high)
    coverage = {key: 100 * float(np.mean(hits)) for key, hits in covered.items()}
    rows = []
    for kind in dict.fromkeys(key[0] for key in truth):
        own = {key: value for key, value in coverage.items() if key[0] == kind}
        worst = max(own, key=lambda key: abs(own[key] - 100 * LEVEL))
        rows.append(
            f"| {design.rule} | {len(design.labels)} | {kind} | {len(own)} | "
            f"{np.mean(list(own.values())):.2f}% | {min(own.values()):.2f}% | "
            f"{max(own.values()):.2f}% | {', '.join(worst[1:])} |"
        )
    print(f"{design}: {failed} of {replications} samples failed", flush=True)
    return rows, list(coverage.values())


HEAD = """# Coverage of 95% intervals of effects

Samples of {n_rows:,} rows with a normal covariate x and a dummy d, drawn anew each time; two or
three alternatives with intercepts and both covariates, scales 0.8 to 1.2, one per alternative. The
estimand is the population's, `covariates="sampled"`, with observed-information errors. The truth
is read off {truth:,} simulated rows with all their outcomes. Effects compare a with b; b gets a
subsidy of {subsidy}, at most {quota:.0%} may choose a, gains are simulated with 20,000 draws.
One effect's coverage over {replications:,} replications has a standard error of {error:.2f}
percentage points.

Made by `python experiments/coverage_effects.py --replications {replications} --rows {n_rows}`
in {minutes:.0f} minutes.

**All {count} intervals: {average:.2f}% on average, the lowest {lowest:.2f}%, the highest
{highest:.2f}%.**

| rule | alternatives | effect | intervals | average | lowest | highest | furthest from 95% |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-effects.md"))
    options = parser.parse_args()
    started = time.perf_counter()
    rows: list[str] = []
    every: list[float] = []
    for design in DESIGNS:
        lines, coverage = study(design, options.replications, options.rows)
        rows, every = rows + lines, every + coverage
        minutes = (time.perf_counter() - started) / 60
        print(f"{minutes:6.1f} minutes", *lines, sep="\n", flush=True)
        # Written after every design, so that a study stopped early leaves what it found.
        text = page(rows, every, options.replications, options.rows, minutes)
        options.output.write_text(text, encoding="utf-8")


def page(
    rows: list[str], every: list[float], replications: int, n_rows: int, minutes: float
) -> str:
    head = HEAD.format(
        n_rows=n_rows, truth=TRUTH_ROWS, subsidy=SUBSIDY, quota=QUOTA, replications=replications,
        error=100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5, minutes=minutes,
        count=len(every), average=np.mean(every), lowest=min(every), highest=max(every),
    )  # fmt: skip
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()

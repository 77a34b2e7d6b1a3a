"""Coverage and precision of MonteCarloNewton: python experiments/coverage_convex.py [--help].

Samples by two rules without bounds, a polyhedral and a curved one, of four alternatives. Counts how
often 95% intervals hold the truth, and compares the estimates with those of brute-force
quadrature. The page is written again after every hundred samples, with the number done.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import brute_force

import selfselect as ss
from selfselect.noises import Independent
from selfselect.rules import LinearArgmax
from selfselect.simulators.populations import COEFFICIENTS, curved_rule
from selfselect.solvers import MonteCarloNewton

MATRIX = np.eye(4) + 0.4 * np.roll(np.eye(4), 1, axis=1)
WEIGHT = 0.5
RULES = {"polyhedral": LinearArgmax(MATRIX), "curved": curved_rule(WEIGHT)}
RESIDUALS = {
    "polyhedral": lambda *given: brute_force.linear_residuals(MATRIX, *given),
    "curved": lambda *given: brute_force.curved_residuals(WEIGHT, *given),
}


class Tally:
    """What the replications of one rule found so far."""

    def __init__(self) -> None:
        self.covered, self.errors, self.brute, self.pairs, self.gaps = [], [], [], [], []
        self.failed = 0
        self.shares = []

    def row(self, name: str) -> str:
        covered = 100 * np.mean(self.covered, axis=0)
        rmse = np.sqrt(np.mean(np.square(self.errors)))
        text = (
            f"| {name} | {len(self.covered)} | {self.failed} | {100 * np.mean(self.shares):.0f}% | "
            f"{covered.mean():.2f}% | {covered.min():.2f}% | {covered.max():.2f}% | {rmse:.4f} | "
        )
        if not self.brute:
            return text + "| | |"
        ours = np.sqrt(np.mean(np.square(self.pairs)))
        best = np.sqrt(np.mean(np.square(self.brute)))
        gap = np.sqrt(np.mean(np.square(self.gaps)))
        return text + f"{len(self.brute)} | {ours / best:.4f} | {gap:.3f} |"


def replicate(name: str, n_rows: int, seed: int, brute: bool, tally: Tally) -> None:
    x = np.random.default_rng([seed, 1]).standard_normal((n_rows, 2))
    sample = ss.simulate(COEFFICIENTS, {"x1": x[:, 0], "x2": x[:, 1]}, rule=RULES[name], seed=seed)
    try:
        result = ss.fit(
            sample.formula, sample.data, chosen="chosen", rule=sample.rule, seed=seed,
            noise=Independent(1.0), solver=MonteCarloNewton(loglik_draws=64),
        )  # fmt: skip
    except ss.errors.SelfSelectError:
        tally.failed += 1
        return
    if not result.converged:
        tally.failed += 1
        return
    ends = result.conf_int(0.95)
    truth = sample.params[ends.index]
    tally.covered.append(((ends["conf_low"] <= truth) & (truth <= ends["conf_high"])).to_numpy())
    tally.errors.append((result.params - truth).to_numpy())
    tally.shares.append(float((result.counts / n_rows).min()))
    if brute:
        design = np.column_stack([np.ones(n_rows), x])
        chosen = sample.data["chosen"].map({label: j for j, label in enumerate("abcd")})
        estimate, last = brute_force.maximise(
            RESIDUALS[name], result.values.reshape(4, 3), result.cov_params().to_numpy(), design,
            chosen.to_numpy(), sample.data["outcome"].to_numpy(),
        )  # fmt: skip
        assert last < 0.02, f"the brute force has not converged: {last:.3g}"
        tally.brute.append(estimate.ravel() - truth.to_numpy())
        tally.pairs.append(tally.errors[-1])
        tally.gaps.append((result.values - estimate.ravel()) / result.bse.to_numpy())


def page(tallies: dict[str, Tally], n_rows: int, replications: int) -> str:
    done = min(len(tally.covered) for tally in tallies.values())
    error = 100 * (0.95 * 0.05 / done) ** 0.5
    rows = "\n".join(tally.row(name) for name, tally in tallies.items())
    return f"""# Coverage of 95% intervals, rules without bounds

Samples of {n_rows:,} rows, four alternatives with an intercept and two standard normal covariates
each, noise of known scale 1; fitted by `MonteCarloNewton` at its default `mc_tol` of 10%, from
`choose` alone. *Polyhedral* sees the largest of y_j + 0.4 y_(j+1); *curved* is
`simulators.curved_rule()`. Coverage is over the fits that converged; one parameter's coverage over
{done:,} samples has a standard error of {error:.2f} percentage points.

The last three columns compare with the maximum of the same likelihood by brute force (64 x 64
Gauss-Legendre nodes and an exact third dimension) on the first samples: how many, the ratio of the
two root mean square errors over all 12 coefficients, and the root mean square difference of the
two estimates in standard errors.

Made by `python experiments/coverage_convex.py --replications {replications} --rows {n_rows}`.

| rule | samples | failed | rarest | average | lowest | highest | rmse | brute | rmse ratio | gap |
|---|---|---|---|---|---|---|---|---|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--brute", type=int, default=100, help="samples also fitted by brute force")
    parser.add_argument("--output", type=Path, default=Path("docs/studies/coverage-convex.md"))
    options = parser.parse_args()
    tallies = {name: Tally() for name in RULES}
    started = time.perf_counter()
    for seed in range(options.replications):
        for name, tally in tallies.items():
            replicate(name, options.rows, seed, seed < options.brute, tally)
        if seed % 100 == 99 or seed + 1 == options.replications:
            text = page(tallies, options.rows, seed + 1)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(text, encoding="utf-8")
            print(f"{time.perf_counter() - started:6.0f} s  {seed + 1}", flush=True)


if __name__ == "__main__":
    main()

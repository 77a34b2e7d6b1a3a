"""Efficiency and coverage, unknown index: python experiments/efficiency_unknown_index.py [--help].

Draws samples whose index is unknown, fits each by maximum likelihood, and compares the errors with
the Cramer-Rao bound and with the 95% intervals. Climbs start at the truth to save time; some
samples are fitted from scratch as well, to see that this ends at the same place. Writes a Markdown
table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import warnings
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

LEVEL = 0.95

COEFFICIENTS = [(0.5, 1.5, -1.0, 0.5), (0.0, -1.2, 1.0, 1.0), (-0.5, 0.3, 0.8, -1.8)]
"""Intercept and three slopes of each alternative; their mean outcomes are 0.5 apart, in order."""


@dataclass(frozen=True, eq=False)
class FromTruth:
    """Maximum likelihood started at given parameters, as a solver."""

    truth: Any

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = False

    def solve(
        self, problem: Any, engine: Any, *, rng: Any, start: Any = None, progress: Any = None
    ) -> Any:
        from selfselect.solvers import MaximumLikelihood

        del start
        begun = problem.layout.read(self.truth)
        return MaximumLikelihood().solve(problem, engine, rng=rng, start=begun, progress=progress)


@dataclass(frozen=True)
class Outcome:
    """What one replication found.

    Attributes
    ----------
    error : estimates less the truth, alternatives matched to the nearest.
    covered : whether each interval holds the truth.
    information : observed information at the truth, in the reported parameters.
    in_order : whether the order of the convention is the order of the truth.
    converged : whether the fit converged.
    from_scratch : log-likelihood and largest difference of an estimate of the fit from scratch,
        less the fit from the truth; None where none was made.
    """

    error: Any
    covered: Any
    information: Any
    in_order: bool
    converged: bool
    from_scratch: tuple[float, float] | None


def truth_of(n_alternatives: int) -> Any:
    import numpy as np

    return np.append(np.array(COEFFICIENTS[:n_alternatives]).ravel(), 1.0)


def nearest_order(values: Any, truth: Any, n_alternatives: int) -> Any:
    """Return where in `values` each parameter of the truth is found, labels matched."""
    import numpy as np

    place = np.arange(len(truth) - 1).reshape(n_alternatives, -1)
    orders = [np.append(place[list(order)].ravel(), len(truth) - 1)
              for order in permutations(range(n_alternatives))]  # fmt: skip
    return min(orders, key=lambda order: float(np.sum((values[order] - truth) ** 2)))


def replicate(task: tuple[int, int, int, bool]) -> Outcome:
    """Draw one sample, fit it, and compare with the truth."""
    import numpy as np

    from selfselect._fit import fit_design
    from selfselect.data.build import design_from_arrays
    from selfselect.solvers.climb import information_at

    warnings.simplefilter("ignore")
    k, n_rows, seed, scratch = task
    truth = truth_of(k)
    rng = np.random.default_rng([seed, k])
    x = rng.standard_normal((n_rows, 3))
    coefficients = np.array(COEFFICIENTS[:k])
    latent = coefficients[:, 0] + x @ coefficients[:, 1:].T + rng.standard_normal((n_rows, k))
    labels = list(range(1, k + 1))
    names = ["x1", "x2", "x3"]
    design = design_from_arrays(x, latent.max(axis=1), None, alternatives=labels, names=names)
    result = fit_design(design, solver=FromTruth(truth), progress=False)

    order = nearest_order(result.values, truth, k)
    ends = result.conf_int(LEVEL).to_numpy()[order]
    free = result.problem.layout.read(truth)
    inverse = np.linalg.inv(result.problem.layout.report(free).jacobian)
    information = information_at(result.problem, result.engine_of_rows(), free)
    from_scratch = None
    if scratch:
        other = fit_design(design, seed=seed, progress=False)
        moved = other.values[nearest_order(other.values, truth, k)]
        from_scratch = (
            other.solution.loglik - result.solution.loglik,
            float(np.abs(moved - result.values[order]).max()),
        )
    return Outcome(
        result.values[order] - truth,
        (ends[:, 0] <= truth) & (truth <= ends[:, 1]),
        inverse.T @ information @ inverse,
        bool((order == np.arange(len(order))).all()),
        result.converged,
        from_scratch,
    )


def study(pool: Any, n_alternatives: int, options: argparse.Namespace) -> tuple[str, str]:
    """Return a row of the table and a sentence on the fits from scratch."""
    import numpy as np

    tasks = [
        (n_alternatives, options.rows, seed, seed < options.scratch)
        for seed in range(options.replications)
    ]
    found = list(pool.imap(replicate, tasks, chunksize=10))
    done = [one for one in found if one.converged]
    bound = np.sqrt(np.diag(np.linalg.inv(np.mean([one.information for one in found], axis=0))))
    errors = np.array([one.error for one in done])
    ratio = np.sqrt((errors**2).mean(axis=0)) / bound
    coverage = 100 * np.mean([one.covered for one in done], axis=0)
    unordered = sum(not one.in_order for one in done)
    row = (
        f"| {n_alternatives} | {len(bound)} | {ratio.mean():.3f} | {ratio.min():.3f} | "
        f"{ratio.max():.3f} | {coverage.mean():.2f}% | {coverage.min():.2f}% | "
        f"{coverage.max():.2f}% | {len(found)} | {len(found) - len(done)} | {unordered} |"
    )
    scratch = [one.from_scratch for one in found if one.from_scratch]
    same = sum(abs(change) < 0.01 for change, _ in scratch)
    higher = sum(change >= 0.01 for change, _ in scratch)
    apart = max([moved for change, moved in scratch if abs(change) < 0.01], default=0.0)
    sentence = (
        f"k = {n_alternatives}: of {len(scratch)} samples also fitted from scratch, {same} end at "
        f"the same log-likelihood within 0.01 (estimates at most {apart:.1g} apart), {higher} "
        "higher."
    )
    return row, sentence


def page(rows: list[str], sentences: list[str], options: argparse.Namespace) -> str:
    error = 100 * (LEVEL * (1 - LEVEL) / options.replications) ** 0.5
    head = f"""# Efficiency and coverage, unknown index

Samples of {options.rows:,} rows with three standard normal covariates; the largest outcome is observed
and the chosen alternative was not recorded. Equations have intercepts 0.5, 0, -0.5 (the first k of them) and
slopes (1.5, -1, 0.5), (-1.2, 1, 1), (0.3, 0.8, -1.8); the noise has scale 1, estimated as one
common scale. Estimates are matched to the nearest alternative; "out of order" counts the samples
in which the order by mean outcome is another one.

RMSE is the root mean squared error of an estimate over the Cramér-Rao bound: the square root of
the diagonal of the inverse of the observed information at the truth, averaged over samples. The
ratio's average, smallest and largest are over parameters. Coverage is that of {LEVEL:.0%} intervals
from the observed information, that of the scale on the log scale; one parameter's coverage over
{options.replications:,} samples has a standard error of {error:.2f} percentage points, one ratio
of about {1 / (2 * options.replications) ** 0.5:.3f}. Climbs start at the truth.

Made by `python experiments/efficiency_unknown_index.py --replications {options.replications}
--rows {options.rows} --scratch {options.scratch}`.

| k | parameters | RMSE / bound | smallest | largest | coverage | lowest | highest | samples | failed | out of order |
|---|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501
    return head + "\n".join(rows) + "\n\n" + "\n".join(f"* {one}" for one in sentences) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--scratch", type=int, default=50, help="samples also fitted from scratch")
    parser.add_argument("--quick", action="store_true", help="100 replications, 5 from scratch")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--output", type=Path, default=Path("docs/studies/efficiency-unknown-index.md")
    )
    options = parser.parse_args()
    if options.quick:
        options.replications, options.scratch = 100, 5
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    began = time.perf_counter()
    rows, sentences = [], []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for n_alternatives in (2, 3):
            row, sentence = study(pool, n_alternatives, options)
            rows.append(row)
            sentences.append(sentence)
            print(f"{time.perf_counter() - began:6.0f} s  {row}  {sentence}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(rows, sentences, options), encoding="utf-8")


if __name__ == "__main__":
    main()

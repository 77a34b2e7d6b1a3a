"""Recovery of an unknown index: python experiments/recovery_unknown_index.py [--help].

Draws random instances, fits each from scratch with the default solver, and compares its
log-likelihood with that of the fit started at the truth. A fit succeeds where it is at most 0.01
below. With --records finished instances are kept in that file, and a run that was stopped goes on
where it ended. Writes Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NEAR = 0.01
"""How far below the truth-started fit a fit may end, in log-likelihood, and still succeed."""

RETRY = 64
"""Starts from which an instance that failed is searched again, to see how rare its optimum is."""

RARE = 0.005
"""A true share under this is an alternative that is practically never chosen."""


@dataclass(frozen=True)
class Instance:
    """One draw: covariates, length of the coefficients, sizes, and which replication it is."""

    covariates: str
    norm: float
    n_alternatives: int
    n_covariates: int
    n_rows: int
    replication: int

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def draw_covariates(kind: str, rng: Any, n_rows: int, n_covariates: int) -> Any:
    """Draw covariates with unit variances."""
    import numpy as np

    if kind == "uniform":
        return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n_rows, n_covariates))
    if kind == "Rademacher":
        return rng.choice([-1.0, 1.0], (n_rows, n_covariates))
    normal = rng.standard_normal((n_rows, n_covariates))
    if kind == "AR(0.9)":
        for column in range(1, n_covariates):
            normal[:, column] *= np.sqrt(1.0 - 0.9**2)
            normal[:, column] += 0.9 * normal[:, column - 1]
    return normal + 0.5 if kind == "shifted" else normal


def attempt(instance: Instance) -> dict[str, Any]:
    """Draw an instance, fit it from scratch and from the truth, and say how they compare."""
    import numpy as np

    from selfselect._fit import fit_design
    from selfselect.data.build import design_from_arrays
    from selfselect.solvers import MaximumLikelihood

    warnings.simplefilter("ignore")
    k, n, d = instance.n_alternatives, instance.n_rows, instance.n_covariates
    rng = np.random.default_rng([instance.replication, k, d, n])
    slopes = rng.standard_normal((k, d))
    slopes *= instance.norm / np.linalg.norm(slopes, axis=1, keepdims=True)
    intercepts = 0.5 * rng.standard_normal(k) * (instance.covariates == "shifted")
    x = draw_covariates(instance.covariates, rng, n, d)
    latent = intercepts + x @ slopes.T + rng.standard_normal((n, k))
    shares = np.bincount(latent.argmax(axis=1), minlength=k) / n
    design = design_from_arrays(
        x,
        latent.max(axis=1),
        None,
        alternatives=list(range(1, k + 1)),
        names=[f"x{i}" for i in range(1, d + 1)],
    )
    began = time.perf_counter()
    result = fit_design(design, seed=instance.replication, progress=False)
    seconds = time.perf_counter() - began
    truth = np.append(np.column_stack([intercepts, slopes]).ravel(), 1.0)
    reference = MaximumLikelihood().solve(
        result.problem,
        result.engine_of_rows(),
        rng=rng,
        start=result.problem.layout.read(truth),
        progress=False,
    )
    gap = result.solution.loglik - reference.loglik
    reached = 0
    if gap < -NEAR:
        harder = MaximumLikelihood(starts=RETRY)
        again = fit_design(design, solver=harder, seed=instance.replication, progress=False)
        if again.solution.loglik - reference.loglik >= -NEAR:
            reached = sum(s.behind > -NEAR for s in again.solution.starts if s.fault is None)
    return asdict(instance) | {
        "gap": gap,
        "reached_of_many": reached,
        "seconds": seconds,
        "converged": bool(result.converged),
        "reference_converged": bool(reference.converged),
        "smallest_share": float(shares.min()),
        "starts": [[s.name, s.behind, s.fault] for s in result.solution.starts],
    }


def instances(part: str, replications: int) -> list[Instance]:
    """List the instances of one part of the study."""
    each = range(replications)
    if part in ("small", "large"):
        n = {"small": 20_000, "large": 200_000}[part]
        return [
            Instance("normal", 2.0, k, d, n, i)
            for k in (3, 4, 6, 8)
            for d in (10, 20, 50)
            for i in each
        ]
    if part == "many":
        return [Instance("normal", 2.0, k, 20, 50_000, i) for k in (12, 20) for i in each]
    designs = [(kind, 2.0) for kind in ("shifted", "uniform", "Rademacher", "AR(0.9)")]
    designs += [("normal", norm) for norm in (1.0, 3.0, 6.0)]
    return [
        Instance(kind, norm, k, 10, 20_000, i) for kind, norm in designs for k in (3, 4, 6)
        for i in each
    ]  # fmt: skip


def succeeded(record: dict[str, Any]) -> bool:
    return bool(record["gap"] >= -NEAR)


def table(
    records: list[dict[str, Any]],
    heads: list[str],
    cell: Callable[[dict[str, Any]], tuple[Any, ...]],
) -> list[str]:
    """Tabulate records by cell, in the order in which cells first appear."""
    import numpy as np

    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        cells.setdefault(cell(record), []).append(record)
    columns = [*heads, "instances", "successes", "better than from the truth", "starts at the best"]
    columns += ["median seconds"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, found in cells.items():
        better = sum(record["gap"] > NEAR for record in found)
        reached = [_reached(record) for record in found]
        seconds = float(np.median([record["seconds"] for record in found]))
        entries = [*map(str, name), str(len(found)), _share(found), str(better)]
        entries += [f"{np.mean(reached):.0%}", f"{seconds:.1f}"]
        lines.append("| " + " | ".join(entries) + " |")
    return lines


def _reached(record: dict[str, Any]) -> float:
    """Return the share of starts that ended at the best optimum of the searched rows."""
    sound = [behind for _, behind, fault in record["starts"] if fault is None]
    return sum(behind > -NEAR for behind in sound) / len(record["starts"])


def _share(records: list[dict[str, Any]]) -> str:
    n = sum(map(succeeded, records))
    return f"{n} ({n / len(records):.1%})"


def _pooled(records: Iterable[dict[str, Any]], what: str) -> str:
    found = list(records)
    n = sum(map(succeeded, found))
    better = sum(record["gap"] > NEAR for record in found)
    return (
        f"**{what}: {n} of {len(found)} ({n / len(found):.2%}) succeed**; in {better} of them the "
        f"fit\nends more than {NEAR} above the one started at the truth."
    )


def _failures(records: list[dict[str, Any]]) -> list[str]:
    failed = [record for record in records if not succeeded(record)]
    if not failed:
        return ["No failures."]
    lines = [
        "Failures: how far below the truth-started fit they end, how many of their 8 starts agree",
        f"on that end, how many of {RETRY} starts reach the optimum of the truth, and the true",
        "share of the alternative that is chosen least.",
        "",
        "| covariates | norm | k | d | n | replication | below | agree | reach | smallest share |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in failed:
        lines.append(
            f"| {r['covariates']} | {r['norm']:g} | {r['n_alternatives']} | {r['n_covariates']} | "
            f"{r['n_rows']:,} | {r['replication']} | {-r['gap']:.3g} | "
            f"{_reached(r) * len(r['starts']):.0f} | {r['reached_of_many']} | "
            f"{r['smallest_share']:.2%} |"
        )
    rare = sum(record["smallest_share"] < RARE for record in failed)
    share = f"{RARE:.1%}"
    lines += ["", f"In {rare} of {len(failed)} an alternative is chosen in under {share} of rows."]
    return lines


HEAD = """# Recovery of an unknown index

Every instance is fitted from scratch by `MaximumLikelihood()` with its defaults, and again from
the true parameters. It succeeds where the log-likelihood of the first is at most {near} below that
of the second; it may also be above, where the optimum next to the truth is not the highest.
Coefficients are random directions of the given norm; noise has scale 1, estimated as one common
scale; every equation has an intercept that is estimated, and is 0 in truth where nothing else is
said. The largest outcome is observed. "Starts at the best" is the share of the 8 starts that end
at the best optimum found on the rows that were searched (20,000 at most). Seconds are those of a
fit from scratch with standard errors while {processes} of them, and other work of varying weight,
share {cores} cores: a rough guide.

Made by `python experiments/recovery_unknown_index.py --small {small} --large {large} --hard {hard}
--many {many}`, the numbers being replications per cell.
"""


def page(records: list[dict[str, Any]], options: argparse.Namespace) -> str:
    parts = _by_part(records, options)
    main, hard, many = [*parts["small"], *parts["large"]], parts["hard"], parts["many"]
    asked = sum(len(instances(part, getattr(options, part))) for part in PARTS)
    short = asked - sum(map(len, parts.values()))
    lines = [
        HEAD.format(
            near=NEAR,
            processes=options.processes,
            cores=os.cpu_count(),
            small=options.small,
            large=options.large,
            hard=options.hard,
            many=options.many,
        )
    ]
    if short:
        lines += [f"The run was stopped early: {short} of {asked:,} instances were not done.", ""]
    if main:
        sizes = ["n_alternatives", "n_covariates", "n_rows"]
        lines += ["## Standard normal covariates, norm 2", "", _pooled(main, "Pooled"), ""]
        lines += table(main, ["k", "d", "n"], lambda r: tuple(f"{r[name]:,}" for name in sizes))
        lines += ["", *_failures(main), ""]
    if hard:
        lines += ["## Harder designs, d = 10, n = 20,000", "", SHAPES, _pooled(hard, "Pooled"), ""]
        lines += table(
            hard,
            ["covariates", "norm", "k"],
            lambda r: (r["covariates"], f"{r['norm']:g}", r["n_alternatives"]),
        )
        lines += ["", *_failures(hard), ""]
    if many:
        lines += ["## Many alternatives, d = 20, n = 50,000, norm 2", "", _pooled(many, "Pooled")]
        lines += ["", *table(many, ["k"], lambda r: (r["n_alternatives"],))]
        lines += ["", *_failures(many), ""]
    return "\n".join(lines).rstrip() + "\n"


SHAPES = """`shifted`: normal with mean 0.5, and true intercepts normal with standard deviation 0.5.
`uniform` and `Rademacher` (-1 or 1): independent, mean 0, variance 1. `AR(0.9)`: normal with
correlation 0.9 to the power of the distance of two columns. `normal`: standard normal.
"""


def _by_part(
    records: list[dict[str, Any]], options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    names = list(Instance.__dataclass_fields__)
    found = {json.dumps({n: r[n] for n in names}, sort_keys=True): r for r in records}
    return {
        part: [found[one.key] for one in instances(part, getattr(options, part))
               if one.key in found]
        for part in PARTS
    }  # fmt: skip


PARTS = ("small", "hard", "many", "large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=50, help="replications per cell, n = 20,000")
    parser.add_argument("--large", type=int, default=50, help="replications per cell, n = 200,000")
    parser.add_argument("--hard", type=int, default=50, help="replications per harder cell")
    parser.add_argument("--many", type=int, default=5, help="replications with many alternatives")
    parser.add_argument("--quick", action="store_true", help="one replication of the small cells")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--records", type=Path, default=Path(os.devnull), help="kept and resumed")
    parser.add_argument(
        "--output", type=Path, default=Path("docs/studies/recovery-unknown-index.md")
    )
    options = parser.parse_args()
    if options.quick:
        options.small, options.large, options.hard, options.many = 1, 0, 1, 0
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    records = []
    if options.records.exists():
        records = [json.loads(line) for line in options.records.read_text().splitlines()]
    names = list(Instance.__dataclass_fields__)
    done = {json.dumps({name: r[name] for name in names}, sort_keys=True) for r in records}
    tasks = [one for part in PARTS for one in instances(part, getattr(options, part))]
    tasks = [one for one in tasks if one.key not in done]
    began = time.perf_counter()
    with (
        multiprocessing.get_context("spawn").Pool(options.processes) as pool,
        options.records.open("a", encoding="utf-8") as file,
    ):
        for count, record in enumerate(pool.imap_unordered(attempt, tasks), start=1):
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()
            if count % 25 == 0 or not succeeded(record):
                sizes = [record[name] for name in names]
                spent = time.perf_counter() - began
                print(
                    f"{spent:6.0f} s {count}/{len(tasks)} {sizes} {record['gap']:.4f}", flush=True
                )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(records, options), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Coverage of 95% intervals in panels: python experiments/coverage_types.py.

Panels of 500 people and five years with two alternatives: two types, types with one talent and
costs, a random effect; and two types in rows of people observed once. Draws samples, fits each,
and counts how often the intervals of slopes, scales, weights and shifts hold the truth. With
--choose it counts how often BIC finds the number of types. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVEL = 0.95

SLOPES = [(0.8, -0.3), (-0.5, 0.6)]
INTERCEPTS = [0.2, 0.4]
SCALES = [0.8, 1.0]
WEIGHTS = [0.6, 0.4]
SHIFTS = {
    "types": [(0.6, -0.4), (-0.9, 0.6)],
    "talent and costs": [(0.5, 0.5), (-0.75, -0.75)],
}
COSTS = [0.4, -0.3]
LOADING = 0.8


@dataclass(frozen=True)
class Design:
    """One row of the table: what people share, and how many people and years there are."""

    name: str
    n_people: int
    n_years: int


DESIGNS = [
    Design("types", 500, 5),
    Design("talent and costs", 500, 5),
    Design("random effect", 500, 5),
    Design("types", 500, 2),
    Design("types", 2_500, 1),
]


def draw(design: Design, seed: int) -> tuple[Any, Any, dict[tuple[str, str], float]]:
    """Draw a sample; return the table, the noise to fit, and the true parameters."""
    import numpy as np
    import pandas as pd

    from selfselect.noises import SharedShock, Types

    rng = np.random.default_rng([seed, design.n_people, design.n_years, len(design.name)])
    n, labels = design.n_people * design.n_years, ("a", "b")
    x = rng.standard_normal((n, 2))
    latent = np.array(INTERCEPTS) + x @ np.array(SLOPES).T
    latent += rng.standard_normal((n, 2)) * SCALES
    truth: dict[tuple[str, str], float] = {}
    for j, label in enumerate(labels):
        truth |= {
            (label, "Intercept"): INTERCEPTS[j], (label, "x1"): SLOPES[j][0],
            (label, "x2"): SLOPES[j][1], (label, "scale"): SCALES[j],
        }  # fmt: skip
    cost = np.zeros((n, 2))
    noise: Any = SharedShock()
    if design.name == "random effect":
        latent += LOADING * np.repeat(rng.standard_normal(design.n_people), design.n_years)[:, None]
        truth["(common)", "loading"] = LOADING
    else:
        shifts = SHIFTS[design.name]
        kind = np.repeat(rng.choice(2, design.n_people, p=WEIGHTS), design.n_years)
        latent += np.array(shifts)[kind]
        noise = Types(2)
        truth |= {(f"type {m + 1}", "weight"): WEIGHTS[m] for m in range(2)}
        if design.name == "types":
            for m in range(2):
                truth |= {
                    (label, f"shift of type {m + 1}"): shifts[m][j]
                    for j, label in enumerate(labels)
                }
        else:
            noise = Types(2, "talent", costs=True)
            cost[:, 1] = np.array(COSTS)[kind]
            truth |= {(f"type {m + 1}", "shift"): shifts[m][0] for m in range(2)}
            truth |= {("b", f"cost of type {m + 1}"): COSTS[m] for m in range(2)}
    seen = (latent - cost).argmax(axis=1)
    table = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": latent[np.arange(n), seen]})
    table["seen"] = np.array(labels)[seen]
    table["person"] = np.repeat(np.arange(design.n_people), design.n_years)
    return table, noise, truth


def replicate(task: tuple[Design, int, bool]) -> Any:
    """Draw one sample and fit it; return what held the truth, or the number of types chosen."""
    import warnings

    import numpy as np

    import selfselect as ss

    warnings.simplefilter("ignore")
    design, seed, choose = task
    table, noise, truth = draw(design, seed)
    if choose:
        noise = ss.noises.Types("bic")
    result = ss.fit("y ~ x1 + x2", table, chosen="seen", panel="person", noise=noise, seed=seed)
    if choose:
        return getattr(result.problem.noise, "number", 1)
    if not result.converged or result.problem.noise.undetermined():
        return None
    ends = result.conf_int(LEVEL)
    first = ("type 1", "shift") if ("type 1", "shift") in truth else ("a", "shift of type 1")
    if first in truth and result.params[first] < 0:
        # The weights came out in the other order, and types are numbered by weight.
        names = {"1": "2", "2": "1"}
        truth = {tuple(turned(one, names) for one in key): v for key, v in truth.items()}
    values = np.array([truth[label] for label in ends.index])
    covered = (ends["conf_low"] <= values) & (values <= ends["conf_high"])
    return dict(zip(ends.index, covered, strict=True))


def turned(text: str, names: dict[str, str]) -> str:
    """Return a label with types renumbered."""
    return text[:-1] + names[text[-1]] if text[-6:-1] == "type " else text


def cover(pool: Any, design: Design, replications: int) -> str:
    """Return the design's row of the table."""
    import pandas as pd

    tasks = [(design, seed, False) for seed in range(replications)]
    found = list(pool.imap_unordered(replicate, tasks, chunksize=5))
    done = [one for one in found if one is not None]
    coverage = 100 * pd.DataFrame(done).mean()
    slopes = coverage[[term in ("x1", "x2") for _, term in coverage.index]]
    others = coverage.drop(slopes.index)
    worst = coverage.idxmin()
    people = f"{design.n_people:,} x {design.n_years}"
    return (
        f"| {design.name} | {people} | {len(done)} of {len(found)} | {slopes.mean():.1f} | "
        f"{others.mean():.1f} | {coverage.min():.1f} ({worst[0]}: {worst[1]}) |"
    )


def choose(pool: Any, design: Design, replications: int) -> str:
    """Return how often BIC chose the true number of types."""
    tasks = [(design, seed, True) for seed in range(replications)]
    numbers = list(pool.imap_unordered(replicate, tasks, chunksize=2))
    right = sum(number == 2 for number in numbers)
    return f"| {design.name} | {design.n_people:,} x {design.n_years} | {right} of {len(numbers)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--choose", type=int, default=0, help="replications of the choice by BIC")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    begun = time.perf_counter()
    lines = [
        "| what people share | people x years | fits | slopes, % | others, % | worst, % |",
        "|---|---|---|---|---|---|",
    ]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for design in DESIGNS:
            lines.append(cover(pool, design, arguments.replications))
            print(lines[-1], flush=True)
        if arguments.choose:
            lines += [
                "",
                "| what people share | people x years | two types by BIC |",
                "|---|---|---|",
            ]
            for design in (DESIGNS[0], DESIGNS[3]):
                lines.append(choose(pool, design, arguments.choose))
                print(lines[-1], flush=True)
    lines += ["", f"{time.perf_counter() - begun:.0f} s, {arguments.processes} processes."]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Peeling (Theorem 2) on exact distribution functions: what it recovers, by which moment.

Writes a page and a picture.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from selfselect.errors import UnsupportedError
from selfselect.solvers import Peeling, Population

POPULATIONS = {
    "two at a right angle": [[2.0, 0.0], [0.0, 1.5]],
    "three": [[2.5, 0.5], [-1.0, 1.8], [-0.6, -1.2]],
    "three in three dimensions": [[2.5, 0.0, 0.5], [0.0, -2.0, 1.0], [1.0, 1.0, -1.5]],
    "long and short": [[30.0, 4.0], [-0.5, 1.0]],
    "equal": [[1.0, 1.0], [1.0, 1.0]],
    "nearly equal": [[1.0, 1.0], [1.0, 1.01]],
    "opposite": [[2.0, 0.0], [-2.0, 0.0]],
    "one between the others": [[2.0, 0.0], [0.0, 2.0], [0.5, 0.5]],
}
ORDERS = (4, 200)
PICTURED = "three"


def recovered(truth: np.ndarray, order: int) -> str:
    """Return the largest distance of a recovered vector, or why there is none."""
    try:
        found = Peeling(order=order, tries=10).recover(Population.of(truth))
    except UnsupportedError:
        return "refused"
    distance = np.linalg.norm(found[:, None] - truth[None], axis=2)
    return f"{distance[linear_sum_assignment(distance)].max():.1e}"


def separable(truth: np.ndarray) -> bool:
    """Say whether assumption (A) holds: |w_i'w_j|/|w_j| < |w_j| for all i and j."""
    lengths = np.linalg.norm(truth, axis=1)
    along = np.abs(truth @ truth.T) / lengths
    np.fill_diagonal(along, 0.0)
    return bool((along < lengths - 1e-9).all())


def study() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    started = time.perf_counter()
    for name, vectors in POPULATIONS.items():
        table[name] = [recovered(np.array(vectors), order) for order in ORDERS]
        print(f"{time.perf_counter() - started:6.0f} s  {name}: {table[name]}", flush=True)
    return table


def page(table: dict[str, list[str]]) -> str:
    rows = "\n".join(
        f"| {name} | {POPULATIONS[name]} | "
        + ("holds" if separable(np.array(POPULATIONS[name])) else "fails")
        + f" | {' | '.join(line)} |"
        for name, line in table.items()
    )
    heads = " | ".join(f"order {order}" for order in ORDERS)
    return f"""# Peeling: identification from the distribution function

`Peeling` runs the proof of Theorem 2 on an exact distribution function: the direction in which a
high moment of the outcome is largest is that of the longest vector; its sign is decided on the
shifted model; it is read off medians far out along it, and divided out of the distribution
function; and so on with the rest. It uses no rows, and a sample of rows gives no exact distribution
function, so it is not an estimator.

![high moments along directions](../images/peeling.png)

Largest distance of a recovered vector from its truth, by the order of the moment:

| population | vectors | (A) | {heads} |
|---|---|---|{"---|" * len(ORDERS)}
{rows}

The proof takes the limit of high order. A moment of order 4 averages over all vectors and
does not show the shorter ones; yet a direction that is nearer to the longest vector than to the
others is enough, since medians far out there are that vector's alone. The separability assumption
(A) of the paper is needed by Theorem 3 (estimation), not here. Vectors that do not have the
distribution function they were found from are refused.

Made by `python experiments/peeling.py`.
"""


def draw(path: Path) -> None:
    """Draw F(v) and what moments make of it, over directions in the plane."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    vectors = np.array(POPULATIONS[PICTURED])
    angles = np.linspace(0.0, np.pi, 91)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    limit = np.sqrt(((directions @ vectors.T) ** 2).max(axis=1) + 1.0)
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    axes.plot(np.degrees(angles), limit, color="black", lw=2.5, alpha=0.35, label="the limit F(v)")
    population = Population.of(vectors)
    for order, style in zip(ORDERS, ("--", "-"), strict=True):
        moments = [Peeling(order=order).limit(population, v) for v in directions]
        axes.plot(np.degrees(angles), moments, style, label=f"moment of order {order}")
    for vector in vectors:
        at = np.degrees(np.arctan2(vector[1], vector[0])) % 180.0
        axes.axvline(at, color="grey", lw=0.8)
    axes.set_xlabel("direction v, degrees (grey: those of the vectors)")
    axes.set_ylabel("root of the moment over (p - 1)!!")
    axes.set_xlim(0.0, 180.0)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    table = study()
    (options.docs / "studies" / "peeling.md").write_text(page(table), encoding="utf-8")
    draw(options.docs / "images" / "peeling.png")


if __name__ == "__main__":
    main()

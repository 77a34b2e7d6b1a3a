"""The ladder of methods for an unknown index: python experiments/ladder_unknown_index.py [--help].

Fits the same samples by least squares, a mixture of regressions, the paper's moment methods and
maximum likelihood, for growing numbers of rows. Writes a Markdown table and a picture.
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
from textwrap import fill
from typing import Any

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)

NAIVE, MIXTURE, PAPER, CLOSED, LIKELIHOOD = (
    "least squares",
    "mixture of regressions",
    "moment search",
    "closed form",
    "maximum likelihood",
)


@dataclass(frozen=True)
class Design:
    """One panel: true equations, covariates, and the methods that apply."""

    name: str
    title: str
    coefficients: tuple[tuple[float, ...], ...]
    intercepts: tuple[float, ...] | None
    shift: float
    paper: str | None
    methods: tuple[str, ...]

    @property
    def truth(self) -> Any:
        """Coefficients (k, p), the intercept first where there is one."""
        import numpy as np

        slopes = np.array(self.coefficients)
        if self.intercepts is None:
            return slopes
        return np.column_stack([self.intercepts, slopes])


DESIGNS = (
    Design(
        "a",
        "k = 2, symmetric, no intercepts",
        ((1.6, -1.2, 0.0, 0.0, 0.0), (0.0, 0.8, 1.5, 1.0, 0.0)),
        None,
        0.0,
        "MinVariance",
        (NAIVE, MIXTURE, PAPER, CLOSED, LIKELIHOOD),
    ),
    Design(
        "b",
        "k = 2, shifted covariates, intercepts",
        ((1.6, -1.2, 0.0, 0.0, 0.0), (0.0, 0.8, 1.5, 1.0, 0.0)),
        (0.5, -0.5),
        0.5,
        None,
        (NAIVE, MIXTURE, LIKELIHOOD),
    ),
    Design(
        "c",
        "k = 3, orthogonal, norm 3, no intercepts",
        ((3.0, 0.0, 0.0, 0.0, 0.0), (0.0, 3.0, 0.0, 0.0, 0.0), (0.0, 0.0, 3.0, 0.0, 0.0)),
        None,
        0.0,
        "NetSearch",
        (NAIVE, MIXTURE, PAPER, LIKELIHOOD),
    ),
)


def replications_at(n_rows: int, most: int) -> int:
    """Return how many samples of that size are drawn: fewer of the largest, at least three."""
    return max(min(3, most), min(most, 2_000_000 // n_rows))


# A Gaussian mixture of linear regressions, common scale, free weights, by EM.


def fit_mixture(x: Any, y: Any, n_parts: int, rng: Any, *, starts: int = 8) -> Any:
    """Return the coefficients (k, p) of the mixture: the best of several starts on a sample of
    20,000 rows, climbed on all rows.
    """
    import numpy as np

    part = rng.permutation(len(y))[:20_000]
    climbs = []
    for _ in range(starts):
        middle = np.linalg.lstsq(x[part], y[part], rcond=None)[0]
        moved = middle + rng.standard_normal((n_parts, x.shape[1]))
        climbs.append(_climb_mixture(x[part], y[part], moved, np.ones(n_parts) / n_parts, y.std()))
    _, coefficients, weights, scale = max(climbs, key=lambda one: one[0])
    return _climb_mixture(x, y, coefficients, weights, scale)[1]


def _climb_mixture(
    x: Any, y: Any, coefficients: Any, weights: Any, scale: float
) -> tuple[float, Any, Any, float]:
    import numpy as np

    previous = -np.inf
    for _ in range(1_000):
        residual = y[:, None] - x @ coefficients.T
        log_density = np.log(weights) - np.log(scale) - 0.5 * (residual / scale) ** 2
        largest = log_density.max(axis=1, keepdims=True)
        chance = np.exp(log_density - largest)
        total = chance.sum(axis=1, keepdims=True)
        chance /= total
        loglik = float((largest + np.log(total)).mean())
        if loglik - previous < 1e-9:
            break
        previous = loglik
        coefficients = np.array(
            [np.linalg.solve(x.T @ (x * r[:, None]), x.T @ (r * y)) for r in chance.T]
        )
        weights = chance.mean(axis=0)
        squares = (y[:, None] - x @ coefficients.T) ** 2
        scale = float(np.sqrt((chance * squares).sum() / len(y)))
    return loglik, coefficients, weights, scale


def fit_ours(design: Design, x: Any, y: Any, solver: Any, scale: Any, seed: int) -> Any:
    """Return the coefficients (k, p) by a solver of the package."""
    from selfselect._fit import fit_design
    from selfselect.data.build import design_from_arrays
    from selfselect.noises import Independent

    made = design_from_arrays(
        x,
        y,
        None,
        alternatives=list(range(1, len(design.coefficients) + 1)),
        names=[f"x{i}" for i in range(1, x.shape[1] + 1)],
        fit_intercept=design.intercepts is not None,
    )
    noise = Independent(scale=scale)
    result = fit_design(made, noise=noise, solver=solver, seed=seed, progress=False)
    import numpy as np

    return np.array(result.problem.layout.coefficients_of(result.values))


def matched_error(found: Any, truth: Any) -> float:
    """Return the root mean squared distance of a coefficient vector under the best matching."""
    import numpy as np

    orders = permutations(range(len(truth)))
    return min(float(np.sqrt(((found[list(o)] - truth) ** 2).sum(axis=1).mean())) for o in orders)


def replicate(task: tuple[int, int, int]) -> tuple[int, int, dict[str, tuple[float, float]]]:
    """Draw one sample and fit it by every method: error (nan where it refused) and seconds."""
    import numpy as np

    from selfselect.errors import SelfSelectError
    from selfselect.solvers import MaximumLikelihood, MinVariance, NetSearch, TwoModels

    warnings.simplefilter("ignore")
    which, n_rows, seed = task
    design = DESIGNS[which]
    truth = design.truth
    k = len(truth)
    rng = np.random.default_rng([seed, which, n_rows])
    x = design.shift + rng.standard_normal((n_rows, len(design.coefficients[0])))
    full = x if design.intercepts is None else np.column_stack([np.ones(n_rows), x])
    y = (full @ truth.T + rng.standard_normal((n_rows, k))).max(axis=1)

    paper = {"MinVariance": MinVariance, "NetSearch": NetSearch}
    ways = {
        NAIVE: lambda: np.tile(np.linalg.lstsq(full, y, rcond=None)[0], (k, 1)),
        MIXTURE: lambda: fit_mixture(full, y, k, rng),
        PAPER: lambda: fit_ours(design, x, y, paper[str(design.paper)](), 1.0, seed),
        CLOSED: lambda: fit_ours(design, x, y, TwoModels(), "common", seed),
        LIKELIHOOD: lambda: fit_ours(design, x, y, MaximumLikelihood(), "common", seed),
    }
    found = {}
    for method in design.methods:
        began = time.perf_counter()
        try:
            error = matched_error(ways[method](), truth)
        except SelfSelectError:
            error = np.nan
        found[method] = (error, time.perf_counter() - began)
    return which, n_rows, found


Found = dict[tuple[int, int], list[dict[str, tuple[float, float]]]]


def medians(found: Found, which: int, method: str) -> tuple[list[int], list[float], list[int]]:
    """Return numbers of rows, median errors where the method answered, and how often it did not."""
    import numpy as np

    rows = sorted(n for design, n in found if design == which)
    errors = [[one[method][0] for one in found[which, n]] for n in rows]
    median = [float(np.nanmedian(e)) if np.isfinite(e).any() else float("nan") for e in errors]
    return rows, median, [int(np.isnan(e).sum()) for e in errors]


STYLES = {
    NAIVE: ("0.45", "s", (0, (1, 1.5))),
    MIXTURE: ("#D55E00", "^", (0, (5, 2))),
    PAPER: ("#CC79A7", "D", (0, (3, 1.5, 1, 1.5))),
    CLOSED: ("#009E73", "v", (0, (7, 2, 1, 2, 1, 2))),
    LIKELIHOOD: ("#003B6F", "o", "solid"),
}
"""Colour, marker and dashes: any one of them tells the methods apart."""


def draw(found: Found, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(DESIGNS), figsize=(12, 4.4), sharey=True)
    for which, (design, axes) in enumerate(zip(DESIGNS, panels, strict=True)):
        for method in design.methods:
            rows, error, _ = medians(found, which, method)
            colour, marker, dashes = STYLES[method]
            axes.loglog(rows, error, color=colour, marker=marker, linestyle=dashes, label=method,
                        markersize=5.5, linewidth=1.8)  # fmt: skip
        axes.set_title(f"({design.name}) {design.title}", fontsize=10)
        axes.set_xlabel("rows")
        axes.grid(True, which="major", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("error of a coefficient vector, best matching")
    handles, labels = panels[0].get_legend_handles_labels()
    names = {PAPER: "moment search (a: MinVariance, c: NetSearch)"}
    figure.legend(handles, [names.get(one, one) for one in labels], loc="lower center", ncols=5,
                  frameon=False, handlelength=3.6, columnspacing=1.6, fontsize=9.5)  # fmt: skip
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


HEAD = """# The ladder of methods, unknown index

The largest of k outcomes is observed and the chosen alternative was not recorded; noise has scale
1; five normal
covariates with variance 1. All methods of a row are given the same samples. The error is the root
mean squared distance between true and estimated coefficient vectors, alternatives matched as well
as possible; the table has its median over samples.

* `least squares`: one regression, taken for every alternative.
* `mixture of regressions`: Gaussian mixture with common scale and free weights, by EM from 8
  starts.
* `MinVariance` and `NetSearch`: the moment searches of the paper, with their defaults, told that
  the scale is 1. The cover of `MinVariance` is refined around its best points; the 500 directions
  of `NetSearch` are random and are not.
* `closed form`: `TwoModels`.
* `maximum likelihood`: the default fit, scale estimated.

Made by `python experiments/ladder_unknown_index.py --replications {most} --largest {largest}`.

![Error against rows, one panel per design](../images/ladder-unknown-index.png)
"""

NOTES = {
    "a": "Slopes (1.6, -1.2, 0, 0, 0) and (0, 0.8, 1.5, 1, 0); covariates with mean 0. Where "
    "covariates are symmetric about 0, k = 2 and no equation has an intercept, the mixture is "
    "consistent for the largest of two.",
    "b": "The same slopes, intercepts 0.5 and -0.5, covariates with mean 0.5. Moment searches and "
    "the closed form refuse equations with an intercept and are left out.",
    "c": "Three orthogonal slope vectors of length 3; covariates with mean 0. The closed form is "
    "for two alternatives and is left out.",
}


def _cell(median: float, n_absent: int, total: int) -> str:
    if n_absent == total:
        return "no answer"
    return f"{median:.4f}" + (f" ({n_absent} without an answer)" if n_absent else "")


def page(found: Found, options: argparse.Namespace) -> str:
    lines = [HEAD.format(most=options.replications, largest=options.largest)]
    for which, design in enumerate(DESIGNS):
        names = [design.paper if method == PAPER else method for method in design.methods]
        lines += [f"## ({design.name}) {design.title}", "", fill(NOTES[design.name], 100), ""]
        lines.append("| rows | samples | " + " | ".join(map(str, names)) + " |")
        lines.append("|" + "---|" * (len(names) + 2))
        columns = [medians(found, which, method) for method in design.methods]
        for i, n_rows in enumerate(columns[0][0]):
            total = len(found[which, n_rows])
            cells = [_cell(median[i], absent[i], total) for _, median, absent in columns]
            lines.append(f"| {n_rows:,} | {total} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=20, help="fewer from 100,000 rows on")
    parser.add_argument("--largest", type=int, default=ROWS[-1], help="largest number of rows")
    parser.add_argument("--quick", action="store_true", help="2 samples, at most 10,000 rows")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/ladder-unknown-index.md"))
    parser.add_argument(
        "--picture", type=Path, default=Path("docs/images/ladder-unknown-index.png")
    )
    options = parser.parse_args()
    if options.quick:
        options.replications, options.largest = 2, 10_000
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    tasks = [
        (which, n_rows, seed)
        for n_rows in ROWS
        if n_rows <= options.largest
        for which in range(len(DESIGNS))
        for seed in range(replications_at(n_rows, options.replications))
    ]
    began = time.perf_counter()
    found: Found = {}
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for which, n_rows, one in pool.imap(replicate, tasks):
            if (which, n_rows) not in found:
                spent = time.perf_counter() - began
                print(f"{spent:6.0f} s ({DESIGNS[which].name}) {n_rows} rows: {one}", flush=True)
            found.setdefault((which, n_rows), []).append(one)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(found, options), encoding="utf-8")
    draw(found, options.picture)


if __name__ == "__main__":
    main()

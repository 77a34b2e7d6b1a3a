"""Coverage and error where scales move: python experiments/coverage_spreads.py [--help].

Draws samples of two alternatives whose log scales are linear in a covariate, fits each with scales
that move, with constant ones and with the true scale of every row, and counts how often 95%
intervals hold the truth. Writes a Markdown table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

LEVEL = 0.95

TRUTH = {
    ("a", "Intercept"): 1.0,
    ("a", "x"): 1.0,
    ("a", "age"): 0.03,
    ("a", "log scale: Intercept"): -1.6,
    ("a", "log scale: age"): 0.04,
    ("b", "Intercept"): 2.0,
    ("b", "x"): -0.5,
    ("b", "age"): 0.01,
    ("b", "log scale: Intercept"): 0.8,
    ("b", "log scale: age"): -0.025,
}
"""Over ages of 20 to 60 the scale of a grows 5 times, that of b shrinks 2.7 times."""

SLOPES = ("x", "age")
UNITS = {"x": 1.0, "age": 11.5}
"""Standard deviations of the covariates: errors of slopes are compared per unit of them."""

DESIGNS = {
    "recorded choice": {"chosen": "job"},
    "choice not recorded": {"alternatives": 2},
}


def draw(n_rows: int, seed: int) -> Any:
    """Draw a sample."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([seed, 7])
    data = pd.DataFrame({"x": rng.normal(size=n_rows), "age": rng.uniform(20, 60, n_rows)})
    outcomes = np.empty((n_rows, 2))
    for j, label in enumerate("ab"):
        own = {term: value for (alternative, term), value in TRUTH.items() if alternative == label}
        mean = own["Intercept"] + own["x"] * data["x"] + own["age"] * data["age"]
        log_scale = own["log scale: Intercept"] + own["log scale: age"] * data["age"]
        outcomes[:, j] = mean + np.exp(log_scale) * rng.normal(size=n_rows)
    data["y"], data["job"] = outcomes.max(axis=1), np.where(outcomes.argmax(axis=1), "b", "a")
    return data


def with_known_scales(fit: Any, values: Any) -> Any:
    """Return the estimates with the scale of every row held at its truth, by Newton's method."""
    import numpy as np

    from selfselect.likelihoods import evaluate

    problem, engine = fit.problem, fit.engine_of_rows()
    layout = problem.layout
    free = layout.read(values)
    held = np.append(layout.free_inverse_scales, layout.position[int(layout.starts[-1]) :])
    moved = np.setdiff1d(np.arange(layout.n_free), held)
    for _ in range(30):
        found = engine.sum(partial(evaluate, problem, layout.natural(free)))
        score = layout.pull_back_vector(found.score, free)[moved]
        hessian = layout.pull_back_hessian(found.hessian, found.score, free)[np.ix_(moved, moved)]
        step = -np.linalg.solve(hessian, score)
        free[moved] += step
        if float(score @ step) < 1e-12:
            break
    return layout.report(free).values


def replicate(task: tuple[str, int, int]) -> dict[str, Any] | None:
    """Draw and fit a sample: which intervals hold the truth, and errors of slopes by model."""
    import numpy as np

    import selfselect as ss

    name, n_rows, seed = task
    data = draw(n_rows, seed)
    options = DESIGNS[name]
    moving_noise = ss.noises.Independent(scale="~ age")
    try:
        moving = ss.fit("y ~ x + age", data, noise=moving_noise, seed=seed, **options)
        constant = ss.fit(
            "y ~ x + age", data, noise=ss.noises.Independent("each"), seed=seed, **options
        )
    except ss.errors.SelfSelectError:
        return None
    if not (moving.converged and constant.converged):
        return None
    each = {one: named(fit) for one, fit in (("moving", moving), ("constant", constant))}
    labels = [(each["moving"][label], term) for label, term in moving.params.index]
    truth = np.array([TRUTH[label] for label in labels])
    ends = moving.conf_int(LEVEL).to_numpy()
    known = with_known_scales(moving, truth)
    slopes = [place for place, (_, term) in enumerate(labels) if term in SLOPES]
    unit = np.array([UNITS[labels[place][1]] for place in slopes])
    of_constant = {
        (each["constant"][label], term): value for (label, term), value in constant.params.items()
    }
    return {
        "labels": labels,
        "covered": (ends[:, 0] <= truth) & (truth <= ends[:, 1]),
        "moving": (moving.values - truth)[slopes] * unit,
        "known": (known - truth)[slopes] * unit,
        "constant": np.array([of_constant[labels[i]] - truth[i] for i in slopes]) * unit,
    }


def named(fit: Any) -> dict[Any, str]:
    """Say which alternative each is: where choices were not recorded, by the slope of x."""
    labels = list(fit.problem.equations.alternatives)
    if labels == ["a", "b"]:
        return {"a": "a", "b": "b"}
    ordered = sorted(labels, key=lambda label: -fit.params[label, "x"])
    return dict(zip(ordered, "ab", strict=True))


def study(pool: Any, name: str, replications: int, n_rows: int, first: int) -> str:
    """Return the design's row of the table."""
    import numpy as np

    tasks = [(name, n_rows, seed) for seed in range(first, first + replications)]
    done = [found for found in pool.imap_unordered(replicate, tasks, chunksize=5) if found]
    covered: dict[str, list[bool]] = {"coefficients": [], "log scales": []}
    by_label: dict[Any, list[bool]] = {}
    for found in done:
        for label, held in zip(found["labels"], found["covered"], strict=True):
            kind = "log scales" if label[1].startswith("log scale") else "coefficients"
            covered[kind].append(held)
            by_label.setdefault(label, []).append(held)
    each = [100 * np.mean(held) for held in by_label.values()]
    errors = {
        one: np.sqrt(np.mean(np.square([found[one] for found in done])))
        for one in ("known", "moving", "constant")
    }
    return (
        f"| {name} | {100 * np.mean(covered['coefficients']):.2f}% | "
        f"{100 * np.mean(covered['log scales']):.2f}% | {min(each):.2f}% | {max(each):.2f}% | "
        f"{errors['known']:.4f} | {errors['moving']:.4f} | {errors['constant']:.4f} | "
        f"{replications} | {replications - len(done)} |"
    )


def page(rows: list[str], replications: int, n_rows: int) -> str:
    """Return the whole page."""
    error = 100 * (LEVEL * (1 - LEVEL) / replications) ** 0.5
    head = f"""# Coverage and error where scales move

Samples of {n_rows:,} rows, two alternatives, normal noise whose log scales are linear in age; fits
with `scale="~ age"`, observed-information errors, 95% intervals. Root mean squared errors are of the
four slopes, per standard deviation of their covariates: with every row's scale known, estimated, and
taken for constant (`scale="each"`). The coverage of one parameter over {replications:,}
replications has a standard error of {error:.2f} percentage points. Failed are samples of which a fit
did not converge.

Made by `python experiments/coverage_spreads.py --replications {replications} --rows {n_rows}`.

| design | coefficients | log scales | lowest | highest | rmse, known | moving | constant | samples | failed |
|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501
    return head + "\n".join(rows) + "\n"


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--designs", type=int, nargs="*", default=[1, 2], help="which rows")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sample")
    parser.add_argument("--output", type=Path, help="file for the page; else it is printed")
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for name in (list(DESIGNS)[number - 1] for number in options.designs):
            rows.append(study(pool, name, options.replications, options.rows, options.first))
            print(f"{time.perf_counter() - started:6.0f} s  {rows[-1]}", flush=True)
    text = page(rows, options.replications, options.rows)
    if options.output is None:
        print(text)
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

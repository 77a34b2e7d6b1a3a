"""Size and power of the tests of the noise: python experiments/tests_of_noise.py [--help].

Draws samples whose noise is as the model says, correlated, heavy-tailed, skewed, or of a variance
that moves with a covariate; fits each, and counts how often each test rejects at 5%. Then samples
of true models whose rows are clustered or were drawn unequally, or of which an alternative is
rarely chosen; then samples of richer models. Writes a Markdown page; with --only dependent or
--only models that part alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = (
    "independence",
    "normality, asymptotic",
    "variance, asymptotic",
    "normality, bootstrap",
    "variance, bootstrap",
)
LEVEL = 0.05


@dataclass(frozen=True)
class Design:
    """One row of the tables: what is wrong with the noise, and how often it is looked at.

    The bootstrap's fits are many, so only the first `bootstrapped` samples are tested by it.
    """

    noise: str
    n_alternatives: int
    n_rows: int
    samples: int
    bootstrapped: int = 0
    draws: int = 199


def draw(design: Design, seed: int) -> Any:
    """Draw a table in which the largest of k outcomes is observed."""
    import numpy as np
    import pandas as pd

    k, n = design.n_alternatives, design.n_rows
    rng = np.random.default_rng([seed, k, n, 21])
    x = rng.standard_normal((n, 2))
    slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5]])[:k]
    kind, _, size = design.noise.partition(" ")
    noise = rng.standard_normal((n, k))
    if kind == "correlated":
        rho = float(size)
        noise = np.sqrt(1 - rho) * noise + np.sqrt(rho) * rng.standard_normal((n, 1))
    elif kind == "t":
        noise = rng.standard_t(5, (n, k)) / np.sqrt(5 / 3)
    elif kind == "chi-square":
        noise = (rng.chisquare(8, (n, k)) - 8) / 4
    elif kind == "exp":
        noise = noise * np.exp(float(size.removesuffix("x1")) * x[:, :1])
    latent = 0.2 + x @ slopes.T + noise * np.array([0.8, 1.0, 1.3])[:k]
    chosen = latent.argmax(axis=1)
    columns = {"y": latent[np.arange(n), chosen], "who": np.array(list("abc"))[chosen]}
    return pd.DataFrame({**columns, "x1": x[:, 0], "x2": x[:, 1]})


def replicate(task: tuple[Design, int]) -> list[float]:
    """Return the p-value of every test on one sample; nan where it was not run."""
    import selfselect as ss

    design, seed = task
    result = ss.fit("y ~ x1 + x2", draw(design, seed), chosen="who")
    p_values = [
        result.independence_test().p_value,
        result.normality_test(0).p_value,
        result.heteroskedasticity_test(0).p_value,
    ]
    if seed >= design.bootstrapped:
        return [*p_values, float("nan"), float("nan")]
    slow = {"replications": design.draws, "seed": seed, "progress": False}
    tests = (result.normality_test(**slow), result.heteroskedasticity_test(**slow))
    return [*p_values, *(test.p_value for test in tests)]


def study(pool: Any, design: Design) -> str:
    """Return the design's row of the table."""
    import numpy as np

    tasks = [(design, seed) for seed in range(design.samples)]
    p_values = np.array(list(pool.imap_unordered(replicate, tasks, chunksize=5)))
    cells = []
    for column in p_values.T:
        known = column[~np.isnan(column)]
        cells.append(f"{100 * (known <= LEVEL).mean():.1f}%" if len(known) else "")
    counts = f"{design.samples}" + (f", {design.bootstrapped}" if design.bootstrapped else "")
    return f"| {design.noise} | {design.n_alternatives} | {' | '.join(cells)} | {counts} |"


@dataclass(frozen=True)
class Dependent:
    """One row of the last table: a true model, and what keeps its rows from being independent.

    `kind` is clusters, weights, silent, cost or rare; `groups`, `size` and `shared` describe
    clusters and the share of the noise's variance that their rows have in common.
    """

    words: str
    kind: str
    samples: int
    bootstrapped: int = 0
    groups: int = 0
    size: int = 0
    shared: float = 0.0
    n_alternatives: int = 2
    draws: int = 99


def draw_dependent(design: Dependent, seed: int) -> Any:
    """Draw a table of a true model, and the options with which it is to be fitted."""
    import numpy as np
    import pandas as pd

    k = design.n_alternatives
    n = design.groups * design.size or {"weights": 2_500, "rare": 1_000}.get(design.kind, 1_000)
    rng = np.random.default_rng([seed, k, n, int(100 * design.shared), 34])
    slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5], [0.4, 0.1]])[:k]
    constants, scales = np.full(k, 0.2), np.array([0.8, 1.0, 1.3, 3.0])[:k]
    x, noise = rng.standard_normal((n, 2)), rng.standard_normal((n, k))
    options: dict[str, Any] = {}
    frame = {}
    if design.groups:
        group = np.repeat(np.arange(design.groups), design.size)
        x = (x + rng.standard_normal((design.groups, 2))[group]) / np.sqrt(2)
        common = rng.standard_normal((design.groups, k))[group]
        noise = np.sqrt(1 - design.shared) * noise + np.sqrt(design.shared) * common
        frame["g"], options["cluster"] = group, "g"
    if design.kind == "rare":
        constants[-1] = -4.2
    if design.kind == "cost":
        slopes[0, 0] = 0.0  # What moves the cost of a does not move its outcome.
    latent = constants + x @ slopes.T + noise * scales
    chosen = latent.argmax(axis=1)
    if design.kind == "cost":
        chosen = (latent - np.column_stack([0.3 + 0.5 * x[:, 0], np.zeros(n)])).argmax(axis=1)
        options["cost"] = {"a": "~ x1"}
    outcome = latent[np.arange(n), chosen]
    kept = np.ones(n, dtype=bool)
    if design.kind in ("weights", "weighted silent", "weighted cost"):
        chance = 0.15 + 0.85 / (1.0 + np.exp(2.0 * (outcome - 0.5)))
        kept = rng.uniform(size=n) < chance
        frame["w"] = 1.0 / chance
        options |= {"weights": "w", "weights_kind": "probability"}
    if design.kind.endswith("silent"):
        outcome[rng.uniform(size=n) < 0.15] = np.nan
        options["missing_outcome"] = "silent"
    columns = {"y": outcome, "who": np.array(list("abcd"))[chosen], "x1": x[:, 0], "x2": x[:, 1]}
    return pd.DataFrame({**columns, **frame})[kept], options


def replicate_dependent(task: tuple[Dependent, int]) -> list[float]:
    """Return the p-values of independence, normality and variance; nan where it was not run."""
    import selfselect as ss

    design, seed = task
    data, options = draw_dependent(design, seed)
    formula: Any = {"a": "y ~ x2", "b": "y ~ x1 + x2"} if design.kind == "cost" else "y ~ x1 + x2"
    result = ss.fit(formula, data, chosen="who", **options)
    if seed >= design.bootstrapped:
        return [result.independence_test().p_value, float("nan"), float("nan")]
    slow = {"replications": design.draws, "seed": seed, "progress": False}
    tests = (result.normality_test(**slow), result.heteroskedasticity_test(**slow))
    return [result.independence_test().p_value, *(test.p_value for test in tests)]


def study_dependent(pool: Any, design: Dependent) -> str:
    """Return the design's row of the last table."""
    import numpy as np

    tasks = [(design, seed) for seed in range(design.samples)]
    p_values = np.array(list(pool.imap_unordered(replicate_dependent, tasks, chunksize=5)))
    cells = []
    for column in p_values.T:
        known = column[~np.isnan(column)]
        cells.append(f"{100 * (known <= LEVEL).mean():.1f}%" if len(known) else "")
    counts = f"{design.samples}" + (f", {design.bootstrapped}" if design.bootstrapped else "")
    return f"| {design.words} | {design.n_alternatives} | {' | '.join(cells)} | {counts} |"


def dependent_designs(scale: float) -> list[Dependent]:
    """Return the rows of the last table; `scale` multiplies all numbers of samples."""

    def some(number: int) -> int:
        return max(int(scale * number), 2)

    clusters = [
        Dependent(
            f"{groups} groups of {size}, intraclass correlation {shared}", "clusters", some(1_000),
            some(200) if k == 2 else 0, groups, size, shared, k,
        )
        for groups, size in ((545, 4), (545, 8), (30, 40))
        for shared in (0.3, 0.6)
        for k in (2, 3)
    ]  # fmt: skip
    few = [
        Dependent(
            f"{groups} groups of {size}, intraclass correlation {shared}", "clusters", some(200), 0,
            groups, size, shared, k,
        )
        for groups, size, shared, k in (
            (3, 300, 0.3, 2), (5, 200, 0.3, 2), (5, 200, 0.6, 2), (5, 200, 0.6, 3), (8, 100, 0.6, 2)
        )
    ]  # fmt: skip
    return [
        *clusters,
        *few,
        Dependent("drawn unequally, probability weights", "weights", some(1_000), some(200)),
        Dependent("30 groups of 40, silent outcomes", "silent", some(500), 0, 30, 40, 0.6),
        Dependent("30 groups of 40, estimated costs", "cost", some(500), 0, 30, 40, 0.6),
        Dependent("probability weights, silent outcomes", "weighted silent", some(500)),
        Dependent("one of four alternatives chosen in 3.9%", "rare", some(1_000), n_alternatives=4),
    ]


DEPENDENT_HEAD = """## Clusters, weights, a rare alternative

How often each test rejects a true model at 5%. *Groups*: rows of a group share the named part of
the variance of their noise, and half of that of their covariates; the fit is given `cluster=`.
Independence is tested by the score with products and scores summed by cluster; normality and
variance by the bootstrap, 99 samples that keep clusters and weights (on the second number of
samples). *Drawn unequally*: of 2,500 rows those with a large outcome were kept rarely, and weights
are one over the chance to be kept. *Silent outcomes*: 15% of the rows lack theirs; *estimated
costs*: the choice depends on a cost of the first alternative, which is estimated as well; of these
two, and of more than two alternatives, only independence is tested here. *One of four*: 1,000 rows;
the fourth alternative has a scale of 3 and is chosen in its upper tail only. A size of 5% over
1,000 samples has a standard error of 0.7 points, over 500 of 1.0, over 200 of 1.5, over 50 of 3.1.

Fewer than eight groups: a statistic that standardises the sums of G clusters by their own variance
cannot exceed G - 1, so with chi-square critical values none of 200 samples with five groups was
rejected. The tests use Hotelling's F.

Under probability weights samples of the bootstrap are drawn as unequally as the data was. With the
weights of the data and outcomes that have nothing to do with them, 95% quantiles of the two
statistics were 10.9 and 8.1 where those of 400 true samples were 12.6 and 9.4: the tests rejected
9.8% and 9.5% of true models. Now they are 12.6 and 9.9: 5.5% and 2.8%. Where weights depend on a
covariate alone it is 6.4% and 6.4%, where on nothing 3.2% and 4.0%, where on the outcome within
clusters of five 7.6% and 3.2% (250 samples each; quantiles of 240 drawn from twelve of them).
"""


@dataclass(frozen=True)
class Richer:
    """One row of the table of richer models: which model, and what is wrong with its noise."""

    model: str
    noise: str
    n_rows: int
    samples: int
    bootstrapped: int = 0
    draws: int = 99


MODELS = (
    "correlated", "shared shock", "estimated costs", "silent outcomes", "bounded outcomes",
    "logistic", "sample selection", "switching", "unknown index",
)  # fmt: skip


def draw_richer(design: Richer, seed: int) -> Any:
    """Draw a table of a richer model."""
    import numpy as np
    import pandas as pd

    n = design.n_rows
    rng = np.random.default_rng([seed, n, MODELS.index(design.model), 55])
    kind, _, size = design.noise.partition(" ")

    def normal(columns: int) -> Any:
        if kind == "t":
            return rng.standard_t(5, (n, columns)) / np.sqrt(5 / 3)
        if kind == "chi-square":
            return (rng.chisquare(8, (n, columns)) - 8) / 4
        return rng.standard_normal((n, columns))

    x = rng.standard_normal((n, 2))
    moved = np.exp(float(size.removesuffix("x1")) * x[:, :1]) if kind == "exp" else 1.0
    if design.model in ("sample selection", "switching"):
        u = rng.standard_normal(n)
        inside = 0.2 + 0.4 * x[:, 0] + x[:, 1] + u > 0
        noise = (np.column_stack([0.6 * u, -0.4 * u]) + np.array([0.8, 0.9]) * normal(2)) * moved
        latent = np.column_stack([1 + x[:, 0], 0.5 - x[:, 0]]) + noise
        y = np.where(inside, latent[:, 0], latent[:, 1])
        frame = pd.DataFrame({"y": y, "who": inside, "x1": x[:, 0], "x2": x[:, 1]})
        return frame if design.model == "switching" else frame.assign(y=frame["y"].where(inside))
    noise = normal(2)
    if design.model in ("correlated", "shared shock"):
        noise = np.column_stack([noise[:, 0], 0.5 * noise[:, 0] + np.sqrt(0.75) * noise[:, 1]])
    if design.model == "logistic" and kind == "as":
        noise = rng.logistic(size=(n, 2)) / np.sqrt(3)
    slopes = np.array([[0.8, -0.5], [-0.4, 0.6]])
    cost = np.zeros((n, 2))
    if design.model == "estimated costs":
        slopes[0, 0], cost[:, 0] = 0.0, 0.3 + 0.5 * x[:, 0]
    latent = 0.2 + x @ slopes + noise * moved * np.array([0.8, 1.0])
    chosen = (latent - cost).argmax(axis=1)
    y = latent[np.arange(n), chosen]
    if design.model == "silent outcomes":
        y[rng.uniform(size=n) < 0.2] = np.nan
    if design.model == "bounded outcomes":
        y = np.where(y < 1.5, y, np.nan)
    who = np.array(["a", "b"])[chosen]
    return pd.DataFrame({"y": y, "who": who, "x1": x[:, 0], "x2": x[:, 1], "top": 1.5})


def fit_richer(design: Richer, data: Any) -> Any:
    """Fit the model."""
    import selfselect as ss

    if design.model == "sample selection":
        return ss.sample_selection("y ~ x1", "who ~ x1 + x2", data)
    if design.model == "switching":
        return ss.switching("y ~ x1", "who ~ x1 + x2", data)
    if design.model == "unknown index":
        noise = ss.noises.Independent([0.8, 1.0])
        return ss.fit("y ~ x1 + x2", data, alternatives=2, noise=noise)
    formula: Any = "y ~ x1 + x2"
    options: dict[str, Any] = {
        "correlated": {"noise": "correlated"},
        "shared shock": {"noise": ss.noises.SharedShock()},
        "estimated costs": {"cost": {"a": "~ x1"}},
        "silent outcomes": {"missing_outcome": "silent"},
        "bounded outcomes": {"outcome_between": ("top", None)},
        "logistic": {"noise": ss.noises.Independent(shape="logistic")},
    }[design.model]
    if design.model == "estimated costs":
        formula = {"a": "y ~ x2", "b": "y ~ x1 + x2"}
    return ss.fit(formula, data, chosen="who", **options)


def replicate_richer(task: tuple[Richer, int]) -> list[float]:
    """Return the p-values of normality and variance, asymptotic and by bootstrap; else nan."""
    import warnings

    design, seed = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fit_richer(design, draw_richer(design, seed))
        tests = [result.normality_test(0), result.heteroskedasticity_test(0)]
        p_values = [test.p_value for test in tests]
        if seed >= design.bootstrapped or not tests[0].possible:
            return [*p_values, float("nan"), float("nan")]
        slow = {"replications": design.draws, "seed": seed, "progress": False}
        tests = [result.normality_test(**slow), result.heteroskedasticity_test(**slow)]
    return [*p_values, *(test.p_value for test in tests)]


def study_richer(pool: Any, design: Richer) -> str:
    """Return the design's row of the table of richer models."""
    import numpy as np

    tasks = [(design, seed) for seed in range(design.samples)]
    p_values = np.array(list(pool.imap_unordered(replicate_richer, tasks, chunksize=5)))
    cells = []
    for column in p_values.T:
        known = column[~np.isnan(column)]
        cells.append(f"{100 * (known <= LEVEL).mean():.1f}%" if len(known) else "")
    tested = int((~np.isnan(p_values[:, 0])).sum())
    counts = f"{tested}" + (f", {design.bootstrapped}" if design.bootstrapped else "")
    return f"| {design.model} | {design.noise} | {' | '.join(cells)} | {counts} |"


def richer_designs(scale: float) -> list[Richer]:
    """Return the rows of the table of richer models; `scale` multiplies numbers of samples."""

    def some(number: int) -> int:
        return max(int(scale * number), 2)

    return [
        Richer(model, noise, 1_000, some(size), some(slow))
        for noise, size, slow in (
            ("as assumed", 500, 100), ("t 5", 100, 0), ("chi-square 8", 100, 0),
            ("exp 0.2x1", 100, 0),
        )
        for model in MODELS
    ]  # fmt: skip


RICHER_HEAD = """## Richer models

How often the tests of shape and spread reject at 5%, with 1,000 rows and two alternatives. `as
assumed` is the size. *Correlated* and *shared shock*: a correlation of 0.5 that is estimated;
*estimated costs*: of the first alternative; *silent outcomes*: 20% of them; *bounded outcomes*:
those above 1.5 are known to be above; *logistic*: the shape that is fitted; *sample selection*,
*switching*: a selection equation with an excluded covariate and correlations of 0.6 and -0.4, whose
outcomes' own noise is what is wrong; *unknown index*: of known scales. Samples whose fit ended at a
boundary are not counted. The bootstrap draws 99 samples, on the second number of samples. A size of
5% over 500 samples has a standard error of 1.0 point, over 100 of 2.2.

Made by `python experiments/tests_of_noise.py --only models`.
"""


WRONG = ("correlated 0.3", "correlated 0.5", "t 5", "chi-square 8", "exp 0.1x1", "exp 0.2x1")


def designs(scale: float) -> dict[int, list[Design]]:
    """Return what is run, by number of rows; `scale` multiplies all numbers of samples."""

    def some(number: int) -> int:
        return max(int(scale * number), 2)

    return {
        5_000: [Design("as assumed", k, 5_000, some(2_000)) for k in (2, 3)]
        + [Design(noise, k, 5_000, some(100)) for noise in WRONG for k in (2, 3)],
        1_000: [Design("as assumed", k, 1_000, some(1_000), some(200)) for k in (2, 3)]
        + [
            Design(noise, k, 1_000, some(100), some(20) if k == 2 else 0, 99)
            for noise in WRONG
            for k in (2, 3)
        ],
        300: [Design("as assumed", k, 300, some(1_000)) for k in (2, 3)],
    }


HEAD = """# Size and power of the tests of the noise

How often each test rejects at 5%, in percent of the samples. The largest of two or three outcomes
is observed; two standard normal covariates, scales 0.8, 1.0 and 1.3. `as assumed` is the size:
normal,
independent, of constant variance. The others show power: `correlated 0.3` is a correlation between
all alternatives, `t 5` Student's noise with five degrees of freedom, `chi-square 8` skewed noise
with eight, `exp 0.1x1` a scale of exp(0.1 x1) times what it was. A size of 5% over 2,000 samples
has a standard error of 0.5 points, over 1,000 of 0.7, over 200 of 1.5; a power over 100 samples one
of at most 5, over 20 of 11. The bootstrap, which draws 199 samples for sizes and 99 for powers, is
run on the second number of samples.

The tests are not selective: with three alternatives, heavy tails or skewness make the test of
independence reject in nearly every sample, and with two, correlation now and then looks like a
moving variance. A rejection shows that the model is wrong; the tests together suggest which
part is wrong but do not prove it.

Made by `python experiments/tests_of_noise.py`.
"""


def table(n_rows: int, rows: list[str]) -> str:
    header = f"| noise | alternatives | {' | '.join(TESTS)} | samples |"
    rule = "|" + "---|" * (len(TESTS) + 3)
    return "\n".join([f"## {n_rows:,} rows", "", header, rule, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on numbers of samples")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=["dependent", "models"],
                        help="keep the other parts as they are")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("docs/studies/tests-of-noise.md"))
    options = parser.parse_args()
    # Processes share the cores already; each of them computes on one thread.
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    titles = [head.split("\n", 1)[0] for head in (DEPENDENT_HEAD, RICHER_HEAD)]
    made = {}
    if options.only:
        made = split_page(options.output.read_text(encoding="utf-8"), titles)

    def say(row: str) -> str:
        print(f"{time.perf_counter() - started:6.0f} s  {row}", flush=True)
        return row

    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        if not options.only:
            parts = [HEAD.rstrip()]
            for n_rows, each in designs(options.scale).items():
                parts.append(table(n_rows, [say(study(pool, design)) for design in each]))
            made["first"] = "\n\n".join(parts)
        if options.only != "models":
            header = "| rows | alternatives | independence | normality | variance | samples |"
            rows = [say(study_dependent(pool, one)) for one in dependent_designs(options.scale)]
            made[titles[0]] = "\n".join([DEPENDENT_HEAD, header, "|" + "---|" * 6, *rows])
        if options.only != "dependent":
            header = f"| model | noise | {' | '.join(TESTS[1:])} | samples |"
            rows = [say(study_richer(pool, one)) for one in richer_designs(options.scale)]
            made[titles[1]] = "\n".join([RICHER_HEAD, header, "|" + "---|" * 7, *rows])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    parts = [made[name] for name in ("first", *titles) if name in made]
    options.output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def split_page(text: str, titles: list[str]) -> dict[str, str]:
    """Return the parts of a page by their titles; the first is called so."""
    parts, name = {"first": ""}, "first"
    for line in text.splitlines():
        if line in titles:
            name = line
            parts[name] = ""
        parts[name] += f"{line}\n"
    return {name: part.rstrip() for name, part in parts.items()}


if __name__ == "__main__":
    main()

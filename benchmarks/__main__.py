"""Print what fits and pages cost beside their limits: ``make bench``.

Every ratio is of medians taken in turns in one run. ``--only`` runs some of the sections,
``--write`` writes the table as a page and keeps the notes below it.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import selfselect as ss
from benchmarks import (
    convex_rules,
    frames,
    least_squares,
    markets,
    mixtures,
    noises,
    ours,
    problems,
    r,
    sample_selection,
    survreg,
)
from benchmarks.limits import Table, installed_size, seconds
from benchmarks.timing import fresh_process, take_turns, with_bytecode
from selfselect.inference.covariance import Bootstrap
from selfselect.threads import thread_count

SIZES = (500, 5_000, 50_000, 500_000)
COMMAND = "make bench"

COLD_OURS = """
import sys, pandas as pd, selfselect as ss
print(ss.fit("y ~ x1 + x2 + x3 + x4 + x5", pd.read_csv(sys.argv[1]), chosen="job").summary())
"""
COLD_STATSMODELS = """
import sys, pandas as pd, statsmodels.formula.api as smf
print(smf.ols("y ~ x1 + x2 + x3 + x4 + x5", pd.read_csv(sys.argv[1])).fit().summary())
"""
FIRST_FIT = """
import time, numpy, pandas
from benchmarks import frames, problems
formula, frame = frames.frame_of(problems.maximum(1_000_000, 10, 3))
started = time.perf_counter()
frames.fit(formula, frame)
print(time.perf_counter() - started)
"""


def milliseconds(*spent: float) -> str:
    return ", ".join(f"{1e3 * one:.3g} ms" for one in spent)


def from_arrays(table: Table) -> None:
    data = problems.maximum(1_000_000, 10, 3)
    spent = take_turns(
        {"ours": lambda: ours.solve(data), "floor": lambda: least_squares.solve(data)}
    )
    table.add(
        "fit from arrays / least squares per group in NumPy", "1,000,000",
        spent["ours"] / spent["floor"], "at most", 1.2,
        note=milliseconds(spent["ours"], spent["floor"]),
    )  # fmt: skip


def pages(table: Table) -> None:
    """Fit from a frame and print the page, beside statsmodels and beside the fit alone."""
    if not frames.has_statsmodels():
        table.add("statsmodels' OLS per group with summaries", "", "not run: not installed")
    for n_rows in (*SIZES, 1_000_000):
        formula, frame = frames.frame_of(problems.maximum(n_rows, 10, 3))
        tasks: dict[str, Callable[[], object]] = {
            "fit": lambda: frames.fit(formula, frame),  # noqa: B023
            "page": lambda: frames.page(formula, frame),  # noqa: B023
        }
        if frames.has_statsmodels():
            tasks["statsmodels"] = lambda: frames.statsmodels_pages(formula, frame)  # noqa: B023
        spent = take_turns(tasks, rounds=5 if n_rows < 500_000 else 3)
        size, summary = f"{n_rows:,}", spent["page"] - spent["fit"]
        table.add("`ss.fit` on a frame", size, 1e3 * spent["fit"], unit=" ms")
        table.add(
            "summary, over the fit and 15 ms", size, summary / (spent["fit"] + 0.015),
            "at most", 1.0, note=milliseconds(summary),
        )  # fmt: skip
        if "statsmodels" in spent:
            table.add(
                "`ss.fit` on a frame and its page / statsmodels' OLS per group, with summaries",
                size, spent["page"] / spent["statsmodels"], "at most",
                0.6 if n_rows == 1_000_000 else None,
                note=milliseconds(spent["page"], spent["statsmodels"]),
            )  # fmt: skip


def growth(table: Table, largest: int = 10_000_000) -> None:
    """Look for cliffs: time of the known index against a line through that of a million rows."""
    found = {}
    for n_rows in (*SIZES, 1_000_000, 10_000_000):
        if n_rows <= largest:
            data = problems.maximum(n_rows, 10, 3)
            rounds = 3 if n_rows > 1_000_000 else 7
            found[n_rows] = take_turns({"fit": lambda: ours.solve(data)}, rounds=rounds)["fit"]  # noqa: B023
    per_row = found[1_000_000] / 1_000_000
    for n_rows, spent in found.items():
        allowed = 0.004 + 1.5 * n_rows * per_row
        table.add(
            "fit from arrays / (4 ms and 1.5 times the rows' cost at a million)", f"{n_rows:,}",
            spent / allowed, "at most", 1.0, note=milliseconds(spent),
        )  # fmt: skip


def against_survreg(table: Table) -> None:
    if not survreg.available():
        table.add("R's survreg", "", "not run: Rscript or its package survival is not installed")
        return
    for n_rows, limit in ((10_000, 15.0), (100_000, 40.0), (1_000_000, 45.0)):
        data = problems.maximum(n_rows, 10, 3)
        formula, frame = frames.frame_of(data)
        engine = ss.engines.Memory(threads=1)
        task = {"ours": lambda: frames.fit(formula, frame, engine=engine)}  # noqa: B023
        mine = take_turns(task, rounds=5)["ours"]
        _, theirs = survreg.solve(data)
        table.add(
            "R's survreg per alternative / `ss.fit` on a frame, one core", f"{n_rows:,}",
            theirs / mine, "at least", limit, note=milliseconds(theirs, mine),
        )  # fmt: skip


def against_markets(table: Table) -> None:
    if not r.installed("markets"):
        table.add("R's markets", "", "not run: Rscript or that package is not installed")
        return
    limits = {
        500: (2.5, 1.0, None), 5_000: (7.0, 2.0, 1.0), 50_000: (12.0, 5.0, 1.0),
    }  # fmt: skip
    for n_rows, (one_start, correlated, all_starts) in limits.items():
        sample, size = markets.draw(n_rows), f"{n_rows:,}"
        spent = take_turns(
            {
                "one": lambda: markets.ours(sample, starts=1),  # noqa: B023
                "all": lambda: markets.ours(sample),  # noqa: B023
            },
            rounds=3,
        )
        _, theirs = markets.solve("markets", sample)
        table.add(
            "R's markets / ours from one start, no correlation", size, theirs / spent["one"],
            "at least", one_start, note=milliseconds(theirs, spent["one"]),
        )  # fmt: skip
        table.add(
            "R's markets / ours with its own number of starts, no correlation", size,
            theirs / spent["all"], "at least", all_starts,
            note=milliseconds(theirs, spent["all"]),
        )  # fmt: skip
        spent = take_turns(
            {
                "one": lambda: markets.correlated(sample, starts=1),  # noqa: B023
                "all": lambda: markets.correlated(sample),  # noqa: B023
            },
            rounds=3,
        )
        try:
            _, theirs = markets.solve("markets", sample, correlated=True)
        except RuntimeError:
            table.add("R's markets, correlation estimated", size, "not measured: R stopped")
            continue
        table.add(
            "R's markets / ours from one start, correlation estimated", size,
            theirs / spent["one"], "at least", correlated,
            note=milliseconds(theirs, spent["one"]),
        )  # fmt: skip
        table.add(
            "R's markets / ours with its own number of starts, correlation estimated", size,
            theirs / spent["all"], note=milliseconds(theirs, spent["all"]),
        )  # fmt: skip


def against_sample_selection(table: Table) -> None:
    if not r.installed("sampleSelection"):
        table.add("R's sampleSelection", "", "not run: Rscript or that package is not installed")
        return
    for n_rows, limit, rounds in ((5_000, 9.0, 7), (100_000, 22.0, 2)):
        data = sample_selection.problem(n_rows)
        mine = sample_selection.fewest(lambda: sample_selection.ours(data), rounds)  # noqa: B023
        _, theirs, _ = sample_selection.theirs("sampleSelection", data, rounds)
        table.add(
            "R's sampleSelection / `ss.switching`, the quickest of each", f"{n_rows:,}",
            theirs / mine, "at least", limit, note=milliseconds(theirs, mine),
        )  # fmt: skip


def several_alternatives(table: Table) -> None:
    """Measure models of a choice among three: a bootstrap of two steps, and ordered switching."""
    rng, n_rows = np.random.default_rng(1), 5_000
    x, z, u = rng.standard_normal((3, n_rows))
    pull = np.column_stack([0 * x, 0.5 * x + z, z - 0.5 * x]) + rng.gumbel(size=(n_rows, 3))
    job = pull.argmax(axis=1)
    wage = 1 + x + 0.3 * pull[np.arange(n_rows), job] + rng.standard_normal(n_rows)
    hours = np.digitize(0.5 * x + 0.8 * z + u, [-0.5, 0.6])
    pay = np.choose(hours, [x, 0.5 * x + 1, 2 - x]) + 0.4 * u + rng.standard_normal(n_rows)
    data = pd.DataFrame({"x": x, "z": z, "job": job, "wage": wage, "hours": hours, "pay": pay})
    _, spent = seconds(
        lambda: ss.multinomial_switching(
            "wage ~ x", "job ~ x + z", data, covariance=Bootstrap(200), seed=0, progress=False
        )
    )
    work = "multinomial switching with a bootstrap of 200 samples"
    table.add(work, f"{n_rows:,}", spent, "at most", 5.0, " s")
    turns = take_turns(
        {"fit": lambda: ss.switching("pay ~ x", "hours ~ x + z", data, ordered=True)}
    )
    table.add("ordered switching, three alternatives", f"{n_rows:,}", turns["fit"], unit=" s")


def against_flexmix(table: Table) -> None:
    if not r.installed("flexmix"):
        table.add("R's flexmix", "", "not run: Rscript or that package is not installed")
        return
    for shifted, limit, what in ((False, 2.5, "centred"), (True, None, "shifted, intercepts")):
        mixed = mixtures.draw(5_000, shifted=shifted)
        mine = take_turns({"ours": lambda: mixtures.ours(mixed, starts=8)}, rounds=3)["ours"]  # noqa: B023
        found, theirs = mixtures.solve("flexmix", mixed)
        table.add(
            f"R's flexmix / unknown index, two alternatives, 8 starts each, {what}", "5,000",
            theirs / mine, "at least", limit, note=milliseconds(theirs, mine),
        )  # fmt: skip
        for name, one in (("ours", mixtures.ours(mixed, starts=8)), ("flexmix", found)):
            table.add(
                f"   largest error of a coefficient, {name}", "5,000", mixtures.error(one, mixed)
            )


def fresh(table: Table) -> None:
    """Measure new processes: a page from a file, and the first fit of an installation."""
    data = problems.maximum(2_000, 5, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["y", "job", *(f"x{i + 1}" for i in range(5))])
            for y, j, x in zip(data.outcome, data.chosen, data.covariates, strict=True):
                writer.writerow([y, "ab"[j], *x])
        tasks = {"ours": fresh_process(COLD_OURS, path)}
        if frames.has_statsmodels():
            tasks["statsmodels"] = fresh_process(COLD_STATSMODELS, path)
        spent = take_turns(tasks)
    work = "new process: file read, page printed"
    if "statsmodels" in spent:
        table.add(
            f"{work} / the same with statsmodels' ols", "2,000",
            spent["ours"] / spent["statsmodels"], "at most", 0.68,
            note=milliseconds(spent["ours"], spent["statsmodels"]),
        )  # fmt: skip
    else:
        table.add(work, "2,000", spent["ours"], unit=" s")
    with tempfile.TemporaryDirectory() as folder:
        # Without bytecode of any package: pip compiles what it installs, other installers do not.
        command = [sys.executable, "-X", f"pycache_prefix={folder}", "-c", FIRST_FIT]
        printed = [
            subprocess.run(
                command, check=True, capture_output=True, text=True, env=with_bytecode()
            ).stdout
            for _ in range(2)
        ]
        first, second = map(float, printed)
    table.add(
        "very first fit of an installation, over that of a second process", "1,000,000",
        first - second, "at most", 0.3, unit=" s", note=milliseconds(first, second),
    )  # fmt: skip
    table.add("installed size with all that is needed", "", installed_size(), unit=" MB")


def second_tier(table: Table) -> None:
    """Measure reports, sensitivities, bootstraps and predictions."""
    sample = ss.simulators.village(100_000, seed=1)
    result = ss.fit("income ~ height + weight", sample.data, chosen="job")
    with tempfile.TemporaryDirectory() as folder:
        _, spent = seconds(lambda: result.report(Path(folder) / "report.html"))
    table.add("report of a fit, matplotlib loaded in it", "100,000", spent, "at most", 2.0, " s")

    formula, frame = frames.frame_of(problems.maximum(2_900, 5, 3))
    fitted = frames.fit(formula, frame)
    _, spent = seconds(lambda: fitted.sensitivity(progress=False))
    table.add("`sensitivity()`, three alternatives", "2,900", spent, "at most", 20.0, " s")

    formula, frame = frames.frame_of(problems.maximum(5_000, 10, 3))
    bootstrap = Bootstrap(500)
    _, spent = seconds(
        lambda: frames.fit(formula, frame, covariance=bootstrap, seed=0, progress=False)
    )
    table.add("fit with a bootstrap of 500 samples", "5,000", spent, "at most", 3.0, " s")

    formula, frame = frames.frame_of(problems.maximum(1_000_000, 10, 3))
    large = frames.fit(formula, frame)
    turns = take_turns(
        {"means": lambda: large.predict(frame), "chances": lambda: large.predict(frame, "chance")},
        rounds=3,
    )
    table.add(
        "`predict` of chances / of means", "1,000,000", turns["chances"] / turns["means"],
        "at most", 3.0, note=milliseconds(turns["chances"], turns["means"]),
    )  # fmt: skip


def how_much_is_data(table: Table) -> None:
    """Measure bounds beside reading their rows, and a rehearsal beside its fits."""
    data = ss.simulators.village(1_000_000, seed=1).data
    with tempfile.TemporaryDirectory() as folder:
        text, columns = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
        data.to_csv(text, index=False)
        data.to_parquet(columns)
        spent = take_turns(
            {
                "read": lambda: pd.read_csv(text),
                "read columns": lambda: pd.read_parquet(columns),
                "frame": lambda: ss.bounds("income", data, chosen="job"),
                "file": lambda: ss.bounds("income", columns, chosen="job"),
            },
            rounds=5,
        )
    table.add(
        "`bounds` of a frame / reading it from a CSV file", "1,000,000",
        spent["frame"] / spent["read"], "at most", 5.0,
        note=milliseconds(spent["frame"], spent["read"]),
    )  # fmt: skip
    table.add(
        "`bounds` of a Parquet file / reading it", "1,000,000",
        spent["file"] / spent["read columns"],
        note=milliseconds(spent["file"], spent["read columns"]),
    )  # fmt: skip
    formula, frame = frames.frame_of(problems.maximum(20_000, 10, 3))
    fitted, replications, workers = frames.fit(formula, frame), 39, thread_count()
    engine = ss.engines.Memory(threads=1)
    spent = take_turns(
        {
            "fit": lambda: frames.fit(formula, frame, engine=engine),
            "rehearsal": lambda: fitted.rehearse(replications, seed=0, progress=False),
        },
        rounds=3,
    )
    table.add(
        f"`rehearse({replications})` / (its fits' time / {workers} workers)", "20,000",
        spent["rehearsal"] / (replications * spent["fit"] / workers), "at most", 1.2,
        note=milliseconds(spent["rehearsal"], spent["fit"]),
    )  # fmt: skip


def without_bounds(table: Table) -> None:
    for rule in convex_rules.RULES:
        general, exact = convex_rules.ratio(20_000, 1.0, rule)
        table.add(
            f"{rule} without bounds / exact box fit by NumPy, scale known, processor's time",
            "20,000", general / exact, "at most", 25.0, note=milliseconds(general, exact),
        )  # fmt: skip


def other_noises(table: Table) -> None:
    n_rows, size = 1_000_000, "1,000,000"
    limits = {
        "logistic": 2.0, "gumbel": 2.0, "mixture": 6.0, "known student": 6.0, "student": 8.0,
    }  # fmt: skip
    for noise, limit in limits.items():
        rows = noises.problem(noise, n_rows, 3)
        spent = take_turns(
            {one: lambda one=one: noises.fit(rows, one) for one in ("normal", noise)},  # noqa: B023
            rounds=3,
        )
        table.add(f"{noise} noise / normal, d=10 k=3", size, spent[noise] / spent["normal"],
                  "at most", limit)  # fmt: skip
    rows = noises.problem("types", n_rows, 2)
    people = noises.problem("types", n_rows, 2, panel=True)
    apart = replace(people, rows=replace(people.rows, groups=None))
    spent = take_turns(
        {
            "normal": lambda: noises.fit(rows, "normal"),
            "types": lambda: noises.fit(rows, "types"),
            "panel": lambda: noises.fit(people, "types"),
            "apart": lambda: noises.fit(apart, "types"),
        },
        rounds=3,
    )
    for what, name, over, limit in (
        ("three types / normal, d=10 k=2", "types", "normal", 12.0),
        (f"three types in a panel of {noises.YEARS} rows each / normal", "panel", "normal", 12.0),
        ("three types in a panel / the same rows without groups", "panel", "apart", 1.3),
    ):
        table.add(what, size, spent[name] / spent[over], "at most", limit)


SECTIONS: dict[str, Callable[[Table], None]] = {
    "arrays": from_arrays,
    "pages": pages,
    "growth": growth,
    "survreg": against_survreg,
    "markets": against_markets,
    "selection": against_sample_selection,
    "several": several_alternatives,
    "flexmix": against_flexmix,
    "fresh": fresh,
    "second": second_tier,
    "data": how_much_is_data,
    "convex": without_bounds,
    "noises": other_noises,
}


def notes_of(page: Path) -> str:
    """Return what the page that is written over says from its heading "Notes" on."""
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    _, heading, notes = old.partition("\n## Notes\n")
    return heading + notes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--write", type=Path, help="the page to write the table to")
    options = parser.parse_args()
    table = Table()
    print(f"selfselect {ss.__version__}; medians of runs in turns after a warm-up\n")
    for name in options.only:
        SECTIONS[name](table)
    if options.write is not None:
        page = table.markdown(COMMAND) + notes_of(options.write)
        options.write.write_text(page, encoding="utf-8")
    missed = [line for line in table.lines if line.verdict == "NOT HELD"]
    print(f"\n{len(missed)} limits not held")
    assert np.isfinite([line.value for line in table.lines if isinstance(line.value, float)]).all()


if __name__ == "__main__":
    main()

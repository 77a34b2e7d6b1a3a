"""Print what else is measured: ``make bench-more``. Each ratio is of medians taken in one run."""

from __future__ import annotations

import numpy as np

import selfselect as ss
from benchmarks import (
    joined,
    least_squares,
    markets,
    mixtures,
    ours,
    problems,
    r,
    sample_selection,
    survreg,
    unknown_index,
)
from benchmarks.timing import fresh_process, peak_memory, take_turns

PEAK = """
import resource, sys, threading, numpy as np
from benchmarks import ours, problems
ours.solve(problems.maximum(400_000, 3, 2))
data = problems.maximum(1_000_000, 10, 3)
import os
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before, highest, done = resident(), 0, threading.Event()
def watch():
    global highest
    while not done.wait(0.001):
        highest = max(highest, resident())
watcher = threading.Thread(target=watch); watcher.start()
ours.solve(data)
done.set(); watcher.join()
print((max(highest, resident()) - before) / data.covariates.nbytes)
"""


def line(what: str, value: float, limit: str, note: str = "") -> None:
    print(f"{what:<66} {value:>9.3g}   {limit:<12} {note}", flush=True)


def accuracy() -> None:
    data = problems.maximum(1_000_000, 10, 3)
    naive = np.abs(least_squares.solve(data)[:, 1:] - data.coefficients).max()
    error = np.abs(ours.solve(data)[:, 1:] - data.coefficients).max()
    line("largest error of a slope, n=1e6 d=10 k=3", error, "", f"{naive:.3f} by least squares")
    line("peak extra memory / covariates, same data", peak_memory(PEAK), "<= 1.5")
    if not survreg.available():
        print("R's survreg: not run, Rscript or its package survival is not installed")
        return
    gap = float(np.abs(survreg.solve(data)[0] - ours.solve(data)).max())
    line("largest difference of a coefficient from survreg's", gap, "< 1e-5")


def start_up() -> None:
    spent = take_turns(
        {
            "selfselect": fresh_process("import selfselect"),
            "numpy": fresh_process("import numpy"),
            "help": fresh_process("from selfselect.cli.main import main; main(['--help'])"),
        },
        rounds=15,
    )
    line("import selfselect / import numpy", spent["selfselect"] / spent["numpy"], "<= 1.5")
    line("selfselect --help / import numpy", spent["help"] / spent["numpy"], "<= 1.5")


def unknown() -> None:
    for n_rows, n_covariates, n_alternatives in ((1_000_000, 10, 3), (200_000, 50, 6)):
        data = problems.maximum(n_rows, n_covariates, n_alternatives, norm=2.0)
        passes = unknown_index.Passes(data)
        spent = take_turns(
            {
                "known": passes.known_pass,
                "em": passes.em_step,
                "gradient": passes.gradient,
                "exact": passes.exact,
            },
            rounds=5,
        )
        size = f"n={n_rows:.0e} d={n_covariates} k={n_alternatives}"
        known = spent["known"]
        line(f"EM step / known-index pass, {size}", spent["em"] / known, "<= 2")
        line(f"   likelihood and score / known-index pass, {size}", spent["gradient"] / known, "")
        line(f"   exact Hessian / known-index pass, {size}", spent["exact"] / known, "")
    seconds, status = passes.whole_fit()
    again = take_turns({"known": passes.known_pass}, rounds=5)["known"]
    line(
        f"unknown index, 8 starts, from scratch / known-index pass, {size}",
        seconds / min(known, again), "<= 150", f"{seconds:.1f} s. {status}",
    )  # fmt: skip


def switching() -> None:
    table = sample_selection.problem()
    spent = {
        "search": sample_selection.fewest(lambda: sample_selection.ours(table)),
        "two-step": sample_selection.fewest(lambda: sample_selection.ours(table, start="two-step")),
    }
    size = f"n={len(table)}, 24 parameters"
    line(f"switching, {size}, with the search for the best optimum (ms)", 1e3 * spent["search"], "")
    line("   from the two-step estimate alone (ms)", 1e3 * spent["two-step"], "")
    found = [package for package in sample_selection.PEERS if r.installed(package)]
    if "sampleSelection" not in found:
        print("R's sampleSelection: not run, Rscript or that package is not installed")
    for package in found:
        loglik, seconds, _ = sample_selection.theirs(package, table)
        name = package if package == "sampleSelection" else "its stand-in around R's maxLik"
        note = f"{1e3 * seconds:.0f} ms"
        line(f"{name} / switching with the search, same data",
             seconds / spent["search"], ">= 5", note)  # fmt: skip
        line("   / from the two-step estimate, as there", seconds / spent["two-step"], ">= 5")
        gap = abs(loglik / sample_selection.ours(table).llf - 1)
        line("   relative difference of the log-likelihoods", gap, "< 1e-6")


def peers_of_the_unknown_index() -> None:
    for shifted, what in ((False, "centred, no intercepts"), (True, "shifted, intercepts")):
        mixed = mixtures.draw(5_000, shifted=shifted)
        spent = take_turns({"ours": lambda: mixtures.ours(mixed)}, rounds=3)["ours"]  # noqa: B023
        line(
            f"larger of two, n=5e3 d=5, {what}: largest error, ours",
            mixtures.error(mixtures.ours(mixed), mixed), "", f"{spent:.2f} s",
        )  # fmt: skip
        for peer in mixtures.PEERS:
            if not r.installed(peer):
                print(f"   R's {peer}: not run, it is not installed")
                continue
            found, seconds = mixtures.solve(peer, mixed)
            starts = mixtures.STARTS[peer]
            note = f"{seconds:.2f} s, starts: {starts}"
            line(f"   largest error, mixture by {peer}", mixtures.error(found, mixed), "", note)
            line(f"   {peer} / fit, seconds", seconds / spent, "")
    sample = markets.draw(5_000)
    mine = markets.ours(sample)
    spent = take_turns({"ours": lambda: markets.ours(sample)}, rounds=3)["ours"]
    line("smaller of demand and supply, n=5e3, one scale each (s)", spent, "")
    for peer in markets.PEERS:
        if not r.installed(peer):
            print(f"   R's {peer}: not run, it is not installed")
            continue
        theirs, seconds = markets.solve(peer, sample)
        gap = float(np.abs(theirs.coefficients - mine.coefficients).max())
        line(f"   {peer} / fit, seconds", seconds / spent, "", f"{seconds:.2f} s")
        line(f"   largest difference of a coefficient from {peer}'s", gap, "")
        line(f"   log-likelihood, ours less {peer}'s", mine.loglik - theirs.loglik, "")


def joined_alternatives() -> None:
    for k in (2, 3):
        rows = joined.problem(1_000_000, 10, k)
        tasks = {
            "independent": lambda: joined.independent(rows),  # noqa: B023
            "shared shock": lambda: joined.shared_shock(rows),  # noqa: B023
        }
        if k == 2:
            tasks["correlated"] = lambda: joined.correlated(rows)  # noqa: B023
        spent = take_turns(tasks, rounds=3)
        size = f"n=1e6 d=10 k={k}"
        if k == 2:
            line(f"correlated / independent, {size}",
                 spent["correlated"] / spent["independent"], "<= 3")  # fmt: skip
        line(f"shared shock, 15 nodes / independent, {size}",
             spent["shared shock"] / spent["independent"], "<= 20")  # fmt: skip
    rows = joined.problem(20_000, 5, 4)
    spent = take_turns({"ghk": lambda: joined.simulated(rows)}, rounds=1)
    line("correlated by GHK with 256 points, n=2e4 d=5 k=4 (s)", spent["ghk"], "<= 60")


def growth() -> None:
    print("\ncost per row and alternative (ns), d=10: linear if flat")
    for n_alternatives in (2, 5, 10, 20):
        data = problems.maximum(200_000, 10, n_alternatives)
        spent = take_turns({"ours": lambda: ours.solve(data)}, rounds=3)  # noqa: B023
        line(f"   n=2e+05 k={n_alternatives}", 1e9 * spent["ours"] / (2e5 * n_alternatives), "")


def main() -> None:
    print(f"selfselect {ss.__version__}; medians of runs in turns after a warm-up\n")
    print(f"{'what':<66} {'value':>9}   limit")
    accuracy()
    start_up()
    unknown()
    switching()
    peers_of_the_unknown_index()
    joined_alternatives()
    growth()


if __name__ == "__main__":
    main()

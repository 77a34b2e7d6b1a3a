"""Load and faults: random models side by side, killed, interrupted and starved, for some minutes.

    python tools/soak.py --minutes 10        prints the counts; --output writes them as a page

Random models are fitted, asked for predictions, saved, loaded and reported on: first one after the
other, which gives the right answers, then in 8 threads of one process, then in 4 processes under
limits of memory and time, then under faults. Whatever comes out must be the same to the last bit,
or an error of the package; files must be whole or as they were; memory, open files and threads
must not grow. The exit code is 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss
from selfselect.errors import SelfSelectError

N_MODELS = 24
THREADS, PROCESSES = 8, 4
MEMORY_GB = 4
"""Address space of each process."""

JOB_S = 300
"""CPU seconds that one model may take in a process."""

GROWTH_MB, GROWTH_OBJECTS = 48.0, 0.02
"""What the second half of the time in threads may add: megabytes, and a share of all objects."""

PHASES = {"threads": 0.35, "processes": 0.25, "interrupts": 0.1, "full disk": 0.08, "kills": 0.14}
"""Shares of the time; truncated files and the limit of memory take what is left."""


# the work


def model(number: int) -> tuple[str, dict[str, Any], pd.DataFrame]:
    """Return formula, options and rows of a random model."""
    rng = random.Random(number)
    data = ss.simulators.village(rng.randrange(200, 700), seed=number).data
    more = np.random.default_rng(number)
    data["age"] = more.normal(40.0, 9.0, len(data))
    data["town"] = more.choice(["a", "b", "c"], len(data))
    data["group"] = more.integers(0, 40, len(data))
    data["w"] = more.integers(1, 4, len(data)).astype(float)
    formula = "income ~ " + rng.choice(
        ["height", "height + weight", "height + C(town)", "center(age) + height", "bs(age, df=4)"]
    )
    options: dict[str, Any] = {"seed": number}
    kind = rng.choice(["known", "known", "known", "shape", "pair", "types", "unknown", "bootstrap"])
    if kind == "unknown":
        solver = ss.solvers.MaximumLikelihood(starts=2)
        return "income ~ height", options | {"alternatives": 2, "solver": solver}, data
    options["chosen"] = "job"
    if kind == "known":
        options |= rng.choice(
            [{}, {"weights": "w"}, {"cluster": "group"}, {"rule": "min"}, {"covariance": "robust"}]
        )
    elif kind == "shape":
        options["noise"] = ss.noises.Independent(shape=rng.choice(["logistic", "gumbel"]))
    elif kind == "pair":
        options["noise"] = "correlated"
    elif kind == "types":
        options |= {"noise": ss.noises.Types(2), "panel": "group"}
    else:
        options["covariance"] = ss.inference.Bootstrap(6)
    return formula, options, data


def digest_of(number: int, folder: Path) -> str:
    """Fit a model, ask, save, load and report; return a digest of all that came out."""
    formula, options, data = model(number)
    known = hashlib.sha256()

    def add(values: Any) -> None:
        known.update(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    result = ss.fit(formula, data, progress=False, **options)
    add(result.params)
    add(result.cov_params())
    add(result.predict(data.iloc[:50], kind="chance"))
    add(result.predict(kind="outcome"))
    known.update(str(result.summary()).encode())
    place = folder / f"{number}-{threading.get_ident()}-{os.getpid()}.json"
    result.save(place)
    again = ss.load(place)
    if not np.array_equal(again.params, result.params):
        raise AssertionError("a loaded fit differs from the saved one")
    add(again.predict(data.iloc[50:90], kind="latent"))
    place.unlink()
    if number % 4 == 0:
        page = place.with_suffix(".html")
        result.report(page)
        known.update(page.read_bytes())
        page.unlink()
    return known.hexdigest()


class Counts(Counter[str]):
    """Counts, and the first words of whatever was wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def wrong(self, phase: str, what: str) -> None:
        """Count something that must not be."""
        self[f"{phase}: wrong"] += 1
        if len(self.words) < 20:
            self.words.append(f"{phase}: {what}")


# what is held


def held() -> tuple[float, int, int, int]:
    """Return megabytes, open files, threads and objects of this process.

    Fonts are left out: matplotlib keeps those of the last threads that drew, at most 64 of them.
    """
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    tasks = len(os.listdir("/proc/self/task"))
    files = sum(not name.endswith((".ttf", ".otf")) for name in open_files())
    return pages * resource.getpagesize() / 1e6, files, tasks, len(gc.get_objects())


def open_files() -> list[str]:
    """Return the names of what this process has open."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        # The one that lists the others is closed by now.
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return names


def limit_process() -> None:
    """Bound memory and time of this process."""
    space = MEMORY_GB * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (space, space))


# phases


def in_threads(right: list[str], seconds: float, counts: Counts, folder: Path) -> None:
    """Run models in threads of this process and watch what is held."""
    end = time.monotonic() + seconds
    filters = list(warnings.filters)
    lock = threading.Lock()

    def work(which: int, until: float) -> None:
        rng = random.Random(which)
        while time.monotonic() < until:
            number = rng.randrange(len(right))
            try:
                same = digest_of(number, folder) == right[number]
                what = f"model {number} has other bits"
            except BaseException as error:
                same, what = False, f"model {number}: {type(error).__name__}: {error}"
            with lock:
                counts["threads: models"] += 1
                if not same:
                    counts.wrong("threads", what)

    found = []
    for part in (0.5, 0.0):
        until = end - part * seconds
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS), [until] * THREADS))
        found.append(held())
    (memory, files, tasks, objects), last = found
    counts["threads: megabytes more in the second half"] = round(last[0] - memory)
    counts["threads: open files more"] = last[1] - files
    counts["threads: threads more"] = last[2] - tasks
    if last[0] - memory > GROWTH_MB:
        counts.wrong("threads", f"memory grew from {memory:.0f} to {last[0]:.0f} MB")
    if last[3] > (1.0 + GROWTH_OBJECTS) * objects:
        counts.wrong("threads", f"objects grew from {objects} to {last[3]}")
    if last[1] > files or last[2] > tasks:
        counts.wrong("threads", f"files or threads grew: {files}, {tasks} to {last[1:3]}")
    if list(warnings.filters) != filters:
        counts.wrong("threads", "the filters of warnings are not what they were")
    left = list(folder.iterdir())
    if left:
        counts.wrong("threads", f"files are left behind: {left[0].name}")


def child(target: Any, *arguments: Any) -> multiprocessing.process.BaseProcess:
    """Start a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def one_process(right: list[str], which: int, seconds: float, folder: Path, out: Any) -> None:
    """Run models under limits; report counts."""
    prepare()
    limit_process()
    rng, end, counts = random.Random(which), time.monotonic() + seconds, Counts()
    while time.monotonic() < end:
        number = rng.randrange(len(right))
        spent = time.process_time()
        try:
            if digest_of(number, folder) != right[number]:
                counts.wrong("processes", f"model {number} has other bits")
        except BaseException as error:
            counts.wrong("processes", f"model {number}: {type(error).__name__}: {error}")
        if time.process_time() - spent > JOB_S:
            counts.wrong("processes", f"model {number} took more than {JOB_S} s")
        counts["processes: models"] += 1
    out.put((dict(counts), counts.words))


def interrupted(right: list[str], seconds: float, folder: Path, out: Any) -> None:
    """Interrupt models at random times; the next one must be right all the same."""
    prepare()
    rng, end, counts = random.Random(5), time.monotonic() + seconds, Counts()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    while time.monotonic() < end:
        number = rng.randrange(len(right))
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 1.0))
            digest_of(number, folder)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        except KeyboardInterrupt:
            counts["interrupts: interrupted"] += 1
        except BaseException as error:
            counts.wrong("interrupts", f"model {number}: {type(error).__name__}: {error}")
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for path in folder.iterdir():
            # The fit itself may have been saved; nothing half-written may be there.
            if path.suffix not in (".json", ".html"):
                counts.wrong("interrupts", f"{path.name} is left behind")
            path.unlink()
        number = rng.randrange(len(right))
        try:
            if digest_of(number, folder) != right[number]:
                counts.wrong("interrupts", f"model {number} has other bits after an interrupt")
        except BaseException as error:
            counts.wrong("interrupts", f"after one, {number}: {type(error).__name__}: {error}")
        counts["interrupts: models"] += 1
    out.put((dict(counts), counts.words))


def on_a_full_disk(seconds: float, folder: Path, out: Any) -> None:
    """Save and report where files may have a few bytes only: the old ones must stay."""
    prepare()
    rng, end, counts = random.Random(6), time.monotonic() + seconds, Counts()
    formula, options, data = model(0)
    result = ss.fit(formula, data, **options)
    saved, page = folder / "fit.json", folder / "fit.html"
    result.save(saved)
    result.report(page)
    before = saved.read_bytes(), page.read_bytes()
    least = min(map(len, before))
    while time.monotonic() < end:
        resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(least), resource.RLIM_INFINITY))
        for write in (lambda: result.save(saved), lambda: result.report(page)):
            try:
                write()
                counts.wrong("full disk", "something was written beyond the limit")
            except SelfSelectError:
                counts["full disk: refused"] += 1
            except BaseException as error:
                counts.wrong("full disk", f"{type(error).__name__}: {error}")
        if (saved.read_bytes(), page.read_bytes()) != before or len(list(folder.iterdir())) != 2:
            counts.wrong("full disk", "the old files were touched, or others left behind")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    if ss.load(saved).llf != result.llf:
        counts.wrong("full disk", "the saved fit is not what it was")
    out.put((dict(counts), counts.words))


def save_forever(folder: Path) -> None:
    """Save two fits in turns under one name until the process is killed."""
    prepare()
    fits = [ss.fit(one, data, **options) for one, options, data in map(model, (0, 1))]
    fits[0].save(folder / "fit.json")
    (folder / "ready").touch()
    while True:
        for one in fits:
            one.save(folder / "fit.json")


def with_kills(seconds: float, counts: Counts, folder: Path) -> None:
    """Kill a process while it saves: what is there must be one of the two fits, and whole."""
    wanted = []
    for formula, options, data in map(model, (0, 1)):
        wanted.append(ss.fit(formula, data, **options).llf)
    rng, end = random.Random(7), time.monotonic() + seconds
    while time.monotonic() < end:
        process = child(save_forever, folder)
        while process.is_alive() and not (folder / "ready").exists():
            time.sleep(0.02)
        time.sleep(rng.uniform(0.05, 0.3))
        process.kill()
        process.join()
        counts["kills: killed"] += 1
        try:
            if ss.load(folder / "fit.json").llf not in wanted:
                counts.wrong("kills", "another fit than was saved")
        except BaseException as error:
            counts.wrong("kills", f"{type(error).__name__}: {error}")
        # A kill leaves at most the one file that was being written.
        if len(list(folder.iterdir())) > 3:
            counts.wrong("kills", "several files are left behind")
        for path in folder.iterdir():
            path.unlink()


def with_truncated_files(counts: Counts, folder: Path) -> None:
    """Load fits, and fit files, that end too early or of which a byte was changed."""
    rng = random.Random(8)
    formula, options, data = model(0)
    result = ss.fit(formula, data, **options)
    result.save(folder / "fit.json")
    data.to_parquet(folder / "rows.parquet")
    whole = {name: (folder / name).read_bytes() for name in ("fit.json", "rows.parquet")}
    for trial in range(60):
        name = ("fit.json", "rows.parquet")[trial % 2]
        content = bytearray(whole[name][: rng.randrange(len(whole[name]) - 2)])
        if name == "fit.json" and trial % 4 == 0:
            content = bytearray(whole[name])
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(7)
        (folder / name).write_bytes(content)
        counts["truncated files: tried"] += 1
        try:
            if name == "fit.json":
                same = np.array_equal(ss.load(folder / name).params, result.params)
            else:
                same = ss.fit(formula, folder / name, **options).llf == result.llf
            if not same:
                counts.wrong("truncated files", f"{name} gave other numbers")
        except SelfSelectError:
            counts["truncated files: refused"] += 1
        except BaseException as error:
            counts.wrong("truncated files", f"{name}: {type(error).__name__}: {error}")
    for path in folder.iterdir():
        path.unlink()


def starved(right: list[str], folder: Path, out: Any) -> None:
    """Give a model less and less memory: it is right, or says that there is none."""
    prepare()
    counts = Counts()
    digest_of(0, folder)
    for megabytes in (400, 200, 100, 60, 40, 20, 10, 5, 2, 1):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20, resource.RLIM_INFINITY))
        counts["little memory: tried"] += 1
        try:
            if digest_of(0, folder) != right[0]:
                counts.wrong("little memory", f"other bits with {megabytes} MB")
        except (MemoryError, SelfSelectError):
            counts["little memory: refused"] += 1
        except BaseException as error:
            counts.wrong("little memory", f"{megabytes} MB: {type(error).__name__}: {error}")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        if digest_of(0, folder) != right[0]:
            counts.wrong("little memory", "other bits when there was enough again")
    for path in folder.iterdir():
        path.unlink()
    out.put((dict(counts), counts.words))


# all of it


def prepare() -> None:
    """Draw without a display, and leave warnings to the tests."""
    import matplotlib as mpl

    mpl.use("Agg")
    warnings.simplefilter("ignore")


def answers(processes: list[Any], queue: Any, counts: Counts, phase: str) -> None:
    """Wait for processes and add up what they counted."""
    waiting = list(processes)
    while waiting:
        if not queue.empty():
            found, words = queue.get()
            counts.update(found)
            counts.words += words
            continue
        waiting = [one for one in waiting if one.is_alive()]
        time.sleep(0.05)
    while not queue.empty():
        found, words = queue.get()
        counts.update(found)
        counts.words += words
    for one in processes:
        one.join()
        if one.exitcode:
            counts.wrong(phase, f"a process ended with {one.exitcode}")


def soak(minutes: float) -> Counts:
    """Run all phases; return what was counted."""
    prepare()
    counts, total = Counts(), 60.0 * minutes
    seconds = {name: share * total for name, share in PHASES.items()}
    queue: Any = multiprocessing.get_context("spawn").Queue()
    with TemporaryDirectory() as home:
        folder = Path(home)
        right = [digest_of(number, folder) for number in range(N_MODELS)]
        say("one after the other", counts)
        in_threads(right, seconds["threads"], counts, folder)
        say("threads", counts)
        running = [
            child(one_process, right, which, seconds["processes"], folder, queue)
            for which in range(PROCESSES)
        ]
        answers(running, queue, counts, "processes")
        say("processes", counts)
        for phase, target, arguments in (
            ("interrupts", interrupted, (right, seconds["interrupts"])),
            ("full disk", on_a_full_disk, (seconds["full disk"],)),
            ("little memory", starved, (right,)),
        ):
            answers([child(target, *arguments, folder, queue)], queue, counts, phase)
            for path in folder.iterdir():
                path.unlink()
            say(phase, counts)
        with_kills(seconds["kills"], counts, folder)
        with_truncated_files(counts, folder)
        say("kills and truncated files", counts)
    return counts


def say(phase: str, counts: Counts) -> None:
    """Print how far it is."""
    wrong = sum(n for name, n in counts.items() if name.endswith("wrong"))
    print(f"{time.strftime('%H:%M:%S')} {phase}: done, {wrong} wrong so far", flush=True)


HEAD = """# Load and faults

`make soak` (`python tools/soak.py --minutes 10`) fits random models, predicts, saves, loads and
writes reports: one after the other, which gives the right answers, then in 8 threads of one
process, in 4 processes of at most 4 GB, and under faults: interrupts, kills, full disks, little
memory, truncated files. Answers are compared to the last bit; files must be whole or as they were;
memory (by more than 48 MB in the second half), open files, threads, filters of warnings and files
on the disk must not grow.

| | |
|---|--:|
"""


def page(counts: Counts, minutes: float) -> str:
    """Return the counts as Markdown."""
    wrong = sum(n for name, n in counts.items() if name.endswith("wrong"))
    rows = {"minutes": f"{minutes:g}", "models in all": str(N_MODELS)}
    rows |= {name: str(n) for name, n in counts.items() if not name.endswith("wrong")}
    rows["wrong answers, leaks, damaged files"] = str(wrong)
    return HEAD + "".join(f"| {name} | {n} |\n" for name, n in rows.items())


def main() -> int:
    """Soak, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--output", type=Path, help="a page to write")
    asked = parser.parse_args()
    try:
        counts = soak(asked.minutes)
    except BaseException:
        traceback.print_exc()
        return 1
    print(page(counts, asked.minutes))
    for words in counts.words:
        print(words)
    if asked.output is not None:
        asked.output.write_text(page(counts, asked.minutes), encoding="utf-8")
    return int(any(name.endswith("wrong") for name in counts))


if __name__ == "__main__":
    sys.exit(main())

"""Timing: competitors take turns in one run, after a warm-up; medians and ratios are printed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def take_turns(tasks: dict[str, Callable[[], Any]], *, rounds: int = 7) -> dict[str, float]:
    """Run every task once unmeasured, then in turns; return each one's median seconds."""
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            spent[name].append(time.perf_counter() - start)
    return {name: float(np.median(times)) for name, times in spent.items()}


def fresh_process(code: str, *arguments: str) -> Callable[[], None]:
    """Return a task that runs Python code in a new process, modules compiled as by pip."""

    def run() -> None:
        subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=True, stdout=subprocess.DEVNULL, env=with_bytecode(),
        )  # fmt: skip

    return run


def with_bytecode() -> dict[str, str]:
    """Return the environment in which compiled modules are kept, as a user has it.

    Otherwise an editable installation is compiled in every process, and its competitors, which pip
    compiled, are not.
    """
    return {key: one for key, one in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def peak_memory(code: str, *arguments: str) -> float:
    """Return bytes of peak resident memory that `code` prints as its last line, in a process."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return float(done.stdout.strip().splitlines()[-1])

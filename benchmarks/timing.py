"""Timing: competitors take turns in one run, after a warm-up; medians and ratios are printed."""

from __future__ import annotations

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
    """Return a task that runs Python code in a new process."""

    def run() -> None:
        subprocess.run(
            [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL
        )

    return run


def peak_memory(code: str, *arguments: str) -> float:
    """Return bytes of peak resident memory that `code` prints as its last line, in a process."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    return float(done.stdout.strip().splitlines()[-1])

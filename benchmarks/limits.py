"""What is measured beside what it may be: lines of a table, printed as they come."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

import selfselect as ss

Side = Literal["at most", "at least"]


@dataclass(frozen=True)
class Line:
    """One number of the table.

    Attributes
    ----------
    work : what was done.
    size : rows, or whatever else it was done with.
    value : what was measured; a sentence where it was not.
    side, limit : what it may be; None where it is only reported.
    unit : of value and limit; empty for ratios.
    note : the seconds behind a ratio.
    """

    work: str
    size: str
    value: float | str
    side: Side = "at most"
    limit: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def measured(self) -> str:
        return self.value if isinstance(self.value, str) else f"{self.value:.3g}{self.unit}"

    @property
    def bound(self) -> str:
        return "" if self.limit is None else f"{self.side} {self.limit:g}{self.unit}"

    @property
    def verdict(self) -> str:
        if isinstance(self.value, str):
            return ""
        if self.limit is None:
            return "reported"
        held = self.value <= self.limit if self.side == "at most" else self.value >= self.limit
        return "held" if held else "NOT HELD"


@dataclass
class Table:
    """Lines, printed when they are added."""

    lines: list[Line] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, *arguments: Any, **options: Any) -> None:
        line = Line(*arguments, **options)
        self.lines.append(line)
        print(
            f"{line.work:<64} {line.size:>12}  {line.measured:>10}  {line.bound:<16}"
            f" {line.verdict:<9} {line.note}",
            flush=True,
        )

    def markdown(self, command: str) -> str:
        """Return a page with the table, and the command that makes it."""
        spent = time.perf_counter() - self.started
        held = sum(line.verdict == "held" for line in self.lines)
        missed = sum(line.verdict == "NOT HELD" for line in self.lines)
        parts = [
            "# Speed",
            "",
            "What fits and pages cost beside other packages, and beside the limits that the "
            f"project holds itself to. Made by `{command}` in {spent:.0f} s; every ratio is of "
            "medians taken in turns in that run. R's seconds are R's own and leave out reading.",
            "",
            f"selfselect {ss.__version__}, {_machine()}. {held} limits held, {missed} not.",
            "",
            "| work | size | measured | limit | | seconds |",
            "|---|---|---|---|---|---|",
        ]
        for line in self.lines:
            verdict = "**not held**" if line.verdict == "NOT HELD" else line.verdict
            cells = (line.work, line.size, line.measured, line.bound, verdict, line.note)
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(parts) + "\n"


def _machine() -> str:
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip()
            for line in information.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} x {model}"


def installed_size(distribution: str = "selfselect") -> float:
    """Return megabytes on disk of a distribution and all that it depends on, extras left out."""
    waiting, seen, total = [distribution], set(), 0
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        folder = Path(ss.__file__).parent if name == "selfselect" else None
        listed = (found.locate_file(one) for one in found.files or ())
        files = folder.rglob("*") if folder else listed
        total += sum(Path(str(one)).stat().st_size for one in files if Path(str(one)).is_file())
        for requirement in found.requires or ():
            if "extra ==" not in requirement:
                waiting.append(_name_of(requirement))
    return total / 1e6


def _name_of(requirement: str) -> str:
    for place, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "-_."):
            return requirement[:place]
    return requirement


def seconds(task: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a task returns and how long it took."""
    started = time.perf_counter()
    found = task()
    return found, time.perf_counter() - started

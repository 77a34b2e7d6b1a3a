"""Our docstrings leave types to the signature: what follows a colon there is the description."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["setup"]

SECTIONS = ("Parameters", "Attributes")
ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.+)")


def describe(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Put the description of a parameter on a line of its own, where numpydoc looks for it.

    Methods of a fit are functions of it, and their pages do not name the fit.
    """
    del app, name, obj, options
    made: list[str] = []
    section = ""
    for place, line in enumerate(lines):
        if place + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[place + 1].strip()):
            section = line.strip()
        entry = ENTRY.fullmatch(line)
        if section in SECTIONS and what == "method" and line.startswith("fit : "):
            continue
        if section in SECTIONS and entry:
            made += [entry.group(1), f"    {entry.group(2)}"]
        else:
            made.append(line)
    lines[:] = made


def setup(app: Any) -> None:
    """Go before numpydoc, which listens to the same event at 500."""
    app.connect("autodoc-process-docstring", describe, priority=400)

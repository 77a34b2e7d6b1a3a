"""Solutions that were saved when their status was text, as they are held today."""

from __future__ import annotations

import ast
import re
from string import Formatter
from typing import Any

from selfselect.plain import from_plain, to_plain
from selfselect.solvers.status import Ending, Status

__all__ = ["with_ending"]


def with_ending(solution: Any) -> Any:
    """Return the plain form of a solution with an `Ending` in place of the text of its status."""
    if not isinstance(solution, dict) or solution.get("is") != "solution/1":
        return solution
    text = from_plain(solution.get("status"), str)
    converged = from_plain(solution.get("converged"), bool)
    others = {key: one for key, one in solution.items() if key not in ("status", "converged")}
    return {**others, "is": "solution/2", "ending": to_plain(read_ending(text, converged))}


def read_ending(text: str, converged: bool) -> Ending:
    """Return the ending whose words these are; a status of no sentence keeps them as they are."""
    for status in Status:
        found = None if status in OWN_WORDS else _pattern(status).match(text)
        if found is not None and status.converged == converged:
            rest = text[found.end() :].strip()
            details = {name: _value(part) for name, part in found.groupdict().items()}
            return Ending(status, details).noting(rest)
    return Ending(Status.SOLVED if converged else Status.STOPPED, {"sentence": text})


OWN_WORDS = (Status.SOLVED, Status.STOPPED)


def _pattern(status: Status) -> re.Pattern[str]:
    """Return what matches the sentence of a status, with a group for every detail."""
    pattern, known = "", set()
    for words, name, spec, _ in Formatter().parse(status.sentence):
        pattern += re.escape(words)
        if name is not None:
            pattern += f"(?:{spec})?" if name in known else f"(?P<{name}>.+?)"
            known.add(name)
    # A reason may be several sentences long; it goes on to the end.
    end = "$" if status is Status.AT_BOUNDARY else ""
    return re.compile(pattern + end, re.DOTALL)


def _value(text: str) -> Any:
    """Return a number where the text is one, and the label that a quoted text is."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, str | int | float) else text

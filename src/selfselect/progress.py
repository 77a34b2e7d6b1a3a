"""Progress bars that appear only for what takes longer than a few seconds."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

PATIENCE_S = 2.0


class _Silent:
    """A bar that shows nothing."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def set_postfix_str(self, text: str) -> None:
        """Do nothing."""


class _Patient:
    """A bar that shows nothing before its time.

    tqdm draws a text beside the bar at once, and does not wipe out what it drew too early.
    """

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.due = monotonic() + PATIENCE_S

    def __enter__(self) -> _Patient:
        self.bar.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self.bar.__exit__(*raised)

    def update(self, n: int = 1) -> None:
        """Count `n` more."""
        self.bar.update(n)

    def set_postfix_str(self, text: str) -> None:
        """Show a text beside the bar."""
        self.bar.set_postfix_str(text, refresh=monotonic() > self.due)


def is_watched(show: bool | None = None) -> bool:
    """Say whether a bar would be drawn: True, or where None, if standard error is a terminal."""
    # Standard error is None in a process that was started with it closed.
    if sys.stderr is None or show is False:
        return False
    return show is True or sys.stderr.isatty()


def progress_bar(
    show: bool | None, *, what: str, total: int | None = None, unit: str = "it"
) -> Any:
    """Return a bar on standard error.

    Parameters
    ----------
    show : True or False; None shows it where standard error is a terminal.
    what : a word before the bar.
    total : how many updates there will be, if known.
    unit : what is counted; its numbers are shown as 1.2M where they are rows or bytes.
    """
    if not is_watched(show):
        return _Silent()
    from tqdm.auto import tqdm

    many = unit in ("rows", "bytes")
    bar = tqdm(
        desc=what, total=total, delay=PATIENCE_S, leave=False, file=sys.stderr,
        unit=f" {unit}" if many else unit, unit_scale=many,
    )  # fmt: skip
    return _Patient(bar)

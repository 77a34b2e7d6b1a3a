"""Progress bars that appear only for what takes longer than a few seconds."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["progress_bar"]

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


def progress_bar(
    show: bool | None, *, what: str, total: int | None = None, unit: str = "it"
) -> Any:
    """Return a bar on standard error.

    Parameters
    ----------
    show : True or False; None shows it where standard error is a terminal.
    what : a word before the bar.
    total : how many updates there will be, if known.
    unit : what is counted; its numbers are shown as 1.2M where they are rows.
    """
    # Standard error is None in a process that was started with it closed.
    if sys.stderr is None or show is False or (show is None and not sys.stderr.isatty()):
        return _Silent()
    from tqdm.auto import tqdm

    counts_rows = unit == "rows"
    return tqdm(
        desc=what, total=total, delay=PATIENCE_S, leave=False, file=sys.stderr,
        unit=" rows" if counts_rows else unit, unit_scale=counts_rows,
    )  # fmt: skip

"""Terminals: how many columns they have, and pages that fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["on_terminal", "say"]


@contextmanager
def on_terminal(*, err: bool = False) -> Iterator[None]:
    """Have pages fit the terminal that standard output, or standard error, is."""
    from selfselect.report.text import narrowed

    with narrowed(_columns_of(sys.stderr if err else sys.stdout)):
        yield


def say(sentence: str) -> None:
    """Write a sentence to standard error, folded where that is a narrow terminal."""
    from selfselect.report.text import fold
    from selfselect.visible import visible

    with on_terminal(err=True):
        click.echo(fold(visible(sentence)), err=True)


def _columns_of(stream: Any) -> int | None:
    """Return the columns of a terminal, as COLUMNS or it says; None for all other streams."""
    if stream is None or not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None

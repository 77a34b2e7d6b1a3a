"""The option that says how CSV files are encoded."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

import click

__all__ = ["encoding_option"]


def _check_encoding(ctx: click.Context, option: click.Option, value: str | None) -> str | None:
    del ctx, option
    try:
        return value if value is None else codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(
            f"{value!r} is not known. Use utf-8, cp1252, latin-1, utf-16 or another one that "
            "Python knows."
        ) from error


def encoding_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that reads CSV files the option --encoding."""
    return click.option(
        "--encoding",
        metavar="NAME",
        callback=_check_encoding,
        help="How CSV files are encoded, such as cp1252 or latin-1; UTF-8 if left out.",
    )(command)

"""Options that every command that fits has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["covariance_option", "limits_of", "number_of"]

KINDS = (
    "observed", "robust", "clustered", "bootstrap", "HC0", "HC1", "opg", "nonrobust", "cluster",
)  # fmt: skip


def covariance_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says how standard errors are computed."""
    return click.option(
        "--covariance", default="observed", show_default=True,
        type=click.Choice(KINDS, case_sensitive=False), help="How standard errors are computed.",
    )(command)  # fmt: skip


def number_of(text: str) -> float | str:
    """Return a number where a text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def limits_of(pair: tuple[str, str] | None) -> Any:
    """Return a pair of limits as functions take it; '-' stands for none."""
    return pair and tuple(None if one == "-" else number_of(one) for one in pair)

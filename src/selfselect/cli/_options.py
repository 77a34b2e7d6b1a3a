"""Options that every command that fits has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["covariance_option"]

KINDS = (
    "observed", "robust", "clustered", "bootstrap", "HC0", "HC1", "opg", "nonrobust", "cluster",
)  # fmt: skip


def covariance_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says how standard errors are computed."""
    return click.option(
        "--covariance", default="observed", show_default=True,
        type=click.Choice(KINDS, case_sensitive=False), help="How standard errors are computed.",
    )(command)  # fmt: skip

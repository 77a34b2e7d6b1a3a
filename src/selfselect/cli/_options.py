"""Options that every command that fits has."""

from __future__ import annotations

import click

__all__ = ["covariance_option"]

covariance_option = click.option(
    "--covariance", default="observed", show_default=True,
    type=click.Choice(
        ["observed", "robust", "clustered", "bootstrap", "opg", "HC0", "HC1", "nonrobust",
         "cluster"],
        case_sensitive=False,
    ),
    help="How standard errors are computed.",
)  # fmt: skip

"""`selfselect bootstrap`: a model whose standard errors come from samples of its rows."""

from __future__ import annotations

from typing import Any

import click

from selfselect.cli._model import model_of, model_options, noise_of, noise_options
from selfselect.cli._show import Shown, printing_options

EPILOG = """\b
Examples:
  selfselect bootstrap villagers.csv "income ~ height + weight" --chosen job --replications 199
  selfselect bootstrap wages.csv "log_wage ~ age" --chosen sector --cluster firm --seed 1 --json
"""


@click.command("bootstrap", epilog=EPILOG)
@model_options
@noise_options
@click.option(
    "--replications", type=int, default=400, show_default=True, help="Samples that are fitted."
)
@printing_options
def command(replications: int, **options: Any) -> int:
    """Fit a model to DATA by FORMULA, with standard errors by a bootstrap of its rows.

    Rows are drawn with replacement, or clusters where --cluster is given, and each sample is
    fitted. Options are those of `selfselect fit`.
    """
    import selfselect as ss

    shown = Shown.take(options, *options["words"])
    noise = noise_of(options)
    plan = ss.inference.Bootstrap(replications)
    model = model_of(**options)
    return shown.show(lambda: ss.fit(**model, noise=noise, covariance=plan))

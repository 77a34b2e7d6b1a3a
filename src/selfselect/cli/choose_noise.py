"""`selfselect choose-noise`: the same model under several noises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._model import model_of, model_options
from selfselect.cli._options import covariance_option, json_option, out_option, pairs_of

EPILOG = """\b
Examples:
  selfselect choose-noise villagers.csv "income ~ height + weight" --chosen job
  selfselect choose-noise villagers.csv "income ~ height + weight" --chosen job \\
      --answer hunting:height --effect hunting=fishing
"""


@click.command("choose-noise", epilog=EPILOG)
@model_options
@covariance_option
@click.option(
    "--answer", "answers", multiple=True, metavar="EXPRESSION",
    help="Parameter, or expression of parameters, to report under every noise; repeatable.",
)  # fmt: skip
@click.option(
    "--effect", metavar="TO=VERSUS", help="Report the mean effect of TO instead of VERSUS as well."
)
@out_option
@json_option
def command(
    answers: Sequence[str], effect: str | None, out: str | None, as_json: bool, **options: Any
) -> int:
    """Fit a model to DATA by FORMULA under several noises, and say how much answers depend on it.

    Options are those of `selfselect fit`.
    """
    import selfselect as ss
    from selfselect.cli._tables import check_out, show_table

    check_out(out, *options["words"])
    pair = None if effect is None else next(iter(pairs_of([effect], "--effect").items()))
    found = ss.choose_noise(**model_of(**options), answers=list(answers), effect=pair)
    table = found.table.rename_axis("noise").reset_index()
    show_table(found, table, out, as_json=as_json)
    return 0

"""`selfselect selection`: an outcome observed only in selected rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._model import read_model, shared_options
from selfselect.cli._show import Shown

EPILOG = """\b
Examples:
  selfselect selection women.csv "lwage ~ educ + exper" "inlf ~ educ + exper + age + kidslt6"
  selfselect selection women.csv "lwage ~ educ" "~ educ + kidslt6" --method two-step

Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("selection", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... FORMULA SELECTION")
@click.option("--binary", is_flag=True, help="The outcome is true or false: probit with selection.")
@shared_options
def command(words: Sequence[str], **options: Any) -> int:
    """Fit a sample-selection model (Heckman, tobit-2) to DATA, CSV or Parquet files.

    FORMULA is that of the outcome. The left side of SELECTION is a column of true and false
    (1 and 0); without one, rows are selected where the outcome is recorded.
    """
    import selfselect as ss

    shown = Shown.take(options, *words)
    outcome, selection = read_model(words, options, by_column=False)
    return shown.show(lambda: ss.sample_selection(outcome, selection, **options))

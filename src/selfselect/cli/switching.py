"""`selfselect switching`: several outcomes, and a selection of its own between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._model import read_model, shared_options
from selfselect.cli._options import (
    equation_option,
    offset_columns,
    offset_option,
    pairs_of,
    shared_terms,
)
from selfselect.cli._show import Shown

EPILOG = """\b
Examples:
  selfselect switching workers.csv "lwage ~ educ + exper" "union ~ educ + manuf"
  selfselect switching workers.csv "union ~ educ + manuf" \\
      --equation 1="lwage ~ educ" --equation 0="lwage ~ educ + married"
  selfselect switching workers.csv "lwage ~ educ" "hours ~ educ + kids" \\
      --ordered few,part,full

Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("switching", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA] SELECTION")
@equation_option
@click.option("--towards", metavar="ALTERNATIVE", help="What a positive selection index selects.")
@click.option(
    "--ordered", metavar="A,B,C",
    help="Ordered alternatives, from the lowest index to the highest: any number of them.",
)  # fmt: skip
@click.option(
    "--shared", multiple=True, metavar="TERM[=ALTERNATIVE[:NAME],...]",
    help="A coefficient that alternatives have in common, as in `selfselect fit`; or slopes, for "
    "an endogenous treatment: all slopes and the noise.",
)  # fmt: skip
@offset_option
@shared_options
def command(
    words: Sequence[str],
    equations: Sequence[str],
    ordered: str | None,
    shared: Sequence[str],
    offsets: Sequence[str],
    **options: Any,
) -> int:
    """Fit a switching regression (tobit-5) to DATA, CSV or Parquet files.

    SELECTION is a formula whose left side is the column that says which outcome was observed.
    FORMULA is for all outcomes; give --equation instead for covariates of their own.
    """
    import selfselect as ss

    shown = Shown.take(options, *words)
    formula, selection = read_model(words, options, equations)
    order = None if ordered is None else [label.strip() for label in ordered.split(",")]
    return shown.show(
        lambda: ss.switching(
            formula or pairs_of(equations, "--equation"),
            selection,
            ordered=order,
            shared="slopes" if list(shared) == ["slopes"] else shared_terms(shared),
            offset=offset_columns(offsets),
            **options,
        )
    )

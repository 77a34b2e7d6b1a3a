"""`selfselect selection`: an outcome observed only in selected rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._selection import (
    rows_for,
    shared_options,
    show,
    split_options,
    way_of_clustering,
)

__all__ = ["command"]

EPILOG = """\b
Examples:
  selfselect selection women.csv "lwage ~ educ + exper" "inlf ~ educ + exper + age + kidslt6"
  selfselect selection women.csv "lwage ~ educ" "~ educ + kidslt6" --method two-step

\b
Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("selection", epilog=EPILOG)
@click.argument("data")
@click.argument("outcome")
@click.argument("selection")
@click.option("--binary", is_flag=True, help="The outcome is true or false: probit with selection.")
@shared_options
def command(
    data: str,
    outcome: str,
    selection: str,
    encoding: str | None,
    clusters: Sequence[str],
    **options: Any,
) -> int:
    """Fit a sample-selection model (Heckman, tobit-2) to DATA, a CSV or Parquet file.

    OUTCOME and SELECTION are formulas. The left side of SELECTION is a column of true and false
    (1 and 0); without one, rows are selected where the outcome is recorded.
    """
    import selfselect as ss

    told, shown = split_options(options)
    rows = rows_for(data, encoding, clusters, selection, outcome)
    result = ss.sample_selection(
        outcome, selection, rows, cluster=way_of_clustering(clusters), **told
    )
    return show(result, shown)

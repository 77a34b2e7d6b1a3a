"""`selfselect switching`: several outcomes, and a selection of its own between them."""

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
  selfselect switching workers.csv "union ~ educ + manuf" "lwage ~ educ + exper"
  selfselect switching workers.csv "union ~ educ + manuf" \\
      --equation 1="lwage ~ educ" --equation 0="lwage ~ educ + married"
  selfselect switching workers.csv "hours ~ educ + kids" "lwage ~ educ" \\
      --ordered none,part,full

\b
Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("switching", epilog=EPILOG)
@click.argument("data")
@click.argument("selection")
@click.argument("formula", required=False)
@click.option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula; repeat for each.",
)  # fmt: skip
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
@click.option(
    "--offset", "offsets", multiple=True, metavar="[ALTERNATIVE=]COLUMN",
    help="A column that is added to the mean of an outcome, or of all; repeatable.",
)  # fmt: skip
@shared_options
def command(
    data: str,
    selection: str,
    formula: str | None,
    equations: Sequence[str],
    ordered: str | None,
    shared: Sequence[str],
    offsets: Sequence[str],
    encoding: str | None,
    clusters: Sequence[str],
    **options: Any,
) -> int:
    """Fit a switching regression (tobit-5) to DATA, a CSV or Parquet file.

    SELECTION is a formula whose left side is the column that says which outcome was observed.
    FORMULA is for all outcomes; give --equation instead for covariates of their own.
    """
    import selfselect as ss
    from selfselect.cli.fit import offset_columns, pairs_of, shared_terms

    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for each alternative.")
    outcomes = formula or pairs_of(equations, "--equation")
    texts = [outcomes] if isinstance(outcomes, str) else list(outcomes.values())
    told, shown = split_options(options)
    rows = rows_for(data, encoding, clusters, selection, *texts)
    order = None if ordered is None else [label.strip() for label in ordered.split(",")]
    result = ss.switching(
        outcomes,
        selection,
        rows,
        cluster=way_of_clustering(clusters),
        ordered=order,
        shared="slopes" if list(shared) == ["slopes"] else shared_terms(shared),
        offset=offset_columns(offsets),
        **told,
    )
    return show(result, shown)

"""`selfselect effects`: what follows from a saved fit, for the rows of a file."""

from __future__ import annotations

from typing import Any

import click

from selfselect.cli._encoding import encoding_option
from selfselect.options import Scale

__all__ = ["command"]

METHODS = {
    "outcomes": "potential_outcomes",
    "chances": "choice_probabilities",
    "marginal": "marginal_effects",
    "treatment": "treatment_effects",
    "mte": "mte",
    "heterogeneity": "heterogeneity",
    "sorting": "sorting",
    "gains": "gains",
    "policy": "policy",
    "close": "counterfactual",
}
"""What can be asked, and the method of a fit that answers."""


@click.command("effects")
@click.argument("fit")
@click.argument("data")
@click.option(
    "--what", type=click.Choice(list(METHODS)), default="outcomes", show_default=True,
    help="Mean outcomes by group; chances; marginal effects on chances; effects of TO instead of "
    "VERSUS; marginal treatment effects of a switching regression; how those who choose TO "
    "differ; sorting; distribution of gains; who should be sent where; what closing does.",
)  # fmt: skip
@click.option("--to", help="Alternative, for treatment, heterogeneity and gains.")
@click.option("--versus", help="Alternative it is compared with.")
@click.option("--alternative", "closed", multiple=True, help="Alternative to close; repeatable.")
@click.option(
    "--scale", default="model", show_default=True, type=click.Choice(["model", "level"]),
    help="For outcomes and treatment: as the formula's left side has it; or, where that is log(y), "
    "y itself, and per cent.",
)  # fmt: skip
@encoding_option
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level.")
@click.option(
    "--out", metavar="FILE", help="CSV or Parquet file for the table; else it is printed."
)
def command(
    fit: str,
    data: str,
    what: str,
    to: str | None,
    versus: str | None,
    closed: tuple[str, ...],
    scale: Scale,
    encoding: str | None,
    level: float,
    out: str | None,
) -> int:
    """Compute an effect of the saved FIT over the rows of DATA."""
    import selfselect as ss
    from selfselect.cli._tables import check_out, labels_of, read_table, write_table

    check_out(out, fit, data)
    result = ss.load(fit)
    rows = read_table(data, encoding=encoding, labels=labels_of(result))
    if what in ("treatment", "heterogeneity", "gains") and (to is None or versus is None):
        raise click.UsageError(f"--what {what} needs two alternatives: --to A --versus B.")
    if scale != "model" and what not in ("outcomes", "treatment"):
        raise click.UsageError(f"--what {what} has no --scale.")
    if not hasattr(result, METHODS[what]):
        raise click.UsageError(
            f"--what {what} is not of a multinomial switching regression. It has outcomes and "
            "treatment."
        )
    scaled: dict[str, Any] = {} if scale == "model" else {"scale": scale}
    if scaled and not hasattr(result, "diagnose"):
        raise click.UsageError("A multinomial switching regression has no --scale level.")
    if what == "close" and not closed:
        raise click.UsageError("--what close needs at least one --alternative A.")
    if what == "close":
        changed = result.counterfactual(close=list(closed), base=rows, level=level)
        _show(changed, changed.outcomes.table, out, write_table)
        return 0
    ask: dict[str, Any] = {
        "outcomes": lambda: result.potential_outcomes(rows, level=level, **scaled),
        "chances": lambda: result.choice_probabilities(rows, level=level),
        "marginal": lambda: result.marginal_effects(data=rows, level=level),
        "treatment": lambda: result.treatment_effects(to, versus, rows, level=level, **scaled),
        "mte": lambda: result.mte(rows, level=level),
        "heterogeneity": lambda: result.heterogeneity(to, versus, rows, level=level),
        "sorting": lambda: result.sorting(rows, level=level),
        "gains": lambda: result.gains(to, versus, rows, level=level),
        "policy": lambda: result.policy(rows, level=level),
    }
    found = ask[what]()
    _show(found, found.rows if what == "policy" else found.table, out, write_table)
    return 0


def _show(found: Any, table: Any, out: str | None, write_table: Any) -> None:
    """Print the page, or write the table."""
    if out is None:
        click.echo(str(found))
    else:
        write_table(table, out, index=False)

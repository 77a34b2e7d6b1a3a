"""`selfselect explore`: a page with sliders, computed in the browser."""

from __future__ import annotations

import click

from selfselect.cli._encoding import encoding_option

__all__ = ["command"]


@click.command("explore")
@click.argument("fit")
@click.argument("data")
@click.option("--out", required=True, metavar="FILE", help="HTML file for the page.")
@click.option("--rows", type=int, help="How many rows of DATA the page may hold.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level.")
@encoding_option
def command(
    fit: str, data: str, out: str, rows: int | None, level: float, encoding: str | None
) -> int:
    """Write a page that explores the saved FIT over the rows of DATA."""
    import selfselect as ss
    from selfselect.cli._tables import labels_of, read_table, refuse_inputs

    refuse_inputs(out, fit, data)
    result = ss.load(fit)
    table = read_table(data, encoding=encoding, labels=labels_of(result))
    result.explore(out, table, level=level, rows=rows)
    return 0

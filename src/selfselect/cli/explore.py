"""`selfselect explore`: a page with sliders, computed in the browser."""

from __future__ import annotations

import sys

import click

from selfselect.cli._options import encoding_option


@click.command("explore")
@click.argument("fit")
@click.argument("data")
@click.option(
    "--out", default="-", metavar="FILE", help="HTML file for the page; else standard output."
)
@click.option("--rows", type=int, help="How many rows of DATA the page may hold.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level.")
@encoding_option
def command(
    fit: str, data: str, out: str, rows: int | None, level: float, encoding: str | None
) -> int:
    """Write a page that explores the saved FIT over the rows of DATA."""
    from selfselect.cli._show import in_order, read_saved
    from selfselect.cli._streams import STANDARD, write_file
    from selfselect.cli._tables import refuse_inputs

    fit, data = in_order(fit, data)
    refuse_inputs(out, fit, data)
    if out == STANDARD and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError(
            "The page is not for a terminal. Give --out page.html, or send standard output to a "
            "file."
        )
    result, table = read_saved(fit, data, encoding=encoding)
    write_file(
        out, lambda path: result.explore(path, table, level=level, rows=rows), ending=".html"
    )
    return 0

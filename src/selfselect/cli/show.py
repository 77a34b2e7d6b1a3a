"""`selfselect show`: print a saved fit."""

from __future__ import annotations

import click

from selfselect.cli._options import format_option, json_option, level_option


@click.command("show")
@click.argument("fit")
@click.argument("data", required=False)
@format_option
@json_option
@level_option
@click.option(
    "--combination", "combinations", multiple=True, metavar="EXPRESSION",
    help="Function of parameters with its standard error, such as 'a:x - b:x'; repeatable.",
)  # fmt: skip
@click.option("--stars", is_flag=True, help="Mark p-values below 0.05, 0.01 and 0.001 by stars.")
@click.option("--explain", is_flag=True, help="Print the results for DATA in a few sentences.")
@click.option("--compare", is_flag=True, help="Put least squares beside the corrected estimates.")
@click.option(
    "--diagnose", is_flag=True, help="Print what the data determine well, and what they do not."
)
@click.option(
    "--report", metavar="FILE", help=("Write the parts that need no rows into one HTML file.")
)
def command(
    fit: str,
    data: str | None,
    form: str,
    as_json: bool,
    level: float,
    combinations: tuple[str, ...],
    stars: bool,
    explain: bool,
    compare: bool,
    diagnose: bool,
    report: str | None,
) -> int:
    """Print the saved FIT. Effects in words need rows to average over: DATA."""
    from selfselect.cli._streams import STANDARD, on_terminal, read_fit, write_file
    from selfselect.cli._tables import check_target, json_lines, labels_of, read_table, render
    from selfselect.cli.main import NOT_CONVERGED

    if data is not None and not explain:
        raise click.UsageError("DATA is for --explain. Leave it out, or give --explain.")
    check_target(report, fit, *([] if data is None else [data]))
    result = read_fit(fit)
    if (compare or diagnose) and not hasattr(result, "diagnose"):
        raise click.UsageError(
            "A saved multinomial switching regression has no --compare or --diagnose."
        )
    rows = None if data is None else read_table(data, labels=labels_of(result))
    taken = report == STANDARD
    with on_terminal(err=taken):
        click.echo(
            json_lines(result.tidy(level)) if as_json else render(result, form, level, stars=stars),
            err=taken,
        )
    pages = [
        *([result.explain(rows, level=level)] if explain else []),
        *([result.nlcom(*combinations, level=level)] if combinations else []),
        *([result.compare()] if compare else []),
        *([result.diagnose()] if diagnose else []),
    ]
    # Beside a table for programs, pages go to standard error.
    beside = taken or as_json or form in ("csv", "json")
    with on_terminal(err=beside):
        for page in pages:
            click.echo(f"\n{page}", err=beside)
    if report:
        write_file(report, lambda path: result.report(path, level=level), ending=".html")
    return 0 if result.converged else NOT_CONVERGED

"""`selfselect show`: print a saved fit."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("show")
@click.argument("fit")
@click.argument("data", required=False)
@click.option(
    "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "json", "latex", "markdown", "html", "csv"]),
    help="What to print.",
)  # fmt: skip
@click.option("--level", default=0.95, show_default=True, help="Confidence level of intervals.")
@click.option(
    "--combination", "combinations", multiple=True, metavar="EXPRESSION",
    help="Function of parameters with its standard error, such as 'a:x - b:x'; repeatable.",
)  # fmt: skip
@click.option("--stars", is_flag=True, help="Mark p-values below 0.05, 0.01 and 0.001 by stars.")
@click.option("--explain", is_flag=True, help="Say in a few sentences what the fit says of DATA.")
@click.option("--compare", is_flag=True, help="Put least squares beside the corrected estimates.")
@click.option(
    "--diagnose", is_flag=True, help="Say what the data determines, and what it does not."
)
@click.option("--report", metavar="FILE", help="Write what needs no rows into one HTML file.")
def command(
    fit: str,
    data: str | None,
    form: str,
    level: float,
    combinations: tuple[str, ...],
    stars: bool,
    explain: bool,
    compare: bool,
    diagnose: bool,
    report: str | None,
) -> int:
    """Print the saved FIT. Effects in words need rows to average over: DATA."""
    import selfselect as ss
    from selfselect.cli._formats import render
    from selfselect.cli._tables import labels_of, read_table, refuse_inputs
    from selfselect.cli.main import NOT_CONVERGED

    if data is not None and not explain:
        raise click.UsageError("DATA is for --explain. Leave it out, or give --explain.")
    refuse_inputs(report, fit, *([] if data is None else [data]))
    result = ss.load(fit)
    click.echo(render(result, form, level, stars=stars))
    if explain:
        rows = None if data is None else read_table(data, labels=labels_of(result))
        click.echo("\n" + str(result.explain(rows, level=level)))
    if combinations:
        click.echo("\n" + str(result.nlcom(*combinations, level=level)))
    if compare:
        click.echo("\n" + str(result.compare()))
    if diagnose:
        click.echo("\n" + str(result.diagnose()))
    if report:
        result.report(report, level=level)
    return 0 if result.converged else NOT_CONVERGED

"""`selfselect show`: print a saved fit."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("show")
@click.argument("fit")
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
@click.option("--compare", is_flag=True, help="Put least squares beside the corrected estimates.")
@click.option(
    "--diagnose", is_flag=True, help="Say what the data determines, and what it does not."
)
@click.option("--report", metavar="FILE", help="Write what needs no rows into one HTML file.")
def command(
    fit: str,
    form: str,
    level: float,
    combinations: tuple[str, ...],
    stars: bool,
    compare: bool,
    diagnose: bool,
    report: str | None,
) -> int:
    """Print the saved FIT."""
    import selfselect as ss
    from selfselect.cli._formats import render
    from selfselect.cli._tables import refuse_inputs
    from selfselect.cli.main import NOT_CONVERGED
    from selfselect.report.summary import compare_page

    refuse_inputs(report, fit)
    result = ss.load(fit)
    if (compare or diagnose) and not hasattr(result, "diagnose"):
        raise click.UsageError(
            "A saved multinomial switching regression has neither --compare nor --diagnose."
        )
    click.echo(render(result, form, level, stars=stars))
    if combinations:
        click.echo("\n" + str(result.nlcom(*combinations, level=level)))
    if compare:
        click.echo("\n" + str(compare_page(result)))
    if diagnose:
        click.echo("\n" + str(result.diagnose()))
    if report:
        result.report(report, level=level)
    return 0 if result.converged else NOT_CONVERGED

"""`selfselect multinomial`: outcomes between which a multinomial logit chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._model import read_model
from selfselect.cli._options import (
    cluster_option,
    encoding_option,
    equation_option,
    format_option,
    json_option,
    level_option,
    pairs_of,
    seed_option,
    weights_options,
)

EPILOG = """\b
Examples:
  selfselect multinomial workers.csv "wage ~ age" "sector ~ age + distance"
  selfselect multinomial workers.csv "wage ~ age" "sector ~ age + distance" \\
      --correction dmf2 --covariance bootstrap --effect private=public
"""


@click.command("multinomial", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA] CHOICE")
@equation_option
@click.option(
    "--correction", default="dmf1", show_default=True,
    type=click.Choice(["dmf0", "dmf1", "dmf2", "lee", "dahl"]),
    help="How the noise of outcomes depends on the choice.",
)  # fmt: skip
@click.option("--degree", type=int, help="Of Dahl's polynomial.")
@click.option("--base", metavar="ALTERNATIVE", help="Whose coefficients in the choice are zero.")
@click.option(
    "--available", "menus", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column that says where an alternative is on the menu; repeatable.",
)  # fmt: skip
@weights_options
@click.option(
    "--covariance", default="robust", show_default=True,
    type=click.Choice(["robust", "HC0", "HC1", "clustered", "bootstrap"], case_sensitive=False),
    help="How standard errors are computed, over both steps.",
)  # fmt: skip
@cluster_option
@click.option(
    "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
    help="What to do with rows that lack a covariate.",
)  # fmt: skip
@click.option(
    "--missing-outcome", type=click.Choice(["raise", "drop"]), default="raise",
    show_default=True, help="What to do with rows that lack the outcome.",
)  # fmt: skip
@encoding_option
@seed_option
@level_option
@click.option(
    "--effect", "effects", multiple=True, metavar="TO=VERSUS",
    help="Treatment effects of one alternative instead of another; repeatable.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Print the results in a few sentences.")
@click.option(
    "--save", metavar="FILE",
    help="Save the fit as JSON, for predict, effects and show; '-' for standard output.",
)  # fmt: skip
@click.option(
    "--report", metavar="FILE", help="Write everything into one HTML file; '-' for standard output."
)
@format_option
@json_option
def command(
    words: Sequence[str],
    equations: Sequence[str],
    menus: Sequence[str],
    level: float,
    effects: Sequence[str],
    explain: bool,
    form: str,
    save: str | None,
    report: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Fit outcomes of several alternatives to DATA, a CSV or Parquet file.

    CHOICE is a formula whose left side is the column that says which alternative was chosen.
    FORMULA is for all outcomes; give --equation instead for covariates of their own.
    """
    import selfselect as ss
    from selfselect.cli._streams import STANDARD, on_terminal, refuse_twice, write_file
    from selfselect.cli._tables import check_target, json_lines, render

    refuse_twice(save, report, what="output")
    for path in (save, report):
        check_target(path, *words)

    # One by one: an alternative may be compared with several others.
    asked = [pair for one in effects for pair in pairs_of([one], "--effect").items()]
    options["engine"] = None
    formula, choice = read_model(words, options, equations)
    del options["engine"]
    result = ss.multinomial_switching(
        formula or pairs_of(equations, "--equation"), choice,
        available=pairs_of(menus, "--available") or None, **options,
    )  # fmt: skip
    taken = STANDARD in (save, report)
    with on_terminal(err=taken):
        shown = json_lines(result.tidy(level)) if as_json else render(result, form, level)
        click.echo(shown, err=taken)
    # A page beside a table for programs goes to standard error.
    beside = taken or as_json or form in ("csv", "json")
    with on_terminal(err=beside):
        for to, versus in asked:
            click.echo(f"\n{result.treatment_effects(to, versus, level=level)}", err=beside)
        if explain:
            click.echo(f"\n{result.explain(level=level)}", err=beside)
    if save:
        write_file(save, result.save, ending=".json")
    if report:
        command = click.get_current_context().obj
        write_file(
            report, lambda path: result.report(path, level=level, command=command), ending=".html"
        )
    return 0

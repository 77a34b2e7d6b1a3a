"""`selfselect multinomial`: outcomes between which a multinomial logit chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._encoding import encoding_option
from selfselect.cli._selection import rows_for, way_of_clustering

__all__ = ["command"]

EPILOG = """\b
Examples:
  selfselect multinomial workers.csv "sector ~ age + distance" "wage ~ age"
  selfselect multinomial workers.csv "sector ~ age + distance" "wage ~ age" \\
      --correction dmf2 --covariance bootstrap --effect private=public
"""


@click.command("multinomial", epilog=EPILOG)
@click.argument("data")
@click.argument("choice")
@click.argument("formula", required=False)
@click.option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula; repeat for all.",
)  # fmt: skip
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
@click.option("--weights", metavar="COLUMN", help="Row weights.")
@click.option(
    "--weights-kind", type=click.Choice(["frequency", "probability"]),
    help="Weights are numbers of identical rows, or correct for unequal sampling.",
)  # fmt: skip
@click.option(
    "--covariance", default="robust", show_default=True,
    type=click.Choice(["robust", "HC0", "HC1", "clustered", "bootstrap"], case_sensitive=False),
    help="How standard errors are computed, over both steps.",
)  # fmt: skip
@click.option(
    "--cluster", "clusters", multiple=True, metavar="COLUMN",
    help="Clusters of rows; implies clustered. Repeat to cluster in several ways.",
)  # fmt: skip
@click.option(
    "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
    help="What to do with rows that lack a covariate.",
)  # fmt: skip
@click.option(
    "--missing-outcome", type=click.Choice(["raise", "drop"]), default="raise",
    show_default=True, help="What to do with rows that lack the outcome.",
)  # fmt: skip
@encoding_option
@click.option("--seed", type=int, help="Seed of bootstrap samples.")
@click.option("--level", default=0.95, show_default=True, help="Level of intervals.")
@click.option(
    "--effect", "effects", multiple=True, metavar="TO=VERSUS",
    help="Treatment effects of one alternative instead of another; repeatable.",
)  # fmt: skip
@click.option("--save", metavar="FILE", help="Save the fit as JSON, for predict, effects and show.")
@click.option("--report", metavar="FILE", help="Write everything into one HTML file.")
@click.option(
    "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "json", "latex", "markdown", "html", "csv"]), help="What to print.",
)  # fmt: skip
def command(
    data: str,
    choice: str,
    formula: str | None,
    equations: Sequence[str],
    menus: Sequence[str],
    clusters: Sequence[str],
    encoding: str | None,
    level: float,
    effects: Sequence[str],
    form: str,
    save: str | None,
    report: str | None,
    **options: Any,
) -> int:
    """Fit outcomes of several alternatives to DATA, a CSV or Parquet file.

    CHOICE is a formula whose left side is the column that says which alternative was chosen.
    FORMULA is for all outcomes; give --equation instead for covariates of their own.
    """
    import selfselect as ss
    from selfselect.cli._formats import render
    from selfselect.cli._tables import refuse_inputs
    from selfselect.cli.fit import pairs_of

    for path in (save, report):
        refuse_inputs(path, data)
    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for every alternative.")
    outcomes = formula or pairs_of(equations, "--equation")
    # One by one: an alternative may be compared with several others.
    asked = [pair for one in effects for pair in pairs_of([one], "--effect").items()]
    texts = [outcomes] if isinstance(outcomes, str) else list(outcomes.values())
    rows = rows_for(data, encoding, clusters, choice, *texts)
    result = ss.multinomial_switching(
        outcomes, choice, rows, cluster=way_of_clustering(clusters),
        available=pairs_of(menus, "--available") or None, **options,
    )  # fmt: skip
    click.echo(render(result, form, level))
    for to, versus in asked:
        click.echo("\n" + str(result.treatment_effects(to, versus, level=level)))
    if save:
        result.save(save)
    if report:
        result.report(report, level=level, command=click.get_current_context().obj)
    return 0

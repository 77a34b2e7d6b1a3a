"""`selfselect fit`: a model from a file and a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

__all__ = ["command"]

EPILOG = """\b
Examples:
  selfselect fit villagers.csv "income ~ height + weight" --chosen job
  selfselect fit villagers.csv "income ~ height" --chosen job --covariance robust --format csv
  selfselect fit wages.parquet --chosen occupation \\
      --equation white="log_wage ~ schooling + age" --equation blue="log_wage ~ age"
  selfselect fit couples.csv "income ~ age" --chosen worker --mix wife=husband:0.4
  selfselect fit prices.csv "price ~ size + age" --alternatives 3
  selfselect fit market.csv --rule min --equation demand="q ~ rate + stock" \\
      --equation supply="q ~ rate + deposits"

\b
Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("fit", epilog=EPILOG)
@click.argument("data")
@click.argument("formula", required=False)
@click.option("--chosen", metavar="COLUMN", help="Column that says which alternative was seen.")
@click.option(
    "--alternatives", type=int, metavar="K",
    help="How many alternatives there are, where no column says which was seen.",
)  # fmt: skip
@click.option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula; repeat for each.",
)  # fmt: skip
@click.option(
    "--rule", type=click.Choice(["max", "min"]), default="max", show_default=True,
    help="Which outcome is seen.",
)  # fmt: skip
@click.option(
    "--mix", "mixes", multiple=True, metavar="ALTERNATIVE=OTHER:WEIGHT",
    help="Add a share of another's outcome before the largest is seen; repeatable.",
)  # fmt: skip
@click.option(
    "--cost", "costs", multiple=True, metavar="ALTERNATIVE=COLUMN|NUMBER",
    help="Known cost of an alternative; repeatable.",
)  # fmt: skip
@click.option(
    "--available", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: was the alternative open to the row? Repeatable.",
)  # fmt: skip
@click.option(
    "--scale",
    help="Noise scale: 'each' (one per alternative; the default where --chosen is given), "
    "'common' (the default where it is not), or a number.",
)  # fmt: skip
@click.option("--weights", metavar="COLUMN", help="Row weights.")
@click.option(
    "--covariance", default="observed", show_default=True,
    type=click.Choice(["observed", "robust", "clustered", "bootstrap"]),
    help="How standard errors are computed.",
)  # fmt: skip
@click.option("--cluster", metavar="COLUMN", help="Clusters of rows; implies clustered.")
@click.option(
    "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
    help="What to do with rows that lack a covariate.",
)  # fmt: skip
@click.option(
    "--missing-outcome", type=click.Choice(["raise", "drop"]), default="raise", show_default=True,
    help="What to do with rows that lack the outcome.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of everything random.")
@click.option("--level", default=0.95, show_default=True, help="Confidence level of intervals.")
@click.option("--compare", is_flag=True, help="Put least squares beside the corrected estimates.")
@click.option("--save", metavar="FILE", help="Save the fit as JSON, for predict and show.")
@click.option(
    "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "json", "latex", "markdown", "html", "csv"]),
    help="What to print.",
)  # fmt: skip
def command(
    data: str,
    formula: str | None,
    chosen: str | None,
    alternatives: int | None,
    equations: Sequence[str],
    rule: str,
    mixes: Sequence[str],
    costs: Sequence[str],
    available: Sequence[str],
    scale: str | None,
    weights: str | None,
    covariance: str,
    cluster: str | None,
    missing: str,
    missing_outcome: str,
    seed: int | None,
    level: float,
    compare: bool,
    save: str | None,
    form: str,
) -> int:
    """Fit a model to DATA (a CSV or Parquet file) by FORMULA.

    FORMULA is for all alternatives, as in "income ~ height + weight"; give --equation instead
    for covariates of their own.
    """
    import selfselect as ss
    from selfselect.cli._formats import render
    from selfselect.cli._tables import read_table
    from selfselect.cli.main import NOT_CONVERGED
    from selfselect.report.summary import compare_page

    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for every alternative.")
    cost = {label: _number(value) for label, value in _pairs(costs, "--cost").items()}
    rules = {"max": ss.rules.Maximum, "min": ss.rules.Minimum}
    result = ss.fit(
        formula or _pairs(equations, "--equation"),
        read_table(data),
        chosen=chosen,
        alternatives=alternatives,
        available=_pairs(available, "--available") or None,
        rule=_mixed(mixes, rule, cost) if mixes else rules[rule](cost=cost or None),
        noise=None if scale is None else ss.noises.Independent(scale=_number(scale)),
        weights=weights,
        covariance=covariance,
        cluster=cluster,
        missing=missing,
        missing_outcome=missing_outcome,
        seed=seed,
    )
    click.echo(render(result, form, level))
    if compare:
        click.echo("\n" + str(compare_page(result)))
    if save:
        result.save(save)
    return 0 if result.converged else NOT_CONVERGED


def _pairs(entries: Sequence[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in entries:
        label, mark, value = entry.partition("=")
        if not mark or not label or not value:
            raise click.UsageError(f"{option} takes ALTERNATIVE=..., not {entry!r}.")
        if label in pairs:
            raise click.UsageError(f"{option} names {label!r} twice.")
        pairs[label] = value
    return pairs


def _mixed(mixes: Sequence[str], rule: str, cost: dict[str, float | str]) -> Any:
    """Return the rule that adds shares of other outcomes to each alternative's own."""
    import selfselect as ss

    if rule != "max":
        raise click.UsageError("--mix is for --rule max: the largest mixture is seen.")
    shares: dict[str, dict[str, float]] = {}
    for entry in mixes:
        label, mark, rest = entry.partition("=")
        other, colon, weight = rest.rpartition(":")
        if not (mark and colon and label and other) or isinstance(_number(weight), str):
            raise click.UsageError(f"--mix takes ALTERNATIVE=OTHER:WEIGHT, not {entry!r}.")
        shares.setdefault(label, {})[other] = float(weight)
    return ss.rules.LinearArgmax(shares, cost=cost or None)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text

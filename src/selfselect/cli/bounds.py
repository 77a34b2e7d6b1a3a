"""`selfselect bounds`: what the rule alone says, without a model of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._encoding import encoding_option
from selfselect.cli._engines import ENGINE_HELP, engine_named, rows_of, split_words
from selfselect.cli._options import limits_of, number_of
from selfselect.cli.fit import pairs_of

__all__ = ["command"]

EPILOG = """\b
Examples:
  selfselect bounds villagers.csv "income ~ 1" --chosen job
  selfselect bounds villagers.csv "income ~ 1" --chosen job --support 0 - --by region
  selfselect bounds wages.csv --chosen sector --instrument plants \\
      --equation factory="log_wage ~ age + plants" --equation farm="log_wage ~ age"
"""


@click.command("bounds", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA]")
@click.option("--chosen", metavar="COLUMN", help="Column of the chosen alternative.")
@click.option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula, to say what an instrument is excluded from; repeat.",
)  # fmt: skip
@click.option(
    "--rule", type=click.Choice(["max", "min"]), default="max", show_default=True,
    help="Which outcome is observed.",
)  # fmt: skip
@click.option("--by", multiple=True, metavar="COLUMN", help="Bounds by cells; repeatable.")
@click.option("--instrument", metavar="COLUMN", help="Excluded column to intersect bounds over.")
@click.option("--along", metavar="COLUMN", help="Bounds along a numeric column, by logits.")
@click.option("--quantile", "quantiles", multiple=True, type=float, help="Repeatable.")
@click.option(
    "--point", "points", multiple=True, type=float, help="Value to bound the share below."
)
@click.option(
    "--support", nargs=2, metavar="LOW HIGH",
    help="Lowest and highest outcome that is possible: numbers, or '-' for no limit.",
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
    "--possible", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: may it be the chosen one, where --chosen is missing? Repeatable.",
)  # fmt: skip
@click.option("--weights", metavar="COLUMN", help="Row weights.")
@click.option(
    "--weights-kind", type=click.Choice(["frequency", "probability"]),
    help="Weights are numbers of identical rows, or correct for unequal sampling.",
)  # fmt: skip
@click.option("--cluster", "clusters", multiple=True, metavar="COLUMN", help="Clusters of rows.")
@click.option(
    "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
    help="What to do with rows that lack a column of --by or --instrument.",
)  # fmt: skip
@click.option(
    "--missing-outcome", type=click.Choice(["raise", "drop", "silent"]), default="raise",
    show_default=True, help="What to do with rows that lack the outcome.",
)  # fmt: skip
@click.option(
    "--outcome-between", nargs=2, metavar="LOW HIGH",
    help="Lowest and highest outcome of rows without one: columns, numbers, or '-' for no limit.",
)  # fmt: skip
@click.option("--engine", metavar="NAME", help=ENGINE_HELP)
@encoding_option
@click.option("--seed", type=int, help="Seed of everything random.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level.")
@click.option(
    "--table", type=click.Choice(["means", "quantiles", "distribution"]), default="quantiles",
    show_default=True, help="Which table --out writes.",
)  # fmt: skip
@click.option("--out", metavar="FILE", help="CSV or Parquet file for a table; else it is printed.")
def command(
    words: Sequence[str],
    chosen: str | None,
    equations: Sequence[str],
    rule: str,
    by: Sequence[str],
    instrument: str | None,
    along: str | None,
    quantiles: Sequence[float],
    points: Sequence[float],
    support: tuple[str, str] | None,
    costs: Sequence[str],
    available: Sequence[str],
    possible: Sequence[str],
    weights: str | None,
    weights_kind: str | None,
    clusters: Sequence[str],
    missing: str,
    missing_outcome: str,
    outcome_between: tuple[str, str] | None,
    engine: str | None,
    encoding: str | None,
    seed: int | None,
    level: float,
    table: str,
    out: str | None,
) -> int:
    """Bound potential outcomes of DATA by the rule alone, with no assumption on the noise.

    FORMULA, first or last, has the outcome on its left side; its right side may be 1.
    """
    import selfselect as ss
    from selfselect.cli._tables import check_out, write_table
    from selfselect.posing import label_columns

    files, formula = split_words(words)
    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for every alternative.")
    check_out(out, *files)
    cluster = clusters[0] if len(clusters) == 1 else list(clusters) or None
    formulas = formula or pairs_of(equations, "--equation")
    labels = label_columns(formulas, chosen=chosen, cluster=cluster)
    rows = rows_of(files, engine, encoding=encoding, labels=labels)
    given: dict[str, Any] = {"quantiles": list(quantiles)} if quantiles else {}
    found = ss.bounds(
        formulas,
        rows,
        chosen=chosen,
        rule=rule,
        by=list(by) or None,
        instrument=instrument,
        along=along,
        points=list(points) or None,
        support=limits_of(support),
        level=level,
        available=pairs_of(available, "--available") or None,
        possible=pairs_of(possible, "--possible") or None,
        cost={label: number_of(one) for label, one in pairs_of(costs, "--cost").items()} or None,
        weights=weights,
        weights_kind=weights_kind,
        cluster=cluster,
        missing=missing,
        missing_outcome=missing_outcome,
        outcome_between=limits_of(outcome_between),
        engine=engine_named(engine, encoding if isinstance(rows, list) else None),
        seed=seed,
        **given,
    )
    if out is None:
        click.echo(str(found))
    else:
        write_table(getattr(found, table), out, index=False)
    return 0

"""`selfselect bounds`: what the rule alone says, without a model of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._options import (
    available_option,
    chosen_option,
    cluster_option,
    clusters_of,
    engine_named,
    equation_option,
    formulas_of,
    json_option,
    level_option,
    limits_of,
    missing_options,
    number_of,
    out_option,
    outcome_between_option,
    pairs_of,
    possible_option,
    rows_of,
    rows_options,
    rule_option,
    split_words,
    weights_options,
)
from selfselect.cli._streams import is_there

EPILOG = """\b
Examples:
  selfselect bounds villagers.csv "income ~ 1" --chosen job
  selfselect bounds villagers.csv "income ~ 1" --chosen job --support 0 - --by region
  selfselect bounds wages.csv --chosen sector --instrument plants \\
      --equation factory="log_wage ~ age + plants" --equation farm="log_wage ~ age"
"""


@click.command("bounds", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA]")
@chosen_option
@equation_option
@rule_option
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
@available_option
@possible_option
@weights_options
@cluster_option
@missing_options
@outcome_between_option
@rows_options
@level_option
@click.option(
    "--table", type=click.Choice(["means", "quantiles", "distribution"]), default="quantiles",
    show_default=True, help="Which table --out and --json write.",
)  # fmt: skip
@out_option
@json_option
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
    as_json: bool,
) -> int:
    """Bound potential outcomes of DATA by the rule alone, with no assumption on the noise.

    FORMULA is the outcome, alone or as the left side of a formula.
    """
    import selfselect as ss
    from selfselect.cli._tables import check_out, show_table
    from selfselect.posing import label_columns

    files, formula = split_words(words)
    if formula is None and not equations and len(files) > 1 and not is_there(files[-1]):
        # The outcome alone is a formula, too: the rule needs no covariates.
        formula = files.pop()
    check_out(out, *files)
    cluster, formulas = clusters_of(clusters), formulas_of(formula, equations)
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
    show_table(found, getattr(found, table), out, as_json=as_json)
    return 0

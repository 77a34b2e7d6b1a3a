"""What both models with a selection equation share: options, rows, and the order of formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._engines import engine_named, rows_of, tell_formulas
from selfselect.cli._options import (
    cluster_option,
    clusters_of,
    covariance_option,
    limits_of,
    missing_options,
    pairs_of,
    rows_options,
    together,
    weights_options,
)
from selfselect.cli._show import printing_options
from selfselect.cli._terminal import say

__all__ = ["read_model", "shared_options"]

shared_options = together(
    click.option(
        "--method", type=click.Choice(["ml", "two-step"]), default="ml", show_default=True,
        help="Maximum likelihood, or Heckman's two steps.",
    ),
    click.option(
        "--start", type=click.Choice(["search", "two-step"]), default="search", show_default=True,
        help="Look for the best of several optima, or climb from the two-step estimate alone.",
    ),
    weights_options,
    covariance_option,
    cluster_option,
    missing_options,
    click.option(
        "--outcome-between", nargs=2, metavar="LOW HIGH",
        help="Lowest and highest outcome of selected rows without one: columns, numbers, or '-' "
        "for no limit.",
    ),
    click.option(
        "--endogenous", multiple=True, metavar="COVARIATE=INSTRUMENTS",
        help="Covariate that is correlated with the noise, and the right side that holds its "
        "instruments, such as 'educ=~ distance'; repeatable.",
    ),
    rows_options,
    printing_options,
)  # fmt: skip


def read_model(
    words: Sequence[str],
    options: dict[str, Any],
    equations: Sequence[str] = (),
    *,
    by_column: bool = True,
) -> tuple[Any, str]:
    """Return the outcome's formula, or None, and the selection's; read rows into `options`.

    `words` are files, then the formula of outcomes where there are no `equations`, then that of
    the selection. `by_column` says that the selection's left side is a column of alternatives: a
    selection that comes before the formula is then told by its fewer values, with a notice.
    """
    from selfselect.posing import label_columns

    files, formulas = tell_formulas(words)
    wanted = 1 if equations else 2
    if len(formulas) != wanted:
        given = ", ".join(map(repr, formulas)) or "none"
        raise click.UsageError(
            "Give either a FORMULA or --equation for every alternative, then the formula of the "
            f"selection. Formulas given after DATA: {given}."
        )
    if "endogenous" in options:
        options["endogenous"] = pairs_of(options["endogenous"], "--endogenous") or None
        options["outcome_between"] = limits_of(options["outcome_between"])
    clusters, engine = options.pop("clusters"), options.pop("engine")
    encoding = options.pop("encoding")

    def read(selection: str) -> Any:
        chosen = selection.partition("~")[0].strip()
        named = label_columns([*formulas, *equations], chosen=chosen, cluster=list(clusters))
        return rows_of(files, engine, encoding=encoding, labels=named)

    rows = read(formulas[-1])
    if wanted == 2 and by_column and _has_fewer_values(rows, *formulas):
        say(
            "notice: in all commands the formula of outcomes comes first, then that of the "
            "selection."
        )
        formulas.reverse()
        rows = rows if files == ["-"] else read(formulas[-1])
    options["cluster"] = clusters_of(clusters)
    options["engine"] = engine_named(engine, encoding if isinstance(rows, list) else None)
    options["data"] = rows
    return formulas[0] if wanted == 2 else None, formulas[-1]


def _has_fewer_values(rows: Any, first: str, second: str) -> bool:
    """Say whether the left side of the first formula has fewer values than that of the second."""
    from selfselect.data.files import open_files

    names = [one.partition("~")[0].strip() for one in (first, second)]
    if isinstance(rows, list):
        files = open_files(rows)
        if not all(name in files.names for name in names):
            return False
        rows = files.head(names)
    if not all(name in rows for name in names):
        return names[0] in rows
    return bool(rows[names[0]].nunique() < rows[names[1]].nunique())

"""`selfselect choose`: say how many alternatives there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click

from selfselect.cli._options import (
    encoding_option,
    json_option,
    out_option,
    rows_of,
    rule_option,
    seed_option,
    split_words,
    weights_options,
)
from selfselect.options import WeightsKind

EPILOG = """\b
Example:
  selfselect choose prices.csv "price ~ size + age" --range 1:5
"""


@click.command("choose", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA FORMULA")
@click.option(
    "--range", "span", default="1:6", show_default=True, metavar="LOW:HIGH",
    help="Numbers of alternatives to try, both ends included.",
)  # fmt: skip
@rule_option
@click.option(
    "--subspace", type=click.Choice(["residual", "paper"]), default="residual", show_default=True,
    help="Whose spectral gap is shown: of least-squares residuals, or of the paper's matrix.",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(["bic", "bootstrap"]), default="bic", show_default=True,
    help="Recommend by BIC, or by likelihood ratios of one alternative more, tested by samples.",
)  # fmt: skip
@click.option(
    "--replications", type=int, default=99, show_default=True, help="Samples of each such test."
)
@weights_options
@encoding_option
@seed_option
@out_option
@json_option
def command(
    words: Sequence[str],
    span: str,
    rule: Literal["max", "min"],
    subspace: str,
    method: str,
    replications: int,
    weights: str | None,
    weights_kind: WeightsKind,
    encoding: str | None,
    seed: int | None,
    out: str | None,
    as_json: bool,
) -> int:
    """Fit several numbers of alternatives to DATA (a CSV or Parquet file) and recommend one."""
    import selfselect as ss
    from selfselect.cli._tables import check_out, show_table
    from selfselect.posing import label_columns

    check_out(out, *words)
    files, formula = split_words(words)
    if formula is None or len(files) > 1:
        raise click.UsageError("Give one file and one FORMULA: DATA FORMULA.")

    low, mark, high = span.partition(":")
    if not mark or not low.isdigit() or not high.isdigit() or int(low) > int(high):
        raise click.UsageError(f"--range takes LOW:HIGH, such as 1:6, not {span!r}.")
    numbers = range(int(low), int(high) + 1)
    found = ss.choose_alternatives(
        formula,
        rows_of(files, None, encoding=encoding, labels=label_columns(formula)),
        numbers,
        rule=rule,
        method=method,  # type: ignore[arg-type]  # click has checked it
        replications=replications,
        subspace=subspace,  # type: ignore[arg-type]  # click has checked it
        weights=weights,
        weights_kind=weights_kind,
        seed=seed,
    )
    show_table(found, found.table.reset_index(), out, as_json=as_json)
    return 0

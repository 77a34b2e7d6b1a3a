"""`selfselect choose`: say how many alternatives there are."""

from __future__ import annotations

from typing import Literal

import click

from selfselect.cli._encoding import encoding_option
from selfselect.options import WeightsKind

__all__ = ["command"]

EPILOG = """\b
Example:
  selfselect choose prices.csv "price ~ size + age" --range 1:5
"""


@click.command("choose", epilog=EPILOG)
@click.argument("data")
@click.argument("formula")
@click.option(
    "--range", "span", default="1:6", show_default=True, metavar="LOW:HIGH",
    help="Numbers of alternatives to try, both ends included.",
)  # fmt: skip
@click.option(
    "--rule", type=click.Choice(["max", "min"]), default="max", show_default=True,
    help="Which outcome is observed.",
)  # fmt: skip
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
@click.option("--weights", metavar="COLUMN", help="Row weights.")
@click.option(
    "--weights-kind", type=click.Choice(["frequency", "probability"]),
    help="Weights are numbers of identical rows, or correct for unequal sampling.",
)  # fmt: skip
@encoding_option
@click.option("--seed", type=int, help="Seed of everything random.")
def command(
    data: str,
    formula: str,
    span: str,
    rule: Literal["max", "min"],
    subspace: str,
    method: str,
    replications: int,
    weights: str | None,
    weights_kind: WeightsKind,
    encoding: str | None,
    seed: int | None,
) -> int:
    """Fit several numbers of alternatives to DATA (a CSV or Parquet file) and recommend one."""
    import selfselect as ss
    from selfselect.cli._tables import read_table
    from selfselect.posing import label_columns

    low, mark, high = span.partition(":")
    if not mark or not low.isdigit() or not high.isdigit() or int(low) > int(high):
        raise click.UsageError(f"--range takes LOW:HIGH, such as 1:6, not {span!r}.")
    numbers = range(int(low), int(high) + 1)
    found = ss.choose_alternatives(
        formula,
        read_table(data, encoding=encoding, labels=label_columns(formula)),
        numbers,
        rule=rule,
        method=method,  # type: ignore[arg-type]  # click has checked it
        replications=replications,
        subspace=subspace,  # type: ignore[arg-type]  # click has checked it
        weights=weights,
        weights_kind=weights_kind,
        seed=seed,
    )
    click.echo(str(found))
    return 0

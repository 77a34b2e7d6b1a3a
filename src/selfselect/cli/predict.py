"""`selfselect predict`: predictions for new rows with a saved fit."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("predict")
@click.argument("fit")
@click.argument("data")
@click.option(
    "--kind", default="latent", show_default=True,
    type=click.Choice(["latent", "chance", "outcome", "given_seen"]),
    help="Mean of every outcome; chance to be seen; mean of what is seen; means given who is seen.",
)  # fmt: skip
@click.option(
    "--scale", default="model", show_default=True, type=click.Choice(["model", "level"]),
    help="As the formula's left side has it; or, where that is log(y), means of y itself.",
)  # fmt: skip
@click.option("--out", metavar="FILE", help="CSV or Parquet file; standard output if left out.")
def command(fit: str, data: str, kind: str, scale: str, out: str | None) -> int:
    """Predict for the rows of DATA with the saved FIT."""
    import selfselect as ss
    from selfselect.cli._tables import read_table, write_table

    made = ss.load(fit).predict(read_table(data), kind=kind, scale=scale)
    write_table(made, out, index=False)
    return 0

"""`selfselect simulate`: write simulated data."""

from __future__ import annotations

import click


@click.command("simulate")
@click.argument(
    "name",
    type=click.Choice(["village", "gaussian", "market", "auction", "tender", "hostile"]),
)
@click.option("--rows", default=2_000, show_default=True, type=click.IntRange(min=2))
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--kind",
    default="rare",
    show_default=True,
    help="Which hostile data: rare, ties, huge, collinear.",
)
@click.option("--out", metavar="FILE", help="CSV or Parquet file; standard output if left out.")
def command(name: str, rows: int, seed: int, kind: str, out: str | None) -> int:
    """Write simulated data NAME; the truth goes to standard error."""
    import selfselect as ss
    from selfselect.cli._tables import check_out, write_table

    check_out(out)
    if name == "hostile":
        sample = ss.simulators.hostile(kind, rows, seed=seed)
    else:
        sample = getattr(ss.simulators, name)(rows, seed=seed)
    write_table(sample.data, out, index=False)
    click.echo(f"formula: {sample.formula}\n{sample.params.to_string()}", err=True)
    return 0

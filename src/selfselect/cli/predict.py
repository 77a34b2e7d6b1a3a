"""`selfselect predict`: predictions for new rows with a saved fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import click

from selfselect.cli._options import encoding_option, json_option
from selfselect.options import PredictionKind, Scale

EPILOG = """\b
Examples:
  selfselect predict fit.json newcomers.csv --kind chance
  selfselect predict fit.json rows/*.parquet --out predictions/ --keep id
"""


@click.command("predict", epilog=EPILOG)
@click.argument("fit")
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--kind", default="latent", show_default=True,
    type=click.Choice(["latent", "chance", "outcome", "given_seen", "scale", "responsibilities"]),
    help="Mean of every outcome; chance to be chosen; mean of the observed outcome; means given "
    "the choice; scale of the noise; where the choice was not recorded, the probable one.",
)  # fmt: skip
@click.option(
    "--scale", default="model", show_default=True, type=click.Choice(["model", "level"]),
    help="As the formula's left side has it; or, where that is log(y), means of y itself.",
)  # fmt: skip
@click.option(
    "--level",
    type=float,
    help="Confidence, such as 0.95: adds standard errors and intervals to every prediction.",
)
@click.option(
    "--keep", multiple=True, metavar="COLUMN",
    help="Column of DATA to copy beside the predictions, such as an id; repeatable.",
)  # fmt: skip
@click.option(
    "--out", metavar="FILE|FOLDER",
    help="CSV or Parquet file; or a folder, into which one Parquet file is written for each of "
    "DATA, batch by batch. Standard output if left out.",
)  # fmt: skip
@encoding_option
@click.option("--overwrite", is_flag=True, help="Replace files of the same name in the folder.")
@json_option
def command(
    fit: str,
    data: Sequence[str],
    kind: PredictionKind | Literal["responsibilities"],
    scale: Scale,
    level: float | None,
    keep: Sequence[str],
    out: str | None,
    encoding: str | None,
    overwrite: bool,
    as_json: bool,
) -> int:
    """Predict for the rows of DATA (files, or a folder of them) with the saved FIT.

    With a folder as --out, data may be larger than memory, and files appear there when all are
    whole.
    """
    from selfselect.cli._options import is_folder, rows_of
    from selfselect.cli._show import in_order
    from selfselect.cli._streams import STANDARD, read_fit, refuse_twice
    from selfselect.cli._tables import check_out, joined, json_lines, labels_of, write_table
    from selfselect.data.files import open_files
    from selfselect.data.tables import to_frame

    if len(data) == 1:
        fit, only = in_order(fit, data[0])
        data = [only]
    refuse_twice(fit, *data)
    result = read_fit(fit)
    if kind == "responsibilities" and scale != "model":
        raise click.UsageError("A probability has no scale. Leave --scale out.")
    if kind == "responsibilities" and level is not None:
        raise click.UsageError("Probable choices have no intervals. Leave --level out.")
    if not hasattr(result, "write_predictions"):
        _refuse_for_multinomial(kind, out not in (None, STANDARD) and is_folder(out))
    if out is not None and out != STANDARD and is_folder(out):
        options: dict[str, Any] = {"keep": keep, "overwrite": overwrite}
        files = open_files(list(data), encoding=encoding).with_labels(labels_of(result))
        if kind == "responsibilities":
            result.write_responsibilities(out, files, **options)
        else:
            result.write_predictions(out, files, kind, scale, level=level, **options)
        return 0
    check_out(out, fit, *data)
    rows = rows_of(data, None, encoding=encoding, labels=labels_of(result))
    if isinstance(rows, list):
        rows = open_files(rows, encoding=encoding).with_labels(labels_of(result))
    made: Any = (
        result.responsibilities(rows)
        if kind == "responsibilities"
        else result.predict(rows, kind=kind, level=level, scale=scale)
    )
    beside = to_frame(rows, keep) if keep else None
    if as_json:
        if out is not None:
            raise click.UsageError("--json prints predictions and --out writes them. Give one.")
        click.echo(json_lines(joined(made, beside)))
    else:
        write_table(made, out, index=False, beside=beside)
    return 0


def _refuse_for_multinomial(kind: str, folder: bool) -> None:
    """Refuse what predictions of a multinomial switching regression do not have."""
    if kind in ("responsibilities", "scale") or folder:
        raise click.UsageError(
            "A multinomial switching regression has predictions of the kinds latent, chance, "
            "outcome and given_seen, in one file."
        )

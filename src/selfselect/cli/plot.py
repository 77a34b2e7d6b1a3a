"""`selfselect plot`: a picture of a saved fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from selfselect.cli._options import encoding_option, level_option

ALONE = ("coefficients", "convergence", "mte", "starts")
"""Pictures that need no rows."""

ALONG = ("selection_lines", "choice_probabilities", "potential_outcomes")
"""Pictures along a covariate."""

KINDS = (*ALONE, *ALONG, "bounds", "gains", "qq", "residuals", "responsibilities")

EPILOG = """\b
Examples:
  selfselect plot fit.json --what coefficients --out coefficients.png
  selfselect plot fit.json villagers.csv --what selection_lines --covariate height --out lines.svg
  selfselect plot fit.json villagers.csv --what gains --to hunting --versus fishing --out gains.pdf
"""


@click.command("plot", epilog=EPILOG)
@click.argument("fit")
@click.argument("data", required=False)
@click.option(
    "--what", type=click.Choice(KINDS), default="coefficients", show_default=True,
    help=f"Which picture. {', '.join(ALONE)} need no DATA.",
)  # fmt: skip
@click.option("--covariate", metavar="COLUMN", help=f"For {', '.join(ALONG)}.")
@click.option("--term", "terms", multiple=True, help="For coefficients: which; repeatable.")
@click.option("--to", help="Alternative, for gains.")
@click.option("--versus", help="Alternative it is compared with.")
@encoding_option
@level_option
@click.option(
    "--out", required=True, metavar="FILE",
    help="File ending in .png, .svg or .pdf; '-' for SVG on standard output.",
)  # fmt: skip
def command(
    fit: str,
    data: str | None,
    what: str,
    covariate: str | None,
    terms: Sequence[str],
    to: str | None,
    versus: str | None,
    encoding: str | None,
    level: float,
    out: str,
) -> int:
    """Draw a picture of the saved FIT, for the rows of DATA where it shows rows."""
    from selfselect.cli._show import in_order, read_saved, with_rows
    from selfselect.cli._streams import read_fit, write_file
    from selfselect.cli._tables import check_target
    from selfselect.errors import DataError
    from selfselect.results.streaming import whole_file

    if data is None and what not in ALONE:
        raise click.UsageError(f"--what {what} needs rows: give DATA after FIT.")
    if what in ALONG and covariate is None:
        raise click.UsageError(f"--what {what} needs --covariate COLUMN.")
    if what == "gains" and (to is None or versus is None):
        raise click.UsageError("--what gains needs two alternatives: --to A --versus B.")
    pictures: Any
    if data is None or what in ALONE:
        pictures = read_fit(fit).plot
    else:
        fit, data = in_order(fit, data)
        check_target(out, fit, data)
        saved, rows = read_saved(fit, data, encoding=encoding)
        pictures = replace(saved.plot, fit=with_rows(saved, rows))
    check_target(out, fit)
    given: dict[str, Any] = {"level": level} if what in (*ALONG[1:], "bounds", "gains") else {}
    if what in ("coefficients", "mte"):
        given = {"level": level}
    if what == "coefficients" and terms:
        given["terms"] = list(terms)
    asked = [covariate] if what in ALONG else [to, versus] if what == "gains" else []
    picture = getattr(pictures, what)(*asked, **given)

    def write(path: Any) -> None:
        ending = str(path).rpartition(".")[2].lower()
        if ending not in ("png", "svg", "pdf"):
            raise DataError(f"{out!r} is no picture: let the name end in .png, .svg or .pdf.")
        with whole_file(path) as file:
            picture.figure.savefig(file, format=ending)

    write_file(out, write, ending=".svg")
    return 0

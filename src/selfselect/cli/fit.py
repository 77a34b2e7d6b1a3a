"""`selfselect fit`: a model from a file and a formula."""

from __future__ import annotations

from typing import Any

import click

from selfselect.cli._model import model_of, model_options, noise_of, noise_options
from selfselect.cli._options import covariance_option
from selfselect.cli._show import Shown, printing_options

EPILOG = """\b
Examples:
  selfselect fit villagers.csv "income ~ height + weight" --chosen job
  selfselect fit villagers.csv "income ~ height" --chosen job --covariance robust --format csv
  selfselect fit wages.parquet --chosen occupation \\
      --equation white="log_wage ~ schooling + age" --equation blue="log_wage ~ age"
  selfselect fit couples.csv "income ~ age" --chosen worker --mix wife=husband:0.4
  selfselect fit prices.csv "price ~ size + age" --alternatives 3
  selfselect fit wages.csv "log_wage ~ schooling + age" --chosen sector --noise correlated \\
      --cost college="~ tuition" --missing-outcome silent
  selfselect fit market.csv --rule min --equation demand="q ~ rate + stock" \\
      --equation supply="q ~ rate + deposits" --report market.html
  selfselect fit auctions.csv "bid ~ distance" --case auction --alternatives bidder \\
      --chosen won --shared all
  selfselect fit rows/*.parquet "income ~ height + weight" --chosen job --save fit.json
  cat villagers.csv | selfselect fit - "income ~ height" --chosen job --save - > fit.json

Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("fit", epilog=EPILOG)
@model_options
@noise_options
@covariance_option
@click.option(
    "--checkpoint", metavar="FILE",
    help="Checkpoint file from which the same command resumes after an interruption; removed "
         "when the fit is done.",
)  # fmt: skip
@printing_options
def command(**options: Any) -> int:
    """Fit a model to DATA (CSV, Parquet or Arrow files, or a folder of them) by FORMULA.

    One file is read into memory, and so is standard input, '-'. Several files, a folder or a
    pattern are read piece by piece, and may be larger than memory; --engine says otherwise.
    FORMULA is for all alternatives, as in "income ~ height + weight"; give --equation instead for
    covariates of their own.
    """
    import selfselect as ss

    shown = Shown.take(options, *options["words"])
    noise = noise_of(options)
    model = model_of(**options)
    return shown.show(lambda: ss.fit(**model, noise=noise))

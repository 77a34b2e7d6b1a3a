"""R's sampleSelection on a switching regression: the same likelihood, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss

OWN = ["x1", "x2", "x3", "x4", "x5"]
SCRIPT = """
suppressMessages(library(sampleSelection))
data <- read.csv(commandArgs(TRUE)[1])
started <- proc.time()[["elapsed"]]
fitted <- selection(union ~ x1 + x2 + x3 + x4 + x5 + z1 + z2,
  list(y ~ x1 + x2 + x3 + x4 + x5, y ~ x1 + x2 + x3 + x4 + x5), data = data)
spent <- proc.time()[["elapsed"]] - started
cat(sprintf("%.10g", as.numeric(logLik(fitted))), spent, "\\n")
"""


def problem(n_rows: int = 5_000, seed: int = 0) -> pd.DataFrame:
    """Draw a switching regression with five covariates, two more in the selection."""
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((n_rows, 5)), rng.standard_normal((n_rows, 2))
    u = rng.standard_normal(n_rows)
    union = 0.2 + x @ [0.3, -0.2, 0.1, 0.0, 0.4] + z @ [0.7, -0.5] + u > 0
    noise = [rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(n_rows) for rho in (-0.4, 0.6)]
    y = np.where(
        union,
        1.0 + x @ [0.5, 0.2, 0.0, 0.3, -0.4] + 1.2 * noise[1],
        0.3 + x @ [0.2, 0.4, 0.1, -0.3, 0.2] + 0.8 * noise[0],
    )
    table = pd.DataFrame(np.column_stack([x, z]), columns=[*OWN, "z1", "z2"])
    return table.assign(union=union.astype(int), y=y)


def ours(table: pd.DataFrame, **options: Any) -> Any:
    own = " + ".join(OWN)
    fit = ss.switching(f"y ~ {own}", f"union ~ {own} + z1 + z2", table, **options)
    assert fit.converged
    assert np.isfinite(fit.covariance.matrix).all()
    return fit


def available() -> bool:
    if shutil.which("Rscript") is None:
        return False
    probe = ["Rscript", "-e", "library(sampleSelection)"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def theirs(table: pd.DataFrame) -> tuple[float, float]:
    """Return the log-likelihood and R's own seconds, reading the data not counted."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "data.csv"
        table.to_csv(source, index=False, float_format="%.17g")
        done = subprocess.run(
            ["Rscript", "-e", SCRIPT, str(source)], check=True, capture_output=True, text=True
        )
    loglik, seconds = map(float, done.stdout.strip().splitlines()[-1].split())
    return loglik, seconds

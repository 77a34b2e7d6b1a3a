"""R's survival::survreg, once per alternative: the same likelihood, where Rscript is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.problems import Arrays

SCRIPT = """
suppressMessages(library(survival))
arguments <- commandArgs(TRUE)
shape <- as.integer(arguments[2:3]); k <- as.integer(arguments[4])
raw <- readBin(arguments[1], "double", n = shape[1] * (shape[2] + 2))
data <- matrix(raw, nrow = shape[1])
y <- data[, 1]; chosen <- data[, 2]; x <- data[, -(1:2), drop = FALSE]
started <- proc.time()[["elapsed"]]
for (j in seq_len(k) - 1) {
  fitted <- survreg(Surv(y, chosen == j, type = "left") ~ x, dist = "gaussian")
  cat(sprintf("%.12g", coef(fitted)), "\n")
}
cat(proc.time()[["elapsed"]] - started, "\n")
"""


def available() -> bool:
    if shutil.which("Rscript") is None:
        return False
    probe = ["Rscript", "-e", "library(survival)"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def solve(data: Arrays) -> tuple[np.ndarray, float]:
    """Return the coefficients and R's own seconds, reading the data not counted."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "data.bin"
        table = np.column_stack([data.outcome, data.chosen, data.covariates])
        np.asfortranarray(table).ravel(order="F").tofile(source)
        done = subprocess.run(
            [
                "Rscript", "-e", SCRIPT, str(source), *map(str, data.covariates.shape),
                str(data.n_alternatives),
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    return np.array([np.fromstring(line, sep=" ") for line in lines[:-1]]), float(lines[-1])

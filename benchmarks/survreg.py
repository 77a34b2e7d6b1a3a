"""R's survival::survreg, once per alternative: the same likelihood, where Rscript is installed."""

from __future__ import annotations

import numpy as np

from benchmarks import r
from benchmarks.problems import Arrays

SCRIPT = """
suppressMessages(library(survival))
k <- as.integer(arguments[4])
y <- data[, 1]; chosen <- data[, 2]; x <- data[, -(1:2), drop = FALSE]
started <- proc.time()[["elapsed"]]
for (j in seq_len(k) - 1) {
  fitted <- survreg(Surv(y, chosen == j, type = "left") ~ x, dist = "gaussian")
  cat(sprintf("%.12g", coef(fitted)), "\\n")
}
cat(proc.time()[["elapsed"]] - started, "\\n")
"""


def available() -> bool:
    return r.installed("survival")


def solve(data: Arrays) -> tuple[np.ndarray, float]:
    """Return the coefficients and R's own seconds, reading the data not counted."""
    table = np.column_stack([data.outcome, data.chosen, data.covariates])
    lines = r.run(SCRIPT, table, str(data.n_alternatives))
    return np.array([np.fromstring(line, sep=" ") for line in lines[:-1]]), float(lines[-1])

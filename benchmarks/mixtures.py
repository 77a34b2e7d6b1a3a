"""R's flexmix and mixtools: mixtures of two regressions, given the largest of two outcomes.

A mixture draws the chosen alternative by a coin; here the larger outcome is observed. Where
covariates are
symmetric about zero and nothing has an intercept the two agree on coefficients, elsewhere they do
not, so errors against the truth are compared, not likelihoods. Ours and flexmix have 8 starts in
`make bench`, and ours gives standard errors as well; mixtools, the slowest by far, has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import selfselect as ss
from benchmarks import r

STARTS = {"flexmix": 8, "mixtools": 1}

SCRIPT = """
constant <- arguments[4] == "1"
starts <- as.integer(arguments[5])
y <- data[, 1]; x <- data[, -1]
set.seed(1)
started <- proc.time()[["elapsed"]]
"""

FLEXMIX = f"""
suppressMessages(library(flexmix))
{SCRIPT}
formula <- if (constant) y ~ x else y ~ x - 1
fitted <- initFlexmix(formula, k = 2, nrep = starts, verbose = FALSE)
found <- parameters(fitted)
found <- found[rownames(found) != "sigma", ]
seconds <- proc.time()[["elapsed"]] - started
for (j in 1:2) cat(sprintf("%.12g", found[, j]), "\\n")
cat(seconds, "\\n")
"""

MIXTOOLS = f"""
suppressMessages(library(mixtools))
{SCRIPT}
best <- NULL
for (i in seq_len(starts)) {{
  sink(nullfile())
  fitted <- regmixEM(y, x, k = 2, addintercept = constant, arbvar = FALSE)
  sink()
  if (is.null(best) || fitted$loglik > best$loglik) best <- fitted
}}
seconds <- proc.time()[["elapsed"]] - started
for (j in 1:2) cat(sprintf("%.12g", best$beta[, j]), "\\n")
cat(seconds, "\\n")
"""

PEERS = {"flexmix": FLEXMIX, "mixtools": MIXTOOLS}


@dataclass(frozen=True, eq=False)
class Mixed:
    """The larger of two outcomes; `constant` where equations have intercepts."""

    covariates: np.ndarray
    outcome: np.ndarray
    truth: np.ndarray
    constant: bool


def draw(n_rows: int, *, shifted: bool) -> Mixed:
    """Draw five normal covariates, with mean zero and no intercepts, or shifted and with them."""
    rng = np.random.default_rng(0)
    truth = np.array([[1.6, -1.2, 0.0, 0.0, 0.0], [0.0, 0.8, 1.5, 1.0, 0.0]])
    x = rng.standard_normal((n_rows, 5)) + 0.5 * shifted
    means = x @ truth.T
    if shifted:
        means += [0.5, -0.5]
        truth = np.column_stack([[0.5, -0.5], truth])
    return Mixed(x, (means + rng.standard_normal((n_rows, 2))).max(axis=1), truth, shifted)


def ours(data: Mixed, starts: int | None = None) -> np.ndarray:
    model = ss.SelfSelectionRegressor(
        n_alternatives=2,
        fit_intercept=data.constant,
        solver=ss.solvers.MaximumLikelihood(starts),
    )
    model.fit(data.covariates, data.outcome)
    assert model.result_.converged
    return np.column_stack([model.intercept_, model.coef_])[:, not data.constant :]


def solve(peer: str, data: Mixed) -> tuple[np.ndarray, float]:
    """Return a peer's coefficients and its own seconds."""
    table = np.column_stack([data.outcome, data.covariates])
    lines = r.run(PEERS[peer], table, str(int(data.constant)), str(STARTS[peer]))
    return np.array([np.fromstring(line, sep=" ") for line in lines[:-1]]), float(lines[-1])


def error(found: np.ndarray, data: Mixed) -> float:
    """Return the largest error of a coefficient, labels matched as well as possible."""
    return min(float(np.abs(one - data.truth).max()) for one in (found, found[::-1]))

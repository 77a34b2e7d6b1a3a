"""R's markets and Disequilibrium: the smaller of demand and supply, independent shocks.

Both maximise the likelihood that ours does, with one variance per side, so coefficients and
log-likelihood must agree. Disequilibrium at its defaults agrees to 0.01 only. markets climbs from
one start, and estimates the correlation of demand and supply where asked to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import selfselect as ss
from benchmarks import r

START = """
rows <- data.frame(data)
names(rows) <- c("quantity", "rate", "stock", "deposits")
"""

PRINT = """
seconds <- proc.time()[["elapsed"]] - started
for (name in wanted) cat(sprintf("%.12g", found[[name]]), "\\n")
cat(sprintf("%.12g", loglik), "\\n")
cat(seconds, "\\n")
"""

# One row per subject: nothing in the basic model looks at other periods.
MARKETS = f"""
suppressMessages(library(markets))
{START}
rows$subject <- seq_len(nrow(rows)); rows$period <- 1
started <- proc.time()[["elapsed"]]
fitted <- diseq_basic(
  quantity | rate | subject | period ~ rate + stock | rate + deposits,
  rows, correlated_shocks = arguments[4] == "1",
  estimation_options = list(control = list(maxit = 1e5))
)
found <- coef(fitted)
loglik <- as.numeric(logLik(fitted))
wanted <- c("D_CONST", "D_rate", "D_stock", "S_CONST", "S_rate", "S_deposits")
{PRINT}
"""

DISEQUILIBRIUM = f"""
suppressMessages(library(Disequilibrium))
{START}
started <- proc.time()[["elapsed"]]
fitted <- DE(quantity ~ rate + stock | rate + deposits, data = rows, control = list(MaskRho = 0))
found <- fitted$par
loglik <- -fitted$value
wanted <- c("(Intercept)_1", "rate_1", "stock_1", "(Intercept)_2", "rate_2", "deposits_2")
{PRINT}
"""

PEERS = {"markets": MARKETS, "Disequilibrium": DISEQUILIBRIUM}


@dataclass(frozen=True, eq=False)
class Found:
    """Coefficients of demand and supply, intercepts first, and the log-likelihood."""

    coefficients: np.ndarray
    loglik: float


def draw(n_rows: int) -> ss.simulators.Sample:
    return ss.simulators.market(n_rows, seed=0)


def ours(sample: ss.simulators.Sample, starts: int | None = None) -> Found:
    """Fit from so many starts; None takes as many as a fit takes by itself."""
    noise, solver = ss.noises.Independent(scale="each"), ss.solvers.MaximumLikelihood(starts)
    result = ss.fit(sample.formula, sample.data, rule="min", noise=noise, solver=solver)
    return _found(result)


def correlated(sample: ss.simulators.Sample, starts: int | None = None) -> Found:
    """Fit with the correlation estimated, from so many starts; None takes as many as ever."""
    noise, solver = ss.noises.Correlated(scale="each"), ss.solvers.Continuation(starts=starts)
    result = ss.fit(sample.formula, sample.data, rule="min", noise=noise, solver=solver)
    return _found(result)


def _found(result: ss.FitResult) -> Found:
    assert result.converged
    kept = result.params.drop(["scale", "correlation"], level="term", errors="ignore")
    return Found(kept.to_numpy(), result.llf)


def solve(
    peer: str, sample: ss.simulators.Sample, *, correlated: bool = False
) -> tuple[Found, float]:
    """Return what a peer found and its own seconds."""
    columns = ["quantity", "rate", "stock", "deposits"]
    numbers = sample.data[columns].to_numpy(dtype=float)
    lines = r.run(PEERS[peer], numbers, str(int(correlated)))
    *found, seconds = map(float, lines)
    return Found(np.array(found[:-1]), found[-1]), seconds

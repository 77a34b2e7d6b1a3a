"""A switching regression in R: by sampleSelection, or by a stand-in around maxLik, if installed.

The stand-in walks through the steps of sampleSelection's published source, written anew: model
frames from formulas, a search of every row for missing values (in the two-step estimate and once
more for the likelihood), a probit by maxLik, least squares with Mills ratios, and from there
Newton-Raphson by maxLik with an exact Hessian and the gradient of every row. It is not that
package: it climbs in the parameters of our own likelihood, which suit Newton's method better than
scales and correlations, and it leaves out checks, messages and most of the object returned. So it
should take less time than the package would.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss
from benchmarks import r

OWN = ["x1", "x2", "x3", "x4", "x5"]
COLUMNS = [*OWN, "z1", "z2", "union", "y"]
ROUNDS = 15
"""Fits, of which the quickest counts; a loaded machine disturbs that least."""

FRAME = """
data <- setNames(as.data.frame(data), strsplit(arguments[4], " ")[[1]])
outcome <- y ~ x1 + x2 + x3 + x4 + x5
selected <- union ~ x1 + x2 + x3 + x4 + x5 + z1 + z2
"""
TIMED = """
spent <- Inf
for (round in 0:as.integer(arguments[5])) {
  started <- proc.time()
  fitted <- fit_once()
  now <- proc.time() - started
  if (round > 0) spent <- pmin(spent, c(now[["elapsed"]], now[["user.self"]] + now[["sys.self"]]))
}
cat(sprintf("%.12g", as.numeric(logLik(fitted))), sprintf("%.6f", spent), "\\n")
"""
PACKAGE = """
suppressMessages(library(sampleSelection))
fit_once <- function() selection(selected, list(outcome, outcome), data = data)
"""
STAND_IN = r"""
suppressMessages(library(maxLik))

lacking <- function(x) apply(x, 1, function(row) any(is.na(row)))

model_of <- function(formula, data) {
  frame <- model.frame(formula, data, na.action = na.pass)
  list(x = model.matrix(attr(frame, "terms"), frame), y = model.response(frame))
}

read_rows <- function() {
  choice <- model_of(selected, data)
  union <- choice$y == 1
  bad <- is.na(choice$y) | lacking(choice$x)
  each <- lapply(c(FALSE, TRUE), function(side) model_of(outcome, data))
  for (j in 1:2) bad <- bad | ((is.na(each[[j]]$y) | lacking(each[[j]]$x)) & union == (j == 2))
  lapply(1:2, function(j) {
    own <- !bad & union == (j == 2)
    list(x = each[[j]]$x[own, , drop = FALSE], y = each[[j]]$y[own],
         z = choice$x[own, , drop = FALSE], sign = if (j == 2) 1 else -1)
  })
}

mills <- function(a) exp(dnorm(a, log = TRUE) - pnorm(a, log.p = TRUE))

fit_probit <- function(signed) {
  loglik <- function(gamma) pnorm(drop(signed %*% gamma), log.p = TRUE)
  gradient <- function(gamma) signed * mills(drop(signed %*% gamma))
  hessian <- function(gamma) {
    a <- drop(signed %*% gamma)
    ratio <- mills(a)
    -crossprod(signed, signed * (ratio * (ratio + a)))
  }
  coef(maxLik(loglik, gradient, hessian, start = numeric(ncol(signed)), method = "NR"))
}

two_steps <- function() {
  sides <- read_rows()
  gamma <- fit_probit(do.call(rbind, lapply(sides, function(side) side$sign * side$z)))
  c(gamma, unlist(lapply(sides, function(side) {
    m <- side$sign * drop(side$z %*% gamma)
    ratio <- mills(m)
    x <- cbind(side$x, ratio = side$sign * ratio)
    kappa(x)
    step <- lm(side$y ~ x - 1)
    b <- unname(coef(step))
    p <- ncol(side$x)
    scale <- sqrt(summary(step)$sigma^2 + b[p + 1]^2 * mean(ratio * (ratio + m)))
    c(b[1:p] / scale, 1 / scale, atanh(max(min(b[p + 1] / scale, 0.9), -0.9)))
  })))
}

fit_once <- function() {
  start <- two_steps()
  sides <- read_rows()
  q <- ncol(sides[[1]]$z)
  place <- q
  row <- 0
  for (j in 1:2) {
    side <- sides[[j]]
    n <- nrow(side$x)
    p <- ncol(side$x) + 1
    sides[[j]] <- c(side, list(v = cbind(-side$x, side$y), own = place + seq_len(p),
                               t = place + p + 1, rows = row + seq_len(n)))
    place <- place + p + 1
    row <- row + n
  }
  at <- function(theta, side) {
    index <- drop(side$z %*% theta[1:q])
    noise <- drop(side$v %*% theta[side$own])
    c <- cosh(theta[side$t])
    s <- sinh(theta[side$t])
    list(a = side$sign * (c * index + s * noise), turned = s * index + c * noise, noise = noise,
         c = c, s = s, h = theta[side$own[length(side$own)]])
  }
  loglik <- function(theta) {
    each <- numeric(row)
    for (side in sides) {
      now <- at(theta, side)
      if (now$h <= 0) return(NA)
      each[side$rows] <- log(now$h) - 0.5 * now$noise^2 - 0.5 * log(2 * pi) +
        pnorm(now$a, log.p = TRUE)
    }
    each
  }
  gradient <- function(theta) {
    each <- matrix(0, row, length(theta))
    for (side in sides) {
      now <- at(theta, side)
      pull <- side$sign * mills(now$a)
      each[side$rows, 1:q] <- side$z * (now$c * pull)
      each[side$rows, side$own] <- side$v * (now$s * pull - now$noise)
      last <- side$own[length(side$own)]
      each[side$rows, last] <- each[side$rows, last] + 1 / now$h
      each[side$rows, side$t] <- pull * now$turned
    }
    each
  }
  hessian <- function(theta) {
    whole <- matrix(0, length(theta), length(theta))
    for (side in sides) {
      now <- at(theta, side)
      ratio <- mills(now$a)
      pull <- side$sign * ratio
      slope <- ratio * (ratio + now$a)
      own <- side$own
      last <- own[length(own)]
      whole[1:q, 1:q] <- whole[1:q, 1:q] - now$c^2 * crossprod(side$z, side$z * slope)
      cross <- -now$c * now$s * crossprod(side$z * slope, side$v)
      whole[1:q, own] <- cross
      whole[own, 1:q] <- t(cross)
      whole[own, own] <- -crossprod(side$v, side$v * (now$s^2 * slope + 1))
      whole[last, last] <- whole[last, last] - length(ratio) / now$h^2
      bend <- crossprod(side$z, now$s * pull - now$c * slope * now$turned)
      whole[1:q, side$t] <- bend
      whole[side$t, 1:q] <- bend
      bend <- crossprod(side$v, now$c * pull - now$s * slope * now$turned)
      whole[own, side$t] <- bend
      whole[side$t, own] <- bend
      whole[side$t, side$t] <- sum(ratio * now$a - slope * now$turned^2)
    }
    whole
  }
  maxLik(loglik, gradient, hessian, start = unname(start), method = "NR")
}
"""
PEERS = {"sampleSelection": PACKAGE, "maxLik": STAND_IN}
"""R's packages, and what is run with each."""


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


def fewest(task: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the fewest seconds a task takes, as R's are counted."""
    task()
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        task()
        spent.append(time.perf_counter() - started)
    return min(spent)


def theirs(package: str, table: pd.DataFrame, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Return the log-likelihood, and the fewest seconds R took: by the clock, and of its CPU.

    After a first fit that is not counted; reading the data is not either.
    """
    numbers = table[COLUMNS].to_numpy(dtype=np.float64)
    lines = r.run(FRAME + PEERS[package] + TIMED, numbers, " ".join(COLUMNS), str(rounds))
    loglik, elapsed, cpu = map(float, lines[-1].split())
    return loglik, elapsed, cpu

r"""The likelihood of an outcome and its selection, with exact score and Hessian.

A row is selected if :math:`m + u > 0`, with :math:`m = z'\gamma` and u standard normal. Its
outcome has noise e, in units of its scale, of correlation :math:`\rho = \tanh t` with u. With the
sign d = 1 where the outcome is seen if the row is selected, else -1,

* an outcome that is seen says
  :math:`\log h - e^2/2 - \log\sqrt{2\pi} + \log\Phi(a)`, where :math:`e = h y - x'g` and
  :math:`a = d\,(m \cosh t + e \sinh t)`;
* a row without an outcome says :math:`\log\Phi(d m)`.

In (γ, g, h) this is concave for any fixed t, and t may be any number. The natural parameters are
γ, then g, h and t of each equation, for the orthogonal covariates and the standardised outcomes of
`selfselect.classics.design`.

With :math:`v = d\,(z, -x, y)` joined, :math:`a = v'(\gamma\cosh t, (g, h)\sinh t)` is linear, and
so is :math:`\dot a = da/dt = v'(\gamma\sinh t, (g, h)\cosh t)`. So two sums over the rows of an
equation, :math:`\sum \lambda(a)\,v` and :math:`\sum \delta(a)\,v v'`, hold everything in the score
and the Hessian but what :math:`\sum e^2` says, and that is quadratic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design
from selfselect.classics.parameters import Layout
from selfselect.classics.rows import SeenRows
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = ["Evaluation", "evaluate", "independent_loglik", "row_scores"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Log-likelihood, score (m,) and Hessian (m, m) in the natural parameters."""

    loglik: float
    score: Array
    hessian: Array


def evaluate(design: Design, layout: Layout, natural: Array) -> Evaluation:
    """Sum log-likelihood, score and Hessian over all rows."""
    rows = design.rows()
    total = 0.0
    score = np.zeros(layout.n_natural)
    hessian = np.zeros((layout.n_natural, layout.n_natural))
    gamma = layout.gamma
    if rows.silent is not None:
        sums = rows.silent.at(natural[gamma])
        total += float(sums.log_cdf)
        score[gamma] += sums.pull
        hessian[gamma, gamma] -= sums.curvature
    for equation, seen in zip(design.equations, rows.seen, strict=True):
        places = layout.places_of(equation)
        part = _seen(seen, natural[places], gamma.stop)
        total += part.loglik - seen.total * np.log(equation.unit)
        score[places] += part.score
        hessian[places[:, None], places] += part.hessian
    return Evaluation(float(total), score, hessian)


def _seen(seen: SeenRows, natural: Array, n_gamma: int) -> Evaluation:
    """Evaluate the rows of an equation at γ, g, h and t of their own."""
    own, h, t = slice(n_gamma, -1), float(natural[-2]), float(natural[-1])
    c, s = math.cosh(t), math.sinh(t)
    # The argument's slopes are the joined rows times these; t turns one into the other.
    slopes, swapped = np.full(len(natural) - 1, s), np.full(len(natural) - 1, c)
    slopes[:n_gamma], swapped[:n_gamma] = c, s
    along, turned = slopes * natural[:-1], swapped * natural[:-1]
    sums = seen.joined.at(along)
    twist = sums.curvature @ turned
    squares = seen.gram @ natural[own]
    score, hessian = np.empty(len(natural)), np.empty((len(natural), len(natural)))
    score[:-1], score[-1] = slopes * sums.pull, sums.pull @ turned
    score[own] -= squares
    score[-2] += seen.total / h
    hessian[:-1, :-1] = sums.curvature * (-slopes[:, None] * slopes)
    hessian[own, own] -= seen.gram
    hessian[-2, -2] -= seen.total / h**2
    hessian[:-1, -1] = hessian[-1, :-1] = swapped * sums.pull - slopes * twist
    hessian[-1, -1] = sums.pull @ along - turned @ twist
    constant = seen.total * (math.log(h) - HALF_LOG_TWO_PI)
    loglik = float(constant - 0.5 * natural[own] @ squares + sums.log_cdf)
    return Evaluation(loglik, score, hessian)


def independent_loglik(design: Design, selection: float) -> float:
    """Return the log-likelihood of no correlation: the probit's, and that of least squares."""
    outcomes = (
        seen.total * (math.log(equation.unit) + HALF_LOG_TWO_PI + 0.5)
        for equation, seen in zip(design.equations, design.rows().seen, strict=True)
    )
    return selection - sum(outcomes)


def row_scores(design: Design, layout: Layout, natural: Array) -> Array:
    """Return each row's weighted score, shape (n, n_natural)."""
    scores = np.zeros((len(design.positive), layout.n_natural))
    silent = design.silent
    z, sign = design.selection.basis[silent], design.sign[silent]
    pull = sign * mills_terms(sign * (z @ natural[layout.gamma])).ratio
    scores[silent, layout.gamma] = z * pull[:, None]
    for equation in design.equations:
        z, x = design.selection.basis[equation.rows], equation.slopes
        own, t = layout.noise_of(equation), layout.t_of(equation)
        index, noise = z @ natural[layout.gamma], x @ natural[own]
        c, s = np.cosh(natural[t]), np.sinh(natural[t])
        pull = equation.sign * mills_terms(equation.sign * (c * index + s * noise)).ratio
        own_scores = x * (s * pull - noise)[:, None]
        own_scores[:, -1] += 1.0 / natural[own.stop - 1]
        scores[equation.rows, layout.gamma] = z * (c * pull)[:, None]
        scores[equation.rows, own] = own_scores
        scores[equation.rows, t] = pull * (s * index + c * noise)
    return scores if design.weights is None else scores * design.weights[:, None]

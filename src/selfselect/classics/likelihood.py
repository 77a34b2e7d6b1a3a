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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.classics.design import Design, OutcomeEquation
from selfselect.classics.parameters import Layout
from selfselect.kernels.tails import HALF_LOG_TWO_PI, mills_terms

__all__ = ["Evaluation", "evaluate", "row_scores"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Log-likelihood, score (m,) and Hessian (m, m) in the natural parameters."""

    loglik: float
    score: Array
    hessian: Array


@dataclass(frozen=True, eq=False)
class SeenTerms:
    """Derivatives of each row's log-likelihood in m, e and t; e changes with g and h."""

    loglik: Array
    m: Array
    e: Array
    t: Array
    mm: Array
    me: Array
    ee: Array
    mt: Array
    et: Array
    tt: Array


def seen_terms(index: Array, noise: Array, h: float, t: float, sign: float) -> SeenTerms:
    """Evaluate rows whose outcome is seen."""
    c, s = np.cosh(t), np.sinh(t)
    argument = sign * (c * index + s * noise)
    turned = s * index + c * noise
    mills = mills_terms(argument)
    pull, slope = sign * mills.ratio, mills.slope
    return SeenTerms(
        loglik=np.log(h) - 0.5 * noise**2 - HALF_LOG_TWO_PI + mills.log_cdf,
        m=pull * c,
        e=pull * s - noise,
        t=pull * turned,
        mm=-slope * c**2,
        me=-slope * c * s,
        ee=-slope * s**2 - 1.0,
        mt=pull * s - slope * c * turned,
        et=pull * c - slope * s * turned,
        tt=mills.ratio * argument - slope * turned**2,
    )


def _seen(
    equation: OutcomeEquation, layout: Layout, natural: Array, z: Array, x: Array
) -> SeenTerms:
    g, h, t = layout.of_equation(natural, equation)
    return seen_terms(z @ natural[layout.gamma], x @ np.append(g, h), h, t, equation.sign)


def evaluate(design: Design, layout: Layout, natural: Array, *, every: int = 1) -> Evaluation:
    """Sum log-likelihood, score and Hessian over all rows, or over every so many of each kind."""
    total = 0.0
    score = np.zeros(layout.n_natural)
    hessian = np.zeros((layout.n_natural, layout.n_natural))
    gamma = layout.gamma
    silent = design.silent[::every]
    if len(silent):
        z, sign = design.selection.basis[silent], design.sign[silent]
        weights = 1.0 if design.weights is None else design.weights[silent]
        mills = mills_terms(sign * (z @ natural[gamma]))
        total += float(np.sum(weights * mills.log_cdf))
        score[gamma] += z.T @ (weights * sign * mills.ratio)
        hessian[gamma, gamma] -= z.T @ (z * (weights * mills.slope)[:, None])
    for equation in design.equations:
        z, x = design.basis_of[equation.label][::every], equation.slopes[::every]
        terms = _seen(equation, layout, natural, z, x)
        weights = np.ones(len(x)) if equation.weights is None else equation.weights[::every]
        h = layout.of_equation(natural, equation)[1]
        own, place = layout.noise_of(equation), layout.t_of(equation)
        total += float(weights @ (terms.loglik - np.log(equation.unit)))
        score[gamma] += z.T @ (weights * terms.m)
        score[own] += x.T @ (weights * terms.e)
        score[own.stop - 1] += weights.sum() / h
        score[place] += weights @ terms.t
        hessian[gamma, gamma] += z.T @ (z * (weights * terms.mm)[:, None])
        hessian[own, own] += x.T @ (x * (weights * terms.ee)[:, None])
        hessian[own.stop - 1, own.stop - 1] -= weights.sum() / h**2
        hessian[place, place] += weights @ terms.tt
        cross = z.T @ (x * (weights * terms.me)[:, None])
        hessian[gamma, own] += cross
        hessian[own, gamma] += cross.T
        for block, part in ((gamma, z.T @ (weights * terms.mt)), (own, x.T @ (weights * terms.et))):
            hessian[block, place] += part
            hessian[place, block] += part
    return Evaluation(total, score, hessian)


def row_scores(design: Design, layout: Layout, natural: Array) -> Array:
    """Return each row's weighted score, shape (n, n_natural)."""
    scores = np.zeros((len(design.positive), layout.n_natural))
    silent = design.silent
    z, sign = design.selection.basis[silent], design.sign[silent]
    pull = sign * mills_terms(sign * (z @ natural[layout.gamma])).ratio
    scores[silent, layout.gamma] = z * pull[:, None]
    for equation in design.equations:
        z = design.basis_of[equation.label]
        terms = _seen(equation, layout, natural, z, equation.slopes)
        own = layout.noise_of(equation)
        x = equation.slopes * terms.e[:, None]
        x[:, -1] += 1.0 / layout.of_equation(natural, equation)[1]
        scores[equation.rows, layout.gamma] = z * terms.m[:, None]
        scores[equation.rows, own] = x
        scores[equation.rows, layout.t_of(equation)] = terms.t
    return scores if design.weights is None else scores * design.weights[:, None]

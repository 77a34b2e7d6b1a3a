"""Which fits have profile-likelihood intervals, and which should be read with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.results.diagnosis import Finding

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["look_at_curvature", "no_profile", "not_chi_square"]

MOST_ROWS, MOST_ROWS_WEIGHED = 10_000, 1_000
"""Rows up to which a summary compares the likelihood with a quadratic one unasked; those of a
likelihood that weighs all that may have been cost more."""

FAR_OFF = 0.25
"""How far signed roots may be from 2 standard errors: an interval of 95% then misses one end by as
much, and its tail of 2.5% is between 1.4 and 4.3%."""


def not_chi_square(fit: Any) -> str | None:
    """Say why a likelihood ratio of a fit is not chi-square, or None where it is."""
    if not fit.converged:
        return "the fit did not converge"
    if fit.covariance.sandwich or fit.facts.cluster is not None:
        return (
            "with a robust or clustered covariance the likelihood is not assumed to be correct, "
            "so its ratio is not chi-square; use method='wald'"
        )
    return None


def no_profile(fit: FitResult) -> str | None:
    """Say why a fit has no profile intervals, or None where it has."""
    problem = fit.problem
    if fit.facts.weights_kind == "probability":
        return (
            "with probability weights the likelihood is not that of a sample, so its ratios are "
            "not chi-square; use method='wald'"
        )
    reason = not_chi_square(fit)
    if reason is not None:
        return reason
    if not problem.likelihood.exact or fit.solution.loglik_error > 0:
        return "the likelihood is simulated, not exact; use covariance='bootstrap'"
    if fit.solution.noise is not None and fit.solution.noise.any():
        return "the estimates were simulated; fit with solver=None, whose likelihood is exact"
    if not problem.noise.margin.smooth:
        return f"the log-likelihood of {problem.noise.margin.name} noise has kinks; use 'wald'"
    if fit.method != "ml":
        return "two-step estimates do not maximise a likelihood; use method='ml'"
    if not np.isfinite(fit.solution.information).all():
        return "the estimate is not one of maximum likelihood"
    if fit.engine is None:
        return "the fit was loaded from a file and no longer has its rows; fit again"
    if not fit.engine.holds_rows:
        return "rows are read piece by piece, some tens of times per parameter; fit in memory"
    return None


def look_at_curvature(fit: Any) -> tuple[Finding, ...]:
    """Say which parameters' standard errors mislead; nothing where that would cost too much."""
    problem = getattr(fit, "problem", None)
    weighed = problem is not None and (problem.partial or bool(problem.equations.costs))
    most = MOST_ROWS_WEIGHED if weighed else MOST_ROWS
    if fit.facts.n_rows > most or fit.curvature is None:
        return ()
    off = (np.abs(np.abs(fit.curvature.to_numpy()) - 2.0) > FAR_OFF).any(axis=1)
    names = [name for name, poor in zip(fit.names, off, strict=True) if poor]
    if not names:
        return (Finding("fine", "The likelihood is nearly quadratic within two standard errors."),)
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return (
        Finding(
            "weak",
            f"The likelihood is far from quadratic around {shown}: intervals from standard errors "
            'are misleading there. Use result.conf_int(method="profile").',
        ),
    )

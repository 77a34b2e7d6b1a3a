"""Tests of independence across alternatives that compare two fits: Wald's, likelihood ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from selfselect.errors import OptionError
from selfselect.inference.independence import WALD, wald_test_of_correlations
from selfselect.inference.statistics import TestResult, chi_square_test, impossible_test
from selfselect.noises import Correlated
from selfselect.results.hypotheses import why_no_likelihood_ratio
from selfselect.results.refit import covariance_of_refit
from selfselect.solvers import choose_solver
from selfselect.solvers.continuation import Continuation, independent_companion
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["compare_noises"]

LR = "Likelihood-ratio test of independence across alternatives"


def compare_noises(fit: FitResult, kind: str) -> TestResult:
    """Test by fitting the same rows with correlated noise, or with independent noise.

    It is not for Wald's test of a fit with correlated noise, which has all that it needs.
    """
    if kind not in ("wald", "lr"):
        raise OptionError(f"There is no test {kind!r} of independence. Use 'score', 'wald', 'lr'.")
    name = WALD if kind == "wald" else LR
    doubt = why_no_likelihood_ratio(fit) if kind == "lr" else None
    if doubt is not None:
        return impossible_test(name, f"{doubt}; use kind='wald'")
    problem, engine = fit.problem, fit.engine_of_rows()
    noise = problem.noise
    if problem.rank is not None or not (noise.independent or noise.correlated):
        return impossible_test(name, "it compares independent noise with correlated noise only")
    rng = np.random.default_rng(0)
    with one_blas_thread():
        if noise.correlated:
            joined, small = (
                fit.solution,
                replace(independent_companion(problem), equations=problem.equations),
            )
            alone = choose_solver(small, None)[0].solve(small, engine, rng=rng, progress=False)
            n_pairs = problem.layout.n_free - small.layout.n_free
        else:
            large = replace(problem, noise=Correlated(noise.scale))
            solver = Continuation()
            joined = solver.solve(large, engine, rng=rng, progress=False)
            if not joined.converged:
                return impossible_test(name, "the fit with correlated noise did not converge")
            if kind == "wald":
                spread = covariance_of_refit(fit, large, joined, solver)
                return wald_test_of_correlations(large.layout.report(joined.free), spread.matrix)
            alone, n_pairs = fit.solution, large.layout.n_free - problem.layout.n_free
    if not (joined.converged and alone.converged):
        return impossible_test(name, "one of the two fits did not converge")
    gain = max(2.0 * (joined.loglik - alone.loglik), 0.0)
    return chi_square_test(name, gain, n_pairs, "no correlation")

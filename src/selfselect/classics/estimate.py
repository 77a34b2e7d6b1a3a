"""From a design to a result: the whole flow of both models on one page."""

from __future__ import annotations

from selfselect.classics.covariance import covariance_kind
from selfselect.classics.design import Design
from selfselect.classics.likelihood import independent_loglik
from selfselect.classics.maximum_likelihood import climb, estimate_covariance, maximise
from selfselect.classics.parameters import Layout
from selfselect.classics.probit import fit_probit
from selfselect.classics.result import SelectionResult
from selfselect.classics.two_step import report_two_steps, second_step, start_of
from selfselect.errors import ConvergenceWarning, OptionError, warn_user
from selfselect.threads import one_blas_thread

__all__ = ["estimate"]

METHODS = ("ml", "two-step")
STARTS = ("search", "two-step")


def estimate(design: Design, method: str, start: str, covariance: str) -> SelectionResult:
    """Estimate a model of selection. Arguments are those of `switching`."""
    for name, given, words in (("method", method, METHODS), ("start", start, STARTS)):
        if given not in words:
            raise OptionError(f"There is no {name} {given!r}. Use one of {', '.join(words)}.")
    kind = covariance_kind(covariance, design)
    with one_blas_thread():
        probit = fit_probit(design)
        steps = tuple(second_step(design, equation, probit.gamma) for equation in design.equations)
        layout = Layout(design)
        independent = start_of(layout, probit.gamma, steps, 0.0)
        if method == "two-step":
            reported, spread = report_two_steps(design, probit, steps, kind)
            return SelectionResult(
                design, method, reported, spread, float("nan"), float("nan"), True,
                "A probit and least squares, both solved.",
                unexplained=tuple(step.unexplained for step in steps),
            )  # fmt: skip
        two_step = start_of(layout, probit.gamma, steps, 1.0)
        ends = {"two-step": climb(design, layout, two_step)}
        if start == "search":
            ends |= maximise(design, layout, independent, ends["two-step"])
        best = max(ends.values(), key=lambda end: (end.converged, end.loglik))
        best = best.with_boundary(layout)
        spread = estimate_covariance(layout, best, kind)
        zero = independent_loglik(design, probit.loglik)
    if not best.converged:
        warn_user(f"Not converged. {best.status}", ConvergenceWarning)
    return SelectionResult(
        design,
        method,
        layout.report(best.natural),
        spread,
        best.loglik,
        zero,
        best.converged,
        best.status,
        n_steps=best.n_steps,
        boundary=best.boundary(layout),
        starts_reached=tuple(
            (name, end.loglik, end.converged, end.n_steps) for name, end in ends.items()
        ),
        unexplained=tuple(step.unexplained for step in steps),
    )

"""Which fits a page can compute in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from selfselect.data.long import LongCoding
from selfselect.errors import UnsupportedError
from selfselect.kernels.largest import nodes_wanted
from selfselect.rules import direction_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["refuse_unsupported"]

MOST_ALTERNATIVES = 12
MOST_NODES = 1_500
"""Nodes of an integral over one outcome; a browser takes a second for some hundred rows."""

MOST_PARAMETERS = 620
"""Their covariance takes 2 MB of the page."""


def refuse_unsupported(fit: FitResult) -> None:
    """Refuse a fit whose chances and means the page cannot compute, with the reason."""
    reason = _reason(fit)
    if reason is not None:
        raise UnsupportedError(
            f"This fit cannot be explored in a page: {reason} Use "
            "result.choice_probabilities(at=...), result.treatment_effects(...) and "
            "result.counterfactual(...) instead, where they are possible."
        )


def _reason(fit: FitResult) -> str | None:
    problem = fit.problem
    noise, k = problem.noise, problem.equations.n_alternatives
    if noise.selected:
        return "the page does not support models with a selection equation."
    if direction_of(problem.ordered_rule) is None:
        return (
            "the page supports only rules under which the largest or the smallest outcome is "
            f"observed, and here {problem.ordered_rule.name}."
        )
    if problem.equations.costs:
        return "its costs are estimated, and the page supports known costs only."
    if isinstance(fit.coding, LongCoding):
        return "a case of long data is several rows, for which there are no sliders."
    known = noise.known_correlation(problem.equations.alternatives) is not None
    if (noise.joint and not (noise.correlated and k == 2)) or noise.mixed or known:
        return (
            "the page supports only normal noise that is independent, or correlated between two "
            f"alternatives, and here it is {noise.name}."
        )
    if not noise.joint and (noise.each or not noise.margin.normal or problem.layout.shown):
        return f"the page supports only normal noise, and here it is {noise.name}."
    if k > MOST_ALTERNATIVES:
        return f"the page supports at most {MOST_ALTERNATIVES} alternatives, and the fit has {k}."
    if len(fit.values) > MOST_PARAMETERS:
        return (
            f"the page supports at most {MOST_PARAMETERS} estimates, and the fit has "
            f"{len(fit.values)}."
        )
    if not np.isfinite(fit.values).all():
        return "some of its estimates are not numbers."
    scales = problem.layout.central_scales(fit.values)
    if k > 2 and nodes_wanted(scales) > MOST_NODES:
        return (
            f"its scales run from {scales.min():.3g} to {scales.max():.3g}, which needs too many "
            "integration points for a browser."
        )
    return None

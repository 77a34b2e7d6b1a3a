"""Residuals of models in which most outcomes were not observed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.likelihoods import Batch, row_terms
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["generalised_residuals", "refuse_dependent_noise", "row_residuals"]

Array = NDArray[np.float64]


def generalised_residuals(fit: FitResult) -> pd.DataFrame:
    r"""Return what each row is expected to say of each alternative's noise, (n, k).

    That is :math:`e_{ij} = E[(y_{ij} - \mu_{ij})/\sigma_j \mid \text{row } i]`: the standardised
    residual where j was chosen, and a truncated mean where it was not. Under the model its mean
    is zero at any covariates.
    """
    refuse_dependent_noise(fit.problem)
    natural = fit.problem.layout.natural(fit.solution.free)
    values = fit.engine_of_rows().collect(partial(row_residuals, fit.problem, natural))
    columns = pd.Index(fit.problem.equations.alternatives, name="alternative")
    return pd.DataFrame(values, index=fit.row_labels, columns=columns)


def refuse_dependent_noise(problem: Problem) -> None:
    """Refuse a known covariance, integrated by draws without residuals, and a selection's noise."""
    if problem.noise.method != "ml":
        raise UnsupportedError(
            "Two-step estimates do not maximise a likelihood. Use method='ml' for residuals."
        )
    if problem.noise.selected and problem.equations.n_alternatives > 1:
        raise UnsupportedError(
            "With a selection equation there are no residuals of every alternative: no row shows "
            "two outcomes, so their correlation is not identified."
        )
    if not (problem.noise.independent or problem.noise.joint or problem.noise.selected):
        raise UnsupportedError(
            f"Residuals are not known where noise is {problem.noise.name}: use noises.Correlated "
            "with fixed scales and correlations."
        )


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the mean (n, k) of each alternative's noise given the row, in units of its scale."""
    return row_terms(problem, natural, batch).residual

"""Residuals of models in which most outcomes were not seen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.kernels.status import UNKNOWN
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.problem.evaluation import Batch, joint_rows, score_blocks
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["generalised_residuals", "refuse_dependent_noise", "row_residuals"]

Array = NDArray[np.float64]


def generalised_residuals(fit: FitResult) -> pd.DataFrame:
    r"""Return what each row is expected to say of each alternative's noise, (n, k).

    That is :math:`e_{ij} = E[(y_{ij} - \mu_{ij})/\sigma_j \mid \text{row } i]`: the standardised
    residual where j was seen, and a truncated mean where it was not. Under the model its mean is
    zero at any covariates, whoever was seen.
    """
    refuse_dependent_noise(fit.problem)
    natural = fit.problem.layout.natural(fit.solution.free)
    values = fit.engine_of_rows().collect(partial(row_residuals, fit.problem, natural))
    columns = pd.Index(fit.problem.equations.alternatives, name="alternative")
    return pd.DataFrame(values, index=fit.row_labels, columns=columns)


def refuse_dependent_noise(problem: Problem) -> None:
    """Refuse noise under which one alternative's residual cannot be told from the others'."""
    if not isinstance(problem.noise, Independent | Correlated | SharedShock):
        raise UnsupportedError(
            f"Residuals are known for independent noise, not where it is {problem.noise.name}."
        )


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Divide the scores by the design: along a mean, each is residual times covariates."""
    if problem.joint:
        return joint_rows(problem, natural, batch).residual
    if problem.concave and (batch.observation.status > UNKNOWN).any():
        raise UnsupportedError(
            "Residuals are known where each outcome that was not seen lies in an interval of its "
            f"own, not where {problem.rule.name}."
        )
    residuals = np.empty((len(batch), problem.equations.n_alternatives))
    blocks = score_blocks(problem, natural, batch)
    for j, (equation, block) in enumerate(zip(problem.equations.each, blocks, strict=True)):
        design = problem.units.design(batch.rows.covariates, equation.columns)
        along = block[:, : design.shape[1]]
        size = np.einsum("ij,ij->i", design, design)
        product = np.einsum("ij,ij->i", design, along)
        residuals[:, j] = np.divide(product, size, out=np.zeros_like(size), where=size > 0)
    return residuals

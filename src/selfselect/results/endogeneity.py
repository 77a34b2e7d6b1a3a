"""What a fit with endogenous covariates says of their first stages, and of exogeneity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.data.first_stage import FirstStage, residual_name
from selfselect.errors import UnsupportedError
from selfselect.inference.statistics import TestResult

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult
    from selfselect.results.fit_result import FitResult

__all__ = ["exogeneity_test", "first_stages", "say_first_stages", "with_residuals"]

WEAK = 10.0
"""F below which instruments are called weak: the rule of thumb of Staiger and Stock (1997), made
for linear models with one endogenous covariate. It was not measured for these."""


def first_stages(fit: FitResult | MultinomialResult) -> tuple[FirstStage, ...]:
    """Return the first stages of a fit; none where all covariates are exogenous."""
    found: tuple[FirstStage, ...] = getattr(fit.coding, "first_stages", ())
    return found


def _asked(fit: FitResult) -> tuple[FirstStage, ...]:
    stages = first_stages(fit)
    if not stages:
        raise UnsupportedError(
            "All covariates of this fit are taken as exogenous. Name others when fitting: "
            "sample_selection(..., endogenous={'x': '~ z'})."
        )
    return stages


def exogeneity_test(fit: FitResult) -> TestResult:
    """Test that the residuals of the first stages are in no equation."""
    names = [residual_name(one.column) for one in _asked(fit)]
    which = [place for place, (_, term) in enumerate(fit.reported.labels) if term in names]
    found = fit.wald_test(np.eye(len(fit.reported.labels))[which])
    columns = ", ".join(one.column for one in first_stages(fit))
    verb = "are" if len(names) > 1 else "is"
    return replace(
        found, name="Wald test of exogeneity", null=f"{columns} {verb} unrelated to all noises"
    )


def with_residuals(fit: FitResult, data: Any) -> pd.DataFrame:
    """Return a table with the residuals of the first stages in columns of their own."""
    for stage in _asked(fit):
        data = stage.with_residual(data)
    found: pd.DataFrame = data
    return found


def say_first_stages(fit: FitResult) -> list[str]:
    """Say how strong instruments are, and whether covariates may be exogenous."""
    stages = first_stages(fit)
    if not stages:
        return []
    said = []
    for one in stages:
        law = f"F({len(one.instruments)}, {one.df_residual:g}) = {one.statistic:.4g}"
        sentence = f"First stage of {one.column}: {', '.join(one.instruments)}; {law}"
        if one.statistic < WEAK:
            sentence += ", weak: below 10 (Staiger and Stock 1997). Intervals are unreliable"
        said.append(f"{sentence}.")
        if one.two_values:
            said.append(
                f"{one.column} has two values: its first stage is linear, so its residual is not "
                "normal, as the estimates assume. A treatment of two values has a model of its "
                "own: selfselect.switching(..., shared='slopes')."
            )
    said.append(f"{exogeneity_test(fit)}.".replace("..", "."))
    if fit.method == "ml":
        said.append(
            "The first stage is least squares, and the likelihood is conditional on its "
            "residuals, as are likelihood-ratio tests and profile intervals."
        )
    return said

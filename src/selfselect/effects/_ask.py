"""Asking the model: a function of the cells, averaged over rows or at profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.effects._averages import (
    Averages,
    average,
    average_of_fit,
    check_covariates_word,
    transform,
)
from selfselect.effects._moments import Cells, Setting, cells
from selfselect.effects._profiles import make_profiles
from selfselect.effects._sample import code_rows, sample_of
from selfselect.effects.base import (
    NUMBERS,
    TOO_LARGE,
    doubts,
    how_averaged,
    key_name,
    only_estimation,
)
from selfselect.results.levels import asked_logarithm

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Answer", "ask"]


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found.

    Attributes
    ----------
    found : estimates; those of the first profile first, where there are profiles.
    points : the profiles' values, one row each; one row without columns for an average.
    warnings, notes : for the table.
    """

    found: Averages
    points: pd.DataFrame
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def keys(self, **own: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the key columns: the profiles' values, then the effect's own for each."""
        size = len(next(iter(own.values())))
        taken = {*own, *NUMBERS}
        repeated = {
            key_name(str(name), taken): list(np.repeat(self.points[name], size))
            for name in self.points
        }
        return repeated | {name: list(values) * len(self.points) for name, values in own.items()}


def ask(
    fit: FitResult,
    function: Callable[[Cells], Any],
    *,
    data: Any = None,
    at: Any = None,
    covariates: str = "sampled",
    scale: str = "model",
) -> Answer:
    """Evaluate a smooth function of the cells.

    Parameters
    ----------
    fit : estimates.
    function : from averaged cells to a vector; sums, products and quotients only.
    data : rows to average over; None for those of the fit.
    at : None to average; else what `make_profiles` takes.
    covariates : ``"sampled"`` or ``"fixed"``.
    scale : ``"model"``, or ``"level"`` where a logarithm was modelled.
    """
    check_covariates_word(covariates)
    logarithm = asked_logarithm(fit, scale)
    k, rule = fit.problem.equations.n_alternatives, fit.problem.ordered_rule

    def of_vector(vector: Any) -> Any:
        return function(cells(vector, k))

    if at is None:
        sample = sample_of(fit, data)
        if sample.own:
            found = average_of_fit(fit, covariates=covariates, logarithm=logarithm)
        else:
            settings = [Setting(sample.rows, rule, logarithm)]
            found = average(fit, settings, own=False, covariates=covariates)
        note = how_averaged(fit, len(sample.rows), covariates, own=sample.own)
        return Answer(
            transform(found, of_vector),
            pd.DataFrame(index=range(1)),
            (*doubts(fit, levels=logarithm is not None), *sample.warnings),
            (note,),
        )
    profiles = make_profiles(fit, at, data)
    rows = code_rows(fit, profiles.table)
    # Values far outside of the data may have levels that overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        averages = [
            average(
                fit,
                [Setting(rows.take(slice(i, i + 1)), rule, logarithm)],
                own=False,
                covariates="fixed",
            )
            for i in range(len(rows))
        ]
    each = [transform(one, of_vector) for one in averages]
    overflows = logarithm is not None and not all(
        np.isfinite(cells(one.mean, k).mean).all() for one in averages
    )
    jacobian = np.vstack([one.jacobian for one in each])
    found = Averages(
        np.concatenate([one.mean for one in each]),
        jacobian @ fit.covariance.matrix @ jacobian.T,
        jacobian,
    )
    warnings = (*doubts(fit, levels=logarithm is not None), *profiles.warnings)
    notes = (profiles.sentence, only_estimation(fit), *((TOO_LARGE,) if overflows else ()))
    return Answer(found, profiles.points, warnings, notes)

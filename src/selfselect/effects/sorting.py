"""Sorting: whether alternatives are chosen where they do well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._ask import ask, refuse_undetermined
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import EffectTable, effect_table
from selfselect.errors import UnsupportedError
from selfselect.options import Covariates

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


QUANTITIES = (
    "share",
    "advantage by covariates",
    "advantage by noise",
    "comparative advantage",
    "covariance of choice and gain",
)


def sorting(
    fit: FitResult, data: Any = None, *, level: float = 0.95, covariates: Covariates = "sampled"
) -> EffectTable:
    r"""Return, per alternative, how those who chose it differ from everyone.

    The advantage of those who chose g is :math:`E[y_g | g] - E[y_g]`: by covariates,
    :math:`E[\mu_g | g] - E[\mu_g]`, and by noise, :math:`E[y_g - \mu_g | g]`. Their comparative
    advantage subtracts their advantage in the other alternatives: with :math:`\bar y_{-g}` the mean
    of the other outcomes and the gain :math:`d_g = y_g - \bar y_{-g}`, it is :math:`E[d_g | g] -
    E[d_g]`, and times the share of g that is the covariance of choice and gain. For two
    alternatives the gain is the difference of the two.

    Parameters
    ----------
    fit : a fitted model.
    data, level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> table = result.sorting().table.set_index(["alternative", "quantity"])
    >>> bool(table.loc[("hunting", "advantage by noise"), "conf_low"] > 0)
    True
    """
    refuse_undetermined(fit, "Sorting")
    labels = fit.problem.equations.alternatives
    k = len(labels)
    if k < 2:
        raise UnsupportedError(
            "Sorting compares alternatives, and sample selection has one outcome. Use "
            "potential_outcomes for its mean among all and among the selected."
        )
    contrast = np.eye(k) - (1.0 - np.eye(k)) / (k - 1)

    def quantities(cells: AverageCells) -> Any:
        found = []
        for g in range(k):
            here, predicted = cells.outcome_in(g), cells.predicted_in(g)
            comparative = contrast[g] @ (here - cells.mean)
            found += [
                cells.chance[g],
                predicted[g] - cells.mean[g],
                here[g] - predicted[g],
                comparative,
                cells.chance[g] * comparative,
            ]
        return np.array(found)

    answer = ask(fit, quantities, data=data, covariates=covariates, needed=range(k))
    return effect_table(
        "Sorting: is each alternative chosen where it does well?",
        answer.keys(
            alternative=[label for label in labels for _ in QUANTITIES],
            quantity=list(QUANTITIES) * k,
        ),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=answer.warnings,
        notes=(
            *answer.notes,
            "Advantages are relative to the mean of everyone; the gain is an alternative's "
            "outcome less the mean of the others'.",
        ),
        share=[quantity == "share" for _ in labels for quantity in QUANTITIES],
    )

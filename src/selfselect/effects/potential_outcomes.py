"""Potential outcomes by group: what hunters would earn fishing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._averages import ask, visiting
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import EffectTable, effect_table, key_name, outcome_name
from selfselect.options import Covariates, Scale
from selfselect.results.averaged_rows import asked_logarithm

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


EVERYONE = "everyone"


def potential_outcomes(
    fit: FitResult,
    data: Any = None,
    *,
    at: Any = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
    types: str = "visiting",
) -> EffectTable:
    r"""Return the mean of every outcome, among all and among those who choose each alternative.

    A row belongs to the group of alternative g with its probability of choosing it:
    :math:`E[y_l \mid g] = \sum_i E[y_{il}; g] / \sum_i P_i(g)`. This is the mean over all who would
    choose g, not only over those who did.

    Parameters
    ----------
    fit : a fitted model.
    data, at, level, covariates, scale : see `selfselect.effects`.
    types : under `noises.Types`, where some types hardly ever choose an alternative, whether to
        average over those that do, ``"visiting"``, or over ``"all"``, whose outcomes the data do
        not determine.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.potential_outcomes().table[["group", "alternative"]].iloc[2].tolist()
    ['fishing', 'fishing']
    """
    labels = fit.problem.equations.alternatives

    def means(cells: AverageCells) -> Any:
        groups = [cells.outcome_in(group) for group in range(len(labels))]
        return np.concatenate([cells.mean, *groups])

    fit, said = visiting(fit, range(len(labels)), types)
    answer = ask(
        fit, means, data=data, at=at, covariates=covariates, scale=scale, needed=range(len(labels))
    )
    logarithm = asked_logarithm(fit, scale)
    groups = [group for group in (key_name(EVERYONE, labels), *labels) for _ in labels]
    return effect_table(
        f"Mean {outcome_name(fit, scale)} by group and alternative",
        answer.keys(group=groups, alternative=list(labels) * (1 + len(labels))),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=(*said, *answer.warnings),
        notes=(*answer.notes, "A group is everyone who would choose that alternative."),
        above=-np.inf if logarithm is None else -logarithm.offset,
    )

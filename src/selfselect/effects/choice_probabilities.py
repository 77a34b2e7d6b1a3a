"""Choice probabilities: the chance that each alternative is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selfselect.effects._averages import ask
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import EffectTable, effect_table
from selfselect.options import Covariates

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def choice_probabilities(
    fit: FitResult,
    data: Any = None,
    *,
    at: Any = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
) -> EffectTable:
    """Return the chance that each alternative is chosen, on average or at given covariates.

    Parameters
    ----------
    fit : a fitted model.
    data, at, level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> table = result.choice_probabilities(at={"height": [160, 180]}).table
    >>> table.groupby("height")["estimate"].sum().round(6).tolist()
    [1.0, 1.0]
    """

    def chances(cells: AverageCells) -> Any:
        return cells.chance

    answer = ask(fit, chances, data=data, at=at, covariates=covariates)
    return effect_table(
        "Chance that each alternative is chosen",
        answer.keys(alternative=fit.problem.equations.alternatives),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=answer.warnings,
        notes=answer.notes,
        share=True,
    )

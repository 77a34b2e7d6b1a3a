"""Heterogeneity: how those who choose an alternative differ in each outcome, and in its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._ask import ask, refuse_undetermined
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import EffectTable, effect_table, outcome_name
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.options import Covariates, Scale

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def heterogeneity(
    fit: FitResult,
    to: Any,
    versus: Any,
    data: Any = None,
    *,
    at: Any = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
) -> EffectTable:
    r"""Return mean outcomes of those who choose `to` and of those who do not, and all differences.

    There are two outcomes and their difference, the effect, in two groups and their difference:
    ``of="effect"`` has ATT, ATU and ATT - ATU; the group ``"difference"`` is the advantage of those
    who choose `to` in either alternative. R's endoSwitch prints this table, as do Di Falco,
    Veronesi and Yesuf (2011).

    Parameters
    ----------
    fit : a fitted model.
    to, versus : labels of two alternatives.
    data, at, level, covariates, scale : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> table = result.heterogeneity("hunting", "fishing").table
    >>> table.loc[table["of"] == "effect", "group"].tolist()
    ['hunting chosen', 'hunting not chosen', 'difference']
    """
    refuse_undetermined(fit, "Heterogeneity")
    a, b = two_alternatives(fit, to, versus)

    def parts(cells: AverageCells) -> Any:
        both = np.array([a, b])
        groups = [cells.outcome_in(a)[both], cells.outcome_outside(a)[both]]
        groups.append(groups[0] - groups[1])
        return np.concatenate([np.append(one, one[0] - one[1]) for one in groups])

    answer = ask(fit, parts, data=data, at=at, covariates=covariates, scale=scale, needed=(a, b))
    groups = [f"{to} chosen", f"{to} not chosen", "difference"]
    return effect_table(
        f"Mean {outcome_name(fit, scale)} of those who choose {to} and of those who do not",
        answer.keys(
            group=[group for group in groups for _ in range(3)], of=[to, versus, "effect"] * 3
        ),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=answer.warnings,
        notes=(*answer.notes, "The effect in the three groups: ATT, ATU and ATT - ATU."),
    )

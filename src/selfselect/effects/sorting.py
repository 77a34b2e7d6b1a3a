"""Sorting: whether alternatives are chosen where they do well, and who chooses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._averages import ask
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import EffectTable, effect_table, outcome_name, refuse_undetermined
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.errors import UnsupportedError
from selfselect.options import Covariates, Scale

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

"""Treatment effects: one alternative instead of another, for everyone, those in it, those not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._ask import ask
from selfselect.effects._moments import Cells
from selfselect.effects.base import EffectTable, alternative_index, effect_table
from selfselect.errors import OptionError, UnsupportedError
from selfselect.options import Covariates

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["treatment_effects", "two_alternatives"]


def two_alternatives(fit: FitResult, to: Any, versus: Any) -> tuple[int, int]:
    """Return the positions of two different alternatives."""
    if fit.problem.equations.n_alternatives == 1:
        raise UnsupportedError(
            "Sample selection has one outcome, so there is nothing to compare it with. Its mean "
            "among all and among the selected: potential_outcomes."
        )
    one, other = alternative_index(fit, to), alternative_index(fit, versus)
    if one == other:
        raise OptionError(f"{to!r} is compared with itself. Give two different alternatives.")
    return one, other


def treatment_effects(
    fit: FitResult,
    to: Any,
    versus: Any,
    data: Any = None,
    *,
    at: Any = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
) -> EffectTable:
    r"""Return the mean gain :math:`y_{to} - y_{versus}` over groups.

    ATE is over everyone, ATT over those who choose `to`, ATU over those who do not. With p the
    share that chooses `to`, :math:`ATE = p\,ATT + (1 - p)\,ATU` for any number of alternatives.

    Parameters
    ----------
    fit : a fitted model.
    to, versus : labels of two alternatives.
    data, at, level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.treatment_effects("hunting", "fishing").table["effect"].tolist()
    ['ATE', 'ATT', 'ATU']
    """
    a, b = two_alternatives(fit, to, versus)

    def effects(cells: Cells) -> Any:
        everyone = cells.mean[a] - cells.mean[b]
        treated = cells.outcome[a, a] - cells.outcome[b, a]
        share = cells.chance[a]
        return np.array([everyone, treated / share, (everyone - treated) / (1.0 - share)])

    answer = ask(fit, effects, data=data, at=at, covariates=covariates)
    groups = ["everyone", f"{to} chosen", f"{to} not chosen"]
    return effect_table(
        f"Effect of {to} instead of {versus} on {fit.problem.equations.outcome}",
        answer.keys(effect=["ATE", "ATT", "ATU"], group=groups),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=answer.warnings,
        notes=answer.notes,
        tested=True,
    )

"""Treatment effects: one alternative instead of another, for everyone, those in it, those not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.effects._averages import ask, average_means, visiting
from selfselect.effects._moments import AverageCells
from selfselect.effects.base import (
    NOTHING_LEFT,
    PER_CENT,
    EffectTable,
    HasProblem,
    alternative_index,
    effect_table,
    outcome_name,
    transform,
)
from selfselect.errors import OptionError, UnsupportedError
from selfselect.options import Covariates, Scale
from selfselect.results.averaged_rows import sample_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


def two_alternatives(fit: HasProblem, to: Any, versus: Any) -> tuple[int, int]:
    """Return the positions of two different alternatives."""
    if fit.problem.equations.n_alternatives == 1:
        raise UnsupportedError(
            "Sample selection has one outcome, so there is nothing to compare it with. Use "
            "potential_outcomes for its mean among all and among the selected."
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
    scale: Scale = "model",
    types: str = "visiting",
) -> EffectTable:
    r"""Return the mean gain :math:`y_{to} - y_{versus}` over groups.

    ATE is over everyone, ATT over those who choose `to`, ATU over those who do not. With p the
    share that chooses `to`, :math:`ATE = p\,ATT + (1 - p)\,ATU` for any number of alternatives.

    With ``scale="level"`` effects are also given in per cent of the mean of `versus` in the same
    group. Intervals and tests of per cents are computed for the logarithm of the ratio of the two
    means and transformed back, so that none goes below -100 per cent.

    Parameters
    ----------
    fit : a fitted model.
    to, versus : labels of two alternatives.
    data, at, level, covariates, scale : see `selfselect.effects`.
    types : under `noises.Types`, where some types hardly ever choose an alternative, whether to
        average over those that do, ``"visiting"``, or over ``"all"``, whose outcomes the data do
        not determine.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.treatment_effects("hunting", "fishing").table["effect"].tolist()
    ['ATE', 'ATT', 'ATU']
    """
    a, b = two_alternatives(fit, to, versus)

    def effects(cells: AverageCells) -> Any:
        means = np.stack([cells.mean, cells.outcome_in(a), cells.outcome_outside(a)])
        found = means[:, a] - means[:, b]
        if scale == "model":
            return found
        return np.concatenate([found, 100.0 * found / means[:, b]])

    given, (fit, said) = fit, visiting(fit, (a, b), types)
    answer = ask(fit, effects, data=data, at=at, covariates=covariates, scale=scale, needed=(a, b))
    everyone = "everyone" if fit is given else "all of those types"
    groups = [everyone, f"{to} chosen", f"{to} not chosen"]
    outcome = outcome_name(fit, scale)
    above: Any = -np.inf
    own: dict[str, list[Any]] = {"effect": ["ATE", "ATT", "ATU"], "group": groups}
    if scale == "level":
        own = {"unit": [outcome] * 3 + [PER_CENT] * 3} | {key: own[key] * 2 for key in own}
        above = np.tile(np.repeat([-np.inf, NOTHING_LEFT], 3), len(answer.points))
    made = effect_table(
        f"Effect of {to} instead of {versus} on {outcome}",
        answer.keys(**own),
        answer.found,
        level=level,
        df=fit.covariance.df,
        warnings=(*said, *answer.warnings),
        notes=answer.notes,
        tested=True,
        above=above,
    )
    if scale == "model" or at is not None:
        return made
    return replace(made, notes=(*_in_words(made, to, versus, outcome), *made.notes))


def average_effect(fit: FitResult, to: Any, versus: Any, *, level: float) -> EffectTable:
    """Return the ATE over the rows of a fit, and nothing else.

    It is the difference of two mean outcomes, whoever chooses what, so that nothing is integrated.
    Not for noise that is mixed: means then depend on which types there are.
    """
    a, b = two_alternatives(fit, to, versus)
    means = average_means(fit, sample_of(fit, None, needed=(a, b)).rows, covariates="sampled")
    return effect_table(
        f"Effect of {to} instead of {versus} on {outcome_name(fit, 'model')}",
        {"effect": ["ATE"], "group": ["everyone"]},
        transform(means, lambda vector: vector[[a]] - vector[[b]]),
        level=level,
        df=fit.covariance.df,
        warnings=(),
        notes=(),
        tested=True,
    )


def _in_words(made: EffectTable, to: Any, versus: Any, outcome: str) -> list[str]:
    """Say effects in per cent of what `versus` would give the same group."""
    among = {"ATT": f"those who choose {to}", "ATU": f"those who do not choose {to}"}
    said = []
    for row in made.table[made.table["unit"] == PER_CENT].itertuples():
        size: Any = row.estimate
        moves = "raises" if size >= 0 else "lowers"
        whom = among.get(str(row.effect), str(row.group))
        ends = f"{row.conf_low:.1f} to {row.conf_high:.1f}"
        said.append(
            f"{to} instead of {versus} {moves} the mean of {outcome} by {abs(size):.1f} per cent "
            f"for {whom} ({100 * made.level:g}% interval of the change: {ends})."
        )
    return said

"""Decomposition of the gap between two alternatives' mean outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.rows import Rows
from selfselect.effects._ask import ask
from selfselect.effects._averages import Averages
from selfselect.effects._moments import Cells
from selfselect.effects.base import EffectTable, alternative_index, effect_table
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.errors import OptionError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["BOTH", "decompose"]

BOTH = "both"
"""The reference that weighs both groups alike."""


def decompose(
    fit: FitResult,
    to: Any,
    versus: Any,
    *,
    reference: Any = BOTH,
    level: float = 0.95,
    covariates: str = "sampled",
) -> EffectTable:
    r"""Decompose the naive gap between those seen in two alternatives.

    With :math:`\mu_l = x_l'w_l` and means among those seen in a or b,

    .. math:: E[y_a|a] - E[y_b|b] = \underbrace{E[\mu_r|a] - E[\mu_r|b]}_{\text{covariates}} +
       \underbrace{E[\mu_a - \mu_b|q]}_{\text{pay}} +
       \underbrace{E[y_a - \mu_a|a] - E[y_b - \mu_b|b]}_{\text{selection}}.

    What the two groups' covariates explain is valued at the equation r, and what the alternatives
    pay is taken over the other group q. ``reference=BOTH`` averages both ways (r = a with q = b,
    r = b with q = a). Selection is what remains at equal covariates: those seen in an alternative
    were lucky or able there.

    Parameters
    ----------
    fit : a fitted model, with its rows.
    to, versus : labels of the alternatives a and b.
    reference : ``"both"``, or the label whose equation values the covariates.
    level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.decompose("hunting", "fishing").table["part"].tolist()[:3]
    ['covariates', 'pay', 'selection']
    """
    a, b = two_alternatives(fit, to, versus)
    weight_a = 0.5
    if not (isinstance(reference, str) and reference == BOTH):
        chosen = alternative_index(fit, reference)
        if chosen not in (a, b):
            raise OptionError(
                f"reference={reference!r} is neither {to!r} nor {versus!r}. Use one of them, or "
                "'both' to average both ways."
            )
        weight_a = 1.0 if chosen == a else 0.0

    def parts(cells: Cells) -> Any:
        in_a, in_b = cells.predicted_in(a), cells.predicted_in(b)
        explained = weight_a * (in_a[a] - in_b[a]) + (1.0 - weight_a) * (in_a[b] - in_b[b])
        pay = weight_a * (in_b[a] - in_b[b]) + (1.0 - weight_a) * (in_a[a] - in_a[b])
        gap = cells.outcome_in(a)[a] - cells.outcome_in(b)[b]
        return np.array([explained, pay, gap - explained - pay, gap])

    answer = ask(fit, parts, covariates=covariates)
    found, names = answer.found, ["covariates", "pay", "selection", "gap under the model"]
    notes = [*answer.notes, _explanation(to, versus, weight_a)]
    if fit.rows.chosen is not None:
        gap, variance = _recorded_gap(fit.rows, a, b)
        found = _with_recorded(found, gap, variance)
        names += ["gap in the data", "not reproduced"]
        notes.append(
            "The model need not reproduce the gap in the data exactly; what it leaves is no part "
            "of the decomposition and has no standard error here."
        )
    return effect_table(
        f"Gap in mean {fit.problem.equations.outcome} between those seen in {to} and in {versus}",
        answer.keys(part=names),
        found,
        level=level,
        warnings=answer.warnings,
        notes=notes,
        tested=True,
    )


def _explanation(to: Any, versus: Any, weight_a: float) -> str:
    if weight_a == 0.5:
        return "Covariates are valued by both equations, and pay over both groups, averaged."
    own, other = (to, versus) if weight_a == 1.0 else (versus, to)
    return f"Covariates are valued by the equation of {own}, and pay over those seen in {other}."


def _recorded_gap(rows: Rows, a: int, b: int) -> tuple[float, float]:
    """Return the difference of the groups' recorded means, and its variance."""
    assert rows.chosen is not None and rows.outcome is not None
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    gap, variance = 0.0, 0.0
    for group, sign in ((a, 1.0), (b, -1.0)):
        own = rows.chosen == group
        outcome, weight = rows.outcome[own], weights[own]
        mean = float(np.average(outcome, weights=weight))
        gap += sign * mean
        variance += float((weight**2 @ (outcome - mean) ** 2) / weight.sum() ** 2)
    return gap, variance


def _with_recorded(found: Averages, gap: float, variance: float) -> Averages:
    size = len(found.mean)
    covariance = np.full((size + 2, size + 2), np.nan)
    covariance[:size, :size] = found.covariance
    covariance[size, size] = variance
    return Averages(
        np.concatenate([found.mean, [gap, gap - found.mean[-1]]]),
        covariance,
        np.vstack([found.jacobian, np.full((2, found.jacobian.shape[1]), np.nan)]),
    )

"""Decomposition of the gap between two alternatives' mean outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._averages import ask, variances_beside
from selfselect.effects._moments import AverageCells, cells
from selfselect.effects.base import (
    Averages,
    EffectTable,
    alternative_index,
    effect_table,
    refuse_undetermined,
)
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.errors import OptionError
from selfselect.options import Covariates
from selfselect.results.averaged_rows import sample_of
from selfselect.results.tables import counted

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

BOTH = "both"
"""The reference that weighs both groups alike."""


def decompose(
    fit: FitResult,
    to: Any,
    versus: Any,
    *,
    reference: Any = BOTH,
    level: float = 0.95,
    covariates: Covariates = "sampled",
) -> EffectTable:
    r"""Decompose the naive gap between those who chose either of two alternatives.

    With :math:`\mu_l = x_l'w_l` and means among those who choose a or b,

    .. math:: E[y_a|a] - E[y_b|b] = \underbrace{E[\mu_r|a] - E[\mu_r|b]}_{\text{covariates}} +
       \underbrace{E[\mu_a - \mu_b|q]}_{\text{pay}} +
       \underbrace{E[y_a - \mu_a|a] - E[y_b - \mu_b|b]}_{\text{selection}}.

    The difference of the groups' covariates is valued by the equation r, and the difference in pay
    is averaged over the other group q. ``reference="both"`` averages both ways: r = a with q = b,
    and r = b with q = a. Selection is what remains at equal covariates: those who choose an
    alternative have large noise there.

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
    refuse_undetermined(fit, "A decomposition")
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

    def parts(cells: AverageCells) -> Any:
        in_a, in_b = cells.predicted_in(a), cells.predicted_in(b)
        explained = weight_a * (in_a[a] - in_b[a]) + (1.0 - weight_a) * (in_a[b] - in_b[b])
        pay = weight_a * (in_b[a] - in_b[b]) + (1.0 - weight_a) * (in_a[a] - in_a[b])
        gap = cells.outcome_in(a)[a] - cells.outcome_in(b)[b]
        return np.array([explained, pay, gap - explained - pay, gap])

    fit.engine_of_rows()  # Recorded outcomes are compared, so that other rows would not do.
    answer = ask(fit, parts, covariates=covariates, needed=(a, b))
    rows = sample_of(fit, None, needed=(a, b)).rows
    found, names = answer.found, ["covariates", "pay", "selection", "gap under the model"]
    notes = [*answer.notes, _explanation(to, versus, weight_a)]
    n_silent = _n_silent(rows, a, b)
    if n_silent:
        notes.append(
            f"The gap in the data is not known: {counted(n_silent)} of those who chose {to} or "
            f"{versus} without a recorded outcome."
        )
    elif rows.chosen is not None:
        found = _beside_the_data(fit, rows, found, a, b)
        names += ["gap in the data", "not reproduced"]
        notes.append(
            "The model need not reproduce the gap in the data exactly; if the remainder is "
            "larger than sampling error, the model does not fit."
        )
    return effect_table(
        f"Gap in mean {fit.problem.equations.outcome} between those who chose {to} and {versus}",
        answer.keys(part=names),
        found,
        level=level,
        df=fit.covariance.df,
        warnings=answer.warnings,
        notes=notes,
        tested=True,
    )


def _explanation(to: Any, versus: Any, weight_a: float) -> str:
    if weight_a == 0.5:
        return (
            "Covariates are valued at the coefficients of both alternatives, and pay is averaged "
            "over both groups; the results are averaged."
        )
    own, other = (to, versus) if weight_a == 1.0 else (versus, to)
    return (
        f"Covariates are valued at the coefficients of {own}, and pay is averaged over those who "
        f"chose {other}."
    )


def _n_silent(rows: Rows, a: int, b: int) -> int:
    """Count the rows that chose either alternative and have no recorded outcome."""
    if rows.chosen is None or rows.outcome is None:
        return 0
    in_either = np.isin(rows.chosen, (a, b))
    if rows.weights is not None:
        in_either &= rows.weights > 0
    return int(np.isnan(rows.outcome[in_either]).sum())


def _beside_the_data(fit: FitResult, rows: Rows, found: Averages, a: int, b: int) -> Averages:
    """Add the gap between recorded means, and how far the model's is from it.

    Both are functions of the same rows, so the error of their difference is that of each row's
    share in the one less its share in the other.
    """
    k = fit.problem.equations.n_alternatives

    def model_gap(vector: Any) -> Any:
        here = cells(vector, k)
        return np.array([here.outcome_in(a)[a] - here.outcome_in(b)[b]])

    gap, shares = _recorded_gap(rows, a, b)
    size = len(found.mean)
    covariance = np.full((size + 2, size + 2), np.nan)
    covariance[:size, :size] = found.covariance
    of_gap, of_rest = variances_beside(fit, rows, model_gap, shares)
    covariance[size, size], covariance[size + 1, size + 1] = of_gap, of_rest
    return Averages(
        np.concatenate([found.mean, [gap, gap - found.mean[-1]]]),
        covariance,
        np.vstack([found.jacobian, np.full((2, found.jacobian.shape[1]), np.nan)]),
    )


def _recorded_gap(rows: Rows, a: int, b: int) -> tuple[float, Array]:
    """Return the difference of the groups' recorded means, and each row's share in its error."""
    assert rows.chosen is not None and rows.outcome is not None
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    gap, shares = 0.0, np.zeros(len(rows))
    for group, sign in ((a, 1.0), (b, -1.0)):
        weight = weights * (rows.chosen == group)
        own = weight > 0
        outcome, share = rows.outcome[own], weight[own] / weight.sum()
        mean = float(share @ outcome)
        gap += sign * mean
        shares[own] += sign * share * (outcome - mean)
    return gap, shares

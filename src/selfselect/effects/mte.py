"""Marginal treatment effects: gains by how much pushing it takes, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.random import SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._mte_normal import (
    NormalCurve,
    Support,
    changed_rows,
    find_support,
    propensity,
    treated_first,
)
from selfselect.effects.base import (
    Averages,
    EffectTable,
    check_covariates_word,
    doubts,
    effect_table,
)
from selfselect.effects.treatment_effects import treatment_effects
from selfselect.errors import OptionError, UnsupportedError
from selfselect.options import Covariates
from selfselect.results.averaged_rows import refuse_lacking, sample_of
from selfselect.results.tables import Tables
from selfselect.seeds import check_seed

if TYPE_CHECKING:
    from selfselect.effects._mte_polynomial import PolynomialCurve
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

GRID = np.round(np.arange(0.02, 0.981, 0.02), 2)
"""Resistances at which the curve is given."""

SLACK = 0.02
"""Share of an effect's weight that may lie outside the support of the propensity."""

GROUPS = {"ATE": (0.0, 1.0), "ATT": (0.0, None), "ATU": (None, 1.0)}
"""Each as a shift of everyone's propensity; None is the propensity itself."""


@dataclass(frozen=True, eq=False, repr=False)
class MarginalTreatment(Tables):
    """Marginal treatment effects of a switching regression.

    Attributes
    ----------
    effect : the curve: the mean gain of those at each resistance.
    averages : ATE, ATT and ATU as weighted means of the curve; missing where their weights leave
        the support and nothing but the data speaks there.
    support : propensities at which rows of both alternatives are found; None for a fit without
        rows.
    kind : ``"normal"`` or ``"polynomial"``.
    fit : the switching regression.
    curve : how effects of other shifts are computed.
    data : the rows that are averaged over and whom shifts move; None for those of the fit.
    """

    effect: EffectTable
    averages: EffectTable
    support: Support | None
    kind: str
    fit: FitResult
    curve: NormalCurve | PolynomialCurve
    data: Any = None

    @property
    def table(self) -> pd.DataFrame:
        """The tidy table of the curve."""
        return self.effect.table

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know first."""
        return self.effect.warnings

    def late(self, change: Mapping[str, Sequence[Any]], *, level: float = 0.95) -> EffectTable:
        """Return the mean gain of those whom a shift of instruments moves (LATE).

        Parameters
        ----------
        change : by column, its value before and after: ``{"college_near": (0, 1)}``. Columns of
            outcome equations are refused.
        level : of the interval.
        """
        if not isinstance(change, Mapping):
            raise OptionError(
                "A shift is given by columns and their values before and after, such as "
                f"{{'distance': (1, 0)}}, not {change!r}."
            )
        for name, ends in change.items():
            if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
                raise OptionError(
                    f"The shift of {name!r} is given by its values before and after, such as "
                    f"(0, 1), not {ends!r}."
                )
        before, after = (
            changed_rows(self.fit, {name: ends[place] for name, ends in change.items()}, self.data)
            for place in (0, 1)
        )
        return self._shifted("LATE", before, after, level)

    def policy(self, change: Mapping[str, Any], *, level: float = 0.95) -> EffectTable:
        """Return the mean gain per person that a policy moves, on balance (PRTE).

        Parameters
        ----------
        change : by column of the selection, its new values: one for all rows, one per row, or a
            function of the column: ``{"tuition": lambda tuition: tuition / 2}``. Columns of
            outcome equations are refused.
        level : of the interval.
        """
        before = sample_of(self.fit, self.data).rows
        return self._shifted("PRTE", before, changed_rows(self.fit, change, self.data), level)

    def _shifted(self, name: str, before: Rows, after: Rows, level: float) -> EffectTable:
        fit = self.fit
        early, late = self.curve.propensity(before), self.curve.propensity(after)
        weights = np.ones(len(before)) if before.weights is None else before.weights
        share = float(weights @ (late - early) / weights.sum())
        movers = weights @ np.abs(late - early) / weights.sum()
        if not movers > 0 or abs(share) < 1e-12:
            raise OptionError(
                "The change moves no one on balance, so there is no mean gain of those it moves."
            )
        support = self.support
        outside = 0.0 if support is None else support.outside(early, late, weights)
        notes = [
            f"The share of {_treated(fit)} moves by {share:+.4f}, from "
            f"{np.average(early, weights=weights):.4f} to {np.average(late, weights=weights):.4f}."
        ]
        if outside > SLACK:
            notes.append(_beyond(name, outside, support, self.kind))
            if self.kind == "polynomial":
                raise UnsupportedError(notes[-1])
        if movers - abs(share) > 1e-9:
            notes.append(
                "Some rows are moved towards it and some away: the effect is per net mover and "
                "is not the mean of a group."
            )
        return effect_table(
            f"{name} of {_treated(fit)} on {fit.problem.equations.outcome}",
            {"effect": [name]},
            self.curve.shift(before, after),
            level=level,
            df=fit.covariance.df,
            warnings=doubts(fit),
            notes=(*notes, _how(self)),
            tested=True,
        )

    def __str__(self) -> str:
        return f"{self.effect}\n{self.averages}"

    def _repr_html_(self) -> str:
        return self.effect._repr_html_() + self.averages._repr_html_()


def _beyond(name: str, outside: float, support: Support | None, kind: str) -> str:
    said = (
        f"{100 * outside:.1f}% of the weight of {name} lies outside the support of the propensity, "
        f"{support}: "
    )
    if kind == "polynomial":
        return said + "the data contain no information there, so it is not given."
    return said + "there it relies on normal noise alone."


def _treated(fit: FitResult) -> Any:
    return fit.problem.equations.alternatives[treated_first(fit)[0]]


def _how(found: MarginalTreatment) -> str:
    if isinstance(found.curve, NormalCurve):
        return (
            "Assumes normal noise; errors by the delta method "
            f"({found.fit.covariance.description})."
        )
    return found.curve.note


def mte(
    fit: FitResult,
    data: Any = None,
    *,
    kind: Literal["normal", "polynomial"] = "normal",
    degree: int = 3,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    replications: int = 499,
    seed: int = 0,
    progress: bool | None = None,
) -> MarginalTreatment:
    r"""Return the mean gain of those at each resistance to treatment.

    The alternative that the selection's index selects is the treatment. Rows are treated where
    their resistance v, uniform between 0 and 1, is below their propensity p, so
    :math:`MTE(x, v)` is the mean gain of those who are indifferent at p = v. A falling curve means
    that those who gain most are treated first.

    Parameters
    ----------
    fit : a fit of `selfselect.switching`.
    data : rows to average over, in `late` and `policy` too, for ``"normal"``; None for the rows
        of the fit.
    kind : ``"normal"``, by the noise of the fit; ``"polynomial"``, by local instrumental
        variables: outcomes are regressed on covariates, their products with the propensity of a
        probit, and a polynomial in it. Nothing is assumed of the noise's shape, and nothing is
        said outside of the support. Splines and products in the selection's formula make the
        propensity flexible.
    degree : of that polynomial, 2 or more; that of the curve is one less.
    replications, seed, progress : of the bootstrap, for ``"polynomial"``, whose intervals are
        percentiles; with fewer than 499 samples there are none. There are no standard errors.
    level, covariates : see `selfselect.effects`.

    Returns
    -------
    MarginalTreatment
        With the curve in ``table``, ATE, ATT and ATU in ``averages``, and ``late`` and ``policy``
        for shifts of the selection. `selfselect.plots.mte` draws it.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.switching("income ~ height", "job ~ height + weight", villagers)
    >>> found = result.mte()
    >>> found.averages.table["effect"].tolist()
    ['ATE', 'ATT', 'ATU']
    >>> found.late({"weight": (60, 70)}).table["effect"].tolist()
    ['LATE']
    """
    check_covariates_word(covariates)
    a, b = treated_first(fit)
    if kind not in ("normal", "polynomial"):
        raise OptionError(f"There is no kind {kind!r} of effects. Use 'normal' or 'polynomial'.")
    labels = fit.problem.equations.alternatives
    title = f"Marginal effect of {labels[a]} instead of {labels[b]} on "
    title += fit.problem.equations.outcome
    if kind == "normal":
        normal = NormalCurve(fit, data, covariates)
        found, warnings, notes = normal.at(GRID)
        support = find_support(fit)
        averages = treatment_effects(
            fit, labels[a], labels[b], data, level=level, covariates=covariates
        )
        averages = _noted(fit, averages, support, data)
        return MarginalTreatment(
            _curve_table(fit, title, GRID, found, support, level, warnings, notes),
            averages, support, kind, fit, normal, data,
        )  # fmt: skip
    if data is not None:
        raise OptionError(
            "Polynomial effects are averaged over the rows of the fit. Leave data out."
        )
    if fit.problem.equations.restricted:
        raise UnsupportedError(
            "Polynomial effects estimate all coefficients of both outcomes, and this fit has "
            "shared coefficients or offsets. Use kind='normal', or fit without them."
        )
    if fit.carried is not None:
        raise UnsupportedError(
            "The bootstrap of polynomial effects would leave out the error of the first stage of "
            "endogenous covariates. Use kind='normal'."
        )
    _check_whole("degree", degree, 2)
    _check_whole("replications", replications, 2)
    refuse_lacking(fit)
    from selfselect.effects._mte_polynomial import fit_polynomial

    curve = fit_polynomial(
        fit, degree=degree, replications=replications, covariates=covariates,
        seed=SeedSequence(check_seed(seed)), progress=progress,
    )  # fmt: skip
    support = find_support(fit, curve.propensity(fit.rows))
    assert support is not None
    grid = GRID[(support.low <= GRID) & (support.high >= GRID)]
    grid = grid if len(grid) else np.array([0.5 * (support.low + support.high)])
    notes = (
        f"A polynomial of degree {degree} in the propensity, on its support alone.",
        curve.note,
    )
    return MarginalTreatment(
        _curve_table(fit, title, grid, curve.at(grid), support, level, doubts(fit), notes),
        _polynomial_averages(fit, curve, support, level), support, kind, fit, curve,
    )  # fmt: skip


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise OptionError(f"{name}={value!r} is not possible. Give a whole number from {least} on.")


def _curve_table(
    fit: FitResult,
    title: str,
    grid: Array,
    found: Averages,
    support: Support | None,
    level: float,
    warnings: Sequence[str],
    notes: Sequence[str],
) -> EffectTable:
    keys: dict[str, Any] = {"resistance": grid}
    said = list(notes)
    if support is not None:
        inside = (grid >= support.low) & (grid <= support.high)
        keys = {"supported": np.where(inside, "yes", "no")} | keys
        said.insert(0, f"Rows of both alternatives are found at propensities from {support}.")
    return effect_table(
        title, keys, found, level=level, df=fit.covariance.df, warnings=warnings, notes=said,
        tested=True,
    )  # fmt: skip


def _outside(name: str, chances: Array, weights: Array, support: Support) -> float:
    ends = [chances if end is None else np.full(len(chances), end) for end in GROUPS[name]]
    return support.outside(ends[0], ends[1], weights)


def _noted(
    fit: FitResult, averages: EffectTable, support: Support | None, data: Any
) -> EffectTable:
    """Say how much of each mean rests on normal noise alone."""
    if support is None:
        return averages
    rows = sample_of(fit, data).rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    chances = propensity(fit, rows)
    said = []
    for name in GROUPS:
        outside = _outside(name, chances, weights, support)
        if outside > SLACK:
            said.append(_beyond(name, outside, support, "normal"))
    return replace(averages, notes=(*averages.notes, *said))


def _polynomial_averages(
    fit: FitResult, curve: PolynomialCurve, support: Support, level: float
) -> EffectTable:
    chances = curve.propensity(fit.rows)
    weights = np.ones(len(chances)) if fit.rows.weights is None else fit.rows.weights
    means, notes = np.full(3, np.nan), []
    draws = np.full((len(curve.kept), 3), np.nan)
    for place, (name, (low, high)) in enumerate(GROUPS.items()):
        outside = _outside(name, chances, weights, support)
        if outside > SLACK:
            notes.append(_beyond(name, outside, support, "polynomial"))
            continue
        found = curve.shift(low, high)
        assert found.draws is not None
        means[place], draws[:, place] = found.mean[0], found.draws[:, 0]
    treated, other = (fit.problem.equations.alternatives[i] for i in treated_first(fit))
    made = effect_table(
        f"Effect of {treated} instead of {other} on {fit.problem.equations.outcome}",
        {
            "effect": list(GROUPS),
            "group": ["everyone", f"{treated} chosen", f"{treated} not chosen"],
        },
        Averages(means, np.full((3, 3), np.nan), np.full((3, len(fit.values)), np.nan), draws),
        level=level,
        df=fit.covariance.df,
        warnings=doubts(fit),
        notes=(),
        tested=True,
    )
    return replace(made, notes=(*notes, curve.note))

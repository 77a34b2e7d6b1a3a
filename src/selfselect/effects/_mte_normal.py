"""Propensities, and marginal treatment effects under normal noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.build import in_order_of_rows
from selfselect.data.rows import Rows
from selfselect.effects._averages import ask, average, beside_parameters
from selfselect.effects._moments import Setting, cells, n_cells
from selfselect.effects.base import Averages, transform
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.moments.choose import moments_of
from selfselect.results.averaged_rows import code_rows, raw_table

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Changes of the propensity, and how much of them the data supports.


def treated_first(fit: FitResult) -> tuple[int, int]:
    """Return the positions of the alternative that the index selects, and of the other."""
    k = fit.problem.equations.n_alternatives
    need = "Marginal treatment effects need a selection between two alternatives by an equation"
    if not fit.problem.noise.selected:
        raise UnsupportedError(
            f"{need} of its own, and in this fit the outcomes decide. Fit it with "
            "selfselect.switching."
        )
    if k == 1:
        raise UnsupportedError(
            f"{need}, and sample selection has one outcome, so there is nothing to compare it "
            "with. Use potential_outcomes for its mean among all and among the selected."
        )
    if k > 2:
        raise UnsupportedError(
            f"{need}, and this one is between {k}, by order. Use treatment_effects for each pair, "
            "or join alternatives until there are two, without `ordered`."
        )
    if fit.problem.ordered_rule.has_cuts:
        raise UnsupportedError(
            "Marginal treatment effects need a selection towards one of two alternatives, and this "
            "one is by order. Leave `ordered` out: with two alternatives it is the same model."
        )
    first = fit.problem.equations.alternatives.index(fit.problem.ordered_rule.towards)
    return first, 1 - first


def propensity(fit: FitResult, rows: Rows, reported: Array | None = None) -> Array:
    """Return each row's chance (n,) of the alternative that the index selects."""
    values = fit.values if reported is None else reported
    chance = moments_of(fit.problem).chances(values, rows)
    return np.asarray(chance[:, treated_first(fit)[0]])


@dataclass(frozen=True)
class Support:
    """Propensities at which rows of both alternatives are found.

    Attributes
    ----------
    low, high : its ends.
    """

    low: float
    high: float

    def outside(self, before: Array, after: Array, weights: Array) -> float:
        """Return which share of shifts of the propensity, from one to the other, lies outside."""
        low, high = np.minimum(before, after), np.maximum(before, after)
        inside = np.clip(np.minimum(high, self.high) - np.maximum(low, self.low), 0.0, None)
        total = float(weights @ (high - low))
        return 1.0 - float(weights @ inside) / total if total > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.low:.3f} to {self.high:.3f}"


def find_support(fit: FitResult, chances: Array | None = None) -> Support | None:
    """Return the support in the rows of a fit; None where it has no rows."""
    if not fit.has_rows:
        return None
    rows = fit.rows
    assert rows.chosen is not None
    chances = propensity(fit, rows) if chances is None else chances
    counted = np.ones(len(rows), bool) if rows.weights is None else rows.weights > 0
    own = [chances[counted & (rows.chosen == place)] for place in treated_first(fit)]
    low, high = (float(max(map(np.min, own))), float(min(map(np.max, own))))
    if not low < high:
        raise UnsupportedError(
            "No propensity is found in rows of both alternatives, so treated and untreated rows "
            "cannot be compared. The selection separates them."
        )
    return Support(low, high)


def changed_rows(fit: FitResult, change: Mapping[str, Any], data: Any = None) -> Rows:
    """Code rows with some columns changed.

    Parameters
    ----------
    fit : whose coding and selection are meant.
    change : by column, a value for all rows, one per row, or a function of the column. Columns of
        outcome equations are refused: their effect on outcomes is no effect of selection.
    data : the rows; None for those of the fit.
    """
    if not isinstance(change, Mapping) or not change:
        raise OptionError(
            "A change is given by columns, such as {'distance': 0} or "
            "{'distance': lambda column: column / 2}."
        )
    coding: Any = fit.coding
    own = {name for place in coding.coder_of for name in coding.coders[place].kinds}
    equations = fit.problem.equations
    own |= {equations.covariates[one.columns[-1] - 1] for one in equations.each if one.has_offset}
    possible = [name for name in coding.coders[0].kinds if name not in own]
    table = raw_table(fit, data)
    made = {}
    for name, value in change.items():
        if name not in possible:
            why = "is in an outcome equation" if name in own else "is in no equation"
            there = ", ".join(map(repr, possible)) or "none"
            raise OptionError(
                f"{name!r} {why}. Only columns of the selection alone may change: {there}."
            )
        made[name] = _new_column(table[name], value)
    rows = code_rows(fit, table.assign(**made))
    if data is not None:
        return rows
    return replace(rows, weights=fit.rows.weights, clusters=fit.rows.clusters)


def _new_column(column: pd.Series[Any], value: Any) -> pd.Series[Any]:
    found: Any = value(column) if callable(value) else value
    if np.ndim(found) == 0:
        found = [found] * len(column)
    if isinstance(found, pd.Series):
        found = in_order_of_rows(found, column.index, str(column.name))
    if len(found) != len(column):
        raise DataError(
            f"The change of {column.name!r} has {len(found)} values for {len(column)} rows. Give "
            "one per row, one for all, or a function of the column."
        )
    made = pd.Series(list(found), index=column.index, name=column.name)
    if made.isna().any():
        raise DataError(
            f"The change of {column.name!r} makes it missing in {int(made.isna().sum())} of "
            f"{len(made)} rows. Give every row a value."
        )
    return made


# Marginal treatment effects of a switching regression with normal noise, in closed form.
#
# With p the propensity and the resistance v uniform, :math:`D = 1` where :math:`v < p`, and
#
# .. math:: MTE(x, v) = x'(b_1 - b_0) - c\,\Phi^{-1}(v), \qquad c = \rho_1 s_1 - \rho_0 s_0.
#
# The effect of a shift of the propensity is the change of the mean observed outcome over that of
# the share treated.


@dataclass(frozen=True, eq=False)
class NormalCurve:
    """Marginal treatment effects by the normal noise of the fit.

    Attributes
    ----------
    fit : a switching regression.
    data : rows to average over; None for those of the fit.
    covariates : ``"sampled"`` or ``"fixed"``.
    """

    fit: FitResult
    data: Any
    covariates: str

    def propensity(self, rows: Rows) -> Array:
        """Return each row's propensity (n,)."""
        return propensity(self.fit, rows)

    def at(self, resistance: Array) -> tuple[Averages, tuple[str, ...], tuple[str, ...]]:
        """Return the effects at resistances, what to doubt, and what was averaged."""
        a, b = treated_first(self.fit)

        def gain(found: Any) -> Any:
            return np.array([found.mean[a] - found.mean[b]])

        answer = ask(self.fit, gain, data=self.data, covariates=self.covariates)
        slope, by_slope = self._selection_on_gains()
        if self.data is None:
            both = beside_parameters(
                self.fit,
                lambda vector: gain(cells(vector, 2)),
                np.array([slope]),
                by_slope[None, :],
                covariates=self.covariates,
            )
        else:
            jacobian = np.vstack([answer.found.jacobian, by_slope])
            covariance = jacobian @ self.fit.covariance.matrix @ jacobian.T
            covariance[0, 0] = answer.found.covariance[0, 0]
            both = Averages(np.append(answer.found.mean, slope), covariance, jacobian)
        points = self.fit.problem.noise.margin.quantile(resistance)
        weights = np.column_stack([np.ones_like(points), -points])
        made = Averages(
            weights @ both.mean, weights @ both.covariance @ weights.T, weights @ both.jacobian
        )
        return made, answer.warnings, answer.notes

    def _selection_on_gains(self) -> tuple[float, Array]:
        """Return c and its derivatives (m,) in the reported parameters."""
        fit = self.fit
        layout, noise = fit.problem.layout, fit.problem.noise
        a, b = treated_first(fit)
        found: Any = noise.with_selection(  # type: ignore[attr-defined]
            layout.scales_of(fit.values), layout.extras_of(fit.values)
        )
        slope = np.zeros(len(fit.values))
        extras = layout.reported_extras[: layout.n_noise_extras]
        for place, sign in ((a, 1.0), (b, -1.0)):
            slope[layout.reported_scales[place]] += sign * found.by_scale[place]
            slope[extras] += sign * found.by_extra[place]
        return float(found.value[a] - found.value[b]), slope

    def shift(self, before: Rows, after: Rows) -> Averages:
        """Return the effect on those who are moved by a change of the selection."""
        a, _ = treated_first(self.fit)
        k, rule = 2, self.fit.problem.ordered_rule
        found = average(
            self.fit,
            [Setting(after, rule), Setting(before, rule)],
            own=self.data is None,
            covariates=self.covariates,
        )

        def effect(vector: Any) -> Any:
            late, early = cells(vector[: n_cells(k)], k), cells(vector[n_cells(k) :], k)
            moved = late.chance[a] - early.chance[a]
            return np.array([(late.observed - early.observed) / moved])

        return transform(found, effect)

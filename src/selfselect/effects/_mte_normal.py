r"""Marginal treatment effects of a switching regression with normal noise, in closed form.

With p the propensity and the resistance v uniform, :math:`D = 1` where :math:`v < p`, and

.. math:: MTE(x, v) = x'(b_1 - b_0) - c\,\Phi^{-1}(v), \qquad c = \rho_1 s_1 - \rho_0 s_0.

The effect of a shift of the propensity is the change of the mean observed outcome over that of the
share treated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._ask import ask
from selfselect.effects._averages import Averages, average, beside_parameters, transform
from selfselect.effects._moments import Setting, cells, n_cells
from selfselect.effects._propensity import propensity, treated_first

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["NormalCurve"]

Array = NDArray[np.float64]


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

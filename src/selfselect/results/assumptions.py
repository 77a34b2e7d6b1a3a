"""The assumptions of the theory, measured on a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from selfselect.data.equations import INTERCEPT

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Assumption", "Assumptions", "assumptions"]


@dataclass(frozen=True)
class Assumption:
    """One quantity of the theory: its name, value, whether it is met, and what it means."""

    name: str
    value: float
    met: bool
    sentence: str


@dataclass(frozen=True)
class Assumptions:
    """What the theory assumes, as measured on a fit."""

    each: tuple[Assumption, ...]

    def __getitem__(self, name: str) -> float:
        return {one.name: one.value for one in self.each}[name]

    def __str__(self) -> str:
        mark = {True: "  ", False: "! "}
        return "\n".join(mark[one.met] + one.sentence for one in self.each)


def assumptions(fit: FitResult) -> Assumptions:
    r"""Measure the assumptions of the theory on a fit.

    B bounds the coefficients. Δ is the largest number for which the separability assumption (A)
    of the unknown index holds, :math:`|w_i'w_j|/|w_j| + \Delta \le |w_j|` for all i and j. The
    smallest share says how often the rarest alternative is seen. Slopes are taken in units of the
    noise scale and of one standard deviation of their covariate, so that the numbers do not
    depend on the user's units.

    Examples
    --------
    >>> import selfselect as ss
    >>> sample = ss.simulators.gaussian(2_000, 2, 2, norm=2.0, seed=1)
    >>> result = ss.fit("outcome ~ x1 + x2", sample.data, alternatives=2)
    >>> ss.assumptions(result)["B"] > 1
    True
    """
    slopes = _standardised_slopes(fit)
    lengths = np.linalg.norm(slopes, axis=1)
    bound = float(lengths.max())
    cosines = np.abs(slopes @ slopes.T) / np.maximum(lengths[None, :], np.finfo(float).tiny)
    margins = lengths[None, :] - cosines
    np.fill_diagonal(margins, np.inf)
    separation = float(margins.min())
    smallest = float(fit.shares.min())
    return Assumptions(
        (
            Assumption(
                "B", bound, np.isfinite(bound),
                f"B = {bound:.3g}: the longest vector of slopes, in units of its noise scale.",
            ),
            Assumption(
                "Delta", separation, separation > 0,
                f"Δ = {separation:.3g}: "
                + (
                    "assumption (A) holds."
                    if separation > 0
                    else "assumption (A) fails, so Theorem 3 promises nothing for NetSearch; "
                    "maximum likelihood does not need it."
                ),
            ),
            Assumption(
                "smallest share", smallest, smallest >= 0.02,
                f"The rarest alternative is seen in {100 * smallest:.2g}% of the rows.",
            ),
        )
    )  # fmt: skip


def _standardised_slopes(fit: FitResult) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the slopes (k, D) over all covariates, zero where an equation leaves one out."""
    equations, units = fit.problem.equations, fit.problem.units
    scales = fit.problem.layout.scales_of(fit.values)
    slopes = np.zeros((equations.n_alternatives, len(equations.covariates)))
    coefficients = fit.problem.layout.coefficients_of(fit.values)
    for j, (equation, own) in enumerate(zip(equations.each, coefficients, strict=True)):
        for term, column, value in zip(equation.terms, equation.columns, own, strict=True):
            if term != INTERCEPT:
                slopes[j, column - 1] += value * units.unit[column] / scales[j]
    return slopes

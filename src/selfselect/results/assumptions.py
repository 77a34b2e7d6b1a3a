"""What the theorems assume, measured, also before a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT
from selfselect.data.rows import counted_rows
from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.choose import moments_of
from selfselect.problem.problem import Problem
from selfselect.results.diagnosis import RARE_SHARE, THIN, mass_quantiles
from selfselect.results.memberships import expected_shares
from selfselect.results.refit import Posed
from selfselect.solvers.paper.base import Normality, measure_normality

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# What the known-index theorem assumes, measured: survival, boundedness, thickness.


SAMPLE = 2_000
"""Rows whose chances are integrated for the thickness."""


@dataclass(frozen=True, eq=False)
class Survival:
    """The quantities of Assumptions 1 and 2 of the theory.

    Attributes
    ----------
    longest, typical : length of the covariate vector, constant included: largest, and root mean
        square, in standard deviations of the covariates.
    conditioning : smallest eigenvalue of their mean square, over all equations.
    masses : mass of the explaining sets at the 0, 1, 5 and 50% quantiles.
    thickness, thinnest : smallest eigenvalue of the mean of P(chosen | x) x x', and whose it is.
    """

    longest: float
    typical: float
    conditioning: float
    masses: tuple[float, float, float, float]
    thickness: float
    thinnest: object


def measure_survival(problem: Problem, engine: Engine, free: Array) -> Survival:
    """Measure what the theorem assumes on a sample of the rows, at given free parameters."""
    rows = counted_rows(engine.sample(SAMPLE, np.random.default_rng(0)).rows)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    chance = moments_of(problem).chances(problem.layout.report(free).values, rows)
    lengths, conditioning, thickness = [], [], []
    for j, design in enumerate(problem.designs(rows)):
        lengths.append(np.einsum("np,np->n", design, design))
        conditioning.append(_smallest(design, weights, 1.0))
        thickness.append(_smallest(design, weights, chance[:, j]))
    squares = np.max(lengths, axis=0)
    natural = problem.layout.natural(free)
    masses = mass_quantiles(problem, engine, natural, [0.0, 0.01, 0.05, 0.5])
    thinnest = int(np.argmin(thickness))
    return Survival(
        longest=float(np.sqrt(squares.max())),
        typical=float(np.sqrt(np.average(squares, weights=weights))),
        conditioning=min(conditioning),
        masses=tuple(masses.tolist()),
        thickness=thickness[thinnest],
        thinnest=problem.equations.alternatives[thinnest],
    )


def _smallest(design: Array, weights: Array, chance: Array | float) -> float:
    gram = design.T @ (design * (weights * chance)[:, None]) / weights.sum()
    return float(max(np.linalg.eigvalsh(gram)[0], 0.0))


# The assumptions of the theory, measured on a fit.


FAR = 10.0
"""Times the typical length of a covariate vector beyond which a row is out on its own."""

SMALL_MASS = 1e-6
"""Mass of explaining sets at the 5% quantile below which the choices contradict the model."""


@dataclass(frozen=True)
class Assumption:
    """One quantity of the theory: its name, value, whether it is met, and what it means."""

    name: str
    value: float
    met: bool
    sentence: str


@dataclass(frozen=True, repr=False)
class Assumptions:
    """What the theory assumes, as measured on a fit."""

    each: tuple[Assumption, ...]
    note: str = ""

    def __getitem__(self, name: str) -> float:
        return {one.name: one.value for one in self.each}[name]

    def __repr__(self) -> str:
        n_missed = sum(not one.met for one in self.each)
        return f"<Assumptions: {len(self.each)} measured, {n_missed} not met; print it to read>"

    def __str__(self) -> str:
        mark = {True: "  ", False: "! "}
        lines = [mark[one.met] + one.sentence for one in self.each]
        return "\n".join(lines + [self.note] * bool(self.note))

    def _repr_html_(self) -> str:
        from selfselect.report.page import Page

        worry = tuple(one.sentence for one in self.each if not one.met)
        notes = tuple(one.sentence for one in self.each if one.met) + (self.note,) * bool(self.note)
        return Page("Assumptions of the theory", worry, (), (), notes).to_html()


GUESSED = (
    "Measured at least squares on the rows in which each alternative was chosen, which selection "
    "biases: a first look. Measure again on the fit."
)


def assumptions(fit: FitResult | Posed, params: Any = None) -> Assumptions:
    r"""Measure the assumptions of the theory, each with a verdict.

    For a fit they are measured at its estimates. Before a fit (`selfselect.pose`) they are measured
    at `params`, or else at least squares on the rows in which each alternative was chosen, which is
    only a first look.

    B bounds the coefficients. Slopes are taken in units of the noise scale and of one standard
    deviation of their covariate, so that the numbers do not depend on the user's units.

    With an unknown index, Δ is the largest number for which the separability assumption (A)
    holds, :math:`|w_i'w_j|/|w_j| + \Delta \le |w_j|` for all i and j. Covariates are standard
    normal in Definition 4: slopes, those of B too, are then of the covariates after a linear map
    that makes them uncorrelated, with variance one. Tested are the mean (where there is no
    intercept), skewness and fourth moments of all of them together, after that map.

    With a known index (Theorem 1): C bounds the covariates; every alternative is chosen with
    probability at least α/k; explaining sets have mass at least α. The smallest mass goes to zero
    as rows become many, under any model, so quantiles are given. The thickness is the smallest
    eigenvalue of the mean of :math:`P(j \text{ chosen} \mid x)\,xx'`: what the proof needs of
    shares and covariates together.

    Parameters
    ----------
    fit : the result of a fit that has its rows, or what `selfselect.pose` returns.
    params : coefficients (and scales, where they are to be estimated) to measure at, labelled and
        in the user's units as `FitResult.params`; None for the estimates, or a first guess.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> 0 < ss.assumptions(result)["thickness"] < 1
    True
    """
    if not hasattr(fit, "engine_of_rows"):
        raise OptionError(
            f"The assumptions are measured on rows, and {type(fit).__name__} holds none. Give the "
            "result of selfselect.fit, or of selfselect.pose, which puts a problem and its rows "
            "together without a fit."
        )
    if fit.problem.noise.selected:
        raise UnsupportedError(
            "The theorems are about self-selection by outcomes; this fit has a selection "
            "equation. result.diagnose() says what its data determines."
        )
    problem, engine, note = fit.problem, fit.engine_of_rows(), ""
    if params is not None:
        free = _read(problem, params)
    elif isinstance(fit, Posed):
        free, note = fit.first_guess(), GUESSED
    else:
        free = fit.solution.free
    slopes = _standardised_slopes(problem, free)
    unknown = problem.index == "unknown"
    if unknown:
        normality = measure_normality(problem, engine)
        slopes = _of_uncorrelated(slopes, normality.covariance)
    bound = float(np.linalg.norm(slopes, axis=1).max())
    shares = np.array(fit.facts.counts, dtype=float)
    shares = shares / shares.sum() if shares.size else expected_shares(problem, engine, free)
    smallest = float(shares.min())
    if unknown:
        of_index = (*_unknown(slopes), _normal(normality))
    else:
        of_index = _known(measure_survival(problem, engine, free), len(shares), smallest)
    return Assumptions(
        (
            Assumption(
                "B", bound, bool(np.isfinite(bound)),
                f"B = {bound:.3g}: the longest vector of slopes, in units of its noise scale.",
            ),
            *of_index,
            Assumption(
                "smallest share", smallest, smallest >= RARE_SHARE,
                f"The rarest alternative is chosen in {100 * smallest:.2g}% of the rows.",
            ),
            *_shape(problem),
        ),
        note,
    )  # fmt: skip


def _shape(problem: Problem) -> tuple[Assumption, ...]:
    """Say where the noise is not the normal one of the theory."""
    shape = problem.noise.margin
    if shape.normal:
        return ()
    sentence = f"The noise is {shape.name}; the theorems assume normal noise."
    return (Assumption("normal noise", 0.0, False, sentence),)


def _read(problem: Problem, params: Any) -> Array:
    """Return the free parameters of coefficients labelled as a fit labels them."""
    labels = problem.layout.report(np.ones(problem.layout.n_free)).labels
    given = params.to_dict() if hasattr(params, "to_dict") else dict(params)
    lacking = [label for label in labels if label not in given]
    if lacking:
        raise OptionError(
            f"params has no {lacking[0]!r}. Label coefficients by alternative and term, as "
            f"FitResult.params does: {', '.join(map(repr, labels[:3]))}, and so on."
        )
    values = np.array([float(given[label]) for label in labels])
    if not np.isfinite(values).all():
        raise OptionError("params has numbers that are not finite.")
    return problem.layout.read(values)


def _unknown(slopes: Array) -> tuple[Assumption, ...]:
    lengths = np.linalg.norm(slopes, axis=1)
    cosines = np.abs(slopes @ slopes.T) / np.maximum(lengths[None, :], np.finfo(float).tiny)
    margins = lengths[None, :] - cosines
    np.fill_diagonal(margins, np.inf)
    separation = float(margins.min())
    verdict = (
        "assumption (A) holds."
        if separation > 0
        else "assumption (A) fails, so Theorem 3 promises nothing for NetSearch; maximum "
        "likelihood does not need it."
    )
    return (Assumption("Delta", separation, separation > 0, f"Δ = {separation:.3g}: {verdict}"),)


def _normal(found: Normality) -> Assumption:
    """Say whether covariates are standard normal after a linear map (Definition 4)."""
    sentence = (
        f"The covariates look normal (smallest p = {found.smallest:.2g}), as Definition 4 assumes."
    )
    if found.rejected:
        sentence = (
            f"The covariates are not standard normal, as Definition 4 assumes: rejected are their "
            f"{' and '.join(found.rejected)} (smallest p = {found.smallest:.2g}). TwoModels, "
            "MinVariance and NetSearch rest on it; maximum likelihood does not."
        )
    return Assumption("normal covariates", found.smallest, not found.rejected, sentence)


def _known(found: Survival, k: int, smallest: float) -> tuple[Assumption, ...]:
    lowest, low, low5, middle = found.masses
    far = found.longest > FAR * found.typical
    return (
        Assumption(
            "C", found.longest, not far,
            f"C = {found.longest:.3g}: the longest vector of covariates, in standard deviations; "
            f"{found.typical:.3g} is typical."
            + (" One row has covariates far from all others: look at it." if far else ""),
        ),
        Assumption(
            "conditioning", found.conditioning, found.conditioning > THIN,
            f"The smallest eigenvalue of X'X/n is {found.conditioning:.3g}, in standard "
            "deviations; the theory scales covariates so that it is one.",
        ),
        Assumption(
            "alpha (share)", k * smallest, smallest >= RARE_SHARE,
            f"α = {k * smallest:.3g} by shares: the rarest alternative is chosen with probability "
            "α/k.",
        ),
        Assumption(
            "alpha (mass)", low5, low5 >= SMALL_MASS,
            f"α = {low5:.2g} by the mass of explaining sets in all but 5% of the rows ({low:.2g} "
            f"in all but 1%, {lowest:.2g} at least, {middle:.2g} in the median row).",
        ),
        Assumption(
            "thickness", found.thickness, found.thickness >= THIN,
            f"The thickness is {found.thickness:.2g}, of {found.thinnest!r}"
            + (
                "."
                if found.thickness >= THIN
                else ": it is hardly ever chosen in some direction of its covariates, and weakly "
                "determined there."
            ),
        ),
    )  # fmt: skip


def _standardised_slopes(problem: Problem, free: Array) -> Array:
    """Return the slopes (k, p) of the covariates that equations have, zero where one lacks it."""
    equations, units = problem.equations, problem.units
    values = problem.layout.report(free).values
    scales = problem.layout.central_scales(values)
    slopes = np.zeros((equations.n_alternatives, len(equations.covariates)))
    used = sorted({c - 1 for one in equations.each for c in one.columns if c})
    coefficients = problem.layout.coefficients_of(values)
    for j, (equation, own) in enumerate(zip(equations.each, coefficients, strict=True)):
        for term, column, value in zip(equation.terms, equation.columns, own, strict=True):
            if term != INTERCEPT:
                slopes[j, column - 1] += value * units.unit[column] / scales[j]
    return slopes[:, used]


def _of_uncorrelated(slopes: Array, covariance: Array) -> Array:
    """Return slopes of covariates that a linear map made uncorrelated, with variance one."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(slopes @ (vectors * np.sqrt(np.maximum(values, 0.0))))

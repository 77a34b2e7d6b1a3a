"""Where solvers start: least squares that ignores selection, and a check for collinearity."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.checks import refuse_unshown
from selfselect.data.equations import INTERCEPT, Equation
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.problem.batch import Batch, Parts
from selfselect.problem.grams import sum_grams
from selfselect.problem.problem import Problem
from selfselect.problem.ties import Ties

__all__ = [
    "any_deficient",
    "gram_matrices",
    "is_deficient",
    "least_squares_start",
    "refuse_collinear",
    "refuse_dependent",
    "refuse_dependent_spreads",
    "spread_grams",
]

Array = NDArray[np.float64]

SINGULAR = 1e-11
"""Smallest eigenvalue of a scaled Gram matrix taken for more than rounding: columns that agree
to five or six digits still count as different."""


def gram_matrices(problem: Problem, engine: Engine) -> list[Array]:
    """Return Z'Z per alternative over all rows, Z = [covariates, outcome] in internal units."""
    return list(engine.sum(partial(sum_grams, problem)))


def least_squares_start(problem: Problem, grams: list[Array]) -> Array:
    """Return free parameters of least squares on all rows, as if each were observed everywhere."""
    layout = problem.layout
    natural = np.empty(layout.n_natural)
    natural[layout.starts[-1] :] = layout.extra_starts
    pooled = None if layout.ties is None else _pooled_least_squares(layout.ties, grams)
    weight = max(gram[0, 0] for gram in grams) if problem.equations.all_have_intercepts else None
    solved: dict[int, Any] = {}
    for j, gram in enumerate(grams):
        size = layout.sizes[j]
        if pooled is None:
            # Most often all alternatives have one matrix.
            if id(gram) not in solved:
                solved[id(gram)] = np.linalg.lstsq(
                    gram[:size, :size], gram[:size, size], rcond=1e-10
                )[0]
            coefficients = solved[id(gram)]
            left_over = gram[size, size] - coefficients @ gram[:size, size]
        else:
            coefficients = pooled[j]
            direction = np.append(-coefficients, 1.0)
            left_over = direction @ gram @ direction
        spread = left_over / weight if weight else left_over / gram[size, size]
        h = 1.0 / np.sqrt(max(float(spread), 1e-8))
        if layout.scales is not None:
            h = problem.units.outcome_unit / layout.scales[j]
        natural[layout.starts[j] : layout.inverse_scale_positions[j]] = coefficients * h
        natural[layout.inverse_scale_positions[j]] = h
    return layout.gather(natural)


def _pooled_least_squares(ties: Ties, grams: list[Array]) -> list[Array]:
    """Return each alternative's coefficients by least squares under the shared coefficients."""
    total, towards = ties.gather_grams(grams)
    u: Any = np.linalg.lstsq(total, towards, rcond=1e-10)[0]
    every = ties.coefficients(u)
    return [every[ties.alternative == j] for j in range(len(grams))]


def any_deficient(problem: Problem, grams: list[Array]) -> bool:
    """Say whether covariates of an equation, or of all that share coefficients, are dependent."""
    if problem.layout.ties is None:
        return any(map(is_deficient, {id(gram): gram for gram in grams}.values()))
    return is_deficient(_with_outcome(problem.layout.ties.gather_grams(grams)[0]))


def is_deficient(gram: Array) -> bool:
    """Say whether the covariates of a Gram matrix (outcome last) are linearly dependent."""
    scaled, _ = _scaled(gram[:-1, :-1])
    return bool(scaled.size) and float(np.linalg.eigvalsh(scaled)[0]) < SINGULAR


def refuse_collinear(problem: Problem, grams: list[Array]) -> None:
    """Raise an error that names the covariates that depend linearly on each other."""
    ties = problem.layout.ties
    if ties is not None:
        total = ties.gather_grams(grams)[0]
        if is_deficient(_with_outcome(total)):
            scaled, length = _scaled(total)
            direction = np.abs(np.linalg.eigh(scaled)[1][:, 0])
            involved = (direction > 0.05 * direction.max()) | (length == 0)
            names = [
                f"{alternative}:{term}"
                for (alternative, term), used in zip(ties.labels, involved, strict=True)
                if used
            ]
            raise DataError(
                f"The coefficients {', '.join(names)} cannot be told apart: as they are shared, "
                "the covariates behind them are collinear or do not vary. Leave one of the terms "
                "out, or share less."
            )
        return
    for equation, gram in zip(problem.equations.each, grams, strict=True):
        refuse_dependent(equation, gram)


def refuse_dependent(equation: Equation, gram: Array) -> None:
    """Refuse an equation whose covariates, by their Gram matrix (outcome last), are dependent."""
    if not is_deficient(gram):
        return
    scaled, size = _scaled(gram[:-1, :-1])
    direction = np.linalg.eigh(scaled)[1][:, 0]
    involved = np.abs(direction) > 0.05 * np.abs(direction).max()
    names = [name for name, used in zip(equation.terms, involved, strict=True) if used]
    label = equation.alternative
    zero = [name for name, length in zip(equation.terms, size, strict=True) if length == 0]
    constant = [name for name in names if name != INTERCEPT]
    refuse_unshown(label, zero or constant)
    if zero:
        raise DataError(
            f"The covariate {zero[0]!r} of {label!r} is zero in every row. Leave it out."
        )
    if INTERCEPT in names and len(constant) == 1:
        raise DataError(
            f"The covariate {constant[0]!r} of {label!r} does not vary, so it cannot be told "
            "from the intercept. Leave it out, or write '- 1' to leave the intercept out."
        )
    raise DataError(
        f"The covariates {', '.join(map(repr, names))} of {label!r} are collinear: each is a "
        "linear combination of the others, so their coefficients cannot be told apart. Leave "
        "one of them out."
    )


def refuse_dependent_spreads(problem: Problem, part: Engine, engine: Engine) -> None:
    """Refuse log scales whose covariates are dependent; a sample is looked at first."""
    if not problem.layout.spreads:
        return
    task = partial(spread_grams, problem)
    # Full rank on a sample proves full rank on all rows.
    if not any(is_deficient(_with_outcome(gram)) for gram in part.sum(task)):
        return
    for spread, gram in zip(problem.layout.spreads, engine.sum(task), strict=True):
        if is_deficient(_with_outcome(gram)):
            direction = np.abs(np.linalg.eigh(_scaled(gram)[0])[1][:, 0])
            names = [INTERCEPT, *(term for term in spread.terms if term != INTERCEPT)]
            both = zip(names, direction, strict=True)
            involved = [repr(name) for name, part in both if part > 0.05 * direction.max()]
            raise DataError(
                f"The terms {', '.join(involved)} of the log scale of {spread.alternative!r} "
                "cannot be told apart: one of them does not vary, or is a linear combination of "
                "the others. Leave it out of the scale's formula."
            )


def spread_grams(problem: Problem, batch: Batch) -> Parts:
    """Return Z'Z of every log scale that moves, its constant first."""
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    grams = []
    for z in problem.spread_designs(batch.rows):
        if z is not None:
            with_one = np.column_stack([np.ones(len(z)), z])
            grams.append(with_one.T @ (with_one * weights[:, None]))
    return Parts(grams)


def _with_outcome(gram: Array) -> Array:
    """Append a row and column in place of the outcome's."""
    return np.pad(gram, (0, 1))


def _scaled(gram: Array) -> tuple[Array, Array]:
    length = np.sqrt(np.diag(gram))
    safe = np.where(length > 0, length, 1.0)
    return gram / np.outer(safe, safe), length

"""Least squares that ignores selection, and what the data do not identify."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.columns import refuse_unshown
from selfselect.data.equations import INTERCEPT, Equation
from selfselect.engines.base import Engine
from selfselect.errors import DataError
from selfselect.problem.batch import Batch, Parts
from selfselect.problem.parameters import LOG_SCALE
from selfselect.problem.problem import Problem, sum_grams
from selfselect.problem.units import Ties
from selfselect.solvers.base import Ending, Status

Array = NDArray[np.float64]


# Where solvers start: least squares that ignores selection, and a check for collinearity.


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


# What the data leaves undetermined at the optimum: directions without information.


SUSPICIOUS = 1e-4
"""Information per row, in internal units, below which a closer look costs one more pass."""

LOST = 1e-6
"""Share of the information that complete data would hold, below which nothing was learnt."""

INFORMATION_NOT_FINITE = Ending(Status.NOT_FINITE, {"what": "information matrix"})


def undetermined(
    problem: Problem,
    engine: Engine,
    information: Array,
    *,
    lost: float = LOST,
    free: Array | None = None,
) -> Ending | None:
    """Return an ending that names a parameter without information, or None where there is none.

    A covariate that is nonzero only in rows where the alternative was not chosen has no finite
    estimate: the likelihood rises forever along it while its information fades. Compared is the
    information with that of complete data, in which every outcome is observed in every row:
    below the share `lost` of it, nothing was learnt. Where coefficients are shared, the free
    parameters say how much each alternative that shares them counts.
    """
    per_row = information / engine.n_rows
    if not np.isfinite(per_row).all():
        return INFORMATION_NOT_FINITE
    if float(np.linalg.eigvalsh(per_row)[0]) > SUSPICIOUS:
        return None
    layout, grams = problem.layout, gram_matrices(problem, engine)
    # A fit from a given start has not been checked, such as one of a bootstrap sample.
    refuse_collinear(problem, grams)
    if layout.spreads and layout.ties is None and free is not None:
        found = _undetermined_spread(problem, engine, information, free, lost)
        if found is not None:
            return found
    if layout.ties is not None:
        slopes = layout.ties.matrix
        if free is not None:
            slopes = layout.ties.slopes(layout.natural(free)[layout.inverse_scale_positions])
        complete = np.zeros((layout.ties.n_moved,) * 2)
        for j, gram in enumerate(grams):
            own = slopes[layout.ties.alternative == j]
            complete += own.T @ gram[:-1, :-1] @ own
        place = _lost_direction(information[: len(complete), : len(complete)], complete, lost)
        if place is None:
            return None
        alternative, term = layout.ties.labels[place]
        return Ending(Status.NO_FINITE_ESTIMATE, {"term": term, "alternative": alternative})
    for j, gram in enumerate(grams):
        own = layout.position[layout.starts[j] : layout.inverse_scale_positions[j]]
        place = _lost_direction(information[np.ix_(own, own)], gram[:-1, :-1], lost)
        if place is not None:
            equation = problem.equations.each[j]
            return Ending(
                Status.NO_FINITE_ESTIMATE,
                {"term": equation.terms[place], "alternative": equation.alternative},
            )
    return None


def _undetermined_spread(
    problem: Problem, engine: Engine, information: Array, free: Array, lost: float
) -> Ending | None:
    """Name a term of a log scale without information; a row of complete data would hold 2 zz'."""
    layout, natural = problem.layout, problem.layout.natural(free)
    grams = iter(engine.sum(partial(spread_grams, problem)))
    for j, spread in enumerate(layout.spread_of):
        if spread is None:
            continue
        # A log scale's constant moves along (g, h) itself, which leaves the means as they are.
        own = np.arange(layout.starts[j], layout.starts[j + 1])
        along = np.zeros((len(information), 1 + len(spread.places)))
        along[layout.position[own], 0] = -natural[own]
        along[layout.position[spread.places], 1 + np.arange(len(spread.places))] = 1.0
        place = _lost_direction(along.T @ information @ along, 2.0 * next(grams), lost)
        if place is not None:
            # A formula that has a constant names it first.
            names = {"term": f"{LOG_SCALE}{problem.equations.spreads[j].terms[place]}"}
            names["alternative"] = problem.equations.alternatives[j]
            return Ending(Status.NO_FINITE_ESTIMATE, names)
    return None


RIDGE = 1e-9
"""Smallest eigenvalue of the information, scaled to a unit diagonal, that is more than rounding."""


def ridge(problem: Problem, free: Array, information: Array) -> Ending | None:
    """Return an ending that names parameters which only together are determined, or None.

    Scales, correlations, loadings and costs may trade off against each other although each
    equation by itself is well determined.
    """
    if not np.isfinite(information).all():
        return INFORMATION_NOT_FINITE
    size = np.sqrt(np.maximum(np.diag(information), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    if values[0] > RIDGE:
        return None
    reported = problem.layout.report(free)
    moved = np.abs(reported.jacobian @ (vectors[:, 0] / size))
    relative = moved / np.maximum(np.abs(reported.values), 1e-300)
    most = np.argsort(-relative)[:3]
    names = ", ".join(f"{label}: {term}" for label, term in (reported.labels[i] for i in most))
    return Ending(Status.NOT_DETERMINED, {"parameters": names})


def never_chosen(problem: Problem, engine: Engine) -> Ending | None:
    """Return an ending that names a term which does not vary where its alternative was chosen.

    Its coefficient then rests on choices alone. Mostly the likelihood rises forever along it, and
    draws cannot tell a slope that fades from one that has ended.
    """
    chosen = engine.sum(partial(_chosen_grams, problem))
    for equation, everywhere, own in zip(
        problem.equations.each, gram_matrices(problem, engine), chosen, strict=True
    ):
        scale = 1.0 / np.sqrt(np.maximum(np.diag(everywhere)[:-1], 1e-300))
        values, vectors = np.linalg.eigh(own * np.outer(scale, scale))
        if values[0] < LOST * values[-1]:
            name = equation.terms[int(np.abs(vectors[:, 0]).argmax())]
            return Ending(Status.NEVER_CHOSEN, {"term": name, "alternative": equation.alternative})
    return None


def _chosen_grams(problem: Problem, batch: Batch) -> Parts:
    rows = batch.rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    parts = []
    for j, design in enumerate(problem.designs(rows)):
        parts.append(design.T @ (design * (weights * (rows.chosen == j))[:, None]))
    return Parts(parts)


def _lost_direction(information: Array, complete: Array, lost: float) -> int | None:
    """Return the parameter along which next to nothing of the complete information was held."""
    if not len(complete):
        return None
    scale = 1.0 / np.sqrt(np.diag(complete))
    root = np.linalg.cholesky(complete * np.outer(scale, scale))
    half = np.linalg.solve(root, information * np.outer(scale, scale))
    share, direction = np.linalg.eigh(np.linalg.solve(root, half.T))
    if share[0] >= lost:
        return None
    return int(np.abs(np.linalg.solve(root.T, direction[:, 0])).argmax())

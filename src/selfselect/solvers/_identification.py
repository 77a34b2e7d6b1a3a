"""What the data leaves undetermined at the optimum: directions without information."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from selfselect.engines.base import Engine, Parts
from selfselect.problem.batch import Batch
from selfselect.problem.parameters import LOG_SCALE
from selfselect.problem.problem import Problem
from selfselect.solvers._start import gram_matrices, refuse_collinear, spread_grams
from selfselect.solvers.status import Ending, Status

__all__ = ["never_chosen", "ridge", "undetermined"]

Array = NDArray[np.float64]

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

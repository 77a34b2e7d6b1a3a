"""Covariances of the estimates: observed information, robust, clustered, bootstrap.

All are returned in the free parameters; the results room carries them over to what users read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.inference.bootstrap import Bootstrap, bootstrap_covariance
from selfselect.problem.evaluation import Batch, score_blocks
from selfselect.problem.problem import Problem
from selfselect.solvers.base import Solution, Solver

__all__ = ["Covariance", "estimate_covariance"]

Array = NDArray[np.float64]

KINDS = ("observed", "robust", "clustered", "bootstrap")


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the reported parameters.

    Attributes
    ----------
    kind : observed, robust, clustered or bootstrap.
    description : a few words for summaries.
    matrix : (m, m) covariance of the reported parameters; nan where it cannot be had.
    """

    kind: str
    description: str
    matrix: Array


def estimate_covariance(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    *,
    kind: Any,
    clusters: NDArray[np.intp] | None,
    cluster_name: str | None,
    solver: Solver,
    rng: Generator,
    progress: bool | None,
) -> Covariance:
    """Estimate the covariance of the reported parameters.

    Parameters
    ----------
    problem, engine, solution : model, rows and estimate.
    kind : one of the words, or a `Bootstrap` with options.
    clusters : (n,) cluster of each row, or None.
    cluster_name : the name of the cluster column, for the description.
    solver : for the bootstrap's fits.
    """
    options = Bootstrap() if kind == "bootstrap" else kind
    if not isinstance(options, Bootstrap) and kind not in KINDS:
        raise OptionError(
            f"There is no covariance {kind!r}. Use one of {', '.join(KINDS)}, or "
            "selfselect.inference.Bootstrap(replications=...)."
        )
    if kind == "clustered" and clusters is None:
        raise OptionError(
            "covariance='clustered' needs to know the clusters. Give cluster='column'."
        )
    if isinstance(options, Bootstrap):
        return _describe_bootstrap(
            options,
            bootstrap_covariance(
                problem, engine, solution, solver, options, clusters, rng=rng, progress=progress
            ),
            cluster_name if clusters is not None else None,
        )
    if clusters is not None:
        kind = "clustered"
    bread = _inverse(solution.information)
    jacobian = problem.layout.report(solution.free).jacobian
    if kind == "observed":
        free, description = bread, "observed information"
    else:
        meat, description = _meat(problem, engine, solution, clusters, cluster_name)
        free = bread @ meat @ bread
    if solution.noise is not None:
        free, description = free + solution.noise, f"{description}, with Monte-Carlo error"
    return Covariance(kind, description, jacobian @ free @ jacobian.T)


def _describe_bootstrap(options: Bootstrap, matrix: Array, cluster_name: str | None) -> Covariance:
    unit = f"clusters of {cluster_name}" if cluster_name else "rows"
    return Covariance("bootstrap", f"bootstrap of {unit}, {options.replications} samples", matrix)


def _inverse(information: Array) -> Array:
    """Invert the information; nan everywhere where it is singular."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    try:
        scaled = np.linalg.inv(np.linalg.cholesky(information * np.outer(scale, scale)))
    except np.linalg.LinAlgError:
        return np.full_like(information, np.nan)
    return (scaled.T @ scaled) * np.outer(scale, scale)


def _meat(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    clusters: NDArray[np.intp] | None,
    cluster_name: str | None,
) -> tuple[Array, str]:
    natural = problem.layout.natural(solution.free)
    nothing = np.full_like(solution.information, np.nan)
    drawn = nothing if solution.outer is None else solution.outer
    if clusters is None:
        n_rows = engine.n_rows
        meat = drawn if problem.sampled else engine.sum(partial(_outer_products, problem, natural))
        return meat * n_rows / (n_rows - 1), "robust (sandwich)"
    n_clusters = int(clusters.max()) + 1
    if n_clusters < 2:
        raise OptionError("There is only one cluster, so nothing can be said of its spread.")
    if problem.sampled:
        meat = drawn
    else:
        totals = engine.sum(partial(_cluster_totals, problem, natural, n_clusters))
        meat = totals.T @ totals
    meat = meat * n_clusters / (n_clusters - 1)
    return meat, f"clustered by {cluster_name} ({n_clusters} clusters)"


def _free_scores(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return each row's weighted score in the free parameters, shape (n, n_free)."""
    scores = np.column_stack(score_blocks(problem, natural, batch))
    if batch.rows.weights is not None:
        scores *= batch.rows.weights[:, None]
    return problem.layout.pull_back_vector(scores)


def _outer_products(problem: Problem, natural: Array, batch: Batch) -> Array:
    scores = _free_scores(problem, natural, batch)
    return scores.T @ scores


def _cluster_totals(problem: Problem, natural: Array, n_clusters: int, batch: Batch) -> Array:
    assert batch.rows.clusters is not None
    totals = np.zeros((n_clusters, problem.layout.n_free))
    np.add.at(totals, batch.rows.clusters, _free_scores(problem, natural, batch))
    return totals

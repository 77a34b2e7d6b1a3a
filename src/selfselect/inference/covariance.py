"""Covariances of estimates, by formula or by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import Engine, times_drawn
from selfselect.engines.checkpoint import once
from selfselect.errors import DataError, OptionError
from selfselect.inference.dependence import (
    UNEQUAL,
    ClusterCount,
    Dependence,
    count_clusters,
    degrees,
    describe_clusters,
    fewest,
)
from selfselect.inference.sandwich import cluster_meat, make_positive, row_meat, row_products
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers.base import Solution, Solver
from selfselect.solvers.order import groups_alike, match_alternatives
from selfselect.threads import parallel_map

Array = NDArray[np.float64]


# The pairs bootstrap: fits on rows, or whole clusters, drawn again with replacement.


TELLING = 1e-6
"""Share of the information of all rows along some direction below which a sample tells nothing."""

ENOUGH = 0.9
"""Share of the replications that must converge for their spread to be believed."""


@dataclass(frozen=True)
class Bootstrap:
    """Options of the bootstrap.

    Parameters
    ----------
    replications : how many samples are drawn and fitted.
    """

    replications: int = 400

    def __post_init__(self) -> None:
        whole = isinstance(self.replications, Integral) and not isinstance(self.replications, bool)
        if not whole or self.replications < 2:
            raise OptionError(f"A bootstrap needs at least 2 samples, not {self.replications!r}.")


def bootstrap_draws(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    solver: Solver,
    options: Bootstrap,
    dependence: Dependence,
    *,
    rng: Generator,
    progress: bool | None,
) -> Array:
    """Return the reported parameters of every bootstrap sample that could be fitted.

    Each sample has a random stream of its own, spawned from one seed, so the draws do not depend
    on how many cores share the work. Where there are clusters, whole ones are drawn. Where weights
    are frequencies, each row stands for as many as its weight says.
    """
    seeds = SeedSequence(int(rng.integers(2**63))).spawn(options.replications)
    alone = engine.single_threaded()
    groups = groups_alike(problem, engine)
    n_clusters = dependence.clusters[0] if dependence.clusters else 0

    def draw(seed: SeedSequence) -> Array | None:
        stream = np.random.default_rng(seed)
        sample = alone.resampled(stream, repeated=dependence.repeated, n_clusters=n_clusters)
        try:
            fitted = solver.solve(problem, sample, rng=stream, start=solution.free, progress=False)
        except DataError:
            return None
        if not fitted.converged or not _tells_as_much(fitted, solution):
            return None
        # Alternatives without names keep the numbers they have in the estimate: a sample in which
        # two of them change places would look like a spread of both.
        free = match_alternatives(problem, groups, fitted.free, solution.free)
        return problem.layout.report(free).values

    def draw_once(number: int, seed: SeedSequence) -> Array | None:
        about = (seed.entropy, seed.spawn_key, solution.free)
        return once(engine, f"bootstrap sample {number}", about, partial(draw, seed))

    return _collect(parallel_map(draw_once, count(), seeds), options, progress)


def _tells_as_much(sample: Solution, of_all: Solution) -> bool:
    """Say whether a sample tells something of every direction that all rows tell of.

    One without any row of a category leaves its coefficient where the climb happened to begin.
    """
    free = np.setdiff1d(np.arange(len(of_all.free)), [*sample.held, *of_all.held])
    more = (sample.information - TELLING * of_all.information)[np.ix_(free, free)]
    if not np.isfinite(more).all():
        return True
    try:
        np.linalg.cholesky(more)
    except np.linalg.LinAlgError:
        return False
    return True


def resampled_estimates(
    estimate: Callable[[Rows, Generator], Array],
    rows: Rows,
    options: Bootstrap,
    dependence: Dependence,
    *,
    seed: SeedSequence,
    progress: bool | None,
) -> Array:
    """Return what `estimate` makes of samples of rows in memory, as `bootstrap_draws` draws them.

    A sample has the weights of its rows, zero where a row was not drawn.
    """
    n_clusters = dependence.clusters[0] if dependence.clusters else 0

    def draw(one: SeedSequence) -> Array | None:
        stream = np.random.default_rng(one)
        times = times_drawn(rows, stream, repeated=dependence.repeated, n_clusters=n_clusters)
        try:
            return estimate(rows.reweighted(times), stream)
        except DataError:
            return None

    return _collect(parallel_map(draw, seed.spawn(options.replications)), options, progress)


def _collect(found: Iterable[Array | None], options: Bootstrap, progress: bool | None) -> Array:
    """Return the estimates of the samples that could be fitted, or refuse where they are few."""
    done: list[Array] = []
    with progress_bar(progress, what="Bootstrap", total=options.replications) as bar:
        for values in found:
            bar.update()
            if values is not None:
                done.append(values)
    if len(done) < max(2, ENOUGH * options.replications):
        raise DataError(
            f"Only {len(done)} of {options.replications} bootstrap samples could be fitted: the "
            "others do not identify some parameter. Use covariance='robust' instead, or give "
            "rare categories and alternatives fewer parameters."
        )
    return np.array(done)


# Covariances of the estimates: observed information, robust, clustered, bootstrap.
#
# All are of the reported parameters: the coefficients, scales and others that users read.


KINDS = ("observed", "robust", "clustered", "bootstrap", "HC0", "HC1", "opg")

OTHER_NAMES = {
    "nonrobust": "observed",
    "oim": "observed",
    "sandwich": "HC0",
    "cluster": "clustered",
}
"""Names that other programs have for the same, beside those of `KINDS`; case does not matter."""

UNCORRECTED = ("HC0", "HC1")
"""Sandwiches of plain scores of rows: as they are, and times n/(n - k) for k parameters."""

REPAIRED = "; it was not positive, so negative eigenvalues were set to zero"
"""What is said of a difference of ways of clustering that was no covariance."""

FEW_CLUSTERS = 40
"""Clusters below which a page says what their number does to intervals."""


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of the reported parameters.

    Attributes
    ----------
    kind : observed, opg (outer products of scores), robust, HC0, HC1, clustered or bootstrap.
    description : a few words for summaries.
    matrix : (m, m) covariance of the reported parameters; nan where it cannot be had.
    df : degrees of freedom of the t distribution that intervals and p-values refer to: effective
        clusters less one (`cluster_totals`), of the way that has fewest; infinite, for the normal,
        where there are none.
    missing : positions of parameters without a standard error. Their entries in the matrix are
        zero, so that what depends on them takes them as given; tables show them as missing.
    n_clusters : how many clusters the way has that `df` is of; None where there are none, and in
        files that do not say.
    """

    kind: str
    description: str
    matrix: Array
    df: float = float("inf")
    missing: tuple[int, ...] = ()
    n_clusters: int | None = None

    @classmethod
    def of_clusters(
        cls,
        kind: str,
        description: str,
        matrix: Array,
        counts: Sequence[ClusterCount],
        *,
        repaired: bool = False,
        missing: tuple[int, ...] = (),
    ) -> Covariance:
        """Return a covariance by clusters, of which there are `counts`; by rows if there are none.

        `repaired` says whether negative eigenvalues were set to zero.
        """
        words = description + REPAIRED if repaired else description
        number = fewest(counts).count if counts else None
        return cls(kind, words, matrix, degrees(counts), missing, number)

    @property
    def shown(self) -> Array:
        """The matrix with what is missing in it as nan."""
        shown = self.matrix.copy()
        shown[list(self.missing), :] = np.nan
        shown[:, list(self.missing)] = np.nan
        return shown

    @property
    def of_model(self) -> bool:
        """Whether it is that of a model that is right, by either side of the information."""
        return self.kind in ("observed", "opg")

    @property
    def sandwich(self) -> bool:
        """Whether rows, or clusters, are not taken at the likelihood's word."""
        return self.kind in ("robust", "clustered", *UNCORRECTED)

    @property
    def clusters_in_words(self) -> str:
        """How many clusters there are; where sizes differ, how many of equal size are as good."""
        effective = self.df + 1
        count = effective if self.n_clusters is None else self.n_clusters
        if round(effective, 1) == round(count):
            return f"{count:.0f}"
        return f"{effective:.1f} of equal size are worth as much"

    @property
    def unequal_clusters(self) -> bool:
        """Whether a few clusters hold most of the rows."""
        return self.n_clusters is not None and self.df + 1 < UNEQUAL * self.n_clusters

    @property
    def few_clusters(self) -> bool:
        """Whether there are so few clusters that intervals must not be trusted blindly."""
        return self.df + 1 < FEW_CLUSTERS


def estimate_covariance(
    problem: Problem,
    engine: Engine,
    solution: Solution,
    *,
    kind: Any,
    dependence: Dependence,
    solver: Solver,
    rng: Generator,
    progress: bool | None,
) -> Covariance:
    """Estimate the covariance of the reported parameters.

    Parameters
    ----------
    problem, engine, solution : model, rows and estimate.
    kind : one of the words, or a `Bootstrap` with options.
    dependence : clusters and weights.
    solver : for the bootstrap's fits.
    """
    clusters = dependence.clusters
    kind = covariance_kind(kind, dependence)
    if isinstance(kind, Bootstrap):
        if len(clusters) > 1:
            raise OptionError(
                "A bootstrap draws whole clusters, which is not possible for clusters by "
                f"{dependence.cluster_name} at once. Use covariance='clustered', or cluster by "
                "one of them."
            )
        counts = count_clusters(engine, clusters)
        draws = bootstrap_draws(
            problem, engine, solution, solver, kind, dependence, rng=rng, progress=progress
        )
        return describe_bootstrap(kind, draws, dependence, counts)
    bread = _inverse(solution.information)
    jacobian = problem.layout.report(solution.free).jacobian
    if kind == "observed":
        smooth = problem.noise.margin.smooth
        description = "observed information" if smooth else "outer product of scores"
        made = Covariance(kind, description, bread)
    else:
        made = _meat(problem, engine, solution, kind, dependence)
        middle = made.matrix
        made = replace(made, matrix=_inverse(middle) if kind == "opg" else bread @ middle @ bread)
    if solution.noise is not None:
        said = f"{made.description}, with Monte-Carlo error"
        made = replace(made, matrix=made.matrix + solution.noise, description=said)
    held = list(solution.held)
    missing = tuple(np.flatnonzero(jacobian[:, held].any(axis=1)).tolist())
    return replace(made, matrix=jacobian @ made.matrix @ jacobian.T, missing=missing)


def covariance_kind(kind: Any, dependence: Dependence) -> str | Bootstrap:
    """Return which covariance is meant, or say which there are.

    Clusters ask for a clustered one, and probability weights for a robust one.
    """
    if isinstance(kind, Bootstrap):
        return kind
    known = {name.lower(): name for name in KINDS} | OTHER_NAMES
    if not isinstance(kind, str) or kind.lower() not in known:
        raise OptionError(
            f"There is no covariance {kind!r}. Use one of {', '.join(KINDS)}, or "
            "selfselect.inference.Bootstrap(replications=...)."
        )
    kind = known[kind.lower()]
    if kind == "bootstrap":
        return Bootstrap()
    if kind == "clustered" and not dependence.clusters:
        raise OptionError(
            "covariance='clustered' needs to know the clusters. Give cluster='column'."
        )
    if kind in ("opg", *UNCORRECTED) and dependence.reason is not None:
        if kind == "opg" or dependence.clusters:
            raise OptionError(
                f"covariance={kind!r} takes rows as independent draws of the same kind, but "
                f"{dependence.reason}. Leave `covariance` out for errors that allow for it."
            )
        return kind
    if dependence.clusters:
        return "clustered"
    # The inverse information is no variance of estimates from rows drawn unequally.
    return "robust" if dependence.weights_kind == "probability" else kind


def describe_bootstrap(
    options: Bootstrap, draws: Array, dependence: Dependence, counts: Sequence[ClusterCount]
) -> Covariance:
    """Return the covariance of the estimates of bootstrap samples."""
    clusters = dependence.clusters
    unit = f"{clusters[0]} clusters of {dependence.cluster_name}" if clusters else "rows"
    matrix = np.atleast_2d(np.cov(draws, rowvar=False))
    description = f"bootstrap of {unit}, {options.replications} samples"
    return Covariance.of_clusters("bootstrap", description, matrix, counts)


def _inverse(information: Array) -> Array:
    """Invert the information; nan everywhere where it is singular."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    try:
        scaled = np.linalg.inv(np.linalg.cholesky(information * np.outer(scale, scale)))
    except np.linalg.LinAlgError:
        return np.full_like(information, np.nan)
    return (scaled.T @ scaled) * np.outer(scale, scale)


def _meat(
    problem: Problem, engine: Engine, solution: Solution, kind: str, dependence: Dependence
) -> Covariance:
    """Return the middle of the sandwich, as the covariance of summed scores."""
    if problem.likelihood.sampled:
        return _drawn_meat(engine, solution, kind, dependence)
    clusters, repeated = dependence.clusters, dependence.repeated
    free, information = solution.free, solution.information
    if kind in ("opg", *UNCORRECTED):
        meat, count = row_products(problem, engine, free, repeated=repeated)
        meat, description = plain_meat(kind, meat, count, len(free))
        return Covariance(kind, description, meat)
    if not clusters:
        meat = row_meat(problem, engine, free, information, repeated=repeated)
        return Covariance(kind, "robust (sandwich)", meat)
    meat, counts = cluster_meat(problem, engine, free, information, clusters, repeated=repeated)
    repaired = False
    if len(counts) > 1:
        meat, repaired = make_positive(meat, information)
    description = describe_clusters(dependence.cluster_name, counts)
    return Covariance.of_clusters(kind, description, meat, counts, repaired=repaired)


def plain_meat(kind: str, meat: Array, count: float, n_parameters: int) -> tuple[Array, str]:
    """Return a middle of plain scores with the factor its name says, and a description."""
    if kind == "opg":
        return meat, "outer products of scores (OPG)"
    factor = 1.0
    if kind == "HC1":
        if count <= n_parameters:
            raise OptionError(
                f"HC1 divides by rows less parameters, and there are {count:g} rows for "
                f"{n_parameters} parameters. Use covariance='robust'."
            )
        factor = count / (count - n_parameters)
    return meat * factor, f"robust ({kind})"


def _drawn_meat(
    engine: Engine, solution: Solution, kind: str, dependence: Dependence
) -> Covariance:
    """Return the middle of the sandwich where only draws know the rows' scores."""
    clusters = dependence.clusters
    nothing = np.full_like(solution.information, np.nan)
    drawn = nothing if solution.outer is None else solution.outer
    if kind in ("opg", *UNCORRECTED):
        count, n_free = float(engine.n_rows), len(solution.free)
        meat, description = plain_meat(kind, drawn, count, n_free)
        return Covariance(kind, description, meat)
    if not clusters:
        meat = drawn * engine.n_rows / (engine.n_rows - 1)
        return Covariance(kind, "robust (sandwich)", meat)
    if len(clusters) > 1:
        raise OptionError(
            "Clusters in several ways need a rule with bounds and independent noise. Cluster by "
            "one column."
        )
    counts = count_clusters(engine, clusters)
    description = describe_clusters(dependence.cluster_name, counts)
    meat = drawn * counts[0].count / (counts[0].count - 1)
    return Covariance.of_clusters(kind, description, meat, counts)

"""The pairs bootstrap: fits on rows, or whole clusters, drawn again with replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from numbers import Integral

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines._recorded import once
from selfselect.engines._sampling import times_drawn
from selfselect.engines.base import Engine
from selfselect.errors import DataError, OptionError
from selfselect.inference.dependence import Dependence
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.solvers._order import groups_alike, match_alternatives
from selfselect.solvers.base import Solution, Solver
from selfselect.threads import parallel_map

__all__ = ["Bootstrap", "bootstrap_draws", "resampled_estimates"]

Array = NDArray[np.float64]

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

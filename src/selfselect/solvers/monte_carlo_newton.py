"""Newton's method by draws: draws, the search over them, and the solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.likelihoods import evaluate
from selfselect.likelihoods.sampled import (
    ROWS_AT_ONCE,
    SampledRows,
    SampledSums,
    Sweep,
    batch_stream,
    sample_scores,
    sampled_loglik,
)
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.progress import progress_bar
from selfselect.rules import has_bounds
from selfselect.samplers import BoxExact, EllipticalSlice, Sampler
from selfselect.samplers.chains import Chains
from selfselect.solvers._start import (
    gram_matrices,
    least_squares_start,
    never_chosen,
    refuse_collinear,
    undetermined,
)
from selfselect.solvers.base import Ending, Solution, Status, TraceEntry, require
from selfselect.solvers.climb import information_at, score_at, solve_spd

Array = NDArray[np.float64]


# What solvers that draw share: chains to start with, and the log-likelihood at the end.


SETTLING = 6
"""Slice steps that take the two chains of a row apart and away from where they were found."""

LOGLIK_LOOKS = 2_000_000
"""Calls of the rule that the log-likelihood may cost by default, all rows together."""

DISTANCE_POINTS = 48
"""Pairs of points of every row by which the distance to an optimum is measured."""

FEWEST_DRAWS = 64
MOST_DRAWS = 16_384


def draws_boxes(problem: Problem) -> bool:
    """Say whether explaining sets are boxes under independent noise, drawn from exactly."""
    return has_bounds(problem.ordered_rule) and not problem.likelihood.sampled


def new_seed(rng: Generator) -> int:
    """Draw a seed for the streams of one pass."""
    return int(rng.integers(2**63))


def start_chains(
    problem: Problem, engine: Engine, free: Array, sampler: Sampler | None, rng: Generator
) -> Chains:
    """Find a point in every row's explaining set and let two chains part from it."""
    task = partial(_start, problem, problem.layout.natural(free), new_seed(rng), sampler)
    found = engine.collect(task)
    k = problem.equations.n_alternatives
    latent = np.ascontiguousarray(found.reshape(len(found), 2, k).transpose(1, 0, 2))
    return Chains.starting_at(latent, sampler)


def _start(
    problem: Problem, natural: Array, seed: int, sampler: Sampler | None, batch: Batch
) -> Array:
    blocks = range(0, len(batch), ROWS_AT_ONCE)
    return np.concatenate(
        [_start_block(problem, natural, seed, sampler, batch.take(slice(at, at + ROWS_AT_ONCE)))
         for at in blocks]
    )  # fmt: skip


def _start_block(
    problem: Problem, natural: Array, seed: int, sampler: Sampler | None, batch: Batch
) -> Array:
    target, rng = SampledRows.of(problem, natural, batch).target, batch_stream(seed, batch)
    if sampler is not None:
        return np.concatenate([sampler.init(target, rng) for _ in range(2)], axis=1)
    settle = EllipticalSlice()
    point = settle.init(target, rng)
    chains = []
    for _ in range(2):
        latent = point
        for _ in range(SETTLING):
            latent = settle.step(target, latent, rng).latent
        chains.append(latent)
    return np.concatenate(chains, axis=1)


def distance_to_optimum(problem: Problem, engine: Engine, free: Array, rng: Generator) -> float:
    """Return how far a Newton step would go, in standard errors of the parameter it moves most.

    Score and information come from draws where they are not exact. Infinite where the information
    is not positive definite: there the step says nothing. Standard errors are those of rows with a
    mean weight of 1, as in climbs.
    """
    if problem.likelihood.sampled:
        chains = start_chains(problem, engine, free, None, rng)
        steps = DISTANCE_POINTS // chains.pairs
        sweep = Sweep(new_seed(rng), steps, steps, max(1, steps // 4), 0)
        natural = problem.layout.natural(free)
        sums: Any = engine.sum(partial(sample_scores, problem, natural, chains, sweep))
        score, information = sums.score, sums.information
    else:
        score, information = score_at(problem, engine, free), information_at(problem, engine, free)
    if not np.isfinite(information).all() or np.linalg.eigvalsh(information)[0] <= 0:
        return float("inf")
    inverse = np.linalg.inv(information)
    unit = np.sqrt(engine.n_rows / engine.weight_total)
    return float(unit * np.max(np.abs(inverse @ score) / np.sqrt(np.diag(inverse))))


@dataclass(frozen=True, eq=False)
class DrawnLoglik:
    """A log-likelihood by draws, its standard error, and the rows whose mass is too small."""

    value: float
    error: float
    vanishing: NDArray[np.intp]

    def warning(self) -> str:
        """Say which explaining sets vanish; empty where none does."""
        if self.vanishing.size == 0:
            return ""
        named = ", ".join(map(str, self.vanishing[:3]))
        more = ", ..." if self.vanishing.size > 3 else ""
        return (
            f"The explaining sets of {self.vanishing.size} rows (rows {named}{more}) have next to "
            "no mass under the fit: those choices are next to impossible under the model."
        )


def drawn_loglik(
    problem: Problem, engine: Engine, free: Array, rng: Generator, n_draws: int | None = None
) -> DrawnLoglik:
    """Estimate the log-likelihood at free parameters; where it is exact, it has no error."""
    if not problem.likelihood.sampled:
        exact: Any = engine.sum(partial(evaluate, problem, problem.layout.natural(free)))
        return DrawnLoglik(exact.loglik, 0.0, np.empty(0, dtype=np.intp))
    if n_draws is None:
        n_draws = int(np.clip(LOGLIK_LOOKS // max(engine.n_rows, 1), FEWEST_DRAWS, MOST_DRAWS))
    natural = problem.layout.natural(free)
    task = partial(sampled_loglik, problem, natural, n_draws, new_seed(rng))
    rows = engine.collect(task)
    value, variance = rows[:, :2].sum(axis=0)
    return DrawnLoglik(float(value), float(np.sqrt(variance)), np.flatnonzero(rows[:, 2]))


# The search of MonteCarloNewton: towards the optimum, then at one place until draws suffice.


FIRST_POINTS = 48
"""Pairs of points looked at in a pass while the optimum is still far: the step is then larger than
its error."""

MOST_POINTS = 1_536
"""The same of one pass, so that parameters, progress and interrupts are looked at now and then."""

BURN_POINTS = 24
"""The same after a change of parameters, not used: the chains follow."""

FARTHEST = 0.5
"""Standard errors from the optimum within which one Newton step from draws is as good as many."""

WANDERING = 0.2
"""Change of a mean, in noise scales per standard deviation of a covariate, that is followed however
large its standard error: where the likelihood rises forever both grow together."""

MANY_ROWS = 4_000
"""Rows from which on a standard error is so small that the information hardly changes over it;
with fewer, draws must be made closer to the optimum, as the square root of their number."""

TRUST = 0.75
"""How far a step may move the means of the latent outcomes, in noise scales (root mean square)."""

PAIRS = 16_384
"""Pairs of draws, over all rows, that measure the missing information in a pass: where rows are
few every step is used."""

SHARPER = 1.05
"""Draws beyond those that the last estimate of the Monte-Carlo error calls for."""

LOST = 1e-3
"""Share of complete information below which draws cannot tell whether anything was learnt."""


@dataclass(frozen=True, eq=False)
class _DrawnEstimate:
    """What the passes made at one place near the optimum say together.

    Attributes
    ----------
    free : a Newton step from that place.
    information, noise : observed information, and Monte-Carlo covariance of `free`.
    ratio : largest Monte-Carlo error, in standard errors.
    gap : largest distance of `free` from the place, in standard errors.
    clear_gap : the same, less twice its Monte-Carlo error.
    clear_move : the largest change of a natural parameter, less twice its Monte-Carlo error.
    doubt : relative Monte-Carlo error of the standard errors.
    sums, steps : averages of what was drawn, and in how many steps.
    """

    free: Array
    information: Array
    noise: Array
    ratio: float
    gap: float
    clear_gap: float
    clear_move: float
    doubt: float
    sums: SampledSums
    steps: int


class Options(Protocol):
    """The options of the search; see `MonteCarloNewton`."""

    @property
    def max_passes(self) -> int: ...
    @property
    def sampler(self) -> Sampler | None: ...
    @property
    def loglik_draws(self) -> int | None: ...


class DrawnSearch:
    """The state of a search: parameters, chains, and what was drawn at the present place."""

    def __init__(
        self,
        solver: Options,
        problem: Problem,
        engine: Engine,
        start: Array,
        rng: Generator,
        progress: bool | None,
        mc_tol: float,
    ) -> None:
        self.solver, self.problem, self.engine, self.rng = solver, problem, engine, rng
        self.progress, self.mc_tol = progress, mc_tol
        self.free = start.copy()
        # The error of a Newton step is its square, in standard errors, over the root of the rows.
        many = engine.n_rows / MANY_ROWS
        self.near = min(FARTHEST, 1.6 * float(np.sqrt(mc_tol))) * many ** (
            0.5 if many < 1 else 0.25
        )
        self.trace: list[TraceEntry] = []
        self.estimate: _DrawnEstimate | None = None
        self.ending = Ending(Status.OUT_OF_PASSES, {"passes": 0})
        self.n_passes = 0
        clusters = engine.rows.clusters
        self.n_clusters = 0 if clusters is None else int(clusters.max()) + 1

    def run(self) -> None:
        """Search until the Monte-Carlo error is small enough, passes run out, or interrupted."""
        try:
            self._run()
        except KeyboardInterrupt:
            self.ending = Ending(Status.INTERRUPTED, {"passes": self.n_passes})

    @property
    def interrupted(self) -> bool:
        """Whether the user interrupted the search."""
        return self.ending.status is Status.INTERRUPTED

    def _run(self) -> None:
        sampler = self.solver.sampler
        if sampler is None and draws_boxes(self.problem):
            sampler = BoxExact()
        chains = start_chains(self.problem, self.engine, self.free, sampler, self.rng)
        first, most, follow = (
            points // chains.pairs for points in (FIRST_POINTS, MOST_POINTS, BURN_POINTS)
        )
        place, drawn, steps, burn = self.free, None, first, follow
        with progress_bar(self.progress, what="Monte-Carlo Newton") as bar:
            while self.n_passes < self.solver.max_passes:
                fresh = self._pass(chains, place, Sweep(new_seed(self.rng), burn, steps,
                                   self._thin(steps), self.n_clusters))  # fmt: skip
                bar.update()
                drawn = fresh if drawn is None else drawn.joined(fresh)
                if not np.isfinite(drawn.sums.score).all():
                    self.ending = Ending(Status.NOT_FINITE, {"what": "score"})
                    return
                found = self._estimate(place, drawn)
                if found is None or found.clear_gap > self.near or found.clear_move > WANDERING:
                    bar.set_postfix_str("approaching the optimum")
                    place = self.free = self._step(place, drawn.sums, found)
                    steps = min(2 * drawn.steps, 4 * first)
                    drawn, burn = None, follow
                    continue
                self.estimate, self.free = found, found.free
                bar.set_postfix_str(f"Monte-Carlo error {100 * found.ratio:.1f}% of std errors")
                if found.gap > self.near and found.ratio <= 0.5 * self.near:
                    place, drawn, burn = found.free, None, follow
                elif found.ratio <= self.mc_tol and found.doubt <= 0.5 * self.mc_tol:
                    self.ending = _success(self.n_passes, found)
                    return
                else:
                    burn = 0
                # From afar only as many draws as show where to go on from.
                goal = self.mc_tol if found.gap <= self.near else 0.5 * self.near
                lack = max(found.ratio, 2.0 * found.doubt) / goal
                wanted = found.steps * (SHARPER * lack**2 - (drawn is not None))
                steps = int(np.clip(wanted, first, min(most, 4 * found.steps)))
        self.ending = Ending(Status.OUT_OF_PASSES, {"passes": self.n_passes})
        if self.estimate is not None:
            self.ending = self.ending.noting(
                f"The Monte-Carlo error is still {100 * self.estimate.ratio:.0f}% of a standard "
                "error: allow more with MonteCarloNewton(max_passes=...)."
            )

    def _thin(self, steps: int) -> int:
        return int(np.clip(steps * self.engine.n_rows // PAIRS, 1, max(1, min(32, steps // 4))))

    def _pass(self, chains: Chains, place: Array, sweep: Sweep) -> _Drawn:
        natural = self.problem.layout.natural(place)
        task = partial(sample_scores, self.problem, natural, chains, sweep)
        sums: Any = self.engine.sum(task)
        self.n_passes += 1
        return _Drawn(sums, sweep.steps)

    def _estimate(self, place: Array, drawn: _Drawn) -> _DrawnEstimate | None:
        """Take a Newton step and measure its error; None where there is no such step."""
        sums, information = drawn.sums, drawn.sums.information
        if not _is_definite(information):
            return None
        inverse = np.linalg.inv(information)
        step = inverse @ sums.score
        noise = inverse @ sums.noise @ inverse
        errors, blur = np.sqrt(np.diag(inverse)), np.sqrt(np.diag(noise))
        self.trace.append(
            TraceEntry(self.engine.n_rows, float("nan"), float(np.sqrt(sums.score @ step)), 1.0)
        )
        free = place + step
        jacobian = self.problem.layout.report(free).jacobian
        reported = [np.sqrt(np.diag(jacobian @ part @ jacobian.T)) for part in (noise, inverse)]
        wobble = inverse @ sums.wobble @ inverse
        reported.append(np.diag(jacobian @ wobble @ jacobian.T))
        return _DrawnEstimate(
            free,
            information,
            noise,
            float(np.max(reported[0] / reported[1])),
            float(np.max(np.abs(step) / errors)),
            float(np.max((np.abs(step) - 2.0 * blur) / errors)),
            float(np.max(np.abs(step) - 2.0 * blur)),
            float(np.sqrt(np.mean((0.5 * reported[2] / reported[1] ** 2) ** 2))),
            sums,
            drawn.steps,
        )

    def _step(self, place: Array, sums: SampledSums, found: _DrawnEstimate | None) -> Array:
        """Go towards the optimum, no farther than draws made here can be trusted."""
        step = solve_spd(sums.complete, sums.score) if found is None else found.free - place
        energy = float(step @ sums.complete @ step)
        moved = float(np.sqrt(max(energy, 0.0) / self.engine.weight_total))
        size = min(1.0, TRUST / max(moved, 1e-300))
        at = self.problem.layout.free_inverse_scales
        if at.size:
            most = float(np.max(np.abs(size * step[at]) / place[at]))
            size *= min(1.0, 0.5 / max(most, 1e-300))
        return place + size * step

    def solution(self, *, loglik: bool) -> Solution:
        """Return where the search ended."""
        n_free = self.problem.layout.n_free
        found, ending = self.estimate, self.ending
        information, noise, outer = np.full((n_free, n_free), np.nan), None, None
        if found is not None:
            information, noise, outer = found.information, found.noise, found.sums.squared_scores
            lost = undetermined(self.problem, self.engine, information, lost=LOST)
            ending = lost or never_chosen(self.problem, self.engine) or ending
        value, error = float("nan"), 0.0
        if loglik:
            try:
                drawn = drawn_loglik(
                    self.problem, self.engine, self.free, self.rng, self.solver.loglik_draws
                )
                value, error = drawn.value, drawn.error
                ending = ending.noting(drawn.warning())
            except KeyboardInterrupt:
                ending = ending.noting("Interrupted before the log-likelihood was estimated.")
        return Solution(
            free=self.free,
            loglik=value,
            information=information,
            ending=ending,
            trace=tuple(self.trace),
            n_passes=self.n_passes,
            solver=repr(self.solver),
            noise=noise,
            outer=outer,
            loglik_error=error,
        )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Averages over all steps of the passes made at one place."""

    sums: SampledSums
    steps: int

    def joined(self, other: _Drawn) -> _Drawn:
        """Average with what more steps at the same place gave."""
        steps = self.steps + other.steps
        return _Drawn(self.sums.averaged(other.sums, other.steps / steps), steps)


def _success(n_passes: int, found: _DrawnEstimate) -> Ending:
    missing, noise = (float(np.diag(part).sum()) for part in (found.sums.missing, found.sums.noise))
    if noise == 0:
        return Ending(Status.CONVERGED_WITHOUT_ERROR, {"passes": n_passes})
    return Ending(
        Status.CONVERGED_BY_DRAWS,
        {"passes": n_passes, "error": 100 * found.ratio, "worth": missing / noise},
    )


def _is_definite(matrix: Array) -> bool:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return bool(np.linalg.eigvalsh(matrix * np.outer(scale, scale))[0] > 1e-6)


# Newton's method with scores and information from draws, to a stated Monte-Carlo error.


FEWEST = 1_000
PER_PARAMETER = 20
SHARE = 20
"""Rows of the smallest sample, rows of it by parameter, and rows by row of it: its optimum exists,
and is so few standard errors away that one step over all rows leads next to theirs."""

COARSE = 0.5
"""Monte-Carlo error, in standard errors of the sample, with which a sample's optimum will do."""


@dataclass(frozen=True)
class MonteCarloNewton:
    r"""Maximise the log-likelihood of any convex rule, by draws from the explaining sets.

    Two warm chains per row give the score (Fisher's identity), the observed information (Louis'
    identity) and the Monte-Carlo error of both. Newton steps, on a sample of rows first, lead
    close to the optimum; from there every pass is one more estimate of it, and all are averaged
    until the Monte-Carlo error of every parameter is at most `mc_tol` of its standard error, and
    that of the standard errors half as much. Standard errors include the error of the estimates.

    The log-likelihood is concave in the coefficients for convex explaining sets, and together
    with one common scale, which only dilates them. With a scale per alternative it need not be;
    steps are limited in length, and follow the information of complete data (those of EM) where
    the observed one is not positive definite.

    Parameters
    ----------
    mc_tol : largest Monte-Carlo error, as a share of the standard error.
    max_passes : passes over all rows after which it gives up.
    sampler : of the latent outcomes, one of `selfselect.samplers`; None for `Antithetic`, with
        `Gibbs` where sets are narrow; and for `BoxExact`, which leaves no Monte-Carlo error, where
        they are boxes.
    sample : the most rows of the sample that the first steps are taken on; it has a twentieth of
        all rows where that is less.
    loglik_draws : draws per row that the log-likelihood is estimated from, once, at the end; None
        for some two million in all, from 64 to 16,384 a row. Its error is reported too.
    """

    mc_tol: float = 0.1
    max_passes: int = 200
    sampler: Sampler | None = field(default=None)
    sample: int = 5_000
    loglik_draws: int | None = None

    requires: ClassVar[tuple[type, ...]] = ()
    concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.mc_tol <= 1:
            raise OptionError(
                f"mc_tol={self.mc_tol!r} must be a share of the standard error, above 0 and at "
                "most 1; 0.1 is the default, 0.02 costs 25 times as much."
            )
        if isinstance(self.sampler, type) or not (
            self.sampler is None or isinstance(self.sampler, Sampler)
        ):
            raise OptionError(
                f"{self.sampler!r} is not a sampler. Use None, or an object such as "
                "selfselect.samplers.EllipticalSlice()."
            )

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        require(self, problem)
        if start is None:
            grams = gram_matrices(problem, engine)
            refuse_collinear(problem, grams)
            start = least_squares_start(problem, grams)
            sampled = max(FEWEST, PER_PARAMETER * problem.layout.n_free, engine.n_rows // SHARE)
            sampled = min(sampled, self.sample)
            if engine.n_rows > 2 * sampled:
                part = engine.sample(sampled, rng)
                coarse = DrawnSearch(self, problem, part, start, rng, progress, COARSE)
                coarse.run()
                start = coarse.free
                if coarse.interrupted:
                    return coarse.solution(loglik=False)
        search = DrawnSearch(self, problem, engine, start, rng, progress, self.mc_tol)
        search.run()
        return search.solution(loglik=not search.interrupted)

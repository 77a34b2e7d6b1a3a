"""The likelihood of explaining sets that are only drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import ClassVar

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.known_index import OBSERVED
from selfselect.kernels.tails import HALF_LOG_TWO_PI
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods.base import Likelihood, RowTerms
from selfselect.plain import archived
from selfselect.problem.batch import Batch, Evaluation, Observation, observe_inside
from selfselect.problem.problem import Problem
from selfselect.samplers import EllipticalSlice
from selfselect.samplers.base import Target
from selfselect.samplers.chains import Chains, controlled

Array = NDArray[np.float64]


# Evaluating problems whose explaining sets can only be sampled: scores and information by draws.
#
# With latent outcomes :math:`z` that explain a row, :math:`a_j = h_j z_j - g_j'x` and the
# precision :math:`Q` of the standardised noise, complete data would have the score :math:`(Qa)_j
# x` in :math:`g_j` and :math:`1/h_j - a_j z_j` in :math:`h_j`. Fisher's identity: the score of
# what was observed is its mean over the explaining set. Louis' identity: the observed information
# is that of complete data less the variance of that score.
#
# Every row has two independent chains. Half the product of their difference with itself has the
# variance as its mean, however slowly the chains move; and the difference of the two chains' means
# measures the Monte-Carlo error of their average, autocorrelation included.


ROWS_AT_ONCE = 4_096
"""Rows stepped at once: what is kept of them is small, and few of them are hard."""


DRAWN = (
    "The mass of explaining sets that are not boxes has no closed form, so this is not known row "
    "by row. Use a rule with `bounds` and independent noise, or a solver by draws."
)

MASS_DRAWS = 256
"""Draws by which the mass of a row's explaining set is measured."""


def batch_stream(seed: int, batch: Batch) -> Generator:
    """Return the random stream of a batch: the same whoever works on it, and in what order."""
    return Generator(SFC64(SeedSequence([seed, batch.start])))


@dataclass(frozen=True, eq=False)
class Sampled(Likelihood):
    """Known index, convex explaining sets that are not boxes, or noise of known correlation."""

    boxes: bool

    convex_sets: ClassVar[bool] = True
    sampled: ClassVar[bool] = True

    @property
    def concave(self) -> bool:
        return True

    def observe(self, rows: Rows) -> Observation:
        return observe_inside(rows, self.problem.equations.n_alternatives, self.boxes)

    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        del natural, batch, curvature
        raise UnsupportedError(DRAWN)

    def rows(self, natural: Array, batch: Batch) -> SampledTerms:
        return SampledTerms(self.problem, natural, batch)


@dataclass(frozen=True, eq=False)
class SampledTerms(RowTerms):
    """What draws say of rows; all but the mass of explaining sets is refused."""

    @property
    def loglik(self) -> Array:
        raise UnsupportedError(DRAWN)

    @property
    def chance(self) -> Array:
        return (self.batch.observation.status == OBSERVED).astype(np.float64)

    @property
    def residual(self) -> Array:
        raise UnsupportedError(DRAWN)

    @property
    def score(self) -> Array:
        raise UnsupportedError(DRAWN)

    @property
    def products(self) -> Array:
        raise UnsupportedError(DRAWN)

    @property
    def log_mass(self) -> Array:
        return sampled_masses(self.problem, self.natural, MASS_DRAWS, 0, self.batch)[:, 0]


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Some rows at given parameters, ready to be sampled and scored."""

    problem: Problem
    natural: Array
    rows: Rows
    start: int = 0

    def __post_init__(self) -> None:
        shape = self.problem.noise.margin
        if not shape.normal:
            raise UnsupportedError(
                f"Latent outcomes are drawn for normal noise only, and this noise is {shape.name}. "
                "Use solver=None, which evaluates the likelihood exactly."
            )

    @classmethod
    def of(cls, problem: Problem, natural: Array, batch: Batch) -> SampledRows:
        """Take the rows of a batch."""
        if problem.layout.curved:
            raise UnsupportedError(
                "Coefficients shared by alternatives with a scale each are not possible where the "
                "likelihood is sampled. Use noise=Independent(scale='common') or known scales."
            )
        return cls(problem, natural, batch.rows, batch.start)

    @cached_property
    def designs(self) -> list[Array]:
        """Every alternative's covariates in internal units."""
        return self.problem.designs(self.rows)

    @cached_property
    def location(self) -> Array:
        """The means (n, k) in internal units, times h."""
        return self.problem.locations(self.natural, self.designs)

    @cached_property
    def inverse_scales(self) -> Array:
        """The h (k,) of all alternatives."""
        return self.natural[self.problem.layout.inverse_scale_positions]

    @cached_property
    def target(self) -> Target:
        """The distribution to sample from, in the user's units, which are those of the rule."""
        rows, units = self.rows, self.problem.units
        assert rows.chosen is not None and rows.outcome is not None
        scales = units.outcome_unit / self.inverse_scales
        return Target(
            self.problem.ordered_rule,
            rows.chosen,
            rows.outcome,
            units.outcome_shift + scales * self.location,
            scales,
            self.problem.noise.known_correlation(self.problem.equations.alternatives),
            rows.known,
            self.start,
        )

    @cached_property
    def precision(self) -> Array | None:
        """Q (k, k); None where noise is independent."""
        correlation = self.target.correlation
        return None if correlation is None else np.asarray(np.linalg.inv(correlation))

    @cached_property
    def weights(self) -> Array:
        """Row weights, one where there are none."""
        weights = self.rows.weights
        return np.ones(len(self.rows)) if weights is None else weights

    @cached_property
    def informed(self) -> Array | None:
        """Whether (n, k) the row says something of the alternative; None where it does of all."""
        return self.target.informed

    @cached_property
    def _base(self) -> Array:
        return (self.target.center - self.target.means) / self.target.scales

    def moments(self, first: Array, square: Array) -> tuple[Array, Array]:
        """Return E[a] and E[a²] from means of deviations from the center and of their squares."""
        part = first / self.target.scales
        mean = self._base + part
        # For the chosen alternative the deviation is zero and the base is all there is.
        return mean, self._base * (self._base + 2.0 * part) + square / self.target.scales**2

    def scores(self, first: Array, square: Array) -> Array:
        """Return each row's score (n, n_free) for means of deviations and of their squares."""
        layout = self.problem.layout
        mean, spread = self.moments(first, square)
        pull = mean if self.precision is None else mean @ self.precision
        if self.informed is not None:
            pull = pull * self.informed
        scores = np.zeros((len(self.rows), int(layout.starts[-1])))
        for j, design in enumerate(self.designs):
            start, at_h = layout.starts[j], layout.inverse_scale_positions[j]
            np.multiply(design, pull[:, [j]], out=scores[:, start:at_h])
            if layout.scales is None:
                along_h = 1.0 - spread[:, j] - mean[:, j] * self.location[:, j]
                if self.informed is not None:
                    along_h *= self.informed[:, j]
                scores[:, at_h] = along_h / self.inverse_scales[j]
        return layout.pull_back_vector(scores)

    def complete_information(self, first: Array, square: Array) -> Array:
        """Return the information (n_free, n_free) that complete data is expected to hold."""
        layout = self.problem.layout
        total = int(layout.starts[-1])
        information = np.zeros((total, total))
        mean, spread = self.moments(first, square)
        for j, design in enumerate(self.designs):
            weights = self.weights if self.informed is None else self.weights * self.informed[:, j]
            own = slice(layout.starts[j], layout.inverse_scale_positions[j])
            at_h = layout.inverse_scale_positions[j]
            if self.precision is not None:
                for m, other in enumerate(self.designs):
                    theirs = slice(layout.starts[m], layout.inverse_scale_positions[m])
                    weighted = design * (self.precision[j, m] * weights)[:, None]
                    information[own, theirs] = weighted.T @ other
                continue
            information[own, own] = design.T @ (design * weights[:, None])
            if layout.scales is None:
                h, location = self.inverse_scales[j], self.location[:, j]
                latent = (mean[:, j] + location) / h
                squared = (spread[:, j] + location * (2.0 * mean[:, j] + location)) / h**2
                information[own, at_h] = information[at_h, own] = -(design.T @ (weights * latent))
                information[at_h, at_h] = weights @ (squared + 1.0 / h**2)
        return layout.pull_back_matrix(information)


@archived("sampled sums")
@dataclass(frozen=True, eq=False)
class SampledSums:
    """What draws say of some rows, in the free parameters. Sums + sums = sums.

    Attributes
    ----------
    score : (p,) of the log-likelihood.
    complete : (p, p) information of complete data.
    missing : (p, p) information lost with what was not observed.
    wobble : (p, p) half the difference of `missing` between even and odd draws: it has the size of
        the Monte-Carlo error of `missing`.
    noise : (p, p) Monte-Carlo covariance of the score.
    outer : (p, p) sum of the rows' scores times themselves, for robust covariances.
    totals : (2, clusters, p) scores per chain and cluster; no clusters where there are none.
    """

    score: Array
    complete: Array
    missing: Array
    wobble: Array
    noise: Array
    outer: Array
    totals: Array

    def __add__(self, other: SampledSums) -> SampledSums:
        mine, theirs = vars(self), vars(other)
        return SampledSums(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def information(self) -> Array:
        """Minus the Hessian of the log-likelihood."""
        return self.complete - self.missing

    @property
    def squared_scores(self) -> Array:
        """The scores of rows, or of clusters, times themselves, free of Monte-Carlo noise."""
        if self.totals.shape[1] == 0:
            return self.outer
        cross = self.totals[0].T @ self.totals[1]
        return np.asarray(0.5 * (cross + cross.T))

    def averaged(self, other: SampledSums, share: float) -> SampledSums:
        """Average with other draws of the same rows, which count for `share`."""
        mine, theirs = vars(self), vars(other)
        mixed = {name: (1.0 - share) * mine[name] + share * theirs[name] for name in mine}
        # Errors of separate draws are independent, so their variances shrink with the squares.
        mixed["noise"] = (1.0 - share) ** 2 * self.noise + share**2 * other.noise
        return SampledSums(**mixed)


@dataclass(frozen=True)
class Sweep:
    """How long a pass steps its chains.

    Attributes
    ----------
    seed : of the pass.
    burn : steps whose draws are not used: the chains follow the parameters.
    steps : steps whose draws are used.
    thin : steps from one draw that measures the missing information to the next; there are at
        least two such draws, of either parity.
    n_clusters : clusters of the rows; zero where there are none.
    """

    seed: int
    burn: int
    steps: int
    thin: int
    n_clusters: int = 0


def sample_scores(
    problem: Problem, natural: Array, chains: Chains, sweep: Sweep, batch: Batch
) -> SampledSums:
    """Step the chains of a batch and add up what its draws say."""
    parts = [
        _sample_block(problem, natural, chains, sweep, batch.take(slice(at, at + ROWS_AT_ONCE)))
        for at in range(0, len(batch), ROWS_AT_ONCE)
    ]
    return reduce(add, parts)


def _sample_block(
    problem: Problem, natural: Array, chains: Chains, sweep: Sweep, batch: Batch
) -> SampledSums:
    rows = SampledRows.of(problem, natural, batch)
    rng = batch_stream(sweep.seed, batch)
    place = slice(batch.start, batch.start + len(batch))
    n, k = rows.location.shape
    n_free = problem.layout.n_free
    walk = chains.walk(rows.target, place)
    walk.follow(sweep.burn, rng)
    first, square = np.zeros((2, n, k)), np.zeros((2, n, k))
    control: Array | None = None
    missing, n_pairs, n_draws = np.zeros((2, n_free, n_free)), 0, 0
    for number in range(sweep.steps):
        draw = walk.step(rng)
        first += draw.first.reshape(2, n, k)
        square += draw.square.reshape(2, n, k)
        if draw.control is not None:
            control = draw.control if control is None else control + draw.control
        if number % sweep.thin == 0:
            for latent in [draw.latent] if draw.more is None else [draw.latent, *draw.more]:
                deviation = latent.reshape(2, n, k) - rows.target.center
                one, other = (rows.scores(part, part * part) for part in deviation)
                gap = one - other
                missing[n_pairs % 2] += gap.T @ (gap * (0.5 * rows.weights)[:, None])
                n_draws += 1
            n_pairs += 1
    walk.rest()
    missing *= n_pairs / n_draws
    first /= sweep.steps
    square /= sweep.steps
    if control is not None:
        control = (control / sweep.steps).reshape(k, k, 2, n).transpose(2, 0, 1, 3)
        first, square = controlled(first, square, control, rows.target.spread)
    scores = [
        rows.scores(*moments) * rows.weights[:, None] for moments in zip(first, square, strict=True)
    ]
    gap = 0.5 * (scores[0] - scores[1])
    cross = scores[0].T @ scores[1]
    totals = np.zeros((2, sweep.n_clusters, n_free))
    if sweep.n_clusters and batch.rows.clusters is not None:
        for chain, part in enumerate(scores):
            np.add.at(totals[chain], batch.rows.clusters, part)
    return SampledSums(
        score=0.5 * (scores[0] + scores[1]).sum(axis=0),
        complete=rows.complete_information(first.mean(axis=0), square.mean(axis=0)),
        missing=missing.sum(axis=0) / n_pairs,
        wobble=0.5 * (missing[0] / (n_pairs - n_pairs // 2) - missing[1] / (n_pairs // 2)),
        noise=gap.T @ gap,
        outer=0.5 * (cross + cross.T),
        totals=totals,
    )


# The mass of explaining sets by importance sampling: what the log-likelihood is made of.
#
# A row with the choice :math:`j` and the outcome :math:`y` has the likelihood of that outcome
# times the mass of its explaining set. Plain draws from the noise miss sets of little mass, so
# half of the draws come from a normal distribution fitted to where the set is. Weights are then at
# most two, and the error of every row's mass is measured by the draws themselves.


ROWS_OF_A_BLOCK = 2_048
SCOUTS = 12
"""Steps that find where a set is; the first quarter of them only leaves the start behind."""
VANISHING = np.log(1e-20)
"""Log mass below which a choice is next to impossible under the model."""
AT_ONCE = 8
"""Draws of every row that are looked at in one call of the rule."""


def sampled_masses(
    problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch
) -> Array:
    """Return each row's log mass and the Monte-Carlo variance of it, (n, 2).

    Where no draw fell inside, the log mass is minus infinity: it is too small to be measured.
    """
    blocks = range(0, max(len(batch), 1), ROWS_OF_A_BLOCK)
    parts = [batch.take(slice(at, at + ROWS_OF_A_BLOCK)) for at in blocks]
    return np.concatenate([_masses(problem, natural, n_draws, seed, part) for part in parts])


def sampled_loglik(
    problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch
) -> Array:
    """Return each row's weighted log-likelihood, its variance, and whether its mass vanishes.

    Shape (n, 3). A mass that could not be measured counts as the smallest that could.
    """
    rows = SampledRows.of(problem, natural, batch)
    masses = sampled_masses(problem, natural, n_draws, seed, batch)
    vanishing = ~(masses[:, 0] > VANISHING)
    lost = ~np.isfinite(masses[:, 0])
    masses[lost] = -np.log(2.0 * n_draws), 1.0
    j = rows.target.chosen
    each = np.arange(len(batch))
    a = (rows.target.outcome - rows.target.means[each, j]) / rows.target.scales[j]
    density = -0.5 * a * a - np.log(rows.target.scales[j]) - HALF_LOG_TWO_PI
    # The logarithm of a mean is too small by half its relative variance.
    loglik = density + masses[:, 0] + np.where(lost, 0.0, 0.5 * masses[:, 1])
    return np.column_stack(
        [rows.weights * loglik, rows.weights**2 * masses[:, 1], vanishing.astype(np.float64)]
    )


def _masses(problem: Problem, natural: Array, n_draws: int, seed: int, batch: Batch) -> Array:
    rows, rng = SampledRows.of(problem, natural, batch), batch_stream(seed, batch)
    target, sampler = rows.target, EllipticalSlice()
    latent = sampler.init(target, rng)
    first, square = np.zeros_like(latent), np.zeros_like(latent)
    for number in range(SCOUTS):
        draw = sampler.step(target, latent, rng)
        latent = draw.latent
        if number >= SCOUTS // 4:
            first += draw.first
            square += draw.square
    kept = SCOUTS - SCOUTS // 4
    middle = first / kept
    varies = (target.spread > 0).sum(axis=1)
    variance = np.maximum(square / kept - middle**2, 0.0) / target.scales**2
    # Wider than the scouts found it, whose spread is estimated from a few dependent draws.
    width = np.clip(1.5 * np.sqrt(variance.sum(axis=1) / np.maximum(varies, 1)), 0.02, 1.0)

    def energy(deviation: Array) -> Array:
        scaled = deviation / target.scales
        turned = scaled if rows.precision is None else scaled @ rows.precision
        return np.asarray(0.5 * np.einsum("...k,...k->...", scaled, turned))

    total, squares = np.zeros(len(batch)), np.zeros(len(batch))
    done = 0
    while done < n_draws:
        wide = np.stack([target.deviations(rng) for _ in range(AT_ONCE // 2)])
        near = np.stack([target.deviations(rng) for _ in range(AT_ONCE // 2)])
        near *= width[None, :, None]
        near += middle
        points = np.concatenate([wide, near])
        log_ratio = energy(points) - energy(points - middle) / width**2 - varies * np.log(width)
        with np.errstate(over="ignore"):
            weight = 2.0 / (1.0 + np.exp(log_ratio))
        weight *= target.contains(points + target.center)
        # Half of the draws come from either part on purpose, so the variance is that within.
        for part in np.split(weight, 2):
            total += part.sum(axis=0)
            squares += part.var(axis=0, ddof=1) * len(part)
        done += AT_ONCE
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.column_stack([np.log(total / done), squares / total**2])

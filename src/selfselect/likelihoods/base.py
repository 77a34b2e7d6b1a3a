"""The contract of likelihoods: what each row says, and sums of it over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.hermite import hermite_values
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods._drawing import draw_rows, latent_outcomes
from selfselect.likelihoods._row_sums import Asked, RowSums, sum_terms
from selfselect.problem.batch import Batch, Evaluation, Parts
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem
from selfselect.rules import direction_of, has_bounds

__all__ = ["Likelihood", "RowTerms", "is_weighed"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowTerms(ABC):
    r"""What each row of a batch says on its own; every property is computed when it is asked for.

    Tests, covariances, residuals and memberships read these and nothing else of a likelihood.
    """

    problem: Problem
    natural: Array
    batch: Batch

    @cached_property
    def designs(self) -> list[Array]:
        """Every alternative's covariates (n, p_j) in internal units."""
        return self.problem.designs(self.batch.rows)

    @property
    @abstractmethod
    def loglik(self) -> Array:
        """(n,) log-likelihood in internal units."""

    @property
    @abstractmethod
    def chance(self) -> Array:
        """(n, k) probability that each alternative was the chosen one, given the row."""

    @property
    @abstractmethod
    def residual(self) -> Array:
        """(n, k) mean of each alternative's noise given the row, in units of its scale."""

    @property
    @abstractmethod
    def score(self) -> Array:
        """(n, n_natural) unweighted score in the natural parameters."""

    @property
    @abstractmethod
    def products(self) -> Array:
        """(n, k, k) mean products of the scores in the means of two alternatives, in their scales.

        Under normal noise these are residuals. The diagonal means nothing.
        """

    @property
    def standardised(self) -> Array:
        """(n, k) outcome or limit of each alternative less its mean, in units of its scale."""
        self._refuse("limits of the alternatives")

    @property
    def censored_residual(self) -> Array:
        """(n, k) mean of each alternative's noise given the row and that it was not chosen."""
        self._refuse("residuals by choice")

    @property
    def log_mass(self) -> Array:
        """(n,) log chance of the recorded choice given the recorded outcome."""
        self._refuse("the mass of its explaining sets")

    @property
    def hermite(self) -> Array:
        """(5, n, m) means of Hermite polynomials of every noise given the row.

        Orders are 0 to 4, and noises are put on the scale of their normal scores; see
        `kernels.hermite`. Behind the alternatives' noises stands that of a selection equation.
        Here for normal noises of which a row says a chance to be observed, else a side.
        """
        found, chance = hermite_values(self.standardised), self.chance
        otherwise = (1.0 - chance) * self.censored_residual
        # From the highest order on, each needs the polynomial below it.
        for order in range(len(found) - 1, 0, -1):
            found[order] *= chance
            found[order] += found[order - 1] * otherwise
        found[0] = 1.0
        return found

    @property
    def excess(self) -> Array:
        """(n, k) scores of every alternative's log scale, means held: its excess variance.

        Scaling noise up shrinks g and h alike. The score of a scale that moves with a covariate is
        this times the covariate.
        """
        starts, score = self.problem.layout.starts, self.score
        ends = pairwise(starts)
        return np.column_stack([-score[:, at:end] @ self.natural[at:end] for at, end in ends])

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"The likelihood of {self.problem.noise.name} under this rule does not offer {what}: "
            "the alternatives of a row depend on each other."
        )


@dataclass(frozen=True, eq=False)
class Likelihood(ABC):
    """The log-likelihood of a problem, as sums over rows.

    Attributes
    ----------
    problem : the model; it holds no rows.
    concave : whether there is one optimum: a product over convex explaining sets.
    convex_sets : whether the choice was recorded and its explaining sets are convex.
    joint : whether the alternatives of a row depend on each other; if not, it is a product.
    sampled : whether only draws from the explaining sets integrate it.
    compiled : whether a compiled kernel evaluates it.
    on_device : whether a graphics card evaluates it.
    has_obstacles : whether rows may be recorded so that outcomes cannot be drawn for them.
    """

    problem: Problem

    convex_sets: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    has_obstacles: ClassVar[bool] = False

    @property
    def concave(self) -> bool:
        return False

    @property
    def compiled(self) -> bool:
        return False

    @property
    def on_device(self) -> bool:
        return False

    @property
    def continued(self) -> bool:
        """Whether its optimum is searched from that under independent normal noise on."""
        log_concave = self.problem.noise.margin.log_concave
        return self.joint or not (log_concave or self.problem.noise.selected)

    @property
    def weighed(self) -> bool:
        """Whether outcomes are weighed before they are compared, and the index is unknown."""
        return False

    @property
    def exact(self) -> bool:
        """Whether values are exact, rather than drawn or simulated."""
        return not self.sampled

    @abstractmethod
    def observe(self, rows: Rows) -> Observation:
        """Say what each row says of each alternative."""

    @abstractmethod
    def evaluate(self, natural: Array, batch: Batch, curvature: Curvature) -> Evaluation:
        """Evaluate the log-likelihood on a batch.

        Parameters
        ----------
        natural : (n_natural,) parameters in internal units.
        batch : rows.
        curvature : how much of the Hessian is wanted; zeros stand for one that was not.
        """

    @abstractmethod
    def rows(self, natural: Array, batch: Batch) -> RowTerms:
        """Say what each row of a batch says on its own."""

    def sum_rows(self, natural: Array, batch: Batch, asked: Asked) -> RowSums:
        """Add up what rows say of the noise and of the covariates."""
        return sum_terms(self.rows(natural, batch), asked)

    def noise_of(self, natural: Array, normal: Array) -> Array:
        """Make noise (n, n_noises), in units of the scales, of standard normal numbers."""
        layout = self.problem.layout
        h, first = natural[layout.inverse_scale_positions], int(layout.starts[-1])
        extras = natural[first : first + layout.n_noise_extras]
        return self.problem.noise.from_normal(normal, extras, h)

    def draw_latent(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Array:
        """Return all outcomes (n, k) of rows; parameters are those of `draw`."""
        del rng
        return latent_outcomes(self.problem, natural, rows, noise)

    def draw(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Rows:
        """Return rows with outcomes of the model, recorded as those of the rows were.

        Parameters
        ----------
        natural : (n_natural,) parameters in internal units.
        rows : covariates, and what was recorded.
        noise : (n, n_noises) in units of the scales, as `noise_of` makes it.
        rng : draws what people share, and decides what goes unrecorded, where rows lack something.
        """
        latent = self.draw_latent(natural, rows, noise, rng)
        return draw_rows(self.problem, rows, latent, 0.0, rng)

    def obstacles(self, rows: Rows) -> Array:
        """Count what keeps outcomes from being drawn for rows like these; sums over rows add up."""
        del rows
        return np.zeros(0)

    def why_not_drawn(self, obstacles: Array) -> str | None:
        """Say why none can be drawn where there are so many obstacles; None where they can."""
        del obstacles
        return None

    def evaluate_places(self, naturals: Array, batch: Batch) -> Parts:
        """Return log-likelihoods (s,) and scores (s, m) of a batch at parameters (s, m)."""
        each = [self.evaluate(natural, batch, "none") for natural in naturals]
        return Parts(
            (np.array([one.loglik for one in each]), np.stack([one.score for one in each]))
        )

    def unit_correction(self, rows: Rows) -> float:
        """Return what the log-likelihood of observed outcomes owes to the unit of the outcome.

        Densities are per unit: in the user's units each is smaller by the internal unit.
        """
        if rows.outcome is None:
            return 0.0
        recorded = ~np.isnan(rows.outcome) if self.problem.partial else None
        if rows.weights is None:
            count = float(len(rows) if recorded is None else recorded.sum())
        else:
            count = float((rows.weights if recorded is None else rows.weights[recorded]).sum())
        return -count * float(np.log(self.problem.units.outcome_unit))


def is_weighed(problem: Problem) -> bool:
    """Say whether outcomes are weighed before they are compared, and the index is unknown."""
    if problem.index == "known" or not has_bounds(problem.ordered_rule):
        return False
    return direction_of(problem.rule) is None or problem.has_known_costs

"""What a likelihood is asked, the outcomes it draws, and what a summary sums over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import combinations, pairwise
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.errors import UnsupportedError
from selfselect.kernels.joint import hermite_values
from selfselect.kernels.unknown_index import Curvature
from selfselect.problem.batch import Batch, Evaluation, Observation, Parts
from selfselect.problem.problem import Problem
from selfselect.problem.units import by_columns
from selfselect.rules import direction_of, has_bounds

Array = NDArray[np.float64]


# What all rows together say of the noise and of the covariates: sums that the summary reads.

NOTHING = np.zeros(0)


@dataclass(frozen=True)
class Asked:
    """Which sums are wanted: what was not asked for is empty."""

    pairs: bool = True
    moments: bool = True
    grams: bool = True


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, by weight. Sums + sums = sums.

    Attributes
    ----------
    weight : of all rows.
    pairs : (k (k - 1)/2,) mean products of the residuals of two alternatives given the row.
    shape : (m, 2) means of Hermite polynomials of orders 3 and 4 of every noise given the row.
    spread : of every alternative, the scores of its log scale times its covariates, (p_j,).
    everywhere, where_chosen : of every alternative, the products (p_j, p_j) of its covariates, over
        all rows and as often as it was chosen.
    counts : (k,) how often each was chosen.
    """

    weight: float
    pairs: Array
    shape: Array
    spread: Parts
    everywhere: Parts
    where_chosen: Parts
    counts: Array

    def __add__(self, other: RowSums) -> RowSums:
        names = [field.name for field in fields(self)]
        return RowSums(*(getattr(self, name) + getattr(other, name) for name in names))


def sum_terms(terms: RowTerms, asked: Asked) -> RowSums:
    """Add up terms of rows, by NumPy; the oracle of the compiled sums."""
    problem, rows = terms.problem, terms.batch.rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    k = problem.equations.n_alternatives
    pairs, shape, counts = NOTHING, NOTHING, NOTHING
    spread, everywhere, where_chosen = Parts(), Parts(), Parts()
    if asked.pairs:
        products = (weights @ terms.products.reshape(len(rows), k * k)).reshape(k, k)
        pairs = np.array([products[j, m] for j, m in combinations(range(k), 2)])
    if asked.moments:
        excess = terms.excess
        shape = np.column_stack([weights @ order for order in terms.hermite[3:]])
        spread = Parts(
            design.T @ (weights * excess[:, j]) for j, design in enumerate(terms.designs)
        )
    if asked.grams:
        chance = terms.chance
        counts = weights @ chance
        alike = {
            equation.columns: design
            for equation, design in zip(problem.equations.each, terms.designs, strict=True)
        }
        everywhere = Parts(
            by_columns(problem.equations, lambda columns: _gram(alike[columns], weights))
        )
        where_chosen = Parts(
            _gram(design, weights * chance[:, j]) for j, design in enumerate(terms.designs)
        )
    return RowSums(float(weights.sum()), pairs, shape, spread, everywhere, where_chosen, counts)


def _gram(design: Array, weights: Array) -> Array:
    return np.asarray(design.T @ (design * weights[:, None]))


# Outcomes drawn from a model for rows, recorded as those of the rows were.

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Latent(NamedTuple):
    """All outcomes (n, k) of a draw, and what returns the rows with those that are observed."""

    latent: Array
    record: Callable[[], Rows]


def latent_outcomes(problem: Problem, natural: Array, rows: Rows, noise: Array) -> Array:
    """Return all outcomes (n, k) of rows, from noise (n, k) in units of each row's own scales."""
    units, h = problem.units, natural[problem.layout.inverse_scale_positions]
    means = problem.locations(natural, problem.designs(rows)) / h
    noisy = means + noise / problem.inverse_scales(natural, rows)
    return np.asarray(units.outcome_shift + units.outcome_unit * noisy)


def draw_rows(
    problem: Problem, rows: Rows, latent: Array, costs: Array | float, rng: Generator
) -> Rows:
    """Return rows with the outcomes (n, k) of a draw, of which the rule says which are observed.

    Parameters
    ----------
    problem, rows : the model, and the rows as they were recorded.
    latent : (n, k) all outcomes.
    costs : (n, k) estimated costs, to be taken off before outcomes are compared.
    rng : decides what goes unrecorded.
    """
    chosen = problem.ordered_rule.choose(latent - costs, rows.known)
    outcome = latent[np.arange(len(rows)), chosen]
    if problem.partial:
        return _recorded_alike(rows, outcome, chosen, rng)
    return replace(rows, outcome=outcome, chosen=None if problem.index == "unknown" else chosen)


def selection_limits(problem: Problem, natural: Array, rows: Rows) -> tuple[Array, Array]:
    """Return between which values (n, k) of its noise the selection selects each alternative."""
    selection, layout = problem.equations.selection, problem.layout
    assert selection is not None
    gamma = natural[layout.n_natural - len(selection.columns) :]
    z = problem.units.design(rows.covariates, selection.columns[: selection.n_slopes])
    index = z @ gamma[: selection.n_slopes]
    # Without cut points of its own an index selects by its sign.
    cuts = gamma[selection.n_slopes :] if selection.n_cuts else np.zeros(1)
    shape = (len(rows), problem.equations.n_alternatives)
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    for j, ends in enumerate(problem.ordered_rule.intervals(problem.equations.alternatives)):
        for limit, cut in zip((lower, upper), ends, strict=True):
            if cut is not None:
                limit[:, j] = -(index + cuts[cut])
    return lower, upper


def draw_selected(rows: Rows, latent: Array, chosen: Indices, rng: Generator) -> Rows:
    """Return rows with the outcomes that were selected, of which as many go unrecorded as did.

    `chosen` is -1 where a selection equation selects none.
    """
    assert rows.outcome is not None and rows.chosen is not None
    lost = chosen < 0
    silent = np.isnan(rows.outcome) & (rows.chosen >= 0)
    if silent.any():
        lost |= _lost(rows.chosen, silent, chosen, rng)
    outcome = np.where(lost, np.nan, latent[np.arange(len(rows)), chosen])
    return replace(rows, outcome=outcome, chosen=chosen)


def recording_obstacles(rows: Rows) -> Array:
    """Count rows of which not everything says what of a draw would go unrecorded.

    Those without a choice that some alternatives cannot be; those without limits that are
    recorded; those with limits that are not; those that are recorded within their limits.
    """
    found = np.zeros(4)
    if rows.possible is not None:
        open_to = (
            rows.possible
            if rows.known.available is None
            else (rows.possible | ~rows.known.available)
        )
        lost = np.ones(len(rows), dtype=bool) if rows.chosen is None else rows.chosen < 0
        found[0] = (lost & ~open_to.all(axis=1)).sum()
    if rows.between is None:
        return found
    assert rows.outcome is not None
    recorded = ~np.isnan(rows.outcome)
    limited = ~np.isnan(rows.between).all(axis=1)
    inside = _inside(rows, rows.outcome) & recorded & limited
    found[1:] = (~limited & recorded).sum(), (limited & ~recorded).sum(), inside.sum()
    return found


def why_not_recorded_alike(obstacles: Array) -> str | None:
    """Say why draws could not go unrecorded as rows did; None where they can."""
    excluded, without_limits, limited, inside = obstacles
    if excluded:
        return (
            "some rows restrict which alternatives may have been chosen, and simulated rows "
            "cannot reproduce that"
        )
    if without_limits and limited:
        return "limits are known only in rows without an outcome, so simulated rows have none"
    if inside:
        return (
            "some recorded outcomes lie within their limits, so limits do not determine which "
            "are missing"
        )
    return None


def _inside(rows: Rows, outcome: Array) -> Mask:
    """Say which outcomes lie within the limits of their rows."""
    assert rows.between is not None
    low, high = np.nan_to_num(rows.between[:, 0], nan=-np.inf), rows.between[:, 1]
    return (low < outcome) & (outcome < np.nan_to_num(high, nan=np.inf, posinf=np.inf))


def _lost(recorded: Indices, silent: Mask, chosen: Indices, rng: Generator) -> Mask:
    """Say which outcomes go unrecorded: silent ones, or as often as those of the same choice.

    Rows whose choice is drawn again as it was `recorded` are silent where they were.
    """
    known = recorded >= 0
    k = max(int(recorded.max()), int(chosen.max())) + 1
    counts = np.bincount(recorded[known], minlength=k)
    share = np.bincount(recorded[known], silent[known], minlength=k) / np.maximum(counts, 1)
    drawn = rng.uniform(size=len(chosen)) < share[chosen]
    return np.where(chosen == recorded, silent, drawn)


def _recorded_alike(rows: Rows, outcome: Array, chosen: Indices, rng: Generator) -> Rows:
    """Leave unrecorded what the rows lack: by their limits, else as often as where it was chosen.

    A row whose choice is drawn again as it was recorded lacks its outcome where it did.
    """
    assert rows.outcome is not None
    silent = np.isnan(rows.outcome)
    if rows.between is not None:
        limited = ~np.isnan(rows.between).all(axis=1)
        lost = np.where(limited, _inside(rows, outcome), silent)
    elif rows.chosen is None:
        lost = silent
    else:
        lost = np.where(rows.chosen >= 0, _lost(rows.chosen, silent, chosen, rng), silent)
    return replace(
        rows,
        outcome=np.where(lost, np.nan, outcome),
        chosen=None if rows.chosen is None else np.where(rows.chosen < 0, -1, chosen),
        # Of a choice that is drawn anew, what was possible is known only where all was.
        possible=None if rows.possible is None else np.ones_like(rows.possible),
    )


# The contract of likelihoods: what each row says, and sums of it over rows.


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
        `kernels.joint`. Behind the alternatives' noises stands that of a selection equation.
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

    def draw_noise(self, natural: Array, n_rows: int, rng: Generator) -> Array:
        """Draw noise (n, n_noises), in units of the scales, of which nothing is shared."""
        problem, layout = self.problem, self.problem.layout
        extras = natural[int(layout.starts[-1]) :][: layout.n_noise_extras]
        h, labels = natural[layout.inverse_scale_positions], problem.equations.alternatives
        return problem.noise.draw_standard(n_rows, extras, h, labels, rng)

    def draw(self, natural: Array, rows: Rows, noise: Array, rng: Generator) -> Latent:
        """Draw outcomes of the model, to be recorded as those of the rows were.

        Parameters
        ----------
        natural : (n_natural,) parameters in internal units.
        rows : covariates, and what was recorded.
        noise : (n, n_noises) in units of the scales, as `noise_of` makes it.
        rng : draws what people share, and decides what goes unrecorded, where rows lack something.
        """
        latent = latent_outcomes(self.problem, natural, rows, noise)
        return Latent(latent, partial(draw_rows, self.problem, rows, latent, 0.0, rng))

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

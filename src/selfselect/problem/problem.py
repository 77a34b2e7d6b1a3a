"""Equations, rule and noise; what of them cannot be right is said before the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.errors import DataError, OptionError, RuleError, UnsupportedError
from selfselect.noises import FittedNoise
from selfselect.problem.batch import Batch, Parts
from selfselect.problem.parameters import Layout
from selfselect.problem.units import Units, by_columns
from selfselect.rules import direction_of, is_trusted, rank_of
from selfselect.rules.base import SelectionRule
from selfselect.rules.check import check_rows

if TYPE_CHECKING:
    from selfselect.likelihoods.base import Likelihood
    from selfselect.samplers import Target

Array = NDArray[np.float64]


# The problem: equations, rule and noise put together, with no rows in it.


FARTHEST = 50.0
"""Logarithm of how far a row's scale may be from that at the centre. Trial steps of a search lead
beyond; the likelihood there is next to zero anyway, and its derivatives are beyond any number."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be estimated, apart from the rows it is estimated on.

    Attributes
    ----------
    equations : which alternative is explained by which covariates.
    rule : which alternative is chosen.
    noise : how outcomes scatter.
    units : internal units of covariates and outcome.
    index : whether the chosen alternative is known.
    exchangeable : whether alternatives have no names of their own, so that any order will do.
    partial : whether some rows lack their outcome, or the chosen alternative.
    grouped : whether the rows of a person share a part of their noise.
    """

    equations: Equations
    rule: SelectionRule
    noise: FittedNoise
    units: Units
    index: Literal["known", "unknown"] = "known"
    exchangeable: bool = False
    partial: bool = False
    grouped: bool = False

    @cached_property
    def layout(self) -> Layout:
        """Where every parameter stands."""
        return Layout.build(self.equations, self.noise, self.units)

    @cached_property
    def ordered_rule(self) -> Any:
        """The rule with what it keeps by label put in the order of the alternatives."""
        arrange = getattr(self.rule, "for_alternatives", None)
        return self.rule if arrange is None else arrange(self.equations.alternatives)

    def check(self, outcome_range: tuple[float, float]) -> None:
        """Raise where rule and noise cannot be right for these alternatives and outcomes."""
        check_range = getattr(self.ordered_rule, "check_range", None)
        if check_range is not None:
            check_range(*outcome_range)
        if self.noise.spread is not None and not self.equations.spreads:
            raise UnsupportedError(
                f"The scale {self.noise.spread!r} is a formula, and these rows were made without "
                "one. Use selfselect.fit with a table."
            )
        weighing = getattr(self.noise, "covariates", None)
        if weighing is not None and self.equations.types is None:
            raise UnsupportedError(
                f"Types(covariates={weighing!r}) is a formula, and these rows were made without "
                "one. Use selfselect.fit with a table."
            )
        self.noise.fixed_scales(self.equations.alternatives)
        self.noise.extras(self.equations.alternatives)
        if self.equations.costs:
            _ = self.cost_sign
        if self.layout.n_free == 0:
            raise OptionError(
                "The restrictions leave nothing free: every coefficient is an offset's and the "
                "scales are known. Give at least one term, or let the scales be estimated."
            )
        _ = self.likelihood

    @cached_property
    def likelihood(self) -> Likelihood:
        """The log-likelihood, chosen by rule, noise, index and what was recorded."""
        # Imported here: likelihoods are made of problems.
        from selfselect.likelihoods.choose import choose_likelihood

        return choose_likelihood(self)

    @property
    def model(self) -> str:
        """Which kind of model it is: sample selection, switching, or self-selection."""
        if self.equations.selection is None:
            return "self-selection"
        return "sample selection" if self.equations.n_alternatives == 1 else "switching"

    @cached_property
    def rank(self) -> int | None:
        """Rank of the observed outcome, for ranked rules; None for all others."""
        return rank_of(self.rule, self.equations.n_alternatives)

    def designs(self, rows: Rows) -> list[Array]:
        """Return every alternative's covariates (n, p_j) in internal units; equal ones once."""
        return by_columns(self.equations, partial(self.units.design, rows.covariates))

    def locations(self, natural: Array, designs: list[Array]) -> Array:
        """Return g_j'x (n, k) of all alternatives."""
        each = self.layout.coefficients_in(natural)
        return np.column_stack([x @ g for x, g in zip(designs, each, strict=True)])

    def spread_designs(self, rows: Rows) -> list[Array | None]:
        """Return what moves each alternative's scale (n, q_j), in internal units; None if nothing.

        Equal ones are made once.
        """
        made: dict[tuple[int, ...], Array] = {}
        for spread in self.layout.spread_of:
            if spread is not None and spread.columns not in made:
                made[spread.columns] = self.units.design(rows.covariates, spread.columns)
        return [None if one is None else made[one.columns] for one in self.layout.spread_of]

    def log_factors(self, natural: Array, designs: list[Array | None]) -> Array | None:
        """Return the logarithm (n, k) of what multiplies each row's h; None where scales stay."""
        n_rows = next((len(z) for z in designs if z is not None), None)
        if n_rows is None:
            return None
        found = np.zeros((n_rows, len(designs)))
        for j, (spread, z) in enumerate(zip(self.layout.spread_of, designs, strict=True)):
            if spread is not None and z is not None:
                np.negative(z @ natural[spread.places], out=found[:, j])
        return np.clip(found, -FARTHEST, FARTHEST, out=found)

    def inverse_scales(self, natural: Array, rows: Rows) -> Array:
        """Return h (n, k) of rows, or (1, k) where all rows have the same."""
        h = natural[self.layout.inverse_scale_positions][None, :]
        log_factors = self.log_factors(natural, self.spread_designs(rows))
        return h if log_factors is None else h * np.exp(log_factors)

    def row_scales(self, reported: Array, rows: Rows) -> Array:
        """Return the scales (n, k) of rows in the user's units; (1, k) where all have the same."""
        scales = self.layout.central_scales(reported)[None, :]
        if not self.layout.spreads:
            return scales
        scales = np.repeat(scales, len(rows), axis=0)
        for j, spread in enumerate(self.layout.spread_of):
            if spread is not None:
                at = self.layout.reported_extras[spread.places - int(self.layout.starts[-1])]
                columns = np.array(spread.columns)
                away = rows.covariates[:, columns - 1] - self.units.shift[columns]
                scales[:, j] *= np.exp(away @ reported[at])
        return scales

    @property
    def side(self) -> float:
        """1 where the largest outcome is observed, -1 where the smallest is: unknown index."""
        direction = direction_of(self.rule)
        if direction is None or self.has_known_costs:
            raise UnsupportedError(
                "An outcome whose alternative was not recorded can be fitted so where it is the "
                f"largest ('max') or the smallest ('min') without costs, not by {self.rule!r}."
            )
        return direction

    @property
    def cost_sign(self) -> float:
        """1 where estimated costs are taken off outcomes, -1 where they are added to them."""
        direction = direction_of(self.rule)
        if direction is None or self.index == "unknown":
            raise UnsupportedError(
                "Costs can be estimated where the choice is recorded and the largest or the "
                f"smallest outcome is observed, not by {self.rule!r} with an {self.index} index."
            )
        return direction

    @property
    def has_known_costs(self) -> bool:
        """Whether the rule weighs outcomes by known costs."""
        return bool(getattr(self.rule, "cost", None))


# Gram matrices of covariates and outcome: what least squares and checks of rank need of rows.


def sum_grams(problem: Problem, batch: Batch) -> Parts:
    """Return Z'Z per alternative over a batch, Z = [covariates, outcome] in internal units."""
    rows = batch.rows
    assert rows.outcome is not None
    outcome, weights = problem.units.limits(rows.outcome), rows.weights
    if problem.partial:
        recorded = ~np.isnan(outcome)
        weights = recorded * (1.0 if weights is None else weights)
        outcome = np.where(recorded, outcome, 0.0)

    def gram(columns: tuple[int, ...]) -> Array:
        # Columns lie one after the other; turning them around takes longer than their products.
        joined = np.empty((len(columns) + 1, len(outcome))).T
        joined[:, :-1] = problem.units.design(rows.covariates, columns)
        joined[:, -1] = outcome
        weighted = joined if weights is None else joined * weights[:, None]
        return np.asarray(joined.T @ weighted)

    return Parts(by_columns(problem.equations, gram))


def sum_columns(problem: Problem, batch: Batch) -> Array:
    """Return the sums of the first alternative's covariates over a batch, in internal units."""
    equation, weights = problem.equations.each[0], batch.rows.weights
    design = problem.units.design(batch.rows.covariates, equation.columns)
    return design.sum(axis=0) if weights is None else np.asarray(weights @ design)


# Probing a rule on the rows it is to explain, before anything is fitted to them.


PROBED_ROWS = 2_000
STEPS = 12
REACH = 1.5
"""Spread of the latent outcomes that are probed, in standard deviations of the outcome."""


def probe_rule(problem: Problem, rows: Rows, rng: Generator) -> None:
    """Raise where a user's rule breaks a promise on a sample of the rows.

    Points of the explaining sets are found by chance and by sampling. What the rule then says of
    them, of their projections, and of points between two of them, must agree.
    """
    if is_trusted(problem.rule) or problem.index != "known":
        return
    # Imported here: most rules need no probing, and fits should start quickly.
    from selfselect.samplers import EllipticalSlice, Target

    which = np.arange(len(rows))
    if len(rows) > PROBED_ROWS:
        which = np.sort(rng.choice(len(rows), PROBED_ROWS, replace=False))
    part = rows.take(which)
    assert part.chosen is not None and part.outcome is not None
    shape = (len(part), problem.equations.n_alternatives)
    target = Target(
        problem.ordered_rule,
        part.chosen,
        part.outcome,
        np.full(shape, float(np.mean(part.outcome))),
        np.full(shape[1], REACH * max(float(np.std(part.outcome)), 1e-12)),
        known=part.known,
    )
    _check_choices(target, rng)
    sampler = EllipticalSlice()
    first = second = sampler.init(target, rng)
    for _ in range(STEPS):
        first = sampler.step(target, first, rng).latent
        second = sampler.step(target, second, rng).latent
        found = check_rows(target.rule, first, second, part.chosen, part.outcome, part.known, rng)
        if not found:
            raise RuleError(f"The rule {type(problem.rule).__name__} is inconsistent. {found}")


def _check_choices(target: Target, rng: Generator) -> None:
    """Refuse choices that are no positions of alternatives."""
    k = target.means.shape[1]
    latent = target.center + target.deviations(rng)
    chosen: Any = np.asarray(target.rule.choose(latent, target.known))
    if chosen.shape != (len(latent),) or not np.issubdtype(chosen.dtype, np.integer):
        raise RuleError(
            f"choose must return one integer per row; it returned {chosen.dtype} of shape "
            f"{chosen.shape} for latent outcomes of shape {latent.shape}."
        )
    wrong = (chosen < 0) | (chosen >= k)
    if wrong.any():
        raise RuleError(
            f"choose must return positions from 0 to {k - 1}, since there are {k} alternatives; "
            f"it returned {int(chosen[wrong][0])}."
        )


# Alternatives whose outcome was never recorded: what of them can be found at all.
#
# With two alternatives, of which h is silent, rows tell the outcome of the other, j, and the sign
# of :math:`y_h - y_j`. Stretching that difference by any factor leaves all of it as it was: it
# moves the coefficients, scale and correlation of h together. Fixing one of the latter, or
# something whose part in the difference is known (a covariate of j alone, a known cost by row),
# takes that freedom away.


def refuse_unidentified(problem: Problem, rows: Rows) -> None:
    """Refuse models in which nothing determines an alternative without recorded outcomes."""
    if not problem.partial or problem.index == "unknown":
        return
    for h in range(problem.equations.n_alternatives):
        if _never_recorded(h, rows):
            _refuse_confounded_costs(problem, h)
            if problem.equations.n_alternatives == 2:
                _refuse_free_stretch(problem, rows, h)


def _never_recorded(h: int, rows: Rows) -> bool:
    """Say whether no row has an outcome, or limits of one, that may be the alternative's."""
    assert rows.outcome is not None and rows.chosen is not None
    known = ~np.isnan(rows.outcome)
    if rows.between is not None:
        known |= np.isfinite(rows.between).any(axis=1)
    maybe = rows.chosen < 0
    if rows.possible is not None:
        maybe &= rows.possible[:, h]
    return not (known & ((rows.chosen == h) | maybe)).any()


def _refuse_confounded_costs(problem: Problem, h: int) -> None:
    equations = problem.equations
    silent = equations.each[h]
    for cost in equations.costs:
        # Of two alternatives, the cost of one is the other's as well, with its sign turned.
        if cost.alternative != silent.alternative and equations.n_alternatives > 2:
            continue
        both = [term for term in cost.terms if term in silent.terms]
        if both:
            raise DataError(
                f"No outcome of {silent.alternative!r} is recorded, so the cost of "
                f"{cost.alternative!r} and the outcome of {silent.alternative!r} cannot be told "
                f"apart in {', '.join(map(repr, both))}: the choice depends only on their "
                "difference. Leave these terms out of one of the two (write '- 1' for no "
                f"constant), or record some outcomes of {silent.alternative!r}."
            )


def _refuse_free_stretch(problem: Problem, rows: Rows, h: int) -> None:
    layout, equations = problem.layout, problem.equations
    n_extras = len(problem.noise.extras(equations.alternatives))
    place = int(layout.starts[-1])
    joined = (layout.position[place : place + n_extras] >= 0).any()
    own_scale = layout.scales is None and not layout.common
    if problem.noise.independent or not joined or not own_scale:
        return
    silent, other = equations.each[h], equations.each[1 - h]
    in_costs = {term for cost in equations.costs for term in cost.terms}
    if any(term not in silent.terms and term not in in_costs for term in other.terms):
        return
    costs = rows.known.costs
    if costs is not None and np.ptp(costs[:, 1] - costs[:, 0]) > 0:
        return
    label = silent.alternative
    raise DataError(
        f"No outcome of {label!r} is recorded, and noise is {problem.noise.name.split(';')[0]}: "
        f"then its scale, its coefficients and what it shares with {other.alternative!r} cannot be "
        "told apart, since choices show on which side the difference of both lies and not how "
        f"large it is. Any of these would identify it: a covariate in the equation of "
        f"{other.alternative!r} that is left out of that of {label!r}; a known cost that differs "
        "between rows; noise with scale='common'; a fixed correlation, as in "
        "noises.Correlated(correlation=0.5); independent noise; some recorded outcomes, or limits "
        f"of them, of {label!r}."
    )

"""The problem: equations, rule and noise put together, with no rows in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.errors import OptionError, UnsupportedError
from selfselect.noises import FittedNoise
from selfselect.problem.parameters import Layout
from selfselect.problem.units import Units, by_columns
from selfselect.rules import direction_of, rank_of
from selfselect.rules.base import SelectionRule

if TYPE_CHECKING:
    from selfselect.likelihoods.base import Likelihood

__all__ = ["Problem"]

Array = NDArray[np.float64]

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

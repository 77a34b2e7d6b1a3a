"""The problem: equations, rule and noise put together, with no rows in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from selfselect.data.equations import Equations
from selfselect.data.rows import Rows
from selfselect.errors import OptionError, UnsupportedError
from selfselect.noises import Correlated, KnownCovariance, Noise, SharedShock
from selfselect.problem.observation import (
    Observation,
    observe,
    observe_inside,
    observe_partial,
    observe_ranked,
    observe_unknown,
)
from selfselect.problem.parameters import Layout
from selfselect.problem.units import Units
from selfselect.rules import Maximum, Minimum, Ranked
from selfselect.rules.base import HasBounds, SelectionRule

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be estimated, apart from the rows it is estimated on.

    Attributes
    ----------
    equations : which alternative is explained by which covariates.
    rule : who is seen.
    noise : how outcomes scatter.
    units : internal units of covariates and outcome.
    index : whether it is known who was seen.
    exchangeable : whether alternatives have no names of their own, so that any order will do.
    partial : whether some rows lack their outcome, or who was seen in them.
    """

    equations: Equations
    rule: SelectionRule
    noise: Noise
    units: Units
    index: Literal["known", "unknown"] = "known"
    exchangeable: bool = False
    partial: bool = False

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
        self.noise.fixed_scales(self.equations.alternatives)
        self.noise.extras(self.equations.alternatives)
        if self.equations.costs:
            _ = self.cost_sign
        if self.layout.n_free == 0:
            raise OptionError(
                "The restrictions leave nothing free: every coefficient is an offset's and the "
                "scales are known. Give at least one term, or let the scales be estimated."
            )
        if self.correlation is not None and not self.concave:
            raise UnsupportedError(
                "Correlated noise of known covariance needs to know who was seen, and a rule with "
                f"convex explaining sets; {self.rule.name}, {self.index} index. Use "
                "noises.Independent()."
            )

    @cached_property
    def rank(self) -> int | None:
        """Rank of the outcome that is seen, for ranked rules; None for all others."""
        if isinstance(self.rule, Ranked):
            return self.rule.rank_among(self.equations.n_alternatives)
        return None

    @cached_property
    def joint(self) -> bool:
        """Whether the likelihood joins the alternatives, rather than being a product over them."""
        joining = isinstance(self.noise, Correlated | SharedShock)
        return self.partial or bool(self.equations.costs) or joining or self.tilted

    @cached_property
    def tilted(self) -> bool:
        """Whether nobody recorded who was seen, and outcomes were weighed before the best was."""
        if self.index == "known" or not isinstance(self.ordered_rule, HasBounds):
            return False
        return type(self.rule) not in (Maximum, Minimum) or bool(getattr(self.rule, "cost", None))

    @property
    def fusible(self) -> bool:
        """Whether a fused kernel evaluates the likelihood where it joins the alternatives."""
        if self.partial or self.equations.costs or self.index == "unknown":
            return False
        pair = isinstance(self.noise, Correlated) and self.equations.n_alternatives == 2
        return pair or isinstance(self.noise, SharedShock)

    @cached_property
    def correlation(self) -> Any:
        """Known correlation (k, k) of the noise; None where it is independent."""
        if isinstance(self.noise, KnownCovariance):
            return self.noise.correlation(self.equations.alternatives)
        return None

    @cached_property
    def sampled(self) -> bool:
        """Whether explaining sets have no closed form, so that only sampling integrates them."""
        boxes = isinstance(self.ordered_rule, HasBounds) and self.correlation is None
        return self.concave and not boxes

    @property
    def concave(self) -> bool:
        """Whether the log-likelihood has one optimum: a product over convex explaining sets."""
        return self.index == "known" and self.rank is None and not self.joint

    @property
    def side(self) -> float:
        """1 where the largest outcome is seen, -1 where the smallest is; for the unknown index."""
        sides: dict[type, float] = {Maximum: 1.0, Minimum: -1.0}
        if type(self.rule) not in sides or getattr(self.rule, "cost", None):
            raise UnsupportedError(
                "An outcome whose alternative was not recorded can be fitted so where it is the "
                f"largest ('max') or the smallest ('min') without costs, not by {self.rule!r}."
            )
        return sides[type(self.rule)]

    @property
    def cost_sign(self) -> float:
        """1 where estimated costs are taken off outcomes, -1 where they are added to them."""
        signs: dict[type, float] = {Maximum: 1.0, Minimum: -1.0}
        if type(self.rule) not in signs or self.index == "unknown":
            raise UnsupportedError(
                "Costs can be estimated where it is recorded who was seen and the largest or the "
                f"smallest outcome is seen, not by {self.rule!r} with an {self.index} index."
            )
        return signs[type(self.rule)]

    def observe(self, rows: Rows) -> Observation:
        """Say what each row tells of each alternative."""
        if self.joint and self.rank is not None:
            raise UnsupportedError(
                "Ranked rules need independent noise, no estimated costs, and rows in which "
                "outcome and chooser are recorded."
            )
        if self.index == "unknown":
            if not self.tilted:
                _ = self.side
            return observe_unknown(rows, self.equations.n_alternatives)
        if self.rank is not None:
            return observe_ranked(rows, self.equations.n_alternatives)
        if self.sampled:
            return observe_inside(rows, self.equations.n_alternatives)
        if not isinstance(self.ordered_rule, HasBounds):
            raise UnsupportedError(
                f"{type(self.rule).__name__} offers no `bounds`, which noise that joins the "
                "alternatives, estimated costs and rows that lack something need. Give the rule a "
                "`bounds` method; a noise of known covariance is noises.KnownCovariance."
            )
        if self.partial:
            return observe_partial(self.ordered_rule, rows, self.equations.alternatives)
        found = observe(self.ordered_rule, rows, self.equations.alternatives)
        if self.joint and found.upper is not None:
            raise UnsupportedError(
                f"{type(self.rule).__name__} bounds outcomes on both sides, which is possible "
                "with independent noise and known costs only."
            )
        return found

    def unit_correction(self, rows: Rows) -> float:
        """Return what the log-likelihood of seen outcomes owes to the unit of the outcome.

        Densities are per unit: in the user's units each is smaller by the internal unit.
        """
        if rows.outcome is None:
            return 0.0
        recorded = ~np.isnan(rows.outcome) if self.partial else None
        if rows.weights is None:
            seen = float(len(rows) if recorded is None else recorded.sum())
        else:
            seen = float((rows.weights if recorded is None else rows.weights[recorded]).sum())
        return -seen * float(np.log(self.units.outcome_unit))

"""Which alternative is explained by which covariates: names and positions, no numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfselect.errors import DataError
from selfselect.rules.base import Label

__all__ = ["INTERCEPT", "SCALE", "Equation", "Equations"]

INTERCEPT = "Intercept"
SCALE = "scale"
"""The term of a noise scale in tables of results; no covariate can bear that name."""


@dataclass(frozen=True)
class Equation:
    """One alternative's equation.

    Attributes
    ----------
    alternative : its label.
    terms : names of its coefficients, the intercept first where there is one.
    columns : where they stand in the virtual matrix [1 | covariates]: 0 is the constant.
    """

    alternative: Label
    terms: tuple[str, ...]
    columns: tuple[int, ...]

    @property
    def has_intercept(self) -> bool:
        """Whether the equation has a constant."""
        return 0 in self.columns


@dataclass(frozen=True)
class Equations:
    """All equations, over one set of covariates.

    Attributes
    ----------
    outcome : name of the recorded outcome.
    covariates : names of all covariates of any equation, without the intercept.
    each : the equations, in the order of the alternatives.
    costs : of alternatives whose cost is estimated, what it depends on.
    """

    outcome: str
    covariates: tuple[str, ...]
    each: tuple[Equation, ...]
    costs: tuple[Equation, ...] = ()

    @classmethod
    def build(
        cls, outcome: str, terms: Sequence[Sequence[str]], alternatives: Sequence[Label]
    ) -> Equations:
        """Lay out equations from each alternative's terms."""
        covariates: dict[str, int] = {}
        for names in terms:
            met = {SCALE}
            for name in names:
                if name in met:
                    raise DataError(
                        f"A covariate cannot be named {name!r}: the results could not tell it from "
                        "another parameter of that name. Rename it."
                    )
                met.add(name)
                if name != INTERCEPT:
                    covariates.setdefault(name, len(covariates) + 1)
        each = tuple(
            Equation(
                label,
                tuple(names),
                tuple(0 if name == INTERCEPT else covariates[name] for name in names),
            )
            for label, names in zip(alternatives, terms, strict=True)
        )
        return cls(outcome, tuple(covariates), each)

    def with_costs(self, terms: Mapping[Label, Sequence[str]]) -> Equations:
        """Add estimated costs: by alternative, the terms its cost depends on."""
        covariates = dict.fromkeys(self.covariates)
        for names in terms.values():
            covariates |= dict.fromkeys(name for name in names if name != INTERCEPT)
        place = {name: i for i, name in enumerate(covariates, start=1)} | {INTERCEPT: 0}
        costs = tuple(
            Equation(label, tuple(names), tuple(place[name] for name in names))
            for label, names in terms.items()
        )
        return Equations(self.outcome, tuple(covariates), self.each, costs)

    @property
    def alternatives(self) -> tuple[Label, ...]:
        """The labels, in order."""
        return tuple(equation.alternative for equation in self.each)

    @property
    def n_alternatives(self) -> int:
        """How many alternatives there are."""
        return len(self.each)

    @property
    def all_have_intercepts(self) -> bool:
        """Whether every equation has a constant."""
        return all(equation.has_intercept for equation in self.each)

    def exclusions(self) -> dict[Label, tuple[str, ...]]:
        """Return, per alternative, the covariates other equations use and it does not."""
        return {
            equation.alternative: tuple(
                name for name in self.covariates if name not in equation.terms
            )
            for equation in self.each
        }

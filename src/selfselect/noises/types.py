"""Independent noise around means that differ between unobserved types of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.mixture import TypeMap, TypeValues
from selfselect.noises.base import Extra, FittedNoise
from selfselect.noises.independent import Independent
from selfselect.plain import archived
from selfselect.rules.base import Label

Array = NDArray[np.float64]

Held = tuple[tuple[int, Label, float], ...]

BY_BIC = 5
"""Types that are tried at most where their number is chosen."""

FARTHEST = 10.0
"""Largest shift or cost that is tried, in standard deviations of the outcome."""


def type_label(number: int) -> str:
    """Return what tables call a type; the first is type 1."""
    return f"type {number + 1}"


@archived("types")
@dataclass(frozen=True)
class Types(FittedNoise):
    r"""Independent normal noise around means that differ between unobserved types.

    .. math:: y_{ij} = x_{ij}'w_j + \alpha_{m(i)j} + \sigma_j e_{ij}, \qquad
        P(m) = \pi_m, \qquad \sum_m \pi_m \alpha_{mj} = 0

    All alternatives of a row have one type, and with ``panel=`` all rows of a person have it too.
    Types are numbered by their weight, the largest first. They approximate a distribution; their
    number is not the number of kinds of people. Without ``panel=`` only the assumed shape of the
    noise identifies them.

    Parameters
    ----------
    number : how many types there are; ``"bic"`` fits one to five and keeps the number with the
        smallest BIC.
    shifts : ``"each"`` gives a type one shift per alternative, ``"talent"`` one for all.
    costs : whether each type also has its own cost of every alternative but the first.
    covariates : ``"~ education"`` lets the weights depend on covariates by a multinomial logit;
        the weights in tables are then those at the mean of the covariates. With ``panel=`` they
        must be the same in all rows of a person.
    scale : of the noise, as in `Independent`.
    held_shifts, held_costs : (type, alternative, value) of those that are not estimated. A fit
        holds those that the data do not determine.
    averaged : the types that effects average over; None for all. It is no part of a fit.

    Examples
    --------
    >>> from selfselect.noises import Types
    >>> Types(3).name
    'normal around the means of 3 types; one scale per alternative'
    """

    number: int | str = 2
    shifts: str = "each"
    costs: bool = False
    covariates: str | None = None
    scale: str | float | Mapping[Any, float] | Sequence[float] = "each"
    held_shifts: Held = field(default=(), repr=False)
    held_costs: Held = field(default=(), repr=False)
    averaged: tuple[int, ...] | None = field(default=None, repr=False)

    joint: ClassVar[bool] = True
    mixed: ClassVar[bool] = True
    grouped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if Independent(self.scale).spread is not None:
            raise OptionError(
                f"The scale {self.scale!r} moves with covariates, which Types does not have. Use "
                "noises.Independent or noises.Correlated with that scale."
            )
        whole = isinstance(self.number, int | np.integer) and not isinstance(self.number, bool)
        if not (self.number == "bic" or (whole and int(self.number) >= 1)):
            raise OptionError(
                f"Types({self.number!r}) is not a number of types. Use a whole number of at least "
                "1, or 'bic' to have it chosen."
            )
        if self.shifts not in ("each", "talent"):
            raise OptionError(
                f"There are no shifts {self.shifts!r}. Use 'each' (one per type and alternative) "
                "or 'talent' (one per type, for all alternatives)."
            )
        if not isinstance(self.costs, bool | np.bool_):
            raise OptionError(
                f"Types(costs={self.costs!r}) must be True or False: whether each type has its own "
                "costs. Costs that depend on covariates are given to fit(cost=...)."
            )
        text = self.covariates
        if text is not None and not (isinstance(text, str) and text.strip().startswith("~")):
            raise OptionError(
                f"Types(covariates={text!r}) must be a formula such as '~ education': what the "
                "weights of the types depend on."
            )

    @property
    def count(self) -> int:
        """How many types there are, where that is known."""
        if self.number == "bic":
            raise OptionError(
                "The number of types is to be chosen by BIC, which only a fit does. Give a number, "
                "such as noises.Types(3)."
            )
        return int(self.number)

    @property
    def name(self) -> str:
        scale = Independent(self.scale).name.split("; ")[1]
        many = "types" if self.number == "bic" else f"{self.number} types"
        how = ", one shift for all alternatives" if self.shifts == "talent" else ""
        priced = ", with costs of their own" if self.costs else ""
        weighed = f", weights by {self.covariates.strip()}" if self.covariates else ""
        return f"normal around the means of {many}{how}{priced}{weighed}; {scale}"

    @property
    def weighed(self) -> tuple[Label, ...]:
        return tuple(map(type_label, range(1, self.count)))

    @property
    def candidates(self) -> tuple[FittedNoise, ...]:
        if self.number != "bic":
            return ()
        return tuple(replace(self, number=number).plainest() for number in range(1, BY_BIC + 1))

    def plainest(self) -> FittedNoise:
        # One type without costs is independent noise, and is fitted as such.
        return self if self.number != 1 or self.costs else Independent(self.scale)

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        return Independent(self.scale).fixed_scales(alternatives)

    def type_map(self, alternatives: Sequence[Label], unit: float = 1.0) -> TypeMap:
        """Return where the parameters of the types stand; `unit` is the outcome's internal one."""
        held = []
        for given in (self.held_shifts, self.held_costs):
            values = np.full((self.count, len(alternatives)), np.nan)
            for m, label, value in given:
                values[m, list(alternatives).index(label)] = value / unit
            held.append(values)
        held[1][:, 0] = 0.0
        if not self.costs:
            held[1][:] = 0.0
        return TypeMap(held[0], held[1], self.shifts == "talent", self.costs)

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        found = self.type_map(alternatives)
        made: dict[int, Extra] = {}
        for m in range(1, self.count):
            made[m - 1] = Extra((type_label(m), "logit of the weight"), 0.0)
        for label, (which, at) in zip(alternatives, found.blocks, strict=True):
            for m, place in zip(which[1:], at, strict=True):
                made[int(place)] = Extra(
                    (type_label(m) if found.talent else label, f"shift less that of type 1: {m}"),
                    0.0, in_outcome_units=True, limit=FARTHEST,
                )  # fmt: skip
        for (m, j), place in np.ndenumerate(found.cost_places):
            if place >= 0:
                made[int(place)] = Extra(
                    (alternatives[j], f"cost of {type_label(m)}"),
                    0.0, in_outcome_units=True, limit=FARTHEST,
                )  # fmt: skip
        return tuple(made[place] for place in range(len(made)))

    def shown(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        found = self.type_map(alternatives)
        made = [Extra((type_label(m), "weight"), 0.0) for m in range(self.count)]
        for m, j in self._shown_shifts(found):
            label = type_label(m) if found.talent else alternatives[j]
            term = "shift" if found.talent else f"shift of {type_label(m)}"
            made.append(Extra((label, term), 0.0, alternative=None if found.talent else j))
        for m, j in np.argwhere(found.cost_places.T >= 0)[:, ::-1]:
            made.append(Extra((alternatives[j], f"cost of {type_label(m)}"), 0.0, alternative=j))
        return tuple(made)

    def _shown_shifts(self, found: TypeMap) -> list[tuple[int, int]]:
        """Return (type, alternative) of the shifts in tables: those that are not held."""
        some = found.blocks[:1] if found.talent else found.blocks
        several = self.count > 1
        return [(int(m), j) for j, (which, _) in enumerate(some) for m in which if several]

    def show(self, extras: Array, alternatives: Sequence[Label]) -> tuple[Array, Array]:
        found = self.type_map(alternatives)
        values = found.at(extras)
        weights = values.weights
        slopes = np.zeros((self.count, len(extras)))
        slopes[:, : self.count - 1] = (np.diag(weights) - np.outer(weights, weights))[:, 1:]
        at_shift = tuple(np.array(self._shown_shifts(found), dtype=int).reshape(-1, 2).T)
        at_cost = tuple(np.argwhere(found.cost_places.T >= 0)[:, ::-1].T)
        return (
            np.concatenate([weights, values.shifts[at_shift], values.costs[at_cost]]),
            np.vstack([slopes, values.shift_slopes[at_shift], values.cost_slopes[at_cost]]),
        )

    def read(self, shown: Array, alternatives: Sequence[Label]) -> Array:
        found = self.type_map(alternatives)
        shape = (self.count, len(alternatives))
        shifts, costs = np.zeros(shape), np.zeros(shape)
        places = self._shown_shifts(found)
        for value, (m, j) in zip(shown[self.count :], places, strict=False):
            shifts[(m, slice(None)) if found.talent else (m, j)] = value
        at_cost = np.argwhere(found.cost_places.T >= 0)[:, ::-1]
        costs[tuple(at_cost.T)] = shown[self.count + len(places) :]
        return found.parameters(shown[: self.count], shifts, costs)

    def values(self, extras: Array, alternatives: Sequence[Label]) -> TypeValues:
        """Return weights, shifts and costs of all types, of extras in units of the outcome."""
        return self.type_map(alternatives).at(extras)

    def renumbered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        # Where alternatives have no names there are no costs, and nothing is held.
        k, n_shifts = len(order), self.count - 1
        logits = np.arange(n_shifts)
        if self.shifts == "talent":
            return np.concatenate([logits, n_shifts + logits])
        moved = n_shifts * (1 + np.repeat(order, n_shifts)) + np.tile(logits, k)
        return np.concatenate([logits, moved])

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        del n_rows, scales, alternatives, rng
        raise OptionError(
            "Types are drawn from a fit, which knows their weights and shifts, not from the noise "
            "alone. Draw from noises.Independent() and add a shift per person to the outcomes."
        )

    def contains(
        self, other: FittedNoise, alternatives: Sequence[Label], *, free_scales: bool
    ) -> bool:
        # With another number of types the likelihood ratio is not chi-square: BIC compares them.
        del alternatives, free_scales
        if not isinstance(other, Types) or other.number != self.number:
            return False
        return (
            self.shifts in ("each", other.shifts)
            and self.costs >= other.costs
            and other.covariates in (None, self.covariates)
            and (self.held_shifts, self.held_costs) == (other.held_shifts, other.held_costs)
        )

    def undetermined(self) -> str | None:
        named = [f"the shift of {type_label(m)} in {label!r}" for m, label, _ in self.held_shifts]
        named += [f"the cost of {label!r} for {type_label(m)}" for m, label, _ in self.held_costs]
        if not named:
            return None
        verb = "is" if len(named) == 1 else "are"
        said = (
            f"Not determined: {', '.join(named)} {verb} held fixed, since these people hardly "
            "ever choose one of the alternatives."
        )
        return said + (" Other shifts have mean zero without them." if self.held_shifts else "")

    def why_no_score_test(self) -> str | None:
        return (
            "types let the noises of a row depend on each other; use bic against the fit with "
            "independent noise"
        )

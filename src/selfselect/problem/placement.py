"""Where every parameter stands: among the natural, the free and the reported ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equation, Equations
from selfselect.errors import UnsupportedError
from selfselect.noises.base import Extra, FittedNoise
from selfselect.problem.units import Ties, Units

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class Spread(NamedTuple):
    """What moves the scale of an alternative.

    Attributes
    ----------
    places : of the coefficients of its logarithm, the constant left out, among the natural ones.
    columns : the covariates they multiply (see `Equation.columns`).
    lean : how far those covariates' centres are from zero, in internal units.
    """

    places: Indices
    columns: tuple[int, ...]
    lean: Array


@dataclass(frozen=True, eq=False)
class Placement:
    """Where every parameter stands.

    Attributes
    ----------
    equations : names and positions of the terms.
    units : internal units.
    scales : (k,) fixed scales in the user's units, or None where they are estimated.
    common : whether one estimated scale belongs to all alternatives.
    extras : parameters beside coefficients and scales: first the noise's, then those of log
        scales, then the costs', then those of a selection equation, last those of the weights of
        types.
    spreads : the log scales that move with covariates.
    noise : where tables show something else than the noise's extras, the noise that knows it.
    """

    equations: Equations
    units: Units
    scales: Array | None
    common: bool
    extras: tuple[Extra, ...] = ()
    spreads: tuple[Equation, ...] = ()
    noise: FittedNoise | None = None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of coefficients of each alternative."""
        return tuple(len(equation.columns) for equation in self.equations.each)

    @cached_property
    def starts(self) -> Indices:
        """Where each alternative's natural parameters begin, and where the extras do."""
        return np.concatenate([[0], np.cumsum(np.array(self.sizes) + 1)])

    @cached_property
    def free_inverse_scales(self) -> Indices:
        """Places of the inverse scales among the free parameters; empty where they are known."""
        places = self.position[self.inverse_scale_positions]
        return places[places >= 0]

    @cached_property
    def inverse_scale_positions(self) -> Indices:
        """Where each alternative's h stands among the natural parameters."""
        return self.starts[1:] - 1

    def coefficients_in(self, natural: Array) -> list[Array]:
        """Return g (..., p_j) of every alternative, of natural parameters (..., n_natural)."""
        at = zip(self.starts, self.inverse_scale_positions, strict=False)
        return [natural[..., start:end] for start, end in at]

    @cached_property
    def n_noise_extras(self) -> int:
        """How many of the extras are the noise's: log scales, costs and selection follow."""
        if self.noise is not None:
            return len(self.noise.extras(self.equations.alternatives))
        selection = self.equations.selection
        others = (*self.equations.costs, *(() if selection is None else (selection,)))
        moving = sum(len(one.terms) - 1 for one in self.spreads)
        return len(self.extras) - moving - sum(len(one.terms) for one in others)

    @cached_property
    def spread_of(self) -> tuple[Spread | None, ...]:
        """What moves the scale of each alternative; None where nothing does."""
        found: dict[Any, Spread] = {}
        place = int(self.starts[-1]) + self.n_noise_extras
        for one in self.spreads:
            columns = tuple(column for column in one.columns if column)
            at = np.arange(place, place + len(columns))
            lean = (self.units.shift / self.units.unit)[list(columns)]
            found[one.alternative] = Spread(at, columns, lean)
            place += len(columns)
        return tuple(found.get(label) for label in self.equations.alternatives)

    @cached_property
    def shown(self) -> tuple[Extra, ...]:
        """What tables show in place of the noise's extras; nothing where they show those."""
        return () if self.noise is None else self.noise.shown(self.equations.alternatives)

    @cached_property
    def n_natural(self) -> int:
        """How many natural parameters there are."""
        return int(self.starts[-1]) + len(self.extras)

    @cached_property
    def ties(self) -> Ties | None:
        """How coefficients are tied where some are shared or fixed; None where none is."""
        if not self.equations.restricted:
            return None
        return Ties.build(self.equations, self.units, common=self.common)

    @property
    def curved(self) -> bool:
        """Whether natural parameters are not linear in the free ones.

        So it is where alternatives share a coefficient but have a scale each.
        """
        return self.ties is not None and self.scales is None and self.ties.bends

    @cached_property
    def at_g(self) -> Indices:
        """Where the coefficients of all alternatives stand among the natural parameters."""
        return np.delete(np.arange(int(self.starts[-1])), self.inverse_scale_positions)

    @cached_property
    def position(self) -> Indices:
        """For each natural parameter its place among the free ones, or -1 where it is fixed.

        Where there are `ties`, that of a coefficient is the place of the one that stands for it.
        """
        total = int(self.starts[-1])
        position = np.arange(total)
        at_h = self.inverse_scale_positions
        if self.ties is not None:
            n_moved = self.ties.n_moved
            position[self.at_g] = self.ties.moved
            own = np.zeros(len(at_h)) if self.common else np.arange(len(at_h))
            position[at_h] = -1 if self.scales is not None else n_moved + own
        elif self.scales is not None or self.common:
            is_h = np.zeros(total, dtype=bool)
            is_h[at_h] = True
            position = np.cumsum(~is_h) - 1
            position[at_h] = position[~is_h].max() + 1 if self.common else -1
        # Nothing but known scales and offsets leaves no position at all.
        count = int(position.max(initial=-1)) + 1
        of_extras: list[int] = []
        for extra in self.extras:
            if extra.fixed is not None:
                of_extras.append(-1)
            elif extra.tied_to is not None:
                of_extras.append(of_extras[extra.tied_to])
            else:
                of_extras.append(count)
                count += 1
        return np.append(position, np.array(of_extras, dtype=np.intp))

    @cached_property
    def extra_units(self) -> Array:
        """What one internal unit of each extra is in the user's units."""
        return np.array(
            [
                (self.units.outcome_unit if extra.in_outcome_units else 1.0)
                / (1.0 if extra.column is None else float(self.units.unit[extra.column]))
                for extra in self.extras
            ]
        )

    @cached_property
    def extra_starts(self) -> Array:
        """Where searches begin with the extras, in internal units; fixed ones at their value."""
        starts = [
            extra.start if extra.fixed is None else extra.fixed / unit
            for extra, unit in zip(self.extras, self.extra_units, strict=True)
        ]
        return np.where(self.turned, np.arctanh(np.where(self.turned, starts, 0.0)), starts)

    @cached_property
    def n_free(self) -> int:
        """How many parameters are estimated."""
        return int(self.position.max(initial=-1)) + 1

    @cached_property
    def reported_order(self) -> tuple[tuple[str, int, int], ...]:
        """What the reported parameters are, in order.

        Of each alternative ("coefficient", j, its place among the terms) and ("scale", j, 0), then
        ("shared", i, 0), the common scale, and ("extra", i, 0), unless that is listed with an
        alternative; ("shown", i, 0) is what is shown in place of the noise's extras.
        """
        shared = {member for one in self.equations.shared for member in one.members}
        first = self.n_noise_extras if self.noise is not None else 0
        own = [(("shown", i, 0), extra) for i, extra in enumerate(self.shown)]
        own += [
            (("extra", i, 0), extra)
            for i, extra in enumerate(self.extras)
            if i >= first and extra.fixed is None and extra.tied_to is None
        ]
        order: list[tuple[str, int, int]] = []
        for j, equation in enumerate(self.equations.each):
            places = range(len(equation.estimated))
            order += [("coefficient", j, at) for at in places if (j, at) not in shared]
            with_it = [(what, extra) for what, extra in own if extra.alternative == j]
            order += [what for what, extra in with_it if extra.before_scale]
            if self.scales is None and not self.common:
                order.append(("scale", j, 0))
            order += [what for what, extra in with_it if not extra.before_scale]
        order += [("shared", i, 0) for i in range(len(self.equations.shared))]
        if self.common:
            order.append(("scale", 0, 0))
        order += [what for what, extra in own if extra.alternative is None]
        return tuple(order)

    @cached_property
    def _reported_place(self) -> dict[tuple[str, int, int], int]:
        return {what: place for place, what in enumerate(self.reported_order)}

    @cached_property
    def reported_places(self) -> tuple[Indices, ...]:
        """For each alternative where its coefficients stand among the reported; -1 for offsets."""
        of_shared = {
            member: self._reported_place["shared", i, 0]
            for i, one in enumerate(self.equations.shared)
            for member in one.members
        }
        places = []
        for j, equation in enumerate(self.equations.each):
            place = np.full(len(equation.terms), -1, dtype=np.intp)
            for at in range(len(equation.estimated)):
                found = of_shared.get((j, at))
                place[at] = self._reported_place["coefficient", j, at] if found is None else found
            places.append(place)
        return tuple(places)

    @cached_property
    def reported_scales(self) -> Indices:
        """Where the scale of every alternative stands among the reported; none where fixed."""
        if self.scales is not None:
            return np.empty(0, dtype=np.intp)
        owners = [0 if self.common else j for j in range(len(self.sizes))]
        return np.array([self._reported_place["scale", j, 0] for j in owners], dtype=np.intp)

    @cached_property
    def reported_extras(self) -> Indices:
        """Where each extra stands among the reported; -1 where it is fixed, or not shown."""
        places: list[int] = []
        for i, extra in enumerate(self.extras):
            if extra.fixed is not None or (self.shown and i < self.n_noise_extras):
                places.append(-1)
            elif extra.tied_to is not None:
                places.append(places[extra.tied_to])
            else:
                places.append(self._reported_place["extra", i, 0])
        return np.array(places, dtype=np.intp)

    @cached_property
    def reported_shown(self) -> Indices:
        """Where what is shown in place of the noise's extras stands among the reported."""
        places = [self._reported_place["shown", i, 0] for i in range(len(self.shown))]
        return np.array(places, dtype=np.intp)

    @cached_property
    def turned(self) -> NDArray[np.bool_]:
        """Which of the extras are on Fisher's scale among the natural parameters."""
        return np.array([extra.turned for extra in self.extras], dtype=bool)

    @cached_property
    def limits(self) -> Array | None:
        """The largest size (n_free,) of each free parameter; None where there is no limit."""
        limits = np.full(self.n_free, np.inf)
        for place, extra in zip(self.position[int(self.starts[-1]) :], self.extras, strict=True):
            if place >= 0 and np.isfinite(extra.limit):
                limits[place] = np.arctanh(extra.limit) if extra.turned else extra.limit
        return limits if np.isfinite(limits).any() else None

    @cached_property
    def extra_carry(self) -> Array:
        """From the extras in internal units, correlations as they are, to the user's (e, e).

        The constant of the selection equation takes up the shift of its covariates. So do its cut
        points; what solvers move is minus them, the constant of being beyond each.
        """
        carry = np.diag(self.extra_units)
        selection = self.equations.selection
        if selection is None:
            return carry
        first = len(self.extras) - len(selection.columns)
        lean = self.units.shift / self.units.unit
        for constant, column in enumerate(selection.columns):
            if column:
                continue
            sign = 1.0 if constant < selection.n_slopes else -1.0
            carry[first + constant, first + constant] = sign
            for place, other in enumerate(selection.columns, start=first):
                if other:
                    carry[first + constant, place] = -sign * lean[other]
        return carry

    def scales_of(self, reported: Array) -> Array:
        """Return the scale (k,) of every alternative, estimated or fixed, the same in all rows."""
        if self.spreads:
            raise UnsupportedError(
                "The scales move with covariates, so every row has scales of its own: there is no "
                "one scale of an alternative. Ask for predict(kind='scale')."
            )
        return self.central_scales(reported)

    def central_scales(self, reported: Array) -> Array:
        """Return the scale (k,) of every alternative at the centre of the internal units."""
        if self.scales is not None:
            return self.scales.copy()
        found = np.asarray(reported[self.reported_scales])
        for j, spread in enumerate(self.spread_of):
            if spread is not None:
                moved = reported[self.reported_extras[spread.places - int(self.starts[-1])]]
                found[j] = np.exp(found[j] + moved @ self.units.shift[list(spread.columns)])
        return found

    def extras_of(self, reported: Array) -> Array:
        """Return the extras, estimated or fixed, in the user's units."""
        fixed = np.array([np.nan if one.fixed is None else one.fixed for one in self.extras])
        values = np.where(
            self.reported_extras < 0, fixed, np.append(reported, 0)[self.reported_extras]
        )
        if self.noise is not None:
            labels = self.equations.alternatives
            values[: self.n_noise_extras] = self.noise.read(reported[self.reported_shown], labels)
        return values

    def coefficients_of(self, reported: Array) -> tuple[Array, ...]:
        """Return the coefficients of every alternative, shared ones too; one for offsets."""
        with_one = np.append(reported, 1.0)
        return tuple(with_one[place] for place in self.reported_places)

    def selection_of(self, reported: Array) -> Array:
        """Return the coefficients of the selection equation, its cut points last."""
        assert self.equations.selection is not None
        return np.asarray(reported[self.reported_extras[-len(self.equations.selection.terms) :]])

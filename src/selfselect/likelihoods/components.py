"""What is mixed over: types, and shocks that the rows of a person share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import INTERCEPT, Equation, Equations
from selfselect.data.rows import Rows
from selfselect.kernels.joint import hermite
from selfselect.kernels.mixture import TypeMap, TypeValues, grouped_sum
from selfselect.noises.independent import Independent
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]


# Components of a mixture: problems with independent noise, one per unobserved type.
#
# Given its type a row is a row of the same problem with independent noise: a type moves the
# constants of the equations, and of the costs. So every likelihood of independent noise serves.

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Components:
    """How a problem with types and the problem of one type belong together.

    Attributes
    ----------
    problem : with types.
    inner : the same with independent noise, a constant in every equation, and one in every cost
        that types have.
    """

    problem: Problem
    inner: Problem

    @classmethod
    def of(cls, problem: Problem) -> Components:
        """Make the problem of one type."""
        noise: Any = problem.noise
        inner = replace(
            problem,
            equations=_with_constants(problem.equations, priced=noise.costs),
            noise=Independent("each"),
            exchangeable=False,
        )
        return cls(problem, inner)

    @cached_property
    def map(self) -> TypeMap:
        """Where the parameters of the types stand, in internal units."""
        noise: Any = self.problem.noise
        return noise.type_map(self.problem.equations.alternatives, self.problem.units.outcome_unit)

    @cached_property
    def at_types(self) -> slice:
        """Places of the types' parameters among the natural ones."""
        first = int(self.problem.layout.starts[-1])
        return slice(first, first + self.map.size)

    @cached_property
    def slopes_at(self) -> Indices:
        """(M - 1, q) places of what moves the weights of all types but the first."""
        equation = self.problem.equations.types
        n_terms = 0 if equation is None else len(equation.columns)
        count = self.map.n_types - 1
        end = self.problem.layout.n_natural
        return np.arange(end - count * n_terms, end).reshape(count, n_terms)

    @cached_property
    def _places(self) -> tuple[Indices, Indices]:
        """Places of natural parameters of the problem, and of the same ones in the inner one."""
        outer, inner = self.problem.layout, self.inner.layout
        ours: list[int] = []
        theirs: list[int] = []
        for j, (wide, narrow) in enumerate(
            zip(self.inner.equations.each, self.problem.equations.each, strict=True)
        ):
            added = len(wide.columns) - len(narrow.columns)
            ours += range(int(outer.starts[j]), int(outer.starts[j + 1]))
            theirs += range(int(inner.starts[j]) + added, int(inner.starts[j + 1]))
        place = self.at_types.stop
        for cost in self.problem.equations.costs:
            ours += range(place, place + len(cost.columns))
            theirs += self._cost_places[cost.alternative][: len(cost.columns)]
            place += len(cost.columns)
        return np.array(ours, dtype=np.intp), np.array(theirs, dtype=np.intp)

    @cached_property
    def _cost_places(self) -> dict[Any, list[int]]:
        """By alternative, the places of its cost's coefficients in the inner problem."""
        place, found = int(self.inner.layout.starts[-1]), {}
        for cost in self.inner.equations.costs:
            found[cost.alternative] = list(range(place, place + len(cost.columns)))
            place += len(cost.columns)
        return found

    @cached_property
    def constants(self) -> Indices:
        """(k,) places of the constants of the inner equations."""
        starts = self.inner.layout.starts
        return np.array(
            [starts[j] + one.columns.index(0) for j, one in enumerate(self.inner.equations.each)]
        )

    @cached_property
    def cost_constants(self) -> dict[int, int]:
        """By alternative that types have a cost of, the place of its constant in the inner one."""
        labels = self.problem.equations.alternatives
        if not self.map.priced:
            return {}
        return {j: self._cost_places[labels[j]][-1] for j in range(1, len(labels))}

    def at(self, natural: Array, batch: Batch, starts: Indices | None) -> TypesAt:
        """Return the types at natural parameters, for a batch whose groups begin at `starts`."""
        return TypesAt(self, natural, self.map.at(natural[self.at_types]), batch, starts)

    def log_priors(self, natural: Array, rows: Rows, starts: Indices | None) -> Array:
        """Return the log chance (G, M) of every type before the rows of a group are looked at.

        It is (1, M) where all groups have the same.
        """
        logits = np.concatenate([[0.0], natural[self.at_types][: self.map.n_types - 1]])[None, :]
        covariates = self.weighing(rows, starts)
        if covariates is not None:
            moved = covariates @ natural[self.slopes_at].T
            logits = logits + np.column_stack([np.zeros(len(moved)), moved])
        largest = logits.max(axis=1, keepdims=True)
        return np.asarray(
            logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
        )

    def weighing(self, rows: Rows, starts: Indices | None) -> Array | None:
        """Return what weights depend on (G, q), the mean over the rows of each group."""
        equation = self.problem.equations.types
        if equation is None:
            return None
        design = self.problem.units.design(rows.covariates, equation.columns)
        if starts is None:
            return design
        sizes = np.diff(np.append(starts, len(design)))
        return np.asarray(grouped_sum(design, starts) / sizes[:, None])


@dataclass(frozen=True, eq=False)
class TypesAt:
    """The types at natural parameters: the inner parameters of each, with their derivatives."""

    components: Components
    natural: Array
    values: TypeValues
    batch: Batch
    starts: Indices | None

    @property
    def number(self) -> int:
        """How many types there are."""
        return self.components.map.n_types

    @cached_property
    def log_prior(self) -> Array:
        """(G, M) or (1, M) log chance of each type before rows are looked at."""
        return self.components.log_priors(self.natural, self.batch.rows, self.starts)

    def rows_of(self, m: int) -> Batch:
        """Return the rows that a type's inner problem is evaluated on: always the same."""
        del m
        return self.batch

    def shift(self, m: int) -> Array:
        """Return by how much a type moves all means, (k,) in internal units."""
        return np.asarray(self.values.shifts[m])

    @property
    def _h(self) -> Array:
        return np.asarray(self.natural[self.components.problem.layout.inverse_scale_positions])

    def inner(self, m: int) -> Array:
        """Return the natural parameters of the inner problem for a type."""
        parts = self.components
        ours, theirs = parts._places
        made = np.zeros(parts.inner.layout.n_natural)
        made[theirs] = self.natural[ours]
        made[parts.constants] += self._h * self.values.shifts[m]
        for j, place in parts.cost_constants.items():
            made[place] += self.values.costs[m, j]
        return made

    def slope(self, m: int) -> Array:
        """Return the derivatives (inner, outer) of a type's inner parameters."""
        parts = self.components
        ours, theirs = parts._places
        slope = np.zeros((parts.inner.layout.n_natural, len(self.natural)))
        slope[theirs, ours] = 1.0
        at_h = parts.problem.layout.inverse_scale_positions
        slope[parts.constants, at_h] += self.values.shifts[m]
        moved = self._h[:, None] * self.values.shift_slopes[m]
        slope[parts.constants, parts.at_types] += moved
        for j, place in parts.cost_constants.items():
            slope[place, parts.at_types] += self.values.cost_slopes[m, j]
        return slope

    def bend(self, scores: Array) -> Array:
        """Return what second derivatives of inner parameters add to the Hessian.

        `scores` (M, inner) are those of all types in their inner parameters.
        """
        parts = self.components
        bend = np.zeros((len(self.natural),) * 2)
        along = scores[:, parts.constants]
        at_h, own = parts.problem.layout.inverse_scale_positions, parts.at_types
        moves = np.einsum("mj,mje->je", along, self.values.shift_slopes)
        bend[at_h, own] += moves
        bend[own, at_h] += moves.T
        free = np.isnan(parts.map.held_shifts)
        pulled = (np.where(free, along, 0.0).sum(axis=0)) * self._h
        bend[own, own] += np.einsum("j,jef->ef", pulled, self.values.shift_bends)
        return bend

    def add_prior_scores(self, scores: Array, away: Array) -> None:
        """Add the scores (G, n_natural) of the weights.

        `away` (G, M) is by how much the chances of types differ from those before.
        """
        parts = self.components
        first = parts.at_types.start
        scores[:, first : first + self.number - 1] += away[:, 1:]
        covariates = parts.weighing(self.batch.rows, self.starts)
        if covariates is not None:
            for at, one in zip(parts.slopes_at, away[:, 1:].T, strict=True):
                scores[:, at] += one[:, None] * covariates

    def prior_hessian(self, weight: Array) -> Array:
        """Return the Hessian (n_natural, n_natural) of the log weights of groups of a weight (G,).

        It is the same whatever type they have.
        """
        parts = self.components
        hessian = np.zeros((len(self.natural),) * 2)
        chance = np.exp(self.log_prior)[:, 1:]
        chance = np.broadcast_to(chance, (len(weight), chance.shape[1]))
        covariates = parts.weighing(self.batch.rows, self.starts)
        ones = np.ones((len(chance), 1))
        design = ones if covariates is None else np.hstack([ones, covariates])
        logits = np.arange(parts.at_types.start, parts.at_types.start + chance.shape[1])
        places = np.column_stack([logits, parts.slopes_at])
        for a, at in enumerate(places):
            for b, other in enumerate(places):
                spread = chance[:, a] * (float(a == b) - chance[:, b]) * weight
                hessian[np.ix_(at, other)] -= design.T @ (design * spread[:, None])
        return hessian


def _with_constants(equations: Equations, *, priced: bool) -> Equations:
    """Give every equation a constant, and every cost of a type one; nothing is shared."""
    each = tuple(
        replace(one, has_offset=False)
        if one.has_intercept
        else Equation(one.alternative, (INTERCEPT, *one.terms), (0, *one.columns))
        for one in equations.each
    )
    costs = {cost.alternative: cost for cost in equations.costs}
    if priced:
        for label in equations.alternatives[1:]:
            old = costs.get(label, Equation(label, (), ()))
            costs[label] = Equation(label, (*old.terms, INTERCEPT), (*old.columns, 0))
    return replace(equations, each=each, costs=tuple(costs.values()), shared=(), types=None)


# A shock that the rows of a group share, by quadrature around what the group says of it.
#
# Given its shock u a row is a row of the same problem with independent noise and one covariate
# more, u itself, whose coefficients are the loadings. Nodes are centred at the mode of
# :math:`\log\phi(u) + \sum_{i \in p} \log L_i(u)` and spread by its curvature there, group by
# group: rows that pin the shock down leave nothing for nodes elsewhere.


STEP, MOST_STEPS, NEAR, FARTHEST = 1e-3, 12, 1e-2, 2.0
"""Of the search for modes: the step of differences, how many steps at most, the size of a step at
which nodes are well placed, and the largest one."""

LEAST_CURVATURE = 1.0
"""That of the density of the shock alone; where the likelihood is not concave the mode may have
less, and nodes would be spread too far."""


@dataclass(frozen=True, eq=False)
class Shocks:
    """How a problem with a shared shock and that of a known shock belong together.

    Attributes
    ----------
    problem : with a shared shock.
    inner : with independent noise and the shock as a covariate of every alternative.
    """

    problem: Problem
    inner: Problem

    @classmethod
    def of(cls, problem: Problem) -> Shocks:
        """Make the problem of a known shock."""
        equations, units = problem.equations, problem.units
        column = len(equations.covariates) + 1
        each = tuple(
            Equation(one.alternative, (*one.terms, "(shock)"), (*one.columns, column))
            for one in equations.each
        )
        inner = replace(
            problem,
            equations=replace(
                equations, covariates=(*equations.covariates, "(shock)"), each=each, shared=()
            ),
            noise=Independent("each"),
            units=replace(
                units, shift=np.append(units.shift, 0.0), unit=np.append(units.unit, 1.0)
            ),
            exchangeable=False,
            grouped=False,
        )
        return cls(problem, inner)

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """Places of natural parameters of the problem, and of the same ones in the inner one."""
        outer, inner = self.problem.layout, self.inner.layout
        ours: list[int] = []
        theirs: list[int] = []
        for j in range(len(outer.sizes)):
            ours += range(int(outer.starts[j]), int(outer.starts[j + 1]))
            theirs += range(int(inner.starts[j]), int(inner.inverse_scale_positions[j]) - 1)
            theirs.append(int(inner.inverse_scale_positions[j]))
        ours += range(int(outer.starts[-1]) + outer.n_noise_extras, outer.n_natural)
        theirs += range(int(inner.starts[-1]), inner.n_natural)
        return np.array(ours, dtype=np.intp), np.array(theirs, dtype=np.intp)

    @cached_property
    def loadings(self) -> tuple[Indices, Indices]:
        """(k,) places of the loadings, and of the coefficients of the shock in the inner one."""
        outer, inner = self.problem.layout, self.inner.layout
        ours = int(outer.starts[-1]) + np.arange(len(outer.sizes))
        return ours, inner.inverse_scale_positions - 1

    def at(self, natural: Array, batch: Batch, starts: Indices | None) -> ShocksAt:
        """Return the nodes at natural parameters, for a batch whose groups begin at `starts`."""
        return ShocksAt(self, natural, batch, starts)


@dataclass(frozen=True, eq=False)
class ShocksAt:
    """Nodes of the shock of every group, in place of types."""

    shocks: Shocks
    natural: Array
    batch: Batch
    starts: Indices | None

    @cached_property
    def _grid(self) -> tuple[Array, Array]:
        noise: Any = self.shocks.problem.noise
        return hermite(int(noise.nodes))

    @property
    def number(self) -> int:
        """How many nodes there are."""
        return len(self._grid[0])

    @cached_property
    def _inner(self) -> Array:
        ours, theirs = self.shocks.places
        made = np.zeros(self.shocks.inner.layout.n_natural)
        made[theirs] = self.natural[ours]
        at, inside = self.shocks.loadings
        made[inside] = self._h * self.natural[at]
        return made

    @property
    def _h(self) -> Array:
        return np.asarray(self.natural[self.shocks.problem.layout.inverse_scale_positions])

    def inner(self, m: int) -> Array:
        """Return the natural parameters of the inner problem, the same for all nodes."""
        del m
        return self._inner

    @cached_property
    def _slope(self) -> Array:
        ours, theirs = self.shocks.places
        slope = np.zeros((len(self._inner), len(self.natural)))
        slope[theirs, ours] = 1.0
        at, inside = self.shocks.loadings
        slope[inside, self.shocks.problem.layout.inverse_scale_positions] = self.natural[at]
        slope[inside, at] = self._h
        return slope

    def slope(self, m: int) -> Array:
        """Return the derivatives (inner, outer) of the inner parameters."""
        del m
        return self._slope

    def bend(self, scores: Array) -> Array:
        """Return what second derivatives of inner parameters add to the Hessian."""
        bend = np.zeros((len(self.natural),) * 2)
        at, inside = self.shocks.loadings
        at_h = self.shocks.problem.layout.inverse_scale_positions
        along = scores[:, inside].sum(axis=0)
        bend[at_h, at] += along
        bend[at, at_h] += along
        return bend

    def with_shock(self, shock: Array) -> Batch:
        """Return the rows with the shock (G,) of their group as a covariate."""
        rows = self.batch.rows
        column = shock
        if self.starts is not None:
            column = np.repeat(shock, np.diff(np.append(self.starts, len(rows))))
        covariates = np.column_stack([rows.covariates, column])
        batch = self.batch
        return Batch(
            replace(rows, covariates=covariates), batch.observation, batch.backend, batch.start
        )

    def _height(self, shock: Array) -> Array:
        """Return log density of the shock and log-likelihood of the rows (G,), less a constant."""
        likelihood = self.shocks.inner.likelihood
        each = likelihood.rows(self._inner, self.with_shock(shock)).loglik
        return np.asarray(grouped_sum(each, self.starts) - 0.5 * shock * shock)

    @cached_property
    def _modes(self) -> tuple[Array, Array]:
        """(G,) where each group's shock is most likely, and its spread there."""
        n_groups = len(self.batch) if self.starts is None else len(self.starts)
        shock = np.zeros(n_groups)
        curvature = np.ones(n_groups)
        for _ in range(MOST_STEPS):
            below, here, above = (self._height(shock + way) for way in (-STEP, 0.0, STEP))
            slope = (above - below) / (2.0 * STEP)
            bend = (2.0 * here - above - below) / STEP**2
            curvature = np.maximum(np.nan_to_num(bend), LEAST_CURVATURE)
            step = np.clip(np.nan_to_num(slope) / curvature, -FARTHEST, FARTHEST)
            shock = shock + step
            if np.abs(step * np.sqrt(curvature)).max(initial=0.0) < NEAR:
                break
        return shock, 1.0 / np.sqrt(curvature)

    @cached_property
    def nodes(self) -> Array:
        """(G, nodes) the nodes of every group."""
        mode, spread = self._modes
        return np.asarray(mode[:, None] + spread[:, None] * self._grid[0])

    @cached_property
    def log_prior(self) -> Array:
        """(G, nodes) log weight of each node times the density of the shock there."""
        _, spread = self._modes
        at, weight = self._grid
        shock = self.nodes
        return np.asarray(
            np.log(weight) + 0.5 * (at * at - shock * shock) + np.log(spread)[:, None]
        )

    def rows_of(self, m: int) -> Batch:
        """Return the rows with a node of the shock as a covariate."""
        return self.with_shock(self.nodes[:, m])

    def shift(self, m: int) -> Array:
        """Return by how much a node moves all means, (n, k) in internal units."""
        shock = self.nodes[:, m]
        if self.starts is not None:
            shock = np.repeat(shock, np.diff(np.append(self.starts, len(self.batch))))
        return np.asarray(shock[:, None] * self.natural[self.shocks.loadings[0]])

    def add_prior_scores(self, scores: Array, away: Array) -> None:
        """Add nothing: the density of the shock has no parameters."""

    def prior_hessian(self, weight: Array) -> Array:
        """Return zeros: the density of the shock has no parameters."""
        del weight
        return np.zeros((len(self.natural),) * 2)

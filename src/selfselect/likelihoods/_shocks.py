r"""A shock that the rows of a group share, by quadrature around what the group says of it.

Given its shock u a row is a row of the same problem with independent noise and one covariate more,
u itself, whose coefficients are the loadings. Nodes are centred at the mode of
:math:`\log\phi(u) + \sum_{i \in p} \log L_i(u)` and spread by its curvature there, group by group:
rows that pin the shock down leave nothing for nodes elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.equations import Equation
from selfselect.kernels.components import grouped_sum
from selfselect.kernels.shared_shock import hermite
from selfselect.noises.independent import Independent
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem

__all__ = ["Shocks", "ShocksAt"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

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

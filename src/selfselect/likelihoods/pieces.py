r"""The atoms of a batch, evaluated, and the chain rule from their inputs to the parameters.

Input :math:`a_l = r_l (h_l (c_l \pm (\kappa_l - \kappa_j)) - g_l'x)` with costs :math:`\kappa`, and
with :math:`r_l = e^{-z'\delta_l}` where the scale of l moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.ghk import row_keys
from selfselect.kernels.joint import JointTerms
from selfselect.likelihoods._atoms import Atoms, Costs, atoms_of, costs_of
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Input:
    """One input of the kernels: its derivatives in the natural parameters it depends on.

    Attributes
    ----------
    places : positions of those parameters.
    slope : (n, m) derivatives, or (1, m) where they are the same for all atoms.
    """

    places: Indices
    slope: Array


class Bend(NamedTuple):
    """Second derivatives of an input in two groups of parameters, times the input's gradient.

    Those of an atom are the outer product of its rows of `left` and `right`; a `left` of one row
    stands for all atoms.
    """

    places: Indices
    others: Indices
    left: Array
    right: Array


ONE = np.ones((1, 1))


@dataclass(frozen=True, eq=False)
class AtomPiece:
    """Some rows' atoms, evaluated: what sums, scores and memberships are made of.

    Attributes
    ----------
    atoms : the atoms.
    share : (n,) weight of each atom within its row.
    loglik : (m,) log-likelihood of each row.
    a : (n, k) standardised outcome or limit of every alternative.
    keys : (n,) keys of the atoms' rows where the kernel simulates; else None.
    terms : the kernel's terms of each atom.
    inputs : its inputs, in the kernel's order.
    bent : second derivatives of inputs.
    own_scale : per alternative what the logarithm of its h adds where it is chosen, as an input.
    extras : the noise's own parameters, as its kernel takes them.
    """

    atoms: Atoms
    share: Array
    loglik: Array
    a: Array
    keys: Any
    terms: JointTerms
    inputs: list[Input]
    bent: list[Bend]
    own_scale: list[Input]
    extras: Array


def pieces_of(
    problem: Problem, natural: Array, batch: Batch, *, curvature: bool, moved: Array | float = 0.0
) -> list[AtomPiece]:
    """Evaluate the atoms of a batch; `moved` is added to all means."""
    h = natural[problem.layout.inverse_scale_positions]
    designs = problem.designs(batch.rows)
    location = problem.locations(natural, designs)
    location += moved * h
    covariance = noise_covariance(problem, natural)
    moving = _moving(problem, natural, batch)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, spread = location / h, (np.sqrt(np.diag(covariance)) / np.abs(h))[None, :]
        scales = (1.0 / np.abs(h))[None, :]
        if moving is not None:
            scales, spread = scales / moving.factor, spread / moving.factor
    extras = _noise_extras(problem, natural)
    finest = problem.noise.narrowest(covariance, extras) * scales
    shapes = problem.noise.margins(extras, len(h))
    given = Given(
        designs,
        location,
        costs_of(problem, natural, batch.rows),
        moving,
        _keys(problem, batch),
        curvature,
    )
    return [
        _evaluate_atoms(problem, natural, atoms, given)
        for atoms in atoms_of(problem, shapes, mean, spread, finest, batch)
    ]


def residuals_of(problem: Problem, piece: AtomPiece, covariance: Array) -> Array:
    """Return the mean (n, k) of the noises given each atom, in units of their scales."""
    return problem.noise.residuals(
        piece.a,
        piece.atoms.chosen,
        piece.atoms.side,
        piece.terms.gradient,
        covariance,
        piece.extras,
    )


def hermite_of(problem: Problem, piece: AtomPiece) -> Array:
    """Return means (5, m, k) of Hermite polynomials of the noises given each row."""
    atoms = piece.atoms
    found = problem.noise.hermite_means(
        piece.a, atoms.chosen, atoms.side, piece.extras, keys=piece.keys
    )
    return np.asarray(np.add.reduceat(found * piece.share[:, None], atoms.first, axis=1))


def noise_covariance(problem: Problem, natural: Array) -> Array:
    """Return the covariance (k, k) of the noises, each in units of its own scale."""
    layout = problem.layout
    h = natural[layout.inverse_scale_positions]
    return problem.noise.standard_covariance(natural[layout.starts[-1] :], h)


@dataclass(frozen=True, eq=False)
class Moving:
    """What moves the scales of a batch.

    Attributes
    ----------
    design : per alternative (n, q_j) covariates of its log scale; None where it does not move.
    log_factor, factor : (n, k) what multiplies each row's g and h.
    """

    design: list[Array | None]
    log_factor: Array
    factor: Array


def _moving(problem: Problem, natural: Array, batch: Batch) -> Moving | None:
    design = problem.spread_designs(batch.rows)
    log_factor = problem.log_factors(natural, design)
    return None if log_factor is None else Moving(design, log_factor, np.exp(log_factor))


def _keys(problem: Problem, batch: Batch) -> Any:
    """Return keys of the rows for simulation, made of what was recorded in them."""
    if not problem.noise.simulated(problem.equations.n_alternatives):
        return None
    rows = batch.rows
    numbers = rows.covariates.sum(axis=1)
    if rows.outcome is not None:
        numbers = numbers + np.nan_to_num(rows.outcome) * np.pi
    return row_keys(numbers)


@dataclass(frozen=True, eq=False)
class Given:
    """What the atoms of a batch share: designs, g'x, costs, scales, keys, and what is wanted."""

    designs: list[Array]
    location: Array
    costs: Costs | None
    moving: Moving | None
    keys: Any
    curvature: bool


def _evaluate_atoms(problem: Problem, natural: Array, atoms: Atoms, given: Given) -> AtomPiece:
    costs, moving = given.costs, given.moving
    layout, k = problem.layout, problem.equations.n_alternatives
    h = natural[layout.inverse_scale_positions]
    rows = atoms.rows if len(atoms.row) == len(atoms.rows) else atoms.rows[atoms.row]
    limit = atoms.limit
    each = np.arange(len(rows))
    if costs is not None:
        value = costs.value[rows]
        # The entry of the chosen one gains its own cost less itself: nothing.
        limit = limit + costs.sign * (value - value[each, atoms.chosen][:, None])
    a = limit * h - given.location[rows]
    factor = None if moving is None else moving.factor[rows]
    if factor is not None:
        a *= factor
    extras = kernel_extras(problem, natural)
    keys = None if given.keys is None else given.keys[rows]
    terms = problem.noise.evaluate(
        a,
        atoms.chosen,
        atoms.side,
        extras,
        keys=keys,
        curvature=given.curvature,
    )

    inputs: list[Input] = []
    bent: list[Bend] = []
    for j, design in enumerate(given.designs):
        own = np.arange(layout.starts[j], layout.starts[j + 1])
        slope = np.empty((len(rows), len(own)))
        np.negative(design[rows], out=slope[:, :-1])
        slope[:, -1] = limit[:, j]
        gradient = terms.gradient[:, j]
        if factor is not None:
            gradient = gradient * factor[:, j]
        if costs is not None:
            own, slope = _with_costs(costs, own, slope, j, h[j], atoms.chosen, rows)
            bent += _bent_by_costs(costs, layout.inverse_scale_positions[j], j, atoms.chosen, rows,
                                   gradient)  # fmt: skip
        if factor is not None:
            slope *= factor[:, [j]]
        spread = layout.spread_of[j]
        if moving is not None and spread is not None:
            along = -_design(moving, j)[rows]
            gradient = terms.gradient[:, j]
            bent += _bent_by_spread(along, spread.places, own, slope, a[:, j], gradient)
            own = np.append(own, spread.places)
            slope = np.concatenate([slope, along * a[:, [j]]], axis=1)
        inputs.append(Input(own, slope))
    place = int(layout.starts[-1])
    if problem.noise.extras_in_scales:
        for j in range(k):
            at_h, at_b = layout.inverse_scale_positions[j], place + j
            inputs.append(Input(np.array([at_h, at_b]), np.array([[natural[at_b], natural[at_h]]])))
            bent.append(Bend(np.array([at_h]), np.array([at_b]), ONE, terms.gradient[:, [k + j]]))
    else:
        inputs += [
            Input(np.array([place + m]), np.ones((1, 1)))
            for m in range(terms.gradient.shape[1] - k)
        ]
    # A cost of alternatives that never depend on it, or an infeasible place, gives -inf or nan.
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = terms.loglik + np.log(h)[atoms.chosen]
    if moving is not None:
        logs = logs + moving.log_factor[rows, atoms.chosen]
    own_scale = _own_scale(problem, natural, moving, rows)
    if atoms.log_weight is None:
        return AtomPiece(
            atoms, np.ones(len(rows)), logs, a, keys, terms, inputs, bent, own_scale, extras
        )
    logs = logs + atoms.log_weight
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.maximum.reduceat(logs, atoms.first)
        relative = np.exp(logs - largest[atoms.row])
        total = np.add.reduceat(relative, atoms.first)
        share, loglik = relative / total[atoms.row], largest + np.log(total)
    return AtomPiece(atoms, share, loglik, a, keys, terms, inputs, bent, own_scale, extras)


def _design(moving: Moving, j: int) -> Array:
    design = moving.design[j]
    assert design is not None
    return design


def _own_scale(
    problem: Problem, natural: Array, moving: Moving | None, rows: Indices
) -> list[Input]:
    """Return the derivatives of the logarithm of each alternative's h, that of a row its own."""
    made = []
    both = zip(problem.layout.inverse_scale_positions, problem.layout.spread_of, strict=True)
    for j, (at_h, spread) in enumerate(both):
        slope = np.array([[1.0 / natural[at_h]]])
        if moving is None or spread is None:
            made.append(Input(np.array([at_h]), slope))
            continue
        z = _design(moving, j)[rows]
        slope = np.concatenate([np.repeat(slope, len(z), axis=0), -z], axis=1)
        made.append(Input(np.append(at_h, spread.places), slope))
    return made


def _noise_extras(problem: Problem, natural: Array) -> Array:
    """Return the noise's own parameters as they stand among the natural ones."""
    first = int(problem.layout.starts[-1])
    return natural[first : first + problem.layout.n_noise_extras]


def kernel_extras(problem: Problem, natural: Array) -> Array:
    """Return the noise's own parameters as its kernel takes them."""
    layout = problem.layout
    extras = _noise_extras(problem, natural)
    if problem.noise.extras_in_scales:
        return extras[: len(layout.sizes)] * natural[layout.inverse_scale_positions]
    return extras


def _with_costs(
    costs: Costs, own: Indices, slope: Array, j: int, h: float, chosen: Indices, rows: Indices
) -> tuple[Indices, Array]:
    """Append the derivatives of an input in the coefficients of all costs."""
    parts, places = [slope], [own]
    for m, design in enumerate(costs.design):
        if design.shape[1]:
            # The limit of j rises with its own cost and falls with that of the chosen one.
            factor = float(m == j) - (chosen == m)
            parts.append(design[rows] * (costs.sign * h * factor)[:, None])
            places.append(costs.places[m])
    return np.concatenate(places), np.concatenate(parts, axis=1)


def _bent_by_costs(
    costs: Costs, at_h: int, j: int, chosen: Indices, rows: Indices, gradient: Array
) -> list[Bend]:
    bent = []
    for m, design in enumerate(costs.design):
        if design.shape[1]:
            factor = costs.sign * (float(m == j) - (chosen == m)) * gradient
            bent.append(
                Bend(np.array([at_h]), costs.places[m], ONE, design[rows] * factor[:, None])
            )
    return bent


def _bent_by_spread(
    along: Array, places: Indices, others: Indices, slope: Array, a: Array, gradient: Array
) -> list[Bend]:
    """Return second derivatives of an input in what moves its scale, -z, and all it depends on."""
    # Half of the symmetric part: it is added with its transpose.
    square = along * (0.5 * a * gradient)[:, None]
    return [
        Bend(places, others, along, slope * gradient[:, None]),
        Bend(places, places, along, square),
    ]

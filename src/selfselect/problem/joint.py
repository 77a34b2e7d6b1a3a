r"""Evaluating problems whose likelihood joins the alternatives.

Correlated noise, a shared shock, costs that are estimated, outcomes or choosers that were not
recorded: all are sums over atoms (see `atoms`) of terms in the inputs :math:`a_l` and what the
noise adds (see `kernels.joint`). The chain rule to the natural parameters is the same for all:
input :math:`a_l = h_l (c_l \pm (\kappa_l - \kappa_j)) - g_l'x` with costs :math:`\kappa`. A row of
several atoms has the score of their mixture, and the Hessian by Louis (1982):

.. math:: H = \sum_t \pi_t (H_t + s_t s_t') - s s'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.kernels.correlated_pair import correlated_pair_atoms
from selfselect.kernels.joint import JointTerms, independent_atoms
from selfselect.kernels.status import MAYBE
from selfselect.kernels.unknown_index import Curvature
from selfselect.noises import Correlated, Independent, SharedShock
from selfselect.noises._pairs import as_matrix
from selfselect.problem._fused_joint import evaluate_fused
from selfselect.problem.atoms import Atoms, atoms_of
from selfselect.problem.batch import Batch, Evaluation
from selfselect.problem.expectations import NEGLIGIBLE, Expectations
from selfselect.problem.observation import Observation
from selfselect.problem.problem import Problem
from selfselect.threads import parallel_map

__all__ = [
    "JointRows",
    "evaluate_joint",
    "joint_expectations",
    "joint_rows",
    "noise_covariance",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

EXPECTED_AT_ONCE = 128
"""Rows whose expectations are integrated at once: each has some hundred atoms."""

ROWS_AT_ONCE = 2_048
"""Rows whose atoms, inputs and second derivatives are held at once."""


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


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows' atoms, evaluated: what sums, scores and memberships are made of.

    Attributes
    ----------
    atoms : the atoms.
    share : (n,) weight of each atom within its row.
    loglik : (m,) log-likelihood of each row.
    terms : the kernel's terms of each atom.
    inputs : its inputs, in the kernel's order.
    bent : second derivatives of inputs: (place, place, (n,) value times the input's gradient).
    """

    atoms: Atoms
    share: Array
    loglik: Array
    terms: JointTerms
    inputs: list[Input]
    bent: list[tuple[Indices, Indices, Array]]


@dataclass(frozen=True, eq=False)
class JointRows:
    """What each row says on its own.

    Attributes
    ----------
    loglik : (n,)
    chance : (n, k) probability that each alternative was the one seen.
    residual : (n, k) mean of each alternative's noise given the row, in units of its scale.
    score : (n, n_natural) unweighted.
    products : (n, k, k) sum over atoms of products of the gradients in the inputs: for independent
        noise the mean product of two alternatives' residuals; None where not wanted.
    """

    loglik: Array
    chance: Array
    residual: Array
    score: Array
    products: Array | None


def evaluate_joint(
    problem: Problem, natural: Array, batch: Batch, curvature: Curvature
) -> Evaluation:
    """Evaluate the log-likelihood on a batch; ``complete`` curvature is the exact one here."""
    if batch.backend == "fused":
        evaluation = evaluate_fused(problem, natural, batch, curvature=curvature != "none")
        if evaluation is not None and np.isfinite(evaluation.loglik):
            return evaluation
    if len(batch) > ROWS_AT_ONCE:
        parts = [
            evaluate_joint(problem, natural, batch.take(slice(at, at + ROWS_AT_ONCE)), curvature)
            for at in range(0, len(batch), ROWS_AT_ONCE)
        ]
        return reduce(add, parts)
    wanted = curvature != "none"
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    loglik = problem.unit_correction(batch.rows)
    score = np.zeros(len(natural))
    hessian = np.zeros((len(natural),) * 2 if wanted else (1, 1))
    for piece in _pieces(problem, natural, batch, wanted):
        weight = weights[piece.atoms.rows]
        loglik += float(weight @ piece.loglik)
        _add_up(problem, natural, piece, weight, score, hessian if wanted else None)
    return Evaluation(loglik, score, hessian)


def joint_rows(
    problem: Problem, natural: Array, batch: Batch, *, products: bool = False
) -> JointRows:
    """Evaluate each row on its own."""
    n_rows, k = len(batch), problem.equations.n_alternatives
    loglik, chance = np.empty(n_rows), np.zeros((n_rows, k))
    residual, score = np.empty((n_rows, k)), np.empty((n_rows, len(natural)))
    pairs = np.empty((n_rows, k, k)) if products else None
    covariance = noise_covariance(problem, natural)
    for at in range(0, n_rows, ROWS_AT_ONCE):
        part = batch.take(slice(at, at + ROWS_AT_ONCE))
        for piece in _pieces(problem, natural, part, False):
            atoms, rows = piece.atoms, at + piece.atoms.rows
            loglik[rows] = piece.loglik
            np.add.at(chance, (rows[atoms.row], atoms.seen), piece.share)
            along = piece.terms.gradient[:, :k] * piece.share[:, None]
            residual[rows] = -np.add.reduceat(along, atoms.first) @ covariance
            score[rows] = _row_scores(problem, natural, piece)
            if pairs is not None:
                both = along[:, :, None] * piece.terms.gradient[:, None, :k]
                pairs[rows] = np.add.reduceat(both, atoms.first)
    return JointRows(loglik, chance, residual, score, pairs)


def joint_expectations(
    problem: Problem, natural: Array, rows: Rows, *, shift: Array | None = None
) -> Expectations:
    """Integrate over the latent outcomes of rows of which nothing was recorded.

    Such a row is the sum of all atoms there are: their weights add up to one, and those of an
    alternative to the chance that it is seen. `shift` (k,) is added to all means, in the user's
    units.
    """
    moved = np.zeros(problem.equations.n_alternatives) if shift is None else shift
    moved = moved / problem.units.outcome_unit
    n_rows, k = len(rows), problem.equations.n_alternatives
    h = natural[problem.layout.inverse_scale_positions]
    covariance = noise_covariance(problem, natural)
    chance, given = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    problem = replace(problem, partial=True)
    blank = replace(
        rows,
        outcome=np.full(n_rows, np.nan),
        chosen=np.full(n_rows, -1),
        between=None,
        possible=None,
    )
    nothing = Observation(np.full((n_rows, k), MAYBE, dtype=np.int8), np.zeros((n_rows, k)))
    whole = Batch(blank, nothing, "joint")

    def fill(at: int) -> None:
        part = whole.take(slice(at, at + EXPECTED_AT_ONCE))
        (piece,) = _pieces(problem, natural, part, False, moved)
        atoms = piece.atoms
        means = _means(problem, natural, part)[atoms.row] + moved
        noise = -(piece.terms.gradient[:, :k] @ covariance) / h
        outcome = problem.units.outcome_shift + problem.units.outcome_unit * (means + noise)
        place = atoms.row * k + atoms.seen
        size = len(part) * k
        share = np.bincount(place, piece.share, size).reshape(-1, k)
        chance[at : at + len(part)] = share
        for m in range(k):
            total = np.bincount(place, piece.share * outcome[:, m], size).reshape(-1, k)
            with np.errstate(divide="ignore", invalid="ignore"):
                given[at : at + len(part), m] = np.where(share < NEGLIGIBLE, np.nan, total / share)

    for _ in parallel_map(fill, range(0, n_rows, EXPECTED_AT_ONCE)):
        pass
    own = np.einsum("nll->nl", given)
    outcome = np.where(chance > 0, chance * np.nan_to_num(own), 0.0).sum(axis=1)
    return Expectations(chance, outcome, given)


def _means(problem: Problem, natural: Array, batch: Batch) -> Array:
    layout = problem.layout
    location = [
        x @ natural[layout.starts[j] : layout.inverse_scale_positions[j]]
        for j, x in enumerate(_designs(problem, batch))
    ]
    return np.column_stack(location) / natural[layout.inverse_scale_positions]


def noise_covariance(problem: Problem, natural: Array) -> Array:
    """Return the covariance (k, k) of the noises, each in units of its own scale."""
    layout, k = problem.layout, problem.equations.n_alternatives
    extras = natural[layout.starts[-1] :]
    if isinstance(problem.noise, Correlated):
        return as_matrix(extras[: k * (k - 1) // 2], k)
    if isinstance(problem.noise, SharedShock):
        loadings = extras[:k] * natural[layout.inverse_scale_positions]
        return np.eye(k) + np.outer(loadings, loadings)
    return np.eye(k)


def _pieces(
    problem: Problem, natural: Array, batch: Batch, curvature: bool, moved: Array | float = 0.0
) -> list[Piece]:
    """Evaluate the atoms of a batch; `moved` is added to all means."""
    layout = problem.layout
    h = natural[layout.inverse_scale_positions]
    designs = _designs(problem, batch)
    location = np.column_stack(
        [
            x @ natural[layout.starts[j] : layout.inverse_scale_positions[j]]
            for j, x in enumerate(designs)
        ]
    )
    location += moved * h
    covariance = noise_covariance(problem, natural)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, spread = location / h, np.sqrt(np.diag(covariance)) / np.abs(h)
    tightness = 1.0
    if isinstance(problem.noise, Correlated):
        tightness = float(np.sqrt(max(np.linalg.eigvalsh(covariance)[0], 1e-4)))
    narrowest = tightness * float(1.0 / np.abs(h).max())
    costs = _costs(problem, natural, batch)
    keys = _keys(problem, batch)
    return [
        _evaluate_atoms(problem, natural, atoms, designs, location, costs, keys, curvature)
        for atoms in atoms_of(problem, mean, spread, narrowest, batch)
    ]


def _designs(problem: Problem, batch: Batch) -> list[Array]:
    made: dict[tuple[int, ...], Array] = {}
    for equation in problem.equations.each:
        if equation.columns not in made:
            made[equation.columns] = problem.units.design(batch.rows.covariates, equation.columns)
    return [made[equation.columns] for equation in problem.equations.each]


@dataclass(frozen=True, eq=False)
class Costs:
    """Estimated costs of a batch.

    Attributes
    ----------
    design : per alternative (n, q_j) covariates of its cost, in internal units.
    places : per alternative positions of its coefficients among the natural parameters.
    value : (n, k) costs.
    sign : 1 where costs are taken off outcomes that are sought large, -1 where they are added to
        outcomes that are sought small.
    """

    design: list[Array]
    places: list[Indices]
    value: Array
    sign: float


def _costs(problem: Problem, natural: Array, batch: Batch) -> Costs | None:
    equations = problem.equations
    if not equations.costs:
        return None
    k, rows = equations.n_alternatives, batch.rows
    design = [np.empty((len(batch), 0)) for _ in range(k)]
    places = [np.empty(0, dtype=np.intp) for _ in range(k)]
    value = np.zeros((len(batch), k))
    # Those of the costs are the last of the extras.
    place = len(natural) - sum(len(cost.terms) for cost in equations.costs)
    for cost in equations.costs:
        j = equations.alternatives.index(cost.alternative)
        # Only scaled, not centred: a cost without a constant has none to take the shift up.
        columns = [
            np.ones(len(batch)) if c == 0 else rows.covariates[:, c - 1] / problem.units.unit[c]
            for c in cost.columns
        ]
        design[j] = np.column_stack(columns)
        places[j] = np.arange(place, place + len(columns))
        value[:, j] = design[j] @ natural[places[j]]
        place += len(columns)
    return Costs(design, places, value, problem.cost_sign)


def _keys(problem: Problem, batch: Batch) -> Any:
    """Return keys of the rows for simulation, made of what was recorded in them."""
    if not (isinstance(problem.noise, Correlated) and problem.equations.n_alternatives > 2):
        return None
    from selfselect.kernels.ghk import row_keys

    rows = batch.rows
    numbers = rows.covariates.sum(axis=1)
    if rows.outcome is not None:
        numbers = numbers + np.nan_to_num(rows.outcome) * np.pi
    return row_keys(numbers)


def _evaluate_atoms(
    problem: Problem,
    natural: Array,
    atoms: Atoms,
    designs: list[Array],
    location: Array,
    costs: Costs | None,
    keys: Any,
    curvature: bool,
) -> Piece:
    layout, k = problem.layout, problem.equations.n_alternatives
    h = natural[layout.inverse_scale_positions]
    rows = atoms.rows if len(atoms.row) == len(atoms.rows) else atoms.rows[atoms.row]
    limit = atoms.limit
    each = np.arange(len(rows))
    if costs is not None:
        value = costs.value[rows]
        # The entry of the one seen gains its own cost less itself: nothing.
        limit = limit + costs.sign * (value - value[each, atoms.seen][:, None])
    a = limit * h - location[rows]
    terms = _kernel(problem, natural, a, atoms, None if keys is None else keys[rows], curvature)

    inputs, bent = [], []
    for j, design in enumerate(designs):
        own = np.arange(layout.starts[j], layout.starts[j + 1])
        slope = np.empty((len(rows), len(own)))
        np.negative(design[rows], out=slope[:, :-1])
        slope[:, -1] = limit[:, j]
        if costs is not None:
            own, slope = _with_costs(costs, own, slope, j, h[j], atoms.seen, rows)
            bent += _bent_by_costs(costs, layout.inverse_scale_positions[j], j, atoms.seen, rows,
                                   terms.gradient[:, j])  # fmt: skip
        inputs.append(Input(own, slope))
    place = int(layout.starts[-1])
    if isinstance(problem.noise, SharedShock):
        for j in range(k):
            at_h, at_b = layout.inverse_scale_positions[j], place + j
            inputs.append(Input(np.array([at_h, at_b]), np.array([[natural[at_b], natural[at_h]]])))
            bent.append((np.array([at_h]), np.array([at_b]), terms.gradient[:, k + j, None, None]))
    else:
        inputs += [
            Input(np.array([place + m]), np.ones((1, 1)))
            for m in range(terms.gradient.shape[1] - k)
        ]
    # A cost of alternatives that never depend on it, or an infeasible place, gives -inf or nan.
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = terms.loglik + np.log(h)[atoms.seen]
    if atoms.log_weight is None:
        return Piece(atoms, np.ones(len(rows)), logs, terms, inputs, bent)
    logs = logs + atoms.log_weight
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.maximum.reduceat(logs, atoms.first)
        relative = np.exp(logs - largest[atoms.row])
        total = np.add.reduceat(relative, atoms.first)
        return Piece(
            atoms, relative / total[atoms.row], largest + np.log(total), terms, inputs, bent
        )


def _kernel(
    problem: Problem, natural: Array, a: Array, atoms: Atoms, keys: Any, curvature: bool
) -> JointTerms:
    noise, k = problem.noise, a.shape[1]
    extras = natural[problem.layout.starts[-1] :]
    if isinstance(noise, Independent):
        return independent_atoms(a, atoms.seen, atoms.side, curvature=curvature)
    if isinstance(noise, SharedShock):
        # Imported here: numba costs a second, which nothing else may need.
        from selfselect.kernels.shared_shock import shared_shock_atoms

        loadings = extras[:k] * natural[problem.layout.inverse_scale_positions]
        return shared_shock_atoms(
            a, atoms.seen, atoms.side, loadings, nodes=noise.nodes, curvature=curvature
        )
    assert isinstance(noise, Correlated)
    if k == 2:
        if not abs(extras[0]) < 1.0:
            return JointTerms(
                np.full(len(a), -np.inf), np.zeros((len(a), 3)), np.zeros((len(a), 3, 3))
            )
        return correlated_pair_atoms(
            a, atoms.seen, atoms.side, float(extras[0]), curvature=curvature
        )
    from selfselect.kernels.ghk import ghk_atoms

    pairs = extras[: k * (k - 1) // 2]
    return ghk_atoms(a, atoms.seen, atoms.side, pairs, keys, draws=noise.draws, curvature=curvature)


def _with_costs(
    costs: Costs, own: Indices, slope: Array, j: int, h: float, seen: Indices, rows: Indices
) -> tuple[Indices, Array]:
    """Append the derivatives of an input in the coefficients of all costs."""
    parts, places = [slope], [own]
    for m, design in enumerate(costs.design):
        if design.shape[1]:
            # The limit of j rises with its own cost and falls with that of the one seen.
            factor = float(m == j) - (seen == m)
            parts.append(design[rows] * (costs.sign * h * factor)[:, None])
            places.append(costs.places[m])
    return np.concatenate(places), np.concatenate(parts, axis=1)


def _bent_by_costs(
    costs: Costs, at_h: int, j: int, seen: Indices, rows: Indices, gradient: Array
) -> list[tuple[Indices, Indices, Array]]:
    bent = []
    for m, design in enumerate(costs.design):
        if design.shape[1]:
            factor = costs.sign * (float(m == j) - (seen == m)) * gradient
            value = (design[rows] * factor[:, None])[:, None, :]
            bent.append((np.array([at_h]), costs.places[m], value))
    return bent


def _add_up(
    problem: Problem,
    natural: Array,
    piece: Piece,
    weight: Array,
    score: Array,
    hessian: Array | None,
) -> None:
    """Add a piece's weighted score and Hessian to those of the batch."""
    atoms, terms = piece.atoms, piece.terms
    single = atoms.log_weight is None
    per_atom = weight if single else weight[atoms.row] * piece.share
    at_h = problem.layout.inverse_scale_positions
    counts = np.bincount(atoms.seen, weights=per_atom, minlength=len(at_h))
    score[at_h] += counts / natural[at_h]
    for place, one in enumerate(piece.inputs):
        score[one.places] += _weighted_sum(one.slope, per_atom * terms.gradient[:, place])
    if hessian is None:
        return
    assert terms.hessian is not None
    hessian[at_h, at_h] -= counts / natural[at_h] ** 2
    for places, others, value in piece.bent:
        block = np.tensordot(per_atom, value, axes=(0, 0))
        hessian[np.ix_(places, others)] += block
        hessian[np.ix_(others, places)] += block.T
    curved, inputs = terms.hessian, piece.inputs
    if not single:
        # An atom's own score also has what log h_j adds: an input of its own.
        own = (atoms.seen[:, None] == np.arange(len(at_h))).astype(float)
        along = np.concatenate([terms.gradient, own], axis=1)
        inputs = inputs + [
            Input(at_h[[j]], np.array([[1.0 / natural[at_h[j]]]])) for j in range(len(at_h))
        ]
        curved = along[:, :, None] * along[:, None, :]
        curved[:, : terms.hessian.shape[1], : terms.hessian.shape[1]] += terms.hessian
        rows = _row_scores(problem, natural, piece)
        hessian -= rows.T @ (rows * weight[:, None])
    for place, one in enumerate(inputs):
        for earlier in range(place + 1):
            other = inputs[earlier]
            block = _weighted_cross(one.slope, per_atom * curved[:, place, earlier], other.slope)
            hessian[np.ix_(one.places, other.places)] += block
            if earlier != place:
                hessian[np.ix_(other.places, one.places)] += block.T


def _row_scores(problem: Problem, natural: Array, piece: Piece) -> Array:
    """Return each row's own score (m, n_natural)."""
    atoms = piece.atoms
    scores = np.zeros((len(atoms.rows), len(natural)))
    for place, one in enumerate(piece.inputs):
        along = (piece.share * piece.terms.gradient[:, place])[:, None] * one.slope
        scores[:, one.places] += (
            along if atoms.log_weight is None else np.add.reduceat(along, atoms.first)
        )
    at_h = problem.layout.inverse_scale_positions
    np.add.at(scores, (atoms.row, at_h[atoms.seen]), piece.share / natural[at_h[atoms.seen]])
    return scores


def _weighted_sum(slope: Array, weight: Array) -> Array:
    total: Array = weight.sum() * slope[0] if len(slope) == 1 else weight @ slope
    return total


def _weighted_cross(left: Array, weight: Array, right: Array) -> Array:
    """Return left' diag(weight) right, where either may be one row that stands for all."""
    if len(left) == 1:
        return np.outer(left[0], _weighted_sum(right, weight))
    if len(right) == 1:
        return np.outer(weight @ left, right[0])
    cross: Array = left.T @ (right * weight[:, None])
    return cross

"""Compiled kernels of joined alternatives against their NumPy oracles."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from selfselect.kernels import ghk, joint
from selfselect.kernels.fused_known import FusedSums, RowArguments
from selfselect.kernels.fused_unknown import JointSums, sum_joint
from selfselect.kernels.joint import JointTerms, correlated_pair_atoms
from selfselect.kernels.known_index import ABOVE, BELOW, MAYBE, OBSERVED, UNKNOWN

pytestmark = pytest.mark.usefixtures("instructions")

Array = NDArray[np.float64]

SUM_TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms."""

ATOM_TOLERANCE: Final = 1e-11
"""Of one atom: sums over some dozen nodes, or a hundred draws that build on each other."""

NODES: Final = 16


def make_rows(
    seed: int, k: int, *, n_rows: int = 700, weighted: bool = True, own_limits: bool = True
) -> RowArguments:
    """Draw rows that see one alternative each, and equations of columns of their own."""
    rng = np.random.default_rng(seed)
    n_covariates = 4
    status = rng.choice(np.array([BELOW, ABOVE, UNKNOWN], np.int8), (n_rows, k), p=[0.6, 0.3, 0.1])
    status[np.arange(n_rows), rng.integers(0, k, n_rows)] = OBSERVED
    limit = rng.normal(3.0, 2.0, (n_rows, k if own_limits else 1))
    if own_limits:
        limit[status == UNKNOWN] = np.nan
    columns, sizes = np.full((k, n_covariates + 2), -1), rng.integers(2, n_covariates + 2, k)
    g = np.zeros(columns.shape)
    for j, size in enumerate(sizes):
        columns[j, :size] = rng.permutation(np.append(0, 1 + rng.permutation(4)[: size - 1]))
        g[j, :size] = rng.normal(size=size) / np.sqrt(size)
    return RowArguments(
        covariates=rng.normal(5.0, 3.0, (n_rows, n_covariates)),
        status=status,
        limit=limit,
        weights=rng.uniform(0.0, 2.0, n_rows) if weighted else None,
        columns=columns,
        sizes=sizes,
        shift=np.append(0.0, rng.normal(5.0, 0.1, n_covariates)),
        unit=np.append(1.0, rng.uniform(2.0, 4.0, n_covariates)),
        limit_shift=3.1,
        limit_unit=1.7,
        g=g,
        h=rng.uniform(0.5, 2.0, k),
    )


def atoms_of(rows: RowArguments) -> tuple[list[Array], Array, Any, Any]:
    """Return per alternative what a is differentiated by (n, p + 1), and a, chosen and sides."""
    constant = np.ones((len(rows.covariates), 1))
    matrix = (np.hstack([constant, rows.covariates]) - rows.shift) / rows.unit
    k, n_rows = len(rows.sizes), len(matrix)
    limit = np.broadcast_to((rows.limit - rows.limit_shift) / rows.limit_unit, (n_rows, k))
    limit = np.where(rows.status == UNKNOWN, 0.0, limit)
    slopes = [
        np.column_stack([-matrix[:, rows.columns[j, :size]], limit[:, j]])
        for j, size in enumerate(rows.sizes)
    ]
    a = np.column_stack(
        [slope @ np.append(rows.g[j, : rows.sizes[j]], rows.h[j])
         for j, slope in enumerate(slopes)]
    )  # fmt: skip
    side = np.select([rows.status == BELOW, rows.status == ABOVE], [1, -1], 0)
    return slopes, a, np.argmax(rows.status == OBSERVED, axis=1), side.astype(np.int8)


def oracle(rows: RowArguments, extras: Array, nodes: int | None, *, absolute: bool) -> JointSums:
    slopes, a, chosen, side = atoms_of(rows)
    if nodes is None:
        terms = correlated_pair_atoms(a, chosen, side, float(extras[0]), curvature=True)
    else:
        terms = joint._mix(a, chosen, side, extras, nodes=nodes, curvature=True)
    h, (k, width), q = rows.h, rows.columns.shape, len(extras)
    assert terms.hessian is not None
    loglik = terms.loglik + np.log(h)[chosen]
    at = np.arange(len(a))
    of_h = np.zeros((len(a), k, 2))
    of_h[at, chosen, 0], of_h[at, chosen, 1] = 1.0 / h[chosen], -1.0 / h[chosen] ** 2
    if absolute:
        terms = JointTerms(np.abs(loglik), np.abs(terms.gradient), np.abs(terms.hessian))
        slopes, of_h, loglik = [np.abs(slope) for slope in slopes], np.abs(of_h), np.abs(loglik)
    assert terms.hessian is not None
    w = np.ones(len(a)) if rows.weights is None else rows.weights
    score, hessian = np.zeros((k, width + 1)), np.zeros((k, width + 1, width + 1))
    cross, mixed = np.zeros((k, width + 1, k, width + 1)), np.zeros((k, width + 1, q))
    places = [np.append(np.arange(size), width) for size in rows.sizes]
    for j in range(k):
        score[j, places[j]] = slopes[j].T @ (w * terms.gradient[:, j])
        score[j, -1] += w @ of_h[:, j, 0]
        hessian[j][np.ix_(places[j], places[j])] = slopes[j].T @ (
            slopes[j] * (w * terms.hessian[:, j, j])[:, None]
        )
        hessian[j, -1, -1] += w @ of_h[:, j, 1]
        mixed[j, places[j]] = slopes[j].T @ (terms.hessian[:, j, k:] * w[:, None])
    for j, m in combinations(range(k), 2):
        block = slopes[j].T @ (slopes[m] * (w * terms.hessian[:, j, m])[:, None])
        cross[j, :, m][np.ix_(places[j], places[m])] = block
        cross[m, :, j][np.ix_(places[m], places[j])] = block.T
    return JointSums(
        FusedSums(float(w @ loglik), score, hessian, cross),
        w @ terms.gradient[:, k:],
        np.einsum("n,nef->ef", w, terms.hessian[:, k:, k:]),
        mixed,
    )


def assert_agree(actual: JointSums, rows: RowArguments, extras: Array, nodes: int | None) -> None:
    expected = oracle(rows, extras, nodes, absolute=False)
    scale = oracle(rows, extras, nodes, absolute=True)
    for name in ("loglik", "score", "hessian", "cross"):
        off = np.abs(getattr(actual.own, name) - getattr(expected.own, name))
        assert np.all(off <= SUM_TOLERANCE * getattr(scale.own, name)), name
    for name in ("score", "hessian", "mixed"):
        off = np.abs(getattr(actual, name) - getattr(expected, name))
        # The oracle's own second derivatives are differences of products of their size.
        assert np.all(off <= 10 * SUM_TOLERANCE * getattr(scale, name)), name


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.6, 0.99])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("own_limits", [False, True])
def test_a_correlated_pair_agrees_with_the_oracle(
    correlation: float, weighted: bool, own_limits: bool
) -> None:
    rows = make_rows(1, 2, weighted=weighted, own_limits=own_limits)
    extras = np.array([correlation])
    sums = sum_joint(rows, extras=extras, nodes=None, curvature=True)
    assert_agree(sums, rows, extras, None)


def unknown_rows(seed: int, *, n_rows: int = 700, weighted: bool = True) -> RowArguments:
    """Draw rows whose outcome may be either alternative's, or one's, or nobody's."""
    rng = np.random.default_rng(seed)
    rows = make_rows(seed, 2, n_rows=n_rows, weighted=weighted, own_limits=False)
    open_to = rng.uniform(size=(n_rows, 2)) < 0.85
    rows.limit[~open_to.any(axis=1)] = np.nan
    return replace(rows, status=np.where(open_to, MAYBE, UNKNOWN).astype(np.int8))


def unknown_oracle(
    rows: RowArguments, correlation: float, side: float, *, absolute: bool
) -> tuple[float, Array, Array]:
    """Mix the oracle's atoms; return sums over all parameters in a row: (g, h) twice, r."""
    slopes, a, _, _ = atoms_of(rows)
    open_to = rows.status == MAYBE
    some = open_to.any(axis=1)
    slopes, a, open_to = [slope[some] for slope in slopes], a[some], open_to[some]
    sizes, last = [slope.shape[1] for slope in slopes], slopes[0].shape[1]
    n, total = len(a), sum(sizes) + 1
    jacobian = np.zeros((n, 3, total))
    jacobian[:, 0, :last], jacobian[:, 1, last:-1], jacobian[:, 2, -1] = *slopes, 1.0
    logs, scores, bends = np.empty((n, 2)), np.empty((n, 2, total)), np.empty((n, 2, total, total))
    for j, at_h in enumerate((last - 1, total - 2)):
        sides = np.where(open_to, int(side), 0).astype(np.int8)
        terms = correlated_pair_atoms(a, np.full(n, j), sides, correlation, curvature=True)
        h = rows.h[j]
        logs[:, j] = np.where(open_to[:, j], terms.loglik + np.log(h), -np.inf)
        scores[:, j] = np.einsum("ni,nip->np", terms.gradient, jacobian)
        scores[:, j, at_h] += 1.0 / h
        bends[:, j] = np.einsum("nip,nij,njq->npq", jacobian, terms.hessian, jacobian)
        bends[:, j, at_h, at_h] -= 1.0 / h**2
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top)
    loglik = top[:, 0] + np.log(share.sum(axis=1))
    share /= share.sum(axis=1, keepdims=True)
    score = np.einsum("nj,njp->np", share, scores)
    apart = scores[:, 0] - scores[:, 1]
    lost = (share[:, 0] * share[:, 1])[:, None, None] * apart[:, :, None] * apart[:, None, :]
    if absolute:
        loglik, score, bends, lost = np.abs(loglik), np.abs(score), np.abs(bends), np.abs(lost)
    w = (np.ones(len(some)) if rows.weights is None else rows.weights)[some]
    hessian = np.einsum("n,nj,njpq->pq", w, share, bends) + np.einsum("n,npq->pq", w, lost)
    return float(w @ loglik), w @ score, hessian


def in_a_row(rows: RowArguments, sums: JointSums) -> tuple[float, Array, Array]:
    """Return padded sums with all parameters in a row."""
    width = rows.columns.shape[1]
    places = np.concatenate(
        [j * (width + 1) + np.append(np.arange(size), width) for j, size in enumerate(rows.sizes)]
    )
    assert sums.own.cross is not None
    whole = sums.own.cross.copy()
    for j in range(2):
        whole[j, :, j] = sums.own.hessian[j]
    own = whole.reshape(2 * (width + 1), -1)[np.ix_(places, places)]
    mixed = sums.mixed.reshape(-1, 1)[places]
    score = np.append(sums.own.score.ravel()[places], sums.score)
    return sums.own.loglik, score, np.block([[own, mixed], [mixed.T, sums.hessian]])


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.6, 0.99])
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(
    ("n_rows", "weighted", "far"), [(700, True, 1), (257, False, 1), (1, True, 1), (300, True, 40)]
)
def test_a_correlated_pair_of_unknown_index_agrees_with_the_oracle(
    correlation: float, side: float, n_rows: int, weighted: bool, far: int
) -> None:
    rows = unknown_rows(3, n_rows=n_rows, weighted=weighted)
    rows = replace(rows, g=far * rows.g)
    extras = np.array([correlation])
    sums = sum_joint(rows, extras=extras, nodes=None, side=side, curvature=True)
    expected = unknown_oracle(rows, correlation, side, absolute=False)
    scale = unknown_oracle(rows, correlation, side, absolute=True)
    for actual, wanted, size in zip(in_a_row(rows, sums), expected, scale, strict=True):
        assert np.all(np.abs(actual - wanted) <= SUM_TOLERANCE * size)
    plain = sum_joint(rows, extras=extras, nodes=None, side=side, curvature=False)
    assert plain.own.loglik == sums.own.loglik and plain.score == sums.score
    np.testing.assert_allclose(plain.own.score, sums.own.score, rtol=1e-11, atol=1e-9 * far)


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257])
@pytest.mark.parametrize("nodes", [None, NODES])
def test_rows_need_not_fill_a_block(n_rows: int, nodes: int | None) -> None:
    rows = make_rows(7, 2, n_rows=n_rows)
    extras = np.array([0.3]) if nodes is None else np.array([0.3, 0.7])
    sums = sum_joint(rows, extras=extras, nodes=nodes, curvature=True)
    assert_agree(sums, rows, extras, nodes)


def test_extras_that_do_not_fit_are_refused() -> None:
    rows = make_rows(9, 3)
    for extras, nodes in ((np.array([0.1]), None), (np.array([0.1, 0.2]), NODES)):
        with pytest.raises(ValueError, match="disagree"):
            sum_joint(rows, extras=extras, nodes=nodes, curvature=True)


def close(actual: Array, expected: Array) -> bool:
    """Compare per atom, relative to the largest of its numbers or to one."""
    flat = actual.reshape(len(actual), -1), expected.reshape(len(expected), -1)
    scale = np.maximum(np.abs(flat[1]).max(axis=1, keepdims=True), 1.0)
    return bool(np.all(np.abs(flat[0] - flat[1]) <= ATOM_TOLERANCE * scale))


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("size", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("far", [1.0, 30.0])
def test_atoms_of_a_shared_shock_agree_with_the_oracle(k: int, size: float, far: float) -> None:
    rng = np.random.default_rng(k)
    a = far * rng.normal(size=(300, k))
    chosen, side = rng.integers(0, k, 300), rng.integers(-1, 2, (300, k)).astype(np.int8)
    loadings = size * rng.normal(size=k)
    actual = joint.shared_shock_atoms(a, chosen, side, loadings, nodes=NODES, curvature=True)
    expected = joint._mix(a, chosen, side, loadings, nodes=NODES, curvature=True)
    assert actual.hessian is not None and expected.hessian is not None
    assert close(actual.loglik, expected.loglik)
    assert close(actual.gradient, expected.gradient)
    # Differences of squares of slopes as large as the loadings' own.
    scale = np.abs(expected.gradient).max() ** 2 + np.abs(expected.hessian).max()
    assert np.abs(actual.hessian - expected.hessian).max() <= 100 * ATOM_TOLERANCE * scale


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("far", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("draws", [1, 17, 64])
def test_simulated_atoms_agree_with_the_oracle(p: int, far: float, draws: int) -> None:
    rng = np.random.default_rng(p)
    limit = far * rng.normal(size=(200, p))
    side = rng.choice(np.array([-1, 1], np.int8), (200, p))
    half = rng.normal(size=(p, p + 3))
    root = np.linalg.cholesky(half @ half.T / (p + 3))
    points, keys = ghk._points(p, draws), ghk.row_keys(rng.normal(size=200))
    actual = ghk._simulate(limit, side, root, points, keys)
    expected = ghk._simulate_numpy(limit, side, root, points, keys)
    for one, other in zip(actual, expected, strict=True):
        assert close(one, other)


def test_atoms_out_of_range_are_refused() -> None:
    a, side = np.zeros((2, 2)), np.zeros((2, 2), np.int8)
    with pytest.raises(ValueError, match="disagree"):
        joint.shared_shock_atoms(
            a, np.array([0, 2]), side, np.ones(2), nodes=NODES, curvature=False
        )


@pytest.mark.parametrize("nodes", [None, NODES])
def test_no_rows_sum_to_exactly_zero(nodes: int | None) -> None:
    extras = np.array([0.3]) if nodes is None else np.array([0.3, 0.7])
    rows = make_rows(10, 2, n_rows=0)
    sums = sum_joint(rows, extras=extras, nodes=nodes, curvature=True)
    assert sums.own.loglik == 0.0
    assert not sums.own.score.any() and not sums.own.hessian.any() and not sums.mixed.any()

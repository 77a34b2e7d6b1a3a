"""The compiled pass over an unknown index, under shapes that are not normal, against its oracle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from selfselect.kernels.fused_known import (
    GUMBEL,
    GUMBEL_MIN,
    LOGISTIC,
    MIXTURE,
    NORMAL,
    STUDENT,
    RowArguments,
)
from selfselect.kernels.fused_unknown import JointSums, sum_unknown_shapes
from selfselect.kernels.known_index import MAYBE, UNKNOWN
from selfselect.kernels.mixture import ShapeTerms
from selfselect.noises.shapes import find_shape
from selfselect.noises.shapes._mixture import MixtureFamily
from selfselect.noises.shapes._student import StudentFamily, student_shape

pytestmark = pytest.mark.usefixtures("instructions")

Array = NDArray[np.float64]

TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms."""

N_COVARIATES: Final = 4


@dataclass(frozen=True)
class Case:
    """A shape for all alternatives, or one for each, as the kernel and its oracle take them."""

    inner: Array
    arguments: dict[str, Any]

    def terms(self, a: Array, side: int, j: int) -> ShapeTerms:
        """Return log f (side 0), log F (1) or log(1 - F) (-1) with derivatives in a and inner."""
        number, own = self.arguments["shape"], self.inner[j % len(self.inner)]
        if number == MIXTURE:
            return MixtureFamily(len(own) // 3).evaluate(a, side, own, curvature=True)
        if number == STUDENT and len(own):
            return StudentFamily().evaluate(a, side, own, curvature=True)
        names = {LOGISTIC: "logistic", GUMBEL: "gumbel", GUMBEL_MIN: "gumbel_min"}
        shape = student_shape(3.5) if number == STUDENT else find_shape(names[number])
        value, slope, bend = (shape.below, shape.density, shape.above)[1 - side](a)
        return ShapeTerms(value, slope[:, None], bend[:, None, None])


def mixture(n_components: int, sets: int) -> Case:
    family, rng = MixtureFamily(n_components), np.random.default_rng(n_components)
    if n_components == 1:
        inner = np.array([[1.0, 0.0, 1.0]] * sets)
    else:
        starts = [family.begins()[s % 3][1] for s in range(sets)]
        inner = np.array([family.inner(one).values for one in starts])
        # Means and spreads of no particular mean and variance; shares have to add up to one.
        inner *= np.where(np.arange(inner.shape[1]) % 3 == 0, 1.0, rng.uniform(0.8, 1.2))
    return Case(inner, {"shape": MIXTURE, "components": inner.reshape(sets, -1, 3)})


def student(*degrees: float) -> Case:
    inner = np.array(degrees)[:, None]
    return Case(inner, {"shape": STUDENT, "student": StudentFamily().table(list(inner))})


def plain(number: int) -> Case:
    table = student_shape(3.5).table if number == STUDENT else None
    return Case(np.empty((1, 0)), {"shape": number, "student": table})


CASES = {
    **{f"{m} normals": mixture(m, 1) for m in (1, 2, 3, 4)},
    "student": student(4.2),
    "heavy student": student(1.2),
    **{
        name: plain(number)
        for name, number in {
            "known student": STUDENT,
            "logistic": LOGISTIC,
            "gumbel": GUMBEL,
            "gumbel_min": GUMBEL_MIN,
        }.items()
    },
}  # fmt: skip


def case_of(name: str, k: int) -> Case:
    """Return a case by name; "each" gives every alternative a shape of its own."""
    if name == "each of 2 normals":
        return mixture(2, k)
    if name == "each student":
        return student(*[2.5, 7.0, 40.0][:k])
    return CASES[name]


def make_rows(
    seed: int, k: int, *, n_rows: int = 700, weighted: bool = True, far: float = 1.0
) -> RowArguments:
    """Draw rows whose outcome may be any open alternative's; some are open to nobody."""
    rng = np.random.default_rng([seed, k])
    columns, sizes = np.full((k, N_COVARIATES + 2), -1), rng.integers(2, N_COVARIATES + 2, k)
    g = np.zeros(columns.shape)
    for j, size in enumerate(sizes):
        columns[j, :size] = rng.permutation(np.append(0, 1 + rng.permutation(4)[: size - 1]))
        g[j, :size] = far * rng.normal(size=size) / np.sqrt(size)
    open_to = rng.uniform(size=(n_rows, k)) < 0.85
    limit = rng.normal(3.0, 2.0, (n_rows, 1))
    limit[~open_to.any(axis=1)] = np.nan
    return RowArguments(
        covariates=rng.normal(5.0, 3.0, (n_rows, N_COVARIATES)),
        status=np.where(open_to, MAYBE, UNKNOWN).astype(np.int8),
        limit=limit,
        weights=rng.uniform(0.0, 2.0, n_rows) if weighted else None,
        columns=columns,
        sizes=sizes,
        shift=np.append(0.0, rng.normal(5.0, 0.1, N_COVARIATES)),
        unit=np.append(1.0, rng.uniform(2.0, 4.0, N_COVARIATES)),
        limit_shift=3.1,
        limit_unit=1.7,
        g=g,
        h=rng.uniform(0.5, 2.0, k),
    )  # fmt: skip


def oracle(rows: RowArguments, case: Case, side: int, *, near: bool) -> tuple[list[Any], list[Any]]:
    """Mix atoms; return log-likelihood, score and Hessian, and the sums of their absolute terms.

    Terms are the differences of the atoms' scores where rows are near; where they are not, atoms'
    scores may differ by less than their last digits, and terms are those scores.
    """
    k, (sets, m) = len(rows.sizes), case.inner.shape
    some = (rows.status == MAYBE).any(axis=1)
    open_to = (rows.status == MAYBE)[some]
    constant = np.ones((len(rows.covariates), 1))
    matrix = ((np.hstack([constant, rows.covariates]) - rows.shift) / rows.unit)[some]
    limit = ((rows.limit - rows.limit_shift) / rows.limit_unit)[some, 0]
    n, ends = len(limit), np.cumsum(rows.sizes + 1)
    total = int(ends[-1]) + sets * m
    along, places = [], []
    for j, (end, size) in enumerate(zip(ends, rows.sizes, strict=True)):
        slope = np.zeros((n, total))
        slope[:, end - size - 1 : end - 1] = -matrix[:, rows.columns[j, :size]]
        slope[:, end - 1] = limit
        along.append(slope)
        places.append(ends[-1] + (j % sets) * m + np.arange(m))
    a = [
        slope[:, end - size - 1 : end] @ np.append(rows.g[j, :size], rows.h[j])
        for j, (slope, end, size) in enumerate(zip(along, ends, rows.sizes, strict=True))
    ]
    logs = np.empty((n, k))
    scores, bends = np.zeros((n, k, total)), np.zeros((n, k, total, total))
    sizes, sized = np.zeros((n, k, total)), np.zeros((n, k, total, total))
    for j in range(k):
        value = np.full(n, np.log(rows.h[j]))
        for other in range(k):
            terms = case.terms(a[other], 0 if other == j else side, other)
            counted = open_to[:, other].astype(float)
            turn = np.zeros((n, 1 + m, total))
            turn[:, 0] = along[other]
            turn[:, 1 + np.arange(m), places[other]] = 1.0
            value += counted * terms.value
            scores[:, j] += counted[:, None] * np.einsum("ni,nip->np", terms.gradient, turn)
            bends[:, j] += counted[:, None, None] * (turn.transpose(0, 2, 1) @ terms.hessian @ turn)
            gradient, turn = np.abs(terms.gradient), np.abs(turn)
            products = np.abs(terms.hessian) + gradient[:, :, None] * gradient[:, None, :]
            sizes[:, j] += np.einsum("ni,nip->np", gradient, turn)
            sized[:, j] += turn.transpose(0, 2, 1) @ products @ turn
        at_h = ends[j] - 1
        for one, sign in ((scores, 1.0), (sizes, 1.0)):
            one[:, j, at_h] += sign / rows.h[j]
        bends[:, j, at_h, at_h] -= 1.0 / rows.h[j] ** 2
        sized[:, j, at_h, at_h] += 1.0 / rows.h[j] ** 2
        logs[:, j] = np.where(open_to[:, j], value, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top)
    loglik = top[:, 0] + np.log(share.sum(axis=1))
    share /= share.sum(axis=1, keepdims=True)
    score = np.einsum("nj,njp->np", share, scores)
    apart = scores - score[:, None]
    w = (np.ones(len(some)) if rows.weights is None else rows.weights)[some]
    spread = np.einsum("n,nj,njp,njq->pq", w, share, apart, apart)
    hessian = np.einsum("n,nj,njpq->pq", w, share, bends) + spread
    apart = np.abs(apart) if near else sizes + np.einsum("nj,njp->np", share, sizes)[:, None]
    absolute = np.einsum("n,nj,njpq->pq", w, share, sized)
    absolute += np.einsum("n,nj,njp,njq->pq", w, share, apart, apart)
    size = np.einsum("n,nj,njp->p", w, share, sizes)
    return [w @ loglik, w @ score, hessian], [w @ np.abs(loglik), size, absolute]


def in_a_row(rows: RowArguments, sums: JointSums) -> list[Any]:
    """Return padded sums with all parameters in a row: (g, h) of each, then those of shapes."""
    k, width = rows.columns.shape
    used = np.column_stack([np.arange(width) < rows.sizes[:, None], np.ones(k, bool)])
    at = np.flatnonzero(used)
    assert sums.own.cross is not None
    whole = sums.own.cross.copy()
    for j in range(k):
        whole[j, :, j] = sums.own.hessian[j]
    mixed = sums.mixed[used]
    own = whole.reshape(used.size, -1)[np.ix_(at, at)]
    return [
        sums.own.loglik,
        np.append(sums.own.score[used], sums.score),
        np.block([[own, mixed], [mixed.T, sums.hessian]]),
    ]


def assert_agree(rows: RowArguments, case: Case, side: int, *, near: bool = True) -> None:
    sums = evaluate(rows, case, side)
    expected, size = oracle(rows, case, side, near=near)
    for actual, wanted, scale in zip(in_a_row(rows, sums), expected, size, strict=True):
        assert np.all(np.abs(actual - wanted) <= TOLERANCE * scale)


def evaluate(rows: RowArguments, case: Case, side: int, *, curvature: bool = True) -> JointSums:
    return sum_unknown_shapes(
        rows, side=side, n_parameters=case.inner.size, curvature=curvature, **case.arguments
    )


NAMES = [*CASES, "each of 2 normals", "each student"]


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_sums_agree_far_out(name: str, k: int, side: int) -> None:
    # The logarithm of a Gumbel tail is an exponential: farther out, shares of atoms that are
    # differences of such numbers mean nothing.
    far = 5.0 if "gumbel" in name else 40.0
    assert_agree(make_rows(2, k, far=far), case_of(name, k), side, near=False)


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257])
@pytest.mark.parametrize("name", ["3 normals", "student", "gumbel"])
def test_rows_need_not_fill_a_block(name: str, n_rows: int) -> None:
    assert_agree(make_rows(7, 2, n_rows=n_rows, weighted=False), case_of(name, 2), 1)


@pytest.mark.parametrize("name", NAMES)
def test_scores_do_not_depend_on_whether_second_derivatives_are_wanted(name: str) -> None:
    rows, case = make_rows(8, 3), case_of(name, 3)
    whole, plain = (evaluate(rows, case, 1, curvature=curvature) for curvature in (True, False))
    assert plain.own.loglik == whole.own.loglik
    np.testing.assert_array_equal(plain.score, whole.score)
    np.testing.assert_allclose(plain.own.score, whole.own.score, rtol=1e-11, atol=1e-9)
    assert plain.own.cross is None and not plain.hessian.any() and not plain.mixed.any()


def test_a_place_where_a_row_is_impossible_is_not_finite() -> None:
    rows = make_rows(5, 2)
    limit = rows.limit.copy()
    limit[0] = np.inf
    rows = replace(rows, limit=limit, status=np.full_like(rows.status, MAYBE))
    for name in NAMES:
        assert not np.isfinite(evaluate(rows, case_of(name, 2), 1).own.loglik)


def test_no_rows_sum_to_exactly_zero() -> None:
    for name in NAMES:
        sums = evaluate(make_rows(6, 2, n_rows=0), case_of(name, 2), 1)
        assert sums.own.loglik == 0.0 and not sums.score.any() and not sums.hessian.any()
        assert not (sums.own.score.any() or sums.own.hessian.any() or sums.mixed.any())


@pytest.mark.parametrize(
    "change",
    [
        {"shape": STUDENT},
        {"shape": LOGISTIC},
        {"shape": NORMAL},
        {"shape": 6},
        {"n_parameters": 5},
        {"n_parameters": 0},
        {"components": np.ones((2, 2, 3))},
        {"components": np.ones((1, 2, 2))},
        {"components": np.ones((1, 0, 3)), "n_parameters": 0},
    ],
)
def test_arguments_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    given = {**mixture(2, 1).arguments, "n_parameters": 6, **change}
    with pytest.raises(ValueError, match="disagree"):
        sum_unknown_shapes(make_rows(9, 3), side=1.0, curvature=True, **given)

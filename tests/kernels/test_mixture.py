"""Mixtures of normals: the compiled kernel against its NumPy oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from scipy.special import ndtr

from selfselect.data.rows import Rows
from selfselect.kernels.compiled import extension
from selfselect.kernels.known_index import ABOVE, BELOW, BETWEEN, OBSERVED, UNKNOWN
from selfselect.kernels.mixture import mixture_sums, mixture_sums_by_numpy
from selfselect.likelihoods import evaluate
from selfselect.noises import Mixture
from selfselect.posing import pose
from selfselect.problem.batch import Batch, Observation

pytestmark = pytest.mark.usefixtures("instructions")

TOLERANCE: Final = 1e-11
"""Relative to one and the size: second derivatives far out are differences of large numbers."""

SUM_TOLERANCE: Final = 1e-14
"""Of the rows times a bound of their terms."""

TWO = np.array([[0.7, -0.3, 0.6], [0.3, 0.7, 1.3]])
FOUR = np.array([[0.4, -0.3, 0.6], [0.3, 0.4, 1.0], [0.2, 0.5, 1.5], [0.1, -1.0, 2.5]])


@pytest.mark.parametrize("components", [TWO, FOUR, np.array([[1.0, 0.0, 1.0]])])
@pytest.mark.parametrize("n_rows", [1, 255, 256, 600])
def test_the_compiled_kernel_agrees_with_the_oracle(components, n_rows):
    rng = np.random.default_rng(n_rows)
    a = rng.standard_normal(n_rows) * np.where(rng.random(n_rows) < 0.1, 20.0, 2.0)
    weights = rng.random(n_rows)
    status = rng.choice([OBSERVED, BELOW, ABOVE, BETWEEN, UNKNOWN], n_rows).astype(np.int8)
    a[status == UNKNOWN] = np.nan
    wanted = mixture_sums_by_numpy(a, status, components, weights, curvature=True)
    found = mixture_sums(a, status, components, weights, curvature=True)
    for name, one in wanted._asdict().items():
        size = 1.0 + np.abs(one)
        np.testing.assert_allclose(
            getattr(found, name) / size, one / size, atol=TOLERANCE, err_msg=name
        )
    without = mixture_sums(a, status, components, weights, curvature=False)
    for name in ("value", "slope", "by"):
        np.testing.assert_array_equal(getattr(without, name), getattr(found, name))


def test_shapes_that_disagree_are_refused():
    terms, twice = np.empty((15, 4)), np.zeros((6, 6))
    status = np.zeros(4, dtype=np.int8)
    with pytest.raises(ValueError, match="disagree"):
        extension().mixture_rows(np.zeros(4), status, TWO, np.ones(3), 1.0, terms, twice)
    with pytest.raises(ValueError, match="disagree"):
        extension().mixture_rows(np.zeros(4), status, TWO, np.ones(4), 1.0, terms[:3], twice)


def problem_of(each: bool, number: int):
    rng = np.random.default_rng(3)
    table = {f"x{i}": rng.normal(3.0, 2.0, 300) for i in range(3)}
    table |= {"y": rng.normal(size=300), "job": np.resize(list("abc"), 300)}
    formulas = {"a": "y ~ x0 + x1", "b": "y ~ x2 + x0 - 1", "c": "y ~ 1"}
    return pose(formulas, table, chosen="job", noise=Mixture(number, each=each)).problem


@pytest.mark.parametrize("curvature", ["exact", "none"])
@pytest.mark.parametrize("far", [2.0, 40.0])
@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("each", [False, True])
def test_sums_over_rows_agree_with_the_oracle(each, number, far, curvature):
    problem, n_rows = problem_of(each, number), 700
    rng = np.random.default_rng(number)
    status = rng.choice([OBSERVED, BELOW, ABOVE, UNKNOWN], (n_rows, 3)).astype(np.int8)
    limit = rng.normal(0.0, far, (n_rows, 3))
    limit[status == UNKNOWN] = np.nan
    rows = Rows(rng.normal(3.0, 2.0, (n_rows, 3)), weights=rng.random(n_rows))
    batch = Batch(rows, Observation(status, limit), "fused")
    layout = problem.layout
    natural = np.append(0.3 * rng.normal(size=layout.starts[-1]), layout.extra_starts)
    natural[layout.inverse_scale_positions] = rng.uniform(0.5, 1.5, 3)
    found = evaluate(problem, natural, batch, curvature=curvature)
    wanted = evaluate(problem, natural, replace(batch, backend="numpy"), curvature=curvature)
    # Second derivatives far out are differences of squares, as they are in the oracle.
    sizes = {"loglik": far**2, "score": far**3, "hessian": far**4}
    for name, size in sizes.items():
        off = np.abs(getattr(found, name) - getattr(wanted, name)).max()
        assert off <= SUM_TOLERANCE * n_rows * size, name


def test_a_mixture_that_is_far_above_its_limit_keeps_the_digits_of_what_is_not():
    a = np.array([7.0, 10.0, 20.0])
    found = mixture_sums(a, np.full(3, BELOW, np.int8), TWO, np.ones(3), curvature=True)
    beyond = sum(share * ndtr((mean - a) / spread) for share, mean, spread in TWO)
    np.testing.assert_allclose(found.value, np.log1p(-beyond), rtol=1e-12)

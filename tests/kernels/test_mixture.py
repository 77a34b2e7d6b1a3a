"""Mixtures of normals: the compiled kernel against its NumPy oracle."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from selfselect.kernels.compiled import extension
from selfselect.kernels.mixture import mixture_sums, mixture_sums_by_numpy
from selfselect.kernels.status import ABOVE, BELOW, BETWEEN, SEEN, UNKNOWN

pytestmark = pytest.mark.usefixtures("instructions")

TOLERANCE: Final = 1e-11
"""Relative to one and the size: second derivatives far out are differences of large numbers."""

TWO = np.array([[0.7, -0.3, 0.6], [0.3, 0.7, 1.3]])
FOUR = np.array([[0.4, -0.3, 0.6], [0.3, 0.4, 1.0], [0.2, 0.5, 1.5], [0.1, -1.0, 2.5]])


@pytest.mark.parametrize("components", [TWO, FOUR, np.array([[1.0, 0.0, 1.0]])])
@pytest.mark.parametrize("n_rows", [1, 255, 256, 600])
def test_the_compiled_kernel_agrees_with_the_oracle(components, n_rows):
    rng = np.random.default_rng(n_rows)
    a = rng.standard_normal(n_rows) * np.where(rng.random(n_rows) < 0.1, 20.0, 2.0)
    weights = rng.random(n_rows)
    status = rng.choice([SEEN, BELOW, ABOVE, BETWEEN, UNKNOWN], n_rows).astype(np.int8)
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

"""The mathematics of an unknown index, far out."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.kernels.unknown_index import memberships

pytestmark = pytest.mark.usefixtures("every_kernel")

STEP = 1e-5


N_ROWS = 40


@pytest.fixture(params=[1.0, -1.0], ids=["max", "min"])
def side(request):
    return request.param


@pytest.fixture(params=[2, 3])
def n_alternatives(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["all open", "some closed"])
def candidate(request, n_alternatives):
    if not request.param:
        return None
    open_to = np.random.default_rng(3).uniform(size=(N_ROWS, n_alternatives)) < 0.6
    open_to[~open_to.any(axis=1), 0] = True
    return open_to


def differences(function, at):
    moves = STEP * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * STEP) for move in moves]).T


@pytest.mark.parametrize("far", [40.0, 1e3, 1e6])
def test_far_rows_stay_finite(side, far):
    location = np.array([[0.0, 0.0], [far, -far], [-far, far]])
    for y in (-far, 0.0, far):
        found = memberships(location, np.ones(2), np.full(3, y), side=side, candidate=None)
        for part in vars(found).values():
            assert np.isfinite(part).all()
        np.testing.assert_allclose(found.chance.sum(axis=1), 1.0, rtol=1e-12)

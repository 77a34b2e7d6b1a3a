"""The mathematics of ranks, far out."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.kernels.unknown_index import sides_of_others

STEP = 1e-5


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_far_rows_stay_finite(rank):
    a = np.array([[0.0, 50.0, -50.0], [1e3, -1e3, 1e3], [-200.0, -200.0, -200.0]])
    for j in range(3):
        found = sides_of_others(a, np.zeros(3), np.full(3, j), rank)
        for part in (found.loglik, found.residual, found.complete, found.above, found.gap):
            assert np.isfinite(part).all()
        assert all(np.isfinite(both).all() for both in found.both.values())


# the whole log-likelihood


def differences(function, at):
    moves = STEP * np.eye(len(at))
    return np.array([(function(at + move) - function(at - move)) / (2 * STEP) for move in moves]).T

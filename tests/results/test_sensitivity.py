from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.noises import Correlated
from selfselect.solvers.continuation import Continuation
from selfselect.trust.sensitivity import _starts


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(150, 2))
    latent = x @ np.array([[1.0, -0.5, 0.2], [0.3, 0.8, -0.9]]) + rng.normal(size=(150, 3))
    table = pd.DataFrame({"u": x[:, 0], "v": x[:, 1], "y": latent.max(axis=1)})
    table["who"] = np.array(list("abc"))[latent.argmax(axis=1)]
    return table, ss.fit("y ~ u + v", table, chosen="who")


def test_three_alternatives_along_a_grid_are_fits_of_their_own(fitted):
    table, result = fitted
    found = result.sensitivity([-0.2, 0.0, 0.2, 0.4])
    noise, solver = Correlated(correlation=0.4), Continuation(steady=None)
    alone = ss.fit("y ~ u + v", table, chosen="who", noise=noise, solver=solver)
    assert found.table["loglik"].loc[0.4] == pytest.approx(alone.llf, abs=1e-6)
    assert found.table["loglik"].loc[0.0] == pytest.approx(result.llf, abs=1e-6)
    names = [name for name in found.table if name.startswith("a:")]
    assert names
    np.testing.assert_allclose(found.table.loc[0.4, names], alone.params["a"], atol=1e-4)
    assert list(found.table.index) == [-0.2, 0.0, 0.2, 0.4] == list(found.std_errors.index)


def test_correlations_of_no_distribution_are_left_out(fitted):
    _, result = fitted
    # Three noises cannot all be correlated by less than -1/2.
    found = result.sensitivity([-0.9, -0.6, 0.0])
    assert found.left_out == (-0.9, -0.6) and list(found.table.index) == [0.0]


def test_a_fit_begins_on_the_line_through_the_last_two():
    first, second = np.array([1.0, 2.0]), np.array([2.0, 1.0])
    assert _starts([], 0.1) == []
    np.testing.assert_array_equal(_starts([(0.0, first)], 0.1), [first])
    ahead, last = _starts([(0.0, first), (0.1, second)], 0.3)
    np.testing.assert_allclose(ahead, [4.0, -1.0])
    np.testing.assert_array_equal(last, second)

from __future__ import annotations

import numpy as np
import pytest

from selfselect.engines.dask import add_up, merge


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 7, 8, 13])
def test_a_tree_adds_the_same_way_whoever_adds_its_branches(n_leaves):
    rng = np.random.default_rng(n_leaves)
    leaves = dict(enumerate(rng.standard_normal(n_leaves)))
    whole = add_up(merge(leaves, n_leaves), n_leaves)
    for _ in range(20):
        owner = rng.integers(3, size=n_leaves)
        branches = {}
        for one in range(3):
            branches |= merge({i: leaves[i] for i in leaves if owner[i] == one}, n_leaves)
        assert add_up(branches, n_leaves) == whole
    assert whole == pytest.approx(sum(leaves.values()), rel=1e-12)

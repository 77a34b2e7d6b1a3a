"""Of two alternatives whose outcomes were not recorded, one may be far wider than the other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


def test_a_scale_that_runs_away_is_named() -> None:
    """Choices alone tell of the scale of b, and in this sample they want it without limit."""
    rng = np.random.default_rng([23, 1_000, 1])
    x, z = rng.standard_normal((2, 1_000))
    latent = np.column_stack([0.2 + 0.8 * x + 0.3 * z, 0.1 - 0.6 * x + 0.2 * z])
    latent += rng.standard_normal((1_000, 2))
    a = latent[:, 0] > latent[:, 1]
    table = pd.DataFrame(
        {"x": x, "z": z, "who": np.where(a, "a", "b"), "y": np.where(a, latent[:, 0], np.nan)}
    )
    with pytest.warns(ss.errors.ConvergenceWarning, match="the scale of 'b' has no upper limit"):
        found = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent")
    assert not found.converged and found.bse.isna().all()
    common = ss.noises.Independent("common")
    advised = ss.fit("y ~ x + z", table, chosen="who", missing_outcome="silent", noise=common)
    assert advised.converged and (advised.bse > 0).all()

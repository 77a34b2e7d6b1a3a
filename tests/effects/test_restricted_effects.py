"""The error of a margin between alternatives that share coefficients."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x, z, off = rng.normal(3.0, 1.0, (3, 800))
    a, b = 1 + 0.5 * x + z + rng.normal(size=800), 1.5 + 0.5 * x - z + off + rng.normal(size=800)
    return pd.DataFrame(
        {"x": x, "z": z, "off": off, "y": np.maximum(a, b), "job": np.where(a > b, "a", "b")}
    )


def test_the_error_of_a_margin_heeds_that_shared_coefficients_cancel(data: pd.DataFrame) -> None:
    fit = ss.fit("y ~ x + z", data, chosen="job", shared=["x"], offset={"b": "off"})
    rows = fit.policy().rows
    signs = np.where(rows["recommended"] == "a", 1.0, -1.0)
    gradient = np.zeros((len(data), len(fit.values)))
    place = {label: i for i, label in enumerate(fit.reported.labels)}
    for label, sign in (("a", signs), ("b", -signs)):
        gradient[:, place[label, "Intercept"]] = sign
        gradient[:, place[label, "z"]] = sign * data["z"]
    expected = np.sqrt(((gradient @ fit.covariance.matrix) * gradient).sum(axis=1))
    np.testing.assert_allclose(rows["std_error"], expected, rtol=1e-8)

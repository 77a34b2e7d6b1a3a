"""Effects of fits that share coefficients, have offsets, or come from long tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x, z, off = rng.normal(3.0, 1.0, (3, 800))
    a, b = 1 + 0.5 * x + z + rng.normal(size=800), 1.5 + 0.5 * x - z + off + rng.normal(size=800)
    return pd.DataFrame(
        {"x": x, "z": z, "off": off, "y": np.maximum(a, b), "job": np.where(a > b, "a", "b")}
    )


@pytest.mark.parametrize("scale", ["each", "common"])
def test_errors_of_averages_are_those_of_the_delta_method(data: pd.DataFrame, scale: str) -> None:
    fit = ss.fit("y ~ x + z", data, chosen="job", shared=["x"], offset={"b": "off"},
                 noise=ss.noises.Independent(scale), covariance="robust")  # fmt: skip
    table = fit.potential_outcomes().table
    everywhere = table[table["group"] == table["group"].iloc[0]]
    means = fit.predict().mean()
    np.testing.assert_allclose(everywhere["estimate"][: len(means)], means, rtol=1e-6)
    assert np.isfinite(table["std_error"]).all() and (table["std_error"] > 0).all()


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


def test_effects_of_long_data_are_those_of_the_wide_data_it_stands_for(data: pd.DataFrame) -> None:
    wide = ss.fit({"a": "y ~ x + z", "b": "y ~ x + z"}, data, chosen="job", shared=["x"])
    long = pd.concat(
        [
            data.assign(case=np.arange(len(data)), who=label, won=data["job"] == label)
            for label in "ab"
        ]
    )
    tall = ss.fit("y ~ x + z", long, case="case", alternatives="who", chosen="won", shared=["x"])
    assert tall.llf == pytest.approx(wide.llf, rel=1e-9)
    for ask in (
        lambda fit, _: fit.potential_outcomes(),
        lambda fit, _: fit.treatment_effects("a", "b"),
        lambda fit, _: fit.marginal_effects("z"),
        lambda fit, table: fit.potential_outcomes(data=table),
        lambda fit, _: fit.policy().value,
    ):
        one, other = ask(wide, data), ask(tall, long)
        first, second = one.table, other.table
        np.testing.assert_allclose(first["estimate"], second["estimate"], rtol=1e-4)
        np.testing.assert_allclose(first["std_error"], second["std_error"], rtol=1e-3)
    assert (wide.policy().recommended.to_numpy() == tall.policy().recommended.to_numpy()).all()
    with pytest.raises(UnsupportedError, match="a case of long data is several rows"):
        tall.potential_outcomes(at="means")

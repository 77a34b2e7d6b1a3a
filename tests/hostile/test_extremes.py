"""Huge and tiny numbers: right answers where doubles allow, else an error that says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError
from selfselect.noises.shapes.normal import SHAPE as NORMAL

SAME = 1e-9
"""The same fit in other units."""


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(400, seed=1).data


@pytest.fixture(scope="module")
def plain(villagers):
    return ss.fit("income ~ height", villagers, chosen="job")


@pytest.mark.parametrize("factor", [1e-100, 1e-18, 1e18, 1e19, 1e100])
def test_the_unit_of_the_outcome_does_not_matter(villagers, plain, factor):
    scaled = villagers.assign(income=villagers["income"] * factor)
    found = ss.fit("income ~ height", scaled, chosen="job")
    assert found.converged
    np.testing.assert_allclose(found.values, plain.values * factor, rtol=SAME)
    np.testing.assert_allclose(found.bse, plain.bse * factor, rtol=SAME)
    for kind, power in (("outcome", factor), ("chance", 1.0), ("latent", factor)):
        np.testing.assert_allclose(
            found.predict(villagers, kind=kind),
            plain.predict(villagers, kind=kind) * power,
            rtol=SAME,
        )


@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e150, 1e200, 1e300])
@pytest.mark.parametrize("column", ["income", "height"])
def test_units_whose_variances_are_no_doubles_are_refused(villagers, column, factor):
    scaled = villagers.assign(**{column: villagers[column] * factor})
    with pytest.raises(DataError, match=f"'{column}' varies by about .* Measure it in other units"):
        ss.fit("income ~ height", scaled, chosen="job")


def test_covariates_of_the_smallest_doubles_are_refused(villagers):
    with pytest.raises(DataError, match="Measure it in other units"):
        ss.fit(
            "income ~ height", villagers.assign(height=villagers["height"] * 5e-324), chosen="job"
        )


@pytest.mark.parametrize("rule", ["max", "min", ss.rules.Ranked(2)])
@pytest.mark.parametrize("height", [1e6, 1e18, 1e19, -1e19, 1e100, -1e300])
def test_where_means_are_far_apart_the_rule_alone_decides(villagers, rule, height):
    found = ss.fit("income ~ height", villagers, chosen="job", rule=rule)
    rows = pd.DataFrame({"height": [height]})
    latent = found.predict(rows).to_numpy()[0]
    largest = isinstance(rule, str) and rule == "max"
    wanted = latent.max() if largest else latent.min()
    assert found.predict(rows, kind="outcome").to_numpy().ravel() == pytest.approx(wanted)
    chance = found.predict(rows, kind="chance").to_numpy()[0]
    assert chance.tolist() == (latent == wanted).astype(float).tolist()


def test_equal_means_of_any_size_leave_the_choice_to_noise(villagers):
    model = ss.SelfSelectionRegressor().fit(
        villagers[["height"]], villagers["income"], chosen=villagers["job"]
    )
    from selfselect.moments._expectations import expectations
    from selfselect.rules import Maximum
    from selfselect.rules.base import RowData

    near = expectations(Maximum(), np.zeros((1, 2)), model.scale_, RowData(), [NORMAL] * 2)
    far = expectations(Maximum(), np.full((1, 2), 1e19), model.scale_, RowData(), [NORMAL] * 2)
    np.testing.assert_array_equal(near.chance, far.chance)


def test_what_cannot_be_integrated_is_an_error():
    from selfselect.moments._expectations import expectations
    from selfselect.rules.base import RowData

    rule = ss.rules.MonotoneArgmax({"a": np.arcsinh, "b": np.arcsinh}).for_alternatives(["a", "b"])
    with pytest.raises(DataError, match="cannot be integrated: their means reach 1e\\+19"):
        expectations(rule, np.array([[1e19, 1.0]]), np.ones(2), RowData(), [NORMAL] * 2)

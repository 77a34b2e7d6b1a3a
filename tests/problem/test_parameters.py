from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.data.equations import Equations
from selfselect.noises import Correlated, Independent
from selfselect.noises.base import COMMON
from selfselect.problem.parameters import SCALE, Layout, flat_names, is_of_scale
from selfselect.problem.units import Units

EXACT = 1e-12
DIFFERENCE = 1e-8
"""Central differences of step 1e-6 on numbers of order ten."""

KINDS = {"each": "each", "common": "common", "number": 0.7, "numbers": [0.5, 2.0, 1.5]}
TERMS = {
    "intercepts": [["Intercept", "x1", "x2"], ["Intercept", "x2"], ["Intercept", "x3", "x1"]],
    "none": [["x1", "x2"], ["x2"], ["x3", "x1"]],
    "reordered": [["x1", "Intercept", "x2"], ["x2", "Intercept"], ["x3", "Intercept"]],
}


@pytest.fixture(params=sorted(KINDS))
def kind(request):
    return request.param


@pytest.fixture(params=sorted(TERMS))
def layout(request, kind):
    equations = Equations.build("y", TERMS[request.param], ["a", "b", "c"])
    centred = request.param != "none"
    units = Units(
        shift=np.array([0.0, 3.0, -2.0, 10.0]) * centred,
        unit=np.array([1.0, 0.5, 4.0, 100.0]),
        outcome_shift=7.0 * centred,
        outcome_unit=2.5,
    )
    return Layout.build(equations, Independent(scale=KINDS[kind]), units)


@pytest.fixture
def free(layout):
    draws = np.random.default_rng(8).normal(0, 1, layout.n_free)
    at_h = layout.position[layout.inverse_scale_positions]
    draws[at_h[at_h >= 0]] = [1.3, 0.6, 2.0][: len(np.unique(at_h))][0]
    return draws


def test_reading_a_report_returns_the_free_parameters(layout, free):
    np.testing.assert_allclose(layout.read(layout.report(free).values), free, rtol=EXACT)


def test_the_jacobian_of_the_report_is_its_derivative(layout, free):
    step = 1e-6
    found = layout.report(free).jacobian
    for i in range(layout.n_free):
        move = step * (np.arange(layout.n_free) == i)
        ahead, behind = layout.report(free + move).values, layout.report(free - move).values
        wanted = (ahead - behind) / (2 * step)
        np.testing.assert_allclose(found[:, i], wanted, rtol=DIFFERENCE, atol=DIFFERENCE * 100)


def test_a_report_means_the_same_locations_in_the_users_units(layout, free):
    rng = np.random.default_rng(9)
    covariates = rng.normal(2, 3, (6, 3))
    natural, report = layout.natural(free), layout.report(free).values
    scales, coefficients = layout.scales_of(report), layout.coefficients_of(report)
    y = rng.normal(5, 2, 6)
    for j, equation in enumerate(layout.equations.each):
        start, at_h = layout.starts[j], layout.inverse_scale_positions[j]
        design = layout.units.design(covariates, equation.columns)
        inside = natural[at_h] * layout.units.limits(y) - design @ natural[start:at_h]
        plain = np.column_stack([np.ones(6), covariates])[:, equation.columns]
        outside = (y - plain @ coefficients[j]) / scales[j]
        np.testing.assert_allclose(inside, outside, rtol=1e-10)


@pytest.mark.parametrize("kind_of_noise", [Independent, Correlated])
def test_slopes_of_log_scales_have_places_of_their_own(kind_of_noise):
    data = ss.simulators.village(60, seed=1).data
    noise = kind_of_noise(scale={"fishing": "~ height + weight", "hunting": "~ height"})
    layout = ss.pose("income ~ weight", data, chosen="job", noise=noise).problem.layout
    own = len(noise.extras(layout.equations.alternatives))
    assert layout.n_noise_extras == own
    first = layout.n_natural - 3
    assert [spread.places.tolist() for spread in layout.spread_of] == [
        [first, first + 1],
        [first + 2],
    ]
    free = layout.gather(np.arange(1.0, 1.0 + layout.n_natural))
    assert [label for label in layout.report(free).labels if is_of_scale(label[1])] == [
        ("fishing", "log scale: Intercept"),
        ("fishing", "log scale: height"),
        ("fishing", "log scale: weight"),
        ("hunting", "log scale: Intercept"),
        ("hunting", "log scale: height"),
    ]
    plain = ss.pose("income ~ weight", data, chosen="job").problem.layout
    terms = [term for _, term in plain.report(np.ones(plain.n_free)).labels]
    assert [term for term in terms if is_of_scale(term)] == [SCALE, SCALE]


def test_labels_end_with_the_scales_that_are_estimated(layout, kind):
    free = np.ones(layout.n_free)
    labels = layout.report(free).labels
    scales = [label for label in labels if label[1] == SCALE]
    wanted = {"each": [("a", SCALE), ("b", SCALE), ("c", SCALE)], "common": [(COMMON, SCALE)]}
    assert scales == wanted.get(kind, [])
    assert len(labels) == layout.n_free == len(set(labels))
    assert flat_names(labels)[0].startswith("a:")


def test_derivatives_pull_back_by_the_chain_rule(layout):
    n_natural, n_free = int(layout.starts[-1]), layout.n_free
    spread = np.column_stack(
        [layout.natural(column) - layout.natural(np.zeros(n_free)) for column in np.eye(n_free)]
    )
    rng = np.random.default_rng(10)
    vector, matrix = rng.normal(size=n_natural), rng.normal(size=(n_natural, n_natural))
    np.testing.assert_allclose(layout.pull_back_vector(vector), spread.T @ vector, rtol=EXACT)
    np.testing.assert_allclose(
        layout.pull_back_matrix(matrix), spread.T @ matrix @ spread, rtol=1e-10, atol=EXACT
    )
    rows = rng.normal(size=(4, n_free))
    np.testing.assert_allclose(layout.spread_columns(rows), rows @ spread.T, rtol=EXACT)


def test_gathering_undoes_spreading(layout, free):
    np.testing.assert_allclose(layout.gather(layout.natural(free)), free, rtol=EXACT)


def test_fixed_scales_are_in_the_users_units(layout, kind):
    if layout.scales is None:
        assert kind in ("each", "common")
    else:
        h = layout.natural(np.zeros(layout.n_free))[layout.inverse_scale_positions]
        wanted = np.broadcast_to(KINDS[kind], 3)
        np.testing.assert_allclose(layout.units.outcome_unit / h, wanted, rtol=EXACT)


def test_costs_and_correlations_are_reported_with_their_derivatives():
    villagers = ss.simulators.village(80, seed=1).data
    posed = ss.pose(
        "income ~ height", villagers, chosen="job", noise="correlated", cost={"fishing": "~ weight"}
    )
    layout = posed.problem.layout
    values = np.array([60.0, 0.2, 9.0, 40.0, 0.1, 12.0, 0.3, 4.0, 0.05])
    found = layout.report(layout.read(values))
    assert [term for _, term in found.labels][-3:] == [
        "correlation",
        "cost: Intercept",
        "cost: weight",
    ]
    np.testing.assert_allclose(found.values, values, rtol=1e-9)
    free = layout.read(values)
    for i, step in enumerate(1e-6 * np.eye(len(free))):
        up, down = (layout.report(free + way * step).values for way in (1, -1))
        np.testing.assert_allclose(found.jacobian[:, i], (up - down) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind_of_noise", [Independent, Correlated])
def test_scales_of_rows_are_those_that_their_log_scales_say(kind_of_noise):
    data = ss.simulators.village(60, seed=1).data
    noise = kind_of_noise(scale={"fishing": "~ height + weight", "hunting": "~ height"})
    posed = ss.pose("income ~ weight", data, chosen="job", noise=noise)
    problem, rows = posed.problem, posed.engine.rows
    layout = problem.layout
    free = np.random.default_rng(3).uniform(0.1, 0.4, layout.n_free)
    report = layout.report(free)
    told = dict(zip(report.labels, report.values, strict=True))
    wanted = np.empty((len(data), 2))
    for j, alternative in enumerate(layout.equations.alternatives):
        wanted[:, j] = told[alternative, "log scale: Intercept"]
        for name in ("height", "weight"):
            wanted[:, j] += told.get((alternative, f"log scale: {name}"), 0.0) * data[name]
    scales = problem.row_scales(report.values, rows)
    np.testing.assert_allclose(scales, np.exp(wanted), rtol=1e-10)
    inverse = problem.inverse_scales(layout.natural(free), rows)
    np.testing.assert_allclose(scales * inverse, layout.units.outcome_unit, rtol=1e-10)

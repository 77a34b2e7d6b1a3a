"""Maximum likelihood finds the best optimum, whatever the units, and says when it is at an edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm

import selfselect as ss
from selfselect.classics.glance import glance
from selfselect.classics.likelihood import evaluate, row_scores
from selfselect.classics.maximum_likelihood import BOUNDARY, NEARLY_ONE, climb
from selfselect.classics.parameters import Layout

OPTIMUM = 1e-6
"""Newton's method stops nearer than this, in standard errors."""
SAME = 1e-6
"""Relative difference of estimates that stopped at the same optimum."""


@pytest.fixture
def fit(table, build):
    return fit_of(table, build)


def fit_of(table, build, **options):
    if build.__name__ == "tobit_2":
        return ss.sample_selection("wage ~ x", "works ~ x + z", table, **options)
    formulas = {"in": "y ~ x", "out": "y ~ x + w"}
    return ss.switching(formulas, "chosen ~ x + z", table, **options)


def test_the_score_is_zero_and_the_information_positive_at_the_optimum(fit):
    layout = Layout(fit.design)
    found = evaluate(fit.design, layout, layout.natural(fit.values))
    errors = np.sqrt(np.diag(np.linalg.inv(-found.hessian)))
    assert fit.converged
    assert np.abs(found.score * errors).max() < OPTIMUM
    assert np.linalg.eigvalsh(found.hessian).max() < 0


def test_the_truth_is_within_four_standard_errors(simulate, build):
    table = simulate(4_000, seed=3)
    fit = fit_of(table, build)
    truth = dict(simulate.truth)
    for (label, term), estimate in fit.params.items():
        wanted = truth["in" if label == "outcome" else label, term]
        assert abs(estimate - wanted) < 4 * fit.bse[label, term]


def test_units_of_outcome_and_covariates_do_not_matter(table, build):
    fit = fit_of(table, build)
    moved = table.assign(
        x=1e6 + 1e3 * table["x"], z=1e-6 * table["z"], y=5 + 1e4 * table["y"],
        wage=5 + 1e4 * table["wage"],
    )  # fmt: skip
    again = fit_of(moved, build)
    seen = sum(fit.facts.counts)
    assert again.llf == pytest.approx(fit.llf - seen * np.log(1e4), rel=1e-8)
    assert again.correlations.to_numpy() == pytest.approx(fit.correlations.to_numpy(), rel=1e-4)
    for label in fit.scales.index:
        assert again.params[label, "x"] == pytest.approx(10 * fit.params[label, "x"], rel=1e-4)
        assert again.bse[label, "x"] == pytest.approx(10 * fit.bse[label, "x"], rel=1e-4)


def test_the_direction_of_the_index_is_a_matter_of_taste(table):
    one = ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)
    other = ss.switching(
        {"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table, towards="out"
    )
    assert (one.facts.towards, other.facts.towards) == ("in", "out")
    assert other.llf == pytest.approx(one.llf, rel=1e-10)
    turned = one.params.copy()
    turned.loc["selection"] = -turned.loc["selection"].to_numpy()
    for label in ("in", "out"):
        turned[label, "correlation"] *= -1
    np.testing.assert_allclose(other.params, turned, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(other.bse, one.bse, rtol=SAME)


@pytest.mark.parametrize(
    ("keys", "values", "towards"),
    [((0, 1), (1, 0), 1), ((True, False), (True, False), True), (("b", "a"), ("b", "a"), "b")],
    ids=str,
)
def test_the_index_points_to_true_or_one_or_the_first_formula(table, keys, values, towards):
    data = table.assign(k=np.where(table["works"], *map(object_of, values)))
    fit = ss.switching({keys[0]: "y ~ x", keys[1]: "y ~ x"}, "k ~ x + z", data)
    assert fit.facts.towards == towards


def object_of(value):
    return np.array(value, dtype=object)


def test_a_weight_counts_rows(table, build):
    repeated = table.loc[table.index.repeat(table["weight"].astype(int))]
    weighted, plain = fit_of(table, build, weights="weight"), fit_of(repeated, build)
    assert weighted.llf == pytest.approx(plain.llf, rel=1e-9)
    np.testing.assert_allclose(weighted.params, plain.params, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(weighted.bse, plain.bse, rtol=1e-5)


def test_rows_of_weight_zero_are_as_good_as_absent(table, build):
    weights = np.where(np.arange(len(table)) % 5 == 0, 0.0, 1.0)
    weighted, fewer = fit_of(table, build, weights=weights), fit_of(table[weights > 0], build)
    assert weighted.llf == pytest.approx(fewer.llf, rel=1e-9)
    np.testing.assert_allclose(weighted.params, fewer.params, rtol=1e-5, atol=1e-7)


def test_robust_errors_are_a_corrected_sandwich_and_clusters_of_one_row_are_rows(table, build):
    fit = fit_of(table, build)
    layout = Layout(fit.design)
    natural = layout.natural(fit.values)
    information = -evaluate(fit.design, layout, natural).hessian
    bread, n = np.linalg.inv(information), len(table)
    rows = row_scores(fit.design, layout, natural)
    parts = np.empty((*rows.shape, len(natural)))
    for place in range(len(natural)):
        step = 1e-5 * (np.arange(len(natural)) == place)
        ahead, behind = (row_scores(fit.design, layout, natural + s) for s in (step, -step))
        parts[:, :, place] = (behind - ahead) / 2e-5
    np.testing.assert_allclose(parts.sum(axis=0), information, atol=1e-4)
    left = np.eye(len(natural)) - parts @ bread
    rows = np.array([np.linalg.inv(np.real(sqrtm(a))) @ s for a, s in zip(left, rows, strict=True)])
    jacobian = layout.report(natural).jacobian
    robust = jacobian @ bread @ (rows.T @ rows) @ bread @ jacobian.T
    found = fit_of(table, build, covariance="robust")
    np.testing.assert_allclose(found.covariance.matrix, robust, rtol=1e-3, atol=1e-5)
    own = fit_of(table, build, cluster=np.arange(n))
    np.testing.assert_allclose(own.covariance.matrix, found.covariance.matrix, rtol=1e-9)
    assert own.covariance.df == n - 1


def test_a_row_met_twice_in_its_cluster_is_one_row(table, build):
    once = fit_of(table, build, covariance="robust")
    pairs = np.repeat(np.arange(len(table)), 2)
    twice = fit_of(table.iloc[pairs], build, cluster=pairs)
    np.testing.assert_allclose(twice.bse, once.bse, rtol=1e-5)


def test_the_best_of_several_optima_is_reported(union_wages):
    fit = union_wages
    starts = fit.starts.set_index("name")["loglik"]
    assert starts["two-step"] < fit.llf - 50
    assert fit.llf == starts.max()
    layout = Layout(fit.design)
    for correlations in ((-0.9, -0.9), (-0.5, 0.5), (0.5, -0.5), (0.9, 0.9)):
        start = layout.natural(fit.values)
        start[[layout.t_of(one) for one in fit.design.equations]] = np.arctanh(correlations)
        assert climb(fit.design, layout, start).loglik <= fit.llf + 1e-6
    assert "SEVERAL OPTIMA" in str(fit.summary())


def test_the_optimum_above_the_two_step_estimate_can_be_asked_for(table, build):
    fit = fit_of(table, build, start="two-step")
    assert fit.starts["name"].tolist() == ["two-step"]
    assert fit.llf == pytest.approx(fit_of(table, build).llf, rel=1e-9)


def test_a_correlation_that_runs_to_one_is_reported_as_a_boundary(at_the_edge):
    fit = at_the_edge
    assert fit.converged
    assert fit.boundary == ("outcome",)
    assert NEARLY_ONE <= abs(fit.correlations["outcome"]) <= BOUNDARY + 1e-12
    assert np.isnan(fit.bse["outcome", "correlation"])
    assert np.isfinite(fit.bse.drop(index=("outcome", "correlation"))).all()
    assert "AT THE BOUNDARY" in str(fit.summary())
    ends = fit.conf_int().loc[("outcome", "correlation")]
    assert ends.isna().all()
    assert not fit.wald_test("outcome:correlation = 0").possible
    assert fit.wald_test("outcome:x = 0").possible
    assert fit.independence_test().possible


def test_a_correlation_near_one_from_which_the_likelihood_falls_is_an_estimate():
    rng = np.random.default_rng(0)
    x, z, u, own = rng.standard_normal((4, 3_000))
    noise = 0.993 * u + np.sqrt(1 - 0.993**2) * own
    works = 0.3 + x + z + u > 0
    table = pd.DataFrame({"wage": np.where(works, 1 + x + noise, np.nan), "x": x, "z": z,
                          "works": works})  # fmt: skip
    fit = ss.sample_selection("wage ~ x", "works ~ x + z", table)
    rho, error = (one["outcome", "correlation"] for one in (fit.params, fit.bse))
    assert NEARLY_ONE < rho < BOUNDARY and abs(rho - 0.993) < 3 * error
    assert fit.boundary == () and "BOUNDARY" not in str(fit.summary())
    layout = Layout(fit.design)
    limit = layout.natural(fit.values)
    limit[layout.t_of(fit.design.equations[0])] = np.arctanh(BOUNDARY)
    assert climb(fit.design, layout, limit, hold_correlations=True).loglik < fit.llf - 10


def test_a_single_start_says_that_nothing_better_was_looked_for(table, build):
    said = " ".join(str(fit_of(table, build, start="two-step").summary()).split())
    assert "no better optimum was looked for" in said and "start='search'" in said
    assert "looked for" not in str(fit_of(table, build).summary())
    assert "looked for" not in str(fit_of(table, build, method="two-step").summary())


def test_no_correlation_within_the_boundary_does_better(at_the_edge):
    layout = Layout(at_the_edge.design)
    place = layout.t_of(at_the_edge.design.equations[0])
    for rho in np.linspace(-0.99, 0.99, 12):
        start = layout.natural(at_the_edge.values)
        start[place] = np.arctanh(rho)
        held = climb(at_the_edge.design, layout, start, hold_correlations=True)
        assert held.loglik < at_the_edge.llf + 1e-6


GLANCED = 1e-9
"""Relative difference of the same Newton steps, taken one place at a time and side by side."""


def test_a_glance_takes_the_steps_of_a_climb_with_correlations_held(table, build):
    for weights in (None, "weight"):
        design = build(table, weights=weights)
        layout = Layout(design)
        at_t = [layout.t_of(one) for one in design.equations]
        rhos = [(-0.8, 0.8)[: len(at_t)], (0.0, 0.0)[: len(at_t)], (0.8, 0.6)[: len(at_t)]]
        starts = np.zeros((len(rhos), layout.n_natural))
        starts[:, np.array(at_t) - 1] = 1.0
        starts[:, at_t] = np.arctanh(rhos)
        natural, loglik = glance(design, layout, starts, every=1, n_steps=30)
        alone = [climb(design, layout, start, hold_correlations=True) for start in starts]
        for place, end in enumerate(alone):
            np.testing.assert_allclose(natural[place], end.natural, rtol=1e-6, atol=1e-7)
        expected = np.array([end.loglik for end in alone])
        np.testing.assert_allclose(loglik - loglik[0], expected - expected[0], atol=1e-6)


def test_a_glance_at_every_second_row_is_one_at_those_rows(table, build):
    design = build(table)
    layout = Layout(design)
    starts = np.zeros((1, layout.n_natural))
    starts[:, [layout.t_of(one) - 1 for one in design.equations]] = 1.0
    every = [one.rows[::2] for one in design.equations]
    weights = np.zeros(len(design.positive))
    weights[np.concatenate([*every, design.silent[::2]])] = 1.0
    halved = replace(
        design,
        weights=weights,
        equations=tuple(replace(one, weights=weights[one.rows]) for one in design.equations),
    )
    for one, whole in zip(halved.equations, design.equations, strict=True):
        one.__dict__.update(naive=whole.naive, unit=whole.unit)
    found = [glance(design, layout, starts, every=2, n_steps=3),
             glance(halved, layout, starts, every=1, n_steps=3)]  # fmt: skip
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=GLANCED, atol=GLANCED)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=GLANCED)


def test_a_climb_that_comes_near_a_known_optimum_ends_there_and_no_other_does(union_wages):
    """Of the four optima, each is told from the one that is known already."""
    design = union_wages.design
    layout = Layout(design)
    at_t = [layout.t_of(one) for one in design.equations]
    starts = []
    for correlations in ((-0.3, -0.1), (0.8, -0.9), (0.8, 0.1), (-0.3, -0.85)):
        start = layout.natural(union_wages.values)
        start[at_t] = np.arctanh(correlations)
        starts.append(climb(design, layout, start, hold_correlations=True).natural)
    alone = [climb(design, layout, start) for start in starts]
    assert max(end.loglik for end in alone) > min(end.loglik for end in alone) + 10
    for known in alone:
        for start, end in zip(starts, alone, strict=True):
            found = climb(design, layout, start, known=(known,))
            assert found.loglik == pytest.approx(end.loglik, abs=1e-6)
            assert found.n_steps <= end.n_steps

"""Maximum likelihood finds the best optimum, whatever the units, and says when it is at an edge."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm

import selfselect as ss
from selfselect.engines.memory import RowsInMemory
from selfselect.likelihoods import evaluate
from selfselect.noises.selection import BOUNDARY, NEARLY_ONE
from selfselect.solvers.base import Ending, Status
from selfselect.solvers.climb import Climb, Point, climb
from selfselect.solvers.second_step import second_steps
from selfselect.solvers.selection_search import (
    GRID,
    _best,
    _leads_to,
    _looks,
    correlation_places,
    fit_independent,
    selection_places,
)

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


def ascend(model, start, held=None):
    return climb(
        model.problem, model.engine, start, max_steps=100, tol=1e-8, progress=False, held=held
    )


def correlations_held(model):
    held = np.zeros(model.layout.n_free, dtype=bool)
    held[model.at_t] = True
    return held


def test_the_score_is_zero_and_the_information_positive_at_the_optimum(fit, model_of):
    found = model_of(fit).evaluate(fit.solution.free)
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
    assert (one.problem.rule.towards, other.problem.rule.towards) == ("in", "out")
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
    assert fit.problem.rule.towards == towards


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


def test_robust_errors_are_a_corrected_sandwich_and_clusters_of_one_row_are_rows(
    table, build, model_of
):
    fit = fit_of(table, build)
    model, natural = model_of(fit), fit.solution.free
    information = -model.evaluate(natural).hessian
    bread, n = np.linalg.inv(information), len(table)
    rows = model.row_scores(natural)
    parts = np.empty((*rows.shape, len(natural)))
    for place in range(len(natural)):
        step = 1e-5 * (np.arange(len(natural)) == place)
        ahead, behind = (model.row_scores(natural + s) for s in (step, -step))
        parts[:, :, place] = (behind - ahead) / 2e-5
    np.testing.assert_allclose(parts.sum(axis=0), information, atol=1e-4)
    left = np.eye(len(natural)) - parts @ bread
    rows = np.array([np.linalg.inv(np.real(sqrtm(a))) @ s for a, s in zip(left, rows, strict=True)])
    jacobian = model.layout.report(natural).jacobian
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


def test_the_best_of_several_optima_is_reported(union_wages, model_of):
    fit = union_wages
    starts = fit.starts.set_index("name")["loglik"]
    assert starts["two-step"] < fit.llf - 50
    assert fit.llf == starts.max()
    model = model_of(fit)
    for correlations in ((-0.9, -0.9), (-0.5, 0.5), (0.5, -0.5), (0.9, 0.9)):
        start = fit.solution.free.copy()
        start[model.at_t] = np.arctanh(correlations)
        assert ascend(model, start).loglik <= fit.llf + 1e-6
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


def test_a_correlation_near_one_from_which_the_likelihood_falls_is_an_estimate(model_of):
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
    model, limit = model_of(fit), fit.solution.free.copy()
    limit[model.at_t] = np.arctanh(BOUNDARY)
    assert ascend(model, limit, correlations_held(model)).loglik < fit.llf - 10


def test_a_single_start_says_that_nothing_better_was_looked_for(table, build):
    said = " ".join(str(fit_of(table, build, start="two-step").summary()).split())
    assert "without a search for a better optimum" in said and "start='search'" in said
    assert "Climbed from" not in str(fit_of(table, build).summary())
    assert "Climbed from" not in str(fit_of(table, build, method="two-step").summary())


def test_no_correlation_within_the_boundary_does_better(at_the_edge, model_of):
    model = model_of(at_the_edge)
    for rho in np.linspace(-0.99, 0.99, 12):
        start = at_the_edge.solution.free.copy()
        start[model.at_t] = np.arctanh(rho)
        held = ascend(model, start, correlations_held(model))
        assert held.loglik < at_the_edge.llf + 1e-6


def test_what_is_taken_as_given_at_the_boundary_has_no_part_in_the_errors_of_others(
    at_the_edge, model_of
):
    """They are those of a model in which the correlation is known."""
    model, fit = model_of(at_the_edge), at_the_edge
    information = -model.evaluate(fit.solution.free).hessian
    moving = ~correlations_held(model)
    bread = np.zeros_like(information)
    bread[np.ix_(moving, moving)] = np.linalg.inv(information[np.ix_(moving, moving)])
    jacobian = fit.reported.jacobian
    errors = np.sqrt(np.diag(jacobian @ bread @ jacobian.T))
    known = fit.bse.notna().to_numpy()
    assert known.sum() == len(known) - 1
    np.testing.assert_allclose(fit.bse[known], errors[known], rtol=1e-8)


def test_a_climb_holds_what_it_is_told_to_hold_and_ends_where_the_others_are_best(table, build):
    model = build(table)
    free = fit_independent(model.problem, model.engine).free
    free[model.at_t] = np.arctanh(0.5)
    end = ascend(model, free, correlations_held(model))
    assert end.converged
    np.testing.assert_array_equal(end.free[model.at_t], free[model.at_t])
    score = model.evaluate(end.free).score
    errors = np.sqrt(np.diag(np.linalg.inv(end.information)))
    moving = ~correlations_held(model)
    assert np.abs(score * errors)[moving].max() < OPTIMUM
    assert np.abs(score * errors)[~moving].max() > 1e-3


def test_a_lesser_optimum_is_not_reported_where_a_climb_is_above_it_on_its_way():
    def end(loglik, status, **details):
        return Climb(np.zeros(1), loglik, np.eye(1), Ending(status, details), (), 1)

    lesser = end(-10.0, Status.CONVERGED, steps=3, method="Newton")
    higher = end(-9.0, Status.OUT_OF_STEPS, steps=300, distance=0.02)
    same = end(-10.0 + 1e-9, Status.NO_STEP_UP, method="Newton")
    endless = end(5.0, Status.AT_BOUNDARY, reason="a scale has no limit")
    assert _best([lesser, same, endless], 1.0) is lesser
    assert _best([lesser, higher, same, endless], 1.0) is higher
    assert _best([endless], 1.0) is endless


def test_a_climb_is_cut_short_only_where_it_leads_to_an_optimum_of_all_parameters():
    """On a parabola around zero; one standard error is one."""

    done = Ending(Status.CONVERGED, {"steps": 3, "method": "Newton"})

    def optimum(ending=done, held=False):
        return Climb(np.zeros(2), 0.0, np.eye(2), ending, (), 1, np.array([held, False]))

    def point(left_over, held=False):
        free = np.array([3.0, left_over])
        step = np.array([-3.0, 0.0])
        return Point(
            free, -0.5 * free @ free, -free, np.eye(2), step, 9.0, 3.0, np.array([held] * 2)
        )

    assert _leads_to(optimum(), point(0.5))
    assert not _leads_to(optimum(), point(1.5))
    assert not _leads_to(optimum(Ending(Status.STOPPED, {"sentence": "Stopped."})), point(0.5))
    assert not _leads_to(optimum(held=True), point(0.5))
    assert not _leads_to(optimum(), point(0.5, held=True))


@dataclass(frozen=True, eq=False)
class CountedPasses(RowsInMemory):
    """Rows that remember which sums they were asked for."""

    passes: list[object] = field(default_factory=list)

    def sum(self, task):
        self.passes.append(task)
        return super().sum(task)


@pytest.mark.parametrize(
    ("kind", "shared"),
    [("two", None), ("two", ["x"]), ("two", "slopes"), ("three", None), ("three", ["x"])],
)
def test_what_is_looked_at_on_the_grid_of_correlations_is_what_rows_say_there(
    table, ordered_table, kind, shared
):
    """Parts of three passes are put together where alternatives have nothing in common."""
    if kind == "two":
        fit = ss.switching("y ~ x", "chosen ~ x + z", table, shared=shared)
    else:
        order = ["none", "part", "full"]
        gone = ordered_table["z"] < -1.5
        silent = ordered_table.assign(pay=ordered_table["pay"].mask(gone))
        fit = ss.switching(
            "pay ~ x", "hours ~ x + z", silent, ordered=order, shared=shared,
            missing_outcome="silent",
        )  # fmt: skip
    problem, engine = fit.problem, CountedPasses(fit.engine.batch)
    free = fit_independent(problem, engine).free
    steps = second_steps(problem, engine, free[selection_places(problem)])
    engine.passes.clear()
    looks = list(_looks(problem, engine, free, steps))
    if shared is None:
        assert len(engine.passes) == len(GRID)
    assert len(looks) == (9 if kind == "two" and shared != "slopes" else 3)
    for correlations, start, found in looks:
        np.testing.assert_allclose(np.tanh(start[correlation_places(problem)]), correlations)
        wanted = evaluate(problem, problem.layout.natural(start), engine.batch)
        assert found.loglik == pytest.approx(wanted.loglik, rel=1e-12)
        np.testing.assert_allclose(found.score, wanted.score, atol=1e-9)
        np.testing.assert_allclose(found.hessian, wanted.hessian, atol=1e-9)


def test_a_search_that_ends_at_several_optima_lists_each_start(union_wages, model_of):
    """A start that came near a known optimum was not followed there: climbing on agrees."""
    starts = union_wages.starts
    assert starts["name"].iloc[0] == "two-step" and len(starts) == 4
    assert starts["behind"].max() == 0.0 and starts["fault"].isna().all()
    model = model_of(union_wages)
    reached = {round(value, 4) for value in starts["loglik"]}
    for correlations in ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)):
        start = union_wages.solution.free.copy()
        start[model.at_t] = np.arctanh(correlations)
        held = ascend(model, start, correlations_held(model))
        assert ascend(model, held.free).loglik < max(reached) + 1e-3


def test_a_search_on_a_sample_ends_where_one_on_all_rows_does(simulate, monkeypatch):
    table = simulate(3_000, seed=4)
    options = {"formula": {"in": "y ~ x", "out": "y ~ x + w"}, "selection": "chosen ~ x + z"}
    whole = ss.switching(data=table, **options)
    monkeypatch.setattr("selfselect.solvers.selection_search.SAMPLE", 700)
    climbed = []

    def counted(problem, engine, start, **how):
        climbed.append(engine.n_rows)
        return climb(problem, engine, start, **how)

    monkeypatch.setattr("selfselect.solvers.selection_search.climb", counted)
    sampled = ss.switching(data=table, **options)
    # Once without correlation, and once from the optimum that all starts share on the sample.
    assert climbed.count(3_000) == 2
    assert sampled.solution.n_passes == len(sampled.trace)
    assert sampled.llf == pytest.approx(whole.llf, rel=1e-12)
    assert sampled.llf_independent == pytest.approx(whole.llf_independent, rel=1e-10)
    np.testing.assert_allclose(sampled.values, whole.values, rtol=SAME)
    assert sampled.starts["name"].iloc[0] == "two-step"
    assert (sampled.starts["rows"] == 3_000).all()


def test_what_a_sample_cannot_tell_apart_all_rows_may(simulate, monkeypatch):
    table = simulate(3_000, seed=4)
    both = [*np.flatnonzero(table["works"])[:3], *np.flatnonzero(~table["works"])[:3]]
    table = table.assign(rare=np.isin(np.arange(len(table)), both) * 1.0)
    monkeypatch.setattr("selfselect.solvers.selection_search.SAMPLE", 40)
    fit = ss.sample_selection("wage ~ x", "works ~ x + z + rare", table)
    assert fit.converged and "selection:rare" in fit.names

"""Rules that compare linear scores: the exact likelihood against draws, boxes, differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.kernels.joint import hermite_values
from selfselect.likelihoods import evaluate, row_terms
from selfselect.likelihoods.polyhedra import Polyhedra
from selfselect.noises import Independent
from selfselect.rules import ConvexRule, LinearArgmax
from selfselect.solvers import MonteCarloNewton, Newton

STEP = 1e-5
LABELS = list("abcde")


def mixed(k, share=0.3):
    """Return the matrix of outcomes each of which has a share of the next one added."""
    return np.eye(k) + share * np.roll(np.eye(k), 1, axis=1)


def draw(k, n_rows=400, seed=0, *, rule=None, closed=False):
    """Return rows chosen by a linear rule; with `closed`, `b` is not open to a third of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, 2))
    slopes = np.array([[0.5, -0.4, 0.3, -0.2, 0.1], [0.2, 0.5, -0.6, 0.1, -0.3]])[:, :k]
    latent = x @ slopes + 2.0 + 0.3 * np.arange(k) + rng.standard_normal((n_rows, k))
    fare = rng.uniform(0.0, 1.0, n_rows)
    open_b = np.ones(n_rows, dtype=bool)
    open_b[: n_rows // 3] = not closed
    rule = LinearArgmax(mixed(k)) if rule is None else rule
    available = np.ones((n_rows, k), dtype=bool)
    available[:, 1] = open_b
    costs = np.zeros((n_rows, k))
    costs[:, 0] = fare if rule.cost else 0.0
    chosen = rule.choose(latent, ss.rules.RowData(costs, available))
    return pd.DataFrame({
        "y": latent[np.arange(n_rows), chosen], "who": np.array(LABELS)[chosen], "x1": x[:, 0],
        "x2": x[:, 1], "fare": fare, "open_b": open_b, "times": rng.integers(1, 4, n_rows),
        "town": rng.integers(0, 30, n_rows),
    })  # fmt: skip


@dataclass(frozen=True)
class Posed:
    """A problem with its rows and natural parameters away from the optimum."""

    problem: object
    engine: object
    natural: np.ndarray

    def at(self, natural, curvature="exact"):
        return self.engine.sum(partial(evaluate, self.problem, natural, curvature=curvature))

    @property
    def rows(self):
        return row_terms(self.problem, self.natural, self.engine.batch)


def pose(k, *, closed=False, costs=False, noise="each", seed=0):
    rule = LinearArgmax(
        mixed(k, 0.4), 0.1 * np.arange(k), cost={"a": "fare"} if costs else None
    )  # fmt: skip
    data = draw(k, rule=rule, closed=closed, seed=seed)
    options = {"available": {"b": "open_b"}} if closed else {}
    posed = ss.pose("y ~ x1 + x2", data, chosen="who", rule=rule, noise=Independent(noise),
                    weights="times", **options)  # fmt: skip
    rng = np.random.default_rng(1)
    layout = posed.problem.layout
    natural = layout.natural(rng.uniform(-0.3, 0.3, layout.n_free))
    natural[layout.inverse_scale_positions] = rng.uniform(0.8, 1.3, k)
    return Posed(posed.problem, posed.engine, natural)


CASES = [(2, False, False), (3, False, True), (3, True, False), (4, False, False), (4, True, True)]


@pytest.mark.parametrize(("k", "closed", "costs"), CASES)
def test_score_and_hessian_are_those_of_finite_differences(k, closed, costs):
    posed = pose(k, closed=closed, costs=costs)
    assert isinstance(posed.problem.likelihood, Polyhedra)
    found = posed.at(posed.natural)
    steps = STEP * np.eye(len(posed.natural))
    ends = [[posed.at(posed.natural + sign * one, "none") for sign in (1, -1)] for one in steps]
    score = [(up.loglik - down.loglik) / (2.0 * STEP) for up, down in ends]
    hessian = [(up.score - down.score) / (2.0 * STEP) for up, down in ends]
    size = np.abs(found.hessian).max()
    np.testing.assert_allclose(found.score, score, atol=1e-8 * size)
    np.testing.assert_allclose(found.hessian, hessian, atol=1e-8 * size)
    np.testing.assert_allclose(posed.at(posed.natural, "none").score, found.score)


def test_known_scales_have_the_same_derivatives_of_coefficients():
    free, known = pose(4), pose(4, noise=1.0)
    natural = free.natural.copy()
    natural[free.problem.layout.inverse_scale_positions] = known.problem.units.outcome_unit
    at_g = free.problem.layout.at_g
    ours, theirs = (one.at(natural) for one in (known, free))
    assert ours.loglik == pytest.approx(theirs.loglik, rel=1e-12)
    np.testing.assert_allclose(ours.score[at_g], theirs.score[at_g], rtol=1e-9, atol=1e-9)
    both = np.ix_(at_g, at_g)
    np.testing.assert_allclose(ours.hessian[both], theirs.hessian[both], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("k", "closed", "costs"), CASES)
def test_rows_are_those_of_brute_force(k, closed, costs):
    """Draw all outcomes given the observed one, and keep those under which the rule chooses it."""
    posed, n_draws, rng = pose(k, closed=closed, costs=costs), 200_000, np.random.default_rng(3)
    rows, batch, units = posed.rows, posed.engine.batch, posed.problem.units
    h = posed.natural[posed.problem.layout.inverse_scale_positions]
    likely = np.flatnonzero((rows.log_mass > np.log(0.05)) & (rows.log_mass < np.log(0.95)))
    for row in likely[:: len(likely) // 6]:
        chosen, a = batch.rows.chosen[row], rng.standard_normal((n_draws, k))
        a[:, chosen] = rows.own[row]
        latent = units.outcome_shift + units.outcome_unit * (a + rows.location[:, row]) / h
        known = batch.rows.known.take(np.full(n_draws, row))
        a = a[posed.problem.ordered_rule.choose(latent, known) == chosen]
        share = len(a) / n_draws
        error = 5.0 / np.sqrt(len(a))
        assert np.exp(rows.log_mass[row]) == pytest.approx(share, abs=5 * np.sqrt(share / n_draws))
        np.testing.assert_allclose(rows.residual[row], a.mean(axis=0), atol=error)
        drawn = a.T @ a / len(a)
        away = ~np.eye(k, dtype=bool)
        np.testing.assert_allclose(rows.products[row][away], drawn[away], atol=2 * error)
        polynomials = hermite_values(a).mean(axis=1)
        np.testing.assert_allclose(rows.hermite[:3, row], polynomials[:3], atol=3 * error)
        np.testing.assert_allclose(rows.hermite[3:, row], polynomials[3:], atol=10 * error)


def test_rows_add_up_to_the_whole():
    posed = pose(4, closed=True)
    found, rows, weights = posed.at(posed.natural), posed.rows, posed.engine.batch.rows.weights
    correction = posed.problem.likelihood.unit_correction(posed.engine.batch.rows)
    assert weights @ rows.loglik + correction == pytest.approx(found.loglik, rel=1e-12)
    np.testing.assert_allclose(weights @ rows.score, found.score, rtol=1e-9, atol=1e-9)
    excess = [  # Scaling noise up shrinks g and h alike.
        -rows.score[:, one] @ posed.natural[one]
        for one in map(slice, *(posed.problem.layout.starts[at:][:4] for at in (0, 1)))
    ]
    np.testing.assert_allclose(rows.excess, np.column_stack(excess))


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("scale", [1.0, "common", "each"])
def test_the_largest_of_scores_that_are_outcomes_is_the_maximum(k, scale):
    cost = {"a": "fare"}
    data = draw(k, rule=LinearArgmax(np.eye(k), cost=cost), closed=True)
    options = {"chosen": "who", "available": {"b": "open_b"}, "noise": Independent(scale)}
    ours = ss.fit("y ~ x1", data, rule=LinearArgmax(np.eye(k), cost=cost), **options)
    boxes = ss.fit("y ~ x1", data, rule=ss.rules.Maximum(cost=cost), **options)
    assert isinstance(ours.problem.likelihood, Polyhedra) and ours.converged
    assert ours.llf == pytest.approx(boxes.llf, rel=1e-11)
    np.testing.assert_allclose(ours.params, boxes.params, atol=1e-7)
    np.testing.assert_allclose(ours.bse, boxes.bse, rtol=1e-6)


@pytest.mark.parametrize(("k", "scale"), [(2, "each"), (3, "common"), (4, 1.0)])
def test_draws_lead_to_the_same_fit(k, scale):
    rule = LinearArgmax(mixed(k))
    # With more than 2,000 rows the draws begin on a sample of them.
    data = draw(k, 2_500 if k == 2 else 1_000, seed=k)
    options = {"chosen": "who", "noise": Independent(scale)}
    exact = ss.fit("y ~ x1 + x2", data, rule=rule, **options)
    assert exact.solution.solver_name == "Newton" and exact.solution.noise is None
    assert "planes" in exact.solver_reason
    asked = ss.fit("y ~ x1 + x2", data, rule=rule, solver=MonteCarloNewton(), seed=1, **options)
    by_function = ConvexRule(lambda latent: (latent @ mixed(k).T).argmax(axis=1))
    drawn = ss.fit("y ~ x1 + x2", data, rule=by_function, seed=2, **options)
    for other in (asked, drawn):
        assert other.converged and (other.mc_error > 0).all()
        assert (np.abs(exact.params - other.params) < 4.5 * other.mc_error).all()
        np.testing.assert_allclose(exact.bse, other.bse, rtol=0.12)
    assert asked.solution.loglik_error == 0 and asked.llf < exact.llf
    with pytest.raises(ss.errors.UnsupportedError, match="the estimates were simulated"):
        asked.conf_int(method="profile")
    assert abs(drawn.llf - exact.llf) < 4.5 * drawn.solution.loglik_error


def test_four_alternatives_find_the_truth():
    data = draw(4, 4_000, seed=11)
    result = ss.fit("y ~ x1 + x2", data, chosen="who", rule=LinearArgmax(mixed(4)))
    slopes = np.array([[0.5, -0.4, 0.3, -0.2], [0.2, 0.5, -0.6, 0.1]])
    for j, label in enumerate("abcd"):
        truth = [2.0 + 0.3 * j, *slopes[:, j], 1.0]
        z = (result.params[label] - truth) / result.bse[label]
        assert np.abs(z).max() < 3.5
    assert result.independence_test().p_value > 0.001


def test_five_alternatives_and_nearly_parallel_half_spaces_are_drawn():
    parallel = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.001, 1.0]]
    for matrix in (mixed(5), parallel, np.ones((3, 3))):
        rule = LinearArgmax(matrix)
        data = draw(len(matrix), 300)
        posed = ss.pose("y ~ x1", data, chosen="who", rule=rule)
        assert posed.problem.likelihood.sampled


def test_a_rule_that_derives_from_the_linear_one_is_drawn():
    class Derived(LinearArgmax):
        pass

    data = draw(3, 300)
    posed = ss.pose("y ~ x1", data, chosen="who", rule=Derived(mixed(3)))
    assert posed.problem.likelihood.sampled


def test_weights_count_rows_and_clusters_are_kept_together():
    rule, data = LinearArgmax(mixed(3)), draw(3)
    options = {"chosen": "who", "rule": rule}
    weighed = ss.fit("y ~ x1", data, weights="times", **options)
    repeated = ss.fit("y ~ x1", data.loc[data.index.repeat(data["times"])], **options)
    np.testing.assert_allclose(weighed.params, repeated.params, atol=1e-7)
    np.testing.assert_allclose(weighed.bse, repeated.bse, rtol=1e-6)
    each = ss.fit("y ~ x1", data.assign(own=data.index), cluster="own", **options)
    robust = ss.fit("y ~ x1", data, covariance="robust", **options)
    np.testing.assert_allclose(each.bse, robust.bse, rtol=0.02)
    towns = ss.fit("y ~ x1", data, cluster="town", **options)
    assert "30 clusters" in str(towns.summary())
    assert not np.allclose(towns.bse, robust.bse, rtol=1e-3)


def test_files_a_saved_fit_and_predictions_agree(tmp_path):
    rule, data = LinearArgmax(mixed(3)), draw(3)
    options = {"chosen": "who", "rule": rule}
    result = ss.fit("y ~ x1 + x2", data, **options)
    data.to_parquet(tmp_path / "rows.parquet", row_group_size=90)
    engine = ss.engines.Parquet()
    in_files = ss.fit("y ~ x1 + x2", tmp_path / "rows.parquet", engine=engine, **options)
    np.testing.assert_allclose(in_files.params, result.params, atol=1e-7)
    np.testing.assert_allclose(in_files.bse, result.bse, rtol=1e-6)
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert isinstance(loaded.problem.likelihood, Polyhedra)
    assert str(loaded.summary()) == str(result.summary())
    few = data.head(60)
    for kind in ("latent", "chance", "outcome"):
        np.testing.assert_allclose(loaded.predict(few, kind), result.predict(few, kind))
    counts = few["who"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(result.predict(few, "chance").mean(), counts, atol=0.15)
    with pytest.raises(ss.errors.UnsupportedError, match="effects need box-shaped"):
        result.choice_probabilities()


def test_the_likelihood_is_tested_and_profiled():
    rule, data = LinearArgmax(mixed(3)), draw(3)
    options = {"chosen": "who", "rule": rule}
    large = ss.fit("y ~ x1 + x2", data, **options)
    small = ss.fit("y ~ x1", data, **options)
    test = large.lr_test(small)
    assert test.statistic == pytest.approx(2.0 * (large.llf - small.llf)) and test.df == 3
    page = " ".join(str(large.summary()).split())
    for subject in ("independence across alternatives", "normality", "heteroskedasticity"):
        assert f"test of {subject} (null:" in page
    profile = large.conf_int(method="profile")
    assert ((profile["conf_low"] < large.params) & (large.params < profile["conf_high"])).all()


def test_newton_still_refuses_functions():
    by_function = ConvexRule(lambda latent: latent.argmax(axis=1))
    with pytest.raises(ss.errors.UnsupportedError, match="Newton cannot solve this problem"):
        ss.fit("y ~ x1", draw(3), chosen="who", rule=by_function, solver=Newton())

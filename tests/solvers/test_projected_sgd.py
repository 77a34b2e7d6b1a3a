"""ProjectedSGD, the paper's method: close to the optimum where its gradients are exact."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.engines.memory import Memory
from selfselect.errors import ConvergenceWarning, OptionError, UnsupportedError
from selfselect.noises import Independent
from selfselect.rules import ConvexRule, LinearArgmax
from selfselect.samplers import BoxExact, ProjectedLangevin
from selfselect.solvers import ProjectedSGD
from selfselect.solvers.monte_carlo_newton import distance_to_optimum

KNOWN = Independent(1.0)

pytestmark = pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
"""One pass often ends more than a standard error from the optimum, and says so."""


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(4_000, 2, 3, norm=0.8, seed=5)


def fit(sample, solver, **options):
    options = {"chosen": "chosen", "noise": KNOWN, "solver": solver} | options
    return ss.fit(sample.formula, sample.data, **options)


def gaps(result, exact):
    return np.abs((result.params - exact.params) / exact.bse).to_numpy()


def test_exact_means_lead_close_to_the_optimum_and_more_passes_closer(sample):
    exact = fit(sample, None)
    once, often = (fit(sample, ProjectedSGD(passes=passes)) for passes in (1, 6))
    assert often.converged and "not by maximum likelihood" in often.status
    assert gaps(once, exact).max() < 2.5
    assert gaps(often, exact).mean() < min(0.25, gaps(once, exact).mean())
    assert once.bse.isna().all() and "ProjectedSGD does not maximise" in str(once.summary())


def test_one_draw_per_row_costs_precision(sample):
    exact = fit(sample, None)
    means = fit(sample, ProjectedSGD(passes=2))
    draws = fit(sample, ProjectedSGD(passes=2, sampler=BoxExact(moments=False)))
    assert gaps(draws, exact).mean() > gaps(means, exact).mean()


def test_a_rule_without_bounds_is_ascended_by_slices(sample):
    hidden = ConvexRule(lambda latent: latent.argmax(axis=1))
    solver = ProjectedSGD(batch=64, passes=2)
    assert gaps(fit(sample, solver, rule=hidden), fit(sample, None)).max() < 5.0


def test_langevin_draws_are_offered_with_their_bias():
    rule = LinearArgmax([[1.0, 0.3], [0.0, 1.0]])
    sample = ss.simulators.gaussian(1_000, 1, 2, rule=rule, seed=1)
    solver = ProjectedSGD(batch=100, passes=4, sampler=ProjectedLangevin(gamma=0.05, steps=60))
    result = ss.fit(
        sample.formula, sample.data, chosen="chosen", rule=rule, noise=KNOWN, solver=solver
    )
    truth = sample.params.reindex(result.params.index)
    assert np.abs(result.params - truth).max() < 0.4


def test_the_same_seed_gives_the_same_answer(sample):
    one, again, other = (fit(sample, ProjectedSGD(), seed=seed) for seed in (3, 3, 4))
    assert (one.params == again.params).all() and (one.params != other.params).any()


def test_repeats_keep_the_run_that_others_agree_with(sample):
    exact = fit(sample, None)
    result = fit(sample, ProjectedSGD(repeats=5))
    assert "the most agreed of 5 runs" in result.status
    assert gaps(result, exact).max() < 8.0


def test_converged_means_within_a_standard_error_of_the_optimum(sample):
    exact = fit(sample, None)
    for solver in (ProjectedSGD(n_steps=2), ProjectedSGD(passes=6), ProjectedSGD(average="all")):
        result = fit(sample, solver)
        told = float(re.search(r"optimum is (\S+) standard errors away", result.status)[1])
        assert told == pytest.approx(gaps(result, exact).max(), rel=0.25)
        assert result.converged == (told <= 1.0)


def test_a_run_that_ends_far_from_the_optimum_warns(sample):
    with pytest.warns(ConvergenceWarning, match="Allow more passes, or use MonteCarloNewton"):
        assert not fit(sample, ProjectedSGD(n_steps=2)).converged


def test_the_distance_is_measured_by_draws_where_it_has_no_closed_form(sample):
    hidden = ConvexRule(lambda latent: latent.argmax(axis=1))
    best = fit(sample, None)
    free, problem = best.solution.free, replace(best.problem, rule=hidden)
    rows = Memory().load(problem, best.rows)
    moved = free + 3.0 * np.sqrt(np.diag(np.linalg.inv(best.solution.information)))
    rng = np.random.default_rng(0)
    assert distance_to_optimum(problem, rows, free, rng) < 0.3
    exact = distance_to_optimum(best.problem, best.engine_of_rows(), moved, rng)
    assert distance_to_optimum(problem, rows, moved, rng) == pytest.approx(exact, rel=0.2)


def test_a_bound_that_held_early_is_remembered(sample):
    """Long first steps are held back; the last one is not."""
    solver = ProjectedSGD(average="all", strength=0.02, bound=2.0, passes=2)
    held = re.search(r"The bound 2 on the coefficients held in (\d+)%", fit(sample, solver).status)
    assert 1 <= int(held[1]) < 50


def test_coefficients_are_confined_and_it_is_said(sample):
    with pytest.warns(ConvergenceWarning, match="The bound 0.2 on the coefficients held in 100%"):
        result = fit(sample, ProjectedSGD(bound=0.2))
    layout = result.problem.layout
    lengths = [
        np.linalg.norm(result.solution.free[layout.position[start:stop]])
        for start, stop in zip(layout.starts[:-1], layout.inverse_scale_positions, strict=True)
    ]
    assert max(lengths) <= 0.2 + 1e-12


def test_the_average_of_all_iterates_remembers_the_first(sample):
    exact = fit(sample, None)
    tail, whole = (fit(sample, ProjectedSGD(average=word)) for word in ("tail", "all"))
    assert gaps(whole, exact).mean() > gaps(tail, exact).mean()


def test_an_interrupt_returns_the_best_so_far(sample):
    left = [400]

    def choose(latent):
        left[0] -= 1
        if left[0] == -300:
            raise KeyboardInterrupt
        return latent.argmax(axis=1)

    with pytest.warns(ConvergenceWarning, match="Interrupted after 0 passes: the best"):
        result = fit(sample, ProjectedSGD(batch=64), rule=ConvexRule(choose))
    assert not result.converged and np.isfinite(result.params).all()


def test_an_unknown_scale_is_refused_and_says_what_estimates_it(sample):
    with pytest.raises(UnsupportedError, match=r"noise scale is known.*MonteCarloNewton"):
        fit(sample, ProjectedSGD(), noise=None)


def test_the_knobs_of_the_theorem_say_what_they_cost_and_are_refused(sample):
    given = (0.3, 2.0, 3.0, 1.0, 0.5)
    cost = ProjectedSGD.theory(*given, n_alternatives=3)
    bound = 27 * 36 / (0.09 * 0.25) * (1 + np.log(cost.n_steps)) / cost.n_steps
    assert bound == pytest.approx(1.0, abs=1e-3)
    assert cost.gamma * cost.sampler_steps == pytest.approx((cost.radius / 1.0) ** 2, rel=1e-6)
    assert "Constants that the theorem leaves open are set to one" in str(cost)
    solver = ProjectedSGD.from_theory(*given, n_alternatives=3)
    assert solver.strength == pytest.approx(0.1) and solver.bound == 2.0
    with pytest.raises(UnsupportedError, match="but there are 4000 rows"):
        fit(sample, solver)


def test_a_run_that_would_take_years_is_refused(sample):
    solver = ProjectedSGD(sampler=ProjectedLangevin(gamma=1e-9, steps=10**12))
    with pytest.raises(UnsupportedError, match="would take years"):
        fit(sample, solver)


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"bound": -1.0}, {"average": "some"}, {"repeats": 0}]
)
def test_options_that_are_none_are_refused(options):
    with pytest.raises(OptionError):
        ProjectedSGD(**options)
    with pytest.raises(OptionError, match="alpha"):
        ProjectedSGD.from_theory(1.5, 1.0, 1.0, 1.0, 0.1)


def test_an_alternative_chosen_by_few_at_one_end_of_the_covariates_is_found():
    """Steps go by the thickness; by the share of the rare alternative they are too short."""
    rng = np.random.default_rng(3)
    slopes = np.array([[0.0, -0.3, 1.9, 0.5], [0.0, -1.6, -0.6, 0.8], [-2.8, 1.2, -1.2, -1.0]])
    covariates = np.column_stack([np.ones(16_000), rng.normal(size=(16_000, 3))])
    latent = covariates @ slopes.T + rng.normal(size=(16_000, 3))
    table = pd.DataFrame(covariates[:, 1:], columns=["p", "q", "r"])
    table = table.assign(
        y=latent.max(axis=1), chosen=np.array(["a", "b", "c"])[latent.argmax(axis=1)]
    )
    shares = table["chosen"].value_counts(normalize=True)
    assert shares["c"] == shares.min() < 0.15

    def error(solver):
        result = ss.fit("y ~ p + q + r", table, chosen="chosen", noise=KNOWN, solver=solver)
        estimates = result.params.to_numpy()[: slopes.size].reshape(slopes.shape)
        return np.sqrt(np.mean((estimates - slopes) ** 2))

    by_thickness, by_share = error(ProjectedSGD()), error(ProjectedSGD(strength=0.5 * shares.min()))
    assert by_thickness < 1.6 * error(None)
    assert by_thickness < 0.5 * by_share

"""Fits of rules from their oracles, from end to end: what works, and what is refused and how."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError, ConvergenceWarning, RuleError, UnsupportedError
from selfselect.noises import Independent, KnownCovariance
from selfselect.rules import ConvexRule, LinearArgmax, Ranked
from selfselect.solvers import MonteCarloNewton, Newton

QUICK = MonteCarloNewton(mc_tol=0.5, loglik_draws=64)
KNOWN = Independent(1.0)


@pytest.fixture(scope="module")
def sample():
    return ss.simulators.gaussian(300, 1, 3, seed=2)


def fit(sample, rule, **options):
    options = {"chosen": "chosen", "noise": KNOWN, "solver": QUICK} | options
    return ss.fit(sample.formula, sample.data, rule=rule, **options)


def largest(latent):
    return latent.argmax(axis=1)


def into_orthant(latent, chosen, outcome):
    moved = np.minimum(latent, outcome[:, None])
    moved[np.arange(len(moved)), chosen] = outcome
    return moved


def test_the_curved_rule_finds_the_truth_from_choose_alone():
    sample = ss.simulators.curved(1_500, seed=4)
    result = fit(sample, sample.rule, solver=None, noise=Independent("common"))
    assert result.converged and "ConvexRule has no bounds" in result.solver_reason
    truth = sample.params.to_dict() | {("(common)", "scale"): 1.0}
    z = [(value - truth[key]) / result.bse[key] for key, value in result.params.items()]
    assert np.abs(z).max() < 3.5
    naive = result.naive["estimate"]
    gap = [abs(naive[key] - truth[key]) for key in sample.params.index if key[1] == "Intercept"]
    assert max(gap) > 5 * result.bse.max()


def test_the_answer_is_complete(sample):
    result = fit(sample, ConvexRule(largest, label="the largest, said by me"))
    page = str(result.summary())
    assert "the largest, said by me" in page and "Monte-Carlo" in page
    assert "not tested, explaining sets" in " ".join(page.split())
    chance = result.predict(kind="chance")
    exact = fit(sample, "max", solver=None).predict(kind="chance")
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert np.abs(chance - exact).max().max() < 0.2
    assert result.predict(kind="outcome").notna().all()
    assert any("chance of the recorded choice" in str(one) for one in result.diagnose().findings)
    assert "naive" in result.compare().table.columns


def test_bounds_make_the_fit_exact(sample):
    boxed = ConvexRule(
        largest, bounds=lambda _, outcome: (np.full((len(outcome), 1), -np.inf),
                                                 outcome[:, None]),
    )  # fmt: skip
    ours, theirs = fit(sample, boxed, solver=None), fit(sample, "max", solver=None)
    assert ours.solution.solver.startswith("Newton")
    np.testing.assert_allclose(ours.params, theirs.params)


def test_row_data_reaches_the_functions(sample):
    data = sample.data.assign(fare=np.linspace(0.0, 1.0, 300))

    def net(latent, rows):
        score = latent if rows.costs is None else latent - rows.costs
        return np.where(rows.available, score, -np.inf).argmax(axis=1)

    costs, opens = {"b": "fare"}, {"c": "open"}
    data["open"] = True
    maximum = ss.rules.Maximum(cost=costs)
    latent = sample.latent.to_numpy() - np.column_stack([0 * data.fare, data.fare, 0 * data.fare])
    data["chosen"] = np.array(list("abc"))[latent.argmax(axis=1)]
    data["outcome"] = sample.latent.to_numpy()[np.arange(300), latent.argmax(axis=1)]
    options = {"chosen": "chosen", "available": opens, "noise": KNOWN}
    exact = ss.fit(sample.formula, data, rule=maximum, **options)
    rule = ConvexRule(net, cost=costs)
    drawn = ss.fit(sample.formula, data, rule=rule, solver=QUICK, **options)
    assert drawn.converged
    assert (np.abs(drawn.params - exact.params) < 4.5 * drawn.mc_error).all()


def test_a_rule_that_contradicts_the_rows_names_them(sample):
    def never_c(latent):
        return latent[:, :2].argmax(axis=1)

    n_c = int((sample.data["chosen"] == "c").sum())
    with pytest.raises(RuleError, match=rf"In {n_c} of 300 rows \(rows \d+, \d+, \d+, ...\)"):
        fit(sample, ConvexRule(never_c))


def test_a_set_that_is_not_convex_is_reported_with_its_counterexample(sample):
    def ring(latent):
        return np.where(np.abs(latent).max(axis=1) > 0.7, latent.argmax(axis=1),
                        latent.argmin(axis=1))  # fmt: skip

    with pytest.raises(
        RuleError, match=r"not convex.*Latent outcomes \[.*\], alternative \d chosen"
    ):
        fit(sample, ConvexRule(ring))


def test_a_projection_that_is_none_is_reported(sample):
    def shrinks(latent, chosen, outcome):
        moved = into_orthant(latent, chosen, outcome)
        others = np.arange(latent.shape[1]) != chosen[:, None]
        return np.where(others & (latent > outcome[:, None]), moved - np.abs(moved - latent), moved)

    def halfway(latent, chosen, outcome):
        moved = 0.5 * (latent + into_orthant(latent, chosen, outcome))
        moved[np.arange(len(moved)), chosen] = outcome
        return moved

    good = fit(sample, ConvexRule(largest, project=into_orthant))
    assert good.converged
    with pytest.raises(RuleError, match=r"not idempotent|lands outside"):
        fit(sample, ConvexRule(largest, project=halfway))
    with pytest.raises(RuleError, match="moves latent outcomes that already explain"):
        fit(sample, ConvexRule(largest, project=lambda z, c, y: into_orthant(z - 0.1, c, y)))
    # Lands inside and stays there, but it is not the nearest point.
    with pytest.raises(RuleError, match="does not land at the nearest point"):
        fit(sample, ConvexRule(largest, project=shrinks))


def test_bounds_that_contradict_choose_are_reported(sample):
    wrong = ConvexRule(
        largest, bounds=lambda _, outcome: (np.full((len(outcome), 1), -np.inf),
                                                 outcome[:, None] - 0.5),
    )  # fmt: skip
    with pytest.raises(RuleError, match="The alternative is chosen"):
        fit(sample, wrong, solver=None)


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda latent: latent.argmax(), "one integer per row"),
        (lambda latent: latent.argmax(axis=1).astype(float), "one integer per row"),
        (lambda latent: latent.argmax(axis=1) + 1, "positions from 0 to 2.*it returned 3"),
    ],
)
def test_an_oracle_of_wrong_shape_type_or_range_is_refused(sample, choose, words):
    with pytest.raises(RuleError, match=words):
        fit(sample, ConvexRule(choose))


def test_a_choice_that_changes_its_mind_is_refused(sample):
    rng = np.random.default_rng(0)

    def moody(latent):
        return (latent + 0.3 * rng.standard_normal(latent.shape)).argmax(axis=1)

    with pytest.raises(RuleError, match=r"two answers for the same outcomes|not convex"):
        fit(sample, ConvexRule(moody))


def test_rows_next_to_impossible_are_named_in_the_status(sample):
    data = sample.data.copy()
    place = int(np.flatnonzero(data["chosen"] == "a")[0])
    data.loc[place, "outcome"] = -25.0
    with np.errstate(all="ignore"):
        result = ss.fit(sample.formula, data, chosen="chosen", noise=KNOWN,
                        rule=ConvexRule(largest), solver=QUICK)  # fmt: skip
    assert f"rows {place})" in result.status and "next to no mass" in result.status


def test_a_covariate_without_information_is_not_converged(sample):
    only = (sample.data["chosen"] == "a") & (np.arange(300) % 2 == 0)
    data = sample.data.assign(only=only.astype(float))
    formulas = {"a": "outcome ~ x1", "b": "outcome ~ x1 + only", "c": "outcome ~ x1"}
    solver = MonteCarloNewton(mc_tol=0.5, max_passes=30, loglik_draws=64)
    with pytest.warns(ConvergenceWarning, match="'b' was never chosen where 'only' differs"):
        result = ss.fit(formulas, data, chosen="chosen", noise=KNOWN, solver=solver,
                        rule=ConvexRule(largest))  # fmt: skip
    assert not result.converged


def test_a_fit_by_functions_is_not_saved_and_one_by_numbers_is(sample, tmp_path):
    with pytest.raises(ArchiveError, match="code of yours"):
        fit(sample, ConvexRule(largest)).save(tmp_path / "no.json")
    rule = LinearArgmax({"a": {"a": 1, "b": 0.2}, "b": {"b": 1}, "c": {"c": 1}}, {"c": 0.1})
    moved = ss.simulate(
        {label: sample.params[label].drop("scale").to_dict() for label in "abc"},
        sample.data[["x1"]], rule=rule, seed=5,
    )  # fmt: skip
    result = fit(moved, rule)
    result.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert loaded.problem.rule == rule and (loaded.params == result.params).all()
    assert (loaded.mc_error == result.mc_error).all()
    assert loaded.solution.loglik_error == result.solution.loglik_error
    assert str(loaded.summary()) == str(result.summary())
    new = loaded.predict(moved.data.head(), kind="chance")
    np.testing.assert_allclose(new, result.predict(moved.data.head(), kind="chance"))


def test_a_fit_with_a_known_covariance_is_saved(sample, tmp_path):
    noise = KnownCovariance({"a": {"a": 1, "b": 0.3, "c": 0}, "b": {"b": 1, "c": 0}, "c": {"c": 1}})
    result = fit(sample, "max", noise=noise)
    result.save(tmp_path / "fit.json")
    assert ss.load(tmp_path / "fit.json").problem.noise == noise


def test_likelihood_ratios_of_noisy_likelihoods_are_not_read(sample):
    large = fit(sample, ConvexRule(largest))
    formulas = {"a": "outcome ~ 1", "b": "outcome ~ x1", "c": "outcome ~ x1"}
    options = {"chosen": "chosen", "noise": KNOWN, "solver": QUICK, "rule": ConvexRule(largest)}
    small = ss.fit(formulas, sample.data, **options)
    assert "estimated by draws" in str(large.lr_test(small))
    assert np.isfinite(large.wald_test("a:x1 = 0").p_value)


def test_solvers_that_need_bounds_say_so(sample):
    with pytest.raises(UnsupportedError, match="Newton cannot solve this problem"):
        fit(sample, ConvexRule(largest), solver=Newton())
    covariance = np.eye(3) + 0.2
    with pytest.raises(UnsupportedError, match="needs noise that is independent"):
        fit(sample, "max", solver=Newton(), noise=KnownCovariance(covariance))


def test_correlated_noise_needs_a_known_index_and_convex_sets(sample):
    noise = KnownCovariance(np.eye(3) + 0.2)
    with pytest.raises(UnsupportedError, match="needs to know which alternative was chosen"):
        fit(sample, Ranked(2), noise=noise, solver=None)
    with pytest.raises(UnsupportedError, match="needs to know which alternative was chosen"):
        ss.fit(sample.formula, sample.data, alternatives=3, noise=noise)


def test_a_general_rule_needs_to_know_who_was_seen(sample):
    with pytest.raises(UnsupportedError, match="not by ConvexRule"):
        ss.fit(sample.formula, sample.data, alternatives=3, rule=ConvexRule(largest))

"""Effects of models with a selection equation: groups, gaps, errors, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.likelihoods import row_terms
from selfselect.moments.choose import moments_of
from selfselect.moments.selection import GivenSelectedMoments

DRAWS = 2_000
"""By row; 400 rows make standard errors of means of about 0.001."""
FIVE_ERRORS = 5.0
DIFFERENCED = 1e-6


@pytest.fixture(scope="module", params=["ml", "two-step"])
def fit(table, request):
    return ss.switching(
        {"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table, method=request.param
    )


@pytest.fixture(scope="module")
def selection(table):
    return ss.sample_selection("wage ~ x", "works ~ x + z", table)


def linear(fit, label, table):
    own = fit.params.loc[label]
    terms = {"Intercept": np.ones(len(table)), **{name: table[name] for name in "xzw"}}
    return sum(own[term] * terms[term] for term in own.index if term in terms)


@pytest.fixture(scope="module")
def drawn(fit, table):
    """Draw selections and both outcomes; how those correlate given the selection is arbitrary."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((len(table), DRAWS))
    chosen = linear(fit, "selection", table).to_numpy()[:, None] + u > 0
    outcomes = {}
    for label in ("in", "out"):
        own = fit.params.loc[label]
        noise = own["correlation"] * u + np.sqrt(1 - own["correlation"] ** 2) * (
            rng.standard_normal(u.shape)
        )
        mean = linear(fit, label, table).to_numpy()[:, None]
        outcomes[label] = mean + own["scale"] * noise
    return chosen, outcomes


def agrees(estimate, values):
    return abs(estimate - values.mean()) < FIVE_ERRORS * values.std() / np.sqrt(values.size)


def test_heterogeneity_is_that_of_simulated_groups_and_holds_the_treatment_effects(fit, drawn):
    chosen, outcomes = drawn
    table = fit.heterogeneity("in", "out").table.set_index(["group", "of"])
    found = table["estimate"]
    for group, rows in (("in chosen", chosen), ("in not chosen", ~chosen)):
        for label, values in outcomes.items():
            assert agrees(found[group, label], values[rows])
    effects = fit.treatment_effects("in", "out").table.set_index("effect")
    for group, name in (("in chosen", "ATT"), ("in not chosen", "ATU")):
        for column in ("estimate", "std_error"):
            assert table.loc[(group, "effect"), column] == pytest.approx(effects.loc[name, column])
    for of in ("in", "out", "effect"):
        gap = found["in chosen", of] - found["in not chosen", of]
        assert found["difference", of] == pytest.approx(gap)
    assert (table["std_error"] > 0).all()


def test_parts_of_a_decomposition_add_up_and_are_near_the_gap_in_the_data(fit, table):
    found = fit.decompose("in", "out").table.set_index("part")["estimate"]
    parts = found["covariates"] + found["pay"] + found["selection"]
    assert parts == pytest.approx(found["gap under the model"])
    means = table.groupby("chosen")["y"].mean()
    assert found["gap in the data"] == pytest.approx(means["in"] - means["out"])
    assert abs(found["not reproduced"]) < 0.2


def test_sorting_is_by_the_noise_that_is_correlated_with_the_selection(fit, drawn, table):
    chosen, outcomes = drawn
    found = fit.sorting().table.set_index(["alternative", "quantity"])["estimate"]
    noise = outcomes["in"] - linear(fit, "in", table).to_numpy()[:, None]
    assert agrees(found["in", "advantage by noise"], noise[chosen])


def test_marginal_effects_are_differences_of_chances(fit, table):
    found = fit.marginal_effects("z").table.set_index("alternative")["estimate"]
    step = 1e-4
    ends = [
        fit.predict(table.assign(z=table["z"] + d), "chance")["in"].mean() for d in (step, -step)
    ]
    assert found["in"] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3)
    assert found["out"] == pytest.approx(-found["in"])
    outcome = fit.marginal_effects("w", of="outcome").table["estimate"].iloc[0]
    ends = [fit.predict(table.assign(w=table["w"] + d), "outcome").mean() for d in (step, -step)]
    assert outcome == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3)


def test_one_outcome_has_effects_too(selection):
    found = selection.potential_outcomes().table.set_index("group")["estimate"]
    assert found["everyone"] == pytest.approx(selection.predict().mean())
    assert found["outcome"] > found["everyone"]  # noise is positively correlated with selection
    assert selection.choice_probabilities().table["estimate"].iloc[0] == pytest.approx(
        selection.predict(kind="chance").mean()
    )
    with pytest.raises(UnsupportedError, match="Sorting compares alternatives"):
        selection.sorting()
    for ask in (selection.treatment_effects, selection.decompose):
        with pytest.raises(UnsupportedError, match="one outcome, so there is nothing to compare"):
            ask("outcome", "other")


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.gains("in", "out"),
        lambda fit: fit.policy(),
        lambda fit: fit.counterfactual(close=["in"]),
        lambda fit: fit.counterfactual(subsidy={"in": 1.0}),
    ],
    ids=["gains", "policy", "closed", "subsidised"],
)
def test_what_needs_the_correlation_of_the_outcomes_is_refused_with_that_reason(fit, ask):
    with pytest.raises(UnsupportedError, match=r"no row shows two outcomes.*treatment_effects"):
        ask(fit)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda fit: fit.sensitivity(), "no row shows two outcomes"),
        (ss.plots.residuals, "no row shows two outcomes|Two-step estimates do not maximise"),
        (ss.plots.qq, "no row shows two outcomes|Two-step estimates do not maximise"),
        (ss.assumptions, "this fit has a selection equation"),
        (lambda fit: fit.departures(), "not for a selection equation|two-step estimates"),
    ],
    ids=["sensitivity", "residuals", "quantiles", "assumptions", "departures"],
)
def test_what_means_nothing_here_is_refused(fit, ask, reason):
    with pytest.raises(UnsupportedError, match=reason):
        ask(fit)
    assert fit.normality_test(0).possible == (fit.method == "ml")
    assert fit.rejections() == ()


def test_rows_that_lack_what_others_have_are_not_averaged_over(table):
    lacking = table.assign(w=table["w"].where(~table["works"]))
    fit = ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", lacking)
    for ask in (fit.potential_outcomes, fit.marginal_effects):
        with pytest.raises(
            UnsupportedError, match="221 of 400 rows of the fit do not show the outcome and lack"
        ):
            ask()
    whole = ss.switching({"in": "y ~ x", "out": "y ~ x + w"}, "chosen ~ x + z", table)
    np.testing.assert_allclose(
        fit.potential_outcomes(table).table["estimate"],
        whole.potential_outcomes(table).table["estimate"],
        rtol=1e-6,
    )


def test_residuals_of_one_outcome_have_mean_zero_at_any_covariates(simulate):
    """Those of rows that were not selected are truncated means."""
    data = simulate(4_000, seed=3)
    fit = ss.sample_selection("wage ~ x", "works ~ x + z", data)
    found = row_terms(fit.problem, fit.solution.free, fit.engine.batch).residual[:, 0]
    own = fit.params.loc["outcome"]
    seen = data["works"].to_numpy()
    noise = (data["wage"] - own["Intercept"] - own["x"] * data["x"]) / own["scale"]
    np.testing.assert_allclose(found[seen], noise[seen], rtol=1e-9)
    error = found.std() / np.sqrt(len(found))
    for covariate in (np.ones(len(data)), data["x"], data["z"], data["x"] * data["z"]):
        assert abs(np.mean(found * covariate)) < 4 * error
    ss.plots.residuals(fit)


def test_effects_say_where_errors_take_a_correlation_as_given():
    rng = np.random.default_rng(2)
    x, z = rng.standard_normal((2, 400))
    latent = np.column_stack([1 + x, 0.5 + z]) + rng.standard_normal((400, 2))
    data = pd.DataFrame({"x": x, "z": z, "c": latent.argmax(axis=1), "y": latent.max(axis=1)})
    few = pd.concat([data[data["c"] == 0], data[data["c"] == 1][:8]])
    fit = ss.switching("y ~ x", "c ~ x + z", few)
    assert len(fit.covariance.missing) == 2
    for found in (fit.treatment_effects(1, 0), fit.heterogeneity(1, 0), fit.mte().averages):
        assert any("none for 0:correlation, 1:correlation" in one for one in found.warnings)
    whole = ss.switching("y ~ x", "c ~ x + z", data)
    assert not any("TOO SMALL" in one for one in whole.treatment_effects(1, 0).warnings)
    steps = ss.switching("y ~ x", "c ~ x + z", data, method="two-step")
    assert not any("TOO SMALL" in one for one in steps.treatment_effects(1, 0).warnings)
    logs = data.assign(w=np.exp(data["y"]))
    steps = ss.switching("np.log(w) ~ x", "c ~ x + z", logs, method="two-step")
    found = steps.treatment_effects(1, 0, scale="level")
    assert any("none for 0:scale, 0:correlation" in one for one in found.warnings)


@pytest.mark.parametrize("kind", ["ml", "two-step", "binary", "level"])
def test_effects_on_a_selected_outcome_are_those_on_its_mean_where_it_is_selected(table, kind):
    rows, formula, options, scale = table, "wage ~ x", {}, {}
    if kind == "two-step":
        options = {"method": "two-step"}
    if kind == "binary":
        rows = table.assign(
            wage=(table["wage"] > table["wage"].median()).where(table["works"] == 1)
        )
        rows["wage"] = rows["wage"].astype(float)
        options = {"binary": True}
    if kind == "level":
        rows = table.assign(wage=np.exp(0.3 * table["wage"]))
        formula, scale = "np.log(wage) ~ x", {"scale": "level"}
    found = ss.sample_selection(formula, "works ~ x + z", rows, **options)
    effects = found.marginal_effects(of="outcome", **scale).table.set_index("variable")
    for name in ("x", "z"):
        ends = [
            found.predict(rows.assign(**{name: rows[name] + d}), "outcome", **scale).mean()
            for d in (1e-4, -1e-4)
        ]
        assert effects.loc[name, "estimate"] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3)
    if kind == "ml":
        moved = ss.sample_selection(
            formula, "works ~ x + z", rows.assign(wage=rows["wage"] + 100.0)
        )
        again = moved.marginal_effects(of="outcome").table.set_index("variable")
        for column in ("estimate", "std_error"):
            np.testing.assert_allclose(again[column], effects[column], rtol=1e-5)


def test_derivatives_of_means_where_an_outcome_is_selected(selection):
    moments = GivenSelectedMoments(
        selection.problem, selection.problem.ordered_rule, moments_of(selection.problem)
    )
    rows, weights, values = (
        selection.rows.take(slice(0, 7)),
        np.linspace(0.5, 2.0, 7),
        selection.values,
    )
    cells, slope = moments.cells_and_slope(values, rows, weights)
    np.testing.assert_allclose(cells[:, 1], moments.expectations(values, rows).outcome)
    for place in range(len(values)):
        move = 1e-6 * (np.arange(len(values)) == place)
        up, down = (weights @ moments.cells(values + d, rows) for d in (move, -move))
        np.testing.assert_allclose(slope[:, place], (up - down) / 2e-6, atol=DIFFERENCED)


def shared_towns(seed, n_towns=40, size=20):
    """Draw rows of towns that share covariates and noise."""
    rng = np.random.default_rng(seed)
    town = np.repeat(np.arange(n_towns), size)
    x, z, u, v = 0.7 * rng.standard_normal((4, n_towns))[:, town] + rng.standard_normal(
        (4, n_towns * size)
    )
    chosen = 0.3 + 0.5 * x + z + u > 0
    y = np.where(chosen, 1 + 1.5 * x + 0.5 * u + v, 0.5 - 0.5 * x + v)
    return pd.DataFrame({"x": x, "z": z, "chosen": chosen.astype(int), "y": y, "town": town})


def clustered_steps(table):
    return ss.switching("y ~ x", "chosen ~ x + z", table, method="two-step", cluster="town")


def test_effects_after_two_steps_with_clusters_count_clusters_of_rows_as_a_sample():
    table = shared_towns(0)
    fit = clustered_steps(table)
    sampled, fixed = (
        fit.treatment_effects(1, 0, covariates=word).table for word in ("sampled", "fixed")
    )
    latent = fit.predict(table, kind="latent")
    gain = latent[1] - latent[0]
    assert sampled["estimate"][0] == pytest.approx(gain.mean())
    totals = (gain - gain.mean()).groupby(table["town"]).sum() / len(table)
    added = 40 / 39 * (totals**2).sum()
    assert sampled["std_error"][0] ** 2 == pytest.approx(fixed["std_error"][0] ** 2 + added)
    assert (sampled["std_error"] > fixed["std_error"]).all()
    for effect in (fit.potential_outcomes(), fit.marginal_effects(), fit.decompose(1, 0)):
        assert (effect.table["std_error"] > 0).any()


def test_errors_of_effects_after_two_steps_with_clusters_match_the_spread_of_estimates():
    found = [clustered_steps(shared_towns(seed)).treatment_effects(1, 0).table
             for seed in range(100)]  # fmt: skip
    spread = np.std([one["estimate"] for one in found], axis=0, ddof=1)
    claimed = np.mean([one["std_error"] for one in found], axis=0)
    # The spread of 100 estimates is known to 7%, and 40 clusters bias errors down a little.
    np.testing.assert_allclose(claimed / spread, 1.0, atol=0.25)


@pytest.mark.parametrize("covariate", ["w", "sort"])
def test_a_covariate_that_unselected_rows_lack_has_effects_profiles_and_a_report(
    table, covariate, tmp_path
):
    """As survey data have it: what explains wages is missing where nobody works."""
    whole = table.assign(sort=np.where(np.arange(len(table)) % 3, "a", "b"))
    rows = whole.assign(**{covariate: whole[covariate].where(whole["works"].astype(bool))})
    formulas = f"wage ~ x + {covariate}", "works ~ x + z"
    fit, known = (ss.sample_selection(*formulas, data) for data in (rows, whole))
    np.testing.assert_allclose(fit.values, known.values, rtol=1e-9)
    for of in ("outcome", "chance"):
        one, other = (one.marginal_effects(of=of, data=whole).table for one in (fit, known))
        assert one["variable"].tolist() == other["variable"].tolist()
        # Steps are of the spread of what rows hold, and small.
        np.testing.assert_allclose(one["estimate"], other["estimate"], rtol=1e-3, atol=1e-9)
    at = {"x": [0.0, 1.0], covariate: ["b" if covariate == "sort" else 0.5]}
    for ask in ("choice_probabilities", "potential_outcomes"):
        one, other = (getattr(one, ask)(at=at).table for one in (fit, known))
        np.testing.assert_allclose(one["estimate"], other["estimate"], rtol=1e-3)
    assert np.isfinite(fit.marginal_effects(at={"x": 0.0}).table["estimate"]).all()
    fit.report(tmp_path / "fit.html")
    assert "data-theme" in (tmp_path / "fit.html").read_text(encoding="utf-8")
    for ask in (fit.simulate, lambda: fit.rehearse(10)):
        with pytest.raises(UnsupportedError, match="lack covariates of an outcome"):
            ask()
    assert len(fit.simulate(whole, seed=1)) == len(whole)


def test_effects_of_categories_have_one_base_before_and_after_saving(table, tmp_path):
    rows = table.assign(sort=np.array(["a", "b", "c"])[np.arange(len(table)) % 3])
    formula = "y ~ x + C(sort, levels=['c', 'b', 'a'])"
    fit = ss.switching(formula, "chosen ~ x + z", rows)
    fit.save(tmp_path / "fit.json")
    changes = ss.load(tmp_path / "fit.json").marginal_effects(data=rows).table["change"].unique()
    assert fit.marginal_effects().table["change"].unique().tolist() == changes.tolist()
    assert {"b - c", "a - c"} <= set(changes)

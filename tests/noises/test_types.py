"""Unobserved types: derivatives, what they equal, what they find, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ConvergenceWarning, DataError, OptionError, UnsupportedError
from selfselect.kernels.joint import hermite
from selfselect.likelihoods import evaluate, row_terms
from selfselect.likelihoods.components import Components
from selfselect.noises import Independent, SharedShock, Types

STEP = 1e-5
"""Of central differences; their error is its square times a third derivative."""

SCORE_TOLERANCE, HESSIAN_TOLERANCE = 1e-6, 1e-5
"""Relative to the largest entry: what differences with that step can show."""


def people(
    n_people: int = 60, n_years: int = 4, *, seed: int = 0, shifts: Any = None
) -> pd.DataFrame:
    """Draw a panel of two types and two alternatives, rows in no order."""
    rng = np.random.default_rng(seed)
    n = n_people * n_years
    alpha = np.array([[-0.8, 0.6], [0.8, -0.6]]) if shifts is None else np.asarray(shifts)
    kind = np.repeat(rng.integers(0, len(alpha), n_people), n_years)
    x, z = rng.normal(size=(n, 2)), np.repeat(rng.normal(size=n_people), n_years)
    means = np.column_stack([1 + x @ [1, 0.5], 0.5 + x @ [-0.5, 1.0]])
    latent = means + alpha[kind] + rng.normal(size=(n, 2)) * [1.0, 0.7]
    made = pd.DataFrame(
        {
            "x": x[:, 0], "v": x[:, 1], "z": z, "y": latent.max(axis=1),
            "job": np.array(["farm", "town"])[latent.argmax(axis=1)],
            "person": np.repeat(np.arange(n_people), n_years), "kind": kind,
            "weight": 1 + np.repeat(np.arange(n_people) % 3, n_years),
        }
    )  # fmt: skip
    return made.sample(frac=1, random_state=seed).reset_index(drop=True)


def somewhere(problem: Any, seed: int = 1) -> Any:
    """Return natural parameters that are nobody's optimum."""
    layout = problem.layout
    free = 0.3 + 0.4 * np.random.default_rng(seed).normal(size=layout.n_free)
    natural = layout.natural(free)
    h = layout.inverse_scale_positions
    natural[h] = 0.3 + np.abs(natural[h])
    return layout.natural(layout.gather(natural))


def agree_with_differences(problem: Any, engine: Any, natural: Any) -> None:
    """Check score and Hessian of the sum, and the scores of rows, by central differences."""

    def at(place: Any) -> Any:
        return engine.sum(lambda batch: evaluate(problem, place, batch, curvature="none"))

    found = engine.sum(lambda batch: evaluate(problem, natural, batch))
    ends = [[at(natural + way * one) for way in (1, -1)] for one in STEP * np.eye(len(natural))]
    score = np.array([(up.loglik - down.loglik) / (2 * STEP) for up, down in ends])
    hessian = np.array([(up.score - down.score) / (2 * STEP) for up, down in ends])
    np.testing.assert_allclose(
        found.score, score, rtol=0, atol=SCORE_TOLERANCE * np.abs(score).max()
    )
    np.testing.assert_allclose(
        found.hessian, hessian, rtol=0, atol=HESSIAN_TOLERANCE * np.abs(hessian).max()
    )

    def rows(batch: Any) -> Any:
        weights = 1.0 if batch.rows.weights is None else batch.rows.weights[:, None]
        return row_terms(problem, natural, batch).score * weights

    np.testing.assert_allclose(engine.collect(rows).sum(axis=0), found.score, atol=1e-8)


MODELS = {
    "shifts each": (Types(3), {"chosen": "job"}),
    "one talent with costs": (Types(3, "talent", costs=True), {"chosen": "job"}),
    "common scale": (Types(2, scale="common"), {"chosen": "job"}),
    "weights by a covariate": (Types(3, covariates="~ z"), {"chosen": "job"}),
    "held": (
        Types(2, costs=True, held_shifts=((0, "town", -3.0),), held_costs=((0, "town", 2.0),)),
        {"chosen": "job"},
    ),
    "costs that depend on a covariate": (
        Types(2, costs=True),
        {"chosen": "job", "cost": {"town": "~ z - 1"}},
    ),
    "unknown index": (Types(2), {"alternatives": 2}),
    "minimum": (Types(2), {"chosen": "job", "rule": "min"}),
}


@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "people"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_hessians_agree_with_differences(name: str, grouped: bool) -> None:
    noise, described = MODELS[name]
    data = people()
    if described.get("rule") == "min":
        data["y"] = -data["y"]
    weighted = {"panel": "person", "weights": "weight", "weights_kind": "probability"}
    panel = weighted if grouped else {}
    posed = ss.pose("y ~ x + v", data, noise=noise, **described, **panel)
    agree_with_differences(posed.problem, posed.engine, somewhere(posed.problem))


def test_scores_agree_where_outcomes_are_missing_and_equations_have_no_constant() -> None:
    data = people()
    data.loc[data.index[::5], "y"] = np.nan
    posed = ss.pose(
        "y ~ x + v - 1", data, chosen="job", noise=Types(2), panel="person",
        missing_outcome="silent",
    )  # fmt: skip
    agree_with_differences(posed.problem, posed.engine, somewhere(posed.problem))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_shown_of_types_leads_back_to_their_parameters(name: str) -> None:
    noise, described = MODELS[name]
    problem = ss.pose("y ~ x + v", people(), noise=noise, **described).problem
    layout = problem.layout
    free = layout.gather(somewhere(problem))
    reported = layout.report(free)
    np.testing.assert_allclose(layout.read(reported.values), free, atol=1e-12)
    slopes = [
        (layout.report(free + one).values - layout.report(free - one).values) / (2 * STEP)
        for one in STEP * np.eye(len(free))
    ]
    np.testing.assert_allclose(reported.jacobian, np.transpose(slopes), atol=1e-6)


def test_shifts_have_mean_zero_whatever_the_parameters() -> None:
    problem = ss.pose("y ~ x + v", people(), chosen="job", noise=Types(4)).problem
    parts = Components.of(problem)
    values = parts.map.at(somewhere(problem)[parts.at_types])
    np.testing.assert_allclose(values.weights @ values.shifts, 0.0, atol=1e-14)


def test_one_type_is_independent_noise() -> None:
    data = people(200)
    one = ss.fit("y ~ x + v", data, chosen="job", noise=Types(1))
    plain = ss.fit("y ~ x + v", data, chosen="job")
    assert one.problem.noise == Independent()
    pd.testing.assert_series_equal(one.params, plain.params, check_exact=True)
    assert one.llf == plain.llf


@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "people"])
def test_a_shared_shock_is_types_with_the_nodes_of_a_quadrature(grouped: bool) -> None:
    nodes, loading = 41, 0.3
    data, panel = people(), {"panel": "person"} if grouped else {}
    shocked = ss.pose("y ~ x + v", data, chosen="job", noise=SharedShock(loading=loading), **panel)
    typed = ss.pose("y ~ x + v", data, chosen="job", noise=Types(nodes), **panel)
    own = int(shocked.problem.layout.starts[-1])
    natural = shocked.problem.layout.natural(np.array([0.2, 0.5, 0.3, 1.2, 0.1, -0.3, 0.4, 1.5]))
    at, weight = hermite(nodes)
    parts, unit = Components.of(typed.problem), shocked.problem.units.outcome_unit
    shifts = loading / unit * np.column_stack([at, at])
    types = parts.map.parameters(weight, shifts, np.zeros_like(shifts))
    left = shocked.engine.sum(lambda batch: evaluate(shocked.problem, natural, batch))
    right = typed.engine.sum(
        lambda batch: evaluate(typed.problem, np.concatenate([natural[:own], types]), batch)
    )
    assert left.loglik == pytest.approx(right.loglik, abs=1e-7)
    np.testing.assert_allclose(left.score[:own], right.score[:own], atol=1e-5)


def test_types_of_a_panel_are_found() -> None:
    data = people(500, 5, seed=3)
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=Types(2), panel="person", seed=0)
    assert fit.converged
    truth = {
        ("farm", "Intercept"): 1.0, ("farm", "x"): 1.0, ("farm", "v"): 0.5,
        ("town", "Intercept"): 0.5, ("town", "x"): -0.5, ("town", "v"): 1.0,
        ("farm", "scale"): 1.0, ("town", "scale"): 0.7,
    }  # fmt: skip
    away = (fit.params[list(truth)] - pd.Series(truth)) / fit.bse[list(truth)]
    assert np.abs(away).max() < 3.5
    shifts = fit.params["town"].filter(like="shift")
    assert sorted(shifts) == pytest.approx([-0.6, 0.6], abs=0.15)
    assert fit.params["type 1"]["weight"] >= fit.params["type 2"]["weight"]
    without = ss.fit("y ~ x + v", data, chosen="job", panel="person")
    assert fit.llf > without.llf + 300


def test_the_number_of_types_is_chosen_by_bic_which_counts_people() -> None:
    data = people(150, 4, seed=4)
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=Types("bic"), panel="person", seed=0)
    assert fit.problem.noise.number == 2
    assert "BIC by number: 1: " in fit.solver_reason
    assert fit.bic == pytest.approx(np.log(150) * fit.n_parameters - 2 * fit.llf)


def test_weights_that_move_with_a_covariate_are_found() -> None:
    rng = np.random.default_rng(5)
    data = people(600, 4, seed=5).sort_values("person", kind="stable")
    share = data.groupby("person")["kind"].first()
    data["z"] = np.repeat(1.5 * share.to_numpy() + rng.normal(size=len(share)), 4)
    noise = Types(2, covariates="~ z")
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=noise, panel="person", seed=0)
    # Of z given the type, both normal with variance one, the logit's slope is the distance.
    assert abs(abs(fit.params["type 2", "z"]) - 1.5) < 3.5 * fit.bse["type 2", "z"]


def test_an_outcome_in_other_units_has_shifts_in_those_units() -> None:
    data = people(200, 4, seed=6)
    other = data.assign(y=1000 * data["y"])
    told: dict[str, Any] = {"chosen": "job", "noise": Types(2), "panel": "person", "seed": 0}
    one, thousand = (ss.fit("y ~ x + v", one, **told) for one in (data, other))
    weights = ["type 1", "type 2"]
    expected = 1000 * one.params.drop(weights, level=0)
    pd.testing.assert_series_equal(thousand.params.drop(weights, level=0), expected, rtol=1e-5)
    np.testing.assert_allclose(thousand.params["type 1"], one.params["type 1"], rtol=1e-5)


def test_a_type_that_never_chooses_an_alternative_has_no_shift_there() -> None:
    data = people(300, 5, seed=7, shifts=[[0.5, -9.0], [-0.5, 0.5]])
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=Types(2), panel="person", seed=0)
    assert fit.converged
    (held,) = fit.problem.noise.held_shifts
    m, label, _ = held
    assert label == "town"
    assert f"the shift of type {m + 1} in 'town'" in fit.status
    assert ("town", f"shift of type {m + 1}") not in fit.params.index
    assert np.isfinite(fit.bse).all() and fit.bse.max() < 1.0
    # The constant is now the mean among those who do choose it: one type's, 0.5 + 0.5.
    assert abs(fit.params["town", "Intercept"] - 1.0) < 4 * fit.bse["town", "Intercept"]
    assert any("Not determined" in finding.sentence for finding in fit.diagnose().weak)

    table = fit.treatment_effects("farm", "town")
    assert "types that choose 'farm' and 'town'" in table.warnings[0]
    # Of the type that does: (1 - 0.5) - (0.5 + 0.5), at covariates of mean zero.
    rows = fit.rows.covariates.mean(axis=0)
    truth = -0.5 + rows @ [1.5, -0.5]
    found = table.table.iloc[0]
    assert abs(found["estimate"] - truth) < 4 * found["std_error"]
    everyone = fit.treatment_effects("farm", "town", types="all")
    assert "UNDETERMINED" in everyone.warnings[0]
    assert everyone.table["estimate"].iloc[0] > 2.0
    with pytest.raises(
        UnsupportedError, match="A counterfactual needs the outcomes and choices of everybody"
    ):
        fit.counterfactual(close="town")
    with pytest.raises(OptionError, match="types='both' is not possible"):
        fit.treatment_effects("farm", "town", types="both")
    given = fit.predict(kind="given_seen")
    assert given["town", "farm"].isna().all() and given["farm", "town"].notna().all()
    # What everybody would have in town is not known; who is there, and what is seen there, is.
    latent, chance = fit.predict(), fit.predict(kind="chance")
    assert latent["town"].isna().all() and latent["farm"].notna().all()
    assert chance["town"].mean() == pytest.approx((data["job"] == "town").mean(), abs=0.02)
    seen = sum(chance[job] * given[job, job] for job in ("farm", "town"))
    np.testing.assert_allclose(fit.predict(kind="outcome"), seen, rtol=1e-6)
    # Other noises answer for everybody, so their answers may not stand beside that of some people.
    compared = ss.choose_noise(
        "y ~ x + v", data, chosen="job", panel="person", effect=("farm", "town"), seed=0,
        candidates={"normal": "independent", "types": Types(2)},
    )  # fmt: skip
    answer = "average effect of farm over town"
    assert np.isfinite(compared.table.loc["normal", answer])
    assert np.isnan(compared.table.loc["types", answer])
    assert "needs the outcomes and choices of everybody" in compared.table.loc["types", "note"]
    types = fit.types()
    assert np.isnan(types.table.loc["shift in town", f"type {m + 1}"])


def test_types_say_who_has_which_and_what_they_are_like() -> None:
    data = people(200, 5, seed=10)
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=Types(2), panel="person", seed=0)
    types = fit.types()
    assert types.people.index.name == "person" and len(types.people) == 200
    np.testing.assert_allclose(types.people.sum(axis=1), 1.0)
    kind = data.groupby("person")["kind"].first()
    likely = types.people.to_numpy().argmax(axis=1)
    same = (likely == kind.loc[types.people.index].to_numpy()).mean()
    assert max(same, 1 - same) > 0.9
    np.testing.assert_allclose(types.table.loc["expected people"].sum(), 200)
    shares = types.table.filter(like="share of rows", axis=0)
    np.testing.assert_allclose(shares.sum(), 1.0)
    weights, shifts = types.table.loc["weight"], types.table.loc["shift in farm"]
    assert weights @ shifts == pytest.approx(0.0, abs=1e-12)
    assert "shift in farm" in str(types)
    with pytest.raises(UnsupportedError, match="This fit has no types"):
        ss.fit("y ~ x + v", data, chosen="job").types()


def test_types_that_are_alike_are_said() -> None:
    data, noise = people(100, 4, seed=13, shifts=[[0.0, 0.0]]), Types(2, "talent")
    with pytest.warns(ConvergenceWarning, match=r"types 1 and 2 are alike"):
        fit = ss.fit("y ~ x + v", data, chosen="job", noise=noise, panel="person", seed=0)
    assert not fit.converged


def test_bic_finds_no_types_where_there_are_none() -> None:
    data = people(60, 4, seed=12, shifts=[[0.0, 0.0]])
    by_bic = ss.fit("y ~ x + v", data, chosen="job", noise=Types("bic"), panel="person", seed=0)
    assert by_bic.problem.noise == Independent()


def test_too_many_types_for_the_people_are_refused() -> None:
    with pytest.raises(DataError, match="12 people are too few for 3 types"):
        ss.fit("y ~ x + v", people(12, 8), chosen="job", noise=Types(3), panel="person")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"number": 0}, "not a number of types"),
        ({"number": "aic"}, "not a number of types"),
        ({"shifts": "both"}, "There are no shifts 'both'"),
        ({"costs": "~ z"}, "must be True or False"),
        ({"covariates": "z"}, "must be a formula"),
    ],
)
def test_options_that_are_not_possible_are_refused(arguments: Any, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        Types(**arguments)


def test_a_saved_fit_with_types_is_the_same_fit(tmp_path: Any) -> None:
    data = people(150, 4, seed=8)
    noise = Types(2, costs=True)
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=noise, panel="person", seed=0)
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(loaded.params, fit.params, check_exact=True)
    assert str(loaded.summary()) == str(fit.summary())
    assert loaded.bic == fit.bic and loaded.problem.noise == fit.problem.noise


def test_another_solver_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="unobserved types"):
        ss.fit("y ~ x", people(), chosen="job", noise=Types(2), solver=ss.solvers.Newton())


def test_complete_curvature_is_what_the_data_would_hold_if_types_were_known() -> None:
    posed = ss.pose("y ~ x + v", people(), chosen="job", noise=Types(2), panel="person")
    natural = somewhere(posed.problem)
    found = posed.engine.sum(
        lambda batch: evaluate(posed.problem, natural, batch, curvature="complete")
    )
    exact = posed.engine.sum(lambda batch: evaluate(posed.problem, natural, batch))
    np.testing.assert_allclose(found.score, exact.score)
    assert found.loglik == exact.loglik
    logit = posed.problem.layout.starts[-1]
    assert found.hessian[logit, logit] < exact.hessian[logit, logit]


def test_types_are_numbered_by_weight_from_any_start() -> None:
    data = people(200, 4, seed=9)
    told: dict[str, Any] = {"chosen": "job", "noise": Types(2), "panel": "person"}
    fits = [ss.fit("y ~ x + v", data, seed=seed, **told) for seed in (1, 2)]
    np.testing.assert_allclose(fits[0].params, fits[1].params, rtol=1e-4)


@pytest.mark.parametrize(
    ("noise", "told", "match"),
    [
        (Types(2, costs=True), {"cost": {"town": "~ z"}}, "has a constant of its own"),
        (Types(2, costs=True), {"chosen": None, "alternatives": 2}, "Costs can be estimated where"),
        (Types(2), {"rule": ss.rules.Ranked(2)}, "needs a rule with `bounds`"),
        (Types(2, covariates="~ z"), {"formula": "y ~ x - 1"}, "needs a constant in every"),
    ],
)
def test_what_types_cannot_be_told_from_is_refused(noise: Any, told: Any, match: str) -> None:
    given = {"formula": "y ~ x", "chosen": "job", "noise": noise} | told
    with pytest.raises(UnsupportedError, match=match):
        ss.fit(given.pop("formula"), people(), **given)


def test_scales_of_types_do_not_move() -> None:
    with pytest.raises(OptionError, match="which Types does not have"):
        Types(2, scale="~ age")


def test_few_rows_get_more_starts_than_the_ten_that_miss_the_best_optimum():
    n = 350
    rng = np.random.default_rng([5, n, 1, 3])
    x, z = rng.standard_normal((2, n))
    shifts, weights = rng.standard_normal((3, 2)), rng.dirichlet(np.full(3, 4.0))
    noise = 0.8 * rng.standard_normal((n, 2)) + shifts[rng.choice(3, n, p=weights)]
    latent = np.column_stack([0.3 + 0.8 * x, 0.1 - 0.5 * x + 0.6 * z]) + noise
    chosen = latent.argmax(axis=1)
    data = {"x": x, "z": z, "y": latent.max(axis=1), "job": np.array(["a", "b"])[chosen]}
    options = {"chosen": "job", "noise": Types(3), "seed": 1}
    formulas = {"a": "y ~ x", "b": "y ~ x + z"}
    ten = ss.fit(formulas, data, solver=ss.solvers.TypeSearch(starts=10), **options)
    assert ss.fit(formulas, data, **options).llf > ten.llf + 1.0


def test_latent_means_follow_the_types_that_a_rows_covariates_favour() -> None:
    # Shifts add up to zero over everybody; a row whose z favours one type leans to its shift.
    data = people(400, 1, seed=3)
    data["z"] = data["z"] + 1.5 * data["kind"]
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=Types(2, covariates="~ z"), seed=1)
    rows = data.head(40)
    chances, given = fit.predict(rows, kind="chance"), fit.predict(rows, kind="given_seen")
    latent = fit.predict(rows, kind="latent")
    for label in latent:
        total = sum(given[label, seen] * chances[seen] for seen in chances)
        np.testing.assert_allclose(latent[label], total, rtol=1e-6)
    average = fit.potential_outcomes().table.query("group == 'everyone'")["estimate"]
    np.testing.assert_allclose(fit.predict(kind="latent").mean(), average, rtol=1e-8)


@pytest.mark.parametrize("noise", [Types(2), SharedShock()])
def test_new_rows_of_a_panel_are_drawn_without_outcomes_or_choices(noise: Any) -> None:
    # Rows to predict have neither; drawing once asked what had been observed in them.
    data = people(60, 3, seed=2)
    fit = ss.fit("y ~ x + v", data, chosen="job", noise=noise, panel="person", seed=1)
    drawn = fit.simulate(data[["x", "v", "person"]], seed=3)
    again = fit.simulate(seed=3)
    assert len(drawn) == len(data) and set(drawn["job"]) == {"farm", "town"}
    assert drawn["y"].mean() == pytest.approx(again["y"].mean(), abs=0.5)

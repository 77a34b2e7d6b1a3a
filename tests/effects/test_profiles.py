"""Effects at given covariates, and marginal effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from selfselect.errors import DataError, ExtrapolationWarning, OptionError

DERIVATIVE = 1e-5
"""A central difference over 2e-3 standard deviations neglects a term of that order squared."""

OTHER_STEP = 1e-3
"""Relative: a saved fit knows no spread of its columns, and steps by a share of their size."""

SAME = 1e-5
"""Relative: sums of the same numbers, and estimates that stop at a small gradient."""


@pytest.fixture(scope="module")
def curved(world: Any) -> ss.FitResult:
    """Return a fit in which x enters as a square and an interaction, and towns as categories."""
    return ss.fit("outcome ~ x + I(x**2) + x:d + d + town", world.data, chosen="chosen")


def test_a_profile_is_the_prediction_there(fit: ss.FitResult) -> None:
    table = fit.choice_probabilities(at={"x": [-1.0, 0.5], "d": 1}).table
    assert list(table.columns[:3]) == ["x", "d", "alternative"]
    new = pd.DataFrame({"x": [-1.0, 0.5], "d": [1, 1]})
    expected = fit.predict(new, kind="chance").to_numpy().ravel()
    np.testing.assert_allclose(table["estimate"], expected, atol=1e-7)
    outcomes = fit.potential_outcomes(at={"x": -1.0, "d": 1}).table
    everyone = outcomes[outcomes["group"] == "everyone"]["estimate"]
    np.testing.assert_allclose(everyone, fit.predict(new.head(1)).to_numpy()[0])


def test_conditional_effects_keep_the_identity(fit: ss.FitResult) -> None:
    at = {"x": [-1.0, 0.0, 1.0]}
    effects = fit.treatment_effects("a", "b", at=at).table.pivot(
        index="x", columns="effect", values="estimate"
    )
    share = fit.choice_probabilities(at=at).table.query("alternative == 'a'")["estimate"]
    mixed = share.to_numpy() * effects["ATT"] + (1 - share.to_numpy()) * effects["ATU"]
    np.testing.assert_allclose(mixed, effects["ATE"], rtol=1e-12)


def test_at_the_means_categories_are_the_commonest(curved: ss.FitResult, world: Any) -> None:
    data = world.data
    means = {"x": data["x"].mean(), "d": data["d"].mean(), "town": data["town"].mode()[0]}
    np.testing.assert_allclose(
        curved.choice_probabilities(at="means").table["estimate"],
        curved.choice_probabilities(at=means).table["estimate"],
    )


def test_errors_of_profiles_are_those_of_the_estimates(fit: ss.FitResult) -> None:
    effect = fit.treatment_effects("a", "b", at={"x": 0.5, "d": 0})
    ate = effect.table.iloc[0]
    gradient = pd.Series(0.0, index=fit.params.index)
    gradient["a", "Intercept"], gradient["a", "x"] = 1.0, 0.5
    gradient["b", "Intercept"], gradient["b", "x"] = -1.0, -0.5
    variance = gradient @ fit.cov_params() @ gradient
    assert ate["std_error"] == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("at", ["average", "means", {"x": [-0.5, 1.0]}])
def test_marginal_effects_on_chances_add_up_to_zero(curved: ss.FitResult, at: Any) -> None:
    table = curved.marginal_effects(at=at).table
    keys = [name for name in table.columns if name in ("x", "variable", "change")]
    total = table.groupby(keys)["estimate"].sum()
    np.testing.assert_allclose(total, 0.0, atol=1e-12)
    assert {"dy/dx", "1 - 0", "north - east", "west - east"} == set(table["change"])


def test_marginal_effects_go_through_every_term(curved: ss.FitResult, world: Any) -> None:
    step = 1e-3
    up = world.data.assign(x=world.data["x"] + step)
    down = world.data.assign(x=world.data["x"] - step)
    after = curved.choice_probabilities(up).table["estimate"]
    before = curved.choice_probabilities(down).table["estimate"]
    seen = curved.predict(up, "outcome").mean() - curved.predict(down, "outcome").mean()
    found = curved.marginal_effects("x").table["estimate"]
    np.testing.assert_allclose(found, (after - before) / (2 * step), atol=DERIVATIVE)
    outcome = curved.marginal_effects("x", of="outcome").table
    assert outcome["alternative"].tolist() == ["(observed)"]
    assert outcome["estimate"][0] == pytest.approx(seen / (2 * step), abs=DERIVATIVE)


def test_a_dummy_changes_from_zero_to_one(curved: ss.FitResult, world: Any) -> None:
    one = curved.choice_probabilities(world.data.assign(d=1)).table["estimate"]
    zero = curved.choice_probabilities(world.data.assign(d=0)).table["estimate"]
    np.testing.assert_allclose(curved.marginal_effects("d").table["estimate"], one - zero)
    west = curved.choice_probabilities(world.data.assign(town="west")).table["estimate"]
    east = curved.choice_probabilities(world.data.assign(town="east")).table["estimate"]
    found = curved.marginal_effects(["town"]).table.query("change == 'west - east'")["estimate"]
    np.testing.assert_allclose(found, west - east)


def test_booleans_and_categories_of_pandas_change_by_level(world: Any) -> None:
    data = world.data.assign(
        open_c=world.data["open_c"].astype(bool),
        town=pd.Categorical(world.data["town"], categories=["west", "north", "east", "moon"]),
    )
    fit = ss.fit("outcome ~ x + open_c + town", data, chosen="chosen")
    table = fit.marginal_effects(["open_c", "town"]).table
    assert set(table["change"]) == {"True - False", "north - west", "east - west"}
    assert np.isfinite(table[["estimate", "std_error"]]).all(axis=None)


def test_marginal_effects_have_the_errors_of_a_probit(pair: ss.FitResult) -> None:
    """With two alternatives the chance is a probit of known form, so its slope is too."""
    from scipy.stats import norm

    means = pair.predict().mean()
    total = np.sqrt((pair.scales**2).sum())
    index = (means["hunting"] - means["fishing"]) / total
    params = pair.params
    slope = (params["hunting", "height"] - params["fishing", "height"]) / total
    table = pair.marginal_effects("height", at="means").table.set_index("alternative")
    expected = norm.pdf(index) * slope
    assert table["estimate"]["hunting"] == pytest.approx(expected, rel=1e-5)
    moved = []
    for place in range(len(params)):
        # Differences of the same formula in every parameter give its error.
        each = []
        for sign in (1, -1):
            values = params.copy()
            step = sign * 1e-4 * pair.bse.iloc[place]
            values.iloc[place] += step
            means_here = {
                job: values[job, "Intercept"]
                + values[job, "height"] * pair.table["height"].mean()
                + values[job, "weight"] * pair.table["weight"].mean()
                for job in ("hunting", "fishing")
            }
            size = np.hypot(values["hunting", "scale"], values["fishing", "scale"])
            at = (means_here["hunting"] - means_here["fishing"]) / size
            slope = (values["hunting", "height"] - values["fishing", "height"]) / size
            each.append(norm.pdf(at) * slope)
        moved.append((each[0] - each[1]) / (2e-4 * pair.bse.iloc[place]))
    gradient = np.array(moved)
    error = np.sqrt(gradient @ pair.cov_params().to_numpy() @ gradient)
    assert table["std_error"]["hunting"] == pytest.approx(error, rel=1e-3)


@pytest.mark.filterwarnings("ignore::selfselect.errors.ExtrapolationWarning")
@pytest.mark.parametrize("height", [120.0, 0.0, -100.0, -200.0])
def test_means_over_the_rarest_groups_have_the_errors_of_their_formula(
    pair: ss.FitResult, height: float
) -> None:
    """The gain of those who choose one of two is d + s λ(d/s), whose chance falls to 1e-100."""
    from scipy.stats import norm

    row = np.array([1.0, height, 60.0])

    def gain(values: Any) -> float:
        fishing, hunting = values.reshape(2, 4)
        size = np.hypot(fishing[3], hunting[3])
        at = (hunting - fishing)[:3] @ row / size
        return size * (at + np.exp(norm.logpdf(at) - norm.logcdf(at)))

    steps = np.diag(1e-4 * pair.bse)
    moved = [gain(pair.values + one) - gain(pair.values - one) for one in steps]
    gradient = np.array(moved) / (2.0 * np.diag(steps))
    error = np.sqrt(gradient @ pair.cov_params().to_numpy() @ gradient)
    effect = pair.treatment_effects("hunting", "fishing", at={"height": height, "weight": 60.0})
    found = effect.table.set_index("effect").loc["ATT"]
    assert found["estimate"] == pytest.approx(gain(pair.values), rel=1e-8)
    assert found["std_error"] == pytest.approx(error, rel=1e-5)


@pytest.mark.filterwarnings("ignore::selfselect.errors.ExtrapolationWarning")
def test_where_squares_of_a_chance_are_no_numbers_a_mean_has_no_error(pair: ss.FitResult) -> None:
    for height in range(-200, -600, -20):
        effect = pair.treatment_effects("hunting", "fishing", at={"height": height, "weight": 60.0})
        last = effect.table.set_index("effect").loc["ATT"]
        assert np.isnan(last["std_error"]) or 0.0 < last["std_error"] < 1.0
    assert np.isnan(last["std_error"]) and np.isnan(last["estimate"])


def test_asking_outside_of_the_data_is_warned_of(fit: ss.FitResult) -> None:
    with pytest.warns(ExtrapolationWarning, match=r"'x' lies outside the range of the fit"):
        effect = fit.treatment_effects("a", "b", at={"x": [0.0, 40.0]})
    assert effect.warnings[0].startswith("EXTRAPOLATION: in 1 of 2 rows 'x'")
    assert "EXTRAPOLATION" in str(effect)
    with pytest.warns(ExtrapolationWarning):
        fit.marginal_effects(at={"x": 40.0})
    with pytest.warns(ExtrapolationWarning):
        assert fit.policy({"x": [40.0], "d": [1]}).warnings


@pytest.mark.parametrize("furthest", [-40.0, 40.0])
def test_the_value_furthest_outside_is_named_on_either_side(
    fit: ss.FitResult, furthest: float
) -> None:
    with pytest.warns(ExtrapolationWarning, match=rf"\(as far as {furthest:g}\)"):
        effect = fit.treatment_effects("a", "b", at={"x": [-0.95 * furthest, 0.0, furthest]})
    assert effect.warnings[0].startswith("EXTRAPOLATION: in 2 of 3 rows 'x'")


@pytest.mark.parametrize(
    ("at", "error", "sentence"),
    [
        ({"height": 1.0}, DataError, r"no covariate 'height'"),
        ({"x": "tall"}, OptionError, r"at\['x'\] must be finite numbers, not 'tall'"),
        ({"x": [0.0, np.nan]}, OptionError, "must be finite numbers"),
        ({"x": []}, OptionError, "is empty"),
        ("medians", OptionError, "at='medians' is not possible"),
        (3.0, OptionError, "at=3.0 is not possible"),
        ({"x": range(200), "d": range(100)}, OptionError, "20000 profiles"),
    ],
)
def test_bad_profiles_are_refused(at: Any, error: Any, sentence: str, fit: ss.FitResult) -> None:
    with pytest.raises(error, match=sentence):
        fit.choice_probabilities(at=at)
    with pytest.raises(error, match=sentence):
        fit.marginal_effects(at=at)


def test_bad_questions_about_marginal_effects_are_refused(fit: ss.FitResult) -> None:
    with pytest.raises(DataError, match=r"no covariate 'xx' in this fit. Did you mean 'x'"):
        fit.marginal_effects("xx")
    with pytest.raises(OptionError, match=r"of='wage' is not possible"):
        fit.marginal_effects(of="wage")


def test_arrays_have_effects_by_the_names_of_their_columns() -> None:
    rng = np.random.default_rng(0)
    covariates = rng.standard_normal((300, 2))
    latent = covariates @ np.array([[1.0, -1.0], [0.5, 0.2]]) + rng.standard_normal((300, 2))
    door = ss.SelfSelectionRegressor().fit(
        covariates, latent.max(axis=1), chosen=latent.argmax(axis=1)
    )
    table = door.result_.marginal_effects(at={"x0": 0.5}).table
    assert set(table["variable"]) == {"x0", "x1"}
    same = door.result_.potential_outcomes(covariates).table
    pd.testing.assert_frame_equal(same, door.result_.potential_outcomes().table)


def test_numbers_that_the_formula_makes_categories_change_by_level(world: Any) -> None:
    data = world.data.assign(year=1970 + np.arange(len(world.data)) % 3)
    fit = ss.fit("outcome ~ x + C(year)", data, chosen="chosen")
    table = fit.marginal_effects("year").table
    assert set(table["change"]) == {"1971 - 1970", "1972 - 1970"}
    at_means = fit.choice_probabilities(at="means").table["estimate"]
    means = {"x": data["x"].mean(), "year": 1970}
    np.testing.assert_allclose(at_means, fit.choice_probabilities(at=means).table["estimate"])
    with pytest.raises(DataError, match="1980"):
        fit.choice_probabilities(at={"year": 1980})


def test_covariates_may_have_the_names_of_our_columns(world: Any) -> None:
    data = world.data.rename(columns={"x": "estimate", "d": "alternative"})
    fit = ss.fit("outcome ~ estimate + alternative", data, chosen="chosen")
    at = {"estimate": [0.0, 1.0], "alternative": 1}
    plain = ss.fit("outcome ~ x + d", world.data, chosen="chosen")
    expected = plain.choice_probabilities(at={"x": [0.0, 1.0], "d": 1}).table
    found = fit.choice_probabilities(at=at).table
    assert list(found.columns[:3]) == ["estimate_", "alternative_", "alternative"]
    np.testing.assert_array_equal(found["estimate"], expected["estimate"])
    slopes = fit.marginal_effects("estimate", at=at).table
    assert slopes["variable"].tolist() == ["estimate"] * 6


def test_the_commonest_category_is_counted_by_weights() -> None:
    """Most rows are of clan b, but most of what was sampled, or repeated, is of clan f."""
    table = ss.simulators.village(400, seed=2).data
    table["clan"] = np.where(np.arange(400) % 5 < 3, "b", "f")
    table["times"] = np.where(table["clan"] == "b", 1, 4)
    formula, asked = "income ~ height * clan", {"at": "means", "columns": "height"}
    weighted = ss.fit(formula, table, chosen="job", weights="times", weights_kind="frequency")
    repeated = ss.fit(formula, table.loc[table.index.repeat(table["times"])], chosen="job")
    np.testing.assert_allclose(
        weighted.marginal_effects(**asked).table["estimate"],
        repeated.marginal_effects(**asked).table["estimate"],
        rtol=SAME,
    )


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_marginal_effects_of_rows_that_are_alike_are_those_at_their_covariates(
    pair: ss.FitResult, tmp_path: Any, n_rows: int, loaded: bool
) -> None:
    """A column of one value has no spread, and its value is no end of a spline."""
    pair.save(tmp_path / "fit.json")
    fit = ss.load(tmp_path / "fit.json") if loaded else pair
    row = pd.DataFrame({"height": [171.3], "weight": [66.1]})
    table = fit.marginal_effects(data=pd.concat([row] * n_rows)).table
    there = pair.marginal_effects(at={"height": 171.3, "weight": 66.1}).table
    np.testing.assert_allclose(table["estimate"], there["estimate"], rtol=OTHER_STEP)
    np.testing.assert_allclose(table["std_error"], there["std_error"], rtol=OTHER_STEP)
    assert (table["estimate"].abs() > 1e-4).all()


def test_a_column_keeps_its_kind_where_new_rows_hold_only_ones(fit: ss.FitResult) -> None:
    new = pd.DataFrame({"x": [1.0, 1.0], "d": [0, 1]})
    assert set(fit.marginal_effects("x", new).table["change"]) == {"dy/dx"}


def test_marginal_effects_do_not_depend_on_rows_of_weight_zero() -> None:
    table = ss.simulators.village(400, seed=2).data
    table["w"] = (np.arange(400) % 4 > 0).astype(float)
    counted = ss.fit("income ~ height", table[table["w"] > 0], chosen="job")
    table.loc[table["w"] == 0, "height"] = 1e6
    weighted = ss.fit("income ~ height", table, chosen="job", weights="w", weights_kind="frequency")
    np.testing.assert_allclose(
        weighted.marginal_effects().table["estimate"],
        counted.marginal_effects().table["estimate"],
        rtol=SAME,
    )


@pytest.mark.parametrize("options", [{}, {"covariance": "robust"}], ids=["observed", "robust"])
def test_marginal_effects_through_a_logarithm_are_exact_where_tails_are_heavy(
    options: dict[str, Any],
) -> None:
    """Steps by standard deviations are far larger than the small values of such a column."""
    rng = np.random.default_rng([8, 2])
    table = pd.DataFrame({"wealth": np.exp(2.5 * rng.standard_normal(600))})
    slopes = np.array([0.3, -0.2])
    latent = np.log(table[["wealth"]].to_numpy()) * slopes + rng.standard_normal((600, 2))
    table["pay"], table["job"] = latent.max(axis=1), np.where(latent.argmax(axis=1), "b", "a")
    fit = ss.fit("pay ~ np.log(wealth)", table, chosen="job", **options)
    means, spread = fit.predict().to_numpy(), float(np.hypot(*fit.scales))
    slope = fit.params["a", "np.log(wealth)"] - fit.params["b", "np.log(wealth)"]
    density = stats.norm.pdf(means[:, 0] - means[:, 1], scale=spread)
    each = density * slope / table["wealth"]
    found = fit.marginal_effects("wealth", covariates="sampled").table.set_index("alternative")
    assert found.loc["a", "estimate"] == pytest.approx(each.mean(), rel=DERIVATIVE)
    # Errors are at least those of a mean over rows.
    assert found.loc["a", "std_error"] >= 0.9 * each.std() / np.sqrt(600)


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_saved_fit_knows_the_categories_that_new_rows_lack(
    curved: ss.FitResult, world: Any, tmp_path: Any, kind: str
) -> None:
    curved.save(tmp_path / "fit.json")
    new = world.data[world.data["town"] == "north"]
    expected = curved.marginal_effects("town", new).table
    if kind == "category":
        new = new.assign(town=new["town"].astype("category"))
    found = ss.load(tmp_path / "fit.json").marginal_effects("town", new).table
    assert found["change"].unique().tolist() == ["north - east", "west - east"]
    np.testing.assert_allclose(found["estimate"], expected["estimate"], rtol=SAME)


def test_one_category_of_a_saved_fit_that_knows_no_others_is_refused(
    world: Any, tmp_path: Any
) -> None:
    fit = ss.fit("outcome ~ x + C(town == 'east')", world.data, chosen="chosen")
    fit.save(tmp_path / "fit.json")
    new = world.data[world.data["town"] == "north"]
    with pytest.raises(DataError, match="one category of each column"):
        ss.load(tmp_path / "fit.json").marginal_effects("town", new)


def test_means_are_over_one_population_where_some_rows_lack_a_column() -> None:
    rng = np.random.default_rng(1)
    z, x = rng.normal(size=600), rng.normal(size=600)
    works = z + x + rng.normal(size=600) > 0
    wage = np.where(works, 1.0 + x + rng.normal(size=600), np.nan)
    data = pd.DataFrame({"z": z, "x": np.where(works, x, np.nan), "works": works, "wage": wage})
    fit = ss.sample_selection("wage ~ x", "works ~ z", data)
    found = fit.potential_outcomes(at="means")
    means = {"z": z[works].mean(), "x": x[works].mean()}
    same = fit.potential_outcomes(at=means)
    np.testing.assert_allclose(found.table["estimate"], same.table["estimate"], rtol=1e-9)
    assert f"means over the {works.sum()} rows that have all of them" in found.notes[0]
    # What is given need not be there.
    given = fit.potential_outcomes(at={"x": 0.5})
    same = fit.potential_outcomes(at={"x": 0.5, "z": z.mean()})
    np.testing.assert_allclose(given.table["estimate"], same.table["estimate"], rtol=1e-9)
    assert "over the" not in given.notes[0]


def test_columns_that_no_row_has_together_have_no_means() -> None:
    villagers = ss.simulators.village(300, seed=1).data
    hunts = villagers["job"] == "hunting"
    data = villagers.assign(a=villagers["height"].where(hunts), b=villagers["weight"].where(~hunts))
    fit = ss.switching({"hunting": "income ~ a", "fishing": "income ~ b"},
                       "job ~ height + weight", data)  # fmt: skip
    with pytest.raises(DataError, match=r"No row has all of .*a, b.* Give values for those"):
        fit.choice_probabilities(at="means")
    assert len(fit.choice_probabilities(at={"a": 170.0, "b": 65.0}).table) == 2

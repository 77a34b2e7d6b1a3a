"""What a multinomial switching regression says: effects, predictions, tables, refusals."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import selfselect as ss
from selfselect.errors import FormulaError, OptionError, UnsupportedError
from selfselect.multinomial.corrections import CORRECTIONS
from selfselect.report.explain import in_words
from selfselect.report.write import compose

from .conftest import made

OUTCOMES, CHOICE = "y ~ x", "job ~ x + z1 + z2"


def fitted(table: pd.DataFrame, **options: Any) -> ss.MultinomialResult:
    return ss.multinomial_switching(OUTCOMES, CHOICE, table, **options)


@pytest.mark.parametrize("correction", ["dmf0", "dmf1", "dmf2"])
def test_effects_are_those_of_simulated_choices(correction: str, table: pd.DataFrame) -> None:
    result = fitted(table, correction=correction)
    rng = np.random.default_rng(5)
    z = np.column_stack([np.ones(len(table)), table[["x", "z1", "z2"]]])
    utility = np.column_stack(
        [np.zeros(len(table)), *(z @ result.params[f"choice of {m}"].to_numpy() for m in "bc")]
    )
    noise = rng.gumbel(size=(600, len(table), 3))
    chosen = (utility + noise).argmax(axis=2)
    centred = noise - np.euler_gamma
    if correction == "dmf2":
        centred = ndtri(np.exp(-np.exp(-noise)))
    latent = {}
    for j, label in enumerate("ab"):
        own = result.params[label].to_numpy()
        mix = own[2:]
        if correction == "dmf0":
            mix = np.insert(mix, j, -mix.sum())
        latent[label] = own[0] + own[1] * table["x"].to_numpy() + centred @ mix
    gain = latent["b"] - latent["a"]
    groups = (np.ones_like(chosen, dtype=bool), chosen == 1, chosen != 1)
    effects = result.treatment_effects("b", "a").table
    # 540,000 draws of gains with a spread of about one.
    np.testing.assert_allclose(
        effects["estimate"], [gain[group].mean() for group in groups], atol=0.01
    )
    means = result.potential_outcomes().table.set_index(["group", "alternative"])["estimate"]
    assert means["b", "a"] == pytest.approx(latent["a"][chosen == 1].mean(), abs=0.01)


def test_effects_on_parts_add_up(dmf1: ss.MultinomialResult) -> None:
    ate, att, atu = dmf1.treatment_effects("b", "a").table["estimate"]
    share = dmf1.predict(kind="chance")["b"].mean()
    assert ate == pytest.approx(share * att + (1 - share) * atu, rel=1e-12)
    # A logit with a constant predicts the shares that were chosen.
    assert share == pytest.approx(dmf1.facts.counts[1] / 900, abs=1e-7)


def test_errors_of_effects_agree_with_the_spread_over_samples() -> None:
    tables = [made(700, seed) for seed in range(100, 150)]
    found = [fitted(one).treatment_effects("b", "a").table for one in tables]
    spread = np.std([one["estimate"] for one in found], axis=0)
    errors = np.mean([one["std_error"] for one in found], axis=0)
    # The spread of 50 samples errs by 10%.
    np.testing.assert_allclose(errors, spread, rtol=0.35)


def test_effects_after_a_bootstrap_and_of_given_rows_have_errors(table: pd.DataFrame) -> None:
    result = fitted(table, covariance=ss.inference.Bootstrap(60))
    robust = fitted(table)
    for data in (None, table[:200]):
        one, other = (fit.treatment_effects("b", "a", data).table for fit in (result, robust))
        np.testing.assert_allclose(one["estimate"], other["estimate"], rtol=1e-12)
        np.testing.assert_allclose(one["std_error"], other["std_error"], rtol=0.5)
    fixed = robust.treatment_effects("b", "a", covariates="fixed").table
    row = robust.lincom("b:Intercept - a:Intercept").table.iloc[0]
    assert fixed["std_error"][0] > 0.5 * row["std_error"]


def test_what_a_correction_does_not_identify_is_refused(table: pd.DataFrame) -> None:
    lee, dahl = (fitted(table, correction=word) for word in ("lee", "dahl"))
    effects = lee.treatment_effects("b", "a")
    assert effects.table["effect"].tolist() == ["ATE"]
    assert "There is no ATT or ATU: Lee's correction" in " ".join(str(effects).split())
    assert lee.potential_outcomes().table["group"].unique().tolist() == ["everyone"]
    with pytest.raises(UnsupportedError, match="where another alternative is chosen"):
        lee.predict(kind="given_seen")
    for ask in (
        lambda: dahl.treatment_effects("b", "a"),
        dahl.potential_outcomes,
        lambda: dahl.predict(kind="latent"),
    ):
        with pytest.raises(UnsupportedError, match="levels, are not identified"):
            ask()
    assert np.isnan(dahl.compare().table["corrected"]["a", "Intercept"])


def test_levels_of_a_logged_outcome_are_refused(table: pd.DataFrame) -> None:
    fit = fitted(table)
    for ask in (
        partial(fit.treatment_effects, "b", "a"),
        fit.potential_outcomes,
        fit.predict,
    ):
        with pytest.raises(UnsupportedError, match="whole distribution of the noise"):
            ask(scale="level")
        with pytest.raises(OptionError, match="Use one of model, level"):
            ask(scale="log")


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_the_observed_outcome_is_predicted_by_all(correction: str, table: pd.DataFrame) -> None:
    result = fitted(table, correction=correction)
    predicted = result.predict(kind="outcome")
    # Least squares leaves nothing over on average, by alternative; chances add the rest.
    assert predicted.mean() == pytest.approx(table["y"].mean(), abs=0.03)
    made = result.predict(table[:3], kind="outcome", level=0.95)
    np.testing.assert_allclose(made["estimate"], predicted[:3], rtol=1e-12)
    assert (made["std_error"] > 0).all()


def test_predictions_have_the_errors_of_draws(
    dmf1: ss.MultinomialResult, table: pd.DataFrame
) -> None:
    from selfselect.multinomial.two_steps import expect

    rows = dmf1.coding.code(table[:3], with_known=True).rows
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(dmf1.values, dmf1.covariance.matrix, size=1_000)
    found = [expect(dmf1.model, draw, rows) for draw in draws]
    chances = dmf1.predict(table[:3], kind="chance", level=0.95)
    errors = chances.xs("std_error", level="quantity", axis=1)
    # The spread of 1,000 draws errs by 2%.
    np.testing.assert_allclose(errors, np.std([one.chance for one in found], axis=0), rtol=0.12)
    given = dmf1.predict(table[:3], kind="given_seen", level=0.95)
    errors = given.xs("std_error", level="quantity", axis=1).to_numpy().reshape(3, 3, 3)
    np.testing.assert_allclose(errors, np.std([one.given for one in found], axis=0), rtol=0.12)


def test_the_corrections_are_tested(table: pd.DataFrame, dmf1: ss.MultinomialResult) -> None:
    assert dmf1.selection_test().rejects() and dmf1.selection_test().df == 9
    assert dmf1.selection_test("b").df == 3
    rng = np.random.default_rng(3)
    shuffled = table.assign(y=table["x"] + rng.standard_normal(len(table)))
    assert not fitted(shuffled).selection_test().rejects()
    with pytest.raises(OptionError, match="There is no alternative 'd'"):
        dmf1.selection_test("d")


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_least_squares_beside_estimates_has_the_unit_of_covariates(
    table: pd.DataFrame, unit: float
) -> None:
    here, there = (fitted(one).compare().table for one in (table, table.assign(x=unit * table.x)))
    terms = here.index.get_level_values("term")
    for column in ("naive", "naive_se"):
        size = np.where(terms == "x", unit, 1.0)
        np.testing.assert_allclose(there[column] * size, here[column], rtol=1e-6)


@pytest.mark.parametrize("weights", [1, 3])
def test_least_squares_beside_estimates_counts_repeated_rows(
    table: pd.DataFrame, weights: int
) -> None:
    few = table.iloc[:400].assign(n=np.where(np.arange(400) % 3, 1, weights))
    weighted = fitted(few, weights="n", weights_kind="frequency").compare().table
    repeated = fitted(few.loc[few.index.repeat(few["n"])]).compare().table
    for column in ("naive", "naive_se"):
        np.testing.assert_allclose(weighted[column], repeated[column], rtol=1e-8)


def test_estimates_stand_beside_least_squares_and_the_roy_model(
    dmf1: ss.MultinomialResult, table: pd.DataFrame
) -> None:
    roy = ss.fit(OUTCOMES, table, chosen="job")
    compared = dmf1.compare(roy).table
    own = table[table["job"] == "b"]
    x = np.column_stack([np.ones(len(own)), own["x"]])
    b = np.linalg.lstsq(x, own["y"], rcond=None)[0]
    np.testing.assert_allclose(compared["naive"]["b"], b, rtol=1e-9)
    np.testing.assert_allclose(compared["corrected"]["b"], dmf1.params["b"][:2], rtol=1e-12)
    np.testing.assert_allclose(compared["roy"]["b"], roy.params["b"][:2], rtol=1e-12)
    assert compared["roy_se"].notna().all()
    moved = dmf1.params["b"][:2] - b
    np.testing.assert_allclose(compared["difference under the model"]["b"], moved, rtol=1e-9)
    with pytest.raises(OptionError, match="other rows"):
        dmf1.compare(ss.fit(OUTCOMES, table[:500], chosen="job"))
    with pytest.raises(OptionError, match=r"Give a fit of selfselect\.fit"):
        dmf1.compare(dmf1)  # type: ignore[arg-type]


def test_the_restriction_of_dubin_and_mcfadden_is_tested(
    dmf1: ss.MultinomialResult, table: pd.DataFrame
) -> None:
    sums = [" + ".join(f"{own}:correction: {other}" for other in "abc") + " = 0" for own in "abc"]
    found = dmf1.restriction_test()
    assert found.df == 3
    assert found.statistic == pytest.approx(dmf1.wald_test(sums).statistic, rel=1e-12)
    assert "add up to zero, as in dmf0" in " ".join(str(dmf1.summary()).split())
    # Of three outcomes the first has a sum of 0.2, the second of 0.5, the third of -0.3.
    assert fitted(made(40_000, 5)).restriction_test().rejects()
    with pytest.raises(UnsupportedError, match="correction='dmf1'"):
        fitted(table, correction="lee").restriction_test()


@pytest.mark.parametrize(
    ("correction", "words"),
    [
        ("dmf0", "add up to zero, which the data may contradict"),
        ("dmf1", "linear in those noises plus noise"),
        ("dmf2", "those noises turned normal"),
        ("lee", "a strong assumption"),
        ("dahl", "constants of outcomes are not identified"),
    ],
)
def test_the_summary_says_what_is_assumed(correction: str, words: str, table: pd.DataFrame) -> None:
    text = " ".join(str(fitted(table, correction=correction).summary()).split())
    assert words in text
    assert "Strength of the covariates that only the choice has (z1, z2): chi2(4) =" in text
    assert "The choice is assumed to be a logit" in text and "This is not tested" in text


def test_it_has_what_every_result_has(dmf1: ss.MultinomialResult) -> None:
    made = dmf1.nlcom("b:x / a:x", "exp(choice of b:z1)").table
    assert (made["std_error"] > 0).all()
    assert dmf1.wald_test("a:x = b:x, b:x = c:x").rejects()
    assert r"\begin{tabular}{lrrrrr}" in dmf1.to_latex()
    header = dmf1.side_by_side().blocks[0].header
    assert header == ("", "a", "b", "c", "choice of b", "choice of c")
    assert "***" in str(dmf1.summary(stars=True))
    assert dmf1.tidy().shape == (len(dmf1.names), 8)
    assert "dmf1" in repr(dmf1) and "<table" in dmf1._repr_html_()
    assert "multinomial_switching" in str(dmf1.call)
    with pytest.raises(UnsupportedError, match="do not maximise a likelihood"):
        dmf1.conf_int(method="profile")
    with pytest.raises(UnsupportedError, match="no profile intervals"):
        dmf1.summary(intervals="profile")
    for ask in (lambda: dmf1.treatment_effects("a", "a"), lambda: dmf1.predict(kind="mean")):
        with pytest.raises(OptionError):
            ask()


def test_a_covariate_whose_name_begins_like_a_correction_is_not_tested_with_them(
    table: pd.DataFrame, dmf1: ss.MultinomialResult
) -> None:
    renamed = table.rename(columns={"x": "correction_rate"})
    found = ss.multinomial_switching(
        "y ~ correction_rate", "job ~ correction_rate + z1 + z2", renamed
    )
    for own, other in (
        (found.selection_test(), dmf1.selection_test()),
        (found.selection_test("b"), dmf1.selection_test("b")),
        (found.restriction_test(), dmf1.restriction_test()),
    ):
        assert own.df == other.df
        assert own.statistic == pytest.approx(other.statistic, rel=1e-9)


def test_the_page_says_that_an_outcome_has_two_values(table: pd.DataFrame) -> None:
    said = "The outcome y has two values, 0 and 1: this is a linear model of it."
    two = ss.multinomial_switching(
        "y ~ x", "job ~ x + z1 + z2", table.assign(y=1.0 * (table["y"] > 1))
    )
    assert said in two.summary().notes


def test_the_outcome_is_refused_as_its_own_covariate(table: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match="hold the outcome 'y' itself"):
        ss.multinomial_switching("y ~ x + I(y**2)", "job ~ x + z1 + z2", table)


def test_its_explanation_says_effects_assumptions_and_what_was_not_tested(
    dmf1: ss.MultinomialResult,
) -> None:
    found = dmf1.explain()
    said = " ".join(found.sentences)
    assert found.alarms == ()
    for to, versus in (("c", "b"), ("b", "a"), ("c", "a")):
        assert f"{to} instead of {versus}: " in said
        for row in dmf1.treatment_effects(to, versus).table.to_dict("records"):
            assert in_words(row, 0.95) in found.answers[0]
    assert "Effect of job on mean y (standard errors: robust (sandwich), over both steps)" in said
    assert "independent of the outcomes' noise is rejected (p <0.001)" in said
    assert "multinomial logit of job ~ x + z1 + z2" in said
    assert dmf1.model.correction.assumption in said
    assert "Not tested: the logit, the form of the means, and the correction (dmf1)" in said
    assert "by functional form" not in said


def test_its_explanation_warns_of_a_choice_that_hardly_anything_else_moves(
    table: pd.DataFrame,
) -> None:
    noise = np.random.default_rng(8).standard_normal(len(table))
    weak = ss.multinomial_switching("y ~ x", "job ~ x + z", table.assign(z=noise))
    collinear, exclusion = weak.explain().alarms
    assert collinear.startswith("NEARLY COLLINEAR: ")
    assert exclusion.startswith("WEAK EXCLUSION: the covariates that only the choice has (z)")
    assert "while the warnings about this fit stand" in str(weak.explain().answers)
    alone = ss.multinomial_switching("y ~ x + z1 + z2", "job ~ x + z1 + z2", table)
    assert "Outcomes of a, b and c are identified by functional form alone" in str(
        alone.explain().answers
    )


def test_what_a_correction_leaves_open_is_left_out_of_its_explanation(table: pd.DataFrame) -> None:
    lee = fitted(table, correction="lee").explain().answers[0]
    assert "(ATE, the average treatment effect)" in lee and "ATT" not in lee
    dahl = fitted(table, correction="dahl").explain().answers
    assert dahl[0].startswith("Effects are not available: Dahl")
    assert "polynomial" in dahl[-1]


def test_a_loaded_fit_is_explained_for_given_rows(
    table: pd.DataFrame, dmf1: ss.MultinomialResult, tmp_path: Path
) -> None:
    dmf1.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert "result.explain(rows)" in loaded.explain().answers[0]
    row = loaded.treatment_effects("c", "b", table).table.iloc[0]
    assert in_words(row, 0.95) in loaded.explain(table).answers[0]


def test_its_report_begins_with_the_answer_and_compares_the_same_pairs(
    dmf1: ss.MultinomialResult,
) -> None:
    document = compose(dmf1, 0.95, None)
    assert document.answer == dmf1.explain().answers
    (effects,) = [one for one in document.sections if one.title == "Effects"]
    titles = [getattr(part, "title", "") for part in effects.parts]
    for to, versus in (("c", "b"), ("b", "a"), ("c", "a")):
        assert f"Effect of {to} instead of {versus} on y" in titles
    assert "Effect of a instead of b on y" not in titles


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("plot", "treatment_effects"),
        ("simulate", "predict"),
        ("explore", "predict"),
        ("counterfactual", "selfselect.fit"),
        ("choice_probabilities", "kind='chance'"),
    ],
)
def test_methods_of_other_results_are_refused_in_a_sentence(
    dmf1: ss.MultinomialResult, name: str, instead: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"has no {name}: its two steps") as refused:
        getattr(dmf1, name)
    assert instead in str(refused.value)
    assert not hasattr(dmf1, name)
    with pytest.raises(AttributeError, match="no attribute 'sumary'"):
        dmf1.sumary  # noqa: B018

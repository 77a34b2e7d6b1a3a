"""Several noises of one model, compared."""

from __future__ import annotations

import dataclasses
from functools import wraps

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.trust import noises as noise_choice

CHEAP = {
    "normal": ss.noises.Independent(),
    "logistic": ss.noises.Independent(shape="logistic"),
    "moving scale": ss.noises.Independent(scale="~ x"),
    "correlated": ss.noises.Correlated(),
}


@pytest.fixture
def fitted(monkeypatch):
    """Return a list that has an entry for every fit of a choice."""
    found = []

    @wraps(ss.fit)
    def counted(*args, **options):
        found.append(1)
        return ss.fit(*args, **options)

    monkeypatch.setattr(noise_choice, "fit", counted)
    return found


def draw(truth, n_rows=3_000, seed=0):
    """Draw the larger of two outcomes with noise of a kind."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n_rows))
    noise = rng.normal(size=(n_rows, 2))
    if truth == "logistic":
        noise = rng.logistic(size=(n_rows, 2)) * 0.6
    if truth == "moving scale":
        noise *= np.exp(0.5 * x)[:, None]
    if truth == "correlated":
        noise[:, 1] = 0.7 * noise[:, 0] + np.sqrt(1 - 0.49) * noise[:, 1]
    latent = np.column_stack([1.0 + 0.8 * x + 0.9 * z, 0.5 - 0.6 * x]) + noise
    chosen = latent.argmax(axis=1)
    outcome = latent[np.arange(n_rows), chosen]
    return pd.DataFrame({"x": x, "z": z, "y": outcome, "j": np.array(["a", "b"])[chosen]})


FORMULA = {"a": "y ~ x + z", "b": "y ~ x"}


@pytest.mark.parametrize("truth", list(CHEAP))
def test_the_noise_that_made_the_data_is_chosen(truth):
    found = ss.choose_noise(
        FORMULA, draw(truth, 4_000), chosen="j", candidates=CHEAP, answers="a:x", progress=False
    )
    assert found.best == truth
    assert found.result is found.fits[truth]
    assert found.table.index[0] == truth
    estimate, error = found.table.loc[truth, ["a:x", "std_error of a:x"]]
    assert abs(estimate - 0.8) < 4.0 * error


def test_answers_are_those_of_each_fit_and_the_page_says_what_they_depend_on():
    data = draw("moving scale")
    found = ss.choose_noise(
        FORMULA, data, chosen="j", candidates=CHEAP, answers=["a:x", "a:x - b:x"],
        effect=("a", "b"), progress=False,
    )  # fmt: skip
    for name, fit in found.fits.items():
        assert found.table.loc[name, "a:x"] == fit.params[("a", "x")]
        wanted = fit.params[("a", "x")] - fit.params[("b", "x")]
        assert found.table.loc[name, "a:x - b:x"] == pytest.approx(wanted)
        gap = fit.treatment_effects("a", "b").table.iloc[0]
        assert found.table.loc[name, "average effect of a over b"] == gap["estimate"]
        assert found.table.loc[name, "bic"] == fit.bic
    page = str(found)
    assert "The smallest BIC has 'moving scale'." in page
    assert "The noise moves it by up to" in page
    assert "constant variance" in found.table.loc["normal", "rejected"]
    assert str(found) == page
    assert "moving scale" in found._repr_html_()


def test_functions_of_a_fit_are_answers_too():
    found = ss.choose_noise(
        FORMULA, draw("normal", 500), chosen="j", candidates={"normal": "independent"},
        answers={"scale of a": lambda fit: fit.scales["a"], "two": lambda _: (2.0, 0.5)},
    )  # fmt: skip
    assert found.table.loc["normal", "scale of a"] == found.result.scales["a"]
    assert np.isnan(found.table.loc["normal", "std_error of scale of a"])
    assert tuple(found.table.loc["normal", ["two", "std_error of two"]]) == (2.0, 0.5)


def test_a_noise_that_does_not_suit_the_model_is_named_and_passed_over():
    data = draw("normal", 500)
    found = ss.choose_noise(
        FORMULA, data, chosen="j",
        candidates={"normal": "independent", "odd": ss.noises.Independent(scale="~ nothing")},
    )  # fmt: skip
    assert found.best == "normal"
    assert "odd" not in found.fits
    assert "nothing" in found.table.loc["odd", "note"]
    assert "nothing" in str(found)


def test_the_default_candidates_suit_one_formula_and_several():
    data = draw("normal", 800)
    for formula in ("y ~ x + z", FORMULA):
        found = ss.choose_noise(formula, data, chosen="j", progress=False)
        assert {"normal", "moving scale", "mixture of two", "correlated"} <= set(found.table.index)
        assert found.table["bic"].dropna().is_monotonic_increasing
        (normal,) = (line for line in str(found).splitlines() if line.startswith("normal"))
        assert normal.split()[2] == str(found.fits["normal"].n_parameters)


def test_noise_that_comes_out_as_a_simpler_candidate_is_named_and_counts_once():
    data = draw("normal", 800).drop(columns="j")
    mixture = ss.noises.Mixture("bic", scale="common")
    tried = {"normal": ss.noises.Independent("common"), "mixture": mixture}
    found = ss.choose_noise(
        FORMULA, data, candidates=tried, answers="a:x", seed=0, progress=False
    )  # fmt: skip
    assert found.fits["mixture"].n_parameters == found.fits["normal"].n_parameters
    assert found.best == "normal" and found.rivals == ["normal"]
    assert list(found.table.index) == ["normal", "mixture"]
    assert list(found.table["same_as"]) == ["", "normal"]
    assert "the fit of 'normal'" in str(found) and "Within 10 of it" not in str(found)


def test_where_alternatives_have_no_names_or_share_everything_the_scale_is_common_as_in_a_fit():
    data = draw("normal", 400)
    normal = {"chosen": None, "alternatives": None, "shared": None}
    for given in ({}, {"chosen": "j", "shared": "all"}):
        formula = {"a": "y ~ x + z", "b": "y ~ x"} if not given else "y ~ x + z"
        fit = ss.fit(formula, data, seed=0, **given)
        found = ss.choose_noise(formula, data, seed=0, progress=False, **{**normal, **given})
        assert found.fits["normal"].problem.noise == fit.problem.noise
        # With an unknown index two components are too few, so their number is chosen.
        assert ("mixture" if not given else "mixture of two") in found.table.index
        assert found.table.loc["normal", "loglik"] == pytest.approx(fit.llf)
        assert found.fits["logistic"].n_parameters == fit.n_parameters


def test_a_noise_under_which_nothing_is_rejected_is_not_said_to_be_wrong():
    data = draw("correlated")
    some = {"normal": "independent", "correlated": "correlated"}
    found = ss.choose_noise(
        FORMULA, data, chosen="j", candidates=some, answers={"a": lambda _: 1.0}
    )
    assert found.table.loc["normal", "rejected"] and not found.table.loc["correlated", "rejected"]
    of_worse = dataclasses.replace(found, best="normal").sentences()
    said = " ".join(of_worse)
    assert "Nothing is rejected under 'correlated'." in said and "none of these noises" not in said
    assert "a: 1.0000 under the best noise" in said  # It has no standard error.
    alone = dataclasses.replace(found, best="normal", table=found.table.loc[["normal"]])
    assert "none of these noises describes the data" in " ".join(alone.sentences())


def test_bad_input_is_refused():
    data = draw("normal", 300)
    with pytest.raises(OptionError, match="Name at least one"):
        ss.choose_noise(FORMULA, data, chosen="j", candidates={})
    with pytest.raises(DataError, match="no column 'k'"):
        ss.choose_noise(FORMULA, data, chosen="k")
    with pytest.raises(OptionError, match="converged"):
        ss.choose_noise(
            FORMULA, data, chosen="j", candidates={"odd": ss.noises.Independent(scale="~ nothing")}
        )


def test_a_rejection_that_matters_ends_with_what_to_try():
    said = ss.fit(FORMULA, draw("moving scale"), chosen="j").rejections()
    assert "NEXT: selfselect.choose_noise()" in said[-1]
    assert "logarithm" not in said[-1]
    positive = draw("moving scale").assign(y=lambda table: np.exp(table["y"]))
    skewed = ss.fit(FORMULA, positive, chosen="j").rejections()
    assert "positive and skewed, so fit its logarithm first" in skewed[-1]
    assert not ss.fit(FORMULA, draw("normal"), chosen="j").rejections()


def test_a_rule_that_half_of_the_choices_ignore_is_doubted_and_switching_is_named():
    data = draw("normal", 2_000)
    rng = np.random.default_rng(3)
    x, z = data["x"], data["z"]
    latent = np.column_stack([1.0 + 0.8 * x + 0.9 * z, 0.5 - 0.6 * x])
    latent += rng.normal(size=latent.shape)
    at_random = rng.random(len(x)) < 0.5
    chosen = np.where(at_random, rng.integers(0, 2, len(x)), latent.argmax(axis=1))
    data = data.assign(y=latent[np.arange(len(x)), chosen], j=np.array(["a", "b"])[chosen])
    fit = ss.fit(FORMULA, data, chosen="j")
    said = fit.rejections()
    assert "The rule itself may be wrong" in said[-1]
    assert "stays in doubt under other noise models. If it does, switching() lets" in said[-1]
    assert "Try " not in " ".join(said)
    found = ss.choose_noise(FORMULA, data, chosen="j", candidates=CHEAP, progress=False)
    assert found.rule_in_doubt
    assert "The rule itself may be wrong: switching() lets choices" in str(found).replace(
        "\n  ", " "
    )

    def error(params):
        truth = {("a", "x"): 0.8, ("a", "z"): 0.9, ("b", "x"): -0.6}
        return float(
            np.sqrt(np.mean([(params[name] - value) ** 2 for name, value in truth.items()]))
        )

    switching = ss.switching(FORMULA, "j ~ x + z", data)
    assert error(switching.params) < error(fit.params)


def test_a_moving_scale_may_raise_doubts_of_the_rule_that_the_best_noise_ends():
    found = ss.choose_noise(FORMULA, draw("moving scale"), chosen="j", progress=False)
    assert found.best.startswith("moving scale")
    assert not found.rule_in_doubt


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"candidates": ["independent"]}, "must be noises by name"),
        ({"candidates": {"odd": "nope"}}, "is not a noise"),
        ({"effect": ("b",)}, "must be two alternatives"),
        ({"effect": "ab"}, "must be two alternatives"),
        ({"answers": 5}, "must be expressions of parameters"),
        ({"answers": {"a": 5}}, "must be a function of a fit"),
        ({"answers": {"bic": len}}, "cannot be called 'bic'"),
        ({"answers": {"noise": len}}, "cannot be called 'noise'"),
        ({"answers": {"q": len, "std_error of q": len}}, "cannot be called 'std_error of q'"),
        ({"answers": {"q": lambda fit: fit.params}}, "'q' is Series, and must be a number"),
        ({"answers": {"q": lambda _: (1, 2, 3)}}, "'q' is tuple, and must be a number"),
        ({"candidates": {1: "independent", "1": "correlated"}}, "have the same name"),
        ({"answers": "nope"}, "'nope' is no parameter"),
        ({"effect": ("b", "zz")}, "no alternative 'zz'"),
        ({"answers": "a:x *", "candidates": CHEAP}, "cannot be read"),
    ],
)
def test_options_are_checked_before_the_second_fit(asked, words, fitted):
    given = {"formula": FORMULA, "data": draw("normal", 300), "chosen": "j"} | asked
    with pytest.raises(OptionError, match=words):
        ss.choose_noise(**given)
    assert len(fitted) <= 1


def test_an_answer_that_only_another_noise_has_is_kept():
    data = draw("correlated", 300)
    candidates = {"normal": "independent", "correlated": "correlated"}
    found = ss.choose_noise(
        FORMULA, data, chosen="j", answers="a & b:correlation", candidates=candidates
    )
    known = found.table["a & b:correlation"].notna()
    assert known["correlated"] and not known["normal"]


def test_an_effect_over_rows_of_a_file_is_refused_after_the_first_fit(tmp_path, fitted):
    draw("normal", 300).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(UnsupportedError, match="never all in memory"):
        ss.choose_noise(FORMULA, tmp_path / "rows.csv", chosen="j", effect=("a", "b"))
    assert len(fitted) == 1


def test_alternatives_without_names_are_numbered_as_in_the_best_fit():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1_500)
    a = 0.3 + x + 0.5 * rng.normal(size=1_500)
    b = 0.2 - 0.3 * x + 0.5 * rng.normal(size=1_500)
    data = pd.DataFrame({"x": x, "y": np.maximum(a, b)})
    noises = {name: CHEAP[name] for name in ("logistic", "normal", "moving scale")}
    alone = ss.fit("y ~ x", data, alternatives=2, seed=0, noise=noises["logistic"])
    found = ss.choose_noise(
        "y ~ x", data, alternatives=2, seed=0, answers="1:x - 2:x", candidates=noises
    )
    assert found.best == "normal"
    assert alone.params[1, "x"] < alone.params[2, "x"]
    assert found.table["1:x - 2:x"].between(1.2, 1.4).all()  # the truth is 1.3
    error = alone.nlcom("1:x - 2:x").table["std_error"].iloc[0]
    assert found.table.loc["logistic", "std_error of 1:x - 2:x"] == pytest.approx(error)
    assert found.fits["logistic"].params[2, "x"] == alone.params[1, "x"]

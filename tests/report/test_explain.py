"""A fit in words: the numbers of its tables, no more certain than they are."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.report.explain import in_words

N = 400


@pytest.fixture(scope="module")
def village():
    return ss.simulators.village(N, seed=2)


@pytest.fixture(scope="module")
def fit(village):
    return ss.fit(village.formula, village.data, chosen="job")


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=(N, 6))


def words(result, **options):
    return " ".join(result.explain(**options).sentences)


def effect(result, to, versus, which="ATE", **options):
    table = result.treatment_effects(to, versus, **options).table
    return table[table["effect"] == which].iloc[-1]


def two(numbers, shift=0.0):
    x, z, _, _, e, f = numbers.T
    a, b = 1 + x + e, 0.5 - x + shift + f
    return pd.DataFrame(
        {"x": x, "z": z, "y": np.maximum(a, b), "job": np.where(a > b, "a", "b"),
         "person": np.arange(N) // 4, "weight": 1 + z**2}
    )  # fmt: skip


def test_known_index_says_the_effect_on_everyone_the_treated_and_the_untreated(fit):
    said = words(fit)
    for which in ("ATE", "ATT", "ATU"):
        row = effect(fit, "hunting", "fishing", which)
        assert in_words(row, 0.95) in said
        assert said.count(which) == 1
    assert "hunting instead of fishing" in said
    assert "Tested and not rejected: independence, normality and constant variance" in said
    assert "Not tested: the rule" in said
    assert 3 <= len(fit.explain().sentences) <= 5


def test_an_unknown_index_shows_its_alarm_first_with_what_to_try():
    sample = ss.simulators.village(800, seed=1)
    result = ss.fit(sample.formula, sample.data.drop(columns="job"), alternatives=2)
    found = result.explain()
    assert found.alarms[:4] == result.rejections() and "REJECTED: " in found.alarms[0]
    assert "choose_noise()" in found.alarms[3]
    assert found.sentences[0] == found.alarms[0]
    assert "do not interpret this as bias while the warnings about this fit" in words(result)
    # Reports show warnings after the answer, printed explanations before it.
    assert not re.search("warnings (above|below)", words(result))
    assert "2 instead of 1" in words(result)


def test_long_titles_are_wrapped_as_sentences_are(fit):
    page = replace(fit.explain().to_page(), title="what " * 40)
    assert max(map(len, page.to_text().splitlines())) <= 79


def test_a_logarithm_is_said_in_per_cent(village):
    table = village.data.assign(income=np.exp(village.data["income"] / 50))
    result = ss.fit("log(income) ~ height + weight", table, chosen="job")
    row = effect(result, "hunting", "fishing", scale="level")
    assert row["unit"] == "per cent"
    assert in_words(row, 0.95, "%") in words(result)
    assert "Effect of job on the mean of income" in words(result)


def test_costs_are_named_among_the_assumptions(numbers):
    table, z = two(numbers), numbers[:, 1]
    latent = np.column_stack([1 + numbers[:, 0] + numbers[:, 4], 0.5 + numbers[:, 5]])
    chosen = (latent[:, 1] - 0.5 * z > latent[:, 0]).astype(int)
    table = table.assign(y=latent[np.arange(N), chosen], job=np.array(["a", "b"])[chosen])
    result = ss.fit("y ~ x", table, chosen="job", cost={"b": "~ z"})
    assert "the largest, counting estimated costs" in words(result)


def test_correlated_noise_without_exclusions_is_said_to_rest_on_its_shape(numbers):
    table = two(numbers)
    alone = ss.fit("y ~ x", table, chosen="job", noise="correlated")
    assert "identified by its shape alone" in words(alone)
    excluded = ss.fit(
        {"a": "y ~ x", "b": "y ~ x + z"}, table, chosen="job", noise="correlated"
    )  # fmt: skip
    assert "identified by its shape alone" not in words(excluded)


@pytest.mark.parametrize(
    "noise",
    [ss.noises.Correlated(correlation=0.2), ss.noises.KnownCovariance([[1.0, 0.2], [0.2, 1.0]])],
)
def test_a_dependence_that_is_known_is_not_said_to_be_identified(numbers, noise):
    said = words(ss.fit("y ~ x", two(numbers), chosen="job", noise=noise))
    assert noise.name in said
    assert "identified" not in said


def test_a_rule_without_words_of_its_own_is_named(numbers):
    rule = ss.rules.LinearArgmax([[1.0, 0.3], [0.0, 1.0]])
    table = two(numbers)
    said = words(ss.fit("y ~ x", table, chosen="job", rule=rule))
    assert f"recorded outcome is the one that the rule selects ({rule.name})" in said


def test_a_fit_without_standard_errors_names_no_kind_of_them(numbers):
    x = numbers[:, :2]
    latent = np.column_stack([1 + 2 * x[:, 0], x[:, 1] - x[:, 0]]) + numbers[:, 2:4]
    table = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": latent.max(axis=1)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ss.fit(
            "y ~ 0 + x + z", table, alternatives=2, solver=ss.solvers.TwoModels(),
            noise=ss.noises.Independent(scale=1.0),
        )  # fmt: skip
        found = result.explain()
    assert "(no interval)" in found.answers[0]
    assert "standard errors" not in found.answers[0]
    assert any("NO STANDARD ERRORS" in one for one in found.alarms)


def selected(numbers):
    x, z, _, u, e, f = numbers.T
    chosen = 0.5 * x + z + u > 0
    return x, z, chosen, 1 + x + 0.6 * u + e, 0.5 - x + 0.3 * u + f


def test_sample_selection_compares_everyone_with_the_selected(numbers):
    x, z, chosen, y, _ = selected(numbers)
    table = pd.DataFrame({"x": x, "z": z, "s": chosen * 1, "y": np.where(chosen, y, np.nan)})
    result = ss.sample_selection("y ~ x", "s ~ x + z", table)
    every, own = result.potential_outcomes().table.to_dict("records")[:2]
    said = words(result)
    assert f"{in_words(every, 0.95, sign=False)} for everyone" in said
    assert f"{in_words(own, 0.95, sign=False)} for those selected" in said
    assert "correlation between the noise of the outcome and of the selection" in said
    assert "the form of the selection" in said


def test_sample_selection_of_a_logarithm_says_means_of_the_level_too(numbers):
    x, z, chosen, y, _ = selected(numbers)
    wage = np.where(chosen, np.exp(0.5 * y), np.nan)
    table = pd.DataFrame({"x": x, "z": z, "s": chosen * 1, "wage": wage})
    result = ss.sample_selection("log(wage) ~ x", "s ~ x + z", table)
    said = words(result)
    for scale, name in (("level", "wage"), ("model", "log(wage)")):
        rows = result.potential_outcomes(scale=scale).table.to_dict("records")[:2]
        every, own = (in_words(row, 0.95, sign=False) for row in rows)
        assert f"The mean of {name} is {every} for everyone and {own} for those" in said


def test_switching_says_where_a_sign_is_not_determined(numbers):
    x, z, chosen, one, other = selected(numbers)
    table = pd.DataFrame({"x": x, "z": z, "s": chosen * 1, "y": np.where(chosen, one, other)})
    result = ss.switching("y ~ x", "s ~ x + z", table)
    rows = result.treatment_effects(1, 0).table
    unknown = ((rows["conf_low"] < 0) & (rows["conf_high"] > 0)).sum()
    assert unknown > 0
    assert words(result).count("its sign is not determined") == unknown


def test_types_say_what_was_tested(numbers):
    table = two(numbers)
    result = ss.fit("y ~ x", table, chosen="job", noise=ss.noises.Types(2), panel="person", seed=1)
    assert "Tested and not rejected: normality and constant variance" in words(result)
    assert "clustered by person" in words(result)


def test_weights_and_clusters_are_in_the_standard_errors_that_are_named(numbers):
    result = ss.fit(
        "y ~ x", two(numbers), chosen="job", weights="weight", weights_kind="probability",
        cluster="person",
    )  # fmt: skip
    assert "clustered by person (100 clusters)" in words(result)
    assert in_words(effect(result, "b", "a"), 0.95) in words(result)


def test_a_ranked_rule_compares_every_pair(numbers):
    latent = np.column_stack([numbers[:, 0], 1 - numbers[:, 0], 0 * numbers[:, 0]]) + numbers[:, 3:]
    place = np.argsort(latent, axis=1)[:, 1]
    table = pd.DataFrame(
        {"x": numbers[:, 0], "y": latent[np.arange(N), place], "w": np.array(list("abc"))[place]}
    )[:200]
    said = words(ss.fit("y ~ x", table, chosen="w", rule=ss.rules.Ranked(2)))
    assert all(f"{to} instead of {versus}" in said for to, versus in ("ba", "ca", "cb"))
    assert "the one of rank 2 from the top" in said


def test_many_alternatives_say_how_many_pairs_are_left_out(numbers):
    latent = numbers[:, :1] * np.linspace(-1, 1, 5) + numbers[:, 1:]
    table = pd.DataFrame(
        {"x": numbers[:, 0], "y": latent.max(axis=1), "w": latent.argmax(axis=1).astype(str)}
    )
    said = words(ss.fit("y ~ x", table, chosen="w"))
    assert said.count(" instead of ") == 6
    assert all(said.count(effect) == 1 for effect in ("(ATE", "(ATT", "(ATU"))
    assert "the other 4 of 10 pairs are left out" in said


def test_a_rejected_model_is_said_before_its_answer():
    rng = np.random.default_rng(1)
    x, shared = rng.normal(size=2_000), rng.normal(size=2_000) * 3
    e = rng.normal(size=(2_000, 2))
    a, b = 1 + x + shared + e[:, 0], 0.5 - x + shared + e[:, 1]
    table = pd.DataFrame({"x": x, "y": np.maximum(a, b), "w": np.where(a > b, "a", "b")})
    result = ss.fit("y ~ x", table, chosen="w")
    found = result.explain()
    assert found.alarms[0].startswith("INDEPENDENCE REJECTED: score test, p <0.001.")
    assert "noise='correlated'" in found.alarms[0]
    said = " ".join(str(found).split())
    assert said.index("REJECTED") < said.index("b instead of a")
    assert not any("NOT CONVERGED" in one for one in found.sentences)


def test_a_fit_that_did_not_converge_says_so_first(village):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
        result = ss.fit(
            village.formula, village.data, chosen="job", solver=ss.solvers.Newton(max_steps=1)
        )
    assert result.explain().sentences[0].startswith("NOT CONVERGED")
    assert "do not interpret this as bias while the warnings about this fit" in words(result)
    # Reports show warnings after the answer, printed explanations before it.
    assert not re.search("warnings (above|below)", words(result))


def test_a_loaded_fit_needs_rows_for_effects_and_says_the_rest(fit, village, tmp_path):
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert "Give rows to say them: result.explain(rows)" in words(loaded)
    assert "This assumes" in words(loaded)
    given = words(loaded, data=village.data)
    assert in_words(effect(fit, "hunting", "fishing", data=village.data), 0.95) in given


def test_an_explanation_shows_itself_escaped(numbers):
    table = two(numbers)
    table["job"] = np.where(table["job"] == "a", "<b>a</b>", "b")
    found = ss.fit("y ~ x", table, chosen="job").explain()
    assert "<b>" not in found._repr_html_()
    assert "&lt;b&gt;a&lt;/b&gt;" in found._repr_html_()
    assert max(map(len, str(found).splitlines())) <= 80


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((-5.9246, -7.5554, -4.2938), "-5.9 (95% -7.6 to -4.3)"),
        ((12_345.0, 11_000.0, 13_690.0), "+12,300 (95% +11,000 to +13,700)"),
        ((0.001234, -0.001, 0.003), "+0.0012 (95% -0.0010 to +0.0030, so its sign is not"),
        ((-4.23, -99.56, 26_586.0), "-4.2 (95% -100 to +27,000, so its sign is not"),
        ((-99.96, -99.99, 430.0), "-100 (95% -100 to +430, so its sign is not"),
        ((1.5, np.nan, np.nan), "+1.50 (no interval)"),
        ((np.nan, np.nan, np.nan), "not known"),
    ],
)
def test_numbers_are_written_as_precisely_as_they_are_known(ends, said):
    row = dict(zip(("estimate", "conf_low", "conf_high"), ends, strict=True))
    assert in_words(row, 0.95).startswith(said)


def test_the_interval_in_words_is_never_narrower_than_its_rounding(fit):
    row = effect(fit, "hunting", "fishing")
    low, high = map(float, re.findall(r"[+-][\d.]+", in_words(row, 0.95))[1:])
    half = 0.05 * (row["conf_high"] - row["conf_low"])
    assert abs(low - row["conf_low"]) < half
    assert abs(high - row["conf_high"]) < half


def test_weights_that_given_rows_do_not_have_are_said_not_to_be_used(village):
    table = village.data.assign(w=np.linspace(0.5, 1.5, len(village.data)))
    result = ss.fit("income ~ height", table, chosen="job", weights="w", weights_kind="probability")
    assert "the weights w are not used" in words(result, data=table)
    assert "not used" not in words(result)
    assert r"\caption" in result.explain().to_page().to_latex()


def test_no_difference_is_called_bias_where_there_is_hardly_one():
    x, z, u, e = np.random.default_rng(3).standard_normal((4, 800))
    table = pd.DataFrame({"x": x, "z": z, "t": np.where(0.3 + 0.8 * z + u > 0, "in", "out")})
    table["y"] = np.where(table["t"] == "in", 1 + x, 0.3 - 0.4 * x) + 0.5 * e
    result = ss.switching("y ~ x", "t ~ x + z", table)
    assert "gives nearly the same coefficients" in words(result)

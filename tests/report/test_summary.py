"""The summary page: its assumptions, its warnings first, and safe in every format."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import MissingRowsWarning
from selfselect.inference.statistics import TestResult
from selfselect.report.page import format_number
from selfselect.report.page_parts import DEVIATION
from selfselect.report.summary import compare_page

WIDTH = 79


def words(page: object) -> str:
    return " ".join(str(page).split())


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    return ss.simulators.village(500, seed=4).data


@pytest.fixture(scope="module")
def result(villagers: pd.DataFrame) -> ss.FitResult:
    return ss.fit("income ~ height + weight", villagers, chosen="job")


@pytest.fixture(scope="module")
def dependent() -> ss.FitResult:
    """Return a fit of data whose noise is correlated across alternatives, against the model."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4_000, 2))
    latent = x + rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=4_000)
    table = pd.DataFrame({"y": latent.max(axis=1), "x1": x[:, 0], "x2": x[:, 1]})
    table["seen"] = np.where(latent[:, 0] > latent[:, 1], "a", "b")
    return ss.fit({"a": "y ~ x1", "b": "y ~ x2"}, table, chosen="seen")


def test_two_prints_are_identical(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    again = ss.fit("income ~ height + weight", villagers, chosen="job")
    assert str(result.summary()) == str(result.summary()) == str(again.summary())


def test_the_page_says_what_was_done_and_assumed(result: ss.FitResult) -> None:
    said = words(result.summary())
    for fact in (
        "Formula: income ~ height + weight",
        "Rule: the largest outcome is observed",
        "Noise: normal, independent across alternatives (assumed)",
        "Rows: 500",
        "Std errors: observed information",
        f"Log-likelihood: {result.llf:.4f}",
        f"hunting (chosen in {result.counts['hunting']} rows)",
        "Score test of independence across alternatives (null: no correlation)",
        "Identified by functional form: no covariate is excluded from any equation",
    ):
        assert fact in said
    assert result.summary().notices == ()
    assert max(map(len, str(result.summary()).splitlines())) <= WIDTH


def test_the_page_shows_every_number_of_the_table(result: ss.FitResult) -> None:
    said = str(result.summary())
    for row in result.tidy().itertuples():
        for number in (row.estimate, row.std_error, row.conf_low, row.conf_high):
            assert format_number(number) in said


def test_exclusions_are_listed_by_equation(villagers: pd.DataFrame) -> None:
    fit = ss.fit({"hunting": "income ~ height", "fishing": "income ~ weight"}, villagers,
                 chosen="job")  # fmt: skip
    said = words(fit.summary())
    assert "Excluded covariates: hunting without weight; fishing without height." in said
    assert "functional form" not in said
    assert "hunting (chosen in" in said and ": income ~ height" in said


def test_the_level_is_in_the_header(result: ss.FitResult) -> None:
    assert "[5%" in str(result.summary(0.9)) and "95%]" in str(result.summary(0.9))
    assert "[2.5%" in str(result.summary()) and "97.5%]" in str(result.summary())


def test_scales_that_are_shared_or_fixed_are_shown_so(villagers: pd.DataFrame) -> None:
    for scale, lines in (
        ("common", ["all alternatives", "one scale for all"]),
        ({"hunting": 14.0, "fishing": 9.0}, ["(fixed)", "14.0000", "9.0000", "scale fixed at"]),
    ):
        noise = ss.noises.Independent(scale)
        said = words(ss.fit("income ~ height", villagers, chosen="job", noise=noise).summary())
        assert all(line in said for line in lines)


def test_where_independence_is_rejected_that_is_said_first(dependent: ss.FitResult) -> None:
    assert dependent.independence_test().rejects()
    page = dependent.summary()
    assert page.notices[0].startswith("INDEPENDENCE REJECTED")
    assert page.notices[1].startswith("EFFECT ON SLOPES LARGE")
    assert "the difference from least squares must not be interpreted as bias" in page.notices[1]
    assert str(page).splitlines()[1].startswith("! INDEPENDENCE REJECTED")
    assert "must not be interpreted as bias" in words(compare_page(dependent))
    for text in (page.to_html(), page.to_markdown(), page.to_latex()):
        assert "must not be interpreted as bias" in text
    assert page.to_html().index("REJECTED") < page.to_html().index("<table>")
    assert page.to_markdown().index("REJECTED") < page.to_markdown().index("|")


def test_the_comparison_calls_its_last_column_a_difference_under_the_model(
    result: ss.FitResult,
) -> None:
    said = words(compare_page(result))
    assert "difference*" in said
    assert "* difference under the model: it is selection bias if the assumptions hold." in said


def test_robust_errors_come_with_what_they_cannot_repair(villagers: pd.DataFrame) -> None:
    fit = ss.fit("income ~ height", villagers, chosen="job", covariance="robust")
    assert "they do not repair estimates that misspecification makes inconsistent" in words(
        fit.summary()
    )


# formats

HOSTILE = ("<script>alert(1)</script>", "a_b & c% $x$ #1 {y} ~ ^ \\ | `z` *w*")


@pytest.fixture(scope="module")
def hostile(villagers: pd.DataFrame) -> ss.FitResult:
    labels = [HOSTILE[job == "hunting"] for job in villagers["job"]]
    table = villagers.rename(columns={"height": "<b>tall & |_%"}).assign(job=labels)
    return ss.fit("income ~ `<b>tall & |_%`", table, chosen="job")


def test_labels_are_escaped_in_html(hostile: ss.FitResult) -> None:
    for page in (hostile.summary(), compare_page(hostile)):
        text = page.to_html()
        assert "<script>" not in text and "<b>" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "&lt;b&gt;tall &amp; |_%" in text


def test_labels_are_escaped_in_latex(hostile: ss.FitResult) -> None:
    text = hostile.summary().to_latex()
    assert r"a\_b \& c\% \$x\$ \#1 \{y\}" in text
    assert r"\textless{}b\textgreater{}tall \& \textbar{}\_\%" in text
    rows = [line for line in text.splitlines() if line.startswith(r"\textless{}b")]
    # Seven cells in a row: a stray & would make an eighth.
    assert {line.replace(r"\&", "").count("&") for line in rows} == {6}
    assert text.count(r"\begin{") == text.count(r"\end{")


def test_labels_are_escaped_in_markdown(hostile: ss.FitResult) -> None:
    text = hostile.summary().to_markdown()
    assert "<script>" not in text.replace(r"\<", "")
    rows = [line for line in text.splitlines() if line.startswith(r"| \<b")]
    assert len(rows) == 2
    assert {line.replace(r"\|", "").count("|") for line in rows} == {8}


def test_a_line_break_in_a_label_does_not_break_a_markdown_table(
    villagers: pd.DataFrame,
) -> None:
    jobs = villagers["job"].replace("hunting", "hunt\n| x")
    text = ss.fit("income ~ height", villagers.assign(job=jobs), chosen="job").summary()
    assert r"**hunt \| x (chosen in" in text.to_markdown()


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.23456, "1.2346"), (0.0, "0.0000"), (1e-7, "1.000e-07"), (2e9, "2.000e+09"),
     (12345.678, "12345.7"), (float("nan"), ""), (float("inf"), ""), (-0.5, "-0.5000")],
)  # fmt: skip
def test_numbers_keep_about_five_digits(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize("replications", [0, 199])
@pytest.mark.parametrize(("p_value", "rejected"), [(0.2, False), (0.02, False), (0.01, True)])
def test_page_rejections_and_rejects_agree_on_one_level_that_is_printed(
    p_value, rejected, replications
):
    villagers = ss.simulators.village(300, seed=1).data
    result = ss.fit("income ~ height + weight", villagers, chosen="job")
    fine, odd = (
        TestResult("Test of noise", "as assumed", 1.0, 1, p, replications=replications)
        for p in (0.6, p_value)
    )
    result.answers.tests_by_draws.update(normality=fine, heteroskedasticity=odd)
    assert odd.rejects() == rejected
    assert any("CONSTANT VARIANCE" in said for said in result.rejections()) == rejected
    text = words(result.summary())
    assert ("CONSTANT VARIANCE REJECTED" in text) == rejected
    assert "A test rejects where p is at most 0.01." in text


def test_warnings_point_at_the_line_that_called_however_deep_they_arise():
    villagers = ss.simulators.village(300, seed=1).data
    gappy = villagers.assign(height=villagers["height"].where(villagers.index > 2))
    result = ss.fit("income ~ height + weight", villagers, chosen="job")
    for call in (
        lambda: ss.fit("income ~ height", gappy, chosen="job"),
        lambda: ss.pose("income ~ height", gappy, chosen="job"),
        lambda: result.predict(gappy),
        lambda: result.choice_probabilities(gappy),
    ):
        with pytest.warns(MissingRowsWarning) as caught:
            call()
        assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize(
    ("shape", "deviation"), [("normal", None), ("logistic", 10 * np.pi / np.sqrt(3))]
)
def test_a_known_scale_has_its_standard_deviation_below_where_that_is_another(
    shape: str, deviation: float | None
) -> None:
    data = ss.simulators.village(200, seed=1).data
    noise = ss.noises.Independent(scale=10.0, shape=shape)
    page = ss.fit("income ~ height", data, chosen="job", noise=noise).summary()
    for block in page.blocks:
        rows = {row[0]: row[1:] for row in block.rows}
        assert rows["scale"][:2] == (format_number(10.0), "(fixed)")
        if deviation is None:
            assert DEVIATION not in rows
        else:
            assert rows[DEVIATION][:2] == (format_number(deviation), "(fixed)")

"""Combinations of parameters: lincom and nlcom."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.results.expressions import read_expressions

NAMES = ["a:x", "a:scale", "self-employed:log(size of firm)", "b:bs(x, df=4)[1]"]
VALUES = np.array([0.7, 1.3, -0.4, 2.0])


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    return ss.simulators.village(600, seed=3).data


@pytest.fixture(scope="module")
def result(villagers: pd.DataFrame) -> ss.FitResult:
    return ss.fit("income ~ height + weight", villagers, chosen="job")


def test_a_difference_has_the_error_of_a_difference(result: ss.FitResult) -> None:
    made = result.lincom("hunting:height - fishing:height", level=0.9)
    row, covariance = made.table.iloc[0], result.cov_params()
    one, other = ("hunting", "height"), ("fishing", "height")
    variance = covariance.loc[one, one] + covariance.loc[other, other]
    variance -= 2 * covariance.loc[one, other]
    assert row["estimate"] == result.params[one] - result.params[other]
    assert row["std_error"] == pytest.approx(np.sqrt(variance), rel=1e-12)
    assert row["conf_high"] - row["estimate"] == pytest.approx(
        1.6448536269514722 * row["std_error"], rel=1e-9
    )
    test = result.wald_test("hunting:height = fishing:height")
    assert row["statistic"] ** 2 == pytest.approx(test.statistic, rel=1e-9)
    assert row["p_value"] == pytest.approx(test.p_value, rel=1e-6)


def test_a_single_parameter_is_that_of_the_table(result: ss.FitResult) -> None:
    tidy = result.tidy().iloc[1]
    row = result.lincom(result.names[1]).table.iloc[0]
    for name in ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"):
        assert row[name] == pytest.approx(tidy[name], rel=1e-12)


def test_several_expressions_come_with_their_joint_covariance(result: ss.FitResult) -> None:
    one = result.lincom("hunting:height, fishing:height", "hunting:height - fishing:height")
    assert len(one.table) == 3
    weights = np.array([1.0, -1.0, -1.0])
    assert weights @ one.covariance @ weights == pytest.approx(0.0, abs=1e-15)
    assert "hunting:height - fishing:height" in str(one)


@pytest.mark.parametrize(
    "text",
    [
        "exp(a:x) / a:scale",
        "a:x ^ 2 - 3*(a:scale - 1)**3",
        "a:scale ^ a:x",
        "log(a:scale) * sqrt(a:scale + 2)",
        "-a:x^2 / -2",
        "2^-a:x",
        "tanh(a:x) * abs(self-employed:log(size of firm))",
        "self-employed:log(size of firm) - b:bs(x, df=4)[1] / 2e0",
    ],
)
def test_derivatives_are_those_of_differences(text: str) -> None:
    (found,) = read_expressions(text, NAMES, VALUES)
    step = 1e-6
    for place in range(len(VALUES)):
        moved = np.eye(len(VALUES))[place] * step
        up, down = (read_expressions(text, NAMES, VALUES + m)[0].value for m in (moved, -moved))
        assert found.slope[place] == pytest.approx((up - down) / (2 * step), rel=1e-7, abs=1e-9)


def test_values_are_those_of_python() -> None:
    x, s, size, spline = VALUES
    for text, value in {
        "-a:x^2": -(x**2),
        "a:x - a:scale - b:bs(x, df=4)[1]": x - s - spline,
        "a:x / a:scale / 2": x / s / 2,
        "2^a:x^a:scale": 2 ** (x**s),
        "self-employed:log(size of firm)-a:x": size - x,
        "exp(-(a:x + 1)*2)": np.exp(-(x + 1) * 2),
    }.items():
        assert read_expressions(text, NAMES, VALUES)[0].value == pytest.approx(value, rel=1e-14)


def test_a_ratio_has_the_error_that_draws_of_the_parameters_have(result: ss.FitResult) -> None:
    row = result.nlcom("hunting:scale / fishing:scale").table.iloc[0]
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(result.values, result.covariance.matrix, size=40_000)
    one, other = (result.names.index(name) for name in ("hunting:scale", "fishing:scale"))
    # Draws of a ratio scatter by 0.4% around the delta method's error here.
    assert np.std(draws[:, one] / draws[:, other]) == pytest.approx(row["std_error"], rel=0.03)


def test_nonlinear_expressions_agree_with_linear_ones(result: ss.FitResult) -> None:
    text = "2*hunting:height - fishing:height + 1"
    one, other = result.lincom(text).table, result.nlcom(text).table
    pd.testing.assert_frame_equal(one, other)


def test_two_steps_have_no_error_where_scales_have_none(villagers: pd.DataFrame) -> None:
    result = ss.switching("income ~ height", "job ~ height + weight", villagers, method="two-step")
    table = result.lincom("hunting:height - fishing:height", "2*hunting:scale").table
    assert table["std_error"].notna().tolist() == [True, False]
    assert "hunting:scale has none" in str(result.lincom("2*hunting:scale"))


def test_a_loaded_fit_has_the_same_combinations(result: ss.FitResult, tmp_path: object) -> None:
    result.save(f"{tmp_path}/fit.json")
    loaded = ss.load(f"{tmp_path}/fit.json")
    text = "exp(hunting:height)"
    pd.testing.assert_frame_equal(loaded.nlcom(text).table, result.nlcom(text).table)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hunting:height = 0", "Test it with wald_test"),
        ("hunting:height * fishing:height", "Use nlcom"),
        ("hunting:heigth", "is no parameter. Did you mean 'hunting:height'"),
        ("hunting:height +", "cannot be read"),
        ("(hunting:height", "cannot be read"),
        ("hunting:height)", "cannot be read"),
        ("", "There is no expression"),
        ("1/0", "not a finite number"),
    ],
)
def test_what_is_no_linear_combination_is_refused(
    text: str, words: str, result: ss.FitResult
) -> None:
    with pytest.raises(OptionError, match=words):
        result.lincom(text)


def test_values_without_a_derivative_are_refused(result: ss.FitResult) -> None:
    for text in ("log(0*hunting:height - 1)", "sqrt(hunting:height - hunting:height)"):
        with pytest.raises(OptionError, match="not a finite number"):
            result.nlcom(text)
    with pytest.raises(OptionError, match="too large to be squared"):
        result.nlcom("exp(400 + 0*hunting:height) * exp(hunting:height)")
    with pytest.raises(OptionError, match="is text"):
        result.nlcom(["hunting:height"])  # type: ignore[arg-type]


def test_a_name_of_two_parameters_is_refused() -> None:
    # The label 'a' with the term 'b:x', and the label 'a:b' with the term 'x'.
    names = ["a:x", "a:b:x", "a:b:x", "a:b:b:x"]
    assert read_expressions("a:x + a:b:b:x", names, VALUES)[0].value == 0.7 + 2.0
    with pytest.raises(OptionError, match="'a:b:x' names 2 parameters"):
        read_expressions("a:x - a:b:x", names, VALUES)

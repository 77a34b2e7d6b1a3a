"""Wald tests written as text, likelihood ratios of nested fits, and those that cannot be done."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.results.expressions import linear_restrictions

NAMES = [
    "a:x",
    "a:x2",
    "b:x",
    "b:bs(x, df=4)[1]",
    "b:bs(x, df=4)[2]",
    "a:C(p, Treatment('q'))[T.r]",
]


def wald(result: ss.FitResult, matrix: np.ndarray, constant: np.ndarray) -> float:
    gap = matrix @ result.params.to_numpy() - constant
    return float(gap @ np.linalg.inv(matrix @ result.cov_params().to_numpy() @ matrix.T) @ gap)


def test_one_restriction_is_the_square_of_its_statistic(result: ss.FitResult) -> None:
    test = result.wald_test("hunting:height = 0")
    assert test.statistic == pytest.approx(result.tvalues["hunting", "height"] ** 2, rel=1e-9)
    assert test.p_value == pytest.approx(result.pvalues["hunting", "height"], rel=1e-6)
    assert test.df == 1
    assert result.wald_test("hunting:height").statistic == test.statistic


def test_restrictions_with_factors_and_constants(result: ss.FitResult) -> None:
    matrix = np.zeros((2, 8))
    matrix[0, [5, 1]] = 2.0, -1.0
    matrix[1, 6] = 1.0
    test = result.wald_test("2*hunting:height - fishing:height = 1.5, hunting:weight + 1 = 0.5")
    assert test.df == 2
    assert test.statistic == pytest.approx(wald(result, matrix, np.array([1.5, -0.5])), rel=1e-9)
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 2), rel=1e-9)
    assert result.wald_test(matrix).statistic == pytest.approx(
        wald(result, matrix, np.zeros(2)), rel=1e-9
    )


@pytest.mark.parametrize(
    ("text", "row", "constant"),
    [
        ("a:x = b:x", [1, 0, -1, 0, 0, 0], 0.0),
        ("a:x2", [0, 1, 0, 0, 0, 0], 0.0),
        ("- a:x = -1e-3", [-1, 0, 0, 0, 0, 0], -1e-3),
        ("2*3*a:x - .5*b:x + 1 = 4", [6, 0, -0.5, 0, 0, 0], 3.0),
        ("a:x*2 = 1", [2, 0, 0, 0, 0, 0], 1.0),
        ("b:bs(x, df=4)[1] = b:bs(x, df=4)[2]", [0, 0, 0, 1, -1, 0], 0.0),
        ("a:C(p, Treatment('q'))[T.r] = 2", [0, 0, 0, 0, 0, 1], 2.0),
        ("`a:x` = 1", [1, 0, 0, 0, 0, 0], 1.0),
        ("a:x-b:x=0", [1, 0, -1, 0, 0, 0], 0.0),
        ("1/2*(a:x - 3*b:x) = sqrt(4)", [0.5, 0, -1.5, 0, 0, 0], 2.0),
        ("--a:x/4 = 2**3", [0.25, 0, 0, 0, 0, 0], 8.0),
    ],
)
def test_a_restriction_is_read_as_it_is_written(
    text: str, row: list[float], constant: float
) -> None:
    matrix, constants, _ = linear_restrictions(text, NAMES)
    np.testing.assert_array_equal(matrix, [row])
    np.testing.assert_array_equal(constants, [constant])


def test_several_restrictions_are_cut_at_commas_outside_of_names() -> None:
    text = "b:bs(x, df=4)[1] = 0, a:x = 1"
    for hypothesis in (text, ["b:bs(x, df=4)[1] = 0", "a:x = 1"]):
        matrix, constants, null = linear_restrictions(hypothesis, NAMES)
        assert matrix.shape == (2, 6)
        assert constants.tolist() == [0.0, 1.0]
        assert null == text


@pytest.mark.parametrize("text", ["a:x3 = 0", "a:y", "x = 0", "a:x:z = 0", "aa:x"])
def test_an_unknown_parameter_is_answered_with_the_nearest(text: str) -> None:
    with pytest.raises(OptionError, match=r"is no parameter\..*('a:x|b:x')"):
        linear_restrictions(text, NAMES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:x = 0 = b:x", "more than one '='"),
        ("a:x b:x", "not a sum of parameters"),
        ("a:x * b:x = 1", "not a sum of parameters"),
        ("a:x = ", "not a sum of parameters"),
        ("2 a:x", "not a sum of parameters"),
        ("a:x +", "not a sum of parameters"),
        ("1/0*a:x", "divides by zero"),
        ("1/a:x = 1", "not a sum of parameters"),
        ("exp(a:x)", "not a sum of parameters"),
        ("2*(a:x", "not a sum of parameters"),
        ("a:x = 1e400", "the number 1e400 is larger than double precision holds"),
        ("2 = 2", "'2 = 2' has no parameter"),
        ("a:x = 1, 2 = 3", "'2 = 3' has no parameter"),
        ("", "is empty"),
        (" , ", "is empty"),
    ],
)
def test_what_is_no_linear_hypothesis_is_refused(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        linear_restrictions(text, NAMES)


@pytest.mark.parametrize("matrix", [np.ones((1, 3)), np.ones((1, 1, 8)), np.ones(9)])
def test_a_matrix_of_the_wrong_shape_is_refused(matrix: np.ndarray, result: ss.FitResult) -> None:
    with pytest.raises(OptionError, match="there are 8 parameters"):
        result.wald_test(matrix)


def test_restrictions_that_repeat_each_other_are_a_value_with_a_reason(
    result: ss.FitResult,
) -> None:
    test = result.wald_test("hunting:height = 0, 2*hunting:height = 0")
    assert not test.possible
    assert "repeat or contradict" in str(test)


# likelihood ratios


def refit(villagers: pd.DataFrame, formula: str, **options: object) -> ss.FitResult:
    return ss.fit(formula, villagers, chosen="job", **options)


def test_nested_fits_are_compared_in_either_order(
    result: ss.FitResult, villagers: pd.DataFrame
) -> None:
    small = refit(villagers, "income ~ height")
    test = result.lr_test(small)
    assert test.statistic == pytest.approx(2 * (result.llf - small.llf), rel=1e-12)
    assert test.df == 2
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 2), rel=1e-9)
    assert small.lr_test(result) == test


def test_scales_are_restrictions_too(
    result: ss.FitResult, common: ss.FitResult, fixed: ss.FitResult
) -> None:
    assert result.lr_test(common).df == 1
    assert result.lr_test(fixed).df == 2


@pytest.mark.parametrize(
    ("formula", "options", "reason"),
    [
        ("income ~ height + clan", {"noise": ss.noises.Independent("common")}, "terms"),
        ("income ~ height + weight", {}, "same number of parameters"),
        ("income ~ height", {"rule": "min"}, "different rules"),
        ("income ~ height", {"rule": ss.rules.Maximum(cost={"hunting": 1.0})}, "different rules"),
        ("income ~ height", {"weights": "w"}, "different rows"),
        ("np.sinh(income / 100) ~ height", {}, "different rows or outcomes"),
    ],
)
def test_fits_that_are_not_nested_are_a_value_with_a_reason(
    formula: str,
    options: dict[str, object],
    reason: str,
    result: ss.FitResult,
    villagers: pd.DataFrame,
) -> None:
    test = result.lr_test(refit(villagers, formula, **options))
    assert not test.possible
    assert reason in str(test.reason)
    assert np.isnan(test.p_value)
    assert not test.rejects()


def test_more_terms_do_not_nest_a_richer_noise(
    common: ss.FitResult, villagers: pd.DataFrame
) -> None:
    """Two scales are no special case of one, though every term is in the larger model."""
    small = refit(villagers, "income ~ height")
    test = small.lr_test(common)
    assert (small.n_parameters, common.n_parameters) == (6, 7)
    assert "noise of the smaller model" in str(test.reason)


def test_different_rows_are_found_out(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    test = result.lr_test(refit(villagers.head(400), "income ~ height"))
    assert "different rows" in str(test.reason)
    moved = villagers.assign(income=villagers["income"] + 1.0)
    assert "different rows" in str(result.lr_test(refit(moved, "income ~ height")).reason)


def test_a_fit_that_did_not_converge_is_not_compared(
    stopped: ss.FitResult, villagers: pd.DataFrame
) -> None:
    assert "did not converge" in str(stopped.lr_test(refit(villagers, "income ~ height")).reason)


def test_only_noises_and_costs_that_are_special_cases_are_tested() -> None:
    noises = ss.noises
    data = ss.simulators.village(300, seed=4).data
    data["rent"] = np.random.default_rng(4).uniform(0, 9, len(data))

    def fitted(noise: object = None, formula: str = "income ~ height", **options: object) -> object:
        return ss.fit(formula, data, chosen="job", noise=noise, **options)

    plain, free = fitted(), fitted(noises.Correlated())
    fixed = fitted(noises.Correlated(correlation=0.3))
    larger = fitted(noises.Correlated(correlation=0.3), "income ~ height + weight")
    other = "not a special case"
    assert free.lr_test(plain).df == 1 and free.lr_test(fixed).df == 1
    assert larger.lr_test(fixed).df == 2
    assert other in str(larger.lr_test(plain).reason)
    assert free.lr_test(fitted(noises.Correlated("common"))).df == 1
    shock = fitted(noises.SharedShock(loading=2.0), "income ~ height + weight")
    assert other in str(shock.lr_test(fixed).reason)
    costly = fitted(cost={"fishing": "~ rent - 1"})
    assert costly.lr_test(plain).df == 1
    assert "not all in the larger" in str(
        fitted(None, "income ~ height + weight").lr_test(costly).reason
    )

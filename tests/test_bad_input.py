"""Bad input: a clear error that says what is wrong, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.errors import (
    ArchiveError,
    DataError,
    FormulaError,
    OptionError,
    RuleError,
    SelfSelectError,
    UnsupportedError,
)


@pytest.fixture
def villagers() -> pd.DataFrame:
    return ss.simulators.village(200, seed=2).data


def fit(data: Any, formula: Any = "income ~ height + weight", **options: Any) -> ss.FitResult:
    return ss.fit(formula, data, **({"chosen": "job"} | options))


# the table


def test_an_unknown_column_is_answered_with_the_nearest_names(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"no column 'hieght' .*Did you mean 'height'"):
        fit(villagers, "income ~ hieght")
    with pytest.raises(DataError, match=r"no column 'jobs' .*Did you mean 'job'"):
        fit(villagers, chosen="jobs")
    with pytest.raises(DataError, match=r"no column 'w8s'.*It has: height, weight, income, job"):
        fit(villagers, weights="w8s")


@pytest.mark.parametrize("formula", ["income ~ height + idle", "income ~ idle"])
def test_a_covariate_without_variation_is_named(formula: str, villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'idle' of 'fishing' does not vary"):
        fit(villagers.assign(idle=4.0), formula)


def test_a_covariate_that_is_zero_everywhere_is_named(villagers: pd.DataFrame) -> None:
    with pytest.raises(
        DataError, match=r"'idle' of 'fishing' (is zero in every row|does not vary)"
    ):
        fit(villagers.assign(idle=0.0), "income ~ height + idle")


def test_a_category_without_variation_is_named(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'clan' has the same category in every row"):
        fit(villagers.assign(clan="fox"), "income ~ height + clan")


def test_an_alternative_that_is_never_seen_is_named(villagers: pd.DataFrame) -> None:
    formulas = dict.fromkeys(["hunting", "fishing", "farming"], "income ~ height")
    with pytest.raises(DataError, match="'farming' never occurs in 'job'"):
        fit(villagers, formulas)


def test_an_alternative_seen_in_fewer_rows_than_it_has_parameters_is_named(
    villagers: pd.DataFrame,
) -> None:
    few = pd.concat(
        [villagers[villagers["job"] == "fishing"], villagers[villagers["job"] == "hunting"].head(3)]
    )
    with pytest.raises(DataError, match="'hunting' is chosen in 3 rows but has 4 parameters"):
        fit(few)


def test_rows_of_weight_zero_do_not_count_as_seen(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'hunting' never occurs"):
        fit(villagers, weights=(villagers["job"] == "fishing").astype(float).to_numpy())


def test_collinear_covariates_are_named(villagers: pd.DataFrame) -> None:
    doubled = villagers.assign(size=2.0 * villagers["height"] - villagers["weight"])
    with pytest.raises(DataError, match="'height', 'weight', 'size' of 'fishing' are collinear"):
        fit(doubled, "income ~ height + weight + size")
    with pytest.raises(DataError, match="'height', 'inches' of 'fishing' are collinear"):
        fit(villagers.assign(inches=villagers["height"] / 2.54), "income ~ height + inches")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_named_with_their_rows(value: float, villagers: pd.DataFrame) -> None:
    broken = villagers.copy()
    broken.loc[5, "height"] = value
    with pytest.raises(DataError, match=r"'height' is infinite .* in 1 rows \(row 5\)"):
        fit(broken)
    broken = villagers.copy()
    broken.loc[[5, 6], "income"] = value
    with pytest.raises(DataError, match=r"'income' has 2 infinite values \(rows 5, 6\)"):
        fit(broken)


def test_a_transform_that_makes_values_infinite_is_named(villagers: pd.DataFrame) -> None:
    shifted = villagers.assign(height=villagers["height"] - villagers["height"].min())
    with pytest.raises(DataError, match=r"'np.log\(height\)' is infinite or not a number"):
        fit(shifted, "income ~ np.log(height)")
    with pytest.raises(DataError, match=r"'np.log\(height\)' is infinite or not a number"):
        fit(shifted, "np.log(height) ~ weight")
    with pytest.raises(DataError, match=r"as the logarithm of zero.*would select on the outcome"):
        fit(shifted, "np.log(height) ~ weight")


def test_numbers_among_which_words_strayed_are_refused(villagers: pd.DataFrame) -> None:
    words = villagers["height"].astype(str)
    words[7] = "tall"
    with pytest.raises(DataError, match=r"'height' holds text such as 'tall'.* look like numbers"):
        fit(villagers.assign(height=words))
    with pytest.raises(DataError, match=r"outcome column 'income' must hold numbers.*'a lot'"):
        fit(villagers.assign(income="a lot"))


def test_decimal_commas_are_named(villagers: pd.DataFrame) -> None:
    written = villagers["height"].astype(str).str.replace(".", ",")
    with pytest.raises(DataError, match=r"'height' holds text such as '\d+,\d'.*decimal=','"):
        fit(villagers.assign(height=written))


@pytest.mark.parametrize("weights", ["w", "array"])
def test_negative_weights_are_refused(weights: str, villagers: pd.DataFrame) -> None:
    values = np.ones(len(villagers))
    values[3] = -1.0
    given = "w" if weights == "w" else values
    with pytest.raises(DataError, match=r"are negative in row 3\. .* zero or positive"):
        fit(villagers.assign(w=values), weights=given)


def test_weights_that_are_all_zero_are_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="all zero, so no row counts"):
        fit(villagers, weights=np.zeros(len(villagers)))


def test_one_alternative_only_is_refused(villagers: pd.DataFrame) -> None:
    hunters = villagers[villagers["job"] == "hunting"]
    with pytest.raises(DataError, match=r"Only one alternative occurs in 'job'.*'hunting'"):
        fit(hunters)
    # Least squares is not right for incomes that are only known to be large.
    censored = hunters.assign(income=hunters["income"].where(hunters["income"] < 80))
    with pytest.raises(DataError, match=r"every outcome was recorded, a censored regression where"):
        fit(censored, outcome_between=(80, None))
    chosen = censored.assign(hunts=1)
    with pytest.raises(DataError, match=r"every outcome was recorded, a censored regression where"):
        ss.sample_selection(
            "income ~ height", "hunts ~ height + weight", chosen, outcome_between=(80, None)
        )
    with pytest.raises(FormulaError, match="at least two alternatives; 1 given"):
        fit(villagers, {"hunting": "income ~ height"})


def test_an_empty_table_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="The table has no rows"):
        fit(villagers.head(0))
    with pytest.raises(DataError, match="no columns at all"):
        fit(pd.DataFrame())


def test_duplicated_labels_are_refused(villagers: pd.DataFrame) -> None:
    numbers = villagers.assign(job=(villagers["job"] == "hunting").astype(int))
    with pytest.raises(OptionError, match="given a formula twice"):
        fit(numbers, {1: "income ~ height", "1": "income ~ weight", 0: "income ~ height"})
    mixed = pd.Series([1, "1"] * 100, dtype=object)
    with pytest.raises(DataError, match="two different labels that both read '1'"):
        fit(villagers.assign(job=mixed))


def test_a_transform_that_is_not_monotone_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(RuleError, match="not monotone"):
        fit(villagers, rule=ss.rules.MonotoneArgmax({"hunting": np.square}))
    with pytest.raises(RuleError, match="not monotone"):
        fit(villagers, rule=ss.rules.MonotoneArgmax({"hunting": lambda y: np.sin(y / 50)}))


def test_an_outcome_that_is_constant_is_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'income' is 3 in every row: it does not vary"):
        fit(villagers.assign(income=3.0))


@pytest.mark.parametrize("formula", ["income ~ (height", "income height", "income ~ height +* job"])
def test_a_formula_that_does_not_parse_is_refused(formula: str, villagers: pd.DataFrame) -> None:
    with pytest.raises(FormulaError, match=r"does not parse|exactly one '~'"):
        fit(villagers, formula)


# the chosen alternative was not recorded


def blind(data: Any, formula: Any = "income ~ height + weight", **options: Any) -> ss.FitResult:
    return ss.fit(formula, data, **options)


def test_more_alternatives_than_the_rows_can_bear_are_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"70 alternatives have 210 coefficients.*only 200 rows"):
        blind(villagers, alternatives=70)
    with pytest.raises(DataError, match=r"2 alternatives have 6 coefficients.*only 6 rows"):
        blind(villagers.head(6), alternatives=2)
    few = np.r_[np.ones(6), np.zeros(194)]
    with pytest.raises(DataError, match=r"2 alternatives have 6 coefficients.*only 6 rows"):
        blind(villagers, alternatives=2, weights=few)


@pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
def test_more_alternatives_than_there_are_is_said_and_not_hidden(villagers: pd.DataFrame) -> None:
    fit = blind(villagers.head(40), "income ~ height", alternatives=8)
    assert not fit.converged
    assert "starts were discarded" in fit.status


@pytest.mark.parametrize("number", [0, -3])
def test_no_alternatives_are_refused(number: int, villagers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match=f"alternatives={number} is not possible"):
        blind(villagers, alternatives=number)


def test_one_alternative_is_least_squares_and_it_is_said(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="nothing is selected and the model is least squares"):
        blind(villagers, alternatives=1)
    with pytest.raises(FormulaError, match="at least two alternatives; 1 given"):
        blind(villagers, {"hunting": "income ~ height"})


def test_equations_that_nothing_tells_apart_are_refused(villagers: pd.DataFrame) -> None:
    same = {"hunting": "income ~ height + weight", "fishing": "income ~ weight + height"}
    with pytest.raises(DataError, match=r"'hunting' and 'fishing' have the same covariates"):
        blind(villagers, same)
    with pytest.raises(OptionError, match="alternatives=3 but 2 formulas are given"):
        blind(villagers, same, alternatives=3)


def test_alternatives_named_twice_are_refused(
    villagers: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OptionError, match="The alternative '1' is named twice"):
        blind(villagers, {1: "income ~ height", "1": "income ~ weight"})
    path = tmp_path / "villagers.csv"
    villagers.to_csv(path, index=False)
    code = run(
        "fit", path, "--equation", "a=income ~ height", "--equation", "a=income ~ weight",
    )  # fmt: skip
    assert code == 2
    assert "--equation names 'a' twice" in capsys.readouterr().err


def test_a_constant_outcome_has_nothing_to_explain(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'income' is 3 in every row: it does not vary"):
        blind(villagers.assign(income=3.0), alternatives=2)


def test_covariates_without_variation_are_named(villagers: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'idle' of 1 does not vary"):
        blind(villagers.assign(idle=4.0), "income ~ height + idle", alternatives=2)
    inches = villagers.assign(inches=villagers["height"] / 2.54)
    with pytest.raises(DataError, match="'height', 'inches' of 1 are collinear"):
        blind(inches, "income ~ height + inches", alternatives=2)


def test_a_term_that_no_row_of_its_alternative_tells_of_is_reported() -> None:
    """Demand is never short where the port is closed: its slope there has no finite estimate."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal(600), rng.standard_normal(600)
    closed = (rng.uniform(size=600) < 0.3).astype(float)
    demand = 2 * x + rng.standard_normal(600) + 60 * closed
    supply = 2 * z + rng.standard_normal(600)
    table = pd.DataFrame({"x": x, "z": z, "closed": closed, "q": np.minimum(demand, supply)})
    formulas = {"demand": "q ~ x + closed", "supply": "q ~ z"}
    with pytest.warns(ss.errors.ConvergenceWarning, match="singular along 'closed' of 'demand'"):
        found = blind(table, formulas, rule="min")
    assert not found.converged


def test_a_market_with_one_side_never_short_is_reported() -> None:
    """Supply is never the smaller one: its intercept and slope rest on next to nothing."""
    market = ss.simulators.market(500, seed=1)
    data = market.data.assign(quantity=market.latent["demand"])
    found = blind(data, market.formula, rule="min")
    assert "'supply' is chosen in" in " ".join(one.sentence for one in found.diagnose().weak)
    assert "Its estimates rest on few outcomes" in " ".join(str(found.summary()).split())


def test_choices_recorded_as_missing_are_not_taken_for_unknown(villagers: pd.DataFrame) -> None:
    holes = villagers.assign(job=villagers["job"].where(villagers.index > 3))
    with pytest.raises(DataError, match="4 rows have no value in 'job'"):
        fit(holes)


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        ("mean", "no rank 'mean'"), (0, "whole number from 1 on, not 0"), (1.5, "not 1.5"),
        (True, "not True"),
    ],
)  # fmt: skip
def test_a_rank_that_is_none_is_refused(rank: Any, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        ss.rules.Ranked(rank)


def test_ranks_that_the_alternatives_do_not_have_are_refused(villagers: pd.DataFrame) -> None:
    with pytest.raises(RuleError, match="2 alternatives have no median: their number is even"):
        fit(villagers, rule=ss.rules.Ranked("median"))
    with pytest.raises(RuleError, match="no outcome of rank 3 among 2 alternatives"):
        fit(villagers, rule=ss.rules.Ranked(3))
    with pytest.raises(RuleError, match="not available is not defined"):
        fit(villagers.assign(open=1), rule=ss.rules.Ranked(2), available={"fishing": "open"})


class Bare(ss.rules.BoxRule):
    """The largest outcome, by a rule that holds no costs."""

    name = "bare"

    def choose(self, latent: Any, rows: Any = None) -> Any:
        del rows
        return latent.argmax(axis=1)

    def bounds(self, chosen: Any, outcome: Any, rows: Any = None) -> Any:
        del chosen, rows
        return np.full((len(outcome), 1), -np.inf), outcome[:, None]


@pytest.mark.parametrize("cost", [0.4, "height"])
@pytest.mark.parametrize("rule", [ss.rules.Ranked(2), Bare()])
def test_costs_for_a_rule_that_has_none_are_refused(
    villagers: pd.DataFrame, rule: Any, cost: Any
) -> None:
    words = f"{type(rule).__name__} has no costs.*Leave `cost` out, or use a rule that weighs"
    with pytest.raises(UnsupportedError, match=words):
        fit(villagers, rule=rule, cost={"hunting": cost})


# files


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_a_file_that_is_not_there_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("fit", tmp_path / "none.csv", "income ~ height", "--chosen", "job")
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "There is no file" in said.err
    with pytest.raises(ArchiveError, match="There is no file"):
        ss.load(tmp_path / "none.json")


def test_a_truncated_parquet_file_is_one_sentence(
    tmp_path: Path, villagers: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "villagers.parquet"
    villagers.to_parquet(whole)
    whole.write_bytes(whole.read_bytes()[:-200])
    assert run("fit", whole, "income ~ height", "--chosen", "job") == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "cannot be read" in said.err
    assert "truncated" in said.err


def test_a_truncated_compressed_file_is_one_sentence(
    tmp_path: Path, villagers: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "villagers.csv.gz"
    villagers.to_csv(whole, index=False)
    whole.write_bytes(whole.read_bytes()[:-500])
    assert run("fit", whole, "income ~ height", "--chosen", "job") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_truncated_saved_fit_is_refused(
    tmp_path: Path, villagers: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fit.json"
    fit(villagers).save(path)
    path.write_text(path.read_text()[:-300])
    with pytest.raises(ArchiveError, match=r"not complete JSON.*truncated"):
        ss.load(path)
    assert run("show", path) == 2
    assert capsys.readouterr().err.count("\n") == 1


# options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": "best"}, "no rule named 'best'.*'max', 'min'"),
        ({"rule": 3}, "3 is not a selection rule"),
        ({"rule": ss.rules.Maximum}, r"call the class: Maximum\(\)"),
        ({"noise": "normal"}, "'normal' is not a noise"),
        ({"noise": 2.0}, "2.0 is not a noise"),
        ({"solver": "newton"}, "'newton' is not a solver"),
        ({"solver": ss.solvers.Newton}, "is not a solver"),
        ({"covariance": "hc3"}, "no covariance 'hc3'.*observed, robust, clustered, bootstrap"),
        ({"covariance": "clustered"}, "needs to know the clusters"),
        ({"missing": "ignore"}, "missing='ignore' is not possible. Use 'drop' or 'raise'"),
        ({"missing_outcome": "fill"}, "missing_outcome='fill' is not possible"),
        ({"alternatives": 3}, "Both chosen='job' and alternatives=3 are given"),
        ({"chosen": None}, "Pass chosen='column'"),
        ({"chosen": None, "alternatives": 2.0}, "must be a whole number, not 2.0"),
        ({"chosen": None, "alternatives": True}, "must be a whole number, not True"),
        ({"chosen": None, "alternatives": ["a", "b"]}, "To name alternatives, give a dict"),
        ({"chosen": ["a", "b"]}, "name of a column, not list"),
        ({"engine": "dask"}, "engine='dask' is not possible"),
        ({"available": "near"}, "`available` must be given by alternative"),
    ],
)
def test_a_bad_option_is_refused_with_the_good_ones(
    options: dict[str, Any], words: str, villagers: pd.DataFrame
) -> None:
    with pytest.raises(OptionError, match=words):
        fit(villagers, **options)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), "some", {"hunting": 1.0}, [1.0] * 3])
def test_a_bad_scale_is_refused(scale: Any, villagers: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match=r"[Ss]cale"):
        fit(villagers, noise=ss.noises.Independent(scale=scale))


def test_every_error_of_the_package_has_one_root() -> None:
    kinds = [getattr(ss.errors, name) for name in ss.errors.__all__ if name[0].isupper()]
    assert kinds
    for kind in kinds:
        assert issubclass(kind, SelfSelectError | ss.errors.SelfSelectWarning)


def test_a_fit_that_fails_leaves_the_table_as_it_was(villagers: pd.DataFrame) -> None:
    before = villagers.copy(deep=True)
    with pytest.raises(DataError):
        fit(villagers, weights=np.zeros(len(villagers)))
    fit(villagers)
    pd.testing.assert_frame_equal(villagers, before)


def test_a_column_of_choices_that_is_empty_is_said_to_be(villagers: pd.DataFrame) -> None:
    open_to_all = dict.fromkeys(("hunting", "fishing"), "anyone")
    with pytest.raises(DataError, match=r"'job' is missing in every row.*Leave `chosen` out"):
        fit(villagers.assign(job=None, anyone=True), possible=open_to_all)

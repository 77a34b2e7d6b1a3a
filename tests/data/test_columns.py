"""The gate from a table's column to numbers: every kind of column, in memory, files and loads."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.coder import Coder
from selfselect.data.columns import find_kind, to_numbers
from selfselect.errors import DataError, FormulaError

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "Int8", "UInt16", "Float32", "Float64"]

ODD = {
    "dates": (pd.to_datetime(["2020-01-01", "2021-02-03"]), "holds dates"),
    "dates as objects": (np.array([datetime.date(2020, 1, 1)] * 2, dtype=object), "holds dates"),
    "durations": (pd.to_timedelta([1, 2], unit="D"), "holds durations"),
    "complex": (np.array([1 + 2j, 3 + 0j]), "complex numbers"),
    "complex objects": (np.array([1 + 2j, 3.0], dtype=object), "complex numbers"),
    "lists": (pd.Series([[1, 2], [3]]), "neither numbers nor text"),
    "dicts": (pd.Series([{"a": 1}, {}]), "neither numbers nor text"),
    "bytes": (pd.Series([b"a", b"b"]), "neither numbers nor text"),
    "periods": (pd.period_range("2020", periods=2, freq="Y"), "holds"),
    "numbers and text": (np.array([1.0, "n/a?"], dtype=object), "numbers and text such as"),
}


@pytest.mark.parametrize("values", [ODD[name][0] for name in ODD], ids=list(ODD))
def test_what_is_neither_number_nor_category_is_refused_as_a_covariate(values):
    words = next(words for found, words in ODD.values() if found is values)
    with pytest.raises(DataError, match=words):
        find_kind(pd.Series(values), "x")
    with pytest.raises(DataError, match=words):
        Coder.learn("x", pd.DataFrame({"x": values}))


@pytest.mark.parametrize("values", [ODD[name][0] for name in ODD], ids=list(ODD))
def test_what_is_no_number_is_refused_where_a_number_is_needed(values):
    with pytest.raises(DataError, match=r"The weights must hold numbers, but it holds"):
        to_numbers(pd.Series(values), "The weights")


@pytest.mark.parametrize("values", [["1.5", "2"], ["tall", "short"]])
@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_text_is_never_a_number(values, dtype):
    with pytest.raises(DataError, match=r"holds (text|categories) such as"):
        to_numbers(pd.Series(values, dtype=dtype), "The cost")


@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1.5"), Decimal("2")],
        [1.5, Decimal("2")],
        [Fraction(3, 2), 2],
        [np.float32(1.5), 2],
        [1.5, True],
    ],
)
def test_objects_that_are_numbers_are_numbers(values):
    column = pd.Series(values, dtype=object)
    assert find_kind(column, "x") == "number"
    np.testing.assert_array_equal(to_numbers(column, "x"), [float(one) for one in values])


def test_missing_values_are_nan_in_numbers_of_every_kind():
    for column in (
        pd.Series([1.0, None], dtype=object),
        pd.Series([Decimal(1), None], dtype=object),
        pd.Series([1, None], dtype="Int8"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1, None], dtype="int64[pyarrow]"),
    ):
        np.testing.assert_array_equal(to_numbers(column, "x"), [1.0, np.nan])


@pytest.mark.parametrize("dtype", WHOLE + FLOATS)
@pytest.mark.parametrize(
    "text",
    ["age + I(age**2)", "age*kids", "I(kids - age)", "np.log(age)", "age:kids", "I(age * age) - 1"],
)
def test_numbers_are_doubles_before_any_arithmetic(dtype, text):
    ages = np.arange(20, 100, 8)
    exact = pd.DataFrame({"age": ages.astype(float), "kids": (ages % 3).astype(float)})
    wanted = Coder.learn(text, exact)[1]
    coder, matrix = Coder.learn(text, exact.astype(dtype))
    np.testing.assert_array_equal(matrix, wanted)
    np.testing.assert_array_equal(coder.code(exact.astype(dtype)), wanted)


def test_truth_values_add_up_as_numbers_and_join_as_truths():
    frame = pd.DataFrame({"a": [True, True, False], "b": [True, False, False]})
    assert Coder.learn("I(a + b) - 1", frame)[1][:, 0].tolist() == [2.0, 1.0, 0.0]
    assert Coder.learn("I(a & ~b) - 1", frame)[1][:, 0].tolist() == [0.0, 1.0, 0.0]
    coder, _ = Coder.learn("I(a | b) - 1", frame)
    assert coder.code(frame.astype("int8"))[:, 0].tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(DataError, match="used as true or false in the formula, but holds 2"):
        coder.code(pd.DataFrame({"a": [2, 0], "b": [0, 1]}))


def test_ten_to_a_power_is_no_tenth_power():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    assert Coder.learn("exp10(x) - 1", frame)[1][:, 0].tolist() == [10.0, 100.0, 1000.0]


FRAME = pd.DataFrame(
    {
        "x": np.linspace(1.0, 4.0, 24),
        "z": np.sin(np.arange(24.0)),
        "n": np.arange(24, dtype="int16") % 5,
        "year": np.tile([2001, 2002, 2003], 8),
        "firm": np.tile(np.array([2**60, 2**60 + 1, 7], dtype="uint64"), 8),
        "pet": np.tile(["cat", "dog", "eel", "cat"], 6),
        "rank": pd.Categorical(np.tile(["low", "high", "mid"], 8), ["low", "mid", "high", "top"]),
        "band": pd.cut(np.arange(24), 3),
        "flag": np.arange(24) % 2 == 0,
        "price": [Decimal(i) / 4 for i in range(24)],
        "my col": np.cos(np.arange(24.0)),
    }
)
"""Columns of every kind."""

SIDES = [
    "x",
    "x - 1",
    "1",
    "x + z + n",
    "pet",
    "pet - 1",
    "x*pet",
    "pet:rank",
    "pet*rank",
    "rank",
    "band",
    "C(year)",
    "C(year) + year",
    "C(year):x - 1",
    "C(firm)",
    "C(pet, contr.sum)",
    "C(year, contr.helmert)",
    "C(pet, Treatment('dog'))",
    "flag",
    "flag:x",
    "I(flag + n)",
    "price",
    "price:x + I(price**2)",
    "np.log(x) + np.sqrt(n)",
    "center(x)",
    "scale(z) + center(x):pet",
    "standardize(x)",
    "poly(x, 3)",
    "poly(x, 2, raw=True)",
    "bs(x, df=4)",
    "bs(x, knots=[2.0], degree=2)",
    "cr(x, df=4)",
    "cc(x, df=4)",
    "cs(z, df=5)",
    "center(np.log(x))",
    "I(x > 2)",
    "I(pet == 'cat')",
    "I(n // 2) + I(n % 2)",
    "hashed(pet, levels=3)",
    "`my col` + np.exp(`my col`)",
    "Q('my col'):x",
    "(x + z + n)**2",
    "x/z",
    "C(n, levels=[0, 1, 2, 3, 4])",
]


@pytest.mark.parametrize("side", SIDES)
def test_a_restored_coder_codes_exactly_as_the_one_that_learnt(side):
    coder, learnt = Coder.learn(side, FRAME)
    again = Coder.restore(side, coder.names, json.loads(json.dumps(coder.state())))
    assert again.state() == coder.state()
    shuffled = FRAME.iloc[::-1][list(FRAME)[::-1]]
    for rows in (FRAME, FRAME.iloc[:1], FRAME.iloc[3:11], shuffled):
        wanted = learnt[rows.index.to_numpy()]
        np.testing.assert_array_equal(coder.code(rows), wanted)
        np.testing.assert_array_equal(again.code(rows), wanted)
        for name, values in again.terms(rows).items():
            np.testing.assert_array_equal(values, wanted[:, coder.names.index(name)])
    assert coder.code(FRAME.iloc[:0]).shape == again.code(FRAME.iloc[:0]).shape


@pytest.mark.parametrize("side", SIDES)
def test_a_restored_coder_refuses_what_the_one_that_learnt_refuses(side):
    coder, _ = Coder.learn(side, FRAME)
    again = Coder.restore(side, coder.names, json.loads(json.dumps(coder.state())))
    odd = {
        "text": np.where(np.arange(24) == 5, "n/a?", "1").astype(object),
        "dates": pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(24), "D"),
        "category": pd.Categorical(np.arange(24) % 2),
        "complex": np.arange(24) + 0j,
        "lists": [[one] for one in range(24)],
    }
    for column in coder.kinds:
        for values in odd.values():
            rows = FRAME.assign(**{column: values})
            answers = []
            for one in (coder, again):
                try:
                    answers.append(one.code(rows).tolist())
                except (DataError, FormulaError) as error:
                    answers.append(str(error))
            assert answers[0] == answers[1]
            if coder.kinds[column] != "category":
                assert f"The column {column!r} held numbers when the model was fitted" in answers[0]
    assert Coder.learn(side, FRAME)[0].state() == coder.state()


def test_a_refused_prediction_changes_nothing_that_another_fit_uses():
    coder, wanted = Coder.learn("x + z", FRAME)
    with pytest.raises(DataError, match="held numbers when the model was fitted"):
        coder.code(FRAME.assign(x="tall"))
    other, matrix = Coder.learn("x + z", FRAME)
    np.testing.assert_array_equal(matrix, wanted)
    np.testing.assert_array_equal(coder.code(FRAME), wanted)
    assert other.state() == coder.state()


@pytest.mark.parametrize(
    ("side", "change"),
    [
        ("x", lambda state: state["kinds"].pop("x")),
        ("x", lambda state: state["kinds"].update(x="colour")),
        ("x", lambda state: state["kinds"].update(other="number")),
        ("pet", lambda state: state["factors"].pop("pet")),
        ("pet", lambda state: state["factors"].update(pet=["cat", "cat", "dog"])),
        ("pet", lambda state: state["factors"].update(pet=[["cat"], "dog"])),
        ("center(x)", lambda state: state["transforms"].clear()),
        ("bs(x, df=4)", lambda state: state["transforms"].clear()),
        ("center(x)", lambda state: state["transforms"].update({"center(x)": {"ddof": np.nan}})),
    ],
)
def test_a_coder_that_lacks_something_is_not_restored(side, change):
    coder, _ = Coder.learn(side, FRAME)
    state = coder.state()
    change(state)
    with pytest.raises(DataError):
        Coder.restore(side, coder.names, state)


@pytest.mark.parametrize(
    "left", ["income**2", "income + 1", "income - 5", "income^2", "2*income", "-income", "a + b"]
)
def test_arithmetic_on_the_left_side_is_refused_and_i_is_named(left):
    data = pd.DataFrame({"income": [1.0], "a": [1.0], "b": [2.0], "height": [1.0], "job": ["a"]})
    with pytest.raises(FormulaError, match=r"I\("):
        ss.fit(f"{left} ~ height", data, chosen="job")


def test_an_expression_on_the_left_side_is_computed():
    villagers = ss.simulators.village(400, seed=1).data
    plain = ss.fit(
        "income ~ height", villagers.assign(income=villagers["income"] * 2 + 1), chosen="job"
    )
    inside = ss.fit("I(2 * income + 1) ~ height", villagers, chosen="job")
    np.testing.assert_allclose(inside.values, plain.values, rtol=1e-10)


@pytest.mark.parametrize(
    "part",
    ["I(x[::-1])", "I(x[0])", "np.matmul(x, x)", "I(x @ x)", "lag(x)", "np.add.accumulate(x)",
     "np.vecdot(x, x)", "np.add.reduce(x)"],
)  # fmt: skip
def test_a_look_across_rows_is_refused(part):
    with pytest.raises(FormulaError, match="uses"):
        ss.fit(f"y ~ {part}", pd.DataFrame({"y": [1.0], "x": [1.0]}), chosen="x")


@pytest.mark.parametrize(
    "side",
    [
        "(" + " + ".join("abcdefghijklmnopqrstuvwxyz") + ")**24",
        "(a + b)**999",
        "a**10000000",
        "(a+b+c+d+e+f+g+h+i+j)*(a+b+c+d+e+f+g+h+i+j)*(a+b+c+d+e+f+g+h+i+j)*(a+b+c+d+e+f+g+h+i+j)"
        "*(a+b+c+d+e+f+g+h+i+j)*(a+b+c+d+e+f+g+h+i+j)",
        "I(a * 9**9**9**9)",
        "I(a**9**9**9)",
        "I(a + 10**400)",
        "I(a << 10000000)",
        "I('a' * 10**9)",
        "poly(a, 10000000)",
        "bs(a, df=100000)",
        "hashed(a, levels=1000000000)",
        "I(" + "(" * 5_000 + "a" + ")" * 5_000 + ")",
        "+".join(f"x{i}" for i in range(40_000)),
    ],
)
def test_no_formula_hangs(side):
    with pytest.raises(FormulaError):
        ss.fit(f"y ~ {side}", pd.DataFrame({"y": [1.0], "a": [1.0]}), chosen="a")


def test_a_long_formula_within_reason_is_read():
    names = [f"x{i}" for i in range(1_500)]
    frame = pd.DataFrame(np.eye(3, 1_500), columns=names)
    assert Coder.learn(" + ".join(names), frame)[0].names == ("Intercept", *names)

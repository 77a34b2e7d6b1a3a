"""Formulas: what they may say, which columns they need, what they learn, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from selfselect.data.coder import Coder
from selfselect.data.formulas import parse_formula
from selfselect.errors import DataError, FormulaError

EXACT = 1e-12
"""The same arithmetic in another order."""


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "x": rng.uniform(1.0, 9.0, 60),
            "z": rng.normal(size=60),
            "pet": rng.choice(["cat", "dog", "eel"], 60),
            "hat": rng.choice(["red", "tan"], 60),
            "lag": rng.normal(size=60),
            "log.wage": rng.normal(size=60),
            "my col": rng.uniform(1.0, 2.0, 60),
        }
    )


def names(text: str, frame: pd.DataFrame) -> tuple[str, ...]:
    return Coder.learn(text, frame)[0].names


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("y ~ x + z", {"x", "z"}),
        ("y ~ bs(x, df=4)", {"x"}),
        ("y ~ poly(x, 2) + center(z)", {"x", "z"}),
        ("y ~ np.log(x) + C(pet, Treatment('dog'))", {"x", "pet"}),
        ("y ~ C(pet, contr.sum):x", {"x", "pet"}),
        ("y ~ `my col` + np.log(`my col`)", {"my col"}),
        ("y ~ Q('my col')", {"my col"}),
        ("y ~ log.wage", {"log.wage"}),
        ("y ~ lag + scale(x)", {"lag", "x"}),
        ("y ~ C(scale)", {"scale"}),
        ("y ~ 1", set()),
    ],
)
def test_a_formula_says_which_columns_it_needs(text: str, columns: set[str]) -> None:
    assert set(parse_formula(text).term_columns) == columns


def test_the_outcome_may_be_transformed() -> None:
    parsed = parse_formula("np.log(wage / hours) ~ x")
    assert parsed.outcome_columns == ("hours", "wage")
    assert parsed.outcome == "np.log(wage / hours)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pet", ("Intercept", "pet[T.dog]", "pet[T.eel]")),
        ("pet - 1", ("pet[cat]", "pet[dog]", "pet[eel]")),
        ("x - 1", ("x",)),
        ("x:z", ("Intercept", "x:z")),
        ("x * hat", ("Intercept", "x", "hat[T.tan]", "x:hat[T.tan]")),
        ("C(pet, Treatment('dog'))", ("Intercept", "C(pet, Treatment('dog'))[T.cat]",
                                      "C(pet, Treatment('dog'))[T.eel]")),
        ("bs(x, df=3)", ("Intercept", "bs(x, df=3)[1]", "bs(x, df=3)[2]", "bs(x, df=3)[3]")),
        ("`my col`", ("Intercept", "my col")),
        ("lag + log.wage", ("Intercept", "lag", "log.wage")),
    ],
)  # fmt: skip
def test_terms_are_named_as_they_are_written(
    text: str, expected: tuple[str, ...], frame: pd.DataFrame
) -> None:
    assert names(text, frame) == expected


def test_transforms_compute_what_they_say(frame: pd.DataFrame) -> None:
    coder, matrix = Coder.learn("np.log(x) + center(z) + I(x**2) + `my col`:x - 1", frame)
    x, z = frame["x"].to_numpy(), frame["z"].to_numpy()
    expected = dict(
        zip(
            coder.names,
            np.column_stack([np.log(x), z - z.mean(), x**2, frame["my col"].to_numpy() * x]).T,
            strict=True,
        )
    )
    for place, name in enumerate(coder.names):
        np.testing.assert_allclose(matrix[:, place], expected[name], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize(
    "text",
    ["pet * hat", "center(x)", "bs(x, df=5)", "poly(x, 3)", "scale(x)", "C(pet, contr.helmert)"],
)
def test_new_rows_are_coded_as_the_old_ones_were(text: str, frame: pd.DataFrame) -> None:
    coder, matrix = Coder.learn(text, frame)
    some = frame[(frame["pet"] == "dog").to_numpy()]
    np.testing.assert_array_equal(coder.code(some), matrix[np.flatnonzero(frame["pet"] == "dog")])


@pytest.mark.parametrize(
    "text", ["pet:x + hat", "center(x)", "bs(x, df=5)", "poly(x, 3)", "C(pet, contr.sum)"]
)
def test_a_coder_is_rebuilt_from_plain_data(text: str, frame: pd.DataFrame) -> None:
    import json

    coder, _ = Coder.learn(text, frame)
    state = json.loads(json.dumps(coder.state()))
    again = Coder.restore(text, coder.names, state)
    np.testing.assert_array_equal(again.code(frame.head(7)), coder.code(frame.head(7)))


@pytest.mark.parametrize("text", ["pet + x", "C(pet)", "C(pet, contr.sum)", "pet:hat", "pet - 1"])
def test_a_category_not_met_in_the_fit_is_named(text: str, frame: pd.DataFrame) -> None:
    coder, _ = Coder.learn(text, frame)
    with pytest.raises(DataError, match=r"'pet' has 'yak', not met .*'cat', 'dog', 'eel'"):
        coder.code(frame.assign(pet="yak"))


def test_a_numeric_category_not_met_is_named_as_a_number(frame: pd.DataFrame) -> None:
    coder, _ = Coder.learn("C(year)", frame.assign(year=np.arange(60) % 3 + 2000))
    with pytest.raises(DataError, match=r"'year' has 1999, not met"):
        coder.code(frame.assign(year=1999))


def test_a_category_that_is_the_same_everywhere_does_not_vary(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'pet' has the same category in every row"):
        Coder.learn("x + pet", frame.assign(pet="cat"))


def test_categories_declared_but_not_met_get_no_column(frame: pd.DataFrame) -> None:
    pets = pd.Categorical(frame["pet"], categories=["eel", "dog", "cat", "yak"])
    assert names("pet", frame.assign(pet=pets)) == ("Intercept", "pet[T.dog]", "pet[T.cat]")


@pytest.mark.parametrize("dtype", ["string", "string[pyarrow]", "str", object])
def test_text_of_every_kind_is_a_category(dtype: object, frame: pd.DataFrame) -> None:
    assert names("pet", frame.astype({"pet": dtype})) == names("pet", frame)


@pytest.mark.parametrize(
    "text",
    [
        "y ~ __import__('os').system('true')",
        "y ~ I(__import__('os'))",
        "y ~ os.system('true')",
        "y ~ np.load('file')",
        "y ~ np.fromfile('file')",
        "y ~ np.log.__class__(x)",
        "y ~ I(x.__class__.__mro__)",
        "y ~ I((lambda: 1)())",
        "y ~ I([a for a in x])",
        "y ~ I(f'{x}')",
        "y ~ eval('x')",
        "y ~ open('file')",
        "y ~ np.random.normal(x)",
        "y ~ I(x := 3)",
        "np.load('file') ~ x",
        """y ~ C(x, Treatment('") or 1#'))""",
        """y ~ C(x, Treatment("it's"))""",
    ],
)
def test_a_formula_that_holds_code_is_refused(text: str) -> None:
    with pytest.raises(FormulaError, match=r"uses|does not parse"):
        parse_formula(text)


def test_a_builtin_is_a_missing_column_and_never_called() -> None:
    parsed = parse_formula("y ~ hashed(x, levels=4, hash_func=eval)")
    assert set(parsed.term_columns) == {"x", "eval"}


def test_an_attribute_of_a_column_is_a_missing_column() -> None:
    assert parse_formula("y ~ x.__class__").term_columns == ("x.__class__",)


def test_finding_the_columns_evaluates_nothing(tmp_path: Path, frame: pd.DataFrame) -> None:
    """Formulaic finds variables by running part of the formula; an archive may hold any."""
    mark = tmp_path / "ran"
    coder, _ = Coder.learn("pet", frame)
    state = coder.state()
    state["factors"] = {
        f"bs(open({str(mark)!r}, 'w'))": ["cat"],
        **state["factors"],
    }
    forged = Coder.restore("pet", coder.names, state)
    with pytest.raises(DataError):
        forged.code(frame.assign(pet="yak"))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y ~ (x", "does not parse"),
        ("y ~ x +* z", "does not parse"),
        ("log(a (€)) ~ x", r"does not parse: invalid character '€' \(U\+20AC\)\. Names"),
        ("log(a b) ~ x", r"does not parse: invalid syntax\. Names with spaces or signs"),
        ("y ~ married?", "does not parse.*in backticks"),
        ("y ~ x z", "does not parse.*in backticks"),
        ("log(monthly pay) ~ x", "does not parse.*in backticks"),
        ("y ~ x ~ z", "exactly one '~'"),
        ("y + x", "exactly one '~'"),
        ("y + x ~ z", "2 outcomes"),
        ("~ x", "no outcome before"),
        ("y ~", "no covariates after"),
        ("y ~ x | z", "several parts"),
        ("y ~ .", "Name the covariates"),
        ("y ~ `1`", "reads as a number"),
        ("y ~ Intercept + x", "cannot be named 'Intercept'"),
        (3, "not int"),
        (None, "not NoneType"),
    ],
)
def test_a_formula_that_cannot_be_read_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(FormulaError, match=words):
        parse_formula(text)


def test_a_formula_that_cannot_be_evaluated_says_which_part(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"'pet' is used as a number in 'np.log\(pet\)'.*text such"):
        Coder.learn("np.log(pet)", frame)
    with pytest.raises(FormulaError, match=r"'bs\(x, df=1\)' cannot be evaluated"):
        Coder.learn("bs(x, df=1)", frame)


def test_categories_that_no_row_holds_do_not_matter(frame: pd.DataFrame) -> None:
    pets = pd.Categorical(frame["pet"], categories=["eel", "dog", "cat", "emu"])
    coder, learnt = Coder.learn("pet", frame.assign(pet=pets))
    np.testing.assert_array_equal(coder.code(frame.assign(pet=pets)), learnt)
    np.testing.assert_array_equal(coder.code(frame), learnt)


@pytest.mark.parametrize("text", ["x + n", "x + n - 1", "n", "1", "`a b` + x", "n + x + n"])
def test_columns_of_numbers_are_coded_as_by_formulaic(text):
    """They are read as they are; what is learnt is nothing, whoever looks at them."""
    frame = pd.DataFrame(
        {"x": [1.5, np.nan, 3.0], "n": [4, 5, 6], "a b": [7.0, 8.0, 9.0]}, [7, 7, 2]
    )
    coder, matrix = Coder.learn(text, frame)
    # A transform that changes nothing takes the long way.
    long_way, wanted = Coder.learn(f"{text} + I(x * 0.0)", frame.fillna(0.0))
    assert [*coder.names, "I(x * 0.0)"] == list(long_way.names)
    np.testing.assert_array_equal(np.nan_to_num(matrix), wanted[:, :-1])
    np.testing.assert_array_equal(coder.code(frame), matrix)
    again = Coder.restore(text, coder.names, coder.state())
    np.testing.assert_array_equal(again.code(frame), matrix)


def test_a_number_without_its_zero_is_the_same_left_side():
    assert parse_formula("I(wage**.5) ~ x").outcome == "I(wage**.5)"


@pytest.mark.parametrize(
    "name", ["np", "contr", "Treatment", "Sum", "Helmert", "Diff", "Poly", "C"]
)
def test_a_column_may_have_the_name_of_a_function(name: str, frame: pd.DataFrame) -> None:
    named = frame.rename(columns={"x": name})
    for text in ("x", "z * x", "I(x**2)", "`x` + poly(z, 2)", "log(1 + x**2)"):
        coder, made = Coder.learn(re.sub(r"\bx\b", name, text), named)
        np.testing.assert_array_equal(made, Coder.learn(text, frame)[1])
        again = Coder.restore(coder.text, coder.names, coder.state())
        np.testing.assert_array_equal(again.code(named), made)


@pytest.mark.parametrize(
    "text",
    ["y ~ np + np.log(x)", "np.log(np) ~ x", "y ~ C + C(pet)", "y ~ Sum + C(pet, Sum)",
     "y ~ contr + C(pet, contr.sum)", "y ~ log(log)", "y ~ Poly + C(pet, contr=Poly)"],
)  # fmt: skip
def test_a_column_and_a_function_of_one_name_are_refused_together(text: str) -> None:
    with pytest.raises(FormulaError, match=r"both as a column and as a function\. Rename"):
        parse_formula(text)

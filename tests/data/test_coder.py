"""Terms coded without a formula are those that the formula makes."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from selfselect.data.coder import Coder
from selfselect.data.grammar import DataMismatchWarning
from selfselect.errors import DataError

ROWS = 200


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    text = rng.choice(["a", "b", "c d"], ROWS)
    return pd.DataFrame(
        {
            "x": rng.normal(size=ROWS),
            "i": rng.integers(5, size=ROWS),
            "flag": rng.uniform(size=ROWS) < 0.5,
            "text": text,
            "object": text.astype(object),
            "odd col": rng.choice(["u", "v"], ROWS),
            "ordered": pd.Categorical(rng.choice([3, 1, 2], ROWS), [9, 2, 3, 1]),
        }
    )


@pytest.mark.parametrize(
    ("formula", "cooked"),
    [
        ("x", True),
        ("0 + x + i", True),
        ("1", True),
        ("x + text", True),
        ("object + ordered + `odd col`", True),
        ("x + flag", True),
        ("text - 1", False),
        ("text:x", False),
        ("C(i)", False),
        ("np.exp(x)", False),
        ("C(text, contr.sum)", False),
    ],
)
@pytest.mark.parametrize("rows", [slice(None), slice(0, 3), slice(0, 1)])
def test_terms_are_the_columns_of_the_formula(table, formula, cooked, rows):
    coder, _ = Coder.learn(formula, table)
    assert (coder.recipes is not None) == cooked
    part = table.iloc[rows]
    terms, matrix = coder.terms(part), coder.code(part)
    assert set(terms) == set(coder.names) - {"Intercept"}
    for name, values in terms.items():
        np.testing.assert_array_equal(values, matrix[:, coder.names.index(name)])


def test_numbers_are_not_copied(table):
    coder, _ = Coder.learn("x + text", table)
    assert np.shares_memory(coder.terms(table)["x"], table["x"].to_numpy())


def test_a_restored_coder_has_the_same_recipes(table):
    coder, _ = Coder.learn("x + text + ordered", table)
    again = Coder.restore(coder.text, coder.names, coder.state())
    assert again.recipes == coder.recipes


def test_new_categories_are_refused_by_name(table):
    coder, _ = Coder.learn("x + text", table)
    with pytest.raises(DataError, match="'text' has 'new', not met when the model was fitted"):
        coder.terms(table.assign(text="new"))


def test_threads_side_by_side_refuse_new_categories_every_time() -> None:
    rows = pd.DataFrame({"x": np.arange(30.0), "town": np.array(["a", "b", "c"] * 10)})
    right = "x + C(town)"
    coder, _ = Coder.learn(right, rows)
    switch = sys.getswitchinterval()

    def refused(which: int) -> bool:
        try:
            coder.code(rows.assign(town="other") if which % 2 else rows)
        except DataError:
            return True
        return False

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(refused, range(200)))
    finally:
        sys.setswitchinterval(switch)
    assert found == [which % 2 == 1 for which in range(200)]
    # Pandas sets filters of its own to look up text, so that they may come out in another order.
    assert all(category is not DataMismatchWarning for _, _, category, *_ in warnings.filters)


@pytest.mark.parametrize("right", ["`my town`", "x * `my town`", "C(`my town`)", "x:`my town`"])
def test_categories_of_a_column_that_needs_backticks_are_found(right):
    rows = pd.DataFrame({"x": np.arange(30.0), "my town": np.array(["a", "b", "c"] * 10)})
    coder, _ = Coder.learn(right, rows)
    assert coder.categorical == {"my town"}
    with pytest.raises(DataError, match="'my town' has 'new', not met when the model was fitted"):
        coder.code(rows.assign(**{"my town": "new"}))

"""Sums of columns are read without formulaic, and as formulaic reads them."""

import random
import subprocess
import sys

import pytest
from formulaic import Formula

from selfselect.data.equations import Method, from_formulaic, parse_side, sum_of_columns

NAMES = ["x", "x1", "_y", "C", "np", "I", "e", "inf", "log", "in_", "B2", "Intercept_"]
BEGINNINGS = ["", "0 + ", "1+", " "]
ENDINGS = ["", " - 1", "-1", " + 0", "+1", " "]


def test_sums_of_columns_are_read_as_formulaic_reads_them():
    rng = random.Random(0)
    for _ in range(200):
        names = rng.choices(NAMES, k=rng.randint(1, 6))
        beginning = rng.choice(BEGINNINGS)
        ending = rng.choice(ENDINGS) if not beginning.strip() else ""
        side = beginning + rng.choice([" + ", "+", "  +"]).join(names) + ending
        assert sum_of_columns(side) == tuple(map(from_formulaic, Formula(side))), side


@pytest.mark.parametrize(
    "side",
    ["x*z", "x:z", "log(x)", "`a b`", "x - z", "x - 0", "0 + x + 1", "x | z", "1", "x + 1 + z",
     "x +", "+ x", "x z", "x + 2", "", "lambda", "é", "a.b", "x + + z", "-1 + x", "2x", "x**2"],
)  # fmt: skip
def test_anything_else_is_left_to_formulaic(side):
    assert sum_of_columns(side) is None


def test_terms_read_by_formulaic_name_factors_and_how_they_are_had():
    constant, product = parse_side("log(x):`a:b` + 1")
    assert str(constant) == "1" and constant.factors[0].method is Method.LITERAL
    assert [one.method for one in product.factors] == [Method.PYTHON, Method.LOOKUP]
    assert str(product) == "log(x):`a:b`"


def test_a_fit_of_columns_loads_no_scipy_and_its_pages_no_formulaic():
    code = (
        "import sys, selfselect as ss\n"
        "data = ss.simulators.village(200, seed=1).data\n"
        "result = ss.fit('income ~ height + weight', data, chosen='job')\n"
        "loaded = {'scipy.special', 'formulaic'} & {*sys.modules}\n"
        "str(result.summary())\n"
        "loaded |= {'formulaic', 'scipy.sparse', 'scipy.linalg'} & {*sys.modules}\n"
        "str(result.explain())\n"
        "loaded |= {'formulaic'} & {*sys.modules}\n"
        "sys.exit(', '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Multinomial switching against base R: logit, five corrections, with and without menus.

`multinomial.R` writes the formulas out and made `multinomial_result.csv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

HERE = Path(__file__).parent

EIGHT_DIGITS = 1e-8
"""Two steps are solved exactly here and in R, up to rounding."""

INTEGRATED = 1e-6
"""The regressors of dmf2 are nearly collinear and come from a table here, from integrate() in R."""


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(HERE / "multinomial_data.csv")


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    return pd.read_csv(HERE / "multinomial_result.csv")


@pytest.mark.parametrize("menu", ["all", "some"])
@pytest.mark.parametrize("correction", ["dmf0", "dmf1", "dmf2", "lee", "dahl"])
def test_both_steps_agree_with_r(
    menu: str, correction: str, table: pd.DataFrame, figures: pd.DataFrame
) -> None:
    options: dict[str, Any] = {}
    names = ("job", "y")
    if menu == "some":
        names, options = ("menu_job", "menu_y"), {"available": {"c": "open_c"}}
    result = ss.multinomial_switching(
        f"{names[1]} ~ x", f"{names[0]} ~ x + z1 + z2", table, correction=correction, **options
    )
    own = figures[figures["menu"] == menu]
    tolerance = INTEGRATED if correction == "dmf2" else EIGHT_DIGITS
    for label in ("a", "b", "c"):
        theirs = own[(own["correction"] == correction) & (own["equation"] == label)]["value"]
        np.testing.assert_allclose(result.params[label], theirs, rtol=tolerance, atol=tolerance)
    for label in ("b", "c"):
        theirs = own[(own["correction"] == "logit") & (own["equation"] == label)]["value"]
        np.testing.assert_allclose(
            result.params[f"choice of {label}"], theirs, rtol=EIGHT_DIGITS, atol=EIGHT_DIGITS
        )

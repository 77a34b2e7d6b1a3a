"""Our fits in the tables of maketables, without either importing the other."""

from __future__ import annotations

import numpy as np
import pandas as pd

import selfselect as ss


def test_the_hooks_answer_from_the_fit(result: ss.FitResult) -> None:
    table = result.__maketables_coef_table__
    assert list(table.index) == result.names
    assert list(table.columns) == ["b", "se", "t", "p", "ci95l", "ci95u"]
    np.testing.assert_array_equal(table["b"], result.params)
    np.testing.assert_array_equal(table["se"], result.bse)
    assert result.__maketables_stat__("N") == result.nobs
    assert result.__maketables_stat__("ll") == result.llf
    assert result.__maketables_stat__("unknown") is None
    assert result.__maketables_depvar__ == "income"
    assert result.__maketables_vcov_info__["vcov_type"] == "observed"
    assert result.__maketables_fixef_string__ is None
    assert set(result.__maketables_default_stat_keys__) <= {"N", "ll", "aic", "bic"}


def test_two_fits_stand_side_by_side(result: ss.FitResult, villagers: pd.DataFrame) -> None:
    """With other terms in each, which fails unless maketables finds the hooks."""
    import maketables

    small = ss.fit("income ~ height", villagers, chosen="job", covariance="robust")
    table = maketables.ETable([result, small]).df
    # maketables reads the colon as an interaction and prints a cross.
    names = [name.replace(" × ", ":") for _, name in table.index][:8]
    assert names == result.names
    cells = table.to_numpy()[names.index("hunting:weight")]
    assert cells[0].startswith(f"{result.params['hunting', 'weight']:.3f}")
    assert cells[1] == ""

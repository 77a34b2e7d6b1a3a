"""Our fit against R's survreg, alternative by alternative; the script beside this made the numbers.

With independent noise and scales of their own, the likelihood of the known index is a product of
censored regressions, one per alternative.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

HERE = Path(__file__).parent

AGREED = 1e-6
"""Both stop at the same optimum; survreg's own tolerance leaves some eight digits."""


@pytest.fixture(params=["max", "min"])
def rule(request):
    return request.param


@pytest.fixture
def reference(rule):
    table = pd.read_csv(HERE / "survreg_result.csv", comment="#")
    return table[table["rule"] == rule].set_index(["alternative", "term"])


@pytest.fixture
def result(rule):
    data = pd.read_csv(HERE / "survreg_data.csv")
    return ss.fit(f"y_{rule} ~ x1 + x2", data, chosen=f"chosen_{rule}", rule=rule)


def test_the_log_likelihood_is_the_sum_of_survregs(result, reference):
    total = reference.xs("loglik", level="term")["estimate"].sum()
    assert result.llf == pytest.approx(total, rel=AGREED)


def test_coefficients_and_scales_are_survregs(result, reference):
    wanted = reference["estimate"][result.params.index]
    np.testing.assert_allclose(result.params, wanted, rtol=AGREED)


def test_standard_errors_are_survregs(result, reference):
    wanted = reference["std_error"][result.bse.index]
    np.testing.assert_allclose(result.bse, wanted, rtol=AGREED)


def test_intervals_of_scales_are_survregs_on_the_log_scale(result, reference):
    scale = reference.xs("scale", level="term")
    reach = 1.959963984540054 * scale["std_error"] / scale["estimate"]
    found = result.conf_int().xs("scale", level="term")
    np.testing.assert_allclose(found["conf_low"], scale["estimate"] * np.exp(-reach), rtol=AGREED)
    np.testing.assert_allclose(found["conf_high"], scale["estimate"] * np.exp(reach), rtol=AGREED)

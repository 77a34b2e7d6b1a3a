"""Switching with coefficients in common, and endogenous treatments: one noise for all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.choose import moments_of

SELECTION = "treated ~ x + z"
TRUTH = {
    (0, "Intercept"): 1.0, (1, "Intercept"): 1.7, ("(common)", "x"): 0.5,
    ("(common)", "scale"): 1.3, ("(common)", "correlation"): 0.5, ("selection", "Intercept"): 0.2,
    ("selection", "x"): 0.4, ("selection", "z"): 0.8,
}  # fmt: skip


def simulate(n_rows=800, seed=0):
    rng = np.random.default_rng([seed, 7])
    x, z, u = rng.standard_normal((3, n_rows))
    noise = 0.5 * u + np.sqrt(0.75) * rng.standard_normal(n_rows)
    treated = (0.2 + 0.4 * x + 0.8 * z + u > 0).astype(int)
    y = 1 + 0.5 * x + 0.7 * treated + 1.3 * noise
    return pd.DataFrame(
        {"x": x, "z": z, "treated": treated, "y": y, "group": np.arange(n_rows) % 40}
    )


@pytest.fixture(scope="module")
def table():
    return simulate()


@pytest.fixture(scope="module", params=["slopes", ["x"]], ids=str)
def fit(table, request):
    return ss.switching("y ~ x", SELECTION, table, shared=request.param)


def test_the_truth_is_within_four_standard_errors():
    fit = ss.switching("y ~ x", SELECTION, simulate(4_000, seed=3), shared="slopes")
    assert fit.converged and set(fit.params.index) == set(TRUTH)
    for key, estimate in fit.params.items():
        assert abs(estimate - TRUTH[key]) < 4 * fit.bse[key], key


def test_models_nest_and_none_of_the_restrictions_is_rejected(table):
    one_noise, slopes, free = (
        ss.switching("y ~ x", SELECTION, table, shared=shared) for shared in ("slopes", ["x"], None)
    )
    assert one_noise.llf < slopes.llf < free.llf
    assert slopes.lr_test(one_noise).df == 2 and free.lr_test(slopes).df == 1
    assert not free.lr_test(one_noise).rejects()
    for fit in (one_noise, slopes):
        # Without correlation it is a probit, and one regression with a dummy.
        assert fit.llf_independent < fit.llf
        assert fit.independence_test().df == len(fit.correlations)


def test_one_noise_has_one_effect_for_everyone(table):
    fit = ss.switching("y ~ x", SELECTION, table, shared="slopes")
    found = fit.treatment_effects(1, 0, covariates="fixed").table
    gap = fit.params[1, "Intercept"] - fit.params[0, "Intercept"]
    np.testing.assert_allclose(found["estimate"], gap)
    error = np.sqrt(
        fit.bse[1, "Intercept"] ** 2
        + fit.bse[0, "Intercept"] ** 2
        - 2 * fit.cov_params().loc[(0, "Intercept"), (1, "Intercept")]
    )
    np.testing.assert_allclose(found["std_error"], error, rtol=1e-6)
    # That it is the same for both groups is no estimate, and has no error.
    parts = fit.heterogeneity(1, 0).table.query("of == 'effect' and group == 'difference'")
    assert (parts[["estimate", "std_error"]] == 0.0).all(axis=None)


def test_all_errors_and_files_and_pages_are_there(table, fit, tmp_path):
    shared = "slopes" if fit.problem.noise.scale == "common" else ["x"]
    for more in ({"covariance": "robust"}, {"cluster": "group"}):
        other = ss.switching("y ~ x", SELECTION, table, shared=shared, **more)
        assert 0.8 < (other.bse / fit.bse).median() < 1.25
    fit.save(tmp_path / "fit.json")
    again = ss.load(tmp_path / "fit.json")
    text = str(fit.summary())
    assert str(again.summary()) == text
    assert "all alternatives" in text and "(shared)" in text
    assert ("Endogenous treatment" in text) == (shared == "slopes")
    fit.report(tmp_path / "fit.html")
    ends = fit.conf_int(method="profile", params=["(common):x"]).iloc[0]
    assert ends["conf_low"] < fit.params["(common)", "x"] < ends["conf_high"]


def test_ordered_alternatives_may_share_slopes(ordered_table):
    order = ["none", "part", "full"]
    plain = ss.switching("pay ~ x", "hours ~ x + z", ordered_table, ordered=order)
    fit = ss.switching("pay ~ x", "hours ~ x + z", ordered_table, ordered=order, shared=["x"])
    assert fit.converged and plain.lr_test(fit).df == 2


@pytest.mark.parametrize("method", ["plain", "ordered"])
def test_an_offset_is_taken_off_the_outcome(table, method, tmp_path):
    more = {"ordered": [0, 1]} if method == "ordered" else {}
    added = np.random.default_rng(5).standard_normal(len(table))
    # Rows of the other alternative need no offset.
    data = table.assign(dues=np.where(table["treated"] == 1, added, np.nan),
                        y=table["y"] + np.where(table["treated"] == 1, added, 0.0))  # fmt: skip
    fit = ss.switching("y ~ x", SELECTION, data, offset={1: "dues"}, **more)
    plain = ss.switching("y ~ x", SELECTION, table, **more)
    assert fit.llf == pytest.approx(plain.llf, rel=1e-10)
    np.testing.assert_allclose(fit.params, plain.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.bse, plain.bse, rtol=1e-6)
    assert "offset(dues)" in str(fit.summary())
    free = ss.switching({0: "y ~ x", 1: "y ~ x + dues"}, SELECTION, data, **more)
    assert free.lr_test(fit).df == 1 and not free.lr_test(fit).rejects()
    fit.save(tmp_path / "fit.json")
    again, rows = ss.load(tmp_path / "fit.json"), data.assign(dues=added)
    for kind in ("latent", "outcome", "given_seen"):
        np.testing.assert_array_equal(again.predict(rows, kind), fit.predict(rows, kind))
    before, after = (one.treatment_effects(1, 0, data=rows.head(50)).table for one in (fit, again))
    pd.testing.assert_frame_equal(after, before)
    gap = fit.predict(rows)[1] - fit.predict(rows.assign(dues=0.0))[1]
    np.testing.assert_allclose(gap, added, atol=1e-9)
    moments, few = moments_of(fit.problem), fit.rows.take(np.flatnonzero(table["treated"] == 1)[:6])
    weights = np.linspace(0.5, 2.0, 6)
    _, slope = moments.cells_and_slope(fit.values, few, weights)
    for place in range(len(fit.values)):
        move = 1e-6 * (np.arange(len(fit.values)) == place)
        up, down = (weights @ moments.cells(fit.values + d, few) for d in (move, -move))
        np.testing.assert_allclose(slope[:, place], (up - down) / 2e-6, atol=1e-6)


def test_a_bad_offset_is_refused(table):
    with pytest.raises(ss.errors.DataError, match="is infinite in some rows"):
        ss.switching("y ~ x", SELECTION, table.assign(dues=np.inf), offset="dues")
    with pytest.raises(ss.errors.DataError, match="The offset column 'dues'"):
        ss.switching("y ~ x", SELECTION, table.assign(dues="much"), offset="dues")
    with pytest.raises(UnsupportedError, match="not in two steps"):
        ss.switching("y ~ x", SELECTION, table, offset="x", method="two-step")


def test_what_cannot_be_shared_is_said(table):
    with pytest.raises(OptionError, match="finds no covariate that two alternatives have"):
        ss.switching({0: "y ~ 1", 1: "y ~ x"}, SELECTION, table, shared="slopes")
    with pytest.raises(OptionError, match="There is no term 'w' to share"):
        ss.switching("y ~ x", SELECTION, table, shared=["w"])
    with pytest.raises(UnsupportedError, match="by maximum likelihood, not in two steps"):
        ss.switching("y ~ x", SELECTION, table, shared="slopes", method="two-step")


def test_the_shell_shares_too(table, tmp_path, capsys):
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["switching", str(tmp_path / "rows.csv"), SELECTION, "y ~ x", "--shared", "slopes",
              "--format", "csv"])  # fmt: skip
    assert ended.value.code == 0 and "(common),correlation" in capsys.readouterr().out


def test_shared_slopes_go_with_an_offset(table):
    data = table.assign(dues=np.linspace(-1.0, 1.0, len(table)))
    fit = ss.switching("y ~ x", SELECTION, data, shared="slopes", offset="dues")
    plain = ss.switching(
        "y ~ x", SELECTION, data.assign(y=data["y"] - data["dues"]), shared="slopes"
    )
    np.testing.assert_allclose(fit.values, plain.values, rtol=1e-5, atol=1e-7)
    assert fit.llf == pytest.approx(plain.llf, rel=1e-9)

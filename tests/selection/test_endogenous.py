"""Endogenous covariates: first-stage residuals in all equations, and errors over all steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, FormulaError, OptionError, UnsupportedError

OUTCOME, SELECTION = "y ~ x + w", "works ~ x + w + s"
INSTRUMENTS = {"x": "~ z1 + z2"}
TRUTH = {
    "Intercept": 0.2, "x": 0.4, "w": 0.3, "s": 0.8, "x_residual": 0.5,
}  # fmt: skip
STEP = 1e-3
"""By how much a row weighs more: estimates are quadratic in it."""
CORRECTED = 0.03
"""Scores that effects are crossed with are corrected for leverage, the weights' part is not."""
SPREAD = 0.25
"""Of a standard deviation over forty samples, twice its error."""
OUTCOMES = {"Intercept": 1.0, "x": 0.7, "w": 0.5, "x_residual": 0.6, "scale": 1.0}


def draw(n_rows, seed, *, endogenous=True):
    """Simulate rows in which what moves x moves selection and outcome as well."""
    rng = np.random.default_rng([seed, 17])
    z1, z2, w, s, v, u, e = rng.standard_normal((7, n_rows))
    x = 0.3 + 0.6 * z1 + 0.4 * z2 + 0.5 * w + v
    v = v * endogenous
    index = TRUTH["Intercept"] + TRUTH["x"] * x + TRUTH["w"] * w + TRUTH["s"] * s
    works = index + TRUTH["x_residual"] * v + u > 0
    noise = OUTCOMES["x_residual"] * v + 0.6 * u + 0.8 * e
    y = OUTCOMES["Intercept"] + OUTCOMES["x"] * x + OUTCOMES["w"] * w + noise
    other = -0.5 + 0.2 * x - 0.4 * v - 0.3 * u + 0.5 * e
    return pd.DataFrame(
        {
            "x": x, "w": w, "s": s, "z1": z1, "z2": z2, "works": works,
            "y": np.where(works, y, np.nan), "pay": np.where(works, y, other),
            "group": np.arange(n_rows), "weight": rng.integers(1, 4, n_rows),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    return draw(900, 3)


@pytest.fixture(params=["ml", "two-step"])
def method(request):
    return request.param


def fitted(data, method="ml", **options):
    options = {"endogenous": INSTRUMENTS, "start": "two-step", **options}
    return ss.sample_selection(OUTCOME, SELECTION, data, method=method, **options)


def test_the_truth_is_recovered_where_exogeneity_would_miss_it(method):
    data = draw(3_000, 5)
    fit, naive = fitted(data, method), fitted(data, method, endogenous=None)
    for label, truth in (("selection", TRUTH), ("outcome", OUTCOMES)):
        for term, value in truth.items():
            error = fit.bse[label, term] if np.isfinite(fit.bse[label, term]) else 0.05
            assert abs(fit.params[label, term] - value) < 4 * error, (label, term)
    assert abs(naive.params["outcome", "x"] - 0.7) > 8 * naive.bse["outcome", "x"]
    assert fit.exogeneity_test().p_value < 1e-6


def test_switching_has_residuals_in_every_outcome():
    fit = ss.switching(
        {1: "pay ~ x + w", 0: "pay ~ x"}, SELECTION, draw(3_000, 6), endogenous=INSTRUMENTS
    )
    for label, slope, residual in ((1, 0.7, 0.6), (0, 0.2, -0.4)):
        assert abs(fit.params[label, "x"] - slope) < 4 * fit.bse[label, "x"]
        assert abs(fit.params[label, "x_residual"] - residual) < 4 * fit.bse[label, "x_residual"]
    assert fit.exogeneity_test().df == 3


def test_what_is_exogenous_stays_about_as_it_was(method):
    data = draw(2_000, 8, endogenous=False)
    fit, known = fitted(data, method), fitted(data, method, endogenous=None)
    away = (fit.params.drop("x_residual", level="term") - known.params).dropna()
    assert (away.abs() < 3.5 * fit.bse.reindex(away.index).fillna(0.05)).all()
    assert fit.exogeneity_test().p_value > 0.01
    # It costs precision: the slope rests on what instruments move.
    assert fit.bse["outcome", "x"] > 1.3 * known.bse["outcome", "x"]


def test_residuals_are_those_of_least_squares_on_all_that_is_exogenous(rows):
    fit = fitted(rows)
    w = np.column_stack([np.ones(len(rows)), rows[["w", "s", "z1", "z2"]]])
    coefficients, left, *_ = np.linalg.lstsq(w, rows["x"], rcond=None)
    made = fit.with_residuals(rows)
    np.testing.assert_allclose(made["x_residual"], rows["x"] - w @ coefficients, atol=1e-10)
    short = w[:, :3]
    gain = np.linalg.lstsq(short, rows["x"], rcond=None)[1][0] - left[0]
    statistic = (gain / 2) / (left[0] / (len(rows) - 5))
    said = " ".join(str(fit.summary()).split())
    assert f"First stage of x: z1, z2; F(2, 895) = {statistic:.4g}." in said
    assert "Wald test of exogeneity (null: x is unrelated to all noises)" in said
    assert "as are likelihood-ratio tests" in said


def test_errors_are_those_of_a_bootstrap_of_all_steps(rows):
    """The bootstrap fits the first stage anew in every sample."""
    fit = fitted(rows, "two-step")
    drawn = fitted(rows, "two-step", covariance=ss.inference.Bootstrap(80), seed=1)
    ratio = (fit.bse / drawn.bse).dropna()
    assert ratio.between(0.7, 1.4).all() and abs(np.log(ratio).mean()) < 0.1
    assert drawn.covariance.description == "bootstrap of rows, 80 samples"


def test_the_first_stage_adds_to_errors_and_kinds_of_them_agree(rows, method):
    fit = fitted(rows, method)
    data = fit.with_residuals(rows)
    known = ss.sample_selection(
        f"{OUTCOME} + x_residual", f"{SELECTION} + x_residual", data, method=method,
        start="two-step",
    )  # fmt: skip
    np.testing.assert_allclose(fit.values, known.values, atol=1e-7)
    more = fit.covariance.matrix - known.covariance.matrix
    assert (
        np.linalg.eigvalsh(more).min() > -1e-9
        and fit.bse["outcome", "x"] > 1.05 * known.bse["outcome", "x"]
    )
    robust = fitted(rows, method, covariance="HC0")
    ratio = (robust.bse / fit.bse).dropna()
    assert ratio.between(0.75, 1.3).all()
    clustered = fitted(rows, method, cluster="group")
    factor = np.sqrt(len(rows) / (len(rows) - 1))
    np.testing.assert_allclose(clustered.bse.dropna(), factor * robust.bse.dropna(), rtol=1e-6)
    repeated = rows.loc[rows.index.repeat(rows["weight"])]
    weighed = fitted(rows, method, weights="weight", weights_kind="frequency", covariance="HC0")
    wanted = fitted(repeated, method, covariance="HC0")
    np.testing.assert_allclose(weighed.values, wanted.values, atol=1e-5)
    np.testing.assert_allclose(weighed.bse, wanted.bse, rtol=1e-4)
    assert weighed.coding.first_stages[0].statistic == pytest.approx(
        wanted.coding.first_stages[0].statistic
    )


def test_effects_hold_the_residual_and_loaded_fits_know_it(rows, tmp_path):
    fit = fitted(rows)
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(fit.summary())
    new = draw(50, 9)
    with pytest.raises(DataError, match=r"no column 'x_residual'.*with_residuals\(data\)"):
        loaded.predict(new)
    whole = loaded.with_residuals(new)
    np.testing.assert_array_equal(loaded.predict(whole), fit.predict(fit.with_residuals(new)))
    moved = loaded.predict(whole.assign(x=whole["x"] + 1), "latent")
    gain = moved - loaded.predict(whole, "latent")
    np.testing.assert_allclose(gain, fit.params["outcome", "x"], rtol=1e-9)
    assert np.isfinite(fit.marginal_effects().table["std_error"]).all()


def paid(data, **options):
    return ss.switching(
        "pay ~ x", "works ~ x + s", data, endogenous=INSTRUMENTS, start="two-step", **options
    )


def test_errors_of_effects_count_what_rows_do_to_residuals(rows):
    """They are those of what a little more weight of each row does to all steps and averages."""
    data = rows.head(150).assign(weight=1.0)
    # The residual counts for much in this outcome.
    data["pay"] -= np.where(data["works"], 1.3, 0.0) * (data["x"] - data["z1"])
    options = {"weights": "weight", "weights_kind": "probability"}
    tables = {
        "treatment_effects": lambda fit: fit.treatment_effects(True, False),
        "potential_outcomes": lambda fit: fit.potential_outcomes(),
        "mte": lambda fit: fit.mte(),
    }

    def answers(table, **more):
        fit = paid(table, **options, **more)
        return {name: ask(fit).table for name, ask in tables.items()}

    def heavier(i, by):
        weights = data["weight"].to_numpy().copy()
        weights[i] += by
        found = answers(data.assign(weight=weights), covariance="HC0")
        return np.concatenate([one["estimate"] for one in found.values()])

    wanted = answers(data, covariance="HC0")
    errors = np.concatenate([one["std_error"] for one in wanted.values()])
    base = np.concatenate([one["estimate"] for one in wanted.values()])
    each = np.array([(heavier(i, STEP) - base) / STEP for i in range(len(data))])
    np.testing.assert_allclose(errors, np.sqrt((each**2).sum(axis=0)), rtol=CORRECTED)


@pytest.mark.parametrize("covariance", ["observed", ss.inference.Bootstrap(20)])
def test_errors_of_effects_match_the_spread_of_estimates(covariance):
    found = []
    for seed in range(40):
        data = draw(300, 100 + seed)
        data["pay"] -= np.where(data["works"], 1.3, 0.0) * (data["x"] - data["z1"])
        fit = paid(data, method="two-step", covariance=covariance, seed=0)
        table = fit.potential_outcomes().table.query("group == 'everyone' and alternative == True")
        found.append(table[["estimate", "std_error"]].to_numpy()[0])
    estimates, errors = np.transpose(found)
    assert np.median(errors) == pytest.approx(estimates.std(ddof=1), rel=SPREAD)


def test_effects_of_given_rows_take_residuals_as_given_and_say_so(rows, tmp_path):
    fit, given = paid(rows), "The residuals of first stages are taken as given."
    assert given not in str(fit.treatment_effects(True, False))
    fit.save(tmp_path / "fit.json")
    loaded, new = ss.load(tmp_path / "fit.json"), fit.with_residuals(rows)
    said = " ".join(str(loaded.treatment_effects(True, False, new)).split())
    assert given in said
    fixed = loaded.treatment_effects(True, False, new, covariates="fixed")
    assert given not in " ".join(str(fixed).split())


def test_hc1_counts_the_parameters_that_have_errors(rows, method):
    names = ("HC1", "HC0")
    one, other = (fitted(rows, method, covariance=name).bse.dropna() for name in names)
    n_rows, n_parameters = len(rows), len(one)
    np.testing.assert_allclose((one / other) ** 2, n_rows / (n_rows - n_parameters), rtol=1e-9)


def test_polynomial_effects_without_the_first_stage_are_refused(rows):
    with pytest.raises(UnsupportedError, match=r"leave out the error of the first stage.*'normal'"):
        paid(rows).mte(kind="polynomial")


def test_a_verdict_refits_by_no_two_steps_without_the_first_stage(rows):
    verdict = paid(rows).verdict()
    assert "Errors of a refit would leave out the first stage" in " ".join(str(verdict).split())


def test_weak_instruments_are_said():
    data = draw(400, 2).assign(z1=lambda t: t["z1"] * 0 + np.sin(np.arange(len(t))))
    said = " ".join(str(fitted(data, endogenous={"x": "~ z1"}).summary()).split())
    assert "weak: below 10 (Staiger and Stock 1997)" in said


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"endogenous": {}}, OptionError, "which instruments it has"),
        ({"endogenous": {"x": "z1"}}, FormulaError, "right side of a formula"),
        ({"endogenous": {"q": "~ z1"}}, OptionError, "'q' is in no equation"),
        ({"endogenous": {"x": "~ w"}}, OptionError, "instruments that no outcome has"),
        ({"endogenous": {"x": "~ z1", "w": "~ z1"}}, OptionError, "2 endogenous covariates need"),
        ({"endogenous": {"x": "~ z1 + x"}}, FormulaError, "cannot be an instrument of 'x'"),
        ({"endogenous": {"x": "~ y"}}, FormulaError, "cannot be an instrument of 'x'"),
        ({"endogenous": {"x": "~ q"}}, DataError, "no column 'q'"),
        ({"endogenous": INSTRUMENTS, "binary": True}, UnsupportedError, "binary"),
    ],
)
def test_what_cannot_be_is_refused(rows, options, error, words):
    with pytest.raises(error, match=words):
        fitted(rows, **options)


def test_other_fits_have_no_first_stage(rows):
    fit = fitted(rows, endogenous=None)
    with pytest.raises(UnsupportedError, match="taken as exogenous"):
        fit.exogeneity_test()
    with pytest.raises(DataError, match="There is a column 'x_residual'"):
        fitted(rows.assign(x_residual=0.0, q=1.0), endogenous={"x": "~ z1 + x_residual"})


def test_rows_without_an_instrument_are_left_out_with_a_count(rows):
    lacking = rows.assign(z1=rows["z1"].where(rows["z1"] < 1.5))
    n_lacking = int((rows["z1"] >= 1.5).sum())
    with pytest.warns(ss.errors.MissingRowsWarning, match=f"{n_lacking} of 900 rows"):
        fit = fitted(lacking)
    whole = fitted(rows[rows["z1"] < 1.5])
    np.testing.assert_allclose(fit.values, whole.values, atol=1e-9)


def test_rows_without_a_covariate_of_an_outcome_they_do_not_show_are_refused(rows):
    """Left out, they would be chosen by the selection, and its constant would be wrong."""

    def fit(data):
        return ss.sample_selection(f"{OUTCOME} + t", SELECTION, data, endogenous=INSTRUMENTS)

    shown = rows.assign(t=np.random.default_rng(0).normal(size=len(rows)))
    assert fit(shown).nobs == len(rows)
    idle = ~shown["works"]
    for lacking in (idle, idle & (shown["s"] > 0)):
        with pytest.raises(DataError, match=rf"{lacking.sum()} rows .* lack its covariate 't'"):
            fit(shown.assign(t=shown["t"].mask(lacking)))
    # Rows without a choice, or of weight zero, are not looked at.
    apart = shown.assign(t=shown["t"].mask(idle & (shown["s"] > 0)), weight=1.0)
    apart.loc[apart["t"].isna(), "weight"] = 0.0
    with pytest.warns(ss.errors.MissingRowsWarning):
        found = ss.sample_selection(
            f"{OUTCOME} + t", SELECTION, apart, endogenous=INSTRUMENTS,
            weights="weight", weights_kind="probability",
        )  # fmt: skip
    assert found.nobs == apart["t"].notna().sum()
    apart = shown.assign(works=shown["works"].astype(float).where(shown["s"] < 1.5))
    apart.loc[::7, "z1"] = np.nan
    with pytest.warns(ss.errors.MissingRowsWarning):
        found = ss.sample_selection(
            OUTCOME, SELECTION, apart, endogenous=INSTRUMENTS, missing_outcome="drop"
        )
    assert found.nobs == apart[["works", "z1"]].notna().all(axis=1).sum()
    # Rows that lack a covariate of their own outcome, or lack it whatever was chosen, are left out.
    some = np.random.default_rng(1).random(len(rows)) < 0.2
    for lacking in (shown["works"] & (shown["s"] > 1), some, idle & (np.arange(len(rows)) == 7)):
        with pytest.warns(ss.errors.MissingRowsWarning):
            assert fit(shown.assign(t=shown["t"].mask(lacking))).nobs == (~lacking).sum()


def test_an_endogenous_covariate_of_two_values_is_said(rows, tmp_path):
    two = rows.assign(x=(rows["x"] > 0.3).astype(float))
    fit = fitted(two)
    assert "x has two values: its first stage is linear" in str(fit.summary()).replace("\n  ", " ")
    fit.save(tmp_path / "fit.json")
    assert str(ss.load(tmp_path / "fit.json").summary()) == str(fit.summary())
    assert "has two values" not in str(fitted(rows).summary())

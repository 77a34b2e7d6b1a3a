"""Switching among ordered alternatives: an ordered probit selects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.errors import DataError, FormulaError, OptionError, UnsupportedError
from selfselect.inference import Bootstrap

ORDER = ["none", "part", "full"]
FORMULAS = {"none": "pay ~ x", "part": "pay ~ x + w", "full": "pay ~ x"}
SELECTION = "hours ~ x + z"
DRAWS = 4_000


def fit_of(table, **options):
    return ss.switching(FORMULAS, SELECTION, table, ordered=ORDER, **options)


@pytest.fixture(scope="module")
def fit(ordered_table):
    return fit_of(ordered_table)


def natural_of(model, correlations):
    rng = np.random.default_rng(1)
    natural = 0.3 * rng.standard_normal(model.layout.n_natural)
    natural[model.layout.inverse_scale_positions] = rng.uniform(0.6, 1.4, len(model.at_t))
    natural[model.at_t] = np.arctanh(correlations)
    natural[-2:] = 0.6, -0.5
    return natural


@pytest.fixture(params=[(0.6, -0.5, 0.2), (-0.9, 0.95, -0.9), (0.0, 0.0, 0.0)], ids=str)
def at(ordered_table, build_ordered, request):
    model = build_ordered(ordered_table.iloc[:40])
    return model, natural_of(model, request.param)


def test_cut_points_out_of_order_have_no_likelihood(at):
    model, natural = at
    natural = natural.copy()
    natural[-2:] = natural[-2:][::-1]
    assert model.evaluate(natural).loglik == -np.inf


def test_narrow_and_far_intervals_stay_finite(ordered_table, build_ordered):
    model = build_ordered(ordered_table)
    for cuts in ((1e-9, 0.0), (40.0, 30.0), (-30.0, -40.0)):
        natural = natural_of(model, (0.9, -0.9, 0.5))
        natural[-2:] = cuts
        found = model.evaluate(natural)
        assert np.isfinite(found.loglik) and np.isfinite(found.score).all()


def test_the_truth_is_within_four_standard_errors(simulate_ordered):
    fit = fit_of(simulate_ordered(4_000, seed=3))
    assert fit.converged and fit.boundary == ()
    for key, estimate in fit.params.items():
        assert abs(estimate - simulate_ordered.truth[key]) < 4 * fit.bse[key], key


def test_two_ordered_alternatives_are_a_switching_regression(simulate):
    table = simulate(1_000, seed=2)
    formulas = {"in": "y ~ x", "out": "y ~ x + w"}
    plain = ss.switching(formulas, "chosen ~ x + z", table, covariance="robust")
    same = ss.switching(
        formulas, "chosen ~ x + z", table, ordered=["out", "in"], covariance="robust"
    )
    assert same.llf == pytest.approx(plain.llf, rel=1e-12)
    for label in ("in", "out"):
        for one in ("params", "bse"):
            np.testing.assert_allclose(
                getattr(same, one)[label], getattr(plain, one)[label], rtol=1e-8
            )
    assert same.params["selection", "cut out|in"] == pytest.approx(
        -plain.params["selection", "Intercept"], rel=1e-8
    )
    for kind in ("chance", "outcome", "given_seen"):
        a, b = same.predict(kind=kind), plain.predict(kind=kind)
        if kind != "outcome":
            b = b[a.columns]
        np.testing.assert_allclose(a, b, rtol=1e-8)
    a, b = (
        one.treatment_effects("in", "out").table[["estimate", "std_error"]] for one in (same, plain)
    )
    np.testing.assert_allclose(a, b, rtol=1e-7)


def test_the_reversed_order_is_the_same_model(ordered_table, fit):
    other = ss.switching(FORMULAS, SELECTION, ordered_table, ordered=ORDER[::-1])
    assert other.llf == pytest.approx(fit.llf, rel=1e-12)
    for label in ORDER:
        np.testing.assert_allclose(
            other.params[label].drop("correlation"), fit.params[label].drop("correlation"),
            rtol=1e-6,
        )  # fmt: skip
        assert other.correlations[label] == pytest.approx(-fit.correlations[label], rel=1e-6)
    assert other.params["selection", "cut full|part"] == pytest.approx(
        -fit.params["selection", "cut part|full"], rel=1e-6
    )


def test_a_weight_counts_rows_and_a_single_start_finds_the_same(ordered_table, fit):
    repeated = ordered_table.loc[ordered_table.index.repeat(ordered_table["weight"].astype(int))]
    weighted, plain = fit_of(ordered_table, weights="weight"), fit_of(repeated)
    assert weighted.llf == pytest.approx(plain.llf, rel=1e-9)
    np.testing.assert_allclose(weighted.params, plain.params, rtol=1e-5, atol=1e-7)
    assert fit_of(ordered_table, start="two-step").llf == pytest.approx(fit.llf, rel=1e-10)


def test_the_start_looks_at_the_best_of_all_combinations(fit):
    """What a combination promises adds up over alternatives, so the best are found one by one."""
    names = fit.starts["name"].tolist()
    assert names[0] == "two-step" and len(names) == 4
    assert fit.starts["loglik"].max() == fit.llf


def test_errors_may_be_robust_clustered_or_by_bootstrap(ordered_table, fit):
    robust, own = fit_of(ordered_table, covariance="robust"), fit_of(ordered_table, cluster="group")
    sizes = ordered_table["group"].value_counts()
    assert own.covariance.df == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum() - 1)
    drawn = fit_of(ordered_table, covariance=Bootstrap(40), seed=1)
    for other in (robust, own, drawn):
        assert 0.7 < (other.bse / fit.bse).median() < 1.4
    rows = fit_of(ordered_table, cluster=np.arange(len(ordered_table)))
    np.testing.assert_allclose(rows.covariance.matrix, robust.covariance.matrix, rtol=1e-9)


@pytest.fixture(scope="module")
def drawn(fit, ordered_table):
    """Draw selections and all outcomes; how those correlate given the selection is arbitrary."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((len(ordered_table), DRAWS))
    params = fit.params
    index = sum(params["selection", term] * ordered_table[term] for term in "xz")
    cuts = [params["selection", term] for term in ("cut none|part", "cut part|full")]
    chosen = np.digitize(index.to_numpy()[:, None] + u, cuts)
    outcomes = {}
    for label in ORDER:
        own = params[label]
        mean = own["Intercept"] + sum(own[t] * ordered_table[t] for t in "xw" if t in own)
        rho = own["correlation"]
        noise = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(u.shape)
        outcomes[label] = mean.to_numpy()[:, None] + own["scale"] * noise
    return chosen, outcomes


def test_marginal_effects_are_differences_of_chances(fit, ordered_table):
    found = fit.marginal_effects("z").table.set_index("alternative")["estimate"]
    step = 1e-4
    for label in ORDER:
        up, down = (
            fit.predict(ordered_table.assign(z=ordered_table["z"] + d), "chance")[label].mean()
            for d in (step, -step)
        )
        assert found[label] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-8)


def test_numbers_and_ordered_categories_have_an_order_of_their_own(ordered_table, fit):
    numbers = ordered_table.assign(
        hours=ordered_table["hours"].map({"none": 0, "part": 20, "full": 40})
    )
    by_number = ss.switching("pay ~ x", SELECTION, numbers, ordered=True)
    assert by_number.problem.rule.order == (0, 20, 40)
    category = pd.Categorical(ordered_table["hours"], ORDER, ordered=True)
    by_category = ss.switching(
        FORMULAS, SELECTION, ordered_table.assign(hours=category), ordered=True
    )
    assert by_category.llf == pytest.approx(fit.llf, rel=1e-12)


def test_what_is_not_an_order_is_refused(ordered_table):
    def ask(order, data=ordered_table, **options):
        ss.switching("pay ~ x", SELECTION, data, ordered=order, **options)

    with pytest.raises(OptionError, match=r"have no order\. Give it"):
        ask(True)
    with pytest.raises(OptionError, match=r"have no order\. Give it"):
        ask(True, ordered_table.assign(hours=ordered_table["hours"].astype("category")))
    for order in (["none", "part"], ["none", "part", "part"], ["none", "part", "more"]):
        with pytest.raises(OptionError, match="does not name the labels of 'hours' once each"):
            ask(order)
    for order in ("none,part,full", 3):
        with pytest.raises(OptionError, match=r"is not possible. Give the labels of 'hours'"):
            ask(order)
    with pytest.raises(UnsupportedError, match="by maximum likelihood, not in two steps"):
        ask(ORDER, method="two-step")
    with pytest.raises(OptionError, match="Leave `towards` out"):
        ask(ORDER, towards="full")
    with pytest.raises(DataError, match=r"give ordered=\[...\] if they have an order"):
        ask(None)
    with pytest.raises(FormulaError, match="has no covariate"):
        ss.switching("pay ~ x", "hours ~ 1", ordered_table, ordered=ORDER)


def test_alternatives_of_too_few_rows_and_perfect_prediction_are_refused(ordered_table):
    one = ordered_table[
        (ordered_table["hours"] != "part") | (ordered_table["hours"].shift() == "x")
    ]
    one = pd.concat([one, ordered_table[ordered_table["hours"] == "part"].iloc[:1]])
    with pytest.raises(DataError, match="part"):
        ss.switching("pay ~ x", SELECTION, one, ordered=ORDER)
    rank = ordered_table["hours"].map({label: j for j, label in enumerate(ORDER)})
    with pytest.raises(DataError, match="predicts selection perfectly"):
        ss.switching("pay ~ x", "hours ~ x + rank", ordered_table.assign(rank=rank), ordered=ORDER)
    with pytest.raises(DataError, match="does not vary"):
        ss.switching("pay ~ x", "hours ~ x + c", ordered_table.assign(c=1.0), ordered=ORDER)


def test_the_summary_names_cut_points_and_the_way_the_index_points(fit):
    text = str(fit.summary())
    for words in (
        "Endogenous switching among ordered alternatives, maximum likelihood",
        "selection, from none to full", "cut none|part", "Excluded from part: z; strength",
    ):  # fmt: skip
        assert words in text
    assert max(map(len, text.splitlines())) <= 79


def test_profile_intervals_hold_the_estimates(fit):
    ends = fit.conf_int(method="profile", params=["selection:cut none|part", "part:correlation"])
    for key, row in ends.iterrows():
        assert row["conf_low"] < fit.params[key] < row["conf_high"]


def test_the_shell_takes_an_order(ordered_table, tmp_path, capsys):
    ordered_table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["switching", str(tmp_path / "rows.csv"), SELECTION, "pay ~ x", "--ordered",
                 "none, part, full", "--format", "csv"])  # fmt: skip
    assert ended.value.code == 0 and "cut part|full" in capsys.readouterr().out

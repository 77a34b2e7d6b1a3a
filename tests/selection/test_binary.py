"""Binary outcomes under sample selection: a probit of which some rows are selected."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal, norm

import selfselect as ss
from selfselect.cli.main import main
from selfselect.errors import DataError, UnsupportedError
from selfselect.inference import Bootstrap
from selfselect.likelihoods import evaluate, row_terms
from selfselect.moments.choose import moments_of

TRUTH = {
    ("outcome", "Intercept"): 0.3, ("outcome", "x"): 0.7, ("outcome", "correlation"): 0.6,
    ("selection", "Intercept"): 0.2, ("selection", "x"): 0.5, ("selection", "z"): 0.8,
}  # fmt: skip
FIVE_ERRORS = 5.0


def simulate(n_rows=600, seed=0):
    rng = np.random.default_rng([seed, 8])
    x, z, u = rng.standard_normal((3, n_rows))
    noise = 0.6 * u + 0.8 * rng.standard_normal(n_rows)
    works = 0.2 + 0.5 * x + 0.8 * z + u > 0
    y = np.where(works, (0.3 + 0.7 * x + noise > 0).astype(float), np.nan)
    weight = rng.integers(1, 4, n_rows).astype(float)
    return pd.DataFrame(
        {"x": x, "z": z, "works": works, "y": y, "weight": weight, "group": np.arange(n_rows) % 50}
    )


def fit_of(table, **options):
    return ss.sample_selection("y ~ x", "works ~ x + z", table, binary=True, **options)


@pytest.fixture(scope="module")
def table():
    return simulate()


@pytest.fixture(scope="module")
def fit(table):
    return fit_of(table)


def test_the_log_likelihood_is_that_of_two_normal_variables(fit, table):
    params = fit.params
    a = params["outcome", "Intercept"] + params["outcome", "x"] * table["x"]
    gamma = params["selection"]
    m = gamma["Intercept"] + gamma["x"] * table["x"] + gamma["z"] * table["z"]
    rho, total = params["outcome", "correlation"], 0.0
    for ai, mi, y in zip(a, m, table["y"], strict=True):
        if np.isnan(y):
            total += norm.logcdf(-mi)
            continue
        side = 1.0 if y == 1 else -1.0
        covariance = [[1, side * rho], [side * rho, 1]]
        total += np.log(multivariate_normal([0, 0], covariance).cdf([side * ai, mi]))
    assert fit.llf == pytest.approx(total, abs=1e-5)


def test_score_and_hessian_are_slopes_and_rows_add_up(fit):
    layout = fit.problem.layout
    free = layout.natural(fit.solution.free) + 0.1
    free[layout.inverse_scale_positions] = 1.0

    def at(natural):
        return evaluate(fit.problem, natural, fit.engine.batch)

    found, step = at(free), 1e-5
    for place in np.setdiff1d(np.arange(len(free)), layout.inverse_scale_positions):
        move = step * (np.arange(len(free)) == place)
        up, down = at(free + move), at(free - move)
        slope = (up.loglik - down.loglik) / (2 * step)
        assert found.score[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)
        curve = (up.score - down.score) / (2 * step)
        size = np.abs(found.hessian).max()
        np.testing.assert_allclose(found.hessian[place], curve, atol=1e-6 * size)
    each = row_terms(fit.problem, free, fit.engine.batch)
    np.testing.assert_allclose(each.score.sum(axis=0), found.score, atol=1e-7)
    assert each.loglik.sum() == pytest.approx(found.loglik, rel=1e-12)


def test_the_truth_is_within_four_standard_errors():
    fit = fit_of(simulate(4_000, seed=3))
    assert fit.converged and set(fit.params.index) == set(TRUTH)
    for key, estimate in fit.params.items():
        assert abs(estimate - TRUTH[key]) < 4 * fit.bse[key], key


def test_units_weights_and_starts_do_not_matter(fit, table):
    moved = fit_of(table.assign(x=1e4 + 100 * table["x"]))
    assert moved.llf == pytest.approx(fit.llf, rel=1e-9)
    assert moved.params["outcome", "x"] == pytest.approx(fit.params["outcome", "x"] / 100, rel=1e-5)
    repeated = table.loc[table.index.repeat(table["weight"].astype(int))]
    weighted, plain = fit_of(table, weights="weight"), fit_of(repeated)
    assert weighted.llf == pytest.approx(plain.llf, rel=1e-9)
    np.testing.assert_allclose(weighted.params, plain.params, rtol=1e-5, atol=1e-7)
    alone = fit_of(table, start="two-step")
    assert alone.llf == pytest.approx(fit.llf, rel=1e-10)
    assert "Climbed from two probits alone" in " ".join(str(alone.summary()).split())


def test_the_other_outcome_is_the_mirror_image(fit, table):
    mirrored = fit_of(table.assign(y=1 - table["y"]))
    assert mirrored.llf == pytest.approx(fit.llf, rel=1e-10)
    np.testing.assert_allclose(mirrored.params["outcome"], -fit.params["outcome"], rtol=1e-5)
    np.testing.assert_allclose(mirrored.bse, fit.bse, rtol=1e-5)


def test_without_correlation_it_is_two_probits(table):
    fit = fit_of(table)
    naive = fit.compare().table["naive"]
    own = table[table["works"]]
    a = naive["outcome", "Intercept"] + naive["outcome", "x"] * own["x"]
    probit = norm.logcdf(np.where(own["y"] == 1, a, -a)).sum()
    gamma = ss.sample_selection(
        "w ~ 1", "works ~ x + z", table.assign(w=table["x"].where(table["works"])),
        method="two-step",
    ).params["selection"]  # fmt: skip
    m = gamma["Intercept"] + gamma["x"] * table["x"] + gamma["z"] * table["z"]
    first = norm.logcdf(np.where(table["works"], m, -m)).sum()
    assert fit.llf_independent == pytest.approx(probit + first, rel=1e-9)
    assert fit.independence_test().df == 1


def test_means_and_effects_are_those_of_what_is_drawn(fit, table):
    rng, params = np.random.default_rng(0), fit.params
    u = rng.standard_normal((len(table), 3_000))
    rho = params["outcome", "correlation"]
    noise = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(u.shape)
    gamma = params["selection"]
    m = gamma["Intercept"] + gamma["x"] * table["x"] + gamma["z"] * table["z"]
    a = params["outcome", "Intercept"] + params["outcome", "x"] * table["x"]
    chosen, y = m.to_numpy()[:, None] + u > 0, a.to_numpy()[:, None] + noise > 0

    def agrees(estimate, values):
        return abs(estimate - values.mean()) < FIVE_ERRORS * values.std() / np.sqrt(values.size)

    found = fit.potential_outcomes().table.set_index("group")["estimate"]
    assert agrees(found["everyone"], y) and agrees(found["outcome"], y[chosen])
    assert agrees(fit.choice_probabilities().table["estimate"].iloc[0], chosen)
    row = 5
    given = fit.predict(kind="given_seen").iloc[row].to_numpy()
    assert agrees(given[0], y[row][chosen[row]]) and agrees(given[1], y[row][~chosen[row]])
    np.testing.assert_allclose(fit.predict(), a, rtol=1e-9)


def test_derivatives_of_the_cells_are_those_of_the_parameters(fit):
    moments, rows = moments_of(fit.problem), fit.rows.take(slice(0, 7))
    weights = np.linspace(0.5, 2.0, 7)
    _, slope = moments.cells_and_slope(fit.values, rows, weights)
    for place in range(len(fit.values)):
        move = 1e-6 * (np.arange(len(fit.values)) == place)
        up, down = (weights @ moments.cells(fit.values + d, rows) for d in (move, -move))
        np.testing.assert_allclose(slope[:, place], (up - down) / 2e-6, atol=1e-6)


def test_all_errors_files_and_pages_are_there(fit, table, tmp_path):
    for more in ({"covariance": "robust"}, {"cluster": "group"},
                 {"covariance": Bootstrap(30), "seed": 1}):  # fmt: skip
        other = fit_of(table, **more)
        assert 0.6 < (other.bse / fit.bse).median() < 1.6
        assert np.isfinite(other.naive_fit.std_errors[0]).all()
    fit.save(tmp_path / "fit.json")
    text = str(fit.summary())
    assert str(ss.load(tmp_path / "fit.json").summary()) == text
    assert "Probit with sample selection, maximum likelihood" in text
    fit.report(tmp_path / "fit.html")
    ends = fit.conf_int(method="profile", params=["outcome:correlation"]).iloc[0]
    assert ends["conf_low"] < fit.correlations["outcome"] < ends["conf_high"]


def test_rows_without_a_recorded_outcome_count_for_the_selection(table):
    lost = table.assign(y=table["y"].mask(table.index % 6 == 0))
    fit = fit_of(lost, missing_outcome="silent")
    each = row_terms(fit.problem, fit.problem.layout.natural(fit.solution.free), fit.engine.batch)
    silent = (lost["works"] & lost["y"].isna()).to_numpy()
    np.testing.assert_allclose(
        each.loglik[silent], np.log(fit.predict(kind="chance"))[silent], rtol=1e-9
    )


def test_what_is_not_binary_or_cannot_be_done_is_said(table):
    with pytest.raises(DataError, match="needs an outcome of 1 and 0"):
        fit_of(table.assign(y=table["y"] + 1))
    with pytest.raises(UnsupportedError, match="by maximum likelihood"):
        fit_of(table, method="two-step")
    with pytest.raises(DataError, match="predict the outcome perfectly"):
        ss.sample_selection(
            "y ~ x + w",
            "works ~ x + z",
            table.assign(w=table["y"].fillna(0) + 0.1 * table["x"] ** 2 / 10),
            binary=True,
        )
    fit = fit_of(table)
    with pytest.raises(UnsupportedError, match="A binary outcome has no residuals"):
        ss.plots.residuals(fit)
    with pytest.raises(UnsupportedError, match="does not lie on the lines"):
        ss.plots.selection_lines(fit, "x")


def test_a_search_on_a_sample_ends_where_one_on_all_rows_does(monkeypatch):
    table = simulate(2_500, seed=4)
    whole = fit_of(table)
    monkeypatch.setattr("selfselect.solvers.selection_search.SAMPLE", 600)
    sampled = fit_of(table)
    assert sampled.llf == pytest.approx(whole.llf, rel=1e-11)
    assert sampled.llf_independent == pytest.approx(whole.llf_independent, rel=1e-9)
    np.testing.assert_allclose(sampled.params, whole.params, rtol=1e-5)


def test_two_values_in_a_linear_model_are_said(table):
    fit = ss.sample_selection("y ~ x", "works ~ x + z", table)
    said = " ".join(str(fit.summary()).split())
    assert "The outcome y has two values, 0 and 1" in said and "binary=True" in said
    assert "two values" not in str(fit_of(table).summary())


def test_the_shell_takes_binary_outcomes(table, tmp_path, capsys):
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["selection", str(tmp_path / "rows.csv"), "y ~ x", "works ~ x + z", "--binary"])
    assert ended.value.code == 0 and "Probit with sample selection" in capsys.readouterr().out

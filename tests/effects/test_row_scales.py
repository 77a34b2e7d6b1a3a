"""Where scales move with covariates, everything after a fit uses each row's own."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.noises import Correlated, Independent, Mixture, Student
from selfselect.noises.base import COMMON
from selfselect.plots.qq import qq
from selfselect.results.memberships import generalised_residuals

matplotlib.use("Agg")

AGE = Independent(scale="~ age")
MIXED = ("share", "mean", "spread")

DRAWS = 200_000
MONTE_CARLO = 5.0
"""Standard errors by which one of a few dozen simulated means may be off."""


AGREED, ERRORS = 1e-8, 1e-6
"""What engines promise of parameters and of their errors."""


def made(n_rows=500, seed=0, shape="normal"):
    rng = np.random.default_rng([seed, 16])
    table = pd.DataFrame({"x": rng.standard_normal(n_rows), "age": rng.uniform(20, 60, n_rows)})
    decades = (table["age"].to_numpy() - 40) / 10
    outcomes = np.column_stack([1.0 + table["x"], 1.2 - 0.5 * table["x"]])
    draws = {
        "normal": rng.standard_normal,
        "logistic": rng.logistic,
        "heavy": lambda size: rng.standard_t(4, size) / np.sqrt(2.0),
    }
    noise = draws[shape](size=(n_rows, 2)) * np.exp(
        np.column_stack([0.4 * decades, -0.3 * decades])
    )
    best = (outcomes + noise).argmax(axis=1)
    return table.assign(
        y=(outcomes + noise)[np.arange(n_rows), best],
        job=np.array(["a", "b"])[best],
        toll=rng.uniform(size=n_rows),
        region=np.where(table["age"] > 35, "south", "north"),
    )


FITS = {
    "normal": {"noise": AGE},
    "smallest": {"noise": AGE, "rule": "min"},
    "logistic": {"noise": Independent("~ age", shape="logistic")},
    "one each": {"noise": Independent({"a": "~ age + C(region)", "b": "~ 1"})},
    "costs": {"noise": AGE, "cost": {"b": "~ toll - 1"}},
    "correlated": {"noise": Correlated("~ age")},
    "mixture": {"noise": Mixture(2, scale="~ age")},
    "student": {"noise": Student(8.0, scale="~ age")},
}
HEAVY = ("mixture", "student")


@pytest.fixture(scope="module")
def data():
    return made()


@pytest.fixture(scope="module")
def fits(data):
    heavy = made(shape="heavy")
    return {
        name: ss.fit("y ~ x", heavy if name in HEAVY else data, chosen="job", **kind)
        for name, kind in FITS.items()
    }


def drawn(fit, row, seed=0):
    """Draw outcomes (draws, k) of one row from what the tables say, and which one is chosen."""
    rng, params = np.random.default_rng(seed), fit.params
    standard = rng.logistic if fit.problem.noise.margin.name == "logistic" else rng.standard_normal
    noise = standard(size=(DRAWS, 2))
    if fit.problem.noise == FITS["student"]["noise"]:
        noise = rng.standard_t(8.0, size=noise.shape)
    if fit.problem.noise == FITS["mixture"]["noise"]:
        share, mean, spread = (params[COMMON, f"shape: {what} 2"] for what in MIXED)
        own = -share * mean / (1.0 - share)
        left = 1.0 - share * (spread**2 + mean**2) - (1.0 - share) * own**2
        second = rng.uniform(size=noise.shape) < share
        first = own + np.sqrt(left / (1.0 - share)) * noise
        noise = np.where(second, mean + spread * noise, first)
    if ("a & b", "correlation") in params.index:
        r = params["a & b", "correlation"]
        noise[:, 1] = r * noise[:, 0] + np.sqrt(1 - r * r) * noise[:, 1]
    outcomes = np.empty((DRAWS, 2))
    for j, label in enumerate("ab"):
        own = params[label]
        mean = own["Intercept"] + own["x"] * row["x"]
        scale = own.get("scale")
        if scale is None:
            log_scale = own["log scale: Intercept"] + own["log scale: age"] * row["age"]
            log_scale += own.get("log scale: C(region)[T.south]", 0.0) * (row["region"] == "south")
            scale = np.exp(log_scale)
        outcomes[:, j] = mean + scale * noise[:, j]
    cost = np.zeros(2)
    if ("b", "cost: toll") in params.index:
        cost[1] = params["b", "cost: toll"] * row["toll"]
    worth = outcomes - cost
    return outcomes, worth.argmin(axis=1) if fit.problem.side < 0 else worth.argmax(axis=1)


def assert_mean(expected, draws):
    assert abs(draws.mean() - expected) < MONTE_CARLO * draws.std() / np.sqrt(len(draws)) + 1e-9


def test_levels_of_a_log_outcome_use_each_rows_scale(data):
    logs = data.assign(wage=np.exp(0.3 * data["y"]))
    fit = ss.fit("log(wage) ~ x", logs, chosen="job", noise=AGE)
    row = logs.iloc[[int(logs["age"].argmax())]]
    found = fit.predict(row, kind="outcome", scale="level").iloc[0]
    latent = fit.predict(row, kind="latent", scale="level").iloc[0]
    outcomes, chosen = drawn(fit, row.iloc[0])
    assert_mean(found, np.exp(outcomes[np.arange(DRAWS), chosen]))
    for j, label in enumerate("ab"):
        assert_mean(latent[label], np.exp(outcomes[:, j]))


def test_residuals_and_quantiles_are_in_units_of_each_rows_scale(fits, data):
    fit = fits["normal"]
    found, scales = generalised_residuals(fit), fit.predict(kind="scale")
    means = fit.predict(kind="latent")
    for label in "ab":
        mine = (data["job"] == label).to_numpy()
        wanted = (data["y"] - means[label])[mine] / scales[label][mine]
        np.testing.assert_allclose(found[label][mine], wanted, rtol=1e-9)
    picture = qq(fit)
    assert set(picture.data["panel"]) == {"a", "b"}
    away = (picture.data["empirical"] - picture.data["normal"]).abs()
    assert (away < 2.0 * picture.data["reach"]).mean() > 0.9


def test_a_bootstrap_is_near_the_observed_errors(data):
    fit = ss.fit(
        "y ~ x", data, chosen="job", noise=AGE, seed=1,
        covariance=ss.inference.Bootstrap(replications=60),
    )  # fmt: skip
    plain = ss.fit("y ~ x", data, chosen="job", noise=AGE)
    ratio = (fit.bse / plain.bse).to_numpy()
    assert (ratio > 0.6).all() and (ratio < 1.7).all()


def test_profile_intervals_hold_the_estimate(fits):
    table = fits["normal"].tidy(intervals="profile")
    assert (table["conf_low"] < table["estimate"]).all()
    assert (table["estimate"] < table["conf_high"]).all()


def test_a_device_leaves_moving_scales_to_the_host(data, fits):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    fit = ss.fit("y ~ x", data, chosen="job", noise=AGE, engine=ss.engines.Torch("cpu"))
    np.testing.assert_allclose(fit.params, fits["normal"].params, rtol=AGREED)


def test_long_data_has_scales_of_each_alternatives_rows():
    rng = np.random.default_rng(3)
    n = 1_500
    risk, x = rng.uniform(size=(n, 2)), rng.standard_normal((n, 2))
    outcomes = 1.0 + x + np.exp(-0.5 + 1.0 * risk) * rng.standard_normal((n, 2))
    best = outcomes.argmax(axis=1)
    wide = pd.DataFrame(
        {"x_a": x[:, 0], "x_b": x[:, 1], "r_a": risk[:, 0], "r_b": risk[:, 1],
         "y": outcomes.max(axis=1), "job": np.array(["a", "b"])[best]}
    )  # fmt: skip
    long = pd.DataFrame(
        {
            "case": np.repeat(np.arange(n), 2),
            "job": np.tile(["a", "b"], n),
            "x": x.ravel(),
            "risk": risk.ravel(),
            "took": (np.arange(2) == best[:, None]).ravel().astype(int),
            "y": np.repeat(outcomes.max(axis=1), 2),
        }
    )
    fit = ss.fit("y ~ x", long, case="case", alternatives="job", chosen="took",
                 noise=Independent("~ risk"))  # fmt: skip
    same = ss.fit(
        {"a": "y ~ x_a", "b": "y ~ x_b"}, wide, chosen="job",
        noise=Independent({"a": "~ r_a", "b": "~ r_b"}),
    )  # fmt: skip
    np.testing.assert_allclose(fit.values, same.values, rtol=1e-6)
    np.testing.assert_allclose(fit.predict(kind="scale"), same.predict(kind="scale"), rtol=1e-6)
    assert ("a", "log scale: risk") in fit.params.index


def test_the_shell_takes_formulas_of_scales(data, tmp_path, capsys):
    def shell(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(stop.value.code or 0), " ".join((said.out + said.err).split())

    table, saved = tmp_path / "rows.csv", tmp_path / "fit.json"
    data.to_csv(table, index=False)
    asked = ["fit", table, "y ~ x", "--chosen", "job"]
    code, said = shell(*asked, "--scale", "~ age", "--save", saved)
    assert code == 0 and "log scale: age" in said
    code, said = shell("predict", saved, table, "--kind", "scale")
    assert code == 0 and "a,b" in said
    code, said = shell(*asked, "--scale", "a=~ age", "--scale", "b=~ 1")
    assert code == 0 and "log scale ~ age (a), ~ 1 (b)" in said
    code, said = shell(*asked, "--scale", "a=1", "--scale", "b=2")
    assert code == 0 and "scale fixed at 1, 2" in said
    code, said = shell(*asked, "--scale", "~ nowhere")
    assert code != 0 and "nowhere" in said


def test_the_summary_and_report_say_how_the_scale_moves(fits, tmp_path):
    text = str(fits["normal"].summary())
    assert "log scale: Intercept" in text and "log scale ~ age" in text
    fits["normal"].report(tmp_path / "page.html")
    assert "log scale: age" in (tmp_path / "page.html").read_text()

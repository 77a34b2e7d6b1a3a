"""Costs inside switching: the generalised Roy model, and all of its restrictions on one page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError

CLOSE = 1e-6
"""Two climbs to one optimum."""


def simulate(n_rows, seed, *, cost=1.0, correlation=0.4, rule="max", extra=0.0):
    rng = np.random.default_rng([seed, 9])
    x, z, w, u, v = rng.standard_normal((5, n_rows))
    v = correlation * u + np.sqrt(1 - correlation**2) * v
    latent = np.column_stack([0.3 + x + 0.2 * z + u, 0.1 + 0.4 * x + 0.9 * z + 0.7 * v])
    costs = np.column_stack([np.zeros(n_rows), cost * (0.4 + 0.8 * w) + extra * x])
    net = latent - costs if rule == "max" else -latent - costs
    chosen = net.argmax(axis=1)
    job, y = np.array(["a", "b"])[chosen], latent[np.arange(n_rows), chosen]
    return pd.DataFrame({"x": x, "z": z, "w": w, "job": job, "y": y})


@pytest.fixture(scope="module")
def data():
    return simulate(1_200, 1)


@pytest.fixture(scope="module")
def switching(data):
    return ss.switching("y ~ x + z", "job ~ x + z + w", data)


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("noise", ["correlated", None])
def test_both_likelihoods_are_equal_at_the_parameters_of_a_roy_model_with_costs(rule, noise):
    table = simulate(500, 3, rule=rule, correlation=0.3 if noise else 0.0)
    roy = ss.fit("y ~ x + z", table, chosen="job", rule=rule, noise=noise, cost={"b": "~ w"})
    both = ss.switching("y ~ x + z", "job ~ x + z + w", table)
    value = roy.params
    (s, t), rho = roy.scales, roy.correlations.iloc[0] if noise else 0.0
    spread = np.sqrt(s**2 + t**2 - 2 * rho * s * t)
    towards = 1.0 if both.problem.rule.towards == "a" else -1.0
    sign = towards if rule == "max" else -towards
    gamma = {
        term: sign * (value[("a", term)] - value[("b", term)]) / spread
        for term in ("Intercept", "x", "z")
    }
    gamma["Intercept"] += towards * value[("b", "cost: Intercept")] / spread
    gamma["w"] = towards * value[("b", "cost: w")] / spread
    told = {("selection", term): number for term, number in gamma.items()}
    told |= {key: value[key] for key in value.index if not str(key[1]).startswith("c")}
    told[("a", "correlation")] = sign * (s - rho * t) / spread
    told[("b", "correlation")] = sign * (rho * s - t) / spread
    layout = both.problem.layout
    reported = np.array([told[label] for label in both.reported.labels])
    natural = layout.natural(layout.read(reported))
    same = both.engine.sum(lambda batch: both.problem.likelihood.evaluate(natural, batch, "none"))
    assert same.loglik == pytest.approx(roy.llf, abs=1e-6)


@pytest.mark.parametrize(
    ("noise", "cost", "df"),
    [
        ("correlated", "~ w", 3),
        ("correlated", "~ x + z + w", 1),
        ("correlated", "~ w - 1", 4),
        (None, "~ w", 4),
    ],
)
def test_degrees_of_freedom_count_what_the_costs_lack(data, switching, noise, cost, df):
    roy = ss.fit("y ~ x + z", data, chosen="job", noise=noise, cost={"b": cost})
    for test in (roy.lr_test(switching), switching.lr_test(roy)):
        assert test.df == df
        assert test.statistic == pytest.approx(2.0 * (switching.llf - roy.llf))
        assert "net of estimated costs" in test.null


def test_a_true_roy_model_with_costs_is_kept_and_a_false_one_rejected():
    ratios = []
    for seed in range(25):
        table = simulate(400, 100 + seed)
        roy = ss.fit("y ~ x + z", table, chosen="job", noise="correlated", cost={"b": "~ w"})
        test = roy.lr_test(ss.switching("y ~ x + z", "job ~ x + z + w", table))
        if test.possible:
            ratios.append(test.statistic)
    assert len(ratios) >= 20
    # Chi-square with three degrees of freedom: mean 3, standard error of 25 draws 0.5.
    assert 1.5 < np.mean(ratios) < 5.0
    # Costs depend on x too, which the model does not know.
    wrong = simulate(1_500, 5, extra=1.0)
    roy = ss.fit("y ~ x + z", wrong, chosen="job", noise="correlated", cost={"b": "~ w"})
    both = ss.switching("y ~ x + z", "job ~ x + z + w", wrong)
    assert roy.lr_test(both).p_value < 0.001
    right = ss.fit("y ~ x + z", wrong, chosen="job", noise="correlated", cost={"b": "~ w + x"})
    assert right.lr_test(both).p_value > 0.01


def test_costs_outside_the_selection_equation_are_not_nested(data):
    roy = ss.fit("y ~ x + z", data, chosen="job", noise="correlated", cost={"b": "~ w"})
    narrow = ss.switching("y ~ x + z", "job ~ x + z", data)
    assert "lacks w, on which costs depend" in str(roy.lr_test(narrow))
    other = ss.fit("y ~ x + z", data, chosen="job", noise=ss.noises.Independent(shape="logistic"))
    assert "noise is logistic" in str(other.lr_test(narrow))


def test_restrictions_are_the_likelihood_ratios_of_the_four_fits(data, switching):
    found = switching.restrictions()
    fits = [
        switching,
        ss.fit("y ~ x + z", data, chosen="job", noise="correlated", cost={"b": "~ x + z + w"}),
        ss.fit("y ~ x + z", data, chosen="job", noise="correlated"),
        ss.fit("y ~ x + z", data, chosen="job"),
    ]
    assert np.allclose(found.table["loglik"], [one.llf for one in fits], atol=1e-3)
    assert found.table["n_parameters"].tolist() == [one.n_parameters for one in fits]
    assert found.table["df"].tolist()[1:] == [1, 4, 1]
    assert found.table.loc["Roy, correlated noise", "p_value"] < 0.001
    assert found.table.loc["Roy with costs", "p_value"] > 0.01
    assert "Each model against the one above" in str(found)
    assert "<table" in found._repr_html_()


def test_restrictions_of_a_fit_use_its_rule_and_its_costs(data):
    roy = ss.fit("y ~ x + z", data, chosen="job", noise="correlated", cost={"b": "~ w"})
    found = roy.restrictions()
    assert found.table.loc["Roy with costs", "loglik"] == pytest.approx(roy.llf, abs=CLOSE)
    assert found.table["df"].tolist()[1:] == [3, 2, 1]
    lower = ss.fit("y ~ x + z", simulate(800, 2, rule="min"), chosen="job", rule="min")
    loglik = lower.restrictions().table.loc["Roy, independent noise", "loglik"]
    assert loglik == pytest.approx(lower.llf, abs=CLOSE)


def test_what_has_no_such_restrictions_is_refused_with_the_reason(data, switching, tmp_path):
    with pytest.raises(OptionError, match="must be 'max' or 'min'"):
        switching.restrictions(rule=ss.rules.Ranked(1))
    clustered = ss.fit("y ~ x", data.assign(g=np.arange(len(data)) % 40), chosen="job", cluster="g")
    with pytest.raises(UnsupportedError, match="clustered by g"):
        clustered.restrictions()
    with pytest.raises(UnsupportedError, match="known costs"):
        ss.fit("y ~ x", data, chosen="job", cost={"a": 0.5}).restrictions()
    logistic = ss.noises.Independent(shape="logistic")
    with pytest.raises(UnsupportedError, match="normal noise of constant scale"):
        ss.fit("y ~ x", data, chosen="job", noise=logistic).restrictions()
    narrow = ss.switching("y ~ x + z", "job ~ x + w", data)
    with pytest.raises(UnsupportedError, match="selection equation lacks z"):
        narrow.restrictions()
    switching.save(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.load(tmp_path / "fit.json").restrictions()

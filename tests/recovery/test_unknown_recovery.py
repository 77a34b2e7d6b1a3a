"""The chosen alternative was not recorded, and the truth is found: all kinds of covariates."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

FOUR_ERRORS = 4.0
"""Beyond four standard errors lies one estimate in 16,000 where the model is right."""

N_ROWS = 2_500


def errors_off(result, truth):
    """Return each coefficient's error in standard errors, under the best matching of labels."""
    labels = list(dict.fromkeys(label for label, _ in truth.index))
    best = None
    for order in permutations(labels):
        off = np.concatenate(
            [
                (result.params[j] - truth[label].drop("scale")[result.params[j].index])
                / result.bse[j]
                for j, label in zip(result.counts.index, order, strict=True)
            ]
        )
        if best is None or (off**2).sum() < (best**2).sum():
            best = off
    return best


def covariates(kind, rng):
    """Draw covariates; those of few values need more of them to tell alternatives apart."""
    draws = rng.standard_normal((N_ROWS, 6 if kind in ("Rademacher", "dummies") else 3))
    return {
        "shifted": draws + np.linspace(-1.0, 3.0, draws.shape[1]),
        "uniform": rng.uniform(-1.7, 1.7, draws.shape),
        "Rademacher": np.sign(draws),
        "skewed": rng.exponential(1.0, draws.shape),
        "correlated": 0.3 * draws + 0.9 * draws[:, [0]],
        "dummies": (draws > np.linspace(-0.5, 0.5, draws.shape[1])).astype(float),
    }[kind]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("n_alternatives", [2, 3])
def test_every_rule_and_number_is_recovered(n_alternatives, rule, intercept):
    sample = ss.simulators.gaussian(
        N_ROWS, 3, n_alternatives, norm=2.0, rule=rule, intercept=intercept, seed=5
    )
    fit = ss.fit(sample.formula, sample.data, alternatives=n_alternatives, rule=rule)
    assert fit.converged
    off = errors_off(fit, sample.params)
    assert np.abs(off).max() < FOUR_ERRORS
    # Squares of standard normals average one; of six, with a standard deviation of 0.6.
    assert (off**2).mean() < 3.0


@pytest.mark.parametrize(
    "kind", ["shifted", "uniform", "Rademacher", "skewed", "correlated", "dummies"]
)
@pytest.mark.parametrize("n_alternatives", [2, 3])
def test_covariates_need_not_be_normal(kind, n_alternatives):
    """Moments mean little there: the likelihood is found all the same."""
    rng = np.random.default_rng([n_alternatives, len(kind)])
    drawn = covariates(kind, rng)
    table = pd.DataFrame(drawn, columns=[f"x{i + 1}" for i in range(drawn.shape[1])])
    # Dummies vary half as much as the others.
    size = 5.0 if kind == "dummies" else 2.5
    slopes = size * np.linalg.qr(rng.standard_normal((table.shape[1],) * 2))[0]
    coefficients = {
        label: {
            # No alternative is to dominate where covariates are not centred.
            "Intercept": 0.3 * j - float(slopes[j] @ table.mean()),
            **dict(zip(table, slopes[j], strict=True)),
        }
        for j, label in enumerate("abc"[:n_alternatives])
    }
    sample = ss.simulate(coefficients, table, seed=1)
    fit = ss.fit(sample.formula, sample.data, alternatives=n_alternatives)
    assert fit.converged
    assert np.abs(errors_off(fit, sample.params)).max() < FOUR_ERRORS


def test_categories_in_a_formula_are_recovered():
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        {"x": rng.standard_normal(N_ROWS), "where": rng.choice(list("NS"), N_ROWS)}
    )
    south = (table["where"] == "S").to_numpy(float)
    latent = np.column_stack(
        [0.5 + 2 * table["x"] - 1.0 * south, -0.5 - 1.5 * table["x"] + 1.5 * south]
    ) + rng.standard_normal((N_ROWS, 2))
    fit = ss.fit("y ~ x + where", table.assign(y=latent.max(axis=1)), alternatives=2)
    found = fit.params.xs("x", level="term").idxmax()
    truth = {found: [0.5, 2.0, -1.0], 3 - found: [-0.5, -1.5, 1.5]}
    for j, values in truth.items():
        assert (((fit.params[j] - values) / fit.bse[j]).abs() < FOUR_ERRORS).all()


def test_scales_of_their_own_are_recovered():
    sample = ss.simulators.gaussian(N_ROWS, 3, 2, norm=2.5, scales=[0.6, 1.4], seed=2)
    noise = ss.noises.Independent("each")
    fit = ss.fit(sample.formula, sample.data, alternatives=2, noise=noise)
    scales, errors = np.sort(fit.scales), fit.bse[:, "scale"].max()
    np.testing.assert_allclose(scales, [0.6, 1.4], atol=FOUR_ERRORS * errors)


def test_the_auction_is_recovered_from_prices_alone():
    sample = ss.simulators.auction(N_ROWS, seed=3)
    fit = ss.fit(sample.formula, sample.data, alternatives=3)
    assert np.abs(errors_off(fit, sample.params)).max() < FOUR_ERRORS
    known = ss.fit(sample.formula, sample.data, chosen="winner")
    assert ((known.params - sample.params[known.params.index]) / known.bse).abs().max() < 4.5
    # Who won is worth something: errors without it are larger.
    assert fit.bse.to_numpy()[:-1].mean() > 1.1 * known.bse.drop("scale", level=1).mean()


def test_least_squares_and_a_mixture_are_off_where_the_fit_is_right():
    """Shifted covariates: naive estimates are tens of standard errors away."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.standard_normal((N_ROWS, 2)) + 1.0, columns=["x1", "x2"])
    sample = ss.simulate(
        {"a": {"Intercept": 0.0, "x1": 2.0}, "b": {"Intercept": 1.0, "x2": 2.0}}, table, seed=1
    )
    fit = ss.fit(sample.formula, sample.data)
    naive = fit.naive["estimate"]
    off = (naive[fit.params.index[:-1]] - fit.params[:-1]) / fit.bse[:-1]
    assert off.abs().max() > 20
    truth = sample.params[fit.params.index[:-1]]
    assert ((fit.params[:-1] - truth) / fit.bse[:-1]).abs().max() < FOUR_ERRORS


@pytest.mark.parametrize("rank", [2, 3])
def test_known_ranks_are_recovered(rank):
    rule = ss.rules.Ranked(rank)
    sample = ss.simulators.gaussian(N_ROWS, 2, 4, norm=1.5, rule=rule, seed=1)
    solver = ss.solvers.MaximumLikelihood(starts=4)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen", rule=rule, solver=solver)
    assert fit.converged
    off = (fit.params - sample.params[fit.params.index]) / fit.bse
    assert off.abs().max() < FOUR_ERRORS


def second_price(seed, n=1_500):
    """Return the second highest of three values, the bidder whose it is, and the winner."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(n, 2)), rng.normal(size=(3, 3))
    values = w[:, 0] + x @ w[:, 1:].T + 0.7 * rng.normal(size=(n, 3))
    order, names = np.argsort(-values, axis=1), np.array(list("abc"))
    price = np.take_along_axis(values, order, 1)[:, 1]
    first, second = names[order[:, 0]], names[order[:, 1]]
    data = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "price": price})
    return data.assign(winner=first, second=second), w


def test_the_index_of_a_second_price_is_the_bidder_whose_value_it_is():
    data, truth = second_price(1)
    errors, said = {}, {}
    for chosen in ("second", "winner"):
        found = ss.fit("price ~ x + z", data, chosen=chosen, rule=ss.rules.Ranked(2), seed=0)
        estimates = np.array(found.params.to_numpy()).reshape(3, -1)[:, :3]
        errors[chosen] = np.sqrt(((estimates - truth) ** 2).mean())
        said[chosen] = " ".join(found.summary().notices)
    assert errors["second"] < 0.1 and errors["winner"] > 0.5
    assert "REJECTED" not in said["second"]
    assert "rank 2 from the top, not the winner's" in said["winner"]

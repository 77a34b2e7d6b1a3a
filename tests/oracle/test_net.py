"""Random models that hold every pair of options at least once, compared with the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from oracle import compose, library, models
from oracle.checks import QUICK, is_slow, run
from oracle.fuzz import covering
from oracle.generator import Spec, draw_case, pairs_of
from oracle.integrals import Event, integrate

SPECS = covering()

FOUND = (
    Spec(rule="transforms", index="partly", n_rows=120, seed=3),
    Spec(noise="correlated", units="small", n_rows=120),
    Spec(noise="types by z", scale="common", panel="people", formula="prices", n_rows=240, seed=48),
    Spec(formula="intercept", table="dict", n_rows=60, seed=5),
    Spec(index="unknown", alternatives="3", shared="slope", n_rows=240, seed=20),
    Spec(alternatives="3", noise="shock fixed", panel="people", n_rows=120, seed=907508879),
    Spec(alternatives="3", noise="correlated fixed", offset="column", response="log1p",
         weights="probability", errors="robust", n_rows=120, seed=1252811081),
)  # fmt: skip
"""Models in which a fault was found once, plainest form."""


def named(spec: Spec) -> str:
    return " ".join(f"{name}={level}" for name, level in spec.unusual().items()) or "plain"


@pytest.mark.parametrize("spec", [*SPECS, *FOUND], ids=named)
def test_the_package_says_what_the_oracle_says(spec):
    found = run(spec, QUICK if is_slow(spec) else None)
    failed = {name: one.words for name, one in found.items() if one.kind == "failed"}
    assert not failed, f"{spec}\n" + "\n".join(f"{name}: {words}" for name, words in failed.items())
    assert found["kernels_agree"].kind == "passed", found


def test_the_set_covers_every_pair_that_composes():
    held = set().union(*map(pairs_of, SPECS))
    wanted = set(compose.all_pairs()) - compose.kept_refusals()
    assert wanted <= held


def test_what_is_refused_is_refused_in_words():
    """The table of what composes is true: `make compose` writes it anew.

    That what composes still does is what the covering set shows.
    """
    kept = compose.kept()["refused"]
    pairs = [pair for pair in compose.all_pairs() if compose.name_of(pair) in kept]
    assert set(compose.refused_pairs(pairs)) == set(kept)
    assert not [words for words in kept.values() if words.startswith("BARE")]


def test_standard_errors_under_three_types_are_slopes():
    """Random models have two types: which of several slopes belongs to which type is asked here."""
    rng = np.random.default_rng(3)
    x, z, shift = rng.normal(size=240), np.repeat(rng.normal(size=60), 4), rng.integers(3, size=60)
    latent = np.column_stack([1 + x, 0.5 - x]) + rng.normal(size=(240, 2))
    latent += np.array([[2.0, -2.0], [0.0, 0.0], [-2.0, 1.0]])[np.repeat(shift, 4)]
    table = pd.DataFrame({"x": x, "z": z, "who": np.repeat(np.arange(60), 4)})
    table["y"], table["job"] = latent.max(axis=1), np.array(["a", "b"])[latent.argmax(axis=1)]
    noise = ss.noises.Types(3, covariates="~ z")
    fit = ss.fit("y ~ x", table, chosen="job", panel="who", noise=noise, seed=0)
    free = np.asarray(fit.solution.free)
    direction = rng.normal(size=len(free)) * np.maximum(np.abs(free), 0.1)
    errors = library.along(fit, 0.01 * direction).choice_probabilities(covariates="fixed").table
    up, down = (
        library.at(fit, free + sign * 1e-4 * direction).choice_probabilities().table["estimate"]
        for sign in (1.0, -1.0)
    )
    wanted = 0.01 * np.abs(up - down) / 2e-4
    np.testing.assert_allclose(errors["std_error"], wanted, rtol=1e-3)


# the oracle itself


def test_the_oracle_integrates_to_known_numbers():
    means, spreads = np.array([[0.3, -0.2, 0.5]]), np.array([[1.0, 0.7, 1.4]])
    law = models.Independent(means, spreads, (models.STANDARD["normal"],) * 3, 11.0)

    def first_is_largest(latent, rows):
        del rows
        return latent.argmax(axis=1) == 0

    event = Event(first_is_largest, np.full((1, 1), np.nan))
    at = np.array([[0.9, 0.0, 0.0]])
    below = stats.norm.cdf((0.9 - means[0, 1:]) / spreads[0, 1:]).prod()
    found = integrate(law, event, at, [0], [1, 2])[0]
    assert found == pytest.approx(stats.norm.pdf(0.6) * below, rel=1e-11)
    covariance = np.diag(spreads[0] ** 2)
    turn = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    share = stats.multivariate_normal(
        turn @ means[0], turn @ covariance @ turn.T, abseps=1e-10, releps=1e-10
    ).cdf(np.zeros(2))
    joint = models.Normal(means, covariance[None])
    assert integrate(joint, event, at, [], [0, 1, 2])[0] == pytest.approx(share, abs=1e-8)


def test_the_oracle_is_exact_far_out_in_both_tails():
    law = models.Independent(
        np.zeros((1, 2)), np.ones((1, 2)), (models.STANDARD["normal"],) * 2, 40
    )
    for sign in (1.0, -1.0):
        event = Event(lambda latent, rows, s=sign: s * latent[:, 1] > 30.0, np.full((1, 1), np.nan))
        found = integrate(law, event, np.zeros((1, 2)), [0], [1])[0]
        assert np.log(found) == pytest.approx(
            stats.norm.logpdf(0) + stats.norm.logsf(30), rel=1e-10
        )


def test_a_fault_in_the_package_is_told_from_its_absence(monkeypatch):
    """The net is no check that cannot fail: a likelihood off by 1e-6 of a row is found."""
    spec = Spec(n_rows=60, seed=2)
    assert run(spec, {"likelihood_of_rows"})["likelihood_of_rows"].kind == "passed"
    plain = library.Evaluated.row_logliks
    monkeypatch.setattr(
        library.Evaluated, "row_logliks", lambda self, free: plain(self, free) + 1e-6
    )
    assert run(spec, {"likelihood_of_rows"})["likelihood_of_rows"].kind == "failed"


def test_every_probability_of_a_model_adds_up_to_one():
    case = draw_case(Spec(alternatives="3", cost="column", available="column", n_rows=30, seed=4))
    model = case.model_of(case.truth)
    silent = replace(
        case.recorded, outcome=np.full(30, np.nan), chosen=np.full(30, -1), weights=np.ones(30)
    )
    asked = np.arange(30) < 2
    assert model.row_logliks(silent, asked)[:2] == pytest.approx(0.0, abs=1e-9)

"""Every effect under every kind of covariance, and where two of them must agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import selfselect as ss
from selfselect.effects.treatment_effects import average_effect

EFFECTS = {
    "potential outcomes": lambda fit: fit.potential_outcomes(),
    "choice probabilities": lambda fit: fit.choice_probabilities(),
    "at a profile": lambda fit: fit.choice_probabilities(at="means"),
    "marginal effects": lambda fit: fit.marginal_effects("height"),
    "treatment effects": lambda fit: fit.treatment_effects("hunting", "fishing"),
    "decomposition": lambda fit: fit.decompose("hunting", "fishing"),
    "sorting": lambda fit: fit.sorting(),
    "gains": lambda fit: fit.gains("hunting", "fishing", draws=2_000).effect,
    "closing": lambda fit: fit.counterfactual(close=["fishing"]).outcomes,
    "subsidy": lambda fit: fit.counterfactual(subsidy={"hunting": 5.0}).shares,
    "quota": lambda fit: fit.counterfactual(quota={"hunting": 0.2}).outcomes,
    "policy": lambda fit: fit.policy().value,
}
KINDS = {
    "observed": {},
    "robust": {"covariance": "robust"},
    "one-way": {"cluster": "hut"},
    "two-way": {"cluster": ["hut", "year"]},
    "bootstrap": {"covariance": ss.inference.Bootstrap(8), "seed": 1},
    "cluster bootstrap": {
        "covariance": ss.inference.Bootstrap(8), "seed": 1, "cluster": "hut",
    },
    "frequency": {"weights": "times", "weights_kind": "frequency"},
    "frequency, robust": {
        "weights": "times", "weights_kind": "frequency", "covariance": "robust",
    },
    "frequency, two-way": {
        "weights": "times", "weights_kind": "frequency", "cluster": ["hut", "year"],
    },
    "probability": {"weights": "w", "weights_kind": "probability"},
    "probability, one-way": {"weights": "w", "weights_kind": "probability", "cluster": "hut"},
    "probability, two-way": {
        "weights": "w", "weights_kind": "probability", "cluster": ["hut", "year"],
    },
}  # fmt: skip
CLUSTERED = {name for name, options in KINDS.items() if "cluster" in options}


@pytest.fixture(scope="module")
def villagers():
    rng = np.random.default_rng(5)
    data = ss.simulators.village(200, seed=4).data
    return data.assign(
        hut=rng.integers(0, 20, 200), year=rng.integers(0, 12, 200), row=np.arange(200),
        times=rng.integers(0, 4, 200), w=rng.uniform(0.2, 2.0, 200),
    )  # fmt: skip


@pytest.fixture(scope="module")
def fits(villagers):
    made = {}

    def fit(**options):
        key = repr(options)
        if key not in made:
            made[key] = ss.fit("income ~ height + weight", villagers, chosen="job", **options)
        return made[key]

    return fit


@pytest.mark.filterwarnings("ignore::selfselect.errors.ExtrapolationWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_effect_has_errors_under_every_covariance(fits, effect, kind):
    fit = fits(**KINDS[kind])
    found = EFFECTS[effect](fit)
    table = found.table
    errors = table["std_error"].to_numpy()
    known = table["estimate"].notna().to_numpy()
    assert np.isfinite(errors[known]).all() and (errors[known] >= 0).all()
    assert (errors[known] > 0).mean() > 0.3
    assert (table["conf_low"][known] <= table["conf_high"][known]).all()
    assert found.df == fit.covariance.df
    assert np.isfinite(found.df) == (kind in CLUSTERED)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_second_way_of_single_rows_adds_nothing(fits, effect):
    one, two = fits(cluster="hut"), fits(cluster=["hut", "row"])
    np.testing.assert_allclose(
        EFFECTS[effect](one).table["std_error"],
        EFFECTS[effect](two).table["std_error"],
        rtol=1e-4,
        atol=1e-9,
    )


@pytest.mark.parametrize("options", [{}, {"covariance": "robust"}, {"cluster": ["hut", "year"]}],
                         ids=["observed", "robust", "two-way"])  # fmt: skip
@pytest.mark.parametrize("effect", sorted(set(EFFECTS) - {"gains", "at a profile"}))
def test_frequency_weights_are_repeated_rows_in_every_effect(fits, villagers, effect, options):
    weighted = fits(weights="times", weights_kind="frequency", **options)
    rows = villagers.loc[villagers.index.repeat(villagers["times"])].reset_index(drop=True)
    repeated = ss.fit("income ~ height + weight", rows, chosen="job", **options)
    ours, theirs = EFFECTS[effect](weighted).table, EFFECTS[effect](repeated).table
    np.testing.assert_allclose(ours["estimate"], theirs["estimate"], rtol=1e-3)
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=0.01, atol=1e-6)


def test_effects_of_clustered_fits_use_students_t(fits):
    fit = fits(cluster="hut")
    found = fit.treatment_effects("hunting", "fishing")
    row = found.table.iloc[0]
    assert found.df == fit.covariance.df < 19  # Huts differ in size.
    assert (row["conf_high"] - row["estimate"]) / row["std_error"] == pytest.approx(
        stats.t.ppf(0.975, found.df)
    )
    assert "P>|t|" in str(found)
    assert "P>|z|" in str(fits().treatment_effects("hunting", "fishing"))


def test_the_report_is_written_under_clusters_in_two_ways(fits, tmp_path):
    fits(cluster=["hut", "year"]).report(tmp_path / "report.html")
    assert "clustered by hut and year (20 and 12 clusters)" in (tmp_path / "report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_effect_alone_is_that_of_the_table(kind, fits):
    numbers = ["estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]
    fit = fits(**KINDS[kind])
    whole = fit.treatment_effects("hunting", "fishing", level=0.9).table[numbers].iloc[0]
    alone = average_effect(fit, "hunting", "fishing", level=0.9).table[numbers].iloc[0]
    # Of errors clustered in several ways negative variances are cut off, here of fewer numbers.
    rtol = 1e-3 if kind.endswith("two-way") else 1e-8
    np.testing.assert_allclose(alone.to_numpy(), whole.to_numpy(), rtol=rtol)

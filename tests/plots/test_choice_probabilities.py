"""The picture of choices along a covariate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError, UnsupportedError

DRAWS = 400
SPREAD_TOLERANCE = 0.15
"""Four standard deviations of a standard deviation estimated from 400 draws."""


def test_chances_are_those_predicted_with_the_other_covariates_at_their_means(
    known: ss.FitResult,
) -> None:
    data = ss.plots.choice_probabilities(known, "height").data
    wide = data.pivot(index="value", columns="alternative", values="chance")
    weight = known.rows.covariates[:, 1].mean()
    rows = pd.DataFrame({"height": wide.index.to_numpy(), "weight": weight})
    np.testing.assert_allclose(wide, known.predict(rows, kind="chance"), atol=1e-12)
    np.testing.assert_allclose(wide.sum(axis=1), 1.0, atol=1e-12)


def test_chances_of_zero_and_one_are_as_far_from_the_edges(known: ss.FitResult) -> None:
    low, high = ss.plots.choice_probabilities(known, "height").axes[0].get_ylim()
    assert low < 0 and high > 1
    assert -low == pytest.approx(high - 1)


def test_bands_are_as_wide_as_parameters_drawn_from_their_covariance_make_them(
    known: ss.FitResult,
) -> None:
    from selfselect.data.rows import Rows
    from selfselect.moments.choose import moments_of

    data = ss.plots.choice_probabilities(known, "height").data
    own = data[data["alternative"] == "hunting"].iloc[[10, 20, 30]]
    at = np.column_stack([own["value"], np.full(3, known.rows.covariates[:, 1].mean())])
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(known.values, known.covariance.matrix, size=DRAWS)
    chances = [moments_of(known.problem).expectations(one, Rows(at)).chance[:, 1] for one in drawn]
    np.testing.assert_allclose(own["std_error"], np.std(chances, axis=0), rtol=SPREAD_TOLERANCE)
    odds = np.log(own["conf_high"] / (1 - own["conf_high"]) / own["chance"] * (1 - own["chance"]))
    reach = 1.959964 * own["std_error"] / (own["chance"] * (1 - own["chance"]))
    np.testing.assert_allclose(odds, reach, rtol=1e-6)


def test_the_unknown_index_and_ranks_can_be_drawn(
    unknown: ss.FitResult, ranked: ss.FitResult
) -> None:
    for fit, covariate in ((unknown, "rate"), (ranked, "x1")):
        data = ss.plots.choice_probabilities(fit, covariate).data
        assert data["chance"].between(0, 1).all()
        assert (data["std_error"] > 0).all()


def test_costs_are_held_at_their_means() -> None:
    table = ss.simulators.village(400, seed=5).data
    table["rent"] = np.random.default_rng(5).uniform(0, 8, 400)
    rule = ss.rules.Maximum(cost={"fishing": "rent"})
    latent = ss.simulators.village(400, seed=5).latent
    net = latent["hunting"] > latent["fishing"] - table["rent"]
    table["job"] = np.where(net, "hunting", "fishing")
    table["income"] = np.where(net, latent["hunting"], latent["fishing"])
    fit = ss.fit("income ~ height + weight", table, chosen="job", rule=rule)
    data = ss.plots.choice_probabilities(fit, "height").data
    wide = data.pivot(index="value", columns="alternative", values="chance")
    rows = pd.DataFrame(
        {"height": wide.index.to_numpy(), "weight": table["weight"].mean(),
         "rent": table["rent"].mean()}
    )  # fmt: skip
    np.testing.assert_allclose(wide, fit.predict(rows, kind="chance"), atol=1e-12)


def test_what_cannot_be_drawn_is_refused(known: ss.FitResult, loaded: ss.FitResult) -> None:
    with pytest.raises(OptionError, match=r"no covariate 'hight'.*'height'"):
        ss.plots.choice_probabilities(known, "hight")
    with pytest.raises(OptionError, match="level=95 is not"):
        ss.plots.choice_probabilities(known, "height", level=95)
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        ss.plots.choice_probabilities(loaded, "height")

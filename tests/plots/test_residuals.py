"""The picture of generalised residuals, and the residuals themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.noises import KnownCovariance
from selfselect.results.memberships import generalised_residuals
from selfselect.rules import ConvexRule

AT_THE_OPTIMUM = 1e-6
"""The score at a converged estimate, per row, in standard errors."""


@pytest.mark.parametrize("name", ["known", "unknown", "ranked"])
def test_residuals_are_orthogonal_to_the_covariates_at_the_optimum(
    name: str, request: pytest.FixtureRequest
) -> None:
    fit = request.getfixturevalue(name)
    found = generalised_residuals(fit).to_numpy()
    rows = fit.rows
    for j, equation in enumerate(fit.problem.equations.each):
        design = fit.problem.units.design(rows.covariates, equation.columns)
        np.testing.assert_allclose(design.T @ found[:, j] / len(rows), 0, atol=AT_THE_OPTIMUM)


def test_where_an_alternative_was_seen_it_is_the_standardised_residual(
    known: ss.FitResult,
) -> None:
    found = generalised_residuals(known)
    means, rows = known.predict(kind="latent"), known.rows
    for j, label in enumerate(known.problem.equations.alternatives):
        seen = rows.chosen == j
        expected = (rows.outcome[seen] - means[label][seen]) / known.scales[label]
        np.testing.assert_allclose(found[label][seen], expected)
        assert (found[label][~seen] < 0).all()


def test_bins_hold_all_rows_and_their_means(known: ss.FitResult) -> None:
    data = ss.plots.residuals(known).data
    found = generalised_residuals(known)
    for label, bins in data.groupby("alternative"):
        assert bins["rows"].sum() == known.nobs
        np.testing.assert_allclose(
            (bins["mean"] * bins["rows"]).sum() / known.nobs, found[label].mean(), atol=1e-12
        )


def test_a_dummy_has_two_bins() -> None:
    table = ss.simulators.village(300, seed=1).data
    table["tall"] = (table["height"] > 175).astype(int)
    fit = ss.fit("income ~ tall + weight", table, chosen="job")
    bins = ss.plots.residuals(fit, "tall").data
    assert bins["value"].tolist() == [0, 1, 0, 1]


def test_a_missing_square_shows() -> None:
    rng = np.random.default_rng([4, 1])
    x = rng.normal(size=4_000)
    table = pd.DataFrame({"x": x, "square": x**2})
    sample = ss.simulate({"a": {"x": 1.0, "square": 0.7}, "b": {"x": -1.0}}, table, seed=4)

    def worst(formula: str) -> float:
        bins = ss.plots.residuals(ss.fit(formula, sample.data, chosen="chosen"), "x").data
        own = bins[bins["alternative"] == "a"]
        return float((own["mean"] / own["std_error"]).abs().max())

    assert worst("outcome ~ x") > 6
    assert worst("outcome ~ x + square") < 4


def test_what_has_no_residuals_is_refused(known: ss.FitResult) -> None:
    problem = replace(known.problem, noise=KnownCovariance([[1.0, 0.5], [0.5, 1.0]]))
    with pytest.raises(UnsupportedError, match="covariance across alternatives known"):
        ss.plots.residuals(replace(known, problem=problem))
    with pytest.raises(UnsupportedError, match="covariance across alternatives known"):
        ss.plots.qq(replace(known, problem=problem))
    problem = replace(known.problem, rule=ConvexRule(lambda latent, _: latent.argmax(axis=1)))
    with pytest.raises(UnsupportedError, match="no closed form"):
        ss.plots.residuals(replace(known, problem=problem))

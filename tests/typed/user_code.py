"""What users write, with types: `make types` must pass it. Nothing here is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import selfselect as ss
from selfselect.rules import RowData


class Median:
    """A rule of a user's own: the middle outcome is observed."""

    name = "the middle outcome is observed"

    def choose(
        self,
        latent: NDArray[np.float64],
        rows: RowData = RowData(),  # noqa: B008
    ) -> NDArray[np.intp]:
        """Choose the middle one."""
        del rows
        return np.argsort(latent, axis=1)[:, latent.shape[1] // 2]


def fits(data: pd.DataFrame, weights: NDArray[np.float64]) -> ss.FitResult:
    """Fit in many ways."""
    ss.set_threads(2)
    ss.set_threads(None)
    ss.fit("y ~ x", data, chosen="job")
    ss.fit({"a": "y ~ x", "b": "y ~ z"}, data, chosen="job", rule="min", missing="raise")
    ss.fit("y ~ x", data, alternatives=2, rule=Median(), noise="correlated", seed=1)
    ss.fit("y ~ x", data, chosen="job", noise=ss.noises.Independent(scale="common"))
    ss.fit("y ~ x", data, chosen="job", weights=weights, weights_kind="probability")
    ss.fit("y ~ x", data, chosen="job", covariance="robust", cluster=["town", "year"])
    ss.fit("y ~ x", data, chosen="job", covariance=ss.inference.Bootstrap(99), seed=3)
    ss.fit("y ~ x", data, chosen="job", solver=ss.solvers.Newton(), checkpoint=Path("c.json"))
    ss.fit("y ~ x", data, alternatives=3, solver=ss.solvers.MaximumLikelihood(starts=4))
    ss.fit("y ~ x", data, chosen="job", outcome_between=("top", None), missing_outcome="silent")
    ss.fit("y ~ x", "rows/*.parquet", chosen="job", engine=ss.engines.Parquet(threads=2))
    ss.fit("y ~ x", data, chosen="job", engine=ss.engines.Torch("cuda"))
    ss.fit("y ~ x", data, chosen="job", engine=ss.engines.Dask())
    rule = ss.rules.MonotoneArgmax({"a": "exp"}, cost={"b": 1.0})
    return ss.fit("y ~ x", data, chosen="job", rule=rule, engine=ss.engines.Memory(threads=1))


def answers(fit: ss.FitResult, data: pd.DataFrame) -> pd.DataFrame:
    """Ask a fit."""
    text: str = f"{fit.summary(0.9, intervals='profile')}"
    assert fit.converged and fit.llf + 1.0 < 0.0 and text
    fit.predict(data, kind="chance")
    fit.predict(data, scale="level")
    fit.marginal_effects("x", covariates="fixed")
    fit.save("fit.json")
    again: ss.FitResult = ss.load("fit.json")
    fit.lr_test(again)
    return fit.conf_int(method="profile")


def doors(data: pd.DataFrame) -> None:
    """Other doors."""
    ss.pose("y ~ x", data, chosen="job", rule="max", noise=ss.noises.Correlated())
    ss.choose_alternatives("y ~ x", data, range(1, 4), rule="min", engine=ss.engines.Memory())
    ss.simulate({"a": {"x": 1.0}, "b": {"x": 2.0}}, data, rule="min", noise="shared shock")
    model = ss.SelfSelectionRegressor(n_alternatives=2, rule="max", covariance="robust")
    model.fit(data[["x"]], data["y"])

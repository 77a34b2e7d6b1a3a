"""Calls that a type checker must refuse. Nothing here is run.

Every call is marked with the error that `make types` expects; where there is none, the mark itself
is an error.
"""

from __future__ import annotations

import pandas as pd

import selfselect as ss


def wrong_options(data: pd.DataFrame) -> None:
    """Give options that there are not."""
    ss.fit("y ~ x", data, chosen="job", rule=7)  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", rule="largest")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", rule=ss.rules.Maximum)  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", noise="cauchy")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", noise=1.0)  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", solver="newton")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", engine="moon")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", engine=ss.engines.Memory)  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", covariance="HC9")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", weights_kind="inverse")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", missing="ignore")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", missing_outcome="keep")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", outcome_between=5)  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", seed="one")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, alternatives=2.5)  # type: ignore[arg-type]
    ss.fit(["y ~ x"], data, chosen="job")  # type: ignore[arg-type]
    ss.fit("y ~ x", data, chosen="job", wieghts="w")  # type: ignore[call-arg]
    ss.fit("y ~ x", data, "job")  # type: ignore[call-arg]
    ss.pose("y ~ x", data, chosen="job", rule="best")  # type: ignore[arg-type]
    ss.pose("y ~ x", data, chosen="job", solver=None)  # type: ignore[call-arg]
    ss.choose_alternatives("y ~ x", data, engine="moon")  # type: ignore[arg-type]
    ss.simulate({"a": {"x": 1.0}}, data, rule=7)  # type: ignore[arg-type]
    ss.SelfSelectionRegressor(rule="best")  # type: ignore[arg-type]
    ss.set_threads("two")  # type: ignore[arg-type]
    ss.engines.Memory(threads="two")  # type: ignore[arg-type]


def wrong_questions(fit: ss.FitResult) -> None:
    """Ask what there is no answer to."""
    fit.predict(kind="median")  # type: ignore[arg-type]
    fit.predict(scale="log")  # type: ignore[arg-type]
    fit.conf_int(method="bootstrap")  # type: ignore[arg-type]
    fit.summary(intervals="exact")  # type: ignore[arg-type]
    fit.marginal_effects(covariates="random")  # type: ignore[arg-type]
    fit.coefficients  # type: ignore[attr-defined]  # noqa: B018

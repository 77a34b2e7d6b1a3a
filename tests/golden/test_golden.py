"""Numbers of some eighty fits, kept: a change of structure must not change them.

``python tests/golden/test_golden.py`` writes them anew, after a change that is meant to; with names
only those. The law: ``golden.json`` changes only in a commit that touches nothing in ``src``, and
that gives a reason for each number. Answers of fits are in ``test_answers``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.noises import Correlated, Independent, KnownCovariance, SharedShock
from selfselect.rules import LinearArgmax, Maximum, Minimum, MonotoneArgmax, Ranked
from selfselect.solvers import MonteCarloNewton

KEPT = Path(__file__).with_name("golden.json")

CLOSE = 1e-9
"""Relative difference that is taken for none."""

CLOSE_ERRORS = 1e-7
"""Of standard errors and effects, which invert sums."""

CLIMBED = 1e-6
"""Where an optimum is found by a search, it is known to its stopping rule."""

BY_DRAWS = 0.05
"""Standard errors by which estimates by draws may differ: they stop at an error of 0.02 each."""

N_ROWS = 400


def table() -> pd.DataFrame:
    """Return rows with everything the cases need."""
    rng = np.random.default_rng(2_024)
    x1, x2, x3 = rng.normal(size=(3, N_ROWS))
    region = rng.choice(["east", "north", "west"], N_ROWS)
    noise = rng.normal(size=(N_ROWS, 3)) * [1.0, 0.8, 1.2]
    means = np.column_stack([0.5 + x1, 0.8 * x2 + 0.3, 0.4 - 0.6 * x1 + 0.5 * x2])
    latent = means + noise
    fare = rng.uniform(0.0, 1.0, N_ROWS)
    open_c = rng.random(N_ROWS) < 0.8
    order = np.arange(N_ROWS)

    def pick(values: Any, names: str) -> tuple[Any, Any]:
        who = values.argmax(axis=1)
        return np.array(list(names))[who], latent[order, who]

    who, outcome = pick(latent, "abc")
    lowest, low_outcome = pick(-latent, "abc")
    second = latent.argsort(axis=1)[:, 1]
    dear, dear_outcome = pick(latent - np.column_stack([0 * fare, 0.4 + 0 * fare, fare]), "abc")
    closed, closed_outcome = pick(
        np.where(np.eye(3)[2] * ~open_c[:, None] > 0, -np.inf, latent), "abc"
    )
    shock = rng.normal(size=N_ROWS)
    joined = means[:, :2] + np.column_stack([shock, 0.6 * shock]) + 0.7 * noise[:, :2]
    pair = joined.argmax(axis=1)
    silent = rng.random(N_ROWS) < 0.15
    works = 0.3 + 0.8 * x3 + 0.4 * x1 + shock > 0
    return pd.DataFrame(
        {
            "x1": x1, "x2": x2, "x3": x3, "region": region, "fare": fare, "open_c": open_c,
            "y": outcome, "who": who, "y_low": low_outcome, "who_low": lowest,
            "y_second": latent[order, second], "who_second": np.array(list("abc"))[second],
            "y_dear": dear_outcome, "who_dear": dear, "y_open": closed_outcome, "who_open": closed,
            "y_pair": joined[order, pair], "who_pair": np.array(list("ab"))[pair],
            "y_min": joined.min(axis=1), "y_max": joined.max(axis=1), "y_three": latent.max(axis=1),
            "y_exp": np.exp(0.3 * outcome), "y_silent": np.where(silent, np.nan, outcome),
            "limit": outcome - rng.uniform(0.1, 1.0, N_ROWS),
            "who_partly": pd.Series(who).where(rng.random(N_ROWS) > 0.1),
            "maybe_b": (who == "b") | (rng.random(N_ROWS) < 0.5),
            "w": rng.uniform(0.5, 2.0, N_ROWS), "often": rng.integers(0, 4, N_ROWS),
            "firm": rng.integers(0, 60, N_ROWS), "year": rng.integers(0, 50, N_ROWS),
            "part": 0.2 * x3, "works": works,
            "wage": np.where(works, 1.0 + 0.5 * x1 + 0.6 * shock + 0.7 * noise[:, 0], np.nan),
            "sector": np.where(works, "union", "other"),
            "pay": np.where(works, 1.0 + 0.5 * x1 + 0.5 * shock, 0.4 + 0.2 * x2 - 0.3 * shock)
            + 0.7 * noise[:, 1],
        }
    )  # fmt: skip


PLAIN = "y ~ x1 + x2"
PAIR = "y_pair ~ x1 + x2"
COMMON = Independent("common")


def known(formula: Any = PLAIN, chosen: str = "who", **options: Any) -> Callable[..., Any]:
    return lambda data, **more: ss.fit(formula, data, chosen=chosen, **(options | more))


def unknown(formula: Any, **options: Any) -> Callable[..., Any]:
    return lambda data, **more: ss.fit(formula, data, seed=1, **(options | more))


def of_tenders(**options: Any) -> Callable[..., Any]:
    def fit(data: Any, **more: Any) -> Any:
        del data
        long = ss.simulators.tender(150, seed=1).data
        return ss.fit(
            "bid ~ size + distance + backlog", long, case="tender", alternatives="firm", rule="min",
            **(options | more),
        )  # fmt: skip

    return fit


MIXED = np.eye(3) + 0.3 * np.roll(np.eye(3), 1, axis=1)

RULES = {
    "max": known(),
    "min": known("y_low ~ x1 + x2", "who_low", rule="min"),
    "rule objects": known(rule=Maximum()),
    "min by object": known("y_low ~ x1", "who_low", rule=Minimum()),
    "second highest": known("y_second ~ x1 + x2", "who_second", rule=Ranked(2)),
    "monotone": known("y_exp ~ x1", rule=MonotoneArgmax(dict.fromkeys("abc", "sqrt"))),
    "monotone, decreasing": known(
        "y_low ~ x1", "who_low", rule=MonotoneArgmax(dict.fromkeys("abc", "negative"))
    ),
    "costs known": known("y_dear ~ x1 + x2", "who_dear", cost={"b": 0.4, "c": "fare"}),
    "linear": known("y ~ x1", rule=LinearArgmax(MIXED), noise=Independent("common")),
    "linear, scale each": known("y ~ x1", rule=LinearArgmax(MIXED)),
    "closed to some": known("y_open ~ x1 + x2", "who_open", available={"c": "open_c"}),
}

NOISES = {
    "scale each": known(noise=Independent("each")),
    "scale common": known(noise=COMMON),
    "scale known": known(noise=Independent(1.0)),
    "scales known": known(noise=Independent({"a": 1.0, "b": 0.8, "c": 1.2})),
    "correlated pair": known(PAIR, "who_pair", noise=Correlated()),
    "correlated pair, common scale": known(PAIR, "who_pair", noise=Correlated(scale="common")),
    "correlated pair, known correlation": known(
        PAIR, "who_pair", noise=Correlated(correlation=0.3)
    ),
    "shared shock": known(PAIR, "who_pair", noise=SharedShock()),
    "shared shock, three": known(noise=SharedShock(loading=0.5)),
}

FORMULAS = {
    "one formula each": known({"a": PLAIN, "b": "y ~ x2 + region", "c": "y ~ x1"}),
    "no intercept": known("y ~ x1 + x2 - 1"),
    "intercept only": known("y ~ 1"),
    "categories": known("y ~ x1 + region"),
    "interactions": known("y ~ x1*region"),
    "splines": known("y ~ bs(x1, df=4) + x2"),
    "polynomials": known("y ~ poly(x1, 2) + center(x2)"),
    "left side": known("np.log(y_exp) ~ x1 + x2"),
    "shared": known(shared=["x1"], noise=COMMON),
    "shared, scale each": known(shared=["x1"]),
    "shared all": known(shared="all"),
    "offset": known(offset="part"),
    "long": of_tenders(chosen="won"),
    "long, shared": of_tenders(chosen="won", shared="all"),
    "long, unknown": of_tenders(chosen=None, shared="all"),
}

OBSERVED = {
    "silent": known("y_silent ~ x1 + x2", missing_outcome="silent"),
    "dropped": known("y_silent ~ x1 + x2", missing_outcome="drop"),
    "bounded": known("y_silent ~ x1 + x2", outcome_between=("limit", None)),
    "undecided": known(chosen="who_partly", possible={"b": "maybe_b"}),
    "costs estimated": known("y_dear ~ x1 + x2", "who_dear", cost={"c": "~ fare"}, noise=COMMON),
    "costs estimated, scale each": known("y_dear ~ x1 + x2", "who_dear", cost={"c": "~ fare"}),
    "costs estimated, correlated": known(
        PAIR, "who_pair", cost={"b": "~ fare"}, noise=Correlated()
    ),
}

ERRORS = {
    "robust": known(covariance="robust"),
    "clustered": known(cluster="firm"),
    "clustered in two ways": known(cluster=["firm", "year"]),
    "frequency weights": known(weights="often", weights_kind="frequency"),
    "probability weights": known(weights="w", weights_kind="probability"),
    "weights and clusters": known(weights="w", weights_kind="probability", cluster="firm"),
    "bootstrap": known(covariance="bootstrap", seed=3),
    "correlated, robust": known(PAIR, "who_pair", noise=Correlated(), covariance="robust"),
    "correlated, clustered": known(PAIR, "who_pair", noise=Correlated(), cluster="firm"),
    "silent, clustered": known("y_silent ~ x1 + x2", missing_outcome="silent", cluster="firm"),
}

UNKNOWN = {
    "unknown, max": unknown("y_max ~ x1 + x2", alternatives=2),
    "unknown, min": unknown("y_min ~ x1 + x2", alternatives=2, rule="min"),
    "unknown, three": unknown("y_three ~ x1 + x2", alternatives=3),
    "unknown, scale each": unknown("y_max ~ x1 + x2", alternatives=2, noise=Independent("each")),
    "unknown, scale known": unknown("y_max ~ x1 + x2", alternatives=2, noise=Independent(1.0)),
    "unknown, named": unknown({"demand": "y_min ~ x1", "supply": "y_min ~ x2"}, rule="min"),
    "unknown, EM": unknown("y_max ~ x1 + x2", alternatives=2, solver=ss.solvers.EM()),
    "unknown, robust": unknown("y_max ~ x1 + x2", alternatives=2, covariance="robust"),
    "unknown, weights": unknown(
        "y_max ~ x1 + x2", alternatives=2, weights="often", weights_kind="frequency"
    ),
    "unknown, correlated": unknown(
        {"left": "y_max ~ x1", "right": "y_max ~ x2"}, noise=Correlated()
    ),
    "unknown, closed to some": unknown(
        {"a": "y ~ x1", "b": "y ~ x2", "c": "y ~ x1 + x2"}, available={"c": "open_c"}
    ),
}

SELECTION = {
    "sample selection": lambda data: ss.sample_selection("wage ~ x1", "works ~ x1 + x3", data),
    "sample selection, two steps": lambda data: ss.sample_selection(
        "wage ~ x1", "works ~ x1 + x3", data, method="two-step"
    ),
    "sample selection, clustered": lambda data: ss.sample_selection(
        "wage ~ x1", "~ x1 + x3", data, cluster="firm"
    ),
    "switching": lambda data: ss.switching("pay ~ x1 + x2", "sector ~ x1 + x2 + x3", data),
    "switching, two steps": lambda data: ss.switching(
        "pay ~ x1 + x2", "sector ~ x1 + x2 + x3", data, method="two-step"
    ),
    "switching, each": lambda data: ss.switching(
        {"union": "pay ~ x1", "other": "pay ~ x2"},
        "sector ~ x1 + x2 + x3",
        data,
        covariance="robust",
    ),
}

IN_FILES = [
    "max", "scale common", "correlated pair", "categories", "splines", "silent", "costs estimated",
    "clustered", "probability weights", "unknown, max", "unknown, named", "shared",
]  # fmt: skip

COVERED_BY_TWINS = [
    "max", "min", "monotone", "costs known", "closed to some", "scale each", "scale common",
    "scale known", "categories", "splines", "shared", "clustered", "probability weights",
    "unknown, max", "unknown, named",
]  # fmt: skip
"""Cases that a graphics card evaluates."""

LOADED = ["max", "monotone", "correlated pair", "interactions", "splines", "costs known", "long"]

DRAWN = {
    "drawn, linear": known(
        "y ~ x1", rule=LinearArgmax(np.eye(3)), solver=MonteCarloNewton(), seed=1
    ),
    "drawn, covariance known": known("y ~ x1", noise=KnownCovariance(np.eye(3) + 0.2), seed=1),
}

CASES: dict[str, Callable[..., Any]] = {
    **RULES, **NOISES, **FORMULAS, **OBSERVED, **ERRORS, **UNKNOWN, **SELECTION, **DRAWN,
}  # fmt: skip


def in_files(name: str, folder: Path) -> Any:
    table().to_parquet(folder / "rows.parquet", row_group_size=150)
    return CASES[name](folder / "rows.parquet", engine=ss.engines.Parquet())


def numbers(fit: Any, *, new_rows: bool = True) -> dict[str, Any]:
    """Return what is kept of a fit."""
    made = {
        "loglik": fit.llf,
        "converged": bool(fit.converged),
        "estimates": dict(zip(fit.names, map(float, fit.values), strict=True)),
        "errors": [float(one) for one in fit.bse],
    }
    if getattr(getattr(fit, "solution", None), "loglik_error", 0.0) > 0:
        made["loglik_error"] = fit.solution.loglik_error
    if new_rows and getattr(fit.facts, "case", None) is None:
        rows = table().iloc[:3]
        for kind in ("latent", "chance", "outcome"):
            try:
                made[kind] = np.asarray(fit.predict(rows, kind=kind), dtype=float).ravel().tolist()
            except ss.errors.SelfSelectError as error:
                made[kind] = type(error).__name__
    if hasattr(fit, "choice_probabilities"):
        try:
            effect = fit.choice_probabilities(data=table().iloc[:20])
            made["effect"] = effect.table[["estimate", "std_error"]].to_numpy().ravel().tolist()
        except ss.errors.SelfSelectError as error:
            made["effect"] = type(error).__name__
    return made


def compare_drawn(found: dict[str, Any], kept: dict[str, Any]) -> None:
    """Compare a fit by draws with what was kept, within the error that it states."""
    assert found["converged"] == kept["converged"]
    reach = 4.0 * np.hypot(found.get("loglik_error", 0.0), kept["loglik_error"])
    assert abs(found["loglik"] - kept["loglik"]) <= reach
    assert list(found["estimates"]) == list(kept["estimates"])
    ours, theirs = (np.array(list(one["estimates"].values())) for one in (found, kept))
    assert (np.abs(ours - theirs) <= BY_DRAWS * np.array(kept["errors"])).all()
    np.testing.assert_allclose(found["errors"], kept["errors"], rtol=BY_DRAWS)
    np.testing.assert_allclose(found["chance"], kept["chance"], atol=BY_DRAWS / 10)


def compare(found: dict[str, Any], kept: dict[str, Any], *, climbed: bool) -> None:
    """Compare a fit with what was kept."""
    close, close_errors = (CLIMBED, CLIMBED) if climbed else (CLOSE, CLOSE_ERRORS)
    assert found["converged"] == kept["converged"]
    assert found["loglik"] == pytest.approx(kept["loglik"], rel=CLOSE, nan_ok=True)
    assert list(found["estimates"]) == list(kept["estimates"])
    scale = np.nan_to_num(np.abs(kept["errors"]), nan=1.0)
    gap = np.abs(np.array(list(found["estimates"].values())) - list(kept["estimates"].values()))
    assert (gap <= close * np.maximum(np.abs(list(kept["estimates"].values())), scale)).all()
    np.testing.assert_allclose(found["errors"], kept["errors"], rtol=close_errors * 10)
    # Effects of models with a selection equation came later; tests/selection simulates them.
    names = [name for name in ("latent", "chance", "outcome", "effect") if name in kept]
    for name in names:
        if isinstance(kept[name], list):
            np.testing.assert_allclose(
                found[name], kept[name], rtol=close_errors * 10, atol=close_errors
            )
        else:
            assert found[name] == kept[name]


def made(name: str) -> dict[str, Any]:
    """Fit a case, by its name or by that and the way it is to be fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.SelfSelectWarning)
        if name.startswith("files: "):
            with TemporaryDirectory() as folder:
                return numbers(in_files(name.removeprefix("files: "), Path(folder)))
        if name.startswith("loaded: "):
            fit = CASES[name.removeprefix("loaded: ")](table())
            with TemporaryDirectory() as folder:
                fit.save(Path(folder) / "fit.json")
                return numbers(ss.load(Path(folder) / "fit.json"))
        return numbers(CASES[name](table()))


NAMES = [*CASES, *(f"files: {one}" for one in IN_FILES), *(f"loaded: {one}" for one in LOADED)]


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    assert sorted(found) == sorted(NAMES)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_that_were_kept(name, kept):
    if name in DRAWN:
        compare_drawn(made(name), kept[name])
        return
    climbed = any(word in name for word in ("unknown", "shared shock", "switching", "selection"))
    compare(made(name), kept[name], climbed=climbed or "correlated" in name)


if __name__ == "__main__":
    # With names, only these are written anew.
    chosen = sys.argv[1:] or NAMES
    before = json.loads(KEPT.read_text(encoding="utf-8"))
    everything = {name: made(name) if name in chosen else before[name] for name in NAMES}
    KEPT.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")

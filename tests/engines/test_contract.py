"""Every engine gives the same answers as memory, from the same rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data import survey

SAME = 1e-8
"""Parameters: engines add up the same numbers in another order, and steps end far within this."""

SAME_ERRORS = 1e-6
"""Standard errors: inverses of sums carry the roundings of those on."""

KNOWN = "outcome ~ x1 + x2"

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "known index": (KNOWN, {}),
    "one formula each": (
        {"a": KNOWN, "c": "outcome ~ x2 + x1", "b": "outcome ~ x1 + C(year)"}, {},
    ),
    "no intercept": ("outcome ~ x1 + x2 - 1", {}),
    "smallest is seen": (KNOWN, {"rule": "min"}),
    "computed terms": (
        "outcome ~ bs(x1, df=4) + center(x2) + poly(x3, 2) + np.exp(x2) + x1:x2 + region", {},
    ),
    "robust": (KNOWN, {"covariance": "robust"}),
    "clustered": (KNOWN, {"cluster": "firm"}),
    "clustered by text": (KNOWN, {"cluster": "region"}),
    "clustered in two ways": (KNOWN, {"cluster": ["firm", "year"]}),
    "weights": (KNOWN, {"weights": "w"}),
    "frequency weights, some zero": (KNOWN, {"weights": "often", "weights_kind": "frequency"}),
    "probability weights": (KNOWN, {"weights": "w", "weights_kind": "probability"}),
    "known costs": (
        KNOWN, {"cost": {"b": 0.4, "c": "fare"}, "available": {"c": "open_c"}},
    ),
    "estimated cost": (KNOWN, {"cost": {"c": "~ fare"}, "noise": ss.noises.Independent("common")}),
    "correlated": ("pair_outcome ~ x1 + x2", {"chosen": "pair", "noise": ss.noises.Correlated()}),
    "Gumbel": (KNOWN, {"noise": ss.noises.Independent(shape="gumbel")}),
    "Laplace": (KNOWN, {"noise": ss.noises.Independent(shape="laplace")}),
    "Student": (KNOWN, {"noise": ss.noises.Student(5)}),
    "mixture": ("np.exp(outcome) ~ x1 + x2", {"noise": ss.noises.Mixture(2)}),
    "shared": (KNOWN, {"shared": ["x1"], "noise": ss.noises.Independent("common")}),
    "offset": (KNOWN, {"offset": "known_part"}),
    "silent": ("kept_outcome ~ x1 + x2", {"missing_outcome": "silent"}),
    "limits": ("kept_outcome ~ x1 + x2", {"outcome_between": ("low", None)}),
    "dropped outcomes": ("kept_outcome ~ x1 + x2", {"missing_outcome": "drop"}),
    "possible": (KNOWN, {"chosen": "partly", "possible": {"b": "maybe_b"}}),
    "unknown index": ("outcome ~ x1 + x2", {"alternatives": 2, "seed": 3}),
    "named, unknown index": (
        {"left": "outcome ~ x1", "right": "outcome ~ x2 + x3"}, {"seed": 3},
    ),
}  # fmt: skip

SELECTS = "works ~ x1 + x3 + region"
PAY = {"in": "pay ~ x1 + x2 + tenure", "out": "pay ~ x1 + x3"}

SELECTED: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "selected where recorded": (ss.sample_selection, "wage ~ x1 + x2", "~ x1 + x3", {}),
    "own transforms": (
        ss.sample_selection, "wage ~ center(x1) + C(year)", "works ~ center(x1) + x3 + region",
        {"cluster": "firm", "start": "two-step"},
    ),
    "selected but silent": (
        ss.sample_selection, "told_wage ~ x1 + x2", SELECTS, {"missing_outcome": "silent"},
    ),
    "selected, between limits": (
        ss.sample_selection, "told_wage ~ x1 + x2", SELECTS,
        {"outcome_between": ("lowest_wage", None)},
    ),
    "two steps": (
        ss.sample_selection, "told_wage ~ x1 + x2", SELECTS,
        {"method": "two-step", "cluster": "firm", "missing_outcome": "drop"},
    ),
    "binary": (ss.sample_selection, "good ~ x1 + x2", SELECTS, {"binary": True}),
    "switching": (ss.switching, PAY, "job ~ x1 + x3", {"towards": "out", "covariance": "robust"}),
    "switching, shared": (
        ss.switching, "np.exp(pay / 9) ~ x1 + x2", "job ~ x1 + x3",
        {"shared": "slopes", "offset": {"in": "known_part"}, "weights": "w",
         "weights_kind": "probability"},
    ),
    "ordered": (
        ss.switching, "pay ~ x1", "hours ~ x1 + x3", {"ordered": ["none", "part", "full"]},
    ),
}  # fmt: skip


def fit(formula: Any, data: Any, **options: Any) -> Any:
    by_column = "alternatives" not in options and "left" not in formula
    return ss.fit(formula, data, **({"chosen": "chosen"} if by_column else {}) | options)


def fit_case(case: str, data: Any, **options: Any) -> Any:
    if case in CASES:
        formula, others = CASES[case]
        return fit(formula, data, **others, **options)
    door, outcome, selection, others = SELECTED[case]
    with warnings.catch_warnings():
        # Some rows of one alternative lack a covariate of its own.
        warnings.simplefilter("ignore", ss.errors.MissingRowsWarning)
        return door(outcome, selection, data, **others, **options)


@pytest.fixture(scope="module")
def in_memory(people):
    """Return fits in memory by the name of the case, each made once."""
    made: dict[str, Any] = {}

    def find(case: str) -> Any:
        if case not in made:
            made[case] = fit_case(case, people)
        return made[case]

    return find


@pytest.fixture(scope="module")
def handed(people, tmp_path_factory):
    """Return the table as an engine takes it, written once."""
    made: dict[str, Any] = {}

    def hand(way: Any) -> Any:
        name = way.hand.__name__
        if name not in made:
            made[name] = way.hand(people, tmp_path_factory.mktemp(name))
        return made[name]

    return hand


def assert_same(found: Any, wanted: Any) -> None:
    assert list(found.params.index) == list(wanted.params.index)
    np.testing.assert_allclose(found.params, wanted.params, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=SAME_ERRORS)
    assert found.llf == pytest.approx(wanted.llf, rel=SAME, nan_ok=True)
    assert found.converged == wanted.converged
    assert found.facts.counts == wanted.facts.counts and found.nobs == wanted.nobs
    assert found.facts.n_without_outcome == wanted.facts.n_without_outcome
    assert found.covariance.description == wanted.covariance.description


@pytest.mark.parametrize("case", [*CASES, *SELECTED])
def test_estimates_and_standard_errors_are_those_of_memory(way, case, handed, in_memory):
    data, engine = handed(way)
    found, wanted = fit_case(case, data, engine=engine), in_memory(case)
    assert_same(found, wanted)
    if case in SELECTED:
        facts = [replace(one.facts, n_effective=round(one.facts.n_effective, 6))
                 for one in (found, wanted)]  # fmt: skip
        assert facts[0] == facts[1]


@pytest.mark.parametrize("case", ["selected but silent", "switching"])
def test_answers_of_a_selection_equation_are_those_of_memory(way, case, handed, in_memory, people):
    data, engine = handed(way)
    found, wanted = fit_case(case, data, engine=engine), in_memory(case)
    new = people[people["tenure"].notna()].iloc[:50]
    for kind in ("latent", "chance", "given_seen"):
        np.testing.assert_allclose(
            found.predict(new, kind=kind), wanted.predict(new, kind=kind), rtol=SAME_ERRORS
        )
    assert found.independence_test().statistic == pytest.approx(
        wanted.independence_test().statistic, rel=SAME_ERRORS
    )
    pd.testing.assert_frame_equal(found.compare().table, wanted.compare().table, rtol=SAME_ERRORS)


@pytest.mark.parametrize(
    "case", ["known index", "computed terms", "probability weights", "silent", "unknown index"]
)
def test_every_answer_that_follows_is_that_of_memory(way, case, handed, in_memory, people):
    data, engine = handed(way)
    formula, options = CASES[case]
    found, wanted = fit(formula, data, engine=engine, **options), in_memory(case)
    pd.testing.assert_frame_equal(found.naive, wanted.naive, rtol=SAME_ERRORS)
    pd.testing.assert_frame_equal(found.compare().table, wanted.compare().table, rtol=SAME_ERRORS)
    for test in ("normality_test", "heteroskedasticity_test"):
        ours, theirs = (getattr(one, test)(replications=0) for one in (found, wanted))
        assert ours.statistic == pytest.approx(theirs.statistic, rel=SAME_ERRORS, nan_ok=True)
    ours, theirs = found.independence_test(), wanted.independence_test()
    assert ours.statistic == pytest.approx(theirs.statistic, rel=SAME_ERRORS, nan_ok=True)
    np.testing.assert_allclose(found.shares, wanted.shares, rtol=SAME_ERRORS)
    assert str(found.diagnose()) == str(wanted.diagnose())
    assert str(found.summary()) == str(wanted.summary())
    new = people.iloc[:50]
    for kind in ("latent", "chance", "outcome", "given_seen"):
        np.testing.assert_allclose(
            found.predict(new, kind=kind), wanted.predict(new, kind=kind), rtol=SAME_ERRORS
        )
    if case == "unknown index":
        np.testing.assert_allclose(
            found.responsibilities(new), wanted.responsibilities(new), atol=SAME_ERRORS
        )


@pytest.mark.parametrize("options", [{}, {"cluster": "firm"}], ids=["rows", "clusters"])
def test_a_bootstrap_is_that_of_its_seed(way, handed, in_memory, options):
    data, engine = handed(way)
    plan = ss.inference.Bootstrap(12)
    errors = [
        fit(KNOWN, data, engine=engine, covariance=plan, seed=seed, **options).bse
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(errors[0], errors[1])
    assert (errors[0] != errors[2]).all()
    # Twelve samples know a standard error to 21 per cent.
    np.testing.assert_allclose(errors[0], in_memory("known index").bse, rtol=0.8)


def test_a_bootstrap_of_the_unknown_index_begins_on_a_sample(way, handed, monkeypatch):
    monkeypatch.setattr(survey, "SAMPLE", 400)
    data, engine = handed(way)
    solver = ss.solvers.MaximumLikelihood(starts=2, sample=300)
    options = {"alternatives": 2, "seed": 3, "solver": solver, "engine": engine}
    drawn = fit(KNOWN, data, covariance=ss.inference.Bootstrap(4), **options)
    # Four samples know a standard error to 40 per cent.
    ratio = drawn.bse / fit(KNOWN, data, **options).bse
    assert ((ratio > 0.1) & (ratio < 4.0)).all()


def test_a_fit_that_starts_on_a_sample_ends_where_memory_does(way, handed, in_memory, monkeypatch):
    monkeypatch.setattr(survey, "SAMPLE", 200)
    data, engine = handed(way)
    solver = ss.solvers.Newton(sample=150)
    found = fit(KNOWN, data, engine=engine, solver=solver)
    assert found.solution.trace[0].rows <= 200
    assert found.solution.n_passes <= 4
    assert_same(found, in_memory("known index"))


def test_a_saved_fit_needs_no_engine(way, handed, in_memory, tmp_path, people):
    data, engine = handed(way)
    found = fit(KNOWN, data, engine=engine)
    found.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(in_memory("known index").summary())
    np.testing.assert_allclose(loaded.predict(people), found.predict(people))


def test_what_needs_all_rows_at_once_says_so(way, handed):
    data, engine = handed(way)
    found = fit(KNOWN, data, engine=engine)
    if found.has_rows:
        pytest.skip("this engine holds its rows")
    with pytest.raises(ss.errors.UnsupportedError, match="never all in"):
        _ = found.rows

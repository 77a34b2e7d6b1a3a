"""Unobserved types as results: who has which, and what one type fewer is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError
from selfselect.results.overfitting import FewerTypes, rarest_type

N_PEOPLE = 80


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Draw people of two types, far apart, in three years each."""
    rng = np.random.default_rng(3)
    kind = np.repeat(rng.random(N_PEOPLE) < 0.3, 3)
    x = rng.normal(size=3 * N_PEOPLE)
    means = np.column_stack([1.0 + x + 2.0 * kind, 0.5 - 0.5 * x - 2.0 * kind])
    latent = means + 0.7 * rng.normal(size=means.shape)
    job = np.array(["farm", "town"])[latent.argmax(axis=1)]
    person = np.repeat([f"p{i:02}" for i in range(N_PEOPLE)], 3)
    return pd.DataFrame({"x": x, "y": latent.max(axis=1), "job": job, "who": person, "kind": kind})


@pytest.fixture(scope="module")
def plain(table: pd.DataFrame) -> Any:
    return ss.fit("y ~ x", table, chosen="job")


@pytest.fixture(scope="module")
def typed(table: pd.DataFrame) -> Any:
    return ss.fit(
        "y ~ x", table, chosen="job", panel="who", noise=ss.noises.Types(2), seed=1,
        solver=ss.solvers.TypeSearch(starts=2),
    )  # fmt: skip


def test_people_have_chances_of_types_that_tell_them_apart(typed: Any, table: pd.DataFrame) -> None:
    found = typed.types()
    assert found.people.index.tolist() == table["who"].unique().tolist()
    np.testing.assert_allclose(found.people.sum(axis=1), 1.0, atol=1e-12)
    truth = table.groupby("who", sort=False)["kind"].first().to_numpy()
    # The first type is the largest, the one of seven in ten.
    assert np.mean((found.people.iloc[:, 1] > 0.5) == truth) > 0.9


def test_people_of_weight_zero_are_listed_and_do_not_count(table: pd.DataFrame) -> None:
    """They have the chances that the same rows have in people who count; tables leave them out."""
    silent = table[table["who"] < "p04"]
    unweighted = silent.assign(who="no " + silent["who"], w=0.0)
    every = pd.concat([table.assign(w=1.0), unweighted], ignore_index=True)
    model = {"chosen": "job", "panel": "who", "noise": ss.noises.Types(2), "seed": 1}
    model |= {"solver": ss.solvers.TypeSearch(starts=2), "weights": "w"}
    fit, without = (ss.fit("y ~ x", one, **model) for one in (every, every[every["w"] > 0]))
    found, wanted = fit.types(), without.types()
    assert found.people.index.tolist() == every["who"].unique().tolist()
    for who in silent["who"].unique():
        assert found.people.loc[who].tolist() == found.people.loc[f"no {who}"].tolist()
    counted = found.people.loc[wanted.people.index]
    np.testing.assert_allclose(counted, wanted.people, atol=1e-5)
    np.testing.assert_allclose(found.table, wanted.table, rtol=1e-4, atol=1e-4)


def test_a_row_of_weight_zero_that_no_type_explains_has_no_chances(table: pd.DataFrame) -> None:
    far = pd.DataFrame({"x": [0.0], "y": [1e200], "job": ["farm"], "w": [0.0]})
    every = pd.concat([table.assign(w=1.0), far], ignore_index=True)
    fit = ss.fit(
        "y ~ x", every, chosen="job", noise=ss.noises.Types(2), seed=1, weights="w",
        solver=ss.solvers.TypeSearch(starts=2),
    )  # fmt: skip
    people = fit.types().people
    assert people.iloc[-1].isna().all()
    np.testing.assert_allclose(people.iloc[:-1].sum(axis=1), 1.0, atol=1e-12)


def test_what_types_are_like_adds_up_to_all_people_and_rows(
    typed: Any, table: pd.DataFrame
) -> None:
    lines = typed.types().table
    assert lines.loc["weight"].sum() == pytest.approx(1.0)
    assert lines.loc["expected people"].sum() == pytest.approx(N_PEOPLE)
    assert lines.loc["expected rows"].sum() == pytest.approx(len(table))
    share = lines.loc["share of rows in farm"] @ lines.loc["expected rows"] / len(table)
    assert share == pytest.approx((table["job"] == "farm").mean(), abs=1e-9)
    mean = lines.loc["mean y"] @ lines.loc["expected rows"] / len(table)
    assert mean == pytest.approx(table["y"].mean())
    assert rarest_type(typed) == (1, pytest.approx(lines.loc["weight"].min()))


def test_without_types_there_are_none_to_describe(plain: Any) -> None:
    with pytest.raises(UnsupportedError, match="This fit has no types"):
        plain.types()


def test_one_type_fewer_than_two_is_the_fit_without_types(typed: Any, plain: Any) -> None:
    gain = FewerTypes(typed).gain()
    expected = typed.bic - typed.facts.bic(plain.llf, plain.n_parameters)
    assert gain == pytest.approx(expected, abs=1e-4)
    assert gain < 0

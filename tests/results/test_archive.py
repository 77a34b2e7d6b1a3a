"""Saved fits: what comes back, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError, DataError, SelfSelectError
from selfselect.results._archive_checks import check_coder
from selfselect.results.archive import sealed

Rules, Noises = ss.rules, ss.noises

MODELS: dict[str, dict[str, Any]] = {
    "coded": {"formula": "income ~ clan + bs(height, df=4) + center(weight)"},
    "polynomial": {"formula": "income ~ poly(height, 3) + C(clan, contr.sum)"},
    "own equations": {"formula": {"hunting": "income ~ height", "fishing": "income ~ weight - 1"}},
    "known": {
        "formula": "income ~ height",
        "rule": Rules.Maximum(cost={"fishing": "rent", "hunting": np.float64(1.5)}),
        "available": {"hunting": "near_woods"},
    },
    "minimum": {"formula": "income ~ height", "rule": "min"},
    "ranked": {"formula": "income ~ height", "rule": Rules.Ranked(2)},
    "transforms": {
        "formula": "income ~ height",
        "rule": Rules.MonotoneArgmax({"fishing": "logistic", "hunting": 0.01}),
    },
    "transforms in order": {
        "formula": "income ~ height",
        "rule": Rules.MonotoneArgmax(["identity", 0.9], cost={"hunting": 2.0}),
    },
    "common scale": {"formula": "income ~ height", "noise": Noises.Independent("common")},
    "fixed scales": {
        "formula": "income ~ height",
        "noise": Noises.Independent({"hunting": 14.0, "fishing": 9.0}),
    },
    "fixed scale": {"formula": "income ~ height", "noise": Noises.Independent(10.0)},
    "robust": {"formula": "income ~ height", "weights": "w", "covariance": "robust"},
    "clustered": {"formula": "income ~ height", "cluster": "clan"},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fit.json"


def assert_same(one: ss.FitResult, other: ss.FitResult) -> None:
    pd.testing.assert_frame_equal(one.tidy(), other.tidy())
    pd.testing.assert_frame_equal(one.cov_params(), other.cov_params())
    pd.testing.assert_frame_equal(one.glance(), other.glance())
    pd.testing.assert_frame_equal(one.compare().table, other.compare().table)
    pd.testing.assert_frame_equal(one.trace, other.trace)
    pd.testing.assert_series_equal(one.scales, other.scales)
    pd.testing.assert_series_equal(one.counts, other.counts)
    assert str(one.independence_test()) == str(other.independence_test())
    assert one.diagnose() == other.diagnose()
    assert one.facts == other.facts
    assert (one.status, one.solver_reason) == (other.status, other.solver_reason)
    for form in ("to_text", "to_html", "to_latex", "to_markdown"):
        assert getattr(one.summary(), form)() == getattr(other.summary(), form)()


def test_every_fit_with_colons_in_names_or_nested_categories_loads(
    villagers: pd.DataFrame, path: Path
) -> None:
    table = villagers.rename(columns={"height": "a:x", "clan": "c:c"})
    table["bank"] = np.where(table.index % 2, "left", "right")
    table["home"] = (table["job"] == "fishing").astype(int)
    fits = [
        ss.fit(formula, table, chosen="job")
        for formula in (
            "income ~ `a:x`",
            "income ~ `a:x` * weight",
            "income ~ `c:c` * `a:x`",
            "income ~ C(`c:c`) + `a:x` - 1",
            "income ~ bank + bank:`c:c`",
        )
    ]
    noise = ss.noises.Independent(scale="~ `a:x`")
    fits += [
        ss.fit("income ~ `a:x`", table, chosen="job", noise=noise),
        ss.fit("income ~ weight", table, chosen="job", cost={"fishing": "~ `a:x`"}),
        ss.switching("income ~ `a:x`", "home ~ `a:x` + weight", table),
    ]
    for fit in fits:
        fit.save(path)
        loaded = ss.load(path)
        assert str(loaded.summary()) == str(fit.summary())
        assert loaded.predict(table).equals(fit.predict(table))


def test_columns_in_another_order_than_that_of_their_terms_are_refused() -> None:
    check_coder("k + k:g", ("Intercept", "k[T.b]", "k[a]:g[T.w]", "k[b]:g[T.w]"))
    for names in (("Intercept",), ("Intercept", "k[T.b]"), ("k[T.b]", "Intercept", "k[a]:g[T.w]")):
        with pytest.raises(ArchiveError, match="are not those of"):
            check_coder("x + k + k:g", names)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_comes_back_as_it_was(name: str, villagers: pd.DataFrame, path: Path) -> None:
    table = villagers.assign(
        near_woods=((villagers["job"] == "hunting") | (villagers.index % 3 > 0)).astype(int)
    )
    model = dict(MODELS[name])
    fit = ss.fit(model.pop("formula"), table, chosen="job", **model)
    fit.save(path)
    loaded = ss.load(path)
    assert_same(loaded, fit)
    new = table.head(20)
    for kind in ("latent", "chance", "given_seen"):
        pd.testing.assert_frame_equal(loaded.predict(new, kind), fit.predict(new, kind))
    pd.testing.assert_series_equal(loaded.predict(new, "outcome"), fit.predict(new, "outcome"))
    if "hunting:height" in fit.names:
        assert loaded.wald_test("hunting:height") == fit.wald_test("hunting:height")
    loaded.save(path)
    assert_same(ss.load(path), fit)


@pytest.mark.parametrize("labels", [(1, 2), (True, False), (0.5, 1.5), ("ü", "<i>")])
def test_labels_come_back_with_their_kind(
    labels: tuple[Any, Any], villagers: pd.DataFrame, path: Path
) -> None:
    jobs = [labels[job == "hunting"] for job in villagers["job"]]
    rule = Rules.Maximum(cost={labels[0]: "rent"})
    fit = ss.fit("income ~ height", villagers.assign(job=jobs), chosen="job", rule=rule)
    fit.save(path)
    loaded = ss.load(path)
    assert_same(loaded, fit)
    assert loaded.problem.equations.alternatives == fit.problem.equations.alternatives
    pd.testing.assert_frame_equal(
        loaded.predict(villagers, "chance"), fit.predict(villagers, "chance")
    )


def test_a_fit_of_arrays_comes_back(villagers: pd.DataFrame, path: Path) -> None:
    X = villagers[["height", "weight"]].to_numpy()
    fit = ss.SelfSelectionRegressor().fit(X, villagers["income"], chosen=villagers["job"]).result_
    fit.save(path)
    assert_same(ss.load(path), fit)
    np.testing.assert_array_equal(ss.load(path).predict(X[:9]), fit.predict(X[:9]))


def test_a_fit_that_did_not_converge_comes_back_so(stopped: ss.FitResult, path: Path) -> None:
    stopped.save(path)
    assert_same(ss.load(path), stopped)


def test_a_loaded_fit_knows_categories_it_never_met(villagers: pd.DataFrame, path: Path) -> None:
    ss.fit("income ~ clan", villagers, chosen="job").save(path)
    with pytest.raises(DataError, match=r"'clan' has 'wolf', not met"):
        ss.load(path).predict(villagers.assign(clan="wolf"))


def test_the_file_is_json_with_format_and_version(result: ss.FitResult, path: Path) -> None:
    result.save(path)
    content = json.loads(path.read_text())
    assert (content["format"], content["version"]) == ("selfselect fit", 4)
    assert str(path) not in path.read_text()


def test_what_is_no_number_is_null_for_strict_readers_and_comes_back(path: Path) -> None:
    """A moment method has no standard errors, and no test of independence is possible."""
    sample = ss.simulators.gaussian(400, 2, 2, intercept=False, norm=2.0, seed=1)
    fit = ss.fit(sample.formula, sample.data, alternatives=2, solver=ss.solvers.TwoModels())
    assert fit.bse.isna().all()
    fit.save(path)

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    content = json.loads(path.read_text(), parse_constant=refuse)
    assert content["covariance"]["matrix"]["array"][0][0] is None
    loaded = ss.load(path)
    pd.testing.assert_frame_equal(loaded.tidy(), fit.tidy())
    assert loaded.summary().to_text() == fit.summary().to_text()
    assert repr(loaded.independence_test()) == repr(fit.independence_test())
    np.testing.assert_array_equal(loaded.solution.information, fit.solution.information)


def test_others_may_read_a_saved_fit(result: ss.FitResult, path: Path) -> None:
    (path.parent / "plain").write_text("")
    result.save(path)
    assert path.stat().st_mode == (path.parent / "plain").stat().st_mode


# what is refused


def test_files_that_are_not_saved_fits_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="There is no file"):
        ss.load(path)
    with pytest.raises(ArchiveError, match="cannot be read"):
        ss.load(tmp_path)
    for text in ("[1, 2]", '{"a": 1}', '"text"', '{"format": "other"}'):
        path.write_text(text)
        with pytest.raises(ArchiveError, match="JSON but not a saved fit"):
            ss.load(path)
    path.write_bytes(b"\x80\x04\x95pickle")
    with pytest.raises(ArchiveError, match="cannot be read as text"):
        ss.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ArchiveError, match="not complete JSON"):
        ss.load(path)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_from_before_the_first_release_is_refused_in_one_sentence(
    version: int, result: ss.FitResult, path: Path
) -> None:
    result.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))
    with pytest.raises(ArchiveError) as refused:
        ss.load(path)
    assert str(refused.value) == (
        f"The file {str(path)!r} has version '{version}' of the format, and this selfselect reads "
        "version 4 only: fit again, or use a matching selfselect."
    )


def test_a_truncated_file_is_refused_wherever_it_ends(result: ss.FitResult, path: Path) -> None:
    result.save(path)
    whole = path.read_text()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        path.write_text(whole[: int(share * len(whole))])
        with pytest.raises(ArchiveError, match="truncated"):
            ss.load(path)


def test_another_version_is_refused(result: ss.FitResult, path: Path) -> None:
    result.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(ArchiveError, match=r"version '99' of the format.*reads version 4"):
        ss.load(path)


def tampered(fit: ss.FitResult, path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    fit.save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(sealed(content)))
    return path


def set_formula(text: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["coding"]["coders"][0].update(text=text)


@pytest.mark.parametrize(
    "text",
    [
        "height + I(__import__('os').system('true'))",
        "height + np.load('x')",
        "height + I(height.__class__)",
        "height + I((lambda: 1)())",
        "height ~ weight",
    ],
)
def test_a_formula_with_code_in_it_is_refused(text: str, result: ss.FitResult, path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"uses|does not parse|exactly one|are not those of"):
        ss.load(tampered(result, path, set_formula(text)))


def test_a_builtin_in_a_formula_is_only_a_missing_column(
    villagers: pd.DataFrame, path: Path
) -> None:
    """`eval` as the function of a hash would run every category as code."""
    fit = ss.fit("income ~ C(clan)", villagers, chosen="job")
    mark = path.parent / "ran"
    text = "hashed(clan, levels=3, hash_func=eval)"

    def change(content: dict[str, Any]) -> None:
        names = ["Intercept", f"{text}[1]", f"{text}[2]"]
        content["facts"]["formulas"] = [f"income ~ {text}"] * 2
        content["coding"]["coders"][0].update(text=text, names=names)
        equations = content["problem"]["equations"]
        equations["covariates"] = names[1:]
        for one in equations["each"]:
            one["terms"] = names

    tampered(fit, path, change)
    evil = villagers.assign(clan=f"open({str(mark)!r}, 'w') and 1")
    with pytest.raises(SelfSelectError, match=r"eval|hashed|are not those it has"):
        ss.load(path).predict(evil)
    assert not mark.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("solution"),
        lambda content: content["solution"].pop("free"),
        lambda content: content["covariance"].update(matrix=[[1.0]]),
        lambda content: content["problem"]["equations"].update(each=[]),
        lambda content: content["coding"].update(coder_of=[0]),
        lambda content: content["coding"].update(coder_of=[7, 7]),
        lambda content: content["coding"]["coders"][0].update(names=["Intercept", "height"]),
        lambda content: content["problem"]["rule"].update({"is": "anything/1"}),
        lambda content: content["problem"]["noise"].update(scale="every"),
        lambda content: content["facts"].update(surprise=1),
        lambda content: content["kept"].update(diagnosis=None),
    ],
)
def test_a_damaged_file_is_refused(
    change: Callable[[dict[str, Any]], Any], result: ss.FitResult, path: Path
) -> None:
    with pytest.raises(ArchiveError, match=r"damaged|cannot be used"):
        ss.load(tampered(result, path, change))


# what cannot be saved


def test_transforms_that_are_functions_are_not_saved(villagers: pd.DataFrame, path: Path) -> None:
    rule = Rules.MonotoneArgmax({"hunting": np.cbrt})
    fit = ss.fit("income ~ height", villagers, chosen="job", rule=rule)
    with pytest.raises(ArchiveError, match="transforms are functions cannot be saved"):
        fit.save(path)
    assert list(path.parent.iterdir()) == []


def test_labels_without_a_plain_form_are_not_saved(villagers: pd.DataFrame, path: Path) -> None:
    days = pd.to_datetime(np.where(villagers["job"] == "hunting", "2020-01-01", "2020-01-02"))
    fit = ss.fit("income ~ height", villagers.assign(job=days), chosen="job")
    with pytest.raises(ArchiveError, match="no plain form"):
        fit.save(path)


def test_a_save_that_fails_leaves_nothing_behind_and_the_old_file_intact(
    result: ss.FitResult, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArchiveError, match=r"could not be saved .*save it elsewhere"):
        result.save(tmp_path / "no" / "such" / "fit.json")
    assert list(tmp_path.iterdir()) == []

    path.write_text("old")

    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArchiveError, match="No space left on device"):
        result.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["fit.json"]
    assert path.read_text() == "old"


JOINED: dict[str, dict[str, Any]] = {
    "correlated": {"noise": Noises.Correlated()},
    "correlation by pair": {"noise": Noises.Correlated(1.5, {("hunting", "fishing"): 0.3})},
    "correlation by matrix": {"noise": Noises.Correlated("common", [[1, 0.3], [0.3, 1]])},
    "shared shock": {"noise": Noises.SharedShock("common")},
    "loading by label": {"noise": Noises.SharedShock(loading={"hunting": 2.0, "fishing": 1.0})},
    "estimated cost": {"cost": {"fishing": "~ bs(rent, df=3) - 1", "hunting": 1.0}},
    "silent": {"missing_outcome": "silent", "noise": "correlated"},
    "limits": {"outcome_between": (None, "cap"), "possible": {"fishing": "open"}},
}


@pytest.mark.parametrize("name", sorted(JOINED))
def test_joined_fits_come_back_as_they_were(name: str, path: Path) -> None:
    table = ss.simulators.village(400, seed=5).data
    rng = np.random.default_rng(5)
    table = table.assign(rent=rng.uniform(0, 9, len(table)), cap=200.0, open=1)
    if name in ("silent", "limits"):
        table.loc[:20, "income"] = np.nan
    if name == "limits":
        table.loc[30:60, "job"] = None
    fit = ss.fit("income ~ height + weight", table, chosen="job", **JOINED[name])
    fit.save(path)
    back = ss.load(path)
    assert_same(fit, back)
    assert str(back.summary()) == str(fit.summary())
    for kind in ("chance", "outcome", "given_seen"):
        new = table.head(5)
        found, wanted = back.predict(new, kind=kind), fit.predict(new, kind=kind)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_named_alias_of_arrays_is_read_as_what_it_names():
    extensions = pytest.importorskip("typing_extensions", reason="typing_extensions is missing")
    from selfselect.plain import _conform

    number = TypeVar("number", bound=np.generic)
    array: Any = np.ndarray[tuple[Any, ...], np.dtype[number]]
    alias = extensions.TypeAliasType("alias", array, type_params=(number,))
    values = np.arange(3.0)
    assert _conform(values, alias[np.float64]) is values
    with pytest.raises(ArchiveError, match="of the wrong kind"):
        _conform(values, alias[np.int8])


def test_columns_keep_the_order_of_the_formulas(villagers: pd.DataFrame, path: Path) -> None:
    rows = villagers.assign(bonus=0.1 * villagers["weight"])
    formulas = {"hunting": "income ~ weight", "fishing": "income ~ weight + height"}
    fit = ss.fit(formulas, rows, chosen="job", offset="bonus")
    fit.save(path)
    before, after = (one.marginal_effects(data=rows).table for one in (fit, ss.load(path)))
    assert before["variable"].unique().tolist() == ["weight", "height", "bonus"]
    pd.testing.assert_frame_equal(after, before)

"""What every fit of the house has, fits with a selection equation have: files, reports, errors."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError, OptionError, UnsupportedError
from selfselect.inference import Bootstrap
from selfselect.results.archive import sealed

FORMULAS = {"in": "y ~ x", "out": "y ~ x + w"}

CALLS = {
    "sample selection": lambda data, **more: ss.sample_selection(
        "wage ~ x", "works ~ x + z", data, **more
    ),
    "if recorded": lambda data, **more: ss.sample_selection("wage ~ x", "~ x + z", data, **more),
    "switching": lambda data, **more: ss.switching(FORMULAS, "chosen ~ x + z", data, **more),
    "two steps": lambda data, **more: ss.switching(
        FORMULAS, "chosen ~ x + z", data, method="two-step", **more
    ),
    "ordered": lambda data, **more: ss.switching(
        "y ~ x",
        "hours ~ x + z",
        data.assign(hours=np.digitize(data["z"] + data["y"], [-1, 1])),
        ordered=True,
        **more,
    ),
    "splines": lambda data, **more: ss.switching(
        "y ~ bs(x, df=4)", "chosen ~ bs(x, df=4) + z", data, **more
    ),
}


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]


def test_a_saved_fit_is_the_same_fit(table, call, tmp_path):
    fit = call(table)
    fit.save(tmp_path / "fit.json")
    again = ss.load(tmp_path / "fit.json")
    assert str(again.summary()) == str(fit.summary())
    assert repr(again) == repr(fit)
    pd.testing.assert_frame_equal(again.tidy(), fit.tidy())
    pd.testing.assert_frame_equal(again.compare().table, fit.compare().table)
    pd.testing.assert_frame_equal(again.glance(), fit.glance())
    pd.testing.assert_frame_equal(again.starts, fit.starts)
    np.testing.assert_array_equal(again.cov_params(), fit.cov_params())
    assert again.independence_test() == fit.independence_test()
    assert (again.model, again.method, again.boundary) == (fit.model, fit.method, fit.boundary)
    # Splines end where the rows do that they were learnt from.
    inside = table[table["x"].abs() < 1.5].iloc[:50]
    for kind in ("latent", "chance", "outcome", "given_seen"):
        np.testing.assert_array_equal(again.predict(inside, kind), fit.predict(inside, kind))
    assert again.coding.columns == fit.coding.columns
    effect = again.potential_outcomes(inside)
    pd.testing.assert_frame_equal(effect.table, fit.potential_outcomes(inside).table)
    with pytest.raises(UnsupportedError, match="no longer has its rows"):
        again.potential_outcomes()


def test_a_fit_at_the_boundary_can_be_saved(at_the_edge, tmp_path):
    at_the_edge.save(tmp_path / "fit.json")
    again = ss.load(tmp_path / "fit.json")
    assert again.boundary == ("outcome",)
    assert "AT THE BOUNDARY" in str(again.summary())
    assert np.isnan(again.bse["outcome", "correlation"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["facts"].update(selection="chosen ~ x"), "other terms than its formula"),
        (lambda c: c["facts"].update(selection=None), "selection equation, or its formula"),
        (lambda c: c["problem"]["equations"].update(selection=None), "equation, or its formula"),
        (lambda c: c["problem"]["rule"].update(towards="up"), "towards='up' is no alternative"),
        (lambda c: c["coding"].update(coder_of=[2, 1]), "other terms|missing"),
        (lambda c: c["solution"].update(held=[99]), "none of its parameters"),
        (lambda c: c["covariance"].update(missing=[-1]), "none of its parameters"),
        (
            lambda c: c["problem"]["equations"]["selection"].update(alternative="in"),
            "selection equation is named",
        ),
    ],
)
def test_a_file_whose_parts_contradict_each_other_is_refused(table, change, words, tmp_path):
    path = tmp_path / "fit.json"
    CALLS["switching"](table).save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(sealed(content)))
    with pytest.raises(ArchiveError, match=words):
        ss.load(path)


def test_a_report_says_what_can_be_said(table, call, tmp_path):
    fit = call(table)
    fit.report(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text()
    assert "Selection follows an equation of its own" in text
    assert "Potential" in text or "Mean" in text
    assert ("no row shows two outcomes" in text) == (fit.model == "switching")
    assert "ss.switching(" in text or "ss.sample_selection(" in text


@pytest.mark.parametrize("name", ["sample selection", "switching", "two steps"])
def test_a_bootstrap_spreads_as_the_information_says(table, name):
    call = CALLS[name]
    fit = call(table, covariance=Bootstrap(60), seed=1)
    plain = call(table)
    assert fit.covariance.kind == "bootstrap" and "60 samples" in fit.covariance.description
    assert np.isfinite(fit.bse).all()
    known = plain.bse.notna()
    # Sixty samples tell a standard error to about a tenth.
    ratio = (fit.bse / plain.bse)[known]
    assert 0.75 < ratio.median() < 1.35
    np.testing.assert_array_equal(call(table, covariance=Bootstrap(60), seed=1).bse, fit.bse)


def test_a_bootstrap_may_draw_clusters(table):
    fit = CALLS["switching"](table, covariance=Bootstrap(20), cluster="group", seed=1)
    assert "20 samples" in fit.covariance.description and "clusters of group" in str(fit.summary())
    sizes = table["group"].value_counts()
    assert fit.covariance.df == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum() - 1)


@pytest.mark.parametrize("name", ["switching", "two steps"])
def test_rows_can_be_clustered_in_two_ways(table, name):
    """The variance is that of each way, less that of their intersections."""
    data = table.assign(year=np.arange(len(table)) % 45)
    both = CALLS[name](data, cluster=["group", "year"])
    assert both.covariance.description.startswith("clustered by group and year (")
    one, other = (CALLS[name](data, cluster=way).covariance.matrix for way in ("group", "year"))
    joined = data["group"].astype(str) + "/" + data["year"].astype(str)
    crossed = CALLS[name](data, cluster=joined.to_numpy()).covariance.matrix
    wanted = one + other - crossed
    kept = np.diag(wanted) > 0
    np.testing.assert_allclose(
        np.diag(both.covariance.matrix)[kept], np.diag(wanted)[kept], rtol=0.05
    )
    with pytest.raises(OptionError, match="not possible for clusters"):
        CALLS[name](data, cluster=["group", "year"], covariance="bootstrap")


@pytest.mark.parametrize("name", ["sample selection", "switching", "two steps"])
def test_of_probability_weights_only_ratios_matter_and_errors_are_robust(table, name):
    data = table.assign(w2=1e3 * table["weight"])
    one = CALLS[name](data, weights="weight", weights_kind="probability")
    other = CALLS[name](data, weights="w2", weights_kind="probability")
    np.testing.assert_allclose(other.values, one.values, rtol=1e-6)
    np.testing.assert_allclose(other.bse, one.bse, rtol=1e-5)
    assert one.covariance.kind == "robust"
    counted = CALLS[name](data, weights="weight", weights_kind="frequency")
    np.testing.assert_allclose(counted.values, one.values, rtol=1e-5, atol=1e-8)
    assert counted.nobs == table["weight"].sum() and one.nobs == len(table)


def test_pictures_are_drawn(table, call):
    fit = call(table)
    drawn = [
        ss.plots.coefficients(fit),
        ss.plots.choice_probabilities(fit, "z"),
        ss.plots.selection_lines(fit, "x"),
    ]
    if fit.method == "ml":
        drawn += [ss.plots.convergence(fit), ss.plots.starts(fit)]
    have_data = [axis.has_data() for picture in drawn for axis in np.ravel(picture.axes)]
    plt.close("all")
    assert len(have_data) >= len(drawn) and all(have_data)


def written(table, folder, ending):
    """Write a table as a file of some kind, and return its name."""
    path = folder / f"rows{ending}"
    write = {".csv": table.to_csv, ".parquet": table.to_parquet, ".feather": table.to_feather}
    write[ending](path, **({} if ending == ".feather" else {"index": False}))
    return path


@pytest.mark.parametrize("ending", [".csv", ".feather", ".parquet"])
def test_files_say_what_the_table_says(table, tmp_path, ending):
    path = written(table, tmp_path, ending)
    for name in ("sample selection", "two steps"):
        found, wanted = CALLS[name](path), CALLS[name](table)
        assert not found.has_rows
        np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-7)
    held = CALLS["two steps"](path, engine=ss.engines.Memory())
    assert held.has_rows
    np.testing.assert_allclose(held.values, wanted.values, rtol=1e-12)


def test_predictions_for_files_are_those_of_the_table(table, tmp_path):
    path = written(table, tmp_path, ".parquet")
    wanted = CALLS["sample selection"](table)
    streamed = CALLS["sample selection"](path, engine=ss.engines.Parquet(batch_rows=150))
    for kind in ("latent", "chance", "given_seen"):
        (made,) = streamed.write_predictions(tmp_path / kind, kind=kind, keep=["group"])
        frame = pd.read_parquet(made)
        np.testing.assert_array_equal(frame["group"], table["group"])
        expected = wanted.predict(table, kind=kind).to_numpy().reshape(len(table), -1)
        np.testing.assert_allclose(frame.iloc[:, 1:], expected, rtol=1e-9, atol=1e-9)
    # A chance needs the selection's columns alone.
    written(table[["x", "z"]], tmp_path, ".csv")
    assert wanted.write_predictions(tmp_path / "few", tmp_path / "rows.csv", kind="chance")


def test_a_file_needs_no_column_that_only_other_rows_have(table, tmp_path):
    lacking = table.assign(w=table["w"].where(table["chosen"] == "out"))
    path = written(lacking, tmp_path, ".parquet")
    found = CALLS["switching"](path, engine=ss.engines.Parquet(batch_rows=64))
    wanted = CALLS["switching"](lacking)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"works": True, "wage": np.arange(400.0)}, "Every row is selected by 'works'"),
        ({"works": False, "wage": np.nan}, "No row is selected by 'works'"),
        ({"works": 2}, "must be true or false"),
        ({"wage": 3.0}, "does not vary"),
        ({"wage": np.nan}, "were chosen but have no outcome"),
        ({"weight": -1.0}, "are negative"),
    ],
)
def test_a_file_is_refused_where_its_table_is(table, tmp_path, change, message):
    path = written(table.assign(**change), tmp_path, ".parquet")
    for data in (path, table.assign(**change)):
        with pytest.raises(ss.errors.DataError, match=message):
            CALLS["sample selection"](data, weights="weight")


def test_a_fit_says_how_it_was_called(table):
    fit = CALLS["switching"](table, towards="out")
    assert fit.call == (
        "ss.switching(\n    {'in': 'y ~ x', 'out': 'y ~ x + w'},\n    'chosen ~ x + z',\n"
        "    data,\n    towards='out',\n)"
    )


def test_equations_are_told_from_alternatives(table):
    fit = CALLS["switching"](table)
    equations = fit.problem.equations
    assert equations.alternatives == ("in", "out")
    assert equations.selection.alternative == "selection"
    assert equations.selection.terms == ("Intercept", "x", "z")
    assert list(fit.scales.index) == ["in", "out"]
    assert set(fit.params.index.get_level_values("alternative")) == {"in", "out", "selection"}


def test_a_spline_has_the_same_knots_in_every_equation(table):
    """What a transform learns comes from all rows, so rows of one outcome fit into another."""
    fit = CALLS["splines"](table)
    equations = fit.problem.equations
    assert equations.each[0].columns[1:] == equations.each[1].columns[1:]
    assert np.isfinite(fit.predict(table, "outcome")).all()
    assert np.isfinite(fit.predict(kind="latent").to_numpy()).all()


def test_noise_of_a_selection_is_for_models_with_a_selection(table):
    with pytest.raises(UnsupportedError, match=r"sample_selection or selfselect\.switching"):
        ss.fit("y ~ x", table, chosen="chosen", noise=ss.noises.Selection())
    with pytest.raises(UnsupportedError, match=r"sample_selection or selfselect\.switching"):
        ss.fit("y ~ x", table, chosen="chosen", rule=ss.rules.SelectionIndex("in"))


def test_a_seed_changes_no_estimate(table):
    one, other = (CALLS["switching"](table, seed=seed) for seed in (1, 2))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-6)


def test_predictions_are_written_for_files_that_are_read_piece_by_piece(table, tmp_path):
    fit = CALLS["switching"](table)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    (written,) = fit.write_predictions(tmp_path / "out", tmp_path / "rows.parquet", "outcome")
    found = pd.read_parquet(written)
    np.testing.assert_allclose(found.iloc[:, -1], fit.predict(table, "outcome"), rtol=1e-12)


def test_other_engines_that_hold_rows_give_the_same(table):
    pytest.importorskip("torch", reason="torch is not installed")
    one = CALLS["switching"](table, engine=ss.engines.Torch("cpu"))
    np.testing.assert_allclose(one.values, CALLS["switching"](table).values, rtol=1e-9)


def test_a_large_table_is_summed_in_batches(simulate):
    """More rows than one batch holds, and more than the search looks at."""
    data = simulate(25_000, seed=2)
    fit = CALLS["switching"](data)
    assert fit.converged
    truth = dict(simulate.truth)
    for label, estimate in fit.params.items():
        assert abs(estimate - truth[label]) < 4.5 * fit.bse[label]

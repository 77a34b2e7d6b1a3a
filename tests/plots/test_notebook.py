"""What a notebook shows: pictures as pictures, results as pages, in the colours of the reader."""

from __future__ import annotations

import inspect
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect import plots
from selfselect.inference.statistics import impossible_test
from selfselect.plots.fit_pictures import FitPictures
from selfselect.report.page import narrowed
from selfselect.results.assumptions import Assumption, Assumptions
from selfselect.results.diagnosis import Diagnosis, Finding
from selfselect.results.memberships import UnobservedTypes

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def fit():
    sample = ss.simulators.village(400, seed=2)
    return ss.fit(sample.formula, sample.data, chosen=sample.chosen)


def test_a_picture_shows_itself_once_and_says_one_line(fit):
    picture = fit.plot.coefficients(["height"])
    assert repr(picture).count("\n") == 0
    assert len(repr(picture)) < 100
    number = picture.figure.number
    assert plt.fignum_exists(number)
    assert picture._repr_png_().startswith(PNG)
    assert not plt.fignum_exists(number)
    # It can still be shown, and saved, afterwards.
    assert picture._repr_png_().startswith(PNG)


def test_every_picture_is_a_method_of_a_fit_with_the_same_options():
    drawn = [name for name in plots.__all__ if name.islower()]
    for name in drawn:
        method = inspect.signature(getattr(FitPictures, name)).parameters
        function = inspect.signature(getattr(plots, name)).parameters
        own = {key: one.default for key, one in function.items() if key not in ("fit", "found")}
        assert own.items() <= {key: one.default for key, one in method.items()}.items(), name
    assert all(name in repr(FitPictures(None)) for name in drawn)


@pytest.mark.parametrize(
    "name", ["coefficients", "qq", "residuals", "convergence", "gains", "selection_lines",
             "choice_probabilities", "starts"],
)  # fmt: skip
def test_methods_draw_what_functions_draw(fit, name):
    asked = {
        "gains": ("hunting", "fishing"),
        "selection_lines": ("height",),
        "choice_probabilities": ("height",),
    }.get(name, ())
    if name == "starts":
        with pytest.raises(ss.errors.UnsupportedError):
            fit.plot.starts()
        return
    picture = getattr(fit.plot, name)(*asked)
    given = (fit.gains(*asked),) if name == "gains" else (fit, *asked)
    again = getattr(plots, name)(*given)
    tables = [key for key, value in vars(picture).items() if isinstance(value, pd.DataFrame)]
    assert tables
    for table in tables:
        one, other = (getattr(which, table).select_dtypes("number") for which in (picture, again))
        np.testing.assert_array_equal(one, other)
    assert picture._repr_png_().startswith(PNG)
    plt.close("all")


def test_tests_findings_and_assumptions_show_as_pages_with_labels_escaped():
    shown = impossible_test("<b>independence</b>", "there is 1 < 2 rows")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "1 &lt; 2" in shown
    found = Diagnosis((Finding("weak", "'<i>' is rare"), Finding("fine", "rows are many")))
    assert 'role="alert"><strong>&#x27;&lt;i&gt;&#x27; is rare' in found._repr_html_()
    assert "<li>rows are many</li>" in found._repr_html_()
    measured = Assumptions((Assumption("B", 2.0, False, "B is 2"),), "a first look")
    assert "<strong>B is 2" in measured._repr_html_()
    assert "<li>a first look</li>" in measured._repr_html_()


def test_pages_have_no_colours_of_their_own_and_nothing_empty(fit):
    for shown in (fit, fit.diagnose(), fit.independence_test(), ss.assumptions(fit)):
        html = shown._repr_html_()
        assert "color" not in html
        assert "<table></table>" not in html.replace("\n", "")
        assert "<ul></ul>" not in html.replace("\n", "")


def test_sensitivity_shows_every_correlation(fit):
    found = fit.sensitivity([0.0, 0.3], progress=False)
    html = found._repr_html_()
    assert '<th style="text-align:left">0.3</th>' in html
    assert "The likelihood supports" in html


def test_tables_of_alternatives_types_and_departures_show_as_pages(fit):
    numbers = ss.choose_alternatives("income ~ height + weight", villagers(), [1, 2])
    types = UnobservedTypes(
        pd.DataFrame({"type 1": [0.25, 1.0], "type 2": [0.75, 0.0]}),
        pd.DataFrame({"type 1": [0.6], "type 2": [0.4]}, index=["share of rows in <b>"]),
    )
    for shown in (numbers, types, fit.departures()):
        html = shown._repr_html_()
        with narrowed(60):
            text = str(shown)
        assert html.count("<table>") >= 1 and "color" not in html and "<b>" not in html
        assert max(map(len, text.splitlines())) <= 60
        assert repr(shown).count("\n") == 0
    assert "<th>bic</th>" in numbers._repr_html_() and "<td>True</td>" in numbers._repr_html_()
    assert "&lt;b&gt;</th><td>0.6000</td>" in types._repr_html_()
    assert fit.departures().sentence[:20] in fit.departures()._repr_html_()


def villagers():
    return ss.simulators.village(300, seed=1).data


def test_one_row_is_not_rows(fit):
    one = replace(fit.treatment_effects("hunting", "fishing"), table=pd.DataFrame({"x": [1.0]}))
    assert "1 row in .table" in repr(one)


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.summary(),
        lambda fit: fit.explain(),
        lambda fit: fit.bounds(),
        lambda fit: fit.departures(),
        lambda fit: fit.policy(),
        lambda fit: fit.gains("hunting", "fishing", draws=500),
        lambda fit: fit.diagnose(),
        ss.assumptions,
        lambda _: ss.choose_alternatives("income ~ height + weight", villagers(), [1, 2]),
        lambda _: ss.pose("y ~ 1", {"y": [1.0, 2.5, 3.0] * 4, "j": ["a", "b"] * 6}, chosen="j"),
    ],
    ids=[
        "summary",
        "explain",
        "bounds",
        "departures",
        "policy",
        "gains",
        "diagnosis",
        "assumptions",
        "alternatives",
        "pose",
    ],
)
def test_a_result_is_one_line_until_it_is_printed(fit, ask):
    found = ask(fit)
    assert repr(found).startswith(f"<{type(found).__name__}: ") and "fit (" not in repr(found)
    assert repr(found).count("\n") == 0 and len(repr(found)) < 120

"""Parts of the report: the pairs, categories, and what is folded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.report.chapters import (
    chart,
    covariate_tables,
    diagnosis_chapter,
    one_of,
    outcome_table,
)
from selfselect.report.document import Findings, Folded, Pictures, pairs_compared, render_page
from selfselect.report.page import Block
from selfselect.report.write import _closures, effects_chapter

ORDER = ["none", "some", "much"]


@pytest.fixture(scope="module")
def fit() -> ss.FitResult:
    rng = np.random.default_rng([6, 6])
    n_rows = 400
    school = pd.Categorical(rng.choice(ORDER, n_rows), ORDER, ordered=True)
    latent = rng.normal([1.0, 0.7, 0.2], 1.0, size=(n_rows, 3))
    latent[:, 0] += school.codes
    table = pd.DataFrame({"y": latent.max(axis=1), "school": school})
    table["year"] = rng.integers(2001, 2004, n_rows)
    table["who"] = np.array(["a", "b", "c"])[latent.argmax(axis=1)]
    return ss.fit("y ~ school + C(year)", table, chosen="who")


def test_every_pair_is_compared(fit: ss.FitResult) -> None:
    pairs = pairs_compared("abc", [0.2, 0.5, 0.3])
    assert pairs == (("c", "b"), ("b", "a"), ("c", "a"))
    titles = titles_of(fit)
    for subject in (
        "Effect of {} instead of {} on y",
        "Distribution of the gain of {} over {} in y",
    ):
        written = {subject.format(*pair) for pair in (("b", "a"), ("c", "a"), ("c", "b"))}
        assert {one for one in titles if one.startswith(subject[:9])} == written


def titles_of(fit: ss.FitResult) -> list[str]:
    parts = effects_chapter(fit, 0.95).parts
    return [getattr(part, "title", "").removesuffix(", in numbers") for part in parts]


def test_tables_compare_the_pairs_of_the_answer_and_show_its_numbers(fit: ss.FitResult) -> None:
    (answer, *_) = fit.explain().answers
    found = re.findall(r"(\w) instead of (\w): \S+ \(95%", answer)
    assert len(found) == 3
    titles = titles_of(fit)
    assert all(f"Effect of {to} instead of {versus} on y" in titles for to, versus in found)


def test_effects_on_a_logarithm_are_in_the_table_in_per_cent_as_in_the_answer() -> None:
    table = ss.simulators.village(300, seed=1).data
    table["wage"] = np.exp(table["income"] / 50)
    logs = ss.fit("log(wage) ~ height", table, chosen="job")
    said = re.search(r"hunting instead of fishing: ([-+\d.]+)% \(", logs.explain().answers[0])
    assert said is not None
    blocks = [one for one in effects_chapter(logs, 0.95).parts if isinstance(one, Block)]
    rows = [row for one in blocks for row in one.rows if row[0].startswith("per cent, ATE")]
    assert [round(float(row[1]), 1) for row in rows] == [round(float(said[1]), 1)]
    titles = titles_of(logs)
    assert "Effect of hunting instead of fishing on log(wage)" in titles


def test_more_alternatives_make_the_picture_of_a_closure_higher(fit: ss.FitResult) -> None:
    two = ss.fit("income ~ height", ss.simulators.village(200, seed=1).data, chosen="job")
    sizes = []
    for one in (two, fit):
        _, choice = _closures(one, 0.95)
        (drawing, *_) = choice.options[0][1].drawings
        box = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', drawing.svg)
        assert box is not None
        sizes.append(float(box[1]))
    assert sizes[1] > sizes[0] > 100.0


def test_categories_are_shares_in_their_own_order(fit: ss.FitResult) -> None:
    school, year = covariate_tables(fit)
    assert [row[0] for row in school.rows] == ORDER
    assert school.header == ("", "rows", "share", "share, a", "share, b", "share, c")
    assert sum(int(row[1]) for row in school.rows) == 400
    assert [row[0] for row in year.rows] == ["2001", "2002", "2003"]
    assert abs(sum(float(row[3].rstrip("%")) for row in year.rows) - 100.0) < 0.2


def test_what_is_fine_is_folded_and_what_is_doubtful_is_not(fit: ss.FitResult) -> None:
    parts = diagnosis_chapter(fit).parts
    (folded,) = [part for part in parts if isinstance(part, Folded)]
    assert "found nothing wrong" in folded.title
    assert {verdict for part in folded.parts for verdict, _ in part.entries} == {"fine"}
    open_entries = [entry for part in parts if isinstance(part, Findings) for entry in part.entries]
    assert all(verdict in ("weak", "note") for verdict, _ in open_entries)


def test_a_menu_of_one_is_no_menu() -> None:
    picture = Pictures((), "one")
    assert one_of("covariate", [("x", picture)]) == (picture,)
    assert one_of("covariate", []) == ()


def test_a_template_that_names_what_is_not_there_fails() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="page"):
        render_page("explore/page.html", style=(), script=())


def test_more_alternatives_than_a_page_has_room_for_leave_a_sentence() -> None:
    rng = np.random.default_rng([6, 7])
    latent = rng.normal(size=(700, 13))
    labels = np.array([f"a{j}" for j in range(13)])
    table = pd.DataFrame({"y": latent.max(axis=1), "who": labels[latent.argmax(axis=1)]})
    fit = ss.fit("y ~ 1", table, chosen="who")
    (sentence,) = effects_chapter(fit, 0.95).parts
    assert "effects for at most 12 alternatives, and there are 13" in sentence.text
    for size in ({"panels": 200}, {"height": 101.3}):
        made = chart("lines", "lines", lambda axes: axes, **size)
        assert made.text.startswith("No plot: there are too many alternatives")


def test_a_category_longer_than_its_picture_is_drawn() -> None:
    table = ss.simulators.village(200, seed=1).data
    table["cat"] = np.where(np.arange(200) % 2, "K" * 150, "b")
    fit = ss.fit("income ~ height + cat", table, chosen="job")
    made = chart(
        "along", "along", lambda axes: ss.plots.choice_probabilities(fit, "cat", axes=axes)
    )
    assert isinstance(made, Pictures)


def test_a_category_whose_column_needs_backticks_is_reported_and_explored(tmp_path: Path) -> None:
    table = ss.simulators.village(300, seed=1).data
    table["home town"] = ["north", "south", "west"] * 100
    result = ss.fit("income ~ height + `home town`", table, chosen="job")
    (home,) = (one for one in covariate_tables(result) if one.title.startswith("home town"))
    assert [row[0] for row in home.rows] == ["north", "south", "west"]
    for write, shown in ((result.report, ">south</th>"), (result.explore, ">south</option>")):
        write(tmp_path / "page.html")
        assert shown in (tmp_path / "page.html").read_text(encoding="utf-8")
    drawn = result.plot.choice_probabilities("home town").data
    assert list(drawn["value"].unique()) == ["north", "south", "west"]


def test_outcomes_and_covariates_are_described_as_their_weights_say():
    data = ss.simulators.village(300, seed=1).data
    rng = np.random.default_rng(1)
    data = data.assign(town=rng.choice(["a", "b", "c"], 300), w=rng.integers(0, 4, 300))
    options = {"formula": "income ~ height + town", "chosen": "job"}
    weighted = ss.fit(data=data, weights="w", weights_kind="frequency", **options)
    repeated = ss.fit(data=data.loc[data.index.repeat(data["w"])], **options)
    for one, other in zip(covariate_tables(weighted), covariate_tables(repeated), strict=True):
        assert one.rows == other.rows
        assert one.title == f"{other.title} (weighted)"
    one, other = outcome_table(weighted), outcome_table(repeated)
    assert one.rows == other.rows
    assert one.title == f"{other.title} (weighted)"

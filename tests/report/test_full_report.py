"""The full report: what it says, that it is one safe file, and where it cannot be written."""

from __future__ import annotations

import re
import sys
import time
import warnings
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import OptionError, ReportError

MOST_BYTES = 3_000_000


class Reader(HTMLParser):
    """Collect the text of a page, its tags and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.inside[-1:]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def test_it_says_what_was_asked_seen_found_and_how_to_do_it_again(
    reports: dict[str, Path], village: ss.FitResult
) -> None:
    text = read(reports["village"]).text
    assert "Each of 400 rows has a value of income for each of 2 alternatives" in text
    assert (
        "At most one of the 2 was recorded: the largest. The column job says which one it is."
        in text
    )
    assert "Recorded income, by chosen alternative" in text
    assert f"{village.params['hunting', 'height']:.4f}" in text
    assert f"{village.naive['estimate']['hunting', 'height']:.4f}" in text
    for finding in village.diagnose().findings:
        assert finding.sentence in text
    assert "ss.fit( 'income ~ height + weight', data, chosen='job', )" in text
    assert f"selfselect {ss.__version__}" in text
    assert f"numpy {np.__version__}" in text


def saved_and_loaded(fit: ss.FitResult, folder: Path) -> ss.FitResult:
    """Return the fit without its rows, whose report has few pictures and is quickly written."""
    fit.save(folder / "fit.json")
    return ss.load(folder / "fit.json")


def test_warnings_come_first(tmp_path: Path) -> None:
    rng = np.random.default_rng([5, 1])
    x = rng.normal(size=(4_000, 2))
    latent = x + rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=4_000)
    table = pd.DataFrame({"y": latent.max(axis=1), "x1": x[:, 0], "x2": x[:, 1]})
    table["seen"] = np.where(latent[:, 0] > latent[:, 1], "a", "b")
    fit = ss.fit({"a": "y ~ x1", "b": "y ~ x2"}, table, chosen="seen")
    saved_and_loaded(fit, tmp_path).report(tmp_path / "fit.html")
    text = read(tmp_path / "fit.html").text
    assert text.index("INDEPENDENCE REJECTED") < text.index("The question")
    assert "No warning was raised" not in text
    assert "doubtful Score test of independence" in text


def test_without_warnings_it_says_so_and_no_more(reports: dict[str, Path]) -> None:
    text = read(reports["market"]).text
    assert "No warning was raised" in text
    assert "That does not prove the model right." in text


def test_it_is_one_file_that_asks_for_nothing(reports: dict[str, Path]) -> None:
    for path in reports.values():
        for tag, attributes in read(path).tags:
            for name in ("src", "href", "action", "data"):
                target = attributes.get(name)
                assert target is None or target.startswith(("#", "data:")), (tag, target)
        assert not re.search(r"@import|url\((?!#)", path.read_text(encoding="utf-8"))


def test_names_in_the_page_are_unique_and_all_that_are_used_exist(
    reports: dict[str, Path],
) -> None:
    for path in reports.values():
        tags = read(path).tags
        names = [attributes["id"] for _, attributes in tags if "id" in attributes]
        assert len(names) == len(set(names))
        used = {
            attributes["href"][1:]
            for _, attributes in tags
            if (attributes.get("href") or "").startswith("#")
        }
        assert used <= set(names)


def test_hostile_names_are_text_wherever_they_stand(
    reports: dict[str, Path], hostile_names: tuple[str, str]
) -> None:
    text = reports["hostile"].read_text(encoding="utf-8")
    assert not any(name in text for name in (*hostile_names, "</style><!--"))
    assert escape(hostile_names[0]) in text
    reader = read(reports["hostile"])
    assert all(name in reader.text for name in hostile_names)
    assert not any(tag == "img" for tag, _ in reader.tags)
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    assert kinds.count(None) == 1 and set(kinds) == {None, "application/json"}


def test_two_reports_of_a_fit_are_the_same_and_leave_the_filters_of_warnings(
    village: ss.FitResult, reports: dict[str, Path], tmp_path: Path
) -> None:
    filters = list(warnings.filters)
    village.report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == reports["village"].read_bytes()
    assert list(warnings.filters) == filters


def test_a_loaded_fit_is_reported_without_what_needs_rows(reports: dict[str, Path]) -> None:
    reader = read(reports["loaded"])
    assert "This fit was loaded from a file, which keeps no rows" in reader.text
    assert "ss.fit( 'income ~ height + weight', data, chosen='job', )" in reader.text
    assert any(tag == "svg" for tag, _ in reader.tags)
    assert "Effects are averages over rows. This fit was loaded from a file" in reader.text
    # A report takes no rows, so none are asked for under a name that it has not.
    assert "result.explain(rows)" in reader.text
    assert "Give the rows to average over, data=" not in reader.text


def test_the_unknown_index_is_reported_with_who_was_seen(reports: dict[str, Path]) -> None:
    text = read(reports["market"]).text
    assert "the smallest. Which one it is was not recorded." in text
    assert "Expected share of the rows" in text
    assert re.search(r"\d+ of \d+ starts of the search ended here\.", text)


def test_a_fit_that_did_not_converge_says_so_first(tmp_path: Path) -> None:
    sample = ss.simulators.village(300, seed=4)
    with pytest.warns(ss.errors.ConvergenceWarning):
        fit = ss.fit(sample.formula, sample.data, chosen="job",
                     solver=ss.solvers.Newton(max_steps=1))  # fmt: skip
    saved_and_loaded(fit, tmp_path).report(tmp_path / "fit.html")
    text = read(tmp_path / "fit.html").text
    assert text.index("NOT CONVERGED.") < text.index("The question")


def test_without_matplotlib_there_are_sentences_in_place_of_pictures(
    village: ss.FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    village.report(tmp_path / "fit.html")
    reader = read(tmp_path / "fit.html")
    assert "Pictures need matplotlib: pip install 'selfselect[plot]'" in reader.text
    assert not any(tag == "svg" for tag, _ in reader.tags)


def test_where_it_cannot_be_written_the_fit_survives(
    loaded: ss.FitResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ReportError, match=r"there is no folder .*nowhere.*The fit is unharmed"):
        loaded.report(tmp_path / "nowhere" / "fit.html")
    with pytest.raises(ReportError, match="that is a folder"):
        loaded.report(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ReportError, match="No space left on device"):
        loaded.report(tmp_path / "fit.html")
    assert list(tmp_path.iterdir()) == []
    assert loaded.summary().to_text()


def test_effects_are_told_with_their_doubts(
    reports: dict[str, Path], village: ss.FitResult
) -> None:
    text = read(reports["village"]).text
    effects = village.treatment_effects("hunting", "fishing").table
    for name, estimate in zip(effects["effect"], effects["estimate"], strict=True):
        assert re.search(rf"{name}, [a-z ]+ {re.escape(f'{estimate:.4f}')}", text)
    for title in (
        "Mean income by group and alternative",
        "Distribution of the gain of hunting over fishing",
        "Gap in mean income between those who chose hunting and fishing",
        "Chance that each alternative is chosen",
        "Marginal effects on the chance of each alternative",
    ):
        assert title in text
    note = "Averages over the 400 rows of the fit"
    assert text.count(note) == 1


def test_a_level_that_is_none_is_refused(village: ss.FitResult, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="level=95 is not a confidence level"):
        village.report(tmp_path / "fit.html", level=95)


def test_many_rows_cost_little(tmp_path: Path) -> None:
    # Time of the processor, which does not depend on who else uses the machine.
    sample = ss.simulators.village(50_000, seed=2)
    begin = time.process_time()
    fit = ss.fit(sample.formula, sample.data, chosen="job")
    fitted = time.process_time()
    fit.report(tmp_path / "fit.html")
    written = time.process_time()
    assert written - fitted <= 3 * (fitted - begin) + 6.0
    assert (tmp_path / "fit.html").stat().st_size < MOST_BYTES


def test_many_covariates_stay_one_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selfselect.report.write.MOST_MARGINAL", 5)
    rng = np.random.default_rng([11, 1])
    x = pd.DataFrame(rng.normal(size=(200, 13)), columns=[f"x{i}" for i in range(13)])
    latent = rng.normal(size=(200, 2))
    table = x.assign(y=latent.max(axis=1), who=[f"a{j}" for j in latent.argmax(axis=1)])
    fit = ss.fit("y ~ " + " + ".join(x), table, chosen="who")
    fit.report(tmp_path / "fit.html")
    assert (tmp_path / "fit.html").stat().st_size < MOST_BYTES
    text = read(tmp_path / "fit.html").text
    assert "Not shown: x3, x4, x5, x6, x7, x8 and x9." in text
    assert "The first 12 of 14 terms." in text
    assert "Only the first 5 of 13 columns are shown." in text
    assert "x7 and 5 more" in text


def test_many_alternatives_are_one_small_file_and_are_explained(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    latent = rng.normal(size=(900, 60))
    latent[np.arange(900), np.arange(900) % 60] += 4.0
    who = [f"a{j:02d}" for j in latent.argmax(axis=1)]
    fit = ss.fit("y ~ 1", pd.DataFrame({"y": latent.max(axis=1), "who": who}), chosen="who")
    assert repr(fit).startswith("<FitResult: y of 60 alternatives; 900 rows")
    fit.report(tmp_path / "fit.html")
    assert (tmp_path / "fit.html").stat().st_size < MOST_BYTES
    text = " ".join(read(tmp_path / "fit.html").text.split())
    assert "the other 1764 of 1770 pairs are left out here" in text
    assert "there are 1,770 correlations, and 1,000 are tested at most" in text
    answer, *_, assumed = fit.explain().answers
    assert "ATE" in answer and "ATT" not in answer
    assert "Not tested: the rule, the form of the means, independence" in assumed


def test_warnings_beyond_ten_are_folded_and_all_are_there(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    latent = rng.normal(size=(300, 30))
    who = [f"a{j:02d}" for j in latent.argmax(axis=1)]
    fit = ss.fit("y ~ 1", pd.DataFrame({"y": latent.max(axis=1), "who": who}), chosen="who")
    fit.report(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text(encoding="utf-8")
    first, _, rest = text.partition('<section id="question">')[0].partition("<details>")
    count = text.count('class="notice"')
    assert count > 12 and first.count('class="notice"') == 10
    assert rest.count('class="notice"') == count - 10
    assert f"<summary>{count - 10} more warnings</summary>" in rest


def test_a_long_formula_is_shortened_in_words_and_whole_in_the_call(tmp_path: Path) -> None:
    rng = np.random.default_rng([11, 2])
    names = [f"covariate_{i}" for i in range(40)]
    x = pd.DataFrame(rng.normal(size=(300, 40)), columns=names)
    latent = rng.normal(size=(300, 2))
    table = x.assign(y=latent.max(axis=1), who=[f"a{j}" for j in latent.argmax(axis=1)])
    formula = "y ~ " + " + ".join(names)
    fit = ss.fit(formula, table, chosen="who")
    said = fit.explain().answers[-1]
    assert "follow y ~ covariate_0 + covariate_1 + " in said
    assert " + ... + covariate_39, and that noise" in said and len(said) < 600
    fit.report(tmp_path / "fit.html")
    assert formula in (tmp_path / "fit.html").read_text(encoding="utf-8")

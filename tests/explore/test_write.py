"""The page as a file: what it refuses, what it escapes, and where it cannot be written."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import BAD_INPUT, main
from selfselect.errors import OptionError, ReportError, UnsupportedError
from selfselect.explore import write
from selfselect.report.portraits import FitPortrait

HOSTILE = "</script><script>alert(1)</script>"
RIGHT_TO_LEFT = "\u202e\u05e9\u05dc\u05d5\u05dd"
HOSTILE_COLUMN = '"><img src=x onerror=alert(2)>'

MOST_BYTES = 3_000_000


class Reader(HTMLParser):
    """Collect tags with their attributes, and the data of the page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if tag == "script" and attributes.get("id") == "data":
            self.data = getattr(self, "data", None) or json.loads(data)
        elif tag not in ("script", "style"):
            self.text += data


def choices(labels: list[str], columns: int, n_rows: int = 700, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng([seed, 5])
    x = rng.normal(size=(n_rows, columns))
    latent = rng.normal(size=(n_rows, len(labels)))
    latent[:, 0] += x[:, 0]
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)])
    return table.assign(
        y=latent.max(axis=1), who=np.array(labels, dtype=object)[latent.argmax(axis=1)]
    )


@pytest.fixture(scope="module")
def simple() -> Any:
    return ss.fit("y ~ x0", choices(["a", "b"], 1, 200), chosen="who")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"noise": ss.noises.Independent(shape="logistic")},
            "normal noise, and here it is logistic",
        ),
        ({"rule": ss.rules.MonotoneArgmax({"a": 1.5})}, "the largest or the smallest outcome"),
        ({"cost": {"a": "~ x1"}}, "its costs are estimated"),
        ({"noise": ss.noises.SharedShock()}, "independent, or correlated between two"),
    ],
)
def test_a_fit_that_the_page_cannot_compute_is_refused_with_the_reason(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    fit = ss.fit("y ~ x0", choices(["a", "b"], 2, 300), chosen="who", **options)
    with pytest.raises(UnsupportedError, match=f"cannot be explored in a page: .*{reason}"):
        fit.explore(tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_more_alternatives_than_a_page_has_room_for_are_refused(tmp_path: Path) -> None:
    labels = [f"a{j}" for j in range(13)]
    fit = ss.fit("y ~ 1", choices(labels, 1, 900), chosen="who")
    with pytest.raises(UnsupportedError, match="at most 12 alternatives, and the fit has 13"):
        fit.explore(tmp_path / "page.html")


@pytest.mark.parametrize(("highest", "step"), [(47.0, 1.0), (75.0, 2.0), (217.0, 5.0)])
def test_sliders_take_some_fifty_steps_of_one_two_or_five(
    tmp_path: Path, highest: float, step: float
) -> None:
    table = choices(["a", "b"], 1, 400)
    table["x0"] = np.linspace(0.0, highest, len(table))
    ss.fit("y ~ x0", table, chosen="who").explore(tmp_path / "page.html")
    control = Reader(tmp_path / "page.html").data["controls"][0]
    shown = [float(value) for value in control["shown"]]
    # The typical value stands among the round ones.
    shown.pop(control["typical"])
    assert shown == np.arange(0.0, highest + 1e-9, step).tolist()


def test_three_hundred_covariates_stay_one_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looking for doubts takes half a minute with this many.
    monkeypatch.setattr(write, "notices", lambda *_: ())
    monkeypatch.setattr(FitPortrait, "nothing_wrong", lambda *_: "")
    table = choices(["a", "b"], 300, 1_500)
    fit = ss.fit("y ~ " + " + ".join(f"x{i}" for i in range(300)), table, chosen="who")
    fit.explore(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < MOST_BYTES
    reader = Reader(tmp_path / "page.html")
    assert len(reader.data["controls"]) == 40
    assert "Kept at their means" in reader.text and "and 252 more." in reader.text


def test_hostile_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    table = choices([HOSTILE, RIGHT_TO_LEFT], 1).rename(
        columns={"x0": HOSTILE_COLUMN, "y": "y</script>"}
    )
    fit = ss.fit(f"`y</script>` ~ `{HOSTILE_COLUMN}`", table, chosen="who")
    page = tmp_path / "page.html"
    fit.explore(page)
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text and HOSTILE_COLUMN not in text
    reader = Reader(page)
    assert not any(tag == "img" for tag, _ in reader.tags)
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    assert kinds == ["application/json", None]
    turned = RIGHT_TO_LEFT.replace("\u202e", r"\u202e") + "\u200e"
    assert reader.data["labels"] == [HOSTILE, turned]
    assert "\\u202e" in reader.data["codes"][1]
    policy = next(a["content"] for tag, a in reader.tags if tag == "meta" and "http-equiv" in a)
    assert policy and re.search("script-src 'sha256-", policy) and "'none'" in policy


def test_a_page_that_cannot_be_written_leaves_the_fit_unharmed(simple: Any, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"there is no folder .*nowhere.*The fit is unharmed"):
        simple.explore(tmp_path / "nowhere" / "page.html")
    with pytest.raises(ReportError, match="that is a folder"):
        simple.explore(tmp_path)
    with pytest.raises(OptionError, match="rows=0 is not possible"):
        simple.explore(tmp_path / "page.html", rows=0)
    with pytest.raises(OptionError, match="a fit with correlated noise"):
        simple.explore(tmp_path / "page.html", correlations=[0.5])
    with pytest.raises(OptionError, match="level=95"):
        simple.explore(tmp_path / "page.html", level=95)
    assert not list(tmp_path.iterdir())


def test_doubts_stand_first(tmp_path: Path) -> None:
    table = choices(["a", "b"], 1, 200)
    with pytest.warns(ss.errors.ConvergenceWarning):
        fit = ss.fit("y ~ x0", table, chosen="who", solver=ss.solvers.Newton(max_steps=1))
    fit.explore(tmp_path / "page.html")
    text = Reader(tmp_path / "page.html").text
    assert "about everything below" in text
    assert text.index("NOT CONVERGED.") < text.index("One row, at values you choose")


def test_the_shell_writes_the_page_to_standard_output(
    simple: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    simple.save(tmp_path / "fit.json")
    choices(["a", "b"], 1, 60).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    for words in (["rows.csv", "fit.json", "--out", "-"], ["fit.json", "rows.csv"]):
        with pytest.raises(SystemExit) as done:
            main(["explore", *words])
        assert done.value.code == 0
        assert b"</html>" in capfdbinary.readouterr().out
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fit.json", "rows.csv"]


def test_the_shell_explores_a_saved_fit_over_a_file(
    simple: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simple.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    with pytest.raises(UnsupportedError, match=r"does not hold its rows.*explore\(path, data\)"):
        loaded.explore(tmp_path / "page.html")
    table = choices(["a", "b"], 1, 200)
    table.loc[3, "x0"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    files = (str(tmp_path / "fit.json"), str(tmp_path / "rows.csv"))
    with pytest.raises(SystemExit) as done, pytest.warns(ss.errors.MissingRowsWarning):
        main(["explore", *files, "--out", str(tmp_path / "page.html"), "--rows", "50"])
    assert done.value.code == 0
    reader = Reader(tmp_path / "page.html")
    assert "50 of the 199 rows that were given, one in 4" in reader.text
    assert reader.data["base"] == "base=data.dropna(subset=['x0']).iloc[::4]"
    with pytest.raises(SystemExit) as done:
        main(["explore", *files, "--out", files[1]])
    assert done.value.code == BAD_INPUT
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "factor", ["school", "C(school)", "C(school, levels=['low', 'mid', 'high'])"]
)
def test_categories_stand_in_the_order_of_the_fit_where_the_rows_have_lost_it(
    factor: str, tmp_path: Path
) -> None:
    order = ["low", "mid", "high"]
    table = choices(["a", "b"], 1, 200)
    school = np.array(order)[np.arange(200) % 3]
    known = pd.Categorical(school, order) if "levels" not in factor else school
    fit = ss.fit(f"y ~ x0 + {factor}", table.assign(school=known), chosen="who")
    fit.save(tmp_path / "fit.json")
    ss.load(tmp_path / "fit.json").explore(tmp_path / "page.html", table.assign(school=school))
    (control,) = [
        one for one in Reader(tmp_path / "page.html").data["controls"] if one["name"] == "school"
    ]
    assert control["shown"] == order

"""The page in a real browser: its numbers are the library's, and the calls it shows give them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import selfselect as ss

SAME = 1e-6
"""What the page and the library may differ by, relative to one or to the number."""

AFTER_FRAME = "const done = arguments[arguments.length - 1];" + (
    "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
)
SET = """
const [selector, value] = arguments;
const input = document.querySelector(selector);
if (input.type === "checkbox") input.checked = value; else input.value = String(value);
input.dispatchEvent(new Event("input", { bubbles: true }));
"""
READ = """
return Object.fromEntries([...document.querySelectorAll("[data-quantity]")].map((cell) =>
  [cell.dataset.quantity, ["estimate", "low", "high"].map((part) => Number(cell.dataset[part]))]));
"""


@dataclass
class Page:
    """A page in a browser: what is set, what is read."""

    browser: Any

    def set(self, selector: str, value: Any) -> None:
        self.browser.execute_script(SET, selector, value)

    def read(self) -> dict[str, list[float]]:
        self.browser.execute_async_script(AFTER_FRAME)
        return self.browser.execute_script(READ)

    def text(self, name: str) -> str:
        self.browser.execute_async_script(AFTER_FRAME)
        return self.browser.find_element("id", name).text

    def answers(self, fit: Any, data: Any = None, more: str = "") -> list[Any]:
        """Make the calls that the page shows, the last with more options."""
        lines = [one for one in self.text("call").splitlines() if not one.startswith("#")]
        lines[-1] = lines[-1].removesuffix(")") + f"{more})"
        return [eval(one, {"result": fit, "data": data, "ss": ss}) for one in lines]


@pytest.fixture
def open_page(browser: Any) -> Any:
    def opened(path: Path) -> Page:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        browser.get_log("browser")
        browser.get(path.as_uri())
        return Page(browser)

    return opened


def assert_same(found: list[float], row: Any) -> None:
    expected = row[["estimate", "conf_low", "conf_high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=SAME, atol=SAME)


def assert_row_agrees(page: Page, answers: list[Any]) -> None:
    """Compare what is shown of one row with the calls."""
    found = page.read()
    chances, outcomes, gains = (one.table for one in answers[:3])
    labels = list(dict.fromkeys(chances["alternative"]))
    for j, label in enumerate(labels):
        assert_same(found[f"chance-{j}"], chances[chances["alternative"] == label].iloc[0])
        own = outcomes[outcomes["alternative"] == label].set_index("group")
        assert_same(found[f"mean-{j}"], own.loc["everyone"])
        assert_same(found[f"chosen-{j}"], own.loc[label])
    for name in ("ATE", "ATT", "ATU"):
        assert_same(found[name.lower()], gains[gains["effect"] == name].iloc[0])


def assert_change_agrees(page: Page, change: Any, *, moves: bool = True) -> None:
    """Compare what is shown of everyone with the counterfactual."""
    found = page.read()
    shares, outcomes = change.shares.table, change.outcomes.table
    labels = list(dict.fromkeys(shares["alternative"]))
    for when in ("before", "after", "change"):
        at_time = shares[shares["when"] == when].set_index("alternative")
        for j, label in enumerate(labels):
            assert_same(found[f"share-{j}-{when}"], at_time.loc[label])
        assert_same(found[f"observed-{when}"], outcomes[outcomes["when"] == when].iloc[0])
    paid = outcomes[outcomes["quantity"] == "subsidies paid, per row"]
    if len(paid):
        assert_same(found["paid"], paid.iloc[0])
    if not moves:
        assert not any(name.startswith("move-") for name in found)
        return
    words = {"outcome before": "before", "outcome after": "after"}
    table = change.moves.table
    left = table[(table["from"] != table["to"]) & (table["from"] != "(any)")]
    assert len(left)
    for row in left.to_dict("index").values():
        pair = f"move-{labels.index(row['from'])}-{labels.index(row['to'])}"
        what = words.get(row["quantity"], row["quantity"])
        expected = [row["estimate"], row["conf_low"], row["conf_high"]]
        np.testing.assert_allclose(found[f"{pair}-{what}"], expected, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", ["pair", "costs", "unknown", "correlated", "spread", "weighted"])
def test_its_numbers_are_those_of_the_calls_it_shows(
    name: str, open_page: Any, pages: dict[str, Path], fits: dict[str, Any]
) -> None:
    fit = fits[name]
    page = open_page(pages[name])
    assert_row_agrees(page, page.answers(fit))
    controls = page.browser.find_elements("css selector", "[data-control]")
    for place, control in enumerate(controls):
        last = control.get_attribute("max") or len(control.find_elements("tag name", "option")) - 1
        page.set(f"#control-{place}", int(last) // 3)
    page.set("#to", 0)
    page.set("#versus", 1)
    page.set("#subsidised", 1)
    page.set("#amount", 50)
    *row, change = page.answers(fit)
    assert "at={" in page.text("call") and "level=0.9" in page.text("call")
    assert_row_agrees(page, row)
    assert_change_agrees(page, change)
    page.set("#amount", 24)
    assert_change_agrees(page, page.answers(fit)[-1])
    assert page.browser.get_log("browser") == []


def test_closing_moves_those_who_are_left_something(
    open_page: Any, pages: dict[str, Path], fits: dict[str, Any]
) -> None:
    page = open_page(pages["spread"])
    page.set("[data-close='0']", True)
    assert "close=['a'], base=result.table.iloc[::6]" in page.text("call")
    assert_change_agrees(page, page.answers(fits["spread"])[-1])
    page.set("[data-close='1']", True)
    answers = page.answers(fits["spread"], more=", draws=100")
    assert_change_agrees(page, answers[-1], moves=False)
    assert "where one thing is changed at a time" in page.text("moved")
    last = page.browser.find_element("css selector", "[data-close='2']")
    assert not last.is_enabled()
    page.browser.find_element("css selector", "#changes [type=reset]").click()
    assert "Nothing is changed yet" in page.text("moved")
    page = open_page(pages["costs"])
    page.set("[data-close='0']", True)
    page.set("[data-close='1']", True)
    assert "Nothing would be left to" in page.text("moved")


def test_an_assumed_correlation_is_another_fit(
    open_page: Any, pages: dict[str, Path], fits: dict[str, Any], world: Any
) -> None:
    page = open_page(pages["correlated"])
    assert (
        "as fitted" in page.browser.find_element("css selector", "[for=correlation] ~ output").text
    )
    page.set("#correlation", 0)
    page.set("#amount", 50)
    assert "noise=ss.noises.Correlated(scale='each', correlation=-0.5" in page.text("call")
    other = world("max", 500, labels=("a", "b")).fit(noise=ss.noises.Correlated(correlation=-0.5))
    *row, change = page.answers(other)
    assert_row_agrees(page, row)
    assert_change_agrees(page, change)
    page.browser.find_element("css selector", "#controls [type=reset]").click()
    assert_row_agrees(page, page.answers(fits["correlated"])[:3])


def test_its_normal_distribution_is_exact_in_both_tails(
    open_page: Any, pages: dict[str, Path]
) -> None:
    from scipy.special import log_ndtr, ndtr

    x = np.linspace(-30, 9, 400)
    page = open_page(pages["unknown"])
    found = page.browser.execute_script(
        "return arguments[0].map((x) => [below(x), ratio(x)])", x.tolist()
    )
    cdf, ratio = np.array(found).T
    np.testing.assert_allclose(cdf, ndtr(x), rtol=1e-12)
    density = -0.5 * x**2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(ratio, np.exp(density - log_ndtr(x)), rtol=1e-12)


@pytest.mark.parametrize("width", [1200, 390])
def test_it_fetches_nothing_and_fits_the_screen(
    width: int, browser: Any, open_page: Any, pages: dict[str, Path]
) -> None:
    page = open_page(pages["costs"])
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    assert page.text("words").startswith("At these values the chance of b is ")
    script = "return [performance.getEntriesByType('resource').length, {}]"
    found = browser.execute_script(script.format("document.documentElement.scrollWidth"))
    assert found[0] == 0 and found[1] <= width
    assert browser.get_log("browser") == []


def test_it_can_be_used_with_the_keyboard(open_page: Any, pages: dict[str, Path]) -> None:
    page = open_page(pages["unknown"])
    before = page.read()["chance-0"]
    slider = page.browser.find_element("id", "control-0")
    slider.send_keys("\ue014" * 3)  # the right arrow
    assert page.read()["chance-0"] != before
    shown = page.browser.find_element("css selector", "output[for=control-0]").text
    assert slider.get_attribute("aria-valuetext") == shown
    page.browser.find_element("id", "copy").send_keys("\ue007")
    page.browser.execute_async_script(AFTER_FRAME)
    assert page.browser.find_element("id", "copied").text.startswith(("Copied", "Selected"))


def test_hostile_labels_are_shown_as_text(open_page: Any, tmp_path: Path) -> None:
    label = "</script><script>document.title = 'hostile'</script>"
    sample = ss.simulators.village(200, seed=3).data
    sample["job"] = np.where(sample["job"] == "hunting", label, "\u202e\u05d0<b>")
    ss.fit("income ~ height", sample, chosen="job").explore(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert label in page.text("here") and label in page.text("words")
    assert page.browser.title.startswith("Explore: income")
    assert page.browser.execute_script("return document.querySelectorAll('b').length") == 0
    assert page.browser.get_log("browser") == []


ORDER = """
const [id, first, second] = arguments;
const root = document.getElementById(id);
const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
const places = [first, second].map((wanted) => {
  walker.currentNode = root;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.data.indexOf(wanted);
    if (at >= 0) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      const box = range.getBoundingClientRect();
      return [Math.round(box.top), box.left];
    }
  }
  return null;
});
return places;
"""
"""Where two texts of an element begin, on which line and how far to the right."""


def test_what_follows_a_label_from_right_to_left_stands_to_its_right(
    open_page: Any, tmp_path: Path
) -> None:
    fisher, hunter, income = (
        "\u05d3\u05d9\u05d2",
        "\u05e6\u05d9\u05d3 \u05d1\u05e8",
        "\u05d4\u05db\u05e0\u05e1\u05d4",
    )
    sample = ss.simulators.village(300, seed=3).data.rename(columns={"income": income})
    sample["job"] = sample["job"].map({"fishing": fisher, "hunting": hunter})
    fit = ss.fit(f"{income} ~ height", sample, chosen="job")
    fit.report(tmp_path / "report.html")
    fit.explore(tmp_path / "page.html")
    page = open_page(tmp_path / "report.html")
    value = re.search(rf"{fisher}\u200e?: ([+-][\d.]+)", page.text("answer"))
    assert value is not None
    (line, label), (below, number) = page.browser.execute_script(ORDER, "answer", fisher, value[1])
    assert (line, label) < (below, number)
    page = open_page(tmp_path / "page.html")
    page.browser.execute_async_script(AFTER_FRAME)
    for name, first, second in (
        ("call", hunter, fisher),
        ("compared", hunter, "less"),
        ("title", income, "under"),
    ):
        (line, left), (below, right) = page.browser.execute_script(ORDER, name, first, second)
        assert line == below and left < right
    # What is copied is the call, with no mark of direction in it.
    assert f"({hunter!r}, {fisher!r}, " in page.text("call")

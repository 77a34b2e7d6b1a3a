"""The full report in a real browser: nothing breaks, charts answer, both themes can be read."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

WIDE, NARROW = 1100, 390
READABLE_TEXT, READABLE_LINE = 4.5, 3.0
"""Contrasts that the accessibility guidelines (WCAG 2) ask of text and of graphical marks."""

CONTRAST = """
const luminance = (colour) => {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const probe = document.createElement("span");
document.body.append(probe);
const colour = (name) => {
  probe.style.color = `var(--${name})`;
  return luminance(getComputedStyle(probe).color);
};
const paper = colour("paper");
const found = Object.fromEntries(arguments[0].map((name) => {
  const [high, low] = [colour(name), paper].sort((a, b) => b - a);
  return [name, (high + 0.05) / (low + 0.05)];
}));
probe.remove();
return found;
"""

Open = Callable[..., Any]


@pytest.fixture
def view(browser: Any, reports: dict[str, Path]) -> Open:
    """Open a report at a width and in a theme."""

    def open_report(name: str, width: int = WIDE, theme: str = "light") -> Any:
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": theme}]},
        )
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == NARROW},
        )
        browser.get_log("browser")
        browser.get(reports[name].as_uri())
        return browser

    return open_report


@pytest.mark.parametrize("name", ["village", "market", "loaded", "hostile"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_it_opens_from_disk_without_complaint(view: Open, name: str, width: int) -> None:
    page = view(name, width)
    assert page.get_log("browser") == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    sizes = page.execute_script(
        "return [...document.querySelectorAll('svg')].filter((svg) => !svg.closest('[hidden]'))"
        ".map((svg) => svg.getBoundingClientRect()).map((box) => [box.width, box.height])"
    )
    assert len(sizes) >= 3
    assert all(wide > 100 and high > 50 for wide, high in sizes)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_hostile_label_is_shown_as_text(view: Open, hostile_names: tuple[str, str]) -> None:
    page = view("hostile")
    assert hostile_names[0] in page.find_element("tag name", "body").text
    titles = page.execute_script(
        "return [...document.querySelectorAll('svg text')].map((text) => text.textContent)"
    )
    assert set(hostile_names) <= set(titles)
    assert page.execute_script("return document.querySelectorAll('img').length") == 0
    assert page.get_log("browser") == []


def test_pointing_at_a_mark_shows_its_value(view: Open) -> None:
    from selenium.webdriver import ActionChains

    page = view("village")
    panel = page.find_element("css selector", ".panel")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", panel)
    x, y, said, left, top = page.execute_script(
        """const [panel] = arguments;
        const svg = panel.querySelector("svg");
        const [x, y, said] = JSON.parse(panel.querySelector("script").textContent)[0];
        const place = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
        const box = panel.getBoundingClientRect();
        return [place.x, place.y, said, box.x + box.width / 2, box.y + box.height / 2];""",
        panel,
    )
    tip = page.find_element("id", "tip")
    assert not tip.is_displayed()
    move = ActionChains(page)
    move.move_to_element_with_offset(panel, round(x - left), round(y - top)).perform()
    assert tip.is_displayed()
    assert tip.text.startswith("height ") and ", income " in tip.text
    assert said.startswith("height ")
    ActionChains(page).move_to_element(page.find_element("tag name", "h2")).perform()
    assert not tip.is_displayed()


def test_marks_can_be_walked_with_the_keyboard(view: Open) -> None:
    page = view("village")
    panel = page.find_elements("css selector", ".panel")[0]
    said = page.execute_script(
        "return JSON.parse(arguments[0].querySelector('script').textContent).map((m) => m[2])",
        panel,
    )
    panel.send_keys("\ue014")
    panel.send_keys("\ue014")
    assert page.find_element("id", "tip").text == " ".join(said[1].split())


def test_choosing_a_covariate_switches_all_its_pictures(view: Open) -> None:
    from selenium.webdriver.support.select import Select

    page = view("village")
    menus = page.find_elements("css selector", "[data-chooses=covariate]")
    choosers = [Select(one) for one in menus]
    assert [option.text for option in choosers[0].options] == ["height", "weight"]

    def shown() -> list[str]:
        return page.execute_script(
            "return [...document.querySelectorAll('[data-subject=covariate]')]"
            ".filter((one) => !one.hidden)"
            ".map((one) => one.querySelector('figcaption').textContent)"
        )

    assert all("height" in caption for caption in shown())
    before = len(shown())
    choosers[-1].select_by_visible_text("weight")
    assert len(shown()) == before == len(choosers)
    assert all("weight" in caption for caption in shown())
    assert all(one.first_selected_option.text == "weight" for one in choosers)
    assert page.get_log("browser") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read(view: Open, theme: str) -> None:
    page = view("village", theme=theme)
    colours = ["blue", "orange", "green", "purple", "amber", "sky", "seen", "faint"]
    found = page.execute_script(CONTRAST, ["ink", "alarm", "calm", *colours])
    assert all(found[name] >= READABLE_TEXT for name in ("ink", "alarm", "calm"))
    assert all(found[name] >= READABLE_LINE for name in colours if name != "faint"), found


def test_the_button_turns_the_theme(view: Open) -> None:
    page = view("village", theme="dark")

    def background() -> str:
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    dark = background()
    page.find_element("id", "theme").click()
    light = background()
    assert light == "rgb(255, 255, 255)" != dark
    page.find_element("id", "theme").click()
    assert background() == dark


TEXT_CONTRASTS = """
const luminance = (parts) => {
  const [r, g, b] = parts.map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const found = parts(getComputedStyle(one).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found.slice(0, 3);
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.closest("script, style, noscript, [hidden]")) continue;
  if (!element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const ink = parts(element.closest("svg") ? style.fill : style.color).slice(0, 3);
  const [high, low] = [luminance(ink), luminance(behind(element))].sort((a, b) => b - a);
  found.push([(high + 0.05) / (low + 0.05), element.textContent.slice(0, 40)]);
}
return found;
"""
"""The contrast of every text with what is behind it."""

PRINTED = """
const shown = (element) => element.checkVisibility({ contentVisibilityAuto: true })
  && element.getBoundingClientRect().height > 0;
const wide = [...document.querySelectorAll("main *")]
  .filter((one) => !one.closest("svg") && one.getBoundingClientRect().right > innerWidth + 1);
const all = (selector) => [...document.querySelectorAll(selector)];
return {
  paper: getComputedStyle(document.body).backgroundColor,
  hidden: all("[data-option] figure").filter((one) => !shown(one)).length,
  folded: all("details li, details table").filter((one) => !shown(one)).length,
  menus: all("select, button").filter(shown).length,
  wide: wide.map((one) => one.textContent.slice(0, 40)),
};
"""


@pytest.mark.parametrize("name", ["village", "hostile"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(view: Open, name: str, theme: str) -> None:
    found = view(name, theme=theme).execute_script(TEXT_CONTRASTS)
    assert len(found) > 100
    assert [text for contrast, text in found if contrast < READABLE_TEXT] == []


def test_on_paper_everything_is_light_open_and_whole(view: Open) -> None:
    page = view("village", width=680, theme="dark")
    assert page.execute_script(PRINTED)["hidden"] > 0
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [dark]})
    try:
        found = page.execute_script(PRINTED)
        assert found["paper"] == "rgb(255, 255, 255)"
        assert found["hidden"] == found["folded"] == found["menus"] == 0
        assert found["wide"] == []
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [dark]})


def test_no_page_ends_with_the_head_of_a_table(view: Open) -> None:
    page = view("village")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        found = page.execute_script(
            "return [...document.querySelectorAll('.wide')].map((one) => ["
            "one.querySelectorAll('tbody tr').length, getComputedStyle(one).breakInside, "
            "getComputedStyle(one.querySelector('tbody tr')).breakAfter])"
        )
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(found) > 10 and {rows > 12 for rows, *_ in found} == {False}
    assert all(inside == after == "avoid" for _, inside, after in found)
    assert (
        page.execute_script(
            "const one = document.querySelector('.wide').cloneNode(true);"
            "const row = one.querySelector('tbody tr');"
            "for (let i = 0; i < 20; i += 1) row.after(row.cloneNode(true));"
            "document.body.append(one); return getComputedStyle(one).breakInside"
        )
        == "auto"
    )


def test_it_prints_to_pages(view: Open) -> None:
    page = view("village")
    made = page.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pdf = base64.b64decode(made["data"])
    assert pdf.startswith(b"%PDF")
    assert 5 <= pdf.count(b"/Type /Page\n") <= 30
    assert page.get_log("browser") == []


def test_a_table_that_scrolls_shows_that_it_does(view: Open) -> None:
    page = view("village", NARROW)
    scrolling = page.execute_script(
        "return [...document.querySelectorAll('.wide')].filter((one) => one.scrollWidth > "
        "one.clientWidth).map((one) => [getComputedStyle(one).backgroundAttachment, one.tabIndex])"
    )
    assert scrolling
    assert all("local" in shade and "scroll" in shade and at == 0 for shade, at in scrolling)


def test_nothing_moves_by_itself_and_legends_cover_nothing(view: Open) -> None:
    page = view("village")
    moving = page.execute_script(
        "return [...document.querySelectorAll('*')].map(getComputedStyle).filter((one) => "
        "one.animationName !== 'none' || parseFloat(one.transitionDuration) > 0).length"
    )
    assert moving == 0
    covered = page.execute_script(
        "return [...document.querySelectorAll('svg')].filter((svg) => !svg.closest('[hidden]'))"
        ".flatMap((svg) => [...svg.querySelectorAll('[id$=legend_1]')].map((legend) => ["
        "legend.getBoundingClientRect().top, Math.max(...[...svg.querySelectorAll('[id*=line2d_]')]"
        ".filter((line) => !line.closest('[id$=legend_1]'))"
        ".map((line) => line.getBoundingClientRect().bottom))]))"
    )
    assert len(covered) >= 3
    assert all(top >= bottom for top, bottom in covered)


@pytest.fixture(scope="module")
def of_long_names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write report and explore page of a fit whose names hold no place to break a line."""
    rng = np.random.default_rng([7, 8])
    x = rng.normal(size=(200, 2))
    latent = x + rng.normal(size=(200, 2))
    number, group = "x" * 300, "g" * 300
    table = pd.DataFrame({number: x[:, 0], "y": latent.max(axis=1)})
    table[group] = np.array(["u" * 300, "v" * 32])[np.arange(200) % 2]
    table["who"] = np.array(["a" * 300, "b" * 32])[latent.argmax(axis=1)]
    fit = ss.fit(f"y ~ {number} + {group}", table, chosen="who")
    folder = tmp_path_factory.mktemp("long")
    fit.report(folder / "report.html")
    fit.explore(folder / "explore.html")
    return {name: folder / f"{name}.html" for name in ("report", "explore")}


@pytest.mark.parametrize("name", ["report", "explore"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_names_of_hundreds_of_letters_do_not_widen_a_page(
    browser: Any, of_long_names: dict[str, Path], name: str, width: int
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == NARROW},
    )
    browser.get(of_long_names[name].as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width

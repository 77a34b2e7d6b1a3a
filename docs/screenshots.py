"""Screenshots of the report, the page to explore and a notebook, for the documentation.

``make screenshots`` makes them; needs chromium and chromedriver (Debian: apt-get install chromium
chromium-driver).
"""

from __future__ import annotations

import shutil
from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

import selfselect as ss

IMAGES = Path(__file__).parent / "images"
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
SIZES = {"wide": (1100, 1500), "narrow": (390, 1500)}
PAGES = ("report", "explore", "notebook")
PAPER = (680, 960)
"""Width and height of a printed page between its margins."""

MOVED = """
const amount = document.getElementById("amount");
if (amount) {
  amount.value = 48;
  amount.dispatchEvent(new Event("input", { bubbles: true }));
}
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
"""


NOTEBOOK = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>body {{ font: 14px sans-serif; max-width: 60em; margin: 1em auto; }}
pre {{ border: 1px solid #8886; padding: 0.5em; overflow-x: auto; }}
div {{ overflow-x: auto; }}</style>{cells}"""
"""What a notebook shows around the last value of a cell."""


def write_notebook(result: ss.FitResult, page: Path) -> None:
    """Write cells and what a notebook shows of the last value of each."""
    cells = {
        "result": result,
        "result.compare()": result.compare(),
        'result.treatment_effects("hunting", "fishing")': result.treatment_effects(
            "hunting", "fishing"
        ),
        "result.diagnose()": result.diagnose(),
        "result.plot.coefficients()": result.plot.coefficients(),
    }
    made = []
    for code, value in cells.items():
        shown = getattr(value, "_repr_html_", lambda: None)()
        if shown is None:
            image = b64encode(value._repr_png_()).decode("ascii")
            shown = f'<img alt="" src="data:image/png;base64,{image}">'
        made.append(f"<pre>{escape(code)}</pre><div>{shown}</div>")
    page.write_text(NOTEBOOK.format(cells="".join(made)), encoding="utf-8")


def start() -> Chrome:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in QUIET:
        options.add_argument(option)
    return Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))


def shoot(browser: Chrome, page: Path, size: tuple[int, int], media: dict[str, Any]) -> None:
    width, height = size
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(page.as_uri())
    browser.execute_script(MOVED)


def main() -> None:
    sample = ss.simulators.village(2_000, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="job")
    browser = start()
    with TemporaryDirectory() as folder:
        pages = {name: Path(folder) / f"{name}.html" for name in PAGES}
        result.report(pages["report"])
        result.explore(pages["explore"])
        write_notebook(result, pages["notebook"])
        for name, page in pages.items():
            shots = [
                (f"{theme}-{size}", extent, {"media": "screen", "features": [feature]})
                for theme in ("light", "dark")
                for feature in [{"name": "prefers-color-scheme", "value": theme}]
                for size, extent in SIZES.items()
                if name != "notebook" or size == "wide"
            ]
            if name == "report":
                # On paper it is light though the screen is dark.
                shots.append(
                    ("print", PAPER, {"media": "print", "features": shots[-1][2]["features"]})
                )
            for shot, extent, media in shots:
                target = IMAGES / f"{name}-{shot}.png"
                shoot(browser, page, extent, media)
                browser.save_screenshot(str(target))
                print(f"Written: {target.name}")
    browser.quit()


if __name__ == "__main__":
    main()

"""Screenshots of the report and of the page to explore, for the documentation.

``make screenshots`` makes them; needs chromium and chromedriver (Debian: apt-get install chromium
chromium-driver).
"""

from __future__ import annotations

import shutil
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
        pages = {name: Path(folder) / f"{name}.html" for name in ("report", "explore")}
        result.report(pages["report"])
        result.explore(pages["explore"])
        for name, page in pages.items():
            shots = [
                (f"{theme}-{size}", extent, {"media": "screen", "features": [feature]})
                for theme in ("light", "dark")
                for feature in [{"name": "prefers-color-scheme", "value": theme}]
                for size, extent in SIZES.items()
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

"""Screenshots of the report for the documentation: ``make screenshots``.

Needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

import selfselect as ss

IMAGES = Path(__file__).parent / "images"
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
SIZES = {"wide": (1100, 1500), "narrow": (390, 1500)}


def start() -> Chrome:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in QUIET:
        options.add_argument(option)
    return Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))


def main() -> None:
    sample = ss.simulators.village(2_000, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen="job")
    browser = start()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "fit.html"
        result.report(report)
        for theme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": theme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            for size, (width, height) in SIZES.items():
                browser.execute_cdp_cmd(
                    "Emulation.setDeviceMetricsOverride",
                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
                )
                browser.get(report.as_uri())
                target = IMAGES / f"report-{theme}-{size}.png"
                browser.save_screenshot(str(target))
                print(f"Written: {target.name}")
    browser.quit()


if __name__ == "__main__":
    main()

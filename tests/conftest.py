"""What many tests share: small worlds (every box rule, every kind of scale), and a browser."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.kernels import compiled
from selfselect.rules import Maximum, Minimum, MonotoneArgmax

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = (
    "No browser: pages are not looked at in one. Install it with: "
    "apt-get install chromium chromium-driver"
)
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs compiled kernels where there are none."""
    if item.get_closest_marker("compiled") and compiled.extension() is None:
        pytest.skip("there are no compiled kernels")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test drew: many open figures are a warning of matplotlib's, so an error."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def without_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return a function that leaves compiled kernels out from then on, until the test ends."""

    def leave_out() -> None:
        monkeypatch.setenv("SELFSELECT_PURE", "1")
        compiled.extension.cache_clear()

    yield leave_out
    monkeypatch.undo()
    compiled.extension.cache_clear()


COEFFICIENTS = {
    "a": {"Intercept": 0.3, "x1": 0.8, "x2": -0.4},
    "b": {"Intercept": 0.5, "x1": -0.5, "x3": 0.6},
    "c": {"Intercept": 0.1, "x1": 0.2, "x2": 0.5, "x3": -0.7},
}
SCALES = {"a": 0.8, "b": 1.0, "c": 1.3}
COST = {"b": 0.4, "c": "fare"}
OPEN = {"c": "open_c"}

MAKE_RULE: dict[str, Callable[..., Any]] = {
    "max": Maximum,
    "min": Minimum,
    "monotone": lambda **cost: MonotoneArgmax({"a": "exp", "c": (np.arcsinh, np.sinh)}, **cost),
    "mixed": lambda **cost: MonotoneArgmax({"a": "negative", "b": 1.5, "c": np.cbrt}, **cost),
}

NOISE: dict[str, Any] = {
    "each": "each",
    "common": "common",
    "number": 1.1,
    "numbers": {"c": 1.4, "a": 0.7, "b": 0.9},
}


@dataclass(frozen=True)
class World:
    """A simulated table and the arguments with which it is to be fitted."""

    sample: Any
    rule: Any
    available: dict[str, str] | None

    @property
    def data(self) -> pd.DataFrame:
        return self.sample.data

    def fit(self, data: Any = None, **options: Any) -> Any:
        options = {
            "chosen": "chosen",
            "rule": self.rule,
            "available": self.available,
        } | options
        return ss.fit(self.sample.formula, self.data if data is None else data, **options)


@pytest.fixture(params=sorted(MAKE_RULE))
def rule_name(request: pytest.FixtureRequest) -> str:
    """Run the test once for every rule."""
    return str(request.param)


@pytest.fixture(params=sorted(NOISE))
def noise(request: pytest.FixtureRequest) -> Any:
    """Run the test once for every kind of scale."""
    return ss.noises.Independent(scale=NOISE[request.param])


@pytest.fixture(params=[False, True], ids=["plain", "known"])
def with_known(request: pytest.FixtureRequest) -> bool:
    """Run the test once without and once with costs and availability."""
    return bool(request.param)


@pytest.fixture(scope="session")
def world() -> Callable[..., World]:
    """Return a function that simulates a world."""

    def make(
        rule_name: str = "max",
        n_rows: int = 400,
        *,
        known: bool = False,
        labels: tuple[str, ...] = ("a", "b", "c"),
        seed: int = 0,
    ) -> World:
        rng = np.random.default_rng([seed, 11])
        table = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["x1", "x2", "x3"])
        table["fare"] = rng.uniform(0, 0.8, n_rows)
        table["open_c"] = rng.uniform(size=n_rows) < 0.8
        table["w"] = rng.integers(1, 4, n_rows).astype(float)
        table["group"] = rng.integers(n_rows // 8, size=n_rows)
        rule = MAKE_RULE[rule_name](**({"cost": COST} if known else {}))
        available = OPEN if known else None
        sample = ss.simulate(
            {label: COEFFICIENTS[label] for label in labels},
            table,
            scales={label: SCALES[label] for label in labels},
            rule=rule,
            available=available,
            seed=seed,
        )
        return World(sample, rule, available)

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a headless browser, or say which packages are missing."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if found is None or driver is None:
        pytest.skip(NO_BROWSER)
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = found
    for option in QUIET:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=ChromeService(driver))
    yield started
    started.quit()

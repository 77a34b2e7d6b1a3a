"""What calls cost without a clock, as JSON: files that execute, passes, kernel calls, fits, memory.

``tools/house.py`` runs it in a fresh process with one thread. A call is made twice, and the second
time is counted: what is loaded only once is not.
"""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import selfselect as ss

LOADED_BY_THE_PACKAGE = len([name for name in sys.modules if name.startswith("selfselect")])

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

SOURCE = str(Path(ss.__file__).parent)

ROWS = 600

SIZES = 20_000, 60_000
"""Rows of the two fits between which memory is compared: what does not grow with them cancels."""

COVARIATES = 8

HEAVY = (
    "scipy.stats",
    "scipy.optimize",
    "formulaic",
    "narwhals",
    "jinja2",
    "matplotlib",
    "sklearn",
)
"""Modules that take tenths of a second to load and that a plain fit of a frame has no need of."""

AIM = 1.5
"""How much memory, in covariates, no call should need; the record is the ceiling of those above."""


def table(n_rows: int, n_covariates: int = COVARIATES) -> tuple[pd.DataFrame, str]:
    """Return rows with a choice between two, the covariates' names, and a selection."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n_rows, n_covariates))
    names = [f"x{number}" for number in range(n_covariates)]
    means = x[:, :3] @ np.array([[0.5, -0.3], [0.2, 0.6], [0.0, 0.3]]) + [0.0, 0.2]
    latent = means + rng.normal(size=(n_rows, 2)) @ [[1.0, 0.3], [0.0, 0.8]]
    who = latent.argmax(axis=1)
    works = 0.4 + x[:, 0] + x[:, 3] + rng.normal(size=n_rows) > 0
    found = latent[np.arange(n_rows), who]
    data = pd.DataFrame(x, columns=names).assign(
        y=found,
        who=np.array(["a", "b"])[who],
        y_silent=np.where(rng.random(n_rows) < 0.1, np.nan, found),
        works=works,
        sector=np.where(works, "in", "out"),
        wage=np.where(works, latent[:, 0], np.nan),
        pay=np.where(works, latent[:, 0], latent[:, 1]),
        firm=rng.integers(0, n_rows // 10, n_rows),
        person=np.arange(n_rows) // 3,
    )
    return data, " + ".join(names)


DATA = table(ROWS, 4)[0]
NOISES = ss.noises

Call = Callable[[], Any]


def fitted(formula: str = "y ~ x0 + x1", chosen: str | None = "who", **options: Any) -> Call:
    """Return the call of a fit."""
    return lambda: ss.fit(formula, DATA, chosen=chosen, seed=1, **options)


FITS: dict[str, Call] = {
    "a plain fit": fitted(),
    "a common scale": fitted(noise=NOISES.Independent("common")),
    "logistic noise": fitted(noise=NOISES.Independent(shape="logistic")),
    "Student noise": fitted(noise=NOISES.Student()),
    "correlated noise": fitted(noise=NOISES.Correlated()),
    "a shared shock": fitted(noise=NOISES.SharedShock(), panel="person"),
    "silent outcomes": fitted("y_silent ~ x0 + x1", missing_outcome="silent"),
    "estimated costs": fitted(cost={"b": "~ x2"}, noise=NOISES.Independent("common")),
    "clusters": fitted(cluster="firm"),
    "an unknown index": fitted(chosen=None, alternatives=2),
    "sample selection": lambda: ss.sample_selection("wage ~ x0 + x1", "works ~ x0 + x3", DATA),
    "switching": lambda: ss.switching("pay ~ x0 + x1", "sector ~ x0 + x1 + x3", DATA),
}

PASSES = ("sum", "collect")
"""Methods of an engine that pass over all rows."""


class Walk:
    """Which files of the package execute, passes over rows, calls of compiled kernels, and fits."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.passes = self.kernel_calls = self.fits = self.inside = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        """Note what a profiler is told."""
        if event == "c_call":
            self.kernel_calls += "_native" in str(getattr(argument, "__module__", None))
            return
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE):
            return
        solves = code.co_name == "solve" and "engine" in code.co_varnames[: code.co_argcount]
        if event == "call":
            self.files.add(code.co_filename)
            self.passes += code.co_name in PASSES and code.co_filename.endswith("memory.py")
            self.fits += solves and self.inside == 0
            self.inside += solves
        elif event == "return":
            self.inside -= solves

    @classmethod
    def of(cls, call: Call) -> Walk:
        """Follow a call."""
        walk = cls()
        sys.setprofile(walk)
        try:
            call()
        finally:
            sys.setprofile(None)
        return walk


EFFECTS: dict[str, Callable[[Any], Any]] = {
    "potential_outcomes": lambda fit: fit.potential_outcomes(),
    "choice_probabilities": lambda fit: fit.choice_probabilities(),
    "marginal_effects": lambda fit: fit.marginal_effects("x1"),
    "treatment_effects": lambda fit: fit.treatment_effects("a", "b"),
    "decompose": lambda fit: fit.decompose("a", "b"),
    "sorting": lambda fit: fit.sorting(),
    "counterfactual": lambda fit: fit.counterfactual(subsidy={"a": 0.5}),
    "gains": lambda fit: fit.gains("a", "b"),
    "policy": lambda fit: fit.policy(),
    "heterogeneity": lambda fit: fit.heterogeneity("a", "b"),
    "summary": lambda fit: str(fit.summary()),
    "predict": lambda fit: fit.predict(kind="outcome"),
}


def peak(call: Call) -> int:
    """Return the bytes that a call has at most, beyond those before it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call()
    found = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return found


def peaks(n_rows: int) -> dict[str, int]:
    """Return the peaks of a fit and of what is asked of it, each of a fit of its own."""
    data, covariates = table(n_rows)

    def fit() -> Any:
        return ss.fit(f"y ~ {covariates}", data, chosen="who")

    found = {"a fit": peak(fit)}
    for name, ask in EFFECTS.items():
        fresh = fit()
        found[name] = peak(lambda ask=ask, fresh=fresh: ask(fresh))
    return found


def memory() -> dict[str, float]:
    """Return by how many times the covariates peaks grow, in tenths; `AIM` where it is less."""
    few, many = map(peaks, SIZES)
    covariates = 8 * COVARIATES * (SIZES[1] - SIZES[0])
    times = {name: math.ceil(10 * (many[name] - few[name]) / covariates) / 10 for name in many}
    return {name: max(AIM, found) for name, found in times.items()}


def main() -> None:
    """Print all as JSON."""
    ss.set_threads(1)
    found: dict[str, float] = {"modules that `import selfselect` loads": LOADED_BY_THE_PACKAGE}
    FITS["a plain fit"]()
    found["modules that a first fit loads"] = sum(
        name.startswith("selfselect") for name in sys.modules
    )
    found["heavy modules that a first fit loads"] = sum(name in sys.modules for name in HEAVY)
    for name, call in FITS.items():
        call()
        walk = Walk.of(call)
        found[f"passes of {name}"] = walk.passes
        found[f"kernel calls of {name}"] = walk.kernel_calls
        found[f"files that execute in {name}"] = len(walk.files)
    plain: Any = FITS["a plain fit"]
    for name, ask in {
        "a summary": lambda fit: str(fit.summary()),
        "treatment effects": lambda fit: fit.treatment_effects("a", "b"),
        "a verdict": lambda fit: fit.verdict(("a", "b")),
    }.items():
        ask(plain())
        fresh = plain()
        walk = Walk.of(lambda ask=ask, fresh=fresh: ask(fresh))
        found[f"files that execute in {name}"] = len(walk.files)
        found[f"passes of {name}"] = walk.passes
    found["fits in a verdict"] = walk.fits
    result = plain()
    found["public names of a result"] = sum(not name.startswith("_") for name in dir(result))
    found["public names of the package"] = sum(not name.startswith("_") for name in dir(ss))
    found |= {f"memory of {name}, in covariates": times for name, times in memory().items()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Linear regression under self-selection bias.

Each row has one outcome per alternative, and only one is recorded: the largest, the smallest, or
the one that another known rule picks. Start with `fit` and ``print(result.summary())``.

Names are loaded when first touched, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from selfselect import (
        datasets,
        effects,
        engines,
        errors,
        inference,
        noises,
        plots,
        rules,
        samplers,
        simulators,
        solvers,
    )
    from selfselect._fit import fit
    from selfselect.bounding.ask import bounds
    from selfselect.data.panels import panel_means
    from selfselect.multinomial import MultinomialResult, multinomial_switching
    from selfselect.posing import pose
    from selfselect.results.archive import load
    from selfselect.results.assumptions import assumptions
    from selfselect.results.fit_result import FitResult
    from selfselect.selection.doors import sample_selection, switching
    from selfselect.simulators.sample import simulate
    from selfselect.sklearn import SelfSelectionRegressor
    from selfselect.threads import set_threads
    from selfselect.trust.alternatives import choose_alternatives
    from selfselect.trust.noises import choose_noise

_ROOMS = (
    "datasets",
    "effects",
    "engines",
    "errors",
    "inference",
    "noises",
    "plots",
    "rules",
    "samplers",
    "simulators",
    "solvers",
)
_NAMES = {
    "assumptions": "selfselect.results.assumptions",
    "bounds": "selfselect.bounding",
    "choose_alternatives": "selfselect.trust.alternatives",
    "choose_noise": "selfselect.trust.noises",
    "fit": "selfselect._fit",
    "load": "selfselect.results.archive",
    "multinomial_switching": "selfselect.multinomial",
    "MultinomialResult": "selfselect.multinomial",
    "panel_means": "selfselect.data.panels",
    "pose": "selfselect.posing",
    "FitResult": "selfselect.results.fit_result",
    "sample_selection": "selfselect.selection",
    "switching": "selfselect.selection",
    "simulate": "selfselect.simulators.sample",
    "SelfSelectionRegressor": "selfselect.sklearn",
    "set_threads": "selfselect.threads",
}

__all__ = [
    "FitResult",
    "MultinomialResult",
    "SelfSelectionRegressor",
    "assumptions",
    "bounds",
    "choose_alternatives",
    "choose_noise",
    "datasets",
    "effects",
    "engines",
    "errors",
    "fit",
    "inference",
    "load",
    "multinomial_switching",
    "noises",
    "panel_means",
    "plots",
    "pose",
    "rules",
    "sample_selection",
    "samplers",
    "set_threads",
    "simulate",
    "simulators",
    "solvers",
    "switching",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"selfselect.{name}")
    if name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'selfselect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

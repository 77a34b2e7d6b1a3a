"""Which logarithm the left side of a formula is, where predictions of the outcome itself are asked.

Their mathematics is in `moments.levels`.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.formula_columns import expression_tree
from selfselect.errors import OptionError, UnsupportedError
from selfselect.moments.levels import Logarithm
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["SCALES", "asked_logarithm", "check_scale", "find_logarithm", "refuse_other_shapes"]

SCALES = ("model", "level")

RATES = {"log": 1.0, "log2": float(np.log(2.0)), "log10": float(np.log(10.0)), "log1p": 1.0}
"""By function, c in e^(cy), which undoes it; log1p leaves one to subtract."""


def find_logarithm(fit: FitResult) -> Logarithm:
    """Read off the formula which logarithm its left side is, or say that it is none."""
    outcome = fit.problem.equations.outcome
    call: Any = None
    aliases: dict[str, str] = {}
    with suppress(SyntaxError):
        tree, aliases = expression_tree(outcome)
        call = tree.body
        while isinstance(call, ast.Call) and ast.unparse(call.func) == "I" and len(call.args) == 1:
            call = call.args[0]  # I(...) leaves a value as it is.
    if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name in RATES:
            level = ast.unparse(call.args[0])
            marked = {alias: f"`{column}`" for alias, column in aliases.items()}
            in_marks = re.sub(r"\w+", lambda found: marked.get(found[0], found[0]), level)
            level = aliases.get(level, in_marks)
            return Logarithm(level, RATES[name], 1.0 if name == "log1p" else 0.0)
    raise OptionError(
        f"scale='level' undoes a logarithm, but the left side of the formula is {outcome!r}. Where "
        "that column holds logarithms, fit the column they were taken of: 'log(wage) ~ ...'. "
        "Where it holds levels, leave `scale` out."
    )


def refuse_other_shapes(problem: Problem) -> None:
    """Refuse noise whose exponential has no mean that is known exactly."""
    shape = problem.noise.margin
    if shape.normals is None:
        raise UnsupportedError(
            f"scale='level' needs noise that is normal or a mixture of normals, and this fit has "
            f"{shape.name} noise: the mean of its exponential is another one, and may be infinite. "
            "Leave `scale` out, or fit noise=noises.Mixture(2)."
        )


def check_scale(scale: str) -> None:
    """Refuse the name of a scale that there is not."""
    if scale not in SCALES:
        raise OptionError(f"There is no scale {scale!r}. Use one of {', '.join(SCALES)}.")


def asked_logarithm(fit: FitResult, scale: str) -> Logarithm | None:
    """Return the logarithm that `scale` asks to undo, or None; refuse what cannot be undone."""
    check_scale(scale)
    if scale == "model":
        return None
    logarithm = find_logarithm(fit)
    refuse_other_shapes(fit.problem)
    return logarithm

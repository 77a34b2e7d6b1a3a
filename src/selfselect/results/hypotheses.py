"""Tests of hypotheses about a fit: Wald tests of linear restrictions, likelihood ratios."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.tables import nearest
from selfselect.errors import OptionError
from selfselect.inference.statistics import TestResult, chi_square_test, impossible_test

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["linear_restrictions", "lr_test", "wald_test"]

Array = NDArray[np.float64]


def wald_test(
    values: Array, covariance: Array, names: Sequence[str], hypothesis: Any
) -> TestResult:
    """Test linear restrictions by the Wald statistic.

    Parameters
    ----------
    values, covariance : the estimates.
    names : of the parameters, ``alternative:term``.
    hypothesis : text such as ``"hunting:height = fishing:height"``, several of them separated by
        commas or in a list, or a matrix R with R b = 0 under the null.
    """
    matrix, constant, null = linear_restrictions(hypothesis, names)
    name = "Wald test"
    if not np.isfinite(covariance).all():
        return impossible_test(name, "the covariance of the estimates is not known")
    spread = matrix @ covariance @ matrix.T
    gap = matrix @ values - constant
    rank = int(np.linalg.matrix_rank(matrix))
    if rank < len(matrix):
        return impossible_test(name, "some restrictions repeat or contradict others")
    return chi_square_test(name, float(gap @ np.linalg.solve(spread, gap)), rank, null)


def linear_restrictions(hypothesis: Any, names: Sequence[str]) -> tuple[Array, Array, str]:
    """Return (R, r, text) such that the hypothesis reads R b = r."""
    if isinstance(hypothesis, str):
        parts = _split(hypothesis, names)
        rows = [_restriction(part, names) for part in parts]
        return (
            np.array([row for row, _ in rows]),
            np.array([constant for _, constant in rows]),
            ", ".join(parts),
        )
    if isinstance(hypothesis, Sequence) and hypothesis and isinstance(hypothesis[0], str):
        rows = [_restriction(part, names) for part in hypothesis]
        return (
            np.array([row for row, _ in rows]),
            np.array([constant for _, constant in rows]),
            ", ".join(hypothesis),
        )
    matrix = np.atleast_2d(np.asarray(hypothesis, dtype=float))
    if matrix.shape[1] != len(names):
        raise OptionError(
            f"The restriction matrix has {matrix.shape[1]} columns; there are {len(names)} "
            f"parameters: {', '.join(names)}."
        )
    return matrix, np.zeros(len(matrix)), f"R b = 0 ({len(matrix)} restrictions)"


_TOKEN = re.compile(r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<sign>[-+*/]))")


def _split(text: str, names: Sequence[str]) -> list[str]:
    """Cut at commas that are not inside a parameter's name."""
    masked = text
    for i, name in _longest_first(names):
        masked = masked.replace(name, f"\0{i}\0")
    parts = [part.strip() for part in masked.split(",") if part.strip()]
    return [re.sub(r"\0(\d+)\0", lambda m: names[int(m[1])], part) for part in parts]


def _longest_first(names: Sequence[str]) -> list[tuple[int, str]]:
    return sorted(enumerate(names), key=lambda pair: -len(pair[1]))


def _restriction(text: str, names: Sequence[str]) -> tuple[Array, float]:
    """Parse ``2*a:x - b:x = 1`` into coefficients and a constant."""
    sides = text.split("=")
    if len(sides) > 2:
        raise OptionError(f"The hypothesis {text!r} has more than one '='.")
    left, left_constant = _linear(sides[0], names, text)
    if len(sides) == 1:
        return left, -left_constant
    right, right_constant = _linear(sides[1], names, text)
    return left - right, right_constant - left_constant


def _linear(side: str, names: Sequence[str], text: str) -> tuple[Array, float]:
    coefficients, constant = np.zeros(len(names)), 0.0
    sign, factor, pending = 1.0, 1.0, False
    place = 0
    while place < len(side):
        if side[place].isspace() or side[place] == "`":
            place += 1
            continue
        found = next((p for p in _longest_first(names) if side.startswith(p[1], place)), None)
        if found is not None:
            coefficients[found[0]] += sign * factor
            sign, factor, pending = 1.0, 1.0, False
            place += len(found[1])
            continue
        token = _TOKEN.match(side, place)
        if token is None:
            word = re.split(r"[\s=+*/-]", side[place:])[0] or side[place:]
            raise OptionError(
                f"In the hypothesis {text!r}, {word!r} is no parameter.{nearest(word, names)} "
                "Write parameters as alternative:term."
            )
        place = token.end()
        if token["number"]:
            factor, pending = factor * float(token["number"]), True
        elif token["sign"] in "+-":
            if pending:
                constant += sign * factor
            sign, factor, pending = (-1.0 if token["sign"] == "-" else 1.0), 1.0, False
        elif token["sign"] == "/" or not pending:
            raise OptionError(
                f"In the hypothesis {text!r}, write factors as numbers before the parameter, "
                "as in 2*alternative:term."
            )
    if pending:
        constant += sign * factor
    return coefficients, constant


def lr_test(one: FitResult, other: FitResult) -> TestResult:
    """Test the smaller of two nested fits of the same rows against the larger."""
    name = "Likelihood-ratio test"
    small, large = sorted((one, other), key=lambda fit: fit.n_parameters)
    if (small.facts.n_rows, small.facts.counts, small.problem.equations.outcome) != (
        large.facts.n_rows,
        large.facts.counts,
        large.problem.equations.outcome,
    ):
        return impossible_test(name, "the two fits are of different rows or outcomes")
    df = large.n_parameters - small.n_parameters
    if df == 0:
        return impossible_test(name, "both fits have the same number of parameters")
    if not (small.converged and large.converged):
        return impossible_test(name, "a fit did not converge")
    if small.problem.rule != large.problem.rule:
        return impossible_test(name, "the fits have different rules, so neither nests the other")
    statistic = 2.0 * (large.llf - small.llf)
    if statistic < -1e-6:
        return impossible_test(
            name, "the larger model fits worse, so it does not nest the smaller one"
        )
    if not _nested(small, large):
        return impossible_test(name, "the terms of the smaller model are not all in the larger one")
    null = f"the restrictions of the smaller model ({df})"
    return chi_square_test(name, max(statistic, 0.0), df, null)


def _nested(small: FitResult, large: FitResult) -> bool:
    bigger = {equation.alternative: equation for equation in large.problem.equations.each}
    return all(
        equation.alternative in bigger
        and set(equation.terms) <= set(bigger[equation.alternative].terms)
        for equation in small.problem.equations.each
    )

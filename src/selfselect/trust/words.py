"""The three sentences of a verdict: what is agreed on, what depends, what is not determined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from selfselect.plain import archived
from selfselect.report.explain import in_words
from selfselect.report.page import listed
from selfselect.trust.beside import Answer

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


FAR = 2.0
"""Standard errors by which an assumption must move an answer to be named."""


@archived("verdict row")
@dataclass(frozen=True)
class Row:
    """What one model says, and what speaks against it.

    Attributes
    ----------
    name : of the model.
    answer : what it says, or why it says nothing.
    kind : ``"model"``, ``"naive"`` for least squares, ``"rule"`` for the rule alone.
    bic, rejected, untested : how well it fits, and what its tests say.
    state : how its search ended, where that is no ordinary optimum.
    changes : which assumptions of the fit it replaces; empty for the fit.
    dependent : whether noises of different alternatives may depend on each other, with one row of
        each person to tell how.
    supported : whether the data speak for it.
    """

    name: str
    answer: Answer
    kind: Literal["model", "naive", "rule"] = "model"
    bic: float = float("nan")
    rejected: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    state: str = ""
    changes: tuple[str, ...] = ()
    dependent: bool = False
    supported: bool = False

    @property
    def answered(self) -> bool:
        """Whether it has an estimate."""
        return bool(np.isfinite(self.answer.estimate))


def agreed(question: str, rows: Sequence[Row], level: float) -> str:
    """Say what all models agree on: those that the data support, or all where none is."""
    models = _counted(rows)
    if not models:
        return f"AGREED: nothing, since no model answers what {question} is."
    if not models[0].supported:
        return f"AGREED: {_none_fits(rows)}, and {_sign_of_all(question, rows)}."
    names = listed([one.name for one in models])
    left = listed(_untested(models))
    if len(models) == 1:
        said = f"one model describes the data, {names}"
        if left:
            said = (
                f"one model is not rejected by the tests that were made, {names} (not tested: "
                f"{left})"
            )
        said += f": {question} is {_number(models[0], level)}"
        return f"AGREED: {said}.{_fit_left_out(models)}{_beside_naive(models, rows)}"
    low = min(one.answer.conf_low for one in models)
    high = max(one.answer.conf_high for one in models)
    whole = {"estimate": _middle(models), "conf_low": low, "conf_high": high}
    joint = in_words(whole, level).split(" (", 1)[1].removesuffix(")")
    signs = {np.sign(one.answer.estimate) for one in models}
    if low > 0 or high < 0:
        sure = f"is {'positive' if low > 0 else 'negative'}"
    elif len(signs) == 1:
        word = "positive" if 1.0 in signs else "negative"
        sure = f"is {word} by every estimate, though not by every interval"
    else:
        sure = "may be of either sign"
    every = "both" if len(models) == 2 else f"all {len(models)}"
    return (
        f"AGREED: {every} models that {_standing(left)} ({names}) say that {question} {sure}: "
        f"{_range(models)}, intervals together "
        f"{joint}.{_fit_left_out(models)}{_beside_naive(models, rows)}"
    )


def depends(rows: Sequence[Row]) -> str:
    """Say which assumptions move the answer, and by how much; or that none does."""
    models = _counted(rows)
    if not models:
        return "DEPENDS: on nothing that could be varied."
    base = next((one for one in models if not one.changes), models[0])
    moved = [one for one in models if one is not base and _moves(base, one)]
    where = "" if base.supported else " of those that could be fitted"
    others = [one for one in models if one is not base]
    varied = listed(list(dict.fromkeys(what for one in others for what in one.changes)))
    if not varied:
        said = "DEPENDS: there is no other model to compare with that the data support."
    elif not moved:
        said = (
            f"DEPENDS: on nothing that was varied{where} ({varied}): no such change moves it by "
            f"more than {FAR:g} standard errors."
        )
    else:
        by_assumption: dict[str, list[Row]] = {}
        for one in moved:
            by_assumption.setdefault(" and ".join(one.changes), []).append(one)
        parts = [
            f"on {what} ({listed([_point(one) for one in some])}, against {_point(base)})"
            for what, some in by_assumption.items()
        ]
        said = f"DEPENDS: {'; '.join(parts)}."
    left = [one for one in rows if one.kind == "model" and one.answered and one not in models]
    if left:
        said += f" Models that fit worse give {_range(left)}."
    return said


def undetermined(question: str, rows: Sequence[Row], fit: FitResult, level: float) -> str:
    """Say what the data leave open."""
    models = _counted(rows)
    said = []
    if models and not models[0].supported:
        naive = next((one for one in rows if one.kind == "naive" and one.answered), None)
        point = "" if naive is None else (
            f", and least squares' {_signed(naive.answer.estimate)} is one more estimate, not a "
            "bound"
        )  # fmt: skip
        said.append(f"{question}: any number depends on the model{point}")
    free = [one for one in models if one.dependent]
    if free and not any(fit.problem.equations.exclusions().values()):
        ended = any(one.state for one in free)
        said.append(
            "the correlation of the noises, which only the shape of the noise identifies (no "
            "covariate is excluded from any equation)"
            + (" and which runs to its boundary" if ended else "")
        )
    if fit.problem.exchangeable:
        said.append(
            "which alternative is which: they have no names, and those of other models have the "
            "numbers of the ones in the fit that they come closest to"
        )
    rule = next(one for one in rows if one.kind == "rule")
    if rule.answer.note:
        said.append(f"anything without a model ({rule.answer.note.rstrip('.')})")
    else:
        low, high = rule.answer.conf_low, rule.answer.conf_high
        said.append(
            f"its size without a model of the noise: the rule alone {_limits(low, high, level)}"
        )
    left = _untested([one for one in models if one.supported])
    if left:
        said.append(f"whether assumptions hold that were not tested: {listed(left)}")
    return f"NOT DETERMINED by the data alone: {'; '.join(said)}."


def _untested(models: Sequence[Row]) -> list[str]:
    """Name the assumptions that were not tested in one of the models or more."""
    return list(dict.fromkeys(what for one in models for what in one.untested))


def _standing(left: str) -> str:
    """Say what speaks for models near the best one, given what was not tested in them."""
    if not left:
        return "the data support"
    return "are near the best by BIC and not rejected by the tests that were made"


def _limits(low: float, high: float, level: float) -> str:
    """Say what limits the rule alone sets."""
    if np.isinf(low) and np.isinf(high):
        return "sets no limit"
    if np.isinf(high):
        return f"says only that it is not below {low:.4g}"
    if np.isinf(low):
        return f"says only that it is not above {high:.4g}"
    return f"leaves it between {low:.4g} and {high:.4g} (with {100 * level:g}% confidence)"


def _counted(rows: Sequence[Row]) -> list[Row]:
    """Return the models that count: those supported, or all that answer where none is."""
    models = [one for one in rows if one.kind == "model" and one.answered]
    return [one for one in models if one.supported] or models


def _none_fits(rows: Sequence[Row]) -> str:
    models = [one for one in rows if one.kind == "model" and np.isfinite(one.bic)]
    if not models:
        return "that no model could be fitted"
    rejected = [one for one in models if one.rejected]
    what = listed(list(dict.fromkeys(name for one in rejected for name in one.rejected)))
    why = []
    if rejected:
        why.append(f"{len(rejected)} of {len(models)} are rejected by their own tests of {what}")
    why += [f"{one.name} is {one.state}" for one in models if one.state]
    said = "describes the data" if rejected else "can be relied on"
    return f"that no model here {said}" + (f" ({'; '.join(why)})" if why else "")


def _sign_of_all(question: str, rows: Sequence[Row]) -> str:
    answers = [one for one in rows if one.kind != "rule" and one.answered]
    signs = {np.sign(one.answer.estimate) for one in answers}
    if len(signs) > 1:
        return (
            f"nothing more: not even the sign of {question}, {_range(answers)} with least squares"
        )
    word = "positive" if 1.0 in signs else "negative"
    return (
        f"that {question} is {word} by every estimate, {_range(answers)}, but every estimate "
        "comes from a model in doubt"
    )


def _fit_left_out(models: Sequence[Row]) -> str:
    """Say where the data do not speak for the fit itself."""
    return " The fit itself is not among them." if all(one.changes for one in models) else ""


def _beside_naive(models: Sequence[Row], rows: Sequence[Row]) -> str:
    naive = next((one for one in rows if one.kind == "naive" and one.answered), None)
    if naive is None:
        return ""
    value = naive.answer.estimate
    low = min(one.answer.conf_low for one in models)
    high = max(one.answer.conf_high for one in models)
    where = "inside these intervals" if low <= value <= high else "outside all these intervals"
    return f" Least squares' {_signed(value)} is {where}."


def _moves(base: Row, other: Row) -> bool:
    """Say whether two answers differ by more than their errors allow."""
    errors = [e for e in (base.answer.std_error, other.answer.std_error) if np.isfinite(e)]
    apart = abs(other.answer.estimate - base.answer.estimate)
    return bool(apart > FAR * max(errors, default=0.0))


def _middle(models: Sequence[Row]) -> float:
    return float(np.median([one.answer.estimate for one in models]))


def _number(one: Row, level: float) -> str:
    return in_words(vars(one.answer), level)


def _point(one: Row) -> str:
    ended = f", {one.state}" if one.state else ""
    return f"{_signed(one.answer.estimate)} under {one.name}{ended}"


def _range(models: Sequence[Row]) -> str:
    values = [one.answer.estimate for one in models]
    low, high = _signed(min(values)), _signed(max(values))
    return low if low == high else f"{low} to {high}"


def _signed(value: float) -> str:
    return f"{value:+.3g}"

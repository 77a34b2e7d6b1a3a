"""A verdict: the table of one question under several models, and what it comes to in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from selfselect.errors import (
    ConvergenceWarning,
    OptionError,
    SelfSelectError,
    UnsupportedError,
    without_warnings,
)
from selfselect.noise_choice import CLOSE
from selfselect.progress import progress_bar
from selfselect.report.explain import VERDICT
from selfselect.report.page import Block, Page
from selfselect.report.summary import format_number
from selfselect.results.fit_result import FitResult
from selfselect.results.rejections import assumptions_tested
from selfselect.results.tables import check_level
from selfselect.seeds import check_seed
from selfselect.solvers.base import is_fragile, starts_at_best
from selfselect.solvers.status import Status
from selfselect.verdict.models import differences, other_models
from selfselect.verdict.questions import Answer, Question, read_question
from selfselect.verdict.words import Row, agreed, depends, undetermined

__all__ = ["Verdict", "make_verdict"]

LEAST_SQUARES, THE_FIT, RULE = "least squares", "the fit", "the rule alone"

BOUNDARY, SEVERAL = "at a boundary", "one of several optima"


@dataclass(frozen=True, eq=False)
class Verdict:
    """One question under several models of the same rows.

    Attributes
    ----------
    question : what was asked, in words.
    table : one row per model, least squares first and the rule alone last: ``estimate``,
        ``std_error``, ``conf_low``, ``conf_high`` (of the rule alone: the limits it sets),
        ``bic``, ``rejected`` and ``untested`` (assumptions), ``changes`` (which assumption of the
        fit the model replaces), ``supported`` (whether the data speak for it), ``note``.
    agreed : what all models that the data support agree on.
    depends : what depends on which assumption.
    undetermined : what the data do not determine.
    fits : the fits, by name of the model.
    level : of the intervals.
    """

    question: str
    table: pd.DataFrame
    agreed: str
    depends: str
    undetermined: str
    fits: dict[str, FitResult]
    level: float

    @property
    def sentences(self) -> tuple[str, str, str]:
        """The three sentences: agreed, depends, undetermined."""
        return self.agreed, self.depends, self.undetermined

    def quotation(self) -> str:
        """Return all sentences in one, for pages that quote the verdict."""
        return f"VERDICT. {' '.join(self.sentences)}"

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        blocks = (self.to_block(),)
        notes = (*self.sentences, *self.left_out)
        return Page(f"Verdict on {self.question}", (), (), blocks, notes)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Say which models have no answer, and why."""
        return tuple(
            f"No answer of {name}: {row['note']}"
            for name, row in self.table.iterrows()
            if row["note"]
        )

    def to_block(self) -> Block:
        """Return the table as a block of a page."""
        tail = 50.0 * (1.0 - self.level)
        header = ("", "estimate", "std err", f"[{tail:g}%", f"{100 - tail:g}%]", "BIC", "rejected")
        lines = []
        for name, row in self.table.iterrows():
            marked = f"{name}{' *' if row['supported'] else ''}"
            numbers = [_written(row[c]) for c in ("estimate", "std_error", "conf_low", "conf_high")]
            bic = "" if np.isnan(row["bic"]) else f"{row['bic']:.1f}"
            said = ", ".join(one for one in (row["rejected"], row["state"]) if one)
            known = not np.isnan(row["bic"]) and not said
            lines.append((marked, *numbers, bic, "nothing" if known else said))
        return Block("model (* the data speak for it)", header, tuple(lines))

    def __str__(self) -> str:
        return self.to_page().to_text()

    def __repr__(self) -> str:
        return f"<Verdict on {self.question}: {len(self.table)} rows in .table>"

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _written(value: float) -> str:
    return ("-inf" if value < 0 else "inf") if np.isinf(value) else format_number(value)


def make_verdict(
    fit: FitResult,
    question: Any,
    *,
    also: Mapping[str, FitResult] | None,
    support: Any,
    level: float,
    seed: int | None,
    progress: bool | None,
) -> Verdict:
    """Make a verdict, and let the fit remember it. Arguments are those of `FitResult.verdict`."""
    check_level(level)
    number = check_seed(seed, optional=True)
    if not fit.has_rows:
        raise UnsupportedError(
            "A verdict fits other models to the rows of the fit, and those are not held in memory. "
            "Fit a table, not files piece by piece or a fit that was loaded."
        )
    asked = read_question(fit, question)
    given = _others(fit, also)
    makers = {**other_models(fit, number), **dict.fromkeys(given)}
    rows = [_least_squares(asked, fit, level), _answered(THE_FIT, fit, fit, asked, level)]
    fits = {THE_FIT: fit}
    with progress_bar(progress, what="Models", total=len(makers)) as bar:
        for name, make in makers.items():
            try:
                # The table says which fits did not converge.
                with without_warnings(ConvergenceWarning):
                    found = given[name] if make is None else make()
                if not _is_twin(found, fits):
                    rows.append(_answered(name, fit, found, asked, level))
                    fits[name] = found
            except SelfSelectError as error:
                rows.append(Row(name, note=str(error)))
            bar.update(1)
    rows.append(_rule(asked, fit, support, level))
    rows = _with_support(rows)
    made = Verdict(
        asked.words,
        _table(rows),
        agreed(asked.words, rows, level),
        depends(rows),
        undetermined(asked.words, rows, fit, level),
        fits,
        level,
    )
    fit.memory[VERDICT] = made
    return made


def _others(fit: FitResult, also: Mapping[str, FitResult] | None) -> dict[str, FitResult]:
    """Return other fits that the user gives, and refuse those of other rows."""
    for name, one in (also or {}).items():
        if name in (THE_FIT, LEAST_SQUARES, RULE):
            raise OptionError(f"also={{{name!r}: ...}} has the name of another row. Rename it.")
        if not (isinstance(one, FitResult) and one.has_rows and _same_rows(one, fit)):
            raise OptionError(
                f"also={{{name!r}: ...}} must be a fit of the same rows, weights and outcome, "
                f"{fit.nobs} of {fit.problem.equations.outcome}, that still holds them: models of "
                "other rows cannot be compared."
            )
    return dict(also or {})


def _same_rows(one: FitResult, other: FitResult) -> bool:
    """Say whether two fits are of the same outcomes, in the same order and weighted alike."""
    if one.problem.equations.outcome != other.problem.equations.outcome:
        return False
    if len(one.rows) != len(other.rows) or one.facts.weights_kind != other.facts.weights_kind:
        return False
    outcomes = one.rows.outcome, other.rows.outcome
    if outcomes[0] is None or outcomes[1] is None:
        return False
    first, second = (
        np.ones(len(fit.rows)) if fit.rows.weights is None else fit.rows.weights
        for fit in (one, other)
    )
    same = np.array_equal(outcomes[0], outcomes[1], equal_nan=True)
    return same and bool(np.allclose(first, second, rtol=1e-12))


def _is_twin(found: FitResult, fits: Mapping[str, FitResult]) -> bool:
    """Say whether a model is one that was fitted already, under another name."""
    return any(
        one.n_parameters == found.n_parameters and abs(one.llf - found.llf) < 1e-6
        for one in fits.values()
    )


def _least_squares(asked: Question, fit: FitResult, level: float) -> Row:
    try:
        found = asked.of_least_squares(fit, level)
    except SelfSelectError as error:
        return Row(LEAST_SQUARES, kind="naive", note=str(error))
    return Row(LEAST_SQUARES, found, kind="naive", changes=("the correction for selection",))


def _rule(asked: Question, fit: FitResult, support: Any, level: float) -> Row:
    try:
        return Row(RULE, asked.of_rule(fit, support, level), kind="rule")
    except SelfSelectError as error:
        return Row(RULE, kind="rule", note=str(error))


def _answered(name: str, fit: FitResult, found: FitResult, asked: Question, level: float) -> Row:
    """Ask one fit, and say what its tests and its solver think of it."""
    state = _state(found)
    answer, note = Answer(float("nan")), ""
    try:
        answer = asked.of_fit(found, level)
    except SelfSelectError as error:
        note = str(error)
    if state not in ("", BOUNDARY, SEVERAL):
        note, answer = found.status, Answer(float("nan"))
    if state == BOUNDARY:
        answer = Answer(answer.estimate)
    tests = assumptions_tested(found)
    return Row(
        name,
        answer,
        bic=found.bic,
        rejected=tuple(what for what, test in tests.items() if test.rejects()),
        untested=tuple(what for what, test in tests.items() if not test.possible),
        state=state,
        changes=() if found is fit else differences(fit, found),
        dependent=not (found.problem.noise.independent or found.problem.noise.selected),
        note=note,
    )


def _state(found: FitResult) -> str:
    """Say what keeps a fit from being an ordinary optimum; empty where nothing does."""
    if found.solution.status is Status.AT_BOUNDARY or found.boundary:
        return BOUNDARY
    if not found.converged:
        return "not converged"
    starts = found.solution.starts
    total = found.facts.weight_total
    reached = starts_at_best(starts, total / max(found.facts.n_rows, 1)) if starts else 0
    return SEVERAL if starts and is_fragile(reached, len(starts)) else ""


def _with_support(rows: list[Row]) -> list[Row]:
    """Mark the models that the data speak for.

    Where the best one passes its tests, those are it and whatever comes near it by BIC. Where even
    the best is rejected, or ends at a boundary, the data speak for none.
    """
    models = [one for one in rows if one.kind == "model" and one.answered]
    ranked = [one for one in models if np.isfinite(one.bic)]
    best = min(ranked, key=lambda one: one.bic, default=None)
    if best is None or best.rejected or best.state:
        return rows
    # Two steps maximise no likelihood, so they have no BIC to be worse by.
    near = [
        one
        for one in models
        if not one.bic > best.bic + CLOSE and not one.rejected and not one.state
    ]
    return [one.standing(supported=one in near) for one in rows]


def _table(rows: list[Row]) -> pd.DataFrame:
    made = [
        {
            "model": one.name,
            **vars(one.answer),
            "bic": one.bic,
            "rejected": ", ".join(one.rejected),
            "untested": ", ".join(one.untested),
            "state": one.state,
            "changes": ", ".join(one.changes),
            "supported": one.supported,
            "note": one.note,
        }
        for one in rows
    ]
    return pd.DataFrame(made).set_index("model")

"""A verdict: the table of one question under several models, and what it comes to in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from selfselect.bounding.targets import read_support
from selfselect.errors import (
    ArchiveError,
    ConvergenceWarning,
    OptionError,
    SelfSelectError,
    without_warnings,
)
from selfselect.inference.simulation import SUBJECTS
from selfselect.inference.statistics import check_level
from selfselect.noise_choice import CLOSE, same_fit
from selfselect.plain import archived, from_plain, to_plain
from selfselect.progress import progress_bar
from selfselect.report.page import Block, Page, format_number
from selfselect.results.fit_result import FitResult
from selfselect.results.refit import numbered_as
from selfselect.results.rejections import assumptions_tested, specification_test, tests_of_noise
from selfselect.results.tables import counted
from selfselect.seeds import check_seed
from selfselect.solvers.base import Status, is_fragile, starts_at_best
from selfselect.verdict.questions import (
    Answer,
    Question,
    differences,
    other_models,
    read_question,
    refuse_without_rows,
)
from selfselect.verdict.words import Row, agreed, depends, undetermined
from selfselect.visible import on_one_line

LEAST_SQUARES, THE_FIT, RULE = "least squares", "the fit", "the rule alone"

BOUNDARY, SEVERAL = "at a boundary", "one of several optima"

QUICK = 20_000
"""Rows up to which tests without a chi-square law are made by bootstrap, of 199 samples each."""

SAMPLES = 199
"""Those samples: as many as the tests take by themselves."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """One question under several models of the same rows.

    Attributes
    ----------
    question : what was asked, in words.
    rows : what every model says, least squares first and the rule alone last.
    table : the same, a row per model: ``estimate``, ``std_error``, ``conf_low``, ``conf_high`` (of
        the rule alone: the limits it sets), ``bic`` (by people where the fit has a panel, else by
        rows, for every model alike), ``rejected`` and ``untested`` (assumptions),
        ``changes`` (which assumption of the fit the model replaces), ``supported`` (whether the
        data speak for it), ``note``.
    agreed : what all models that the data support agree on.
    depends : what depends on which assumption.
    undetermined : what the data do not determine.
    fits : the fits, by name of the model; none in a verdict that was loaded with its fit.
    level : of the intervals.
    """

    question: str
    rows: tuple[Row, ...]
    agreed: str
    depends: str
    undetermined: str
    fits: dict[str, FitResult]
    level: float

    @cached_property
    def table(self) -> pd.DataFrame:
        """What every model says, a row each."""
        return _table(self.rows)

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
            if not said and not np.isnan(row["bic"]):
                said = "nothing; not all tested" if row["untested"] else "nothing"
            lines.append((marked, *numbers, bic, said))
        return Block("model (* supported by the data)", header, tuple(lines))

    def __str__(self) -> str:
        return self.to_page().to_text()

    def __repr__(self) -> str:
        return f"<Verdict on {on_one_line(self.question)}: {counted(len(self.table))} in .table>"

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


@archived("verdict")
@dataclass(frozen=True)
class SavedVerdict:
    """What a file holds of a verdict; sentences follow from it."""

    question: str
    rows: tuple[Row, ...]
    level: float


def _written(value: float) -> str:
    return ("-inf" if value < 0 else "inf") if np.isinf(value) else format_number(value)


def verdict(
    fit: FitResult,
    question: Any = None,
    *,
    also: Mapping[str, FitResult] | None = None,
    support: Any = None,
    level: float = 0.95,
    seed: int | None = None,
    progress: bool | None = None,
) -> Verdict:
    """Ask several models one question, and report how far the answer depends on the model.

    The models are least squares, this fit, the same under the noises of
    `selfselect.choose_noise`, a switching regression where a covariate is excluded from an
    outcome, and the rule alone. Three sentences say what the models that the data support agree
    on, what depends on which assumption, and what the data do not determine. Where rows are
    clustered or weighted, the models with the smallest BIC are tested by bootstrap, up to
    20,000 rows; what stays untested is named, and no model is said to describe the data then.

    The fit remembers the verdict: `explain` and `report` quote it, and `save` saves it. A
    loaded fit has no rows to fit other models to; without a question it returns the verdict
    with which it was saved.

    Parameters
    ----------
    question : a parameter or an expression of several, such as
        ``"hunting:height - fishing:height"``; or (to, versus), the mean effect of one
        alternative instead of another, with ``"ATT"`` or ``"ATU"`` as a third for those who
        choose `to` and for those who do not; as text ``"hunting - fishing, ATT"``. None, of
        two alternatives, for the mean effect of the second instead of the first.
    also : other fits of the same rows, by name, such as a switching regression with an
        excluded covariate that this fit does not have.
    support : (lowest, highest) outcome that is possible, for the bounds of the rule alone.
    level : of all intervals.
    seed : of searches with random starts.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=2).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> made = result.verdict("hunting:height - fishing:height")
    >>> made.table.index[0], made.table.index[-1]
    ('least squares', 'the rule alone')
    """
    check_level(level)
    number = check_seed(seed, optional=True)
    made = fit.answers.verdict
    if made is not None and question is None and not fit.has_rows:
        return made
    refuse_without_rows(fit.has_rows)
    asked = read_question(fit, question)
    read_support(support, fit.problem.equations.alternatives)
    given = _others(fit, also)
    makers = {**other_models(fit, number), **dict.fromkeys(given)}
    rows = [_least_squares(asked, fit, level), _answered(THE_FIT, fit, fit, asked, level)]
    fits = {THE_FIT: fit}
    with progress_bar(progress, what="Models", total=len(makers)) as bar:
        for name, make in makers.items():
            bar.set_postfix_str(name)
            try:
                # The table says which fits did not converge.
                with without_warnings(ConvergenceWarning):
                    found = numbered_as(given[name] if make is None else make(), fit)
                if same_fit(found, fits) is None:
                    rows.append(_answered(name, fit, found, asked, level))
                    fits[name] = found
            except SelfSelectError as error:
                rows.append(Row(name, note=str(error)))
            bar.update(1)
    rows.append(_rule(asked, fit, support, level))
    rows = _tested(rows, fits, number, progress)
    return _remembered(fit, SavedVerdict(asked.words, tuple(_with_support(rows)), level), fits)


def _remembered(fit: FitResult, saved: SavedVerdict, fits: dict[str, FitResult]) -> Verdict:
    """Word what models say, and let the fit remember it."""
    question, rows, level = saved.question, saved.rows, saved.level
    made = Verdict(
        question,
        rows,
        agreed(question, rows, level),
        depends(rows),
        undetermined(question, rows, fit, level),
        fits,
        level,
    )
    fit.answers.verdict = made
    return made


def saved_verdict(fit: FitResult) -> Any:
    """Return the verdict that a fit remembers as plain data; None without one."""
    made = fit.answers.verdict
    return None if made is None else to_plain(SavedVerdict(made.question, made.rows, made.level))


def restore_verdict(fit: FitResult, content: Any) -> None:
    """Let a fit that was loaded remember its verdict; refuse one that is none."""
    saved = from_plain(content, SavedVerdict)
    kinds = [one.kind for one in saved.rows]
    names = {one.name for one in saved.rows}
    in_order = len(kinds) > 2 and set(kinds[1:-1]) == {"model"}
    if not in_order or (kinds[0], kinds[-1]) != ("naive", "rule") or len(names) < len(kinds):
        raise ArchiveError("its verdict is not least squares, models and the rule alone")
    if not 0.0 < saved.level < 1.0:
        raise ArchiveError(f"its verdict is of the level {saved.level!r}")
    if any(one.answer.std_error < 0.0 for one in saved.rows):
        raise ArchiveError("its verdict has a negative standard error")
    _remembered(fit, saved, {})


def _others(fit: FitResult, also: Mapping[str, FitResult] | None) -> dict[str, FitResult]:
    """Return other fits that the user gives, and refuse those of other rows."""
    if not isinstance(also, Mapping | None):
        raise OptionError(
            "also= takes fits by name, such as also={'switching': fit}, not "
            f"{type(also).__name__}."
        )
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
    if state in ("", BOUNDARY, SEVERAL):
        try:
            answer = asked.of_fit(found, level)
        except SelfSelectError as error:
            note = str(error)
    else:
        note = found.status
    if state == BOUNDARY:
        answer = Answer(answer.estimate)
    rejected, untested = _tests(found)
    return Row(
        name,
        answer,
        # Models given in also= may count rows where the fit counts people, or the reverse.
        bic=fit.facts.bic(found.llf, found.n_parameters),
        rejected=rejected,
        untested=untested,
        state=state,
        changes=() if found is fit else differences(fit, found),
        dependent=_rests_on_shape(found),
        note=note,
    )


def _tests(found: FitResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which assumptions the tests of a fit reject, and which were not tested."""
    tests = assumptions_tested(found)
    return (
        tuple(what for what, test in tests.items() if test.rejects()),
        tuple(what for what, test in tests.items() if not test.possible),
    )


def _tested(
    rows: list[Row], fits: Mapping[str, FitResult], seed: int, progress: bool | None
) -> list[Row]:
    """Test by bootstrap what has no chi-square law, for the models that the data may speak for.

    The best model comes first: where it is rejected the data speak for none, and no other is
    tested.
    """
    made = list(rows)
    for place in sorted(range(len(made)), key=lambda i: (np.isnan(made[i].bic), made[i].bic)):
        one = made[place]
        if one not in _near(made):
            continue
        if one.untested and _bootstrap(fits[one.name], seed, progress):
            rejected, untested = _tests(fits[one.name])
            made[place] = replace(one, rejected=rejected, untested=untested)
    return made


def _bootstrap(found: FitResult, seed: int, progress: bool | None) -> bool:
    """Make the tests of a fit that have no p-value yet, where that is quick; say if any was."""
    if found.nobs > QUICK or not found.problem.likelihood.exact:
        return False
    options: Any = {"seed": seed, "progress": progress}
    for subject, test in zip(SUBJECTS, tests_of_noise(found), strict=True):
        if test.undecided:
            try:
                specification_test(found, subject, replications=SAMPLES, **options)
            except SelfSelectError:
                return False
    return True


def _rests_on_shape(found: FitResult) -> bool:
    """Say whether noises depend on each other in a way that no second row of a person shows."""
    problem = found.problem
    return not (problem.noise.independent or problem.noise.selected or problem.grouped)


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
    near = _near(rows)
    return [one.standing(supported=one in near) for one in rows]


def _near(rows: Sequence[Row]) -> list[Row]:
    """Return the best model and those near it, if the best is sound; without those that are not."""
    models = [one for one in rows if one.kind == "model" and one.answered]
    ranked = [one for one in models if np.isfinite(one.bic)]
    best = min(ranked, key=lambda one: one.bic, default=None)
    if best is None or best.rejected or best.state:
        return []
    # Two steps maximise no likelihood, so they have no BIC to be worse by.
    return [
        one
        for one in models
        if not one.bic > best.bic + CLOSE and not one.rejected and not one.state
    ]


def _table(rows: Sequence[Row]) -> pd.DataFrame:
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

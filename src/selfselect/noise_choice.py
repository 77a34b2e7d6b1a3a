"""Which noise? The same model fitted under several noises, compared on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from selfselect import noises
from selfselect._fit import fit
from selfselect.data.formulas import parse_formulas
from selfselect.effects.base import refuse_undetermined
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.errors import ConvergenceWarning, OptionError, SelfSelectError, without_warnings
from selfselect.posing import pose
from selfselect.progress import progress_bar
from selfselect.report.page import Block, Page, format_count, format_number
from selfselect.results.expressions import read_expressions
from selfselect.results.fit_result import FitResult
from selfselect.results.refit import arguments_for, numbered_as
from selfselect.results.rejections import assumptions_tested, rule_in_doubt, without_the_rule
from selfselect.results.tables import Tables

CLOSE = 10.0
"""Difference of BIC up to which a noise is taken for a rival of the best one."""

SAME = 1e-6
"""Difference of the log-likelihood below which two fits are the same; optima are found closer."""

ROWS_OF_COMPARISON = ("loglik", "parameters", "aic", "bic")

COLUMNS = ("noise", *ROWS_OF_COMPARISON, "rejected", "untested", "converged", "same_as", "note")
"""What the table says of a noise beside the answers."""


@dataclass(frozen=True, eq=False, repr=False)
class NoiseChoice(Tables):
    """The same model under several noises.

    Attributes
    ----------
    table : one row per noise, in the order of the BIC: ``loglik``, ``parameters``, ``aic``,
        ``bic``, ``rejected`` (assumptions its tests reject), ``untested`` (those not tested),
        ``converged``, ``same_as`` (the noise tried before it whose fit it came out as),
        ``note`` (why there is no fit), and for each answer its estimate and, as
        ``std_error of ...``, its standard error.
    fits : the fits, by name of the noise.
    best : name of the converged noise with the smallest BIC.
    answers : what was asked of every fit.
    """

    table: pd.DataFrame
    fits: dict[str, FitResult]
    best: str
    answers: tuple[str, ...]

    @property
    def result(self) -> FitResult:
        """The fit under the best noise."""
        return self.fits[self.best]

    @property
    def rivals(self) -> list[str]:
        """The noises whose BIC is within ten of the best one, each fit under its first name."""
        sound = _distinct(self.table)
        return list(sound.index[sound["bic"] <= sound["bic"].min() + CLOSE])

    @property
    def rule_in_doubt(self) -> bool:
        """Whether no noise explains how the corrected slopes differ from least squares.

        It is read off the best fit, or the next one for which that was measured, and is False
        where no test rejects the best one.
        """
        if not self.table.loc[self.best, "rejected"]:
            return False
        ordered = [self.fits[name] for name in self.table.index if name in self.fits]
        measured = (rule_in_doubt(one) for one in (self.result, *ordered))
        return next((one for one in measured if one is not None), False)

    def sentences(self) -> tuple[str, ...]:
        """Say which noise fits best, what stays rejected, and how much the answers depend on it."""
        said = [f"The smallest BIC has {self.best!r}."]
        others = [name for name in self.rivals if name != self.best]
        if others:
            said.append(f"Within {CLOSE:g} of it: {', '.join(map(repr, others))}.")
        left = str(self.table.loc[self.best, "rejected"])
        if left:
            said.append(self._still_rejected(left))
            if self.rule_in_doubt:
                said.append(f"The rule itself may be wrong: {without_the_rule(self.result)}")
        untested = str(self.table.loc[self.best, "untested"])
        if untested:
            said.append(f"Not tested there: {untested}.")
        return (*said, *(self._dependence(answer) for answer in self.answers))

    def _still_rejected(self, left: str) -> str:
        sound = self.table[self.table["converged"]]
        passing = list(sound.index[sound["rejected"] == ""])
        off = "may be off by more than their standard errors say."
        if passing:
            return (
                f"Its tests still reject {left}, so its answers {off} Nothing is rejected under "
                f"{', '.join(map(repr, passing))}."
            )
        return (
            f"Its tests still reject {left}: none of these noises describes the data, and the "
            f"answers {off}"
        )

    def _dependence(self, answer: str) -> str:
        sound = self.table[self.table["converged"] & self.table[answer].notna()]
        if self.best not in sound.index:
            return f"{answer} has no estimate under the best noise."
        numbers = sound.loc[self.best, [answer, _error_of(answer)]].to_numpy(dtype=float)
        at_best, error = float(numbers[0]), float(numbers[1])
        near = sound.loc[[name for name in self.rivals if name in sound.index], answer]
        known = f" (standard error {format_number(error)})" if np.isfinite(error) else ""
        said = f"{answer}: {format_number(at_best)}{known} under the best noise"
        if len(near) > 1:
            said += f", {_range(near)} under those within {CLOSE:g}"
        said += f", {_range(sound[answer])} under all."
        moved = float(np.abs(sound[answer].to_numpy(dtype=float) - at_best).max())
        if error > 0 and moved > 2.0 * error:
            said += f" The noise moves it by up to {moved / error:.1f} standard errors."
        return said

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        shown = [*ROWS_OF_COMPARISON, *self.answers]
        lines = []
        for name, row in self.table.iterrows():
            numbers = (
                (format_count if column == "parameters" else format_number)(row[column])
                for column in shown
            )
            doubt = row["rejected"] or "nothing"
            state = row["note"] or (doubt if row["converged"] else "not converged")
            if row["same_as"]:
                state = f"the fit of {row['same_as']!r}"
            lines.append((str(name), *numbers, state))
        block = Block("noise", ("", *shown, "rejected"), tuple(lines))
        return Page("Choice of the noise", (), (), (block,), self.sentences())

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def choose_noise(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    answers: str | Sequence[str] | Mapping[str, Callable[[FitResult], Any]] = (),
    effect: tuple[Any, Any] | None = None,
    candidates: Mapping[str, Any] | None = None,
    chosen: str | None = None,
    alternatives: Any = None,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    case: str | None = None,
    shared: Any = None,
    offset: Any = None,
    rule: Any = "max",
    weights: Any = None,
    weights_kind: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
    covariance: Any = "observed",
    cluster: Any = None,
    panel: str | None = None,
    engine: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> NoiseChoice:
    """Fit the same model with several noises, and report how far the answers depend on them.

    Alternatives without names are numbered as in the best fit: those of every other fit have the
    numbers of the ones that they come closest to.

    Parameters
    ----------
    formula, data : as in `selfselect.fit`.
    answers : what every fit is asked for: parameters, or expressions of them, such as
        ``"fishing:height - hunting:height"``.
    effect : (to, versus): the average treatment effect between two alternatives is an answer too.
    candidates : noises by name; None for those that suit the data: normal, other shapes, a
        mixture, scales that move with the covariates, correlated, and types where there is a
        panel.

    The other parameters are those of `selfselect.fit`.

    Examples
    --------
    >>> import selfselect as ss
    >>> sample = ss.simulators.village(1_000, seed=1)
    >>> found = ss.choose_noise(
    ...     sample.formula, sample.data, chosen=sample.chosen, answers="fishing:height",
    ...     candidates={"normal": "independent", "correlated": "correlated"},
    ... )
    >>> found.best
    'normal'
    """
    given = arguments_for(locals(), fit) | {"progress": False}
    asked = _answers(answers, effect)
    # As in a fit: alternatives that nothing tells apart have one scale.
    alike = chosen is None or isinstance(shared, str)
    tried = (
        default_candidates(
            formula,
            panel,
            scale="common" if alike else "each",
            index="unknown" if chosen is None else "known",
        )
        if candidates is None
        else _named(candidates)
    )
    fits: dict[str, FitResult] = {}
    rows = []
    with progress_bar(progress, what="Noises", total=len(tried)) as bar:
        for name, noise in tried.items():
            bar.set_postfix_str(name)
            try:
                # The table says which fits did not converge.
                with without_warnings(ConvergenceWarning):
                    found = fit(**given, noise=noise)
            except SelfSelectError as error:
                if name == next(iter(tried)) and candidates is None:
                    raise  # What the simplest noise refuses is wrong with the data or the call.
                rows.append({"noise": name, "converged": False, "note": str(error)})
            else:
                if not fits:
                    _check_asked(found, answers, effect, given, tried)
                same = same_fit(found, fits) or ""
                rows.append({"noise": name, **_row(found, asked), "same_as": same})
                fits[name] = found
            bar.update(1)
    table = pd.DataFrame(rows).set_index("noise")
    for text in ("rejected", "untested", "same_as", "note"):
        table[text] = table[text].fillna("") if text in table else ""
    sound = _distinct(table)
    if not len(sound):
        raise OptionError(
            "No fit converged under any of the noises: "
            + "; ".join(
                f"{name}: {fits[name].status if name in fits else table.loc[name, 'note']}"
                for name in table.index
            )
        )
    best = str(sound["bic"].idxmin())
    for name, one in fits.items():
        matched = numbered_as(one, fits[best])
        if matched is not one:
            fits[name] = matched
            for column, value in _row(matched, asked).items():
                table.loc[name, column] = value
    # The same fit under two names has the same BIC but for rounding.
    bic = table["bic"].where(table["same_as"] == "", table["same_as"].map(table["bic"]))
    order = bic.fillna(np.inf).sort_values(kind="stable").index
    return NoiseChoice(table.loc[order], fits, best, tuple(asked))


def same_fit(found: FitResult, fits: Mapping[str, FitResult]) -> str | None:
    """Return the name under which a model was fitted already; None where it was not.

    Noise that the data do not show is that of a simpler candidate.
    """
    for name, one in fits.items():
        alike = one.n_parameters == found.n_parameters and one.converged == found.converged
        if alike and abs(one.llf - found.llf) < SAME:
            return name
    return None


def _distinct(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of fits that converged, each fit once."""
    return table[table["converged"] & (table["same_as"] == "")]


def default_candidates(
    formula: str | Mapping[Any, str], panel: str | None, *, scale: str = "each", index: str
) -> dict[str, Any]:
    """Return the noises to try, the cheap ones first; `scale` is that of those that do not move.

    With an unknown index two components are too few for skewed noise: see
    docs/studies/coverage-shapes.md.
    """
    parsed = parse_formulas(formula)
    if isinstance(parsed, dict):
        moving: Any = {label: f"~ {one.terms}" for label, one in parsed.items()}
    else:
        moving = f"~ {parsed.terms}"
    mixture = {"mixture of two": noises.Mixture(2, scale=scale)}
    if index == "unknown":
        mixture = {"mixture": noises.Mixture("bic", scale=scale)}
    tried = {
        "normal": noises.Independent(scale),
        "logistic": noises.Independent(scale, shape="logistic"),
        "moving scale": noises.Independent(scale=moving),
        "moving scale, logistic": noises.Independent(scale=moving, shape="logistic"),
        **mixture,
        "correlated": noises.Correlated(scale),
    }
    if panel is not None:
        tried["shared shock"] = noises.SharedShock(scale)
        tried["two types"] = noises.Types(2, scale=scale)
        tried["three types"] = noises.Types(3, scale=scale)
    return tried


def _named(candidates: Any) -> dict[str, Any]:
    """Return the noises that a user named."""
    if not isinstance(candidates, Mapping):
        raise OptionError(
            f"candidates={candidates!r} must be noises by name, such as "
            "{'normal': 'independent', 'correlated': 'correlated'}."
        )
    if not candidates:
        raise OptionError("There is no noise among the candidates. Name at least one.")
    for noise in candidates.values():
        noises.as_noise(noise)
    named = {str(name): noise for name, noise in candidates.items()}
    if len(named) < len(candidates):
        raise OptionError(
            f"Two of the candidates {list(candidates)!r} have the same name. Give each its own."
        )
    return named


def _check_asked(
    found: FitResult,
    answers: Any,
    effect: tuple[Any, Any] | None,
    given: Mapping[str, Any],
    tried: Mapping[str, Any],
) -> None:
    """Refuse after the first fit what could be asked of no fit."""
    if effect is not None:
        two_alternatives(found, *effect)
        if not found.has_rows:
            # Averages are over rows, so this says why there is no answer under any noise.
            _effect(*effect)(found)
    if isinstance(answers, Mapping):
        return
    for text in _texts(answers):
        try:
            read_expressions(text, found.names, found.values)
        except OptionError:
            # Another noise may have the parameter. Rows in files are not read for that.
            if not found.has_rows or any(_has_names(given, one, text) for one in tried.values()):
                continue
            raise


def _has_names(given: Mapping[str, Any], noise: Any, text: str) -> bool:
    """Say whether a text is an expression of the parameters of a model."""
    from selfselect.verdict.questions import Unsolved

    try:
        model = Unsolved(pose(**arguments_for(given, pose), noise=noise).problem)
        read_expressions(text, model.names, model.values)
    except SelfSelectError:
        return False
    return True


Answer = Callable[[FitResult], Any]


def _answers(answers: Any, effect: tuple[Any, Any] | None) -> dict[str, Answer]:
    """Return what is asked of a fit, by its words: an estimate and its standard error."""
    if isinstance(answers, Mapping):
        for name, one in answers.items():
            if not callable(one):
                raise OptionError(
                    f"answers={{{name!r}: {one!r}}} must be a function of a fit. Give expressions "
                    "of parameters as a list of texts."
                )
        asked: dict[str, Answer] = {str(name): one for name, one in answers.items()}
    else:
        asked = {text: _combined(text) for text in _texts(answers)}
    if effect is not None:
        if not isinstance(effect, tuple | list) or len(effect) != 2:
            raise OptionError(
                f"effect={effect!r} must be two alternatives, (to, versus): the effect of the "
                "first instead of the second."
            )
        to, versus = effect
        asked[f"average effect of {to} over {versus}"] = _effect(to, versus)
    _refuse_taken(asked)
    return asked


def _refuse_taken(asked: Mapping[str, Answer]) -> None:
    """Refuse names of answers that are columns of the table already."""
    taken = {*COLUMNS, *(_error_of(name) for name in asked)}
    for name in asked:
        if name in taken:
            raise OptionError(
                f"An answer cannot be called {name!r}, which is another column of the table. Give "
                "it another name."
            )


def _error_of(answer: str) -> str:
    """Return the column of an answer's standard error."""
    return f"std_error of {answer}"


def _texts(answers: Any) -> list[str]:
    texts = [answers] if isinstance(answers, str) else answers
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise OptionError(
            f"answers={answers!r} must be expressions of parameters, such as "
            "'fishing:height - hunting:height', a list of them, or functions of a fit by name."
        )
    return list(texts)


def _combined(text: str) -> Answer:
    def ask(found: FitResult) -> tuple[float, float]:
        row = found.nlcom(text).table.iloc[0]
        return float(row["estimate"]), float(row["std_error"])

    return ask


def _effect(to: Any, versus: Any) -> Answer:
    def ask(found: FitResult) -> tuple[float, float]:
        # Over fewer people it would be another question than the other noises answer.
        refuse_undetermined(found, "The average effect for everyone")
        table = found.treatment_effects(to, versus).table
        row = table[table["effect"] == "ATE"].iloc[0]
        return float(row["estimate"]), float(row["std_error"])

    return ask


def _row(found: FitResult, asked: Mapping[str, Answer]) -> dict[str, Any]:
    tests = assumptions_tested(found)
    row: dict[str, Any] = {
        "loglik": found.llf,
        "parameters": len(found.values),
        "aic": found.aic,
        "bic": found.bic,
        "rejected": ", ".join(name for name, test in tests.items() if test.rejects()),
        "untested": ", ".join(name for name, test in tests.items() if not test.possible),
        "converged": found.converged,
        "note": "",
    }
    for text, ask in asked.items():
        try:
            value = ask(found)
        except SelfSelectError as error:
            value = np.nan
            row["note"] = f"{text}: {error}"
        row[text], row[_error_of(text)] = _with_error(text, value)
    return row


def _with_error(answer: str, value: Any) -> tuple[float, float]:
    """Return an estimate and its standard error, nan where there is none."""
    try:
        estimate, error = value if isinstance(value, tuple) else (value, np.nan)
        return float(estimate), float(error)
    except (TypeError, ValueError) as trouble:
        raise OptionError(
            f"The answer {answer!r} is {type(value).__name__}, and must be a number, or a tuple of "
            "an estimate and its standard error."
        ) from trouble


def _range(values: pd.Series[Any]) -> str:
    return f"{format_number(values.min())} to {format_number(values.max())}"

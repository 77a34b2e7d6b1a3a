"""What a fit says, in words: the answer with its uncertainty, what it assumes, what to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.equations import INTERCEPT
from selfselect.effects.base import MODEL_REJECTED, EffectTable
from selfselect.effects.treatment_effects import average_effect
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.inference.statistics import check_level, p_value_in_words
from selfselect.noises.correlated import CORRELATION
from selfselect.problem.parameters import SCALE
from selfselect.report.document import Paragraph, Section, listed, pairs_compared, selected
from selfselect.report.page import Page
from selfselect.results.averaged_rows import asked_logarithm
from selfselect.results.overfitting import hardly_distinct, too_many
from selfselect.results.rejections import assumptions_tested, rejections, what_to_try
from selfselect.results.tables import DIFFERENCE

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.options import Scale
    from selfselect.results.fit_result import FitResult


MOST_ALTERNATIVES = 12
"""Alternatives up to which effects on those who choose each are said: they grow with the square."""

HARDLY = 0.5
"""Standard errors of a coefficient below which least squares is said not to differ."""

LONG = 240
"""Letters of a formula that a sentence can bear."""

NO_ROWS = (
    "Effects are averages over rows, and this fit was loaded from a file, which keeps none. Give "
    "rows to say them: result.explain(rows), in the shell `selfselect show FIT ROWS --explain`."
)

ATE, ATT, ATU = "ATE", "ATT", "ATU"

SPELLED = {
    ATE: "for everyone (ATE, the average treatment effect)",
    ATT: "for those who choose {to} (ATT, the effect on the treated)",
    ATU: "for those who do not (ATU, the effect on the untreated)",
}
"""Groups, as they are called the first time."""

AGAIN = {ATE: "for everyone", ATT: "for those who choose {to}", ATU: "for those who do not"}


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a fit says, in sentences.

    Attributes
    ----------
    title : what was asked.
    alarms : what a reader must know first, with what to try; empty where there is nothing.
    answers : the answer, what it is compared with, what it assumes; a verdict where one was made.
    """

    title: str
    alarms: tuple[str, ...]
    answers: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said, alarms first."""
        return (*self.alarms, *self.answers)

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        return Page(self.title, self.alarms, (), (), self.answers)

    def __str__(self) -> str:
        return self.to_page().to_text()

    def __repr__(self) -> str:
        return f"<Explanation: {len(self.sentences)} sentences; print it to read>"

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def explain(fit: FitResult, data: Any = None, *, level: float = 0.95) -> Explanation:
    """Explain the fit in a few sentences: the answer, the assumptions, and what to try.

    The sentences give effects for every pair of alternatives, with intervals, in per cent if
    the outcome is a logarithm. Rejected assumptions come first. If a `verdict` was made, it is
    quoted.

    Parameters
    ----------
    data : a table to average effects over; None for the rows of the fit, which a fit loaded
        from a file does not have.
    level : of all intervals.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> "hunting instead of fishing" in result.explain().sentences[0]
    True
    """
    check_level(level)
    equations = fit.problem.equations
    answer, warnings = _answer(fit, data, level)
    in_doubt = bool(rejections(fit)) or not fit.converged
    beside = beside_least_squares(fit.compare().table, in_doubt=in_doubt)
    made = fit.answers.verdict
    quoted = () if made is None else (made.quotation(),)
    answers = (*answer, *beside, _assumptions(fit), *quoted)
    alarms = dict.fromkeys((*_alarms(fit), *warnings))
    title = f"What the fit says about {equations.outcome}: {listed(equations.alternatives)}"
    return Explanation(title, tuple(alarms), answers)


def verdict_chapter(fit: FitResult) -> Section | None:
    """Return the verdict that was made of a fit as a chapter of a report; None without one."""
    made = fit.answers.verdict
    if made is None:
        return None
    said = (Paragraph(one) for one in (*made.sentences, *made.left_out))
    return Section("How much of this is the data?", (*said, made.to_block()))


# the answer


def _answer(fit: FitResult, data: Any, level: float) -> tuple[list[str], tuple[str, ...]]:
    """Answer the question by effects, and say what their tables warn of."""
    if data is None and fit.engine is None:
        return [NO_ROWS], ()
    try:
        if fit.problem.equations.n_alternatives == 1:
            return _selected_or_not(fit, data, level)
        return _between_alternatives(fit, data, level)
    except (DataError, OptionError, UnsupportedError) as error:
        return [f"Effects are not available: {error}"], ()


def _between_alternatives(
    fit: FitResult, data: Any, level: float
) -> tuple[list[str], tuple[str, ...]]:
    """Compare every pair of alternatives, the later one with the earlier one."""
    labels = fit.problem.equations.alternatives
    # Means among those who choose each alternative are many, and for everyone there are few.
    alone = data is None and fit.has_rows and not fit.problem.noise.mixed
    few = len(labels) <= MOST_ALTERNATIVES or not alone
    per_cent = few and said_in_per_cent(fit)
    scale: Scale = "level" if per_cent else "model"

    def ask(to: Any, versus: Any) -> EffectTable:
        if few:
            return fit.treatment_effects(to, versus, data, level=level, scale=scale)
        return average_effect(fit, to, versus, level=level)

    unit = f"the mean of {asked_logarithm(fit, 'level').level}" if per_cent else ""  # type: ignore[union-attr]
    unit = unit or f"mean {fit.problem.equations.outcome}"
    # Labels such as yes and no, or 1 and 0, mean nothing without the column that holds them.
    column = fit.facts.chosen if fit.facts.case is None else None
    of = f" of {column}" if column and fit.problem.index == "known" else ""
    lacking = fit.has_rows and data is None and fit.rows.known.described is not None
    where = " over the cases with a row for both" if lacking else ""
    about = f"Effect{of} on {unit}{where}{rows_in_words(fit, data)}"
    said, warnings = effects_in_words(about, labels, fit.shares.to_list(), ask, per_cent=per_cent)
    return [said], tuple(one for one in warnings if one not in _of_tests(fit))


def effects_in_words(
    about: str,
    labels: Sequence[Any],
    shares: Sequence[float],
    ask: Callable[[Any, Any], EffectTable],
    *,
    per_cent: bool = False,
) -> tuple[str, list[str]]:
    """Say the effects of pairs of alternatives, and what their tables warn of.

    Parameters
    ----------
    about : how the sentence begins.
    labels, shares : the alternatives, and how often each is chosen.
    ask : what returns the effects of one alternative instead of another.
    per_cent : whether those in per cent are said.
    """
    said: list[str] = []
    warnings: list[str] = []
    refused: dict[str, UnsupportedError] = {}
    for to, versus in pairs_compared(labels, shares):
        try:
            found = ask(to, versus)
        except UnsupportedError as error:
            refused[f"{to} instead of {versus}"] = error
            continue
        warnings += found.warnings
        words = AGAIN if said else SPELLED
        said.append(f"{to} instead of {versus}: {_effects(found, words, to, per_cent)}")
    if refused and not said:
        raise next(iter(refused.values()))
    n_pairs = comb(len(labels), 2)
    n_left = n_pairs - len(said) - len(refused)
    said += [f"{pair}: not known (treatment_effects says why)" for pair in refused]
    if n_left:
        said.append(
            f"the other {n_left} of {n_pairs} pairs are left out here "
            "(treatment_effects has any pair)"
        )
    return f"{about}. {'; '.join(said)}.", warnings


def rows_in_words(fit: Any, data: Any) -> str:
    """Say in brackets how standard errors were computed, and over which rows."""
    notes = [f"standard errors: {fit.covariance.description}"] if _has_errors(fit) else []
    if data is not None and fit.facts.weights:
        notes.append(f"over rows with equal weight: the weights {fit.facts.weights} are not used")
    return f" ({', '.join(notes)})" if notes else ""


def _effects(found: EffectTable, words: dict[str, str], to: Any, per_cent: bool) -> str:
    table = found.table
    if per_cent:
        table = table[table["unit"] == "per cent"]
    said = []
    for row in table.to_dict("records"):
        group = words[str(row["effect"])].format(to=to)
        said.append(f"{in_words(row, found.level, '%' if per_cent else '')} {group}")
    return listed(said)


def _selected_or_not(fit: FitResult, data: Any, level: float) -> tuple[list[str], tuple[str, ...]]:
    """Compare the mean outcome of all with that of the selected, where there is one outcome."""
    found = fit.potential_outcomes(data, level=level)
    outcome = fit.problem.equations.outcome
    binary = " (the share of ones)" if fit.problem.noise.sign_only else ""
    sentence = f"The mean of {outcome}{binary} is {_means(found)}{rows_in_words(fit, data)}."
    warnings = found.warnings
    if said_in_per_cent(fit):
        undone = fit.potential_outcomes(data, level=level, scale="level")
        name = asked_logarithm(fit, "level").level  # type: ignore[union-attr]
        sentence = f"The mean of {name} is {_means(undone)}. {sentence}"
        warnings = (*undone.warnings, *warnings)
    tidy = fit.tidy(level)
    for row in tidy[tidy["term"] == CORRELATION].to_dict("records"):
        sentence += (
            " The correlation between the noise of the outcome and of the selection is "
            f"{in_words(row, level)}."
        )
    return [sentence], tuple(one for one in warnings if one not in _of_tests(fit))


def _means(found: EffectTable) -> str:
    every, own = found.table.to_dict("records")[:2]
    return (
        f"{in_words(every, found.level, sign=False)} for everyone and "
        f"{in_words(own, found.level, sign=False)} for those selected"
    )


def _has_errors(fit: FitResult) -> bool:
    """Say whether any estimate has a standard error."""
    return bool(np.isfinite(np.diag(fit.covariance.matrix)).any())


def said_in_per_cent(fit: FitResult) -> bool:
    """Say whether effects can be said in per cent: a logarithm was modelled, and can be undone."""
    try:
        return asked_logarithm(fit, "level") is not None
    except (OptionError, UnsupportedError):
        return False


def in_words(row: Any, level: float, unit: str = "", *, sign: bool = True) -> str:
    """Write an estimate with its interval, as precisely as that is known.

    Parameters
    ----------
    row : ``estimate``, ``conf_low`` and ``conf_high``.
    level : of the interval.
    unit : is put behind every number.
    sign : whether zero is a hypothesis: numbers then bear their sign, and an interval that holds
        zero is said to.
    """
    value, low, high = (float(row[name]) for name in ("estimate", "conf_low", "conf_high"))
    if np.isnan(value):
        return "not known"
    known = np.isfinite([low, high]).all() and high > low
    half = 0.5 * (high - low)
    digits = _digits(half if known else 0.1 * abs(value))
    # Of an interval that reaches much farther to one side, the near end would be rounded away.
    skewed = known and min(value - low, high - value) < 0.1 * half

    def written(number: float) -> str:
        own = max(digits, _digits(abs(number))) if skewed else digits
        return f"{_rounded(number, own, sign)}{unit}"

    said = written(value)
    if not known:
        return f"{said} (no interval)"
    ends = f"{written(low)} to {written(high)}"
    open_sign = ", so its sign is not determined" if sign and low <= 0.0 <= high else ""
    return f"{said} ({100 * level:g}% {ends}{open_sign})"


def _digits(error: float) -> int:
    """Return to how many decimals a number with such an error is written."""
    return 2 if error <= 0.0 else int(np.clip(1 - np.floor(np.log10(error)), -9, 9))


def _rounded(value: float, digits: int, sign: bool) -> str:
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''},.{max(digits, 0)}f}"


# what it is compared with, and what it rests on


def beside_least_squares(table: pd.DataFrame, *, in_doubt: bool) -> list[str]:
    """Name the coefficient that moves most against least squares, in standard errors.

    Parameters
    ----------
    table : that of a comparison with least squares.
    in_doubt : whether there are warnings about the model.
    """
    terms = table.index.get_level_values("term")
    slopes = ~terms.isin([SCALE, INTERCEPT])
    # A constant is the outcome where all covariates are zero: slopes say more, where there are any.
    table = table[slopes if slopes.any() else terms != SCALE]
    moved = (table[DIFFERENCE] / table["corrected_se"]).abs()
    if not np.isfinite(moved).any() or not moved.max() > 0:
        return []
    place = int(np.nanargmax(moved.to_numpy()))
    (label, term), row = table.index[place], table.iloc[place]
    error = float(row["corrected_se"])
    if moved.iloc[place] < HARDLY:
        return [
            "Least squares on the recorded outcomes gives nearly the same coefficients: no "
            f"difference reaches {HARDLY:g} standard errors."
        ]
    digits = _digits(error)
    of = f"{term} in {label}"
    sentence = (
        f"Least squares on the recorded outcomes differs most for {of}: "
        f"{_rounded(float(row['naive']), digits, True)} against "
        f"{_rounded(float(row['corrected']), digits, True)} (standard error "
        f"{_rounded(error, digits, False)}) under the model"
    )
    if in_doubt:
        return [
            f"{sentence}; do not interpret this as bias while the warnings about this fit stand."
        ]
    return [f"{sentence}; if the model is correct, the difference is selection bias."]


def _shortened(formula: str) -> str:
    """Leave out the middle of a sum that is too long for a sentence."""
    terms = formula.split(" + ")
    if len(formula) <= LONG or len(terms) < 4:
        return formula
    most = max(2, int(LONG / 2 / (len(formula) / len(terms))))
    return " + ".join([*terms[:most], "...", terms[-1]])


def means_in_words(fit: Any) -> str:
    """Write the formulas of mean outcomes, each once."""
    return listed([_shortened(str(one)) for one in dict.fromkeys(fit.facts.formulas)])


def _assumptions(fit: FitResult) -> str:
    """Name the assumptions, which of them were tested, and which were not."""
    problem = fit.problem
    noise = problem.noise.name.replace(" (assumed)", "")
    said = f"This assumes that the recorded outcome is {selected(fit)}"
    if problem.equations.selection is not None:
        said = f"This assumes that {problem.rule.name}"
    said += f", that mean outcomes follow {means_in_words(fit)}, and that noise is {noise}"
    # What is known is not estimated, so nothing has to identify it.
    estimated = any(
        one.fixed is None for one in problem.noise.extras(problem.equations.alternatives)
    )
    dependent = estimated and not problem.noise.independent
    if dependent and not any(problem.equations.exclusions().values()):
        said += ", identified by its shape alone (no covariate is excluded from any equation)"
    tests = assumptions_tested(fit)
    passed = [name for name, test in tests.items() if test.possible and not test.rejects()]
    rejected = [name for name, test in tests.items() if test.rejects()]
    left = [name for name, test in tests.items() if not test.possible]
    if rejected:
        said += f". Tested and rejected: {listed(rejected)}"
    if passed:
        said += f". Tested and not rejected: {listed(passed)}"
    rule = "the rule" if problem.equations.selection is None else "the form of the selection"
    return f"{said}. Not tested: {listed([rule, 'the form of the means', *left])}."


# alarms


def _alarms(fit: FitResult) -> list[str]:
    """Say what is wrong and what to try, the gravest first."""
    said = []
    if not fit.converged:
        said.append(
            f"NOT CONVERGED. {fit.status} Do not use these numbers; the page 'When a fit does not "
            "converge' of the documentation says what to try."
        )
    tests = assumptions_tested(fit)
    rejected = [
        f"{name} ({p_value_in_words(test.p_value)})"
        for name, test in tests.items()
        if test.rejects()
    ]
    if rejected:
        said.append(f"REJECTED by the data: {listed(rejected)}. {what_to_try(fit)}")
    said += too_many(fit)
    said += hardly_distinct(fit)
    weak = fit.diagnose().weak
    if weak:
        more = f" ({len(weak) - 1} more: result.diagnose().)" if len(weak) > 1 else ""
        said.append(f"WEAK: {weak[0].sentence}{more}")
    return said


def _of_tests(fit: FitResult) -> tuple[str, ...]:
    """Return the warnings of effect tables that alarms already say in other words."""
    status = f"NOT CONVERGED. {fit.status} Do not use these numbers."
    return (status, *rejections(fit), MODEL_REJECTED)

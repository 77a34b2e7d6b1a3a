"""What a verdict asks, and of which models: the fit, least squares, the rule alone, and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.bounding.bounds import read_asked
from selfselect.bounding.of_fit import bounds_of_rows
from selfselect.data.design import Design
from selfselect.data.equations import INTERCEPT, Equation, Equations
from selfselect.data.rows import Rows
from selfselect.effects._moments import errors_of_units
from selfselect.effects.base import alternative_index, refuse_undetermined
from selfselect.effects.treatment_effects import average_effect, treatment_effects, two_alternatives
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.statistics import interval_ends
from selfselect.moments.choose import moments_of
from selfselect.noise_choice import default_candidates
from selfselect.noises import FittedNoise, Selection, TwoSteps, as_noise
from selfselect.plain import archived
from selfselect.problem.parameters import Reported, flat_names
from selfselect.problem.problem import Problem, refuse_unidentified
from selfselect.results.averaged_rows import AveragedRows, sample_of
from selfselect.results.expressions import read_expressions
from selfselect.results.naive import fit_naive_jointly
from selfselect.results.refit import refit
from selfselect.results.restrictions import index_of
from selfselect.rules import SelectionIndex, direction_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# The question of a verdict, and how a fit, least squares and the rule alone answer it.


Array = NDArray[np.float64]

EFFECTS = {
    "ATE": "for everyone (ATE)",
    "ATT": "for those who choose it (ATT)",
    "ATU": "for those who do not choose it (ATU)",
}


@archived("verdict answer")
@dataclass(frozen=True)
class Answer:
    """An estimate with its interval; nan where there is none."""

    estimate: float
    std_error: float = float("nan")
    conf_low: float = float("nan")
    conf_high: float = float("nan")


@dataclass(frozen=True)
class Question:
    """What is asked of every model.

    Attributes
    ----------
    words : what is asked, for sentences.
    expression : of parameters; None where an effect is asked for.
    to, versus, effect : labels of two alternatives and which effect of one over the other.
    """

    words: str
    expression: str | None = None
    to: Any = None
    versus: Any = None
    effect: str = "ATE"

    def of_fit(self, fit: FitResult, level: float) -> Answer:
        """Return what a fit says."""
        if self.expression is not None:
            row = fit.nlcom(self.expression, level=level).table.iloc[0]
        else:
            if self.effect == "ATE":
                # Over fewer people it would be another question than the other models answer.
                refuse_undetermined(fit, "The average effect for everyone")
            alone = self.effect == "ATE" and not moments_of(fit.problem).quick
            ask: Any = average_effect if alone else treatment_effects
            table = ask(fit, self.to, self.versus, level=level).table
            row = table[table["effect"] == self.effect].iloc[0]
        names = ("estimate", "std_error", "conf_low", "conf_high")
        return Answer(*(float(row[name]) for name in names))

    def of_least_squares(self, fit: FitResult, level: float) -> Answer:
        """Return what least squares on the recorded outcomes says, selection ignored."""
        if fit.problem.index == "unknown":
            raise UnsupportedError(
                "Choices were not recorded, so least squares cannot tell alternatives apart."
            )
        naive, covariance = fit_naive_jointly(fit.problem, fit.engine_of_rows(), fit.naive_errors)
        values = np.concatenate(naive.coefficients)
        if self.expression is None:
            value, slope, variance = self._difference(fit, values)
        else:
            names = [f"{e.alternative}:{t}" for e in fit.problem.equations.each
                     for t in e.estimated]  # fmt: skip
            try:
                found = read_expressions(self.expression, names, values)[0]
            except OptionError as error:
                raise UnsupportedError("Least squares has no such parameter.") from error
            value, slope, variance = found.value, found.slope, 0.0
        errors = np.array([np.sqrt(max(float(slope @ covariance @ slope), 0.0) + variance)])
        low, high = interval_ends(np.array([value]), errors, level, fit.covariance.df)
        return Answer(float(value), float(errors[0]), float(low[0]), float(high[0]))

    def _difference(self, fit: FitResult, values: Array) -> tuple[float, Array, float]:
        """Return the mean difference of two equations, its derivatives, and rows' own variance."""
        equations = fit.problem.equations
        to, versus = alternative_index(fit, self.to), alternative_index(fit, self.versus)
        rows = self._rows(fit)
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights.astype(float)
        if self.effect != "ATE":
            assert rows.chosen is not None
            weights = weights * ((rows.chosen == to) == (self.effect == "ATT"))
        weights = weights / weights.sum()
        slope = np.zeros((len(rows), len(values)))
        fixed, end = np.zeros(len(rows)), 0
        for j, equation in enumerate(equations.each):
            start, end = end, end + len(equation.estimated)
            sign = {to: 1.0, versus: -1.0}.get(j, 0.0)
            columns = [
                np.ones(len(rows)) if column == 0 else rows.covariates[:, column - 1]
                for column in equation.columns
            ]
            slope[:, start:end] = sign * np.column_stack(columns)[:, : end - start]
            if equation.has_offset:
                fixed += sign * columns[-1]
        each = slope @ np.nan_to_num(values) + fixed
        value = float(weights @ each)
        shares = (weights * (each - value))[:, None]
        variance = sum(float(one.whole[0, 0]) for one in errors_of_units(fit, shares))
        return value, weights @ slope, max(variance, 0.0)

    def _rows(self, fit: FitResult) -> Rows:
        """Return the rows that the effect is about: the same for every model and the rule."""
        return _rows_with_both(fit, self.to, self.versus).rows

    def of_rule(self, fit: FitResult, support: Any, level: float) -> Answer:
        """Return what the rule alone says: the ends of an interval, without an estimate."""
        if self.expression is not None:
            raise UnsupportedError(
                "A coefficient is part of the model of the means; the rule alone does not bound it."
            )
        if self.effect == "ATE":
            asked = read_asked((0.5,), None, support, level)
            table = bounds_of_rows(fit, asked, self._rows(fit)).means
            ends = dict(zip(table["of"], table[["conf_low", "conf_high"]].to_numpy(), strict=True))
            if (name := f"{self.to} - {self.versus}") in ends:
                low, high = map(float, ends[name])
                return Answer(np.nan, np.nan, low, high)
            low, high = map(float, ends[f"{self.versus} - {self.to}"])
            return Answer(np.nan, np.nan, -high, -low)
        direction = None if fit.problem.equations.costs else direction_of(fit.problem.rule)
        if direction is None or fit.problem.has_known_costs or fit.problem.index == "unknown":
            raise UnsupportedError(
                "The rule does not compare the outcomes themselves, so it does not limit the gain "
                "of those who choose."
            )
        if self.effect == "ATT":
            # Whoever chooses the larger outcome gains by it.
            gain = (0.0, np.inf) if direction > 0 else (-np.inf, 0.0)
            return Answer(np.nan, np.nan, *gain)
        if fit.problem.equations.n_alternatives > 2:
            return Answer(np.nan, np.nan, -np.inf, np.inf)
        loss = (-np.inf, 0.0) if direction > 0 else (0.0, np.inf)
        return Answer(np.nan, np.nan, *loss)


@dataclass(frozen=True, eq=False)
class Unsolved:
    """A problem before its fit: it has the names of parameters, and any values."""

    problem: Problem

    @cached_property
    def _reported(self) -> Reported:
        equations, layout = self.problem.equations, self.problem.layout
        each = [np.linspace(0.3, 0.7, len(one.estimated)) for one in equations.each]
        scales = np.ones(equations.n_alternatives) if layout.scales is None else layout.scales
        return layout.report(layout.collect(each, scales))

    @property
    def names(self) -> list[str]:
        """The parameters' names, as those of the fit will be."""
        return flat_names(self._reported.labels)

    @property
    def values(self) -> Array:
        """Some values of the parameters."""
        return self._reported.values


def check_question(question: Any, problem: Problem, design: Design) -> None:
    """Refuse before a fit what could not be asked of it."""
    refuse_without_rows(design.stream is None)
    read_question(Unsolved(problem), question)


def refuse_without_rows(has_rows: bool) -> None:
    """Refuse a verdict where the rows are not held in memory."""
    if not has_rows:
        raise UnsupportedError(
            "A verdict fits other models to the rows of the fit, and those are not held in memory. "
            "Fit a table, not files piece by piece or a fit that was loaded."
        )


def read_question(fit: FitResult | Unsolved, question: Any) -> Question:
    """Read a question, or say what can be asked of the fit."""
    labels = fit.problem.equations.alternatives
    if question is None:
        if len(labels) != 2:
            raise OptionError(f"State the question. {_examples(fit)}")
        question = (labels[1], labels[0])
    if isinstance(question, str):
        effect_asked = _effect(question, labels)
        if effect_asked is None:
            try:
                found = read_expressions(question, fit.names, fit.values)
            except OptionError as error:
                raise OptionError(
                    _mistyped(question, fit) or f"{error} {_examples(fit)}"
                ) from error
            if len(found) != 1:
                raise OptionError(f"{question!r} asks {len(found)} questions. Ask one at a time.")
            if found[0].is_equation:
                raise OptionError(
                    f"{question!r} is a hypothesis, since it has an '='. Write the difference of "
                    "its sides."
                )
            _refuse_what_models_do_not_share(fit, question)
            return Question(found[0].text, found[0].text)
        question = effect_asked
    if not isinstance(question, list | tuple) or len(question) not in (2, 3):
        raise OptionError(f"question={question!r} is not understood. {_examples(fit)}")
    effect = str(question[2]).upper() if len(question) == 3 else "ATE"
    if effect not in EFFECTS:
        raise OptionError(f"There is no effect {question[2]!r}. Use one of {', '.join(EFFECTS)}.")
    to, versus = (labels[place] for place in two_alternatives(fit, question[0], question[1]))
    outcome = fit.problem.equations.outcome
    words = f"the effect of {to} instead of {versus} on mean {outcome} {EFFECTS[effect]}"
    if not isinstance(fit, Unsolved) and fit.rows.known.described is not None:
        sample = _rows_with_both(fit, to, versus)
        if sample.left_out is not None:
            counted = len(sample.rows) - sample.left_out[0]
            words += f", over {counted} of {len(sample.rows)} cases, those with a row for both"
    return Question(words, None, to, versus, effect)


def _rows_with_both(fit: FitResult, to: Any, versus: Any) -> AveragedRows:
    """Return the rows of a fit, of weight zero where either alternative is not described."""
    needed = (alternative_index(fit, to), alternative_index(fit, versus))
    return sample_of(fit, None, needed=needed)


def _refuse_what_models_do_not_share(fit: FitResult | Unsolved, question: str) -> None:
    """Refuse expressions of what means another thing under another noise, and of nothing."""
    found = read_expressions(question, fit.names, fit.values)[0]
    if not found.has_error:
        if isinstance(fit, Unsolved):
            return  # It may have one at the estimates.
        raise OptionError(
            f"{question!r} or its derivative is not a finite number at the estimates, or too large "
            "to be squared, so it has no standard error there."
        )
    asked = [name for name, one in zip(fit.names, found.slope, strict=True) if one != 0.0]
    if not asked:
        raise OptionError(f"{question!r} does not depend on any parameter. {_examples(fit)}")
    shared = {f"{e.alternative}:{t}" for e in fit.problem.equations.each for t in e.estimated}
    shared |= {name for name in fit.names if ":cost: " in name}
    for name in asked:
        if name not in shared:
            raise OptionError(
                f"A verdict compares models, and {name!r} means another thing under another noise. "
                f"Ask for coefficients or effects. {_examples(fit)}"
            )


def _effect(text: str, labels: Any) -> tuple[Any, ...] | None:
    """Return two alternatives where a text is their difference, and the effect after a comma."""
    pair = _pair(text, labels)
    if pair is not None:
        return pair
    difference, comma, effect = text.rpartition(",")
    pair = _pair(difference, labels)
    return (*pair, effect.strip()) if comma and pair is not None else None


def _pair(text: str, labels: Any) -> tuple[Any, Any] | None:
    """Return two alternatives where a text is their difference."""
    by_name = {str(label): label for label in labels}
    for place in range(len(text)):
        if text[place] == "-":
            one, other = text[:place].strip(), text[place + 1 :].strip()
            if one in by_name and other in by_name:
                return by_name[one], by_name[other]
    return None


def _mistyped(text: str, fit: FitResult | Unsolved) -> str | None:
    """Say which alternatives a text may mean that reads like a difference of two."""
    labels = [str(label) for label in fit.problem.equations.alternatives]
    difference, comma, effect = text.partition(",")
    for place in range(len(difference)):
        if difference[place] == "-":
            sides = (difference[:place].strip(), difference[place + 1 :].strip())
            near = [get_close_matches(side, labels, n=1) for side in sides]
            if all(near) and near[0] != near[1]:
                meant = f"{near[0][0]} - {near[1][0]}{comma}{effect}"
                unknown = " and ".join(repr(side) for side in sides if side not in labels)
                return (
                    f"In the question {text!r} there is no alternative {unknown}; there are "
                    f"{', '.join(labels)}. Did you mean {meant!r}?"
                )
    return None


def _examples(fit: FitResult | Unsolved) -> str:
    labels, names = fit.problem.equations.alternatives, fit.names
    said = f"Ask for a parameter or an expression of several, such as {names[0]!r}"
    if len(labels) > 1:
        difference = f"{labels[1]} - {labels[0]}"
        said += f", or for an effect: {difference!r}, or '{difference}, ATT'"
    return f"{said}."


# Other models of the rows of a fit: other noises, and other ways of selecting.


SWITCHING, TWO_STEPS = "switching", "two steps"

Maker = Callable[[], "FitResult"]


def other_models(fit: FitResult, seed: int) -> dict[str, Maker]:
    """Return how to fit every other model of the same rows, by name."""
    if fit.problem.noise.selected:
        if fit.method == "two-step" or fit.problem.noise.sign_only:
            return {}
        ordered = fit.problem.equations.selection is None or fit.problem.equations.restricted
        return {} if ordered else {TWO_STEPS: partial(_two_steps, fit)}
    labels, facts = fit.problem.equations.alternatives, fit.facts
    formulas = dict(zip(labels, facts.formulas, strict=True))
    made: dict[str, Maker] = {}
    scale = "common" if fit.problem.noise.scale == "common" else "each"
    index = fit.problem.index
    for name, noise in default_candidates(formulas, facts.panel, scale=scale, index=index).items():
        if noise != fit.problem.noise:
            made[name] = partial(_with_noise, fit, as_noise(noise), seed)
    return made | {SWITCHING: partial(_switching, fit, seed)}


def differences(fit: FitResult, other: FitResult) -> tuple[str, ...]:
    """Say which assumptions of a fit another one replaces."""
    one, two = fit.problem, other.problem
    if one.noise.selected != two.noise.selected:
        return ("the rule of choice",)
    if fit.method != other.method:
        return ("the joint normality of outcomes and selection",)
    if one.rule != two.rule or one.equations.costs != two.equations.costs:
        return ("the rule of choice",)
    if one.noise.selected:
        return ("the equations",)
    if one.noise.independent != two.noise.independent:
        return ("the correlation of the noises",)
    found = []
    if one.noise.margin.name != two.noise.margin.name:
        found.append("the shape of the noise")
    if bool(one.layout.spreads) != bool(two.layout.spreads):
        found.append("the spread of the noise")
    return tuple(found) or ("the noise",)


def _with_noise(fit: FitResult, noise: FittedNoise, seed: int) -> FitResult:
    """Fit the same equations and rule under another noise."""
    equations = fit.problem.equations
    if noise.spread is not None:
        equations = _moving(equations)
    grouped = fit.rows.groups is not None and noise.grouped
    problem = replace(fit.problem, equations=equations, noise=noise, grouped=grouped)
    return refit(fit, _checked(fit, problem), seed=seed)


def _moving(equations: Equations) -> Equations:
    """Let every alternative's scale move with what moves its mean."""
    spreads = []
    for equation in equations.each:
        both = zip(equation.estimated, equation.columns, strict=False)
        own = [(term, column) for term, column in both if column]
        terms, columns = (INTERCEPT, *(t for t, _ in own)), (0, *(c for _, c in own))
        spreads.append(Equation(equation.alternative, terms, columns))
    return replace(equations, spreads=tuple(spreads))


def _switching(fit: FitResult, seed: int) -> FitResult:
    """Let any index of the covariates select, where one of them is excluded from an outcome."""
    problem, known = fit.problem, fit.coding.known
    equations = problem.equations
    if problem.index != "known" or equations.n_alternatives != 2:
        raise UnsupportedError("Switching is between two alternatives, the choice recorded.")
    if problem.partial or equations.restricted:
        raise UnsupportedError("Some outcomes are not recorded, or coefficients are restricted.")
    if any(cost is not None for cost in known.costs) or any(known.available):
        raise UnsupportedError("Known costs and availability have no counterpart in switching.")
    if not any(equations.exclusions().values()):
        raise UnsupportedError(
            "No covariate is excluded from an outcome: switching would be identified by the "
            "normal shape alone. Fit selfselect.switching with a covariate that affects the "
            "choice only, and pass it in also=."
        )
    selection = index_of(equations)
    base = replace(equations, costs=(), selection=selection, spreads=(), types=None)
    changed = replace(
        problem,
        equations=base,
        rule=SelectionIndex(equations.alternatives[-1]),
        noise=Selection(),
        grouped=False,
    )
    text = " + ".join(term for term in selection.terms if term != INTERCEPT)
    described = replace(fit, facts=replace(fit.facts, selection=f"~ {text}"))
    return refit(described, _checked(fit, changed), seed=seed)


def _two_steps(fit: FitResult) -> FitResult:
    """Fit a selection equation by two steps, which do not need all noises to be normal."""
    # Imported here: only fits with a selection equation have two steps.
    import numpy as np

    from selfselect.selection.two_step import TwoStep, two_step_covariance

    if fit.carried is not None:
        raise UnsupportedError(
            "Errors of a refit would leave out the first stage. Fit with method='two-step' and "
            "pass it in also=."
        )
    problem, engine = replace(fit.problem, noise=TwoSteps()), fit.engine_of_rows()
    solution = TwoStep().solve(problem, engine, rng=np.random.default_rng(0))
    kind = "robust" if fit.covariance.kind in ("bootstrap", "opg") else fit.covariance.kind
    spread = two_step_covariance(problem, engine, solution, kind=kind, dependence=fit.dependence)
    return replace(fit, problem=problem, solution=solution, covariance=spread, kept=None)


def _checked(fit: FitResult, problem: Problem) -> Problem:
    problem.check(fit.facts.outcome_range)
    refuse_unidentified(problem, fit.rows)
    return problem

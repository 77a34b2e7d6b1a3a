"""What a summary says that depends on the model: self-selection, or a selection equation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.equations import SELECTION
from selfselect.inference.statistics import TestResult
from selfselect.noises.base import COMMON
from selfselect.problem.parameters import SCALE
from selfselect.report.page import format_number, listed
from selfselect.report.summary import (
    PSEUDO_LIKELIHOOD,
    Entries,
    Portrait,
    Rows,
    TidyRow,
    coefficient_rows,
    two_values,
)
from selfselect.results.hypotheses import exclusions, say_first_stages
from selfselect.results.rejections import assumptions_tested, tests_in_words, tests_of_noise
from selfselect.rules import picks

if TYPE_CHECKING:
    from selfselect.report.document import Section
    from selfselect.results.fit_result import FitResult


DEVIATION = "std deviation"
"""Stands below the scale of noise that is not normal: the standard deviation of the noise."""


HOLDS = "The answers hold as far as these assumptions do."


class FitPortrait(Portrait):
    """Of a fit in which outcomes themselves, or what was said of them, decide the choice."""

    def __init__(self, fit: FitResult) -> None:
        self.fit = fit

    @property
    def title(self) -> str:
        return f"Linear regression under self-selection, {self.fit.problem.index} index"

    def entries(self) -> Entries:
        problem, solution = self.fit.problem, self.fit.solution
        labels = [str(cost.alternative) for cost in problem.equations.costs]
        net = f", net of estimated costs of {_listed(labels)}" if labels else ""
        return [
            ("Rule", problem.rule.name + net),
            ("Noise", problem.noise.name),
            ("Solver", f"{solution.solver_name}: {self.fit.status}"),
        ]

    def likelihood(self) -> Entries:
        fit, facts = self.fit, self.fit.facts
        error = fit.solution.loglik_error
        exact = f"{fit.llf:.4f}" if error == 0 else f"{fit.llf:.2f} (Monte-Carlo error {error:.2g})"
        entries = [
            ("Log-likelihood", exact),
            ("Parameters", str(fit.n_parameters)),
            ("AIC", f"{fit.aic:.3f}"),
            ("BIC" if facts.panel is None else "BIC, by people", f"{fit.bic:.3f}"),
        ]
        equations = fit.problem.equations
        if equations.shared:
            entries.append(("Shared", _listed([one.term for one in equations.shared])))
            if facts.counts:
                counts = zip(equations.alternatives, facts.counts, strict=True)
                entries.append(("Chosen", ", ".join(f"{label} {count}" for label, count in counts)))
        return entries

    def titles(self) -> dict[Hashable, str]:
        fit, facts = self.fit, self.fit.facts
        labels = fit.problem.equations.alternatives
        rows = "rows" if facts.case is None else "cases"
        if fit.problem.index == "known":
            counts = zip(labels, facts.counts, strict=True)
            return {label: f"{label} (chosen in {count} {rows})" for label, count in counts}
        return {
            label: f"{label} (expected share of {rows} {100 * share:.1f}%)"
            for label, share in zip(labels, fit.shares, strict=True)
        }

    def choice_titles(self) -> dict[Hashable, str]:
        return {}

    def rows(self, label: Hashable, entries: list[TidyRow], *, stars: bool) -> Rows:
        labels = self.fit.problem.equations.alternatives
        rows = coefficient_rows(self._with_deviations(entries), stars=stars)
        if label not in labels:
            return rows
        j, fixed = labels.index(label), self.fit.problem.layout.scales
        known = [] if fixed is None else [(SCALE, float(fixed[j]))]
        deviation = self.fit.problem.noise.margin.deviation
        known += [(DEVIATION, value * deviation) for _, value in known if deviation != 1.0]
        held = [(name, format_number(value), "(fixed)", "", "", "", "") for name, value in known]
        return (*self._in_order(j, rows), *held)

    def _in_order(self, j: int, own: Rows) -> Rows:
        """Add what an alternative shares, and its offset, to its rows, in the equation's order."""
        fit = self.fit
        if not fit.problem.equations.restricted:
            return own
        equation = fit.problem.equations.each[j]
        values = fit.problem.layout.coefficients_of(fit.values)[j]
        left = {row[0]: row for row in own}
        rows = []
        for term, value in zip(equation.terms, values, strict=True):
            why = "(shared)" if term in equation.estimated else "(offset)"
            rows.append(left.pop(term, (term, format_number(float(value)), why, "", "", "", "")))
        return (*rows, *left.values())

    def _with_deviations(self, table: list[TidyRow]) -> list[TidyRow]:
        """Return entries of a tidy table, each scale followed by the standard deviation it means.

        For normal noise they are the same.
        """
        fit, noise, layout = self.fit, self.fit.problem.noise, self.fit.problem.layout
        extras, entries = layout.extras_of(fit.values)[: layout.n_noise_extras], []
        shapes = noise.margins(extras, len(layout.sizes))
        for entry in table:
            entries.append(entry)
            if entry.term == SCALE:
                labels = fit.problem.equations.alternatives
                j = 0 if entry.alternative == COMMON else labels.index(entry.alternative)
                # A shape whose parameters are estimated would need more than a factor.
                known = noise.family is None
                if shapes[j].deviation != 1.0 and np.isfinite(shapes[j].deviation):
                    numbers = ("estimate", "std_error", "conf_low", "conf_high")
                    grown = {
                        name: shapes[j].deviation * getattr(entry, name)
                        if known or name == "estimate"
                        else np.nan
                        for name in numbers
                    }
                    entries.append(entry._replace(term=DEVIATION, **grown))
        return entries

    def tests(self) -> Sequence[TestResult]:
        return (self.fit.independence_test(), *tests_of_noise(self.fit))

    def notes(self) -> list[str]:
        return [self._identification(), *self._notes_on_people(), *self._notes_on_likelihood()]

    def notes_on_least_squares(self) -> list[str]:
        if self.fit.problem.index == "known":
            return []
        return [
            "Choices were not recorded, so least squares uses all rows and is the same for every "
            "alternative."
        ]

    def answer(self, data: Any, level: float) -> tuple[list[str], tuple[str, ...]]:
        # Imported here, and below: a summary needs neither sentences nor chapters.
        from selfselect.report.explain import answer

        return answer(self.fit, data, level)

    def assumptions(self) -> list[str]:
        from selfselect.report.explain import means_in_words

        fit, problem = self.fit, self.fit.problem
        noise = problem.noise.name.replace(" (assumed)", "")
        said = (
            f"This assumes that {self._assumed()[0]}, that mean outcomes follow "
            f"{means_in_words(fit)}, and that noise is {noise}"
        )
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
        left = [self._assumed()[1], "the form of the means", *left]
        verdict = fit.answers.verdict
        quoted = [] if verdict is None else [verdict.quotation()]
        return [f"{said}. Not tested: {listed(left)}.", *quoted]

    def _assumed(self) -> tuple[str, str]:
        """Say what is assumed of the choice, and name that in a word."""
        return f"the recorded outcome is {self._selected()}", "the rule"

    @property
    def headline(self) -> str:
        equations = self.fit.problem.equations
        return f"{equations.outcome} under self-selection: {listed(equations.alternatives)}"

    def question(self) -> tuple[str, ...]:
        problem, facts = self.fit.problem, self.fit.facts
        equations = problem.equations
        outcome, k = equations.outcome, equations.n_alternatives
        rows = "rows" if facts.case is None else "cases"
        decided = "outcomes and costs" if self._costs() else "the outcomes themselves"
        return (
            f"Each of {facts.n_rows} {rows} has a value of {outcome} for each of {k} alternatives: "
            f"{listed(equations.alternatives)}. At most one of the {k} was recorded: "
            f"{self._selected()}. {self._recorded()}",
            f"How does {outcome} depend on {self._covariates()} in each alternative, for everyone "
            "and not only for those who chose it? Least squares on what was recorded answers "
            "another question: those who chose an alternative are not like the others, because "
            f"{decided} decided the choice.",
            f"The model: {problem.rule.name}{self._estimated_costs()}; noise is "
            f"{problem.noise.name}. {HOLDS}",
        )

    def nothing_wrong(self) -> str:
        return (
            "No warning was raised: the solver converged, and nothing looked weakly determined. "
            f"{tests_in_words(self.fit)} That does not prove the model right."
        )

    def chapters(self, level: float, command: str | None) -> list[Section]:
        from selfselect.report.write import chapters

        return chapters(self.fit, level, command)

    def _estimated_costs(self) -> str:
        labels = [cost.alternative for cost in self.fit.problem.equations.costs]
        return f", counting estimated costs of {listed(labels)}" if labels else ""

    def _selected(self) -> str:
        """Say which of the outcomes is selected."""
        which = picks(self.fit.problem.ordered_rule)
        return which + (f", {self._costs()}" if self._costs() else "")

    def _costs(self) -> str:
        """Say what kind of costs count for the choice; empty where none do."""
        kinds = []
        if getattr(self.fit.problem.rule, "cost", None):
            kinds.append("known")
        if self.fit.problem.equations.costs:
            kinds.append("estimated")
        return f"counting {' and '.join(kinds)} costs" if kinds else ""

    def _recorded(self) -> str:
        """Say where it was recorded which alternative was chosen, and where the outcome was not."""
        facts = self.fit.facts
        if self.fit.problem.index == "unknown":
            said = "Which one it is was not recorded."
        elif facts.chosen:
            said = f"The column {facts.chosen} says which one it is"
            said += f", but in {facts.n_undecided} rows." if facts.n_undecided else "."
        else:
            said = "It is known which one it is."
        if facts.n_silent:
            said += f" In {facts.n_silent} rows no outcome was recorded."
        return said

    def _covariates(self) -> str:
        """Name the covariates of outcomes; those of costs alone are none of them."""
        equations = self.fit.problem.equations
        used = sorted({column for one in equations.each for column in one.columns if column})
        names = [equations.covariates[column - 1] for column in used]
        return listed(names) or "a constant alone"

    def _notes_on_likelihood(self) -> list[str]:
        weighted = self.fit.facts.weights_kind == "probability" and self.fit.method == "ml"
        return [PSEUDO_LIKELIHOOD] if weighted else []

    def _notes_on_people(self) -> list[str]:
        """Say what a panel adds, and what types cannot say without one."""
        facts, noise, notes = self.fit.facts, self.fit.problem.noise, []
        alone = facts.panel is None or facts.n_groups == facts.n_rows
        if facts.panel is not None and alone:
            notes.append("Every person has one row, so the panel adds no information.")
        elif facts.panel is not None and not noise.grouped:
            notes.append(
                f"The noise of a person's rows is assumed independent; {facts.panel} affects only "
                "the standard errors. noises.Types() and noises.SharedShock() model noise that a "
                "person's rows share."
            )
        if noise.mixed and alone:
            notes.append(
                "With one row each, only the assumed shape of the noise identifies the types."
            )
        if noise.mixed:
            notes.append(
                "Types approximate a distribution; their number is not the number of kinds of "
                "people."
            )
        return notes

    def _identification(self) -> str:
        own, specific = self.fit.problem.equations.specific_terms(), []
        if own:
            specific = [f"{_listed(own)} of each alternative from all others"]
        excluded = {
            label: names
            for label, names in self.fit.problem.equations.exclusions(besides=own).items()
            if names
        }
        if not excluded and not specific:
            return "Identified by functional form: no covariate is excluded from any equation."
        specific += [f"{label} without {_listed(names)}" for label, names in excluded.items()]
        return f"Excluded covariates: {'; '.join(specific)}."


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


# Of a fit with a selection equation.


TITLES = {
    "sample selection": "Sample selection (tobit-2)",
    "switching": "Endogenous switching (tobit-5)",
    "binary": "Probit with sample selection",
    "treatment": "Endogenous treatment: one noise for all alternatives",
    "ordered": "Endogenous switching among ordered alternatives",
}
METHODS = {"ml": "maximum likelihood", "two-step": "two steps"}


class SelectionPortrait(FitPortrait):
    """Of a fit in which an equation of its own selects."""

    @property
    def title(self) -> str:
        noise = self.fit.problem.noise
        model = "ordered" if self.fit.problem.ordered_rule.has_cuts else self.fit.model
        if noise.scale == "common":
            model = "treatment"
        if noise.sign_only:
            model = "binary"
        return f"{TITLES[model]}, {METHODS[self.fit.method]}"

    def entries(self) -> Entries:
        return [
            ("Selection", str(self.fit.facts.selection)),
            ("Method", f"{METHODS[self.fit.method]}: {self.fit.status}"),
        ]

    def likelihood(self) -> Entries:
        return super().likelihood() if self.fit.method == "ml" else []

    def titles(self) -> dict[Hashable, str]:
        counts = zip(self.fit.problem.equations.alternatives, self.fit.facts.shown, strict=True)
        return {label: f"{label} (observed in {count} rows)" for label, count in counts}

    def choice_titles(self) -> dict[Hashable, str]:
        rule, switching = self.fit.problem.ordered_rule, self.fit.model == "switching"
        return {SELECTION: SELECTION + (rule.pointing if switching else "")}

    def notes(self) -> list[str]:
        fit, facts = self.fit, self.fit.facts
        notes = [*say_first_stages(fit), *dict.fromkeys(one.sentence for one in exclusions(fit))]
        if fit.method == "ml" and len(fit.solution.starts) == 1:
            begun = fit.solution.starts[0].name
            where = "the two-step estimate" if begun == "two-step" else begun
            notes.append(
                f"Climbed from {where} alone, without a search for a better optimum. "
                "start='search' does this search."
            )
        if fit.covariance.missing and fit.method == "two-step":
            notes.append("Two steps give no standard errors of scales and correlations.")
        if facts.two_values and not fit.problem.noise.sign_only:
            binary = " sample_selection(..., binary=True) is a probit."
            notes.append(
                f"{two_values(fit)}, with normal noise that it cannot have."
                f"{binary if facts.outcome_range == (0, 1) else ''}"
            )
        return [*notes, *self._notes_on_likelihood()]

    @property
    def headline(self) -> str:
        equations = self.fit.problem.equations
        return f"{equations.outcome} under {self.fit.model}: {listed(equations.alternatives)}"

    def question(self) -> tuple[str, ...]:
        problem, facts = self.fit.problem, self.fit.facts
        equations = problem.equations
        if equations.n_alternatives == 1:
            (shown,), (selected,) = facts.shown, facts.counts
            part = f"the {selected}" if shown == selected else f"{shown} of the {selected}"
            observed = f"only in {part} rows that were selected"
            whom = "for everyone and not only for the selected"
        else:
            labels = equations.alternatives
            observed = f"for one of {len(labels)} alternatives, {listed(labels)}"
            whom = "in each alternative, for everyone and not only for those found in it"
        return (
            f"In {facts.n_rows} rows {equations.outcome} was observed {observed}. Selection "
            f"follows an equation of its own: {facts.selection}.",
            f"How does {equations.outcome} depend on {self._covariates()}, {whom}? Least squares "
            "on what was observed answers another question: where the noise of the outcome is "
            "correlated with that of the selection, those observed are not like the others.",
            f"The model: {problem.rule.name}; noise is {problem.noise.name}. {HOLDS}",
        )

    def _assumed(self) -> tuple[str, str]:
        return self.fit.problem.rule.name, "the form of the selection"

"""What is printed of a fit, and saved fits with rows for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from selfselect.cli._options import format_option, json_option, level_option, together
from selfselect.cli._streams import STANDARD, on_terminal, refuse_twice, say, write_file
from selfselect.inference.statistics import FLAG_LEVEL, samples_to_reject
from selfselect.options import Intervals

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# What is printed and written of a fit, by every command that makes one.


printing_options = together(
    level_option,
    click.option(
        "--intervals", type=click.Choice(["wald", "profile"]), default="wald", show_default=True,
        help="Intervals from standard errors, or by profiles of the likelihood.",
    ),
    click.option(
        "--test-noise", type=int, metavar="SAMPLES",
        help="Test normality and constant variance by a parametric bootstrap of so many samples, "
        "such as 199, in place of the asymptotic tests.",
    ),
    click.option("--explain", is_flag=True, help="Print the results in a few sentences."),
    click.option(
        "--verdict", is_flag=True,
        help="Also fit other models, and report how far the answer depends on the model.",
    ),
    click.option(
        "--question", metavar="EXPRESSION",
        help="Question for --verdict: 'a:x - b:x'; 'b - a' for the effect of b instead of a on "
             "everyone; 'b - a, ATT' on those who choose b; 'b - a, ATU' on the others.",
    ),
    click.option(
        "--compare", is_flag=True, help="Put least squares beside the corrected estimates."
    ),
    click.option(
        "--save", metavar="FILE",
        help="Save the fit as JSON, for predict and show; '-' for standard output.",
    ),
    click.option(
        "--report", metavar="FILE",
        help="Write everything into one HTML file; '-' for standard output.",
    ),
    format_option,
    json_option,
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """The options that say what is printed and written.

    Where standard output takes a file, what is printed goes to standard error; and so do pages
    beside a table for programs.
    """

    level: float
    intervals: Intervals
    test_noise: int | None
    explain: bool
    verdict: bool
    question: str | None
    compare: bool
    save: str | None
    report: str | None
    form: str
    as_json: bool
    seed: int | None

    @classmethod
    def take(cls, options: dict[str, Any], *files: str) -> Shown:
        """Take those options out of all; `files` are read, so they are not written over.

        What cannot be written is refused here, before the work that would be lost.
        """
        from selfselect.cli._tables import check_target

        names = [name for name in cls.__dataclass_fields__ if name != "seed"]
        found = cls(**{name: options.pop(name) for name in names}, seed=options["seed"])
        if found.question is not None and not found.verdict:
            raise click.UsageError("--question is what --verdict is on. Give --verdict too.")
        if found.test_noise is not None and 0 != found.test_noise < samples_to_reject():
            raise click.UsageError(
                f"--test-noise {found.test_noise} cannot reject at the level of the pages, "
                f"{1.0 - FLAG_LEVEL:.2g}. Give {samples_to_reject()} samples or more, or 0 for the "
                "asymptotic tests."
            )
        refuse_twice(found.save, found.report, what="output")
        for target in (found.save, found.report):
            check_target(target, *files)
        return found

    def show(self, fit: Callable[[], Any]) -> int:
        """Fit, print the result, write what was asked for, and return the exit code.

        What the verdict is on is checked before the fit is solved.
        """
        from selfselect.cli._tables import json_lines, render
        from selfselect.cli.main import NOT_CONVERGED
        from selfselect.posing import checked_by

        with checked_by(self._check if self.verdict else None):
            result = fit()
        if self.test_noise is not None:
            result.normality_test(self.test_noise, seed=self.seed)
            result.heteroskedasticity_test(self.test_noise, seed=self.seed)
        taken = STANDARD in (self.save, self.report)
        if self.as_json:
            click.echo(json_lines(result.tidy(self.level, intervals=self.intervals)), err=taken)
        else:
            with on_terminal(err=taken):
                click.echo(render(result, self.form, self.level, self.intervals), err=taken)
        if self.save and not (self.verdict and self.save == STANDARD):
            # Before the other models of a verdict, which take their time.
            write_file(self.save, result.save, ending=".json")
        pages: list[Any] = []
        if self.compare:
            pages.append(result.compare())
        if self.verdict:
            pages.append(result.verdict(self.question, level=self.level, seed=self.seed))
            if self.save:
                write_file(self.save, result.save, ending=".json")
        if self.explain:
            pages.append(result.explain(level=self.level))
        # Beside a table for programs, pages go to standard error.
        beside = taken or self.as_json or self.form in ("csv", "json")
        with on_terminal(err=beside):
            for page in pages:
                click.echo(f"\n{page}", err=beside)
        if self.report:
            command = click.get_current_context().obj
            write_file(
                self.report,
                lambda path: result.report(path, level=self.level, command=command),
                ending=".html",
            )
        return 0 if result.converged else NOT_CONVERGED

    def _check(self, problem: Any, design: Any) -> None:
        """Refuse what could not be asked of the fit."""
        from selfselect.errors import OptionError
        from selfselect.trust.questions import check_question

        try:
            check_question(self.question, problem, design)
        except OptionError as error:
            raise click.UsageError(f"--question: {error}") from error


# Saved fits in the shell, and the rows they are asked about.


def in_order(fit: str, data: str) -> tuple[str, str]:
    """Return the names of a saved fit and of a table; a notice says so where they are swapped."""
    if data.lower().endswith(".json") and not fit.lower().endswith(".json") and fit != STANDARD:
        say("notice: in all commands the saved FIT comes first, then DATA.")
        return data, fit
    return fit, data


def read_saved(fit: str, data: str, *, encoding: str | None) -> tuple[FitResult, Any]:
    """Read a saved fit, and a table for it; one of them may be standard input."""
    from selfselect.cli._streams import read_fit
    from selfselect.cli._tables import labels_of, read_table

    refuse_twice(fit, data)
    result = read_fit(fit)
    return result, read_table(data, encoding=encoding, labels=labels_of(result))


def with_rows(fit: FitResult, table: Any) -> FitResult:
    """Return a saved fit with rows of a table, outcome and choice included, in place of its own."""
    import numpy as np

    from selfselect.data.columns import check_numbers
    from selfselect.data.formulas import code_chosen
    from selfselect.data.tables import to_frame
    from selfselect.engines import Memory
    from selfselect.errors import UnsupportedError

    facts, problem = fit.facts, fit.problem
    if problem.equations.selection is not None or facts.case is not None or facts.panel is not None:
        raise UnsupportedError(
            "This needs rows with their outcome, and those of a saved fit with a selection "
            "equation, of long data or of a panel are not read. Fit in Python instead."
        )
    coded = fit.coding.code(table, with_known=True, with_outcome=True)
    extra = [name for name in (facts.chosen, facts.weights) if name is not None]
    frame = to_frame(table, extra).loc[np.asarray(coded.complete)]
    rows = coded.rows
    if facts.chosen is not None:
        labels = problem.equations.alternatives
        rows = replace(rows, chosen=code_chosen(frame[facts.chosen], facts.chosen, labels))
    if facts.weights is not None:
        weights = check_numbers(frame[facts.weights], f"The column of weights {facts.weights!r}")
        rows = replace(rows, weights=weights)
    names = list(dict.fromkeys(getattr(fit.coding, "columns", ())))
    raw = to_frame(table, [*names, *fit.coding.known.columns]).loc[np.asarray(coded.complete)]
    return replace(fit, engine=Memory().load(problem, rows), row_labels=raw.index, table=raw)

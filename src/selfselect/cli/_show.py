"""What is printed and written of a fit, by every command that makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from selfselect.cli._options import format_option, json_option, level_option, together
from selfselect.cli._streams import STANDARD, refuse_twice, write_file
from selfselect.cli._terminal import on_terminal
from selfselect.options import Intervals

__all__ = ["Shown", "printing_options"]

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
        refuse_twice(found.save, found.report, what="output")
        for target in (found.save, found.report):
            check_target(target, *files)
        return found

    def show(self, fit: Callable[[], Any]) -> int:
        """Fit, print the result, write what was asked for, and return the exit code.

        What the verdict is on is checked before the fit is solved.
        """
        from selfselect.cli._formats import json_lines, render
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
        from selfselect.verdict import check_question

        try:
            check_question(self.question, problem, design)
        except OptionError as error:
            raise click.UsageError(f"--question: {error}") from error

"""A fit in the formats the shell can ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import pandas as pd

from selfselect.cli._tables import for_spreadsheets, write_table
from selfselect.cli._terminal import on_terminal
from selfselect.inference.statistics import TestResult
from selfselect.options import Intervals
from selfselect.results.fit_result import FitResult
from selfselect.results.specification import tests_of_noise

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["json_lines", "render", "show_table"]


def render(
    fit: FitResult | MultinomialResult,
    form: str,
    level: float,
    intervals: Intervals = "wald",
    *,
    stars: bool = False,
) -> str:
    """Return the summary of a fit in one of the formats of --format."""

    def page() -> Any:
        return fit.summary(level, intervals=intervals, stars=stars)

    forms: dict[str, Callable[[], str]] = {
        "text": lambda: page().to_text(),
        "latex": lambda: page().to_latex(),
        "markdown": lambda: page().to_markdown(),
        "html": lambda: page().to_html(),
        "csv": lambda: (
            for_spreadsheets(fit.tidy(level, intervals=intervals)).to_csv(index=False).rstrip("\n")
        ),
        "json": lambda: _as_json(fit, level, intervals),
    }
    return forms[form]()


def json_lines(table: pd.DataFrame) -> str:
    """Return one JSON object per row and line; missing and infinite numbers are null."""
    return "\n".join(
        json.dumps(one, allow_nan=False, default=str, ensure_ascii=False) for one in _records(table)
    )


def show_table(page: Any, table: pd.DataFrame, out: str | None, *, as_json: bool) -> None:
    """Print a page, or its table as JSON lines, or write the table to a file."""
    if as_json and out is not None:
        raise click.UsageError("--json prints the table and --out writes it. Give one of them.")
    if as_json:
        click.echo(json_lines(table))
    elif out is None:
        with on_terminal():
            click.echo(str(page))
    else:
        write_table(table, out, index=False)


def _as_json(fit: FitResult | MultinomialResult, level: float, intervals: Intervals) -> str:
    content: dict[str, Any] = {
        "notices": list(fit.summary(level).notices),
        "status": fit.status,
        "fit": _records(fit.glance())[0],
        "counts": {str(label): int(count) for label, count in fit.counts.items()},
        "coefficients": _records(fit.tidy(level, intervals=intervals)),
    }
    if isinstance(fit, FitResult):
        normality, variance = tests_of_noise(fit)
        content["independence_test"] = _as_plain(fit.independence_test())
        content["normality_test"] = _as_plain(normality)
        content["heteroskedasticity_test"] = _as_plain(variance)
    else:
        content["selection_test"] = _as_plain(fit.selection_test())
    return json.dumps(content, indent=2, allow_nan=False, default=str)


def _as_plain(test: TestResult) -> dict[str, Any]:
    return {
        "statistic": test.statistic if test.possible or test.undecided else None,
        "df": test.df,
        "df_residual": test.df_residual,
        "p_value": test.p_value if test.possible else None,
        "replications": test.replications,
        "reason": test.reason,
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain dicts, missing and infinite numbers as null, as JSON wants it."""

    def plain(value: Any) -> Any:
        unknown = pd.isna(value) or (isinstance(value, float) and math.isinf(value))
        return None if unknown else value

    return [
        {str(name): plain(value) for name, value in row.items()}
        for row in table.to_dict(orient="records")
    ]

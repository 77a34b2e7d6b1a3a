"""Options that both models with a selection equation share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from selfselect.cli._encoding import encoding_option
from selfselect.cli._options import covariance_option

__all__ = ["rows_for", "shared_options", "show", "split_options", "way_of_clustering"]

_OPTIONS = (
    click.option(
        "--method", type=click.Choice(["ml", "two-step"]), default="ml", show_default=True,
        help="Maximum likelihood, or Heckman's two steps.",
    ),
    click.option(
        "--start", type=click.Choice(["search", "two-step"]), default="search", show_default=True,
        help="Look for the best of several optima, or climb from the two-step estimate alone.",
    ),
    click.option("--weights", metavar="COLUMN", help="Row weights."),
    click.option(
        "--weights-kind", type=click.Choice(["frequency", "probability"]),
        help="Weights are numbers of identical rows, or correct for unequal sampling (robust "
        "errors).",
    ),
    covariance_option,
    click.option(
        "--cluster", "clusters", multiple=True, metavar="COLUMN",
        help="Clusters of rows; implies clustered. Repeat to cluster in several ways.",
    ),
    click.option(
        "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
        help="What to do with rows that lack a covariate.",
    ),
    click.option(
        "--missing-outcome", type=click.Choice(["raise", "drop", "silent"]), default="raise",
        show_default=True, help="What to do with rows that lack the outcome.",
    ),
    encoding_option,
    click.option("--seed", type=int, help="Seed of everything random."),
    click.option("--level", default=0.95, show_default=True, help="Level of intervals."),
    click.option(
        "--intervals", type=click.Choice(["wald", "profile"]), default="wald", show_default=True,
        help="Intervals from standard errors, or by profiles of the likelihood.",
    ),
    click.option(
        "--test-noise", type=int, metavar="SAMPLES",
        help="Test normality and constant variance by a parametric bootstrap of so many samples, "
        "such as 199, in place of the asymptotic tests.",
    ),
    click.option("--explain", is_flag=True, help="Say in a few sentences what the fit says."),
    click.option(
        "--verdict", is_flag=True,
        help="Fit other models too, and say how much of the answer is the data.",
    ),
    click.option(
        "--question", metavar="EXPRESSION",
        help="What --verdict is on: 'a:x - b:x', or 'b - a' for the effect of b instead of a.",
    ),
    click.option("--compare", is_flag=True, help="Put least squares beside the estimates."),
    click.option("--save", metavar="FILE", help="Save the fit as JSON, for predict and show."),
    click.option("--report", metavar="FILE", help="Write everything into one HTML file."),
    click.option(
        "--format", "form", default="text", show_default=True,
        type=click.Choice(["text", "json", "latex", "markdown", "html", "csv"]),
        help="What to print.",
    ),
)  # fmt: skip


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of both models."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def rows_for(data: str, encoding: str | None, clusters: Sequence[str], *formulas: Any) -> Any:
    """Read the table of a model, whose selection equation comes first in `formulas`."""
    from selfselect.cli._tables import read_table
    from selfselect.posing import label_columns

    selected = str(formulas[0]).partition("~")[0].strip()
    named = dict(enumerate(formulas[1:])) if len(formulas) > 1 else {}
    labels = label_columns({"": formulas[0], **named}, chosen=selected, cluster=list(clusters))
    return read_table(data, encoding=encoding, labels=labels)


def way_of_clustering(clusters: Sequence[str]) -> Any:
    """Return the columns of clusters as the models take them."""
    return clusters[0] if len(clusters) == 1 else list(clusters) or None


def show(result: Any, shown: Mapping[str, Any]) -> int:
    """Print a result, write what was asked for, and return the exit code.

    `shown` are the options that `split_options` found.
    """
    from selfselect.cli._formats import render
    from selfselect.cli.main import NOT_CONVERGED

    if shown["test_noise"] is not None:
        result.normality_test(shown["test_noise"], seed=shown["seed"])
        result.heteroskedasticity_test(shown["test_noise"], seed=shown["seed"])
    click.echo(render(result, shown["form"], shown["level"], shown["intervals"]))
    if shown["save"]:
        result.save(shown["save"])
    if shown["verdict"]:
        made = result.verdict(shown["question"], level=shown["level"], seed=shown["seed"])
        click.echo("\n" + str(made))
    if shown["explain"]:
        click.echo("\n" + str(result.explain(level=shown["level"])))
    if shown["compare"]:
        click.echo("\n" + str(result.compare()))
    if shown["report"]:
        command = click.get_current_context().obj
        result.report(shown["report"], level=shown["level"], command=command)
    return 0 if result.converged else NOT_CONVERGED


def split_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell options of the model from those that say what is printed and written."""
    names = ("form", "level", "intervals", "test_noise", "explain", "verdict", "question",
             "compare", "save", "report")  # fmt: skip
    shown = {name: options.pop(name) for name in names}
    if shown["question"] is not None and not shown["verdict"]:
        raise click.UsageError("--question is what --verdict is on. Give --verdict too.")
    shown["seed"] = options["seed"]
    return options, shown

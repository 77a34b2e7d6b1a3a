"""`selfselect fit`: a model from a file and a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import click

from selfselect.cli._encoding import encoding_option
from selfselect.cli._engines import ENGINE_HELP, engine_named, rows_of, split_words
from selfselect.cli._options import covariance_option
from selfselect.options import (
    CovarianceOption,
    Intervals,
    Limits,
    Missing,
    MissingOutcome,
    WeightsKind,
)

__all__ = ["command", "number_of", "offset_columns", "pairs_of", "shared_terms"]

EPILOG = """\b
Examples:
  selfselect fit villagers.csv "income ~ height + weight" --chosen job
  selfselect fit villagers.csv "income ~ height" --chosen job --covariance robust --format csv
  selfselect fit wages.parquet --chosen occupation \\
      --equation white="log_wage ~ schooling + age" --equation blue="log_wage ~ age"
  selfselect fit couples.csv "income ~ age" --chosen worker --mix wife=husband:0.4
  selfselect fit prices.csv "price ~ size + age" --alternatives 3
  selfselect fit wages.csv "log_wage ~ schooling + age" --chosen sector --noise correlated \\
      --cost college="~ tuition" --missing-outcome silent
  selfselect fit market.csv --rule min --equation demand="q ~ rate + stock" \\
      --equation supply="q ~ rate + deposits" --report market.html
  selfselect fit auctions.csv "bid ~ distance" --case auction --alternatives bidder \\
      --chosen won --shared all
  selfselect fit "income ~ height + weight" rows/*.parquet --chosen job --save fit.json

\b
Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.command("fit", epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA]")
@click.option("--chosen", metavar="COLUMN", help="Column of the chosen alternative.")
@click.option(
    "--alternatives", metavar="K|COLUMN",
    help="How many alternatives there are, where no column says which was chosen; with --case, the "
    "column that names them.",
)  # fmt: skip
@click.option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula; repeat for each.",
)  # fmt: skip
@click.option(
    "--rule", type=click.Choice(["max", "min"]), default="max", show_default=True,
    help="Which outcome is observed.",
)  # fmt: skip
@click.option(
    "--mix", "mixes", multiple=True, metavar="ALTERNATIVE=OTHER:WEIGHT",
    help="Add a share of another's outcome before the largest is chosen; repeatable.",
)  # fmt: skip
@click.option(
    "--cost", "costs", multiple=True, metavar="ALTERNATIVE=COLUMN|NUMBER|~FORMULA",
    help="Cost of an alternative, known by column or number, or estimated by a formula such as "
    "'~ tuition'; repeatable.",
)  # fmt: skip
@click.option(
    "--available", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: was the alternative open to the row? Repeatable.",
)  # fmt: skip
@click.option(
    "--possible", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: may it be the chosen one, where --chosen is missing? Repeatable.",
)  # fmt: skip
@click.option(
    "--noise",
    type=click.Choice(["independent", "mixture", "student", "correlated", "shared-shock", "types"]),
    default="independent", show_default=True,
    help="Shape of the noise, and whether the alternatives of a row depend on each other.",
)  # fmt: skip
@click.option(
    "--types", "n_types", metavar="NUMBER",
    help="With --noise types: how many unobserved types there are, or 'bic'.",
)  # fmt: skip
@click.option(
    "--type-costs", is_flag=True, help="With --noise types: each type has its own costs.",
)  # fmt: skip
@click.option(
    "--panel", metavar="COLUMN",
    help="Column that says whose row it is: rows of a person share their type or shock.",
)  # fmt: skip
@click.option(
    "--case", metavar="COLUMN",
    help="Long data, one row per case and alternative: column of the cases. --alternatives is then "
    "the column of the alternatives, --chosen one of 0 or 1.",
)  # fmt: skip
@click.option(
    "--shared", multiple=True, metavar="TERM[=ALTERNATIVE[:NAME],...]",
    help="Coefficient that all alternatives (or those listed) share; 'all' for every one. "
    "Repeatable.",
)  # fmt: skip
@click.option(
    "--offset", "offsets", multiple=True, metavar="[ALTERNATIVE=]COLUMN",
    help="Column added to the mean with no coefficient; repeat by alternative.",
)  # fmt: skip
@click.option(
    "--scale", "scales", multiple=True, metavar="each|common|NUMBER|~FORMULA",
    help="Noise scale: 'each' (one per alternative; the default where --chosen is given), "
    "'common' (the default where it is not), a number, or a formula such as '~ age' of its "
    "logarithm. Repeat as ALTERNATIVE=... for a number or a formula each.",
)  # fmt: skip
@click.option("--weights", metavar="COLUMN", help="Row weights.")
@click.option(
    "--weights-kind", type=click.Choice(["frequency", "probability"]),
    help="Weights are numbers of identical rows, or correct for unequal sampling (robust errors).",
)  # fmt: skip
@covariance_option
@click.option(
    "--cluster", "clusters", multiple=True, metavar="COLUMN",
    help="Clusters of rows; implies clustered. Repeat to cluster in several ways.",
)  # fmt: skip
@click.option(
    "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
    help="What to do with rows that lack a covariate.",
)  # fmt: skip
@click.option(
    "--missing-outcome", type=click.Choice(["raise", "drop", "silent"]), default="raise",
    show_default=True,
    help="What to do with rows that lack the outcome; 'silent' keeps them for their choice.",
)  # fmt: skip
@click.option(
    "--outcome-between", nargs=2, metavar="LOW HIGH",
    help="Lowest and highest outcome of rows without one: columns, numbers, or '-' for no limit.",
)  # fmt: skip
@click.option(
    "--test-noise", type=int, metavar="SAMPLES",
    help="Test normality and constant variance by a parametric bootstrap of so many samples, such "
    "as 199, in place of the asymptotic tests.",
)  # fmt: skip
@click.option(
    "--checkpoint", metavar="FILE",
    help="Keep what is summed so far, so that the same command goes on after a kill; removed when "
    "the fit is done.",
)  # fmt: skip
@click.option("--engine", metavar="NAME", help=ENGINE_HELP)
@encoding_option
@click.option("--seed", type=int, help="Seed of everything random.")
@click.option("--level", default=0.95, show_default=True, help="Confidence level of intervals.")
@click.option(
    "--intervals", type=click.Choice(["wald", "profile"]), default="wald", show_default=True,
    help="Intervals from standard errors, or by profiles of the likelihood.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Say in a few sentences what the fit says.")
@click.option(
    "--verdict", is_flag=True,
    help="Fit other models too, and say how much of the answer is the data.",
)  # fmt: skip
@click.option(
    "--question", metavar="EXPRESSION",
    help="What --verdict is on: 'a:x - b:x', or 'b - a' for the effect of b instead of a.",
)  # fmt: skip
@click.option("--compare", is_flag=True, help="Put least squares beside the corrected estimates.")
@click.option("--save", metavar="FILE", help="Save the fit as JSON, for predict and show.")
@click.option("--report", metavar="FILE", help="Write everything into one HTML file.")
@click.option(
    "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "json", "latex", "markdown", "html", "csv"]),
    help="What to print.",
)  # fmt: skip
def command(
    words: Sequence[str],
    chosen: str | None,
    alternatives: str | None,
    equations: Sequence[str],
    rule: Literal["max", "min"],
    mixes: Sequence[str],
    costs: Sequence[str],
    available: Sequence[str],
    possible: Sequence[str],
    noise: str,
    n_types: str | None,
    type_costs: bool,
    panel: str | None,
    case: str | None,
    shared: Sequence[str],
    offsets: Sequence[str],
    scales: Sequence[str],
    weights: str | None,
    weights_kind: WeightsKind,
    covariance: CovarianceOption,
    clusters: Sequence[str],
    missing: Missing,
    missing_outcome: MissingOutcome,
    test_noise: int | None,
    outcome_between: tuple[str, str] | None,
    checkpoint: str | None,
    engine: str | None,
    encoding: str | None,
    seed: int | None,
    level: float,
    intervals: Intervals,
    explain: bool,
    verdict: bool,
    question: str | None,
    compare: bool,
    save: str | None,
    report: str | None,
    form: str,
) -> int:
    """Fit a model to DATA (CSV, Parquet or Arrow files, or a folder of them) by FORMULA.

    One file is read into memory. Several files, a folder or a pattern are read piece by piece, and
    may be larger than memory; --engine says otherwise. FORMULA, first or last, is for all
    alternatives, as in "income ~ height + weight"; give --equation instead for covariates of their
    own.
    """
    import selfselect as ss
    from selfselect.cli._formats import render
    from selfselect.cli._tables import refuse_inputs
    from selfselect.cli.main import NOT_CONVERGED
    from selfselect.posing import label_columns

    files, formula = split_words(words)
    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for every alternative.")
    if question is not None and not verdict:
        raise click.UsageError("--question is what --verdict is on. Give --verdict too.")
    for target in (save, report):
        refuse_inputs(target, *files)
    cost = {label: number_of(value) for label, value in pairs_of(costs, "--cost").items()}
    named: dict[str, Any] = {
        "chosen": chosen,
        "alternatives": _whole(alternatives) if case is None else alternatives,
        "case": case,
        "cluster": clusters[0] if len(clusters) == 1 else list(clusters) or None,
        "panel": panel,
    }
    formulas, scale = formula or pairs_of(equations, "--equation"), _scale(scales)
    texts = [*pairs_of(equations, "--equation").values(), formula, *scales]
    rows = rows_of(files, engine, encoding=encoding, labels=label_columns(texts, **named))
    limits: Limits = None
    if outcome_between is not None:
        lowest, highest = (None if one == "-" else number_of(one) for one in outcome_between)
        limits = (lowest, highest)
    result = ss.fit(
        formulas,
        rows,
        **named,
        available=pairs_of(available, "--available") or None,
        possible=pairs_of(possible, "--possible") or None,
        cost=None if mixes else cost or None,
        shared=shared_terms(shared),
        offset=offset_columns(offsets),
        rule=_mixed(mixes, rule, cost) if mixes else rule,
        noise=_noise(noise, scale, n_types, type_costs=type_costs),
        weights=weights,
        weights_kind=weights_kind,
        covariance=covariance,
        missing=missing,
        missing_outcome=missing_outcome,
        outcome_between=limits,
        checkpoint=checkpoint,
        engine=engine_named(engine, encoding if isinstance(rows, list) else None),
        seed=seed,
    )
    if test_noise is not None:
        result.normality_test(test_noise, seed=seed)
        result.heteroskedasticity_test(test_noise, seed=seed)
    click.echo(render(result, form, level, intervals))
    if save:
        # First: what is asked next may be refused, and the fit must not be lost.
        result.save(save)
    if verdict:
        click.echo("\n" + str(result.verdict(question, level=level, seed=seed)))
    if explain:
        click.echo("\n" + str(result.explain(level=level)))
    if compare:
        click.echo("\n" + str(result.compare()))
    if report:
        result.report(report, level=level, command=click.get_current_context().obj)
    return 0 if result.converged else NOT_CONVERGED


def pairs_of(entries: Sequence[str], option: str) -> dict[str, str]:
    """Read entries of the form ``alternative=value``."""
    pairs: dict[str, str] = {}
    for entry in entries:
        label, mark, value = entry.partition("=")
        if not mark or not label or not value:
            raise click.UsageError(f"{option} takes ALTERNATIVE=..., not {entry!r}.")
        if label in pairs:
            raise click.UsageError(f"{option} names {label!r} twice.")
        pairs[label] = value
    return pairs


def _scale(entries: Sequence[str]) -> Any:
    """Read one scale for all alternatives, or one by alternative; None where none is given."""
    if not entries:
        return None
    before = [entry.partition("~")[0].partition("=") for entry in entries]
    if len(entries) == 1 and not before[0][1]:
        return number_of(entries[0])
    return {label: number_of(value) for label, value in pairs_of(entries, "--scale").items()}


def _noise(name: str, scale: Any, n_types: str | None, *, type_costs: bool) -> Any:
    """Return the noise; None leaves it to the fit, which takes a scale that suits the data."""
    from selfselect.noises import NAMED, Types

    if name == "types":
        number: Any = 2 if n_types is None else n_types
        number = int(number) if str(number).isdecimal() else number
        given: dict[str, Any] = {} if scale is None else {"scale": scale}
        return Types(number, costs=type_costs, **given)
    if n_types is not None or type_costs:
        raise click.UsageError("--types and --type-costs go with --noise types.")

    if name == "independent" and scale is None:
        return None
    make = NAMED[name.replace("-", " ")]
    return make() if scale is None else make(scale=scale)


def shared_terms(entries: Sequence[str]) -> Any:
    """Read ``all``, ``distance``, ``distance=a,b`` and ``distance=a:distance_a,b:distance_b``."""
    if not entries:
        return None
    if list(entries) == ["all"]:
        return "all"
    shared: dict[str, Any] = {}
    for entry in entries:
        term, mark, listed = entry.partition("=")
        members = [one.partition(":") for one in listed.split(",")]
        if mark and not all(label for label, _, _ in members):
            raise click.UsageError(f"--shared takes TERM=ALTERNATIVE,..., not {entry!r}.")
        shared[term] = {label: name or term for label, _, name in members} if mark else "all"
    return shared


def offset_columns(entries: Sequence[str]) -> Any:
    """Read one column for all alternatives, or one by alternative."""
    if len(entries) == 1 and "=" not in entries[0]:
        return entries[0]
    return pairs_of(entries, "--offset") or None


def _whole(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise click.UsageError(
            f"Invalid value for '--alternatives': {text!r} is not a valid integer. A column that "
            "names alternatives is for long data, with --case."
        )
    return int(text)


def _mixed(mixes: Sequence[str], rule: str, cost: dict[str, float | str]) -> Any:
    """Return the rule that adds shares of other outcomes to each alternative's own."""
    import selfselect as ss

    if rule != "max":
        raise click.UsageError("--mix is for --rule max: the largest mixture is chosen.")
    shares: dict[str, dict[str, float]] = {}
    for entry in mixes:
        label, mark, rest = entry.partition("=")
        other, colon, weight = rest.rpartition(":")
        if not (mark and colon and label and other) or isinstance(number_of(weight), str):
            raise click.UsageError(f"--mix takes ALTERNATIVE=OTHER:WEIGHT, not {entry!r}.")
        shares.setdefault(label, {})[other] = float(weight)
    return ss.rules.LinearArgmax(shares, cost=cost or None)


def number_of(text: str) -> float | str:
    """Return a number where a text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text

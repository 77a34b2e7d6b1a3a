"""What commands fit: models, and models with a selection equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from selfselect.cli._options import (
    available_option,
    chosen_option,
    cluster_option,
    clusters_of,
    cost_option,
    covariance_option,
    engine_named,
    equation_option,
    formulas_of,
    limits_of,
    missing_options,
    number_of,
    offset_columns,
    offset_option,
    outcome_between_option,
    pairs_of,
    possible_option,
    rows_of,
    rows_options,
    rule_option,
    shared_option,
    shared_terms,
    split_words,
    tell_formulas,
    together,
    weights_options,
)
from selfselect.cli._show import printing_options
from selfselect.cli._streams import say

# What `fit` and the commands that fit for another purpose share: the model, and its rows.


model_options = together(
    click.argument("words", nargs=-1, required=True, metavar="DATA... [FORMULA]"),
    chosen_option,
    click.option(
        "--alternatives", metavar="K|COLUMN",
        help="How many alternatives there are, where no column says which was chosen; with --case, "
        "the column that names them.",
    ),
    equation_option,
    rule_option,
    click.option(
        "--mix", "mixes", multiple=True, metavar="ALTERNATIVE=OTHER:WEIGHT",
        help="Add a share of another's outcome before the largest is chosen; repeatable.",
    ),
    cost_option,
    available_option,
    possible_option,
    click.option(
        "--panel", metavar="COLUMN",
        help=(
            "Column that identifies the person of each row: rows of a person share their type or "
            "shock."
        ),
    ),
    click.option(
        "--case", metavar="COLUMN",
        help="Long data, one row per case and alternative: column of the cases. --alternatives is "
        "then the column of the alternatives, --chosen one of 0 or 1.",
    ),
    shared_option,
    offset_option,
    weights_options,
    cluster_option,
    missing_options,
    outcome_between_option,
    rows_options,
)  # fmt: skip

noise_options = together(
    click.option(
        "--noise",
        type=click.Choice(
            ["independent", "mixture", "student", "correlated", "shared-shock", "types"]
        ),
        default="independent", show_default=True,
        help="Shape of the noise, and whether the alternatives of a row depend on each other.",
    ),
    click.option(
        "--types", "n_types", metavar="NUMBER",
        help="With --noise types: how many unobserved types there are, or 'bic'.",
    ),
    click.option(
        "--type-costs", is_flag=True, help="With --noise types: each type has its own costs.",
    ),
    click.option(
        "--scale", "scales", multiple=True, metavar="each|common|NUMBER|~FORMULA",
        help="Noise scale: 'each' (one per alternative; the default where --chosen is given), "
        "'common' (the default where it is not), a number, or a formula such as '~ age' of its "
        "logarithm. Repeat as ALTERNATIVE=... for a number or a formula each.",
    ),
)  # fmt: skip


def model_of(
    *,
    words: Sequence[str],
    alternatives: str | None,
    equations: Sequence[str],
    rule: str,
    mixes: Sequence[str],
    costs: Sequence[str],
    available: Sequence[str],
    possible: Sequence[str],
    case: str | None,
    shared: Sequence[str],
    offsets: Sequence[str],
    clusters: Sequence[str],
    outcome_between: tuple[str, str] | None,
    engine: str | None,
    encoding: str | None,
    scales: Sequence[str] = (),
    **others: Any,
) -> dict[str, Any]:
    """Return what options say as arguments of `selfselect.fit`, `formula` and `data` among them.

    `others` are handed on as they are.
    """
    from selfselect.posing import label_columns

    files, formula = split_words(words)
    formulas = formulas_of(formula, equations)
    cost = {label: number_of(value) for label, value in pairs_of(costs, "--cost").items()}
    named: dict[str, Any] = {
        "chosen": others.pop("chosen"),
        "alternatives": _whole(alternatives) if case is None else alternatives,
        "case": case,
        "cluster": clusters_of(clusters),
        "panel": others.pop("panel"),
    }
    texts = [formula, *pairs_of(equations, "--equation").values(), *scales]
    rows = rows_of(files, engine, encoding=encoding, labels=label_columns(texts, **named))
    return {
        "formula": formulas,
        "data": rows,
        **named,
        "available": pairs_of(available, "--available") or None,
        "possible": pairs_of(possible, "--possible") or None,
        "cost": None if mixes else cost or None,
        "shared": shared_terms(shared),
        "offset": offset_columns(offsets),
        "rule": _mixed(mixes, rule, cost) if mixes else rule,
        "outcome_between": limits_of(outcome_between),
        "engine": engine_named(engine, encoding if isinstance(rows, list) else None),
        **others,
    }


def noise_of(options: dict[str, Any]) -> Any:
    """Take the noise out of options; None leaves it to the fit, which takes a scale that suits."""
    from selfselect.noises import NAMED, Types

    noise, scale = options.pop("noise"), _scale(options["scales"])
    n_types, type_costs = options.pop("n_types"), options.pop("type_costs")
    if noise == "types":
        whole = n_types is not None and n_types.isdecimal() and int(n_types) > 0
        if not (whole or n_types in (None, "bic")):
            raise click.UsageError(
                f"--types takes a whole number of at least 1, or 'bic', not {n_types!r}."
            )
        number: Any = int(n_types) if whole else n_types or 2
        given: dict[str, Any] = {} if scale is None else {"scale": scale}
        return Types(number, costs=type_costs, **given)
    if n_types is not None or type_costs:
        raise click.UsageError("--types and --type-costs go with --noise types.")
    if noise == "independent" and scale is None:
        return None
    make = NAMED[noise.replace("-", " ")]
    return make() if scale is None else make(scale=scale)


def _scale(entries: Sequence[str]) -> Any:
    """Read one scale for all alternatives, or one by alternative; None where none is given."""
    if not entries:
        return None
    before = [entry.partition("~")[0].partition("=") for entry in entries]
    if len(entries) == 1 and not before[0][1]:
        return number_of(entries[0])
    return {label: number_of(value) for label, value in pairs_of(entries, "--scale").items()}


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


# What both models with a selection equation share: options, rows, and the order of formulas.


shared_options = together(
    click.option(
        "--method", type=click.Choice(["ml", "two-step"]), default="ml", show_default=True,
        help="Maximum likelihood, or Heckman's two steps.",
    ),
    click.option(
        "--start", type=click.Choice(["search", "two-step"]), default="search", show_default=True,
        help="Look for the best of several optima, or climb from the two-step estimate alone.",
    ),
    weights_options,
    covariance_option,
    cluster_option,
    missing_options,
    click.option(
        "--outcome-between", nargs=2, metavar="LOW HIGH",
        help="Lowest and highest outcome of selected rows without one: columns, numbers, or '-' "
        "for no limit.",
    ),
    click.option(
        "--endogenous", multiple=True, metavar="COVARIATE=INSTRUMENTS",
        help="Covariate that is correlated with the noise, and the right side that holds its "
        "instruments, such as 'educ=~ distance'; repeatable.",
    ),
    rows_options,
    printing_options,
)  # fmt: skip


def read_model(
    words: Sequence[str],
    options: dict[str, Any],
    equations: Sequence[str] = (),
    *,
    by_column: bool = True,
) -> tuple[Any, str]:
    """Return the outcome's formula, or None, and the selection's; read rows into `options`.

    `words` are files, then the formula of outcomes where there are no `equations`, then that of
    the selection. `by_column` says that the selection's left side is a column of alternatives: a
    selection that comes before the formula is then told by its fewer values, with a notice.
    """
    from selfselect.posing import label_columns

    files, formulas = tell_formulas(words)
    wanted = 1 if equations else 2
    if len(formulas) != wanted:
        given = ", ".join(map(repr, formulas)) or "none"
        raise click.UsageError(
            "Give either a FORMULA or --equation for every alternative, then the formula of the "
            f"selection. Formulas given after DATA: {given}."
        )
    if "endogenous" in options:
        options["endogenous"] = pairs_of(options["endogenous"], "--endogenous") or None
        options["outcome_between"] = limits_of(options["outcome_between"])
    clusters, engine = options.pop("clusters"), options.pop("engine")
    encoding = options.pop("encoding")

    def read(selection: str) -> Any:
        chosen = selection.partition("~")[0].strip()
        named = label_columns([*formulas, *equations], chosen=chosen, cluster=list(clusters))
        return rows_of(files, engine, encoding=encoding, labels=named)

    rows = read(formulas[-1])
    if wanted == 2 and by_column and _has_fewer_values(rows, *formulas):
        say(
            "notice: in all commands the formula of outcomes comes first, then that of the "
            "selection."
        )
        formulas.reverse()
        rows = rows if files == ["-"] else read(formulas[-1])
    options["cluster"] = clusters_of(clusters)
    options["engine"] = engine_named(engine, encoding if isinstance(rows, list) else None)
    options["data"] = rows
    return formulas[0] if wanted == 2 else None, formulas[-1]


def _has_fewer_values(rows: Any, first: str, second: str) -> bool:
    """Say whether the left side of the first formula has fewer values than that of the second."""
    from selfselect.data.files import open_files

    names = [one.partition("~")[0].strip() for one in (first, second)]
    if isinstance(rows, list):
        files = open_files(rows)
        if not all(name in files.names for name in names):
            return False
        rows = files.head(names)
    if not all(name in rows for name in names):
        return names[0] in rows
    return bool(rows[names[0]].nunique() < rows[names[1]].nunique())

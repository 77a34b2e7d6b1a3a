"""`selfselect effects`: what follows from a saved fit, for the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from selfselect.cli._options import encoding_option, json_option, level_option, out_option, pairs_of
from selfselect.cli._show import in_order
from selfselect.options import Scale

PAIRS = ("treatment", "heterogeneity", "decompose", "gains")
"""What is asked of two alternatives."""

CHANGES = ("close", "subsidy", "quota")
"""What is asked of a change."""

SCALED = ("outcomes", "treatment", "heterogeneity", *CHANGES)
"""What can be asked of the level where a logarithm was modelled."""

METHODS = {
    "outcomes": "potential_outcomes",
    "chances": "choice_probabilities",
    "marginal": "marginal_effects",
    "treatment": "treatment_effects",
    "mte": "mte",
    "heterogeneity": "heterogeneity",
    "decompose": "decompose",
    "sorting": "sorting",
    "gains": "gains",
    "policy": "policy",
    **dict.fromkeys(CHANGES, "counterfactual"),
}
"""What can be asked, and the method of a fit that answers."""

EPILOG = """\b
Examples:
  selfselect effects fit.json villagers.csv --what treatment --to hunting --versus fishing
  selfselect effects fit.json villagers.csv --what subsidy --subsidy fishing=5 --json
  selfselect effects fit.json villagers.csv --what quota --quota fishing=0.3 --table moves --out -
"""


@click.command("effects", epilog=EPILOG)
@click.argument("fit")
@click.argument("data")
@click.option(
    "--what", type=click.Choice(list(METHODS)), default="outcomes", show_default=True,
    help="Mean outcomes by group; chances; marginal effects on chances; effects of TO instead of "
    "VERSUS; marginal treatment effects of a switching regression; how those who choose TO "
    "differ; the gap between TO and VERSUS decomposed; sorting; distribution of gains; who should "
    "be sent where; what closing, a subsidy or a quota does.",
)  # fmt: skip
@click.option("--to", help="Alternative, for treatment, heterogeneity, decompose and gains.")
@click.option("--versus", help="Alternative it is compared with.")
@click.option("--alternative", "closed", multiple=True, help="Alternative to close; repeatable.")
@click.option(
    "--subsidy", "subsidies", multiple=True, metavar="ALTERNATIVE=NUMBER",
    help="What is paid for choosing it, in units of the outcome; repeatable.",
)  # fmt: skip
@click.option(
    "--quota", "quotas", multiple=True, metavar="ALTERNATIVE=SHARE",
    help="Largest share of rows that may choose it.",
)  # fmt: skip
@click.option(
    "--rationing", type=click.Choice(["price", "lottery"]), default="price", show_default=True,
    help="Who gets the places of a quota.",
)  # fmt: skip
@click.option(
    "--table", default="outcomes", show_default=True,
    type=click.Choice(["outcomes", "shares", "moves"]),
    help="Which table of a change --out and --json write.",
)  # fmt: skip
@click.option(
    "--scale", default="model", show_default=True, type=click.Choice(["model", "level"]),
    help="For outcomes, treatment, heterogeneity and changes: as the formula's left side has it; "
    "or, where that is log(y), y itself, and per cent.",
)  # fmt: skip
@encoding_option
@level_option
@out_option
@json_option
def command(
    fit: str,
    data: str,
    what: str,
    to: str | None,
    versus: str | None,
    closed: Sequence[str],
    subsidies: Sequence[str],
    quotas: Sequence[str],
    rationing: Any,
    table: str,
    scale: Scale,
    encoding: str | None,
    level: float,
    out: str | None,
    as_json: bool,
) -> int:
    """Compute an effect of the saved FIT over the rows of DATA."""
    from selfselect.cli._show import read_saved, with_rows
    from selfselect.cli._tables import check_out, show_table

    fit, data = in_order(fit, data)
    check_out(out, fit, data)
    result, rows = read_saved(fit, data, encoding=encoding)
    if what in PAIRS and (to is None or versus is None):
        raise click.UsageError(f"--what {what} needs two alternatives: --to A --versus B.")
    if scale != "model" and what not in SCALED:
        raise click.UsageError(
            f"--what {what} has no --scale: leave it out. It is for {', '.join(SCALED)}."
        )
    if not hasattr(result, METHODS[what]):
        raise click.UsageError(
            f"--what {what} is not of a multinomial switching regression. It has outcomes and "
            "treatment."
        )
    _refuse_what_is_not_asked(what, click.get_current_context())
    changes: dict[str, Any] = {
        "close": list(closed),
        "subsidy": _numbers(subsidies, "--subsidy"),
        "quota": _numbers(quotas, "--quota"),
    }
    if what in CHANGES:
        if not changes[what]:
            name = {"close": "--alternative A", "subsidy": "--subsidy A=NUMBER"}
            raise click.UsageError(
                f"--what {what} needs at least one {name.get(what, '--quota A=SHARE')}."
            )
        given = {name: one for name, one in changes.items() if one}
        changed = result.counterfactual(
            **given, rationing=rationing, base=rows, level=level, scale=scale
        )
        part = getattr(changed, table)
        if part is None:
            raise click.UsageError(f"This change has no table of {table}.")
        show_table(changed, part.table, out, as_json=as_json)
        return 0
    ask: dict[str, Any] = {
        "outcomes": lambda: result.potential_outcomes(rows, level=level, scale=scale),
        "chances": lambda: result.choice_probabilities(rows, level=level),
        "marginal": lambda: result.marginal_effects(data=rows, level=level),
        "treatment": lambda: result.treatment_effects(to, versus, rows, level=level, scale=scale),
        "mte": lambda: result.mte(rows, level=level),
        "heterogeneity": lambda: result.heterogeneity(to, versus, rows, level=level, scale=scale),
        "decompose": lambda: with_rows(result, rows).decompose(to, versus, level=level),
        "sorting": lambda: result.sorting(rows, level=level),
        "gains": lambda: result.gains(to, versus, rows, level=level),
        "policy": lambda: result.policy(rows, level=level),
    }
    found = ask[what]()
    show_table(found, found.rows if what == "policy" else found.table, out, as_json=as_json)
    return 0


def _refuse_what_is_not_asked(what: str, context: click.Context) -> None:
    """Refuse options that mean nothing for what is asked, rather than answer without them."""
    meant = {
        "to": PAIRS,
        "versus": PAIRS,
        "closed": CHANGES,
        "subsidies": CHANGES,
        "quotas": CHANGES,
        "rationing": ("quota", "close", "subsidy"),
        "table": CHANGES,
    }
    for option in context.command.params:
        name = str(option.name)
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if name in meant and given and what not in meant[name]:
            raise click.UsageError(
                f"{option.opts[0]} is not for --what {what}. It is for {', '.join(meant[name])}."
            )


def _numbers(entries: Sequence[str], option: str) -> dict[str, float] | None:
    """Read numbers by alternative."""
    found: dict[str, float] = {}
    for label, text in pairs_of(entries, option).items():
        try:
            found[label] = float(text)
        except ValueError as error:
            raise click.UsageError(f"{option} takes ALTERNATIVE=NUMBER, not {text!r}.") from error
    return found or None

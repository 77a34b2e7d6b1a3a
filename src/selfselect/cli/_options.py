"""Options of several commands: of the model, of files, of engines."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from selfselect.cli._streams import is_there, say

# The option that says how CSV files are encoded.


def _check_encoding(ctx: click.Context, option: click.Option, value: str | None) -> str | None:
    del ctx, option
    try:
        return value if value is None else codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(
            f"{value!r} is not known. Use utf-8, cp1252, latin-1, utf-16 or another one that "
            "Python knows."
        ) from error


def encoding_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that reads CSV files the option --encoding."""
    return click.option(
        "--encoding",
        metavar="NAME",
        callback=_check_encoding,
        help="How CSV files are encoded, such as cp1252 or latin-1; UTF-8 if left out.",
    )(command)


# Where the shell reads rows from, and where sums over them are done.


ENGINE_HELP = (
    "Where sums over rows are done: memory, parquet (files are read piece by piece), torch or "
    "torch:DEVICE, dask or dask:ADDRESS. Left out, one file is read into memory, and several are "
    "read piece by piece."
)

READ_FILES = ("parquet", "dask")
"""Engines that read files themselves."""

ENGINES = {"memory": "Memory", "parquet": "Parquet", "torch": "Torch", "dask": "Dask"}


def engine_named(text: str | None, encoding: str | None = None) -> Any:
    """Return the engine a user names, such as ``parquet`` or ``torch:cuda``; None for none.

    `encoding` is that of CSV files, for the engines that read files.
    """
    from selfselect import engines

    if text is None:
        return engines.Parquet(encoding=encoding) if encoding else None

    name, mark, detail = text.partition(":")
    if name not in ENGINES:
        raise click.UsageError(
            f"Invalid value for '--engine': there is no {name!r}. Use {', '.join(ENGINES)}."
        )
    make = getattr(engines, ENGINES[name], None)
    if make is None:
        raise click.UsageError(f"This version of selfselect has no engine {name!r}.")
    if mark and name not in ("torch", "dask"):
        raise click.UsageError(f"The engine {name!r} takes nothing after a colon.")
    said: dict[str, Any] = {"encoding": encoding} if encoding and name in READ_FILES else {}
    return make(detail, **said) if mark else make(**said)


def split_words(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Tell files, of which a pattern of the shell makes many, from a formula."""
    files, formulas = tell_formulas(words)
    if len(formulas) > 1:
        raise click.UsageError(f"Several formulas are given: {', '.join(map(repr, formulas))}.")
    return files, formulas[0] if formulas else None


def tell_formulas(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return files and formulas; a notice says so where a formula comes before a file."""
    are_formulas = ["~" in word and not is_there(word) for word in words]
    files = [word for word, is_one in zip(words, are_formulas, strict=True) if not is_one]
    formulas = [word for word, is_one in zip(words, are_formulas, strict=True) if is_one]
    if not files:
        raise click.UsageError("No file is given.")
    if are_formulas != sorted(are_formulas):
        say("notice: in all commands DATA comes first, then formulas.")
    return files, formulas


def rows_of(
    files: Sequence[str],
    engine: str | None,
    *,
    encoding: str | None = None,
    labels: Sequence[Any] = (),
) -> Any:
    """Return one file as a table, and several, a folder or a pattern as what engines read.

    `encoding` and `labels` are as in `read_table`.
    """
    whole = engine is None or engine.partition(":")[0] in ("memory", "torch")
    if whole and len(files) == 1 and not os.path.isdir(files[0]) and not _is_pattern(files[0]):
        from selfselect.cli._tables import read_table

        return read_table(files[0], encoding=encoding, labels=labels)
    if whole and engine is not None and encoding is not None:
        from selfselect.data.files import open_files

        return open_files(list(files), encoding=encoding)
    return list(files)


def is_folder(out: str | None) -> bool:
    """Say whether predictions are to be written into a folder, not one file."""
    return out is not None and (out.endswith("/") or not Path(out).suffix or Path(out).is_dir())


def _is_pattern(word: str) -> bool:
    return any(mark in word for mark in "*?[") and not is_there(word)


# Options that several commands have, and how what they say is read.


KINDS = (
    "observed", "robust", "clustered", "bootstrap", "HC0", "HC1", "opg", "nonrobust", "cluster",
)  # fmt: skip

FORMATS = ("text", "json", "latex", "markdown", "html", "csv")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Return one decorator that gives a command several options, in the order of its help."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        """Give a command these options."""
        for one in reversed(options):
            command = one(command)
        return command

    return give


def option(*names: str, **given: Any) -> Decorator:
    """Return a decorator that gives a command an option, as `click.option` does."""
    give: Decorator = click.option(*names, **given)
    give.__doc__ = given["help"]
    return give


covariance_option = option(
    "--covariance", default="observed", show_default=True,
    type=click.Choice(KINDS, case_sensitive=False), help="How standard errors are computed.",
)  # fmt: skip
chosen_option = option("--chosen", metavar="COLUMN", help="Column of the chosen alternative.")
equation_option = option(
    "--equation", "equations", multiple=True, metavar="ALTERNATIVE=FORMULA",
    help="One alternative's own formula; repeat for each.",
)  # fmt: skip
rule_option = option(
    "--rule", type=click.Choice(["max", "min"]), default="max", show_default=True,
    help="Which outcome is observed.",
)  # fmt: skip
cost_option = option(
    "--cost", "costs", multiple=True, metavar="ALTERNATIVE=COLUMN|NUMBER|~FORMULA",
    help="Cost of an alternative, known by column or number, or estimated by a formula such as "
    "'~ tuition'; repeatable.",
)  # fmt: skip
available_option = option(
    "--available", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: was the alternative open to the row? Repeatable.",
)  # fmt: skip
possible_option = option(
    "--possible", multiple=True, metavar="ALTERNATIVE=COLUMN",
    help="Column of 0 or 1: may it be the chosen one, where --chosen is missing? Repeatable.",
)  # fmt: skip
shared_option = option(
    "--shared", multiple=True, metavar="TERM[=ALTERNATIVE[:NAME],...]",
    help="Coefficient that all alternatives (or those listed) share; 'all' for every one. "
    "Repeatable.",
)  # fmt: skip
offset_option = option(
    "--offset", "offsets", multiple=True, metavar="[ALTERNATIVE=]COLUMN",
    help="Column added to the mean with no coefficient; repeat by alternative.",
)  # fmt: skip
weights_options = together(
    option("--weights", metavar="COLUMN", help="Row weights."),
    option(
        "--weights-kind", type=click.Choice(["frequency", "probability"]),
        help="Weights are numbers of identical rows, or correct for unequal sampling (robust "
        "errors).",
    ),
)  # fmt: skip
cluster_option = option(
    "--cluster", "clusters", multiple=True, metavar="COLUMN",
    help="Clusters of rows; implies clustered. Repeat to cluster in several ways.",
)  # fmt: skip
missing_options = together(
    option(
        "--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
        help="What to do with rows that lack a covariate.",
    ),
    option(
        "--missing-outcome", type=click.Choice(["raise", "drop", "silent"]), default="raise",
        show_default=True,
        help="What to do with rows that lack the outcome; 'silent' keeps them for their choice.",
    ),
)  # fmt: skip
outcome_between_option = option(
    "--outcome-between", nargs=2, metavar="LOW HIGH",
    help="Lowest and highest outcome of rows without one: columns, numbers, or '-' for no limit.",
)  # fmt: skip
engine_option = option("--engine", metavar="NAME", help=ENGINE_HELP)
seed_option = option("--seed", type=int, help="Seed of everything random.")
level_option = option(
    "--level", type=float, default=0.95, show_default=True, help="Confidence level of intervals."
)
format_option = option(
    "--format", "form", default="text", show_default=True, type=click.Choice(FORMATS),
    help="What to print.",
)  # fmt: skip
json_option = option(
    "--json", "as_json", is_flag=True,
    help="Print one JSON object per line and row of the table, for programs.",
)  # fmt: skip
out_option = option(
    "--out", metavar="FILE",
    help="CSV or Parquet file for the table, '-' for CSV on standard output; else a page is "
    "printed.",
)  # fmt: skip
rows_options = together(engine_option, encoding_option, seed_option)


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


def formulas_of(formula: str | None, equations: Sequence[str]) -> Any:
    """Return one formula, or those of --equation by alternative; exactly one kind is given."""
    if bool(formula) == bool(equations):
        raise click.UsageError("Give either a FORMULA or --equation for every alternative.")
    return formula or pairs_of(equations, "--equation")


def clusters_of(clusters: Sequence[str]) -> Any:
    """Return the columns of clusters as functions take them."""
    return clusters[0] if len(clusters) == 1 else list(clusters) or None


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


def number_of(text: str) -> float | str:
    """Return a number where a text is one, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def limits_of(pair: tuple[str, str] | None) -> Any:
    """Return a pair of limits as functions take it; '-' stands for none."""
    return pair and tuple(None if one == "-" else number_of(one) for one in pair)

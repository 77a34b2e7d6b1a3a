"""The shell around a command: streams, the terminal, and how options are spelled there."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from selfselect.errors import DataError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Standard input and output in the place of files: ``-``.


STANDARD = "-"
"""Stands for standard input where a file is read, for standard output where one is written."""


def standard_input() -> io.BytesIO:
    """Return all of standard input; it can be read more than once then."""
    return io.BytesIO(sys.stdin.buffer.read())


def refuse_twice(*paths: str | None, what: str = "input") -> None:
    """Refuse ``-`` for two files."""
    if list(paths).count(STANDARD) > 1:
        raise click.UsageError(f"Two files are '-', but there is one standard {what}. Name a file.")


def is_there(path: str) -> bool:
    """Say whether there is such a file; what is too long for a name, as formulas are, is none."""
    return os.path.exists(path)


def refuse_missing(path: str) -> None:
    """Refuse a file that is not there; name the one of its folder that is spelt most alike."""
    source = Path(path)
    if path == STANDARD or is_there(path):
        return
    near: list[str] = []
    with suppress(OSError):
        near = get_close_matches(source.name, [one.name for one in source.parent.iterdir()], n=1)
    hint = f" Did you mean {str(source.with_name(near[0]))!r}?" if near else ""
    raise DataError(f"There is no file {path!r}.{hint}")


def read_fit(path: str) -> FitResult:
    """Read a saved fit from a file, or from standard input."""
    import selfselect as ss

    refuse_missing(path)
    if path != STANDARD:
        return ss.load(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "standard input"
        copy.write_bytes(standard_input().getvalue())
        return ss.load(copy)


def write_file(path: str, write: Callable[[Any], Any], *, ending: str) -> None:
    """Have `write` make a file, or write what it makes to standard output.

    `ending` is that of the file on the way to standard output.
    """
    if path != STANDARD:
        write(path)
        return
    with TemporaryDirectory() as folder:
        made = Path(folder) / f"output{ending}"
        write(made)
        click.echo(made.read_bytes(), nl=False)


# Terminals: how many columns they have, and pages that fit.


@contextmanager
def on_terminal(*, err: bool = False) -> Iterator[None]:
    """Have pages fit the terminal that standard output, or standard error, is."""
    from selfselect.report.page import narrowed

    with narrowed(_columns_of(sys.stderr if err else sys.stdout)):
        yield


def say(sentence: str) -> None:
    """Write a sentence to standard error, folded where that is a narrow terminal."""
    from selfselect.report.page import fold
    from selfselect.visible import visible

    with on_terminal(err=True):
        click.echo(fold(visible(sentence)), err=True)


def _columns_of(stream: Any) -> int | None:
    """Return the columns of a terminal, as COLUMNS or it says; None for all other streams."""
    if stream is None or not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


# Sentences of the library in the spelling of the shell: ``--missing-outcome drop``.


VALUE = (
    r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^{}]*\}|"
    r"(?:selfselect\.)?engines\.\w+\([^)]*\)|[\w.]+(?<!\.)"
)

COMMANDS = {
    "fit": "fit",
    "switching": "switching",
    "sample_selection": "selection",
    "multinomial_switching": "multinomial",
    "choose_noise": "choose-noise",
    "choose_alternatives": "choose",
}
"""Functions of the library that are commands of the shell."""

EQUATIONS = "--equation ALTERNATIVE=FORMULA for each"

CLOSE = "--what close --alternative"
"""How the shell closes alternatives, in the one command that does."""

TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _placeholder(option: click.Option) -> str:
    """Return what stands for the value of an option in its help."""
    if isinstance(option.type, click.Choice):
        return f"[{'|'.join(option.type.choices)}]"
    return option.metavar or option.type.name.upper()


def in_shell_spelling(sentence: str, command: click.Command | None) -> str:
    """Write options of a command as a shell has them, where a sentence names keywords."""
    options = {
        one[2:].replace("-", "_"): parameter
        for parameter in (command.params if command is not None else ())
        if isinstance(parameter, click.Option)
        for one in parameter.opts
        if one.startswith("--")
    }
    sentence = re.sub(
        rf"\bselfselect\.({'|'.join(COMMANDS)})\b(?:\(\)|(?!\())",
        lambda found: f"selfselect {COMMANDS[found.group(1)]}",
        sentence,
    )
    if not options:
        return sentence
    names = "|".join(sorted(options, key=len, reverse=True))

    def with_value(found: re.Match[str]) -> str:
        name, value = found.group(1), found.group(2)
        option, spelt = options[name], "--" + name.replace("_", "-")
        if option.is_flag:
            return spelt if value == "True" else found.group(0)
        if "..." in value or value in ("True", "column", "'column'"):
            return f"{spelt} {_placeholder(option)}"
        return spelt + "".join(f" {one}" for one in _values(value, spelt))

    said = re.sub(rf"(?<![\w-])({names})=({VALUE})", with_value, sentence)
    if "alternative" in options:
        said = re.sub(
            rf"(?<![\w-])close=({VALUE})",
            lambda found: " ".join([CLOSE, *_values(found.group(1), "--alternative")]),
            said,
        )
    said = re.sub(rf"(?<![\w-])({names})=(?![\w'\"\[{{=])", _option, said)
    said = re.sub(rf"`({names})`", _option, said)
    # In double quotes a shell runs what stands between backticks.
    said = said.replace(
        "go in backticks: `", "go in backticks, and the formula in single quotes: `"
    )
    if "equation" in options:
        said = re.sub(r"a dict (with a formula per alternative|of formulas)", EQUATIONS, said)
    return said


def _option(found: re.Match[str]) -> str:
    return "--" + found.group(1).replace("_", "-")


def _values(value: str, spelt: str) -> list[str]:
    """Return what follows an option; of several values each has the option before it."""
    engine = re.fullmatch(r"(?:selfselect\.)?engines\.(\w+)\((.*)\)", value)
    if engine is not None:
        detail = "".join(one or other for one, other in TEXT.findall(engine.group(2)))
        return [engine.group(1).lower() + (f":{detail}" if detail else "")]
    texts = [one or other for one, other in TEXT.findall(value)]
    if value.startswith("{"):
        pairs = re.findall(r"('[^']*'|\w+): ('[^']*'|-?[\w.]+)", value)
        made = [shlex.quote(f"{key.strip(chr(39))}={one.strip(chr(39))}") for key, one in pairs]
    elif value.startswith("["):
        made = [shlex.quote(one) for one in texts]
    else:
        made = [shlex.quote(texts[0]) if texts else value]
    return [made[0], *(f"{spelt} {one}" for one in made[1:])] if made else [value]

"""The command `selfselect`: one subcommand per file, loaded when it is called."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

import click

UNEXPECTED, BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 1, 2, 3, 130

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO)
"""Errors of devices that are full, closed or gone."""


class _Formatter(click.HelpFormatter):
    """Help whose lists of choices fit the terminal."""

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        room = max(self.width - self.current_indent, col_max)
        folded = [("\n".join(self._lines(first, room)), second) for first, second in rows]
        super().write_dl(folded, col_max, col_spacing)

    def _lines(self, first: str, room: int) -> list[str]:
        """Begin a new line between two choices where one would be too long."""
        lines = [""]
        for part in re.split(r"(?<=\|)", first):
            if lines[-1] and len(lines[-1] + part) > room:
                lines.append(" " * (self.current_indent + 4))
            lines[-1] += part
        return lines


class _Context(click.Context):
    """What a command runs in."""

    formatter_class = _Formatter


class _Lazy(click.Group):
    """A group whose commands are imported only when they run, so that --help is instant."""

    commands_help: ClassVar[dict[str, str]] = {
        "fit": "Fit a model to CSV or Parquet files.",
        "selection": "Fit a sample-selection model (Heckman, tobit-2).",
        "switching": "Fit an endogenous switching regression (tobit-5).",
        "multinomial": "Fit outcomes chosen by a multinomial logit (selmlog).",
        "bootstrap": "Fit a model with bootstrap standard errors.",
        "bounds": "Bound outcomes by the rule alone, for any noise.",
        "choose": "Choose the number of alternatives where the choice was not recorded.",
        "choose-noise": "Fit a model under several noises, and compare the answers.",
        "predict": "Predict for new rows with a saved fit.",
        "effects": "Effects of a saved fit, with standard errors.",
        "plot": "Plot a saved fit.",
        "explore": "Write an interactive page with sliders for a saved fit.",
        "show": "Print a saved fit.",
        "simulate": "Write simulated data, with the truth on standard error.",
        "demo": "Simulate the village of hunters and fishers, fit it, draw it.",
        "completion": "Print a shell's completion script.",
        "man": "Print the manual page.",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands_help)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self.commands_help:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = import_module(f"selfselect.cli.{module}").command
        command.context_class = _Context
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands_help and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.commands_help, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " See selfselect --help."
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(BAD_INPUT)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.commands_help.items()))


EPILOG = """\b
Examples:
  selfselect simulate village --out villagers.csv
  selfselect fit villagers.csv "income ~ height + weight" --chosen job --save fit.json
  selfselect predict fit.json villagers.csv --kind chance

Exit codes: 0 the fit converged, 2 bad input, 3 the fit did not converge.
"""


@click.group(cls=_Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="selfselect")
def cli() -> None:
    """Linear regression under self-selection bias.

    Each row has one outcome per alternative and only the chosen one was recorded. Every
    alternative's equation is recovered, with standard errors.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors are one sentence on standard error, never a traceback."""
    words = sys.argv[1:] if arguments is None else arguments

    def show_warning(message: Any, *_: Any, **__: Any) -> None:
        _say(f"warning: {_spelt(message, words)}")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            typed = shlex.join(["selfselect", *words])
            code = cli.main(arguments, prog_name="selfselect", standalone_mode=False, obj=typed)
    except click.exceptions.Abort:
        code = INTERRUPTED
    except click.ClickException as error:
        _say(f"error: {_refusal(error)}")
        code = BAD_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = _report(error, words)
    sys.exit(code if isinstance(code, int) else 0)


def _refusal(error: click.ClickException) -> str:
    """Return what click says of a bad line, with what was probably meant, the likeliest first."""
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        # Click puts them in the order of the alphabet.
        near = get_close_matches(error.option_name, error.possibilities, n=3, cutoff=0.0)
        said = error.message.rstrip(".")
        return f"{said}. Did you mean {' or '.join(map(repr, near))}?"
    # Choices that a missing argument has are listed one a line.
    said = " ".join(error.format_message().split())
    param = error.param if isinstance(error, click.BadParameter) else None
    typed = re.search(r"'([^']*)' is not one of", said)
    if param is not None and isinstance(param.type, click.Choice) and typed is not None:
        choices = [str(one) for one in param.type.choices]
        near = get_close_matches(typed[1].lower(), choices, n=1)
        return f"{said} Did you mean {near[0]!r}?" if near else said
    return said


def _say(sentence: str) -> None:
    """Write to standard error; where nothing can be written there, the exit code has to do."""
    from selfselect.cli._streams import say

    with suppress(OSError):
        say(sentence)


def _spelt(sentence: object, words: list[str]) -> str:
    """Write a sentence of the library with the options of the command that was typed."""
    from selfselect.cli._streams import in_shell_spelling

    named = next((word for word in words if word in _Lazy.commands_help), None)
    command = None if named is None else cli.get_command(click.Context(cli), named)
    return in_shell_spelling(str(sentence), command)


def _report(error: Exception, words: list[str]) -> int:
    from selfselect.errors import SelfSelectError

    if isinstance(error, SelfSelectError):
        _say(f"error: {_spelt(error, words)}")
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in UNWRITABLE:
        _say(f"error: The output cannot be written: {error.strerror}.")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        _say(f"error: There is not enough memory: {error}. Give fewer rows.")
        return BAD_INPUT
    if os.environ.get("SELFSELECT_DEBUG"):
        raise error
    _say(
        f"internal error: {type(error).__name__}: {error}. Please report it; with "
        "SELFSELECT_DEBUG=1 the traceback is shown."
    )
    return UNEXPECTED

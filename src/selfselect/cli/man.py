"""`selfselect man`: the manual page, made from the help of all commands."""

from __future__ import annotations

from typing import Any

import click

EPILOG = """\b
Examples:
  selfselect man | man -l -
  selfselect man > ~/.local/share/man/man1/selfselect.1
"""


@click.command("man", epilog=EPILOG)
def command() -> int:
    """Print the manual page of selfselect, for man."""
    from importlib.metadata import version

    from selfselect.cli.main import cli

    lines = [
        f'.TH SELFSELECT 1 "" "selfselect {version("selfselect")}" "User commands"',
        ".SH NAME",
        "selfselect \\- linear regression under self\\-selection bias",
        ".SH SYNOPSIS",
        ".B selfselect",
        "COMMAND [ARGUMENTS] [OPTIONS]",
        ".SH DESCRIPTION",
        *_paragraphs(cli.help),
        ".SH COMMANDS",
    ]
    above = click.Context(cli, info_name="selfselect")
    for name in cli.list_commands(above):
        one: Any = cli.get_command(above, name)
        lines += _command(one, click.Context(one, info_name=name, parent=above))
    lines += [".SH EXIT STATUS", "0 the fit converged, 2 bad input, 3 the fit did not converge."]
    click.echo("\n".join(lines))
    return 0


def _command(one: Any, ctx: click.Context) -> list[str]:
    usage = " ".join(one.collect_usage_pieces(ctx))
    lines = [f'.SS "{ctx.info_name}"', f".B selfselect {ctx.info_name}", _plain(usage), ".PP"]
    lines += _paragraphs(one.help)
    for parameter in one.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and record[1]:
            lines += [".TP", f".B {_plain(record[0])}", _plain(record[1])]
    if one.epilog:
        examples = one.epilog.replace("\b", "").strip().split("\n")
        lines += [".PP", ".nf", *map(_plain, examples), ".fi"]
    return lines


def _paragraphs(text: str | None) -> list[str]:
    return [_plain(line.strip()) or ".PP" for line in (text or "").strip().splitlines()]


def _plain(text: str) -> str:
    """Escape what troff would read as a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped

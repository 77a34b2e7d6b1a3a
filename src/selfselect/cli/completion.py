"""`selfselect completion`: completion of commands and options in a shell."""

from __future__ import annotations

import click

EPILOG = """\b
Put the line of your shell into its start file:
  bash (~/.bashrc):                  eval "$(selfselect completion bash)"
  zsh (~/.zshrc):                    eval "$(selfselect completion zsh)"
  fish (~/.config/fish/config.fish): selfselect completion fish | source
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print what makes SHELL complete commands and options of selfselect."""
    from click.shell_completion import get_completion_class

    from selfselect.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "selfselect", "_SELFSELECT_COMPLETE").source())
    return 0

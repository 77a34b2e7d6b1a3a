"""Sentences of the library in the spelling of the shell: ``--missing-outcome drop``."""

from __future__ import annotations

import re
import shlex

import click

__all__ = ["in_shell_spelling"]

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

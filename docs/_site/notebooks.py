"""Notebooks made from the examples: their text, a cell per part, and what the run gave."""

from __future__ import annotations

import ast
import base64
import json
import textwrap
from pathlib import Path
from typing import Any

__all__ = ["RUN", "cells_of", "folded", "write_notebook"]

WIDEST = 100
"""Letters in a line that the column of a page holds."""

RUN = """
import __future__, json, sys
import matplotlib
matplotlib.use("Agg")
names = {"__name__": "notebook"}
for cell in json.load(sys.stdin):
    flags = __future__.annotations.compiler_flag
    exec(compile(cell, "cell", "exec", flags, dont_inherit=True), names)
"""
"""Runs the cells that it reads, one after the other, in the working folder."""

LAST = 'main(Path("."))'


def cells_of(source: str) -> tuple[str, list[str]]:
    """Return the text of an example and its code, a cell for the imports and one per function.

    What only a script needs is left out: where the file is, the backend that draws to files, and
    the lines that run it, for which the last cell stands.
    """
    tree, lines = ast.parse(source), source.splitlines()
    nodes = tree.body[1:]
    starts = [
        min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1
        for node in nodes
    ]
    cells: list[list[str]] = [[]]
    for node, start, end in zip(nodes, starts, [*starts[1:], len(lines)], strict=True):
        text = "\n".join(lines[start:end]).rstrip()
        if isinstance(node, ast.If) or text.startswith("matplotlib.use("):
            continue
        if isinstance(node, ast.Assign) and "__file__" in text:
            text = f'{ast.unparse(node.targets[0])} = Path(".")'
        if isinstance(node, ast.FunctionDef) and cells[-1]:
            cells.append([])
        cells[-1].append(text)
        if isinstance(node, ast.FunctionDef):
            cells.append([])
    code = ["\n".join(cell) for cell in cells if cell]
    return ast.get_docstring(tree) or "", [*code, LAST]


def folded(printed: str) -> str:
    """Fold sentences that are longer than the column of the page; tables are narrower."""
    return "\n".join(
        textwrap.fill(line, WIDEST, subsequent_indent="  ") if len(line) > WIDEST else line
        for line in printed.split("\n")
    )


def write_notebook(
    target: Path, story: str, cells: list[str], printed: str, picture: Path | None
) -> None:
    """Write a notebook; what the run printed and drew stands below its last cell."""
    title, _, rest = story.partition("\n")
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}
    ]
    if picture is not None:
        png = base64.b64encode(picture.read_bytes()).decode("ascii")
        data = {"image/png": png, "text/plain": [f"<{picture.name}>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    head = {
        "cell_type": "markdown",
        "id": "story",
        "metadata": {},
        "source": f"# {title.rstrip('.')}\n\n{rest.strip()}".splitlines(keepends=True),
    }
    made = [
        {
            "cell_type": "code",
            "id": f"part-{number}",
            "execution_count": number,
            "metadata": {},
            "source": cell.splitlines(keepends=True),
            "outputs": outputs if number == len(cells) else [],
        }
        for number, cell in enumerate(cells, 1)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": [head, *made],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

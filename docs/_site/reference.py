"""The reference: one page per room with its public names, from their docstrings."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import selfselect

__all__ = ["build"]

FIRST = (
    "fit", "FitResult", "load", "sample_selection", "switching", "multinomial_switching",
    "MultinomialResult", "SelfSelectionRegressor", "choose_noise", "choose_alternatives", "bounds",
)  # fmt: skip
"""What most readers look for, in the order of its use; other names follow by alphabet."""
ROOMS = ("noises", "rules", "effects", "plots", "engines", "inference", "solvers")
"""Rooms likewise."""


def build(app: Any) -> None:
    """Write the pages of the reference."""
    folder = Path(app.srcdir) / "reference"
    # Pages of what is gone must go too.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    public = {name: getattr(selfselect, name) for name in selfselect.__all__}
    rooms = by_use((name for name, value in public.items() if isinstance(value, ModuleType)), ROOMS)
    doors = by_use((name for name in public if name not in rooms), FIRST)
    start = "Functions that fit models, and their results."
    pages = {"selfselect": _page("selfselect", start, public, doors)}
    lines = [f"* [selfselect](selfselect.md): {start}"]
    for room in rooms:
        module = public[room]
        first = (inspect.getdoc(module) or room).split("\n\n")[0].replace("\n", " ")
        names = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
        lines.append(f"* [selfselect.{room}]({room}.md): {first}")
        pages[room] = _page(f"selfselect.{room}", first, names, sorted(names, key=str.lower))
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    listed = "\n".join(pages)
    toctree = f"```{{toctree}}\n:hidden:\n\n{listed}\n```"
    index = "\n\n".join(["# Reference", "\n".join(lines), toctree]) + "\n"
    (folder / "index.md").write_text(index, encoding="utf-8")


def by_use(names: Iterable[str], first: Sequence[str]) -> list[str]:
    """Return names, those of `first` in its order before the others by alphabet."""
    order = {name: place for place, name in enumerate(first)}
    return sorted(names, key=lambda name: (order.get(name, len(first)), name.lower()))


def _all_ours(kind: type) -> bool:
    """Say whether all that a class inherits is of the package: methods of a fit by subject."""
    return all(base.__module__.startswith("selfselect.") for base in kind.__mro__[:-1])


def _page(module: str, sentence: str, members: dict[str, Any], names: list[str]) -> str:
    parts = [f"# {module}", sentence]
    for name in names:
        member = members[name]
        if inspect.isclass(member):
            shown = f".. autoclass:: {module}.{name}\n   :members:"
            if module == "selfselect" and _all_ours(member):
                shown += "\n   :inherited-members:"
        elif callable(member):
            shown = f".. autofunction:: {module}.{name}"
        else:
            shown = f".. autodata:: {module}.{name}\n   :no-value:"
        parts.append(f"## {name}\n\n```{{eval-rst}}\n{shown}\n```")
    return "\n\n".join(parts) + "\n"

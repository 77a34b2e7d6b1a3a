"""The gallery: every example is run as a notebook, which becomes a page and a download.

An example that fails, fails the build.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

from _site.notebooks import RUN, cells_of, folded, write_notebook

__all__ = ["build"]

ROOT = Path(__file__).parents[2]
LONGEST = 600
"""Seconds an example may take."""


def build(app: Any) -> None:
    """Run the examples and write their pages."""
    folder = Path(app.srcdir) / "gallery"
    # Pages of what is gone must go too.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    examples = sorted((ROOT / "examples").glob("*.py"))
    for example in examples:
        (folder / f"{example.stem}.md").write_text(_page(example, folder), encoding="utf-8")
    names = "\n".join(example.stem for example in examples)
    cards = "\n\n".join(_card(example, folder) for example in examples)
    index = f"""# Gallery

Applications of the model, each on data whose truth is known and, where there is any, on real data.
Every page is made by running its notebook.

<div class="cards">

{cards}

</div>

```{{toctree}}
:hidden:

{names}
```
"""
    (folder / "index.md").write_text(index, encoding="utf-8")


def _story(example: Path) -> tuple[str, str]:
    """Return title and text of what an example says of itself."""
    story, _ = cells_of(example.read_text(encoding="utf-8"))
    title, _, rest = story.partition("\n")
    return title.rstrip("."), rest.strip()


def _card(example: Path, folder: Path) -> str:
    title = _story(example)[0]
    name = f"{example.stem}.png"
    picture = f"![]({name}) " if (folder / name).exists() else ""
    return f"[{picture}{title}]({example.stem}.md)"


def _page(example: Path, folder: Path) -> str:
    source = example.read_text(encoding="utf-8")
    title, rest = _story(example)
    story, cells = cells_of(source)
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(cells), cwd=folder, capture_output=True, text=True, timeout=LONGEST,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise ExtensionError(f"The example {example.name} fails:\n{done.stderr}")
    printed = folded(done.stdout.strip("\n"))
    picture = folder / f"{example.stem}.png"
    drawn = picture if picture.exists() else None
    notebook = folder / f"{example.stem}.ipynb"
    write_notebook(notebook, story, cells, printed + "\n", drawn)
    shown = f"![{title}]({picture.name})\n\n" if drawn else ""
    return (
        f"# {title}\n\n{rest}\n\n{shown}"
        f"{{download}}`Download it as a notebook <{notebook.name}>`.\n\n"
        f"## What it prints\n\n````text\n{printed}\n````\n\n"
        f"## The script\n\n````python\n{source.strip()}\n````\n"
    )

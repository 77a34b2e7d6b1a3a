"""The documentation is true: what it names exists, and its site can be checked."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

import selfselect as ss

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MAP = (DOCS / "paper-to-code.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`(selfselect\.[\w.]+)`", MAP)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", MAP)))
PAPER = [
    *(f"Definition {n}" for n in range(1, 5)),
    *(f"Assumption {n}" for n in range(1, 5)),
    *(f"Theorem {n}" for n in range(1, 5)),
    *(f"Algorithm {n}" for n in range(1, 3)),
    *(f"Lemma {n}" for n in range(1, 7)),
    "Stein's identity",
    "Lemma MinVariance",
]


def find(dotted: str) -> Any:
    """Walk through a dotted name; a function comes before the module of its name."""
    found: Any = importlib.import_module("selfselect")
    for name in dotted.split(".")[1:]:
        if not hasattr(found, name):
            importlib.import_module(f"{found.__name__}.{name}")
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_the_map_names_exists(name: str) -> None:
    assert callable(find(name))


@pytest.mark.parametrize("test", TESTS)
def test_every_test_that_the_map_names_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("statement", PAPER)
def test_every_statement_of_the_paper_has_a_row_with_a_function_and_a_test(statement: str) -> None:
    (row,) = [line for line in MAP.splitlines() if re.match(rf"\| {statement}\b", line)]
    _, _, code, tests, _ = row.split("|")
    assert re.search(r"`selfselect\.", code)
    assert re.search(r"`tests/", tests)


def of_site(name: str) -> ModuleType:
    path = DOCS / "_site" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sentences_that_an_example_prints_are_folded_and_tables_are_not() -> None:
    notebooks = of_site("notebooks")
    table = "a    1.0    2.0\n" + "-" * notebooks.WIDEST
    sentence = "  7 of 256 starts reached this optimum, the next was below." * 4
    made = notebooks.folded(f"{table}\n{sentence}")
    assert made.startswith(f"{table}\n  7 of 256 starts")
    assert max(map(len, made.split("\n"))) <= notebooks.WIDEST
    assert made.split() == f"{table}\n{sentence}".split()


def test_the_checker_of_the_site_finds_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">ok</a><a href="other.html#there">ok</a>'
        '<a href="https://example.org">ok</a><a href="gone.html">x</a><a href="#nowhere">x</a>'
        '<script src="https://cdn.example.org/a.js"></script><img src="gone.png"><img src="data:,">'
    )
    (tmp_path / "other.html").write_text('<p id="there">x</p>')
    assert of_site("check_links").broken(tmp_path) == [
        "index.html fetches https://cdn.example.org/a.js from the network",
        "index.html lacks gone.png",
        "index.html links to gone.html, which is not there",
        "index.html links to #nowhere, where there is no such place",
    ]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_every_example_makes_a_notebook(example: Path, tmp_path: Path) -> None:
    notebooks = of_site("notebooks")
    story, cells = notebooks.cells_of(example.read_text(encoding="utf-8"))
    for cell in cells:
        compile(cell, example.name, "exec")
    assert cells[-1] == 'main(Path("."))'
    assert "__file__" not in "".join(cells) and "__main__" not in "".join(cells)
    assert sum(cell.startswith("def ") for cell in cells) >= 2
    picture = DOCS / "images" / f"{example.stem}.png"
    notebooks.write_notebook(tmp_path / "made.ipynb", story, cells, "printed\n", picture)
    made = json.loads((tmp_path / "made.ipynb").read_text(encoding="utf-8"))
    assert (made["nbformat"], made["cells"][0]["cell_type"]) == (4, "markdown")
    assert [one["output_type"] for one in made["cells"][-1]["outputs"]] == [
        "stream",
        "display_data",
    ]


def test_links_between_documents_lead_to_files() -> None:
    made = ("gallery/", "reference/")
    for path in sorted(DOCS.rglob("*.md")):
        relative = path.relative_to(DOCS).as_posix()
        if relative.startswith((*made, "_build")):
            continue
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text(encoding="utf-8")):
            if not link.startswith(made):
                assert (path.parent / link).exists(), f"{relative} links to {link}"


def test_the_reference_lists_every_method_of_a_fit_whichever_file_holds_it() -> None:
    reference = of_site("reference")
    page = reference._page(
        "selfselect", "", {"FitResult": find("selfselect.FitResult")}, ["FitResult"]
    )
    assert ":members:\n   :inherited-members:" in page


def test_the_reference_describes_methods_without_the_fit_they_belong_to() -> None:
    texts = {}
    for what in ("function", "method"):
        lines = inspect.getdoc(ss.FitResult.treatment_effects).splitlines()
        of_site("docstrings").describe(None, what, "", None, None, lines)
        texts[what] = "\n".join(lines)
    assert "\nfit\n    a fitted model." in texts["function"]
    assert "\nfit\n" not in texts["method"]
    assert "\nto, versus\n    labels of two alternatives." in texts["method"]


def calls_in(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield every call of the package that Markdown shows: its names, and its keywords."""
    for code in re.findall(r"```python\n(.*?)```|(?<!`)`([^`]+)`(?!`)", text, flags=re.DOTALL):
        source = re.sub(r"^>>> |^\.\.\. ", "", dedent(max(code)), flags=re.MULTILINE)
        try:
            tree = ast.parse(source)
        except SyntaxError:  # A shell command, a formula, a part of a call.
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call | ast.Attribute):
                function = node.func if isinstance(node, ast.Call) else node
                names = ast.unparse(function).split(".")
                if names[0] in ("ss", "result") and all(one.isidentifier() for one in names):
                    keywords = node.keywords if isinstance(node, ast.Call) else []
                    yield names, [one.arg for one in keywords if one.arg is not None]


def test_every_call_that_the_documents_show_exists_with_its_keywords() -> None:
    seen, wrong = set(), []
    own = (DOCS.glob("*.md"), DOCS.glob("decisions/*.md"), DOCS.glob("studies/*.md"))
    pages = [ROOT / "README.md", *sorted(page for folder in own for page in folder)]
    for page in pages:
        for (head, *rest), keywords in calls_in(page.read_text(encoding="utf-8")):
            here: Any = ss if head == "ss" else ss.FitResult
            for name in rest:
                here = getattr(here, name, None)
                if head == "result":
                    break
            known = inspect.signature(here).parameters if keywords and callable(here) else {}
            shown = f"{page.name}: {'.'.join([head, *rest])}"
            seen.add(".".join([head, *rest]))
            if here is None and rest[0] not in ss.FitResult.__dataclass_fields__:
                wrong.append(shown)
            elif not isinstance(here, property):
                wrong += [f"{shown}({one}=)" for one in keywords if one not in known]
    assert wrong == []
    assert len(seen) > 100

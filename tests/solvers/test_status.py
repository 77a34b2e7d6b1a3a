"""How a solver ended: an enumeration with sentences."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import selfselect as ss
from selfselect.results.archive import sealed
from selfselect.solvers import Ending, Status

SOURCE = Path(ss.__file__).parent

DETAILS = {
    "steps": 3, "method": "Newton", "passes": 4, "error": 3.0, "worth": 671.0, "average": "tail",
    "distance": 0.25, "what": "score", "term": "island", "alternative": "b",
    "parameters": "a: x, b: x", "reason": "a correlation is 1. There it stays.", "rows": 6,
    "alternatives": 2, "sentence": "As it likes.", "last": 10, "gain": 0.5, "promised": 75.0,
}  # fmt: skip


@pytest.mark.parametrize("status", Status)
def test_every_status_has_one_or_more_whole_sentences(status):
    assert str(Ending(status, DETAILS)).endswith(".")


def test_one_step_is_one_step():
    one = Ending(Status.CONVERGED, {"steps": 1, "method": "EM"})
    assert str(one) == "Converged in 1 EM step."


def test_a_detail_that_is_missing_shows_at_once():
    with pytest.raises(KeyError, match="method"):
        Ending(Status.CONVERGED, {"steps": 3})


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"is": "status/1", "name": "PERFECT"}},
        {"status": {"is": "status/1"}},
        {"details": {"map": [["steps", 3]]}},
        {"notes": "a text, no list"},
    ],
)
def test_an_ending_that_no_solver_has_is_refused(tmp_path, change):
    data = ss.simulators.village(300, seed=1).data
    path = tmp_path / "fit.json"
    ss.fit("income ~ height", data, chosen="job").save(path)
    content = json.loads(path.read_text())
    content["solution"]["ending"] |= change
    path.write_text(json.dumps(sealed(content)))
    with pytest.raises(ss.errors.ArchiveError, match="damaged"):
        ss.load(path)


def reads_status(node):
    return isinstance(node, ast.Attribute) and node.attr in ("status", "ending")


def test_nothing_reads_the_words_of_a_status():
    """Code asks the member of the enumeration, never whether its text holds some words."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                assert not any(map(reads_status, node.comparators)), f"{path}:{node.lineno}"
            if isinstance(node, ast.Attribute) and hasattr(str, node.attr):
                assert not reads_status(node.value), f"{path}:{node.lineno}"

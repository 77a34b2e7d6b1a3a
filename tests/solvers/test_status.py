"""How a solver ended: an enumeration with sentences, and files from when it was text."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import selfselect as ss
from selfselect.results._status_text import OWN_WORDS, read_ending
from selfselect.solvers import Ending, Status

SOURCE = Path(ss.__file__).parent

DETAILS = {
    "steps": 3, "method": "Newton", "passes": 4, "error": 3.0, "worth": 671.0, "average": "tail",
    "distance": 0.25, "what": "score", "term": "island", "alternative": "b",
    "parameters": "a: x, b: x", "reason": "a correlation is 1. There it stays.", "rows": 6,
    "alternatives": 2, "sentence": "As it likes.",
}  # fmt: skip


@pytest.mark.parametrize("status", Status)
def test_every_status_has_one_or_more_whole_sentences(status):
    assert str(Ending(status, DETAILS)).endswith(".")


@pytest.mark.parametrize("status", [one for one in Status if one not in OWN_WORDS])
@pytest.mark.parametrize("note", [None, "4 of 8 starts reached this optimum."])
def test_the_words_of_a_status_lead_back_to_it(status, note):
    if status is Status.AT_BOUNDARY and note is not None:
        return  # no note was ever written behind a boundary
    ending = Ending(status, DETAILS).noting(note)
    read = read_ending(str(ending), status.converged)
    assert (read.status, read.notes) == (status, ending.notes)
    assert str(read) == str(ending)
    assert all(DETAILS[name] == value for name, value in read.details.items())


def test_words_of_no_status_are_kept_as_they_are():
    read = read_ending("Done, says another solver.", True)
    assert read.status is Status.SOLVED and str(read) == "Done, says another solver."
    assert read_ending("Converged in 3 Newton steps.", False).status is Status.STOPPED


def test_one_step_is_one_step():
    one = Ending(Status.CONVERGED, {"steps": 1, "method": "EM"})
    assert str(one) == "Converged in 1 EM step."


def test_a_detail_that_is_missing_shows_at_once():
    with pytest.raises(KeyError, match="method"):
        Ending(Status.CONVERGED, {"steps": 3})


def old_form(path):
    """Write a saved fit as it was when its status was text."""
    content = json.loads(path.read_text())
    del content["checksum"]
    solution = content["solution"]
    ending = solution.pop("ending")
    details = dict(ending["details"]["map"])
    made = Ending(Status[ending["status"]["name"]], details, tuple(ending["notes"]))
    solution |= {"is": "solution/1", "status": str(made), "converged": made.converged}
    path.write_text(json.dumps(content))


def test_a_fit_whose_status_was_saved_as_text_is_read(tmp_path):
    data = ss.simulators.village(400, seed=1).data
    fit = ss.fit("income ~ height", data, chosen="job")
    path = tmp_path / "fit.json"
    fit.save(path)
    new = ss.load(path)
    old_form(path)
    old = ss.load(path)
    for loaded in (new, old):
        assert loaded.solution.ending == fit.solution.ending
        assert (loaded.status, loaded.converged) == (fit.status, fit.converged)


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
    del content["checksum"]
    content["solution"]["ending"] |= change
    path.write_text(json.dumps(content))
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

"""The house does not grow: no count of mechanisms, lines, flags or passes exceeds its record."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PLANTED = {
    "data/design.py": "class Design:\n    pass\n",
    "data/build.py": "def build(data):\n    return Design(data)\n",
    "moments/base.py": "class Moments(ABC):\n    pass\n",
    "moments/twice.py": """
class Refusing(Moments):
    def both(self, reported: Array, weights: Array) -> tuple[Array, Array]:
        raise UnsupportedError("no")

class Differentiating(Moments):
    def both(self, reported: Array, weights: Array) -> tuple[Array, Array]:
        return reported, weights
""",
    "likelihoods/base.py": "class RowTerms(ABC):\n    pass\n",
    "likelihoods/one.py": "class OneRows(RowTerms):\n    pass\nclass Derived(OneRows):\n    pass\n",
    "noises/base.py": """
class FittedNoise(ABC):
    joint: ClassVar[bool] = False
    name: str

    @property
    def gaussian(self) -> bool:
        return False

    def family(self) -> Family | None:
        return None

    def draw(self, n_rows: int, rng: Generator) -> Array: ...

def is_odd(noise: FittedNoise) -> bool:
    return noise.joint
""",
    "solvers/base.py": "def record_starts(found):\n    return StartRecord(found)\n",
    "solvers/search.py": """
class Search:
    def solve(self, problem, engine):
        return record_starts(self._step())

    def _step(self): ...

class Inherited(Search):
    max_steps = 3

class Otherwise(Search):
    def _step(self): ...

class Single:
    def solve(self, problem, engine): ...
""",
    "results/page.py": """
Odd = Any

def write(fit: Odd, level: float, intervals: str) -> Page:
    return Page(fit)

def sample(fit, rng):
    return fit.problem.noise.draw(3, rng)

def again(fit, one: FittedNoise, other: Rows):
    print(one.name, f"{other.joint}")
    return refit(fit) if one.joint and one.family() is not None and is_odd(one) else one.name == "x"
""",
}
"""A small house. In its last file `one` is asked for four flags: a name that is only printed is
none, and `other` is no noise."""


@pytest.fixture(scope="module")
def house():
    path = ROOT / "tools" / "house.py"
    spec = importlib.util.spec_from_file_location("house_of_tools", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def check(house, today):
    record = house.read_record()
    risen, fallen = house.risen(today, record), house.fallen(today, record)
    assert not risen, "No count of the house may rise (see CONTRIBUTING.md):\n" + "\n".join(risen)
    assert not fallen, "Lower the record by `make house LOWER=1`:\n" + "\n".join(fallen)


def test_no_count_of_the_sources_exceeds_the_record(house):
    assert not house.missing_entries(), "Correct these entries of tools/house.py."
    check(house, house.static())


@pytest.mark.compiled
def test_no_count_of_calls_exceeds_the_record(house):
    check(house, house.walks())


def test_the_record_holds_no_number_that_is_not_counted(house):
    known = {*house.JOBS, "combinations that are refused"}
    calls = re.compile(
        r"(passes of|kernel calls of|files that|fits in|modules|heavy|public|memory of)"
    )
    counts = re.compile(
        r"(code lines|lines of|reads of|names that|Any|cast|ignores|functions|class )"
    )
    odd = [
        name
        for name in house.read_record()
        if name not in known and not calls.match(name) and not counts.match(name)
    ]
    assert not odd


def test_what_is_counted_is_laid_out_by_the_formatter(house):
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert options["tool"]["ruff"]["line-length"] == house.WIDTH


def test_a_number_above_the_record_and_one_below_are_named(house):
    record = {"Any": 100, "searches": ["a", "b"], "passes of a plain fit": 20}
    assert house.risen({"Any": 101}, record) == ["Any: 101, was 100"]
    assert house.risen({"searches": ["a", "b", "c"]}, record) == ["searches: 3, was 2 (new: c)"]
    assert house.risen({"searches": ["a", "new"], "passes of a plain fit": 22}, record) == []
    assert house.risen({"unheard of": 1}, record)
    assert house.fallen({"Any": 99}, record) == []
    assert house.fallen({"Any": 97}, record) == ["Any: 97, the record says 100"]
    assert house.fallen({"searches": ["a"]}, record)


def test_a_mechanism_is_found_whatever_its_name(house, tmp_path, monkeypatch):
    for name, text in PLANTED.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    caches = [one for one in vars(house).values() if hasattr(one, "cache_clear")]
    for one in caches:
        one.cache_clear()
    try:
        assert house.builders() == ["data/build.py:build"]
        assert house.slopes() == ["moments/twice.py:Differentiating.both"]
        assert house.row_terms() == ["likelihoods/one.py:OneRows", "likelihoods/one.py:Derived"]
        assert house.searches() == ["solvers/search.py:Otherwise", "solvers/search.py:Search"]
        assert house.summaries() == ["results/page.py:write"]
        assert house.places_that_draw() == ["results/page.py:sample"]
        assert house.fits_again() == ["results/page.py"]
        assert house.flag_reads() == {"noises": 4}
        assert house.uses_of_any() == 2
    finally:
        for one in caches:
            one.cache_clear()


def test_the_record_is_plain(house):
    text = house.RECORD.read_text(encoding="utf-8")
    assert json.dumps(json.loads(text), indent=1) + "\n" == text

"""Tests of the tests: faults are put into the package, and each room's own tests must find them.

    python tools/mutants.py                  five mutants per room; writes the table
    python tools/mutants.py rules noises     some rooms, whose part of the table is replaced
    python tools/mutants.py --again          only mutants that no test killed when last tried
    python tools/mutants.py --seed 3         another sample, kept beside the first

A mutant is one change of one expression: an operator, a comparison, a sign or a constant. Mutants
are drawn with a seed, room by room, and put into a copy of the tree. The tests of the room run
once with a mark at every drawn place, which tells the tests that reach it. What a file of tests
reaches is kept in build/ for as long as neither it nor the package changes. A mutant is then tried
on the tests that reach it, until one fails. It is killed by a failure or by running out of time,
and survives where all of them pass.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "studies" / "mutants.md"
RECORD = ROOT / "tools" / "mutants.json"
"""What became of the mutants of each room when it was last tried, and what is said of survivors:
`equivalent` tells why nobody could see a mutant, `reasons` why a mutant is not killed. Samples of
other seeds than `SEED` are under `fresh`, and what is said of them under `notes`, by seed."""

SEED = 1
"""Of the sample that the table is about."""

REACH = ROOT / "build" / "mutants-reach.json"
"""Which tests reach which mutants, by file of tests."""

SELECTION = (
    "selection/*.py", "*/*selection*.py", "*/binary_*.py", "*/ordered_index.py",
    "solvers/second_step.py",
)  # fmt: skip
ELSEWHERE = ("*/*torch*.py", "engines/*dask*.py", "engines/_cluster.py",
             "engines/dask.py", "engines/_partitions.py")  # fmt: skip
"""What needs a graphics card, or runs in other processes."""

TESTS: dict[str, tuple[str, ...]] = {
    "bounding": ("tests/bounding",),
    "cli": ("tests/cli",),
    "data": ("tests/data", "tests/engines/test_files.py"),
    "effects": ("tests/effects",),
    "engines": ("tests/engines/test_files.py", "tests/engines/test_memory.py",
                "tests/engines/test_checkpoint.py", "tests/engines/test_tree.py",
                "tests/engines/test_contract.py"),
    "explore": ("tests/explore",),
    "inference": ("tests/inference",),
    "kernels": ("tests/kernels",),
    "likelihoods": ("tests/likelihoods", "tests/noises/test_spreads.py",
                    "tests/noises/test_types.py", "tests/selection/test_between.py"),
    "moments": ("tests/moments",),
    "multinomial": ("tests/multinomial",),
    "noises": ("tests/noises",),
    "plots": ("tests/plots",),
    "problem": ("tests/problem",),
    "report": ("tests/report",),
    "results": ("tests/results",),
    "rules": ("tests/rules",),
    "samplers": ("tests/samplers",),
    "selection": ("tests/selection",),
    "simulators": ("tests/simulators",),
    "solvers": ("tests/solvers", "tests/test_unknown_index.py", "tests/noises/test_types.py"),
    "verdict": ("tests/verdict",),
}  # fmt: skip
"""The tests of each room: those of its folder, and where another folder tests its files, those
as well: files are read by tests of engines, likelihoods of spreads and types, and the search for
types, are tested with these noises, and likelihoods of limits with selection models. Files of
selection models count to the room `selection`, wherever they are, and shapes to `noises`."""

EVERY_ROOM = ("tests/oracle", "tests/hostile")
"""Tests of every room: random models beside the oracle; hostile files, labels, values, arguments. A
mutant is tried on those that reach it after the tests of its room."""

IGNORED_KEYWORDS = ("strict", "stacklevel")
"""Arguments that change no value: whether `zip` checks lengths, and the line a warning names."""

IGNORED_NAMES = ("_S", "_SECONDS", "_AT_ONCE", "PATIENCE")
"""Ends of the names of constants that change no value: times, and rows that are worked on at
once."""

TIMED = ("timeout", "delay", "mininterval", "patience", "seconds", "sleep", "wait")
"""Arguments and functions that take a time."""

OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",), ast.Div: ("*",), ast.Pow: ("*",),
    ast.FloorDiv: ("/",), ast.Mod: ("//",), ast.BitAnd: ("|",), ast.BitOr: ("&",),
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.In: ("not in",), ast.NotIn: ("in",), ast.And: ("or",), ast.Or: ("and",),
}  # fmt: skip

SPELT: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.FloorDiv: "//",
    ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is not",
    ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or",
}  # fmt: skip

LONGEST_S = 30.0
"""Seconds of tests that a mutant is tried on, those of its room and those of every room each, as
they take without it; the quickest of those that reach it."""

MOST_S = 1_200.0
"""Seconds for the tests of a room as they are."""

FACTOR, SLACK_S = 4.0, 45.0
"""A mutant is out of time after so many times the seconds its tests take, and these."""

MARK = 'getattr(__import__("builtins"), "_mark", {}.get)'
"""Marks a place; does nothing in processes that tests start."""

AROUND = 50
"""Characters that are shown to either side of a change."""

KILLED = ("killed", "out of time")

PYTEST_FAULT, NO_TESTS = 3, 5
"""What pytest returns where it goes wrong itself, and where it has collected nothing."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression.

    Attributes
    ----------
    path : of the file, below the root.
    start, end : where the expression begins and ends, as places in the text.
    before, after : the expression.
    line : its first line.
    shown : what is shown of the change: the expression, or the line around a constant.
    number : which of those that look the same in this file.
    at_import : whether it runs when its module is imported, as a default of an argument does.
    """

    path: str
    start: int
    end: int
    before: str
    after: str
    line: int
    shown: tuple[str, str]
    number: int
    at_import: bool

    def place(self, text: str, put: str) -> str:
        """Return the text of a file with something in the place of the expression."""
        return text[: self.start] + put + text[self.end :]

    def overlaps(self, other: Mutant) -> bool:
        """Say whether two expressions lie within each other."""
        return self.path == other.path and self.start < other.end and other.start < self.end

    @property
    def name(self) -> str:
        """Return words that stay the same while lines move."""
        again = f" ({self.number + 1})" if self.number else ""
        return f"{self.file}{again}: {self.shown[0]} → {self.shown[1]}"

    @property
    def file(self) -> str:
        """Return the path below the package."""
        return self.path.removeprefix("src/selfselect/")

    def rank(self, seed: int) -> float:
        """Return a number by which mutants are drawn: it stays while other lines change."""
        return random.Random(f"{seed} {self.name}").random()


@dataclass
class Verdict:
    """What became of a mutant: killed, out of time, survived or not reached."""

    mutant: Mutant
    n_tests: int
    fate: str
    by: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        spent = f"{self.seconds:.0f} s of {self.n_tests} tests"
        return f"{self.fate} after {spent}{by}: line {self.mutant.line} of {self.mutant.name}"

    def plain(self) -> dict:
        """Return what is remembered."""
        one = self.mutant
        before, after = one.shown
        return {
            "mutant": one.name, "file": one.file, "line": one.line, "before": before,
            "after": after, "n_tests": self.n_tests, "fate": self.fate, "by": self.by,
            "seconds": round(self.seconds),
        }  # fmt: skip


def files_of(room: str) -> list[Path]:
    """Return the files of a room, those that run elsewhere left out."""
    package = ROOT / "src" / "selfselect"

    def among(path: Path, patterns: tuple[str, ...]) -> bool:
        return any(path.match(f"selfselect/{pattern}") for pattern in patterns)

    if room == "selection":
        found = sorted(package.rglob("*.py"))
        keep = [path for path in found if among(path, SELECTION) and "report" not in path.parts]
    else:
        keep = [one for one in sorted((package / room).rglob("*.py")) if not among(one, SELECTION)]
    return [path for path in keep if not among(path, ELSEWHERE)]


def mutants_of(path: Path, seed: int) -> Iterator[Mutant]:
    """Yield one mutant for every expression of a file that can be changed."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def at(line: int, column: int) -> int:
        # Columns of a tree count bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    name = path.relative_to(ROOT).as_posix()
    met: dict[tuple[str, str], int] = {}
    for node, at_import in _walk(ast.parse(text), at_import=True):
        begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        whole = text[begin:end]
        after = _changed(node, whole, random.Random(f"{seed} {name} {whole}"))
        if after is None or after == whole:
            continue
        if isinstance(node, ast.Constant | ast.UnaryOp) and node.lineno == node.end_lineno:
            first, last = starts[node.lineno - 1], starts[node.lineno]
            shown = _shown(text[first:last], f"{text[first:begin]}{after}{text[end:last]}")
        else:
            shown = _shown(whole, after)
        number = met.get(shown, 0)
        met[shown] = number + 1
        yield Mutant(name, begin, end, whole, after, node.lineno, shown, number, at_import)


SKIPPED = (ast.JoinedStr, ast.pattern, ast.Raise)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _walk(node: ast.AST, *, at_import: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield expressions whose change may change a value, and whether an import runs them.

    Not those in annotations, decorators, f-strings, patterns, and errors that are raised; nor
    unions of types, times, and whether `zip` checks lengths.
    """
    for key, value in ast.iter_fields(node):
        if key in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        now = at_import and not (isinstance(node, FUNCTIONS) and key == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, SKIPPED) or _changes_nothing(child):
                continue
            if isinstance(child, ast.expr):
                yield child, now
            if isinstance(child, ast.AST):
                yield from _walk(child, at_import=now)


def _changes_nothing(node: object) -> bool:
    """Say whether all that is below a node is about types, times or checks of lengths."""
    if isinstance(node, ast.keyword):
        return node.arg in IGNORED_KEYWORDS or _is_timed(node.arg)
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func).rsplit(".", maxsplit=1)[-1]
        return called in ("isinstance", "issubclass", "cast", "TypeVar") or _is_timed(called)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        return any(name.endswith(IGNORED_NAMES) or name == "__all__" for name in names) or (
            isinstance(node.value, ast.BinOp) and _is_union(node.value)
        )
    if isinstance(node, ast.Compare):
        return isinstance(node.left, ast.Name) and node.left.id == "__name__"
    return False


def _is_timed(name: str | None) -> bool:
    return name is not None and name.lower().strip("_") in TIMED


def _is_union(node: ast.expr) -> bool:
    """Say whether an expression is a union of types: all its sides begin with capitals."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_union(node.left) and _is_union(node.right)
    if isinstance(node, ast.Subscript):
        return _is_union(node.value)
    if isinstance(node, ast.Constant):
        return node.value is None
    return isinstance(node, ast.Name) and (node.id in vars(builtins) or node.id[:1].isupper())


def _changed(node: ast.expr, whole: str, rng: random.Random) -> str | None:
    """Return an expression with its operator, comparison, sign or constant changed."""
    if isinstance(node, ast.Constant):
        return _other_constant(node.value)
    if isinstance(node, ast.UnaryOp):
        # The sign of a constant is changed here alone.
        lead = {ast.USub: "-", ast.Not: "not"}.get(type(node.op))
        return None if lead is None else f"({whole.removeprefix(lead).lstrip()})"
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        if any(_is_text(side) for side in sides) or _is_union(node):
            return None
        return _swap(whole, type(node.op), rng)
    if isinstance(node, ast.BoolOp) and len(node.values) == 2:
        return _swap(whole, type(node.op), rng)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _swap(whole, type(node.ops[0]), rng)
    return None


def _other_constant(value: object) -> str | None:
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    if isinstance(value, float) and value < 1e300:
        return repr(2.0 * value if value else 1.0)
    return None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _swap(whole: str, kind: type[ast.AST], rng: random.Random) -> str | None:
    """Return an expression of two sides with another operator between them."""
    to = OPERATORS.get(kind)
    if to is None:
        return None
    put = rng.choice(to)
    old = SPELT[kind]
    # Every place where the token stands is tried: the right one gives the tree that is wanted.
    wanted = ast.parse(f"({whole})", mode="eval")
    node = wanted.body
    new = ast.parse(f"a {put} b", mode="eval").body
    if isinstance(node, ast.Compare) and isinstance(new, ast.Compare):
        node.ops = new.ops
    elif (isinstance(node, ast.BinOp) and isinstance(new, ast.BinOp)) or (
        isinstance(node, ast.BoolOp) and isinstance(new, ast.BoolOp)
    ):
        node.op = new.op
    for begin in _places(whole, old):
        made = f"{whole[:begin]}{put}{whole[begin + len(old) :]}"
        try:
            if ast.dump(ast.parse(f"({made})", mode="eval")) == ast.dump(wanted):
                return made
        except SyntaxError:
            continue
    return None


def _places(text: str, token: str) -> Iterator[int]:
    """Yield the places where an operator stands in a text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    first = token.split(maxsplit=1)[0]
    try:
        for one in tokenize.generate_tokens(io.StringIO(f"({text})").readline):
            at = starts[one.start[0] - 1] + one.start[1] - 1
            if one.string == first and text[at : at + len(token)] == token:
                yield at
    except tokenize.TokenError:
        return


def draw(each: int, seed: int) -> dict[str, list[Mutant]]:
    """Draw so many mutants from each room."""
    drawn = {}
    for room in TESTS:
        everything = [one for path in files_of(room) for one in mutants_of(path, seed)]
        kept: list[Mutant] = []
        for one in sorted(everything, key=lambda one: one.rank(seed)):
            if len(kept) == each:
                break
            if not any(one.overlaps(other) for other in kept):
                kept.append(one)
        drawn[room] = sorted(kept, key=lambda one: (one.path, one.start))
    return drawn


# What runs inside of pytest.


@dataclass(eq=False)
class Marks:
    """Records which tests reach the marks, how long each takes, and the first that fails."""

    wanted: list[str] | None
    test: str = ""
    stage: str = "import"
    reached: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def mark(self, name: str) -> None:
        """Note that a mark was reached by the test that runs."""
        # What a fixture does serves every test of its module; an import serves all.
        module = f"{self.test.split('::')[0]}::*"
        by = {"import": "*", "setup": module, "call": self.test}[self.stage]
        tests = self.reached.setdefault(name, [])
        if by not in tests:
            tests.append(by)

    def pytest_collection_modifyitems(self, items: list) -> None:
        """Keep the tests that are wanted, in the order that is wanted."""
        if self.wanted is not None:
            at = {name: i for i, name in enumerate(self.wanted)}
            items[:] = sorted(
                (one for one in items if one.nodeid in at), key=lambda one: at[one.nodeid]
            )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note which test is set up."""
        self.test, self.stage = nodeid, "setup"

    def pytest_runtest_call(self) -> None:
        """Note that its fixtures are there."""
        self.stage = "call"

    def pytest_runtest_logreport(self, report: object) -> None:
        """Add up its seconds, and note a failure."""
        name = report.nodeid
        spent = self.seconds.setdefault(name, {"setup": 0.0, "call": 0.0, "teardown": 0.0})
        spent[report.when] += report.duration
        if report.failed and name not in self.failed:
            self.failed.append(name)


def run_inside(plan: Path) -> int:
    """Run pytest as a plan says, and write what was found beside it."""
    import pytest

    asked = json.loads(plan.read_text())
    marks = Marks(asked["wanted"])
    builtins._mark = marks.mark  # type: ignore[attr-defined]
    command = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", *asked["options"]]
    code = pytest.main([*command, *asked["tests"]], plugins=[marks])
    found = {"code": int(code), "reached": marks.reached, "seconds": marks.seconds}
    plan.with_suffix(".found").write_text(json.dumps({**found, "failed": marks.failed}))
    return int(code)


# What runs outside.


class Tree:
    """A copy of the tree, in which files are changed and tests are run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        compiled = (ROOT / "src").rglob("*.so")
        for name in [*filter(None, listed), *(str(one.relative_to(ROOT)) for one in compiled)]:
            if (ROOT / name).is_file():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, home / name)

    def read(self, path: str) -> str:
        """Return what is in a file."""
        return (self.home / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file, or put it back as it was."""
        (self.home / path).write_text(text, encoding="utf-8")

    def run(
        self, tests: list[str], wanted: list[str] | None, options: list[str], limit: float
    ) -> dict | None:
        """Run tests in the copy; return what was found, or None where time ran out."""
        plan = self.home / "plan.json"
        found = plan.with_suffix(".found")
        found.unlink(missing_ok=True)
        plan.write_text(json.dumps({"tests": tests, "wanted": wanted, "options": options}))
        command = [
            sys.executable,
            "-B",
            str(self.home / "tools" / "mutants.py"),
            "--inside",
            str(plan),
        ]
        around = {**os.environ, "PYTHONPATH": str(self.home / "src"), "MPLBACKEND": "Agg"}
        with subprocess.Popen(
            command, cwd=self.home, env=around, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return None
        if not found.exists():
            return {"code": process.returncode or 1, "failed": [_last_line(said)], "said": said}
        return {**json.loads(found.read_text()), "said": said}


class Reach:
    """Which tests reach which mutants, file by file of tests, and how long they take."""

    def __init__(self, tree: Tree, mutants: list[Mutant]) -> None:
        self.tree, self.mutants = tree, mutants
        self.kept = json.loads(REACH.read_text(encoding="utf-8")) if REACH.exists() else {}
        package = [path.read_bytes() for path in sorted((tree.home / "src").rglob("*.py"))]
        shared = [path.read_bytes() for path in sorted((tree.home / "tests").rglob("conftest.py"))]
        named = [f"{one.name} {one.at_import}".encode() for one in mutants]
        self.base = hashlib.sha256(b"".join([*package, *shared, *named]))

    def of(self, places: list[str]) -> list[dict]:
        """Return what the tests of some folders or files reach; run those that are not known."""
        home = self.tree.home
        files = [path for one in places for path in _test_files(home / one)]
        keys = {path.relative_to(home).as_posix(): self._key(path) for path in files}
        new = [name for name, key in keys.items() if self.kept.get(name, {}).get("key") != key]
        if new:
            self._run(new, keys)
        return [self.kept[name] for name in keys]

    def _key(self, path: Path) -> str:
        key = self.base.copy()
        key.update(path.read_bytes())
        return key.hexdigest()

    def _run(self, names: list[str], keys: dict[str, str]) -> None:
        originals = {one.path: self.tree.read(one.path) for one in self.mutants}
        for path, text in originals.items():
            here = [one for one in self.mutants if one.path == path]
            self.tree.write(path, _marked(path, text, here))
        found = self.tree.run(names, None, [], MOST_S)
        for path, text in originals.items():
            self.tree.write(path, text)
        if found is None or not found.get("seconds"):
            said = "" if found is None else found["said"]
            sys.exit(f"Tests do not run as they are, or take too long: {', '.join(names)}\n{said}")
        for name in found["failed"]:
            print(f"left out, for it fails without a mutant: {name}", flush=True)
        for name in names:

            def is_here(test: str, name: str = name) -> bool:
                return test == "*" or test.split("::", maxsplit=1)[0] == name

            self.kept[name] = {
                "key": keys[name],
                "seconds": {
                    test: spent for test, spent in found["seconds"].items()
                    if is_here(test) and test not in found["failed"]
                },
                "reached": {
                    mutant: kept for mutant, tests in found["reached"].items()
                    if (kept := list(filter(is_here, tests)))
                },
            }  # fmt: skip
        REACH.parent.mkdir(exist_ok=True)
        REACH.write_text(json.dumps(self.kept), encoding="utf-8")


def _marked(path: str, text: str, mutants: list[Mutant]) -> str:
    """Return the text of a file with its mutants marked.

    What an import runs tells nothing of the tests that use it: there, every function is marked.
    """
    puts = [
        (one.start, one.end, f"({MARK}({one.name!r}) or ({one.before}))")
        for one in mutants if not one.at_import
    ]  # fmt: skip
    if any(one.at_import for one in mutants):
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                said = ast.get_docstring(node) is not None
                first = node.body[1 if said and len(node.body) > 1 else 0]
                above = [one.lineno for one in getattr(first, "decorator_list", [])]
                at = starts[min([first.lineno, *above]) - 1]
                puts.append((at, at, f"{' ' * first.col_offset}{MARK}({path!r})\n"))
    # From the end on, so that places before stay as they are.
    for start, end, put in sorted(puts, reverse=True):
        text = text[:start] + put + text[end:]
    return text


def _test_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def try_room(
    tree: Tree, reach: Reach, room: str, mutants: list[Mutant], killers: dict[str, str]
) -> Iterator[Verdict]:
    """Try each mutant of a room on the tests that reach it.

    `killers` names the tests that killed mutants when the room was last tried; they come first.
    """
    if not mutants:
        return
    own, others = reach.of(list(TESTS[room])), reach.of(list(EVERY_ROOM))
    for one in mutants:
        wanted, seconds = _chosen(one, own, others, killers.get(one.name, ""))
        if not wanted:
            yield Verdict(one, 0, "not reached")
            continue
        original = tree.read(one.path)
        tree.write(one.path, one.place(original, one.after))
        began = time.monotonic()
        files = list(dict.fromkeys(name.split("::")[0] for name in wanted))
        found = tree.run(files, wanted, ["-x"], FACTOR * seconds + SLACK_S)
        tree.write(one.path, original)
        took = time.monotonic() - began
        if found is None:
            yield Verdict(one, len(wanted), "out of time", seconds=took)
        elif found["code"] in (PYTEST_FAULT, NO_TESTS):
            sys.exit(f"The tests that reach {one.name} do not run:\n{found['said']}")
        elif found["code"]:
            by = found["failed"][0] if found["failed"] else "the import"
            yield Verdict(one, len(wanted), "killed", by, took)
        else:
            yield Verdict(one, len(wanted), "survived", seconds=took)


def _chosen(
    mutant: Mutant, own: list[dict], others: list[dict], killer: str
) -> tuple[list[str], float]:
    """Return the tests that a mutant is tried on, and the seconds that they take.

    The quickest tests are taken, those of the room before the others, and module by module, for a
    module's fixtures are made once. Where an import runs the mutant, any test may meet it, and
    those that call a function of its file come first.
    """
    spent_in_all = 0.0
    modules: dict[str, list[str]] = {}
    for files in (own, others):
        total = 0.0
        costs: dict[str, tuple[bool, bool, float, str]] = {}
        fixtures = {}
        for one in files:
            reached = one["reached"].get(mutant.path if mutant.at_import else mutant.name, [])
            every = "*" in reached or any(test.endswith("::*") for test in reached)
            setup = max((spent["setup"] for spent in one["seconds"].values()), default=0.0)
            fixtures |= dict.fromkeys(one["seconds"], setup)
            for name, spent in one["seconds"].items():
                near = every or name in reached
                if near or mutant.at_import:
                    costs[name] = (name != killer, not near, spent["call"], name)
        for name in sorted(costs, key=costs.__getitem__):
            module = name.split("::", maxsplit=1)[0]
            more = costs[name][2] + (0.0 if module in modules else fixtures[name])
            if total + more > LONGEST_S and total:
                continue
            total += more
            modules.setdefault(module, []).append(name)
        spent_in_all += total
    return [name for tests in modules.values() for name in tests], spent_in_all


def _shown(before: str, after: str) -> tuple[str, str]:
    """Return two texts on one line each; of long ones, the part around what differs."""
    before, after = " ".join(before.split()), " ".join(after.split())
    same = _n_alike(before, after)
    rest = _n_alike(before[same:][::-1], after[same:][::-1])
    first, last = max(same - AROUND, 0), max(rest - AROUND, 0)

    def cut(text: str) -> str:
        middle = text[first : len(text) - last]
        return f"{'…' if first else ''}{middle}{'…' if last else ''}"

    return cut(before), cut(after)


def _n_alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]


HEAD = """# Tests of the tests

Small faults are put into the package, one at a time, and the tests of the room they are in must
find them: an operator, a comparison, a sign or a constant is changed (`a < b` into `a <= b` or
`a >= b`, `n` into `n + 1`, a decimal into its double). From each room {each} mutants are drawn, at
random with a seed. A mutant is tried on the quickest tests of its own room that reach it, up to
{longest:.0f} seconds of them, and on as many of those in `tests/oracle` and `tests/hostile`; not on
the rest of the suite.
Not drawn: types, times, sizes of work that change no value, the texts of errors, and whether `zip`
checks lengths. Files that need a graphics card or run on the workers of a cluster, and C++, are
left out. Files of selection models count to the room `selection`.

A mutant is equivalent where nobody could tell it from the package by what it returns, rounding left
aside; why is said below, from reading the code. Those that run out of time count as killed.

Made by `make mutants` (`python tools/mutants.py`); `python tools/mutants.py rules noises` tries
some rooms and replaces their part of the table; `--again` tries only mutants that were not killed
last time; `--seed 3` draws another sample, which is counted below the table.
"""

FRESH = """## Fresh samples

Drawn with other seeds once tests had been written for the sample above, and first tried before any
was written for them. Their survivors are among those below.
"""


def page(record: dict) -> str:
    """Return the table of rooms, the survivors and the equivalent mutants, as Markdown."""
    rooms, equivalent, reasons = record["rooms"], record["equivalent"], record["reasons"]
    rows = ["| room | mutants | killed | survived | equivalent |", "|---|--:|--:|--:|--:|"]
    alive, same = [], []
    counts = {}
    for room, verdicts in rooms.items():
        counts[room], left, here = _counted(verdicts, equivalent)
        alive += left
        same += here
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    rows += [f"| {room} | {' | '.join(map(str, four))} |" for room, four in counts.items()]
    n, killed, _, n_same = counts["all"]
    before = sum(one["first"] in KILLED for verdicts in rooms.values() for one in verdicts)
    rows += [
        "",
        f"{killed / n:.0%} of all, and {killed / (n - n_same):.0%} of those that are not "
        "equivalent, are killed by the tests of their own room.",
        "",
        f"When first tried, {before / n:.0%} of all and {before / (n - n_same):.0%} of those that "
        "are not equivalent were killed. Tests of what was missed were written since, so a share "
        "at first try, this one or that of a fresh sample, is the one to expect of faults that "
        "were not drawn.",
    ]
    for seed, others in record.get("fresh", {}).items():
        verdicts = [one for found in others.values() for one in found]
        (n, killed, _, n_same), left, here = _counted(verdicts, equivalent)
        before = sum(one["first"] in KILLED for one in verdicts)
        alive += left
        same += here
        rows += ["", FRESH] if FRESH not in rows else [""]
        said = f" {record['notes'][seed]}" if seed in record.get("notes", {}) else ""
        rows += [
            f"Seed {seed}, {n} mutants of {', '.join(others)}: when first tried, {before} were "
            f"killed, {before / n:.0%} of all and {before / (n - n_same):.0%} of the {n - n_same} "
            f"that are not equivalent. Now {killed} are.{said}"
        ]
    each = max(map(len, rooms.values()))
    untried = [room for room in TESTS if room not in rooms]
    rows += ["", f"Rooms that were not tried: {', '.join(untried)}."] if untried else []
    rows += ["", "## Survivors", "", *_listed(alive, reasons)]
    rows += ["", "## Equivalent mutants", "", *_listed(same, equivalent)]
    return "\n".join([HEAD.format(longest=LONGEST_S, each=each), *rows]) + "\n"


def _counted(
    verdicts: list[dict], equivalent: dict[str, str]
) -> tuple[tuple[int, int, int, int], list[dict], list[dict]]:
    """Return how many mutants there are, were killed, survived and are equivalent; the latter."""
    left = [one for one in verdicts if one["fate"] not in KILLED]
    same = [one for one in left if one["mutant"] in equivalent]
    alive = [one for one in left if one not in same]
    n = len(verdicts)
    return (n, n - len(left), len(alive), len(same)), alive, same


def _listed(verdicts: list[dict], reasons: dict[str, str]) -> list[str]:
    """Return a line for each mutant, with what is said of it."""
    return [
        f"* `{one['file']}`, line {one['line']}: `{one['before']}` → `{one['after']}`. "
        + reasons.get(one["mutant"], "Not looked at.")
        for one in verdicts
    ] or ["None."]


def main() -> None:
    """Draw mutants, try them, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "rooms", nargs="*", help=f"rooms to try; all where none is named: {', '.join(TESTS)}"
    )
    parser.add_argument("--each", type=int, default=5, help="mutants per room")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample")
    parser.add_argument(
        "--again", action="store_true", help="try only mutants that were not killed last time"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--page", action="store_true", help="write the page again and try none")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        sys.exit(run_inside(asked.inside))
    wrong = sorted(set(asked.rooms) - set(TESTS))
    if wrong:
        parser.error(f"there is no room {wrong[0]!r}; rooms are {', '.join(TESTS)}")
    if asked.page:
        write_page()
        return
    drawn = draw(asked.each, asked.seed)
    rooms = asked.rooms or list(TESTS)
    if asked.list:
        for room in rooms:
            for one in drawn[room]:
                print(f"{room}: line {one.line} of {one.name}")
        return
    with TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        reach = Reach(tree, [one for mutants in drawn.values() for one in mutants])
        for room in rooms:
            record = json.loads(RECORD.read_text(encoding="utf-8"))
            last = sample_of(record, asked.seed).get(room, [])
            before = {one["mutant"]: one for one in last}
            dead = {name for name, one in before.items() if one["fate"] in KILLED}
            wanted = [one for one in drawn[room] if not (asked.again and one.name in dead)]
            found = {one.name: before[one.name] for one in drawn[room] if one not in wanted}
            killers = {name: before[name]["by"] for name in dead}
            for verdict in try_room(tree, reach, room, wanted, killers):
                print(f"{room}: {verdict}", flush=True)
                found[verdict.mutant.name] = verdict.plain()
            verdicts = []
            for one in drawn[room]:
                now = found[one.name]
                first = before.get(one.name, {}).get("first", now["fate"])
                verdicts.append(now | {"line": one.line, "first": first})
            # Read again: reasons may have been written meanwhile.
            record = json.loads(RECORD.read_text(encoding="utf-8"))
            sample = sample_of(record, asked.seed)
            tried = {**sample, room: verdicts}
            sample.clear()
            sample |= {one: tried[one] for one in TESTS if one in tried}
            text = json.dumps(record, indent=1, ensure_ascii=False)
            RECORD.write_text(text + "\n", encoding="utf-8")
            write_page()


def sample_of(record: dict, seed: int) -> dict[str, list[dict]]:
    """Return what is remembered of a sample, by room; what is put there is remembered."""
    if seed == SEED:
        return record["rooms"]
    return record.setdefault("fresh", {}).setdefault(str(seed), {})


def write_page() -> None:
    """Write the page from what is remembered."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()

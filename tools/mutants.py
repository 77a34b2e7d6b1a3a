"""Tests of the tests: faults are put into the package, and each room's own tests must find them.

    python tools/mutants.py                          three mutants per room; writes the table
    python tools/mutants.py rules noises --each 10   some rooms, whose part of the table is replaced

A mutant is one change of one expression: an operator, a comparison, a sign or a constant. Mutants
are drawn with a seed, room by room, and put into a copy of the tree. The tests of the room run
once with a mark at every drawn place, which tells the tests that reach it; a mutant is then tried
on those alone, the quickest first, until one fails. It is killed by a failure or by running out of
time, and survives where all of them pass.
"""

from __future__ import annotations

import argparse
import ast
import builtins
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
"""What became of the mutants of each room when it was last tried, and what is said of survivors."""

SELECTION = (
    "selection/*.py", "*/*selection*.py", "*/binary_*.py", "*/ordered_index.py",
    "solvers/_second_step.py",
)  # fmt: skip
ELSEWHERE = ("*/*torch*.py", "engines/*dask*.py", "engines/_cluster.py",
             "engines/_on_workers.py", "engines/_partitions.py")  # fmt: skip
"""What needs a graphics card, or runs in other processes."""

TESTS: dict[str, tuple[str, ...]] = {
    "bounding": ("tests/bounding",),
    "cli": ("tests/cli", "tests/hostile/test_outputs.py", "tests/hostile/test_files.py"),
    "data": ("tests/data", "tests/engines/test_files.py", "tests/hostile/test_files.py"),
    "effects": ("tests/effects",),
    "engines": ("tests/engines/test_files.py", "tests/engines/test_memory.py",
                "tests/engines/test_checkpoint.py", "tests/engines/test_tree.py",
                "tests/engines/test_contract.py"),
    "inference": ("tests/inference",),
    "kernels": ("tests/kernels",),
    "likelihoods": ("tests/likelihoods", "tests/noises/test_spreads.py"),
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
    "solvers": ("tests/solvers", "tests/test_unknown_index.py"),
}  # fmt: skip
"""The tests of each room: those of its folder, and where files and outputs are tried, those under
`engines` and `hostile`. Files of selection models count to the room `selection`, wherever they
are, and shapes to `noises`."""

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
"""Seconds of tests that a mutant is tried on, as they take without it; the quickest of those that
reach it."""

MOST_S = 1_200.0
"""Seconds for the tests of a room as they are."""

FACTOR, SLACK_S = 8.0, 60.0
"""A mutant is out of time after so many times the seconds its tests take, and these."""

MARK = 'getattr(__import__("builtins"), "_mark", {}.get)'
"""Marks a place; does nothing in processes that tests start."""

NO_TESTS = 5
"""What pytest returns where it has collected nothing."""


@dataclass(frozen=True)
class Mutant:
    """One change of one expression.

    Attributes
    ----------
    path : of the file, below the root.
    start, end : where the expression begins and ends, as places in the text.
    before, after : the expression.
    line : its first line.
    """

    path: str
    start: int
    end: int
    before: str
    after: str
    line: int

    def place(self, text: str, put: str) -> str:
        """Return the text of a file with something in the place of the expression."""
        return text[: self.start] + put + text[self.end :]

    def overlaps(self, other: Mutant) -> bool:
        """Say whether two expressions lie within each other."""
        return self.path == other.path and self.start < other.end and other.start < self.end

    @property
    def name(self) -> str:
        """Return words that stay the same while lines move."""
        where = self.path.removeprefix("src/selfselect/")
        return f"{where}: {_flat(self.before)} → {_flat(self.after)}"


@dataclass
class Verdict:
    """What became of a mutant: killed, out of time, survived or not reached."""

    mutant: str
    line: int
    n_tests: int
    fate: str
    by: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        spent = f"{self.seconds:.0f} s of {self.n_tests} tests"
        return f"{self.fate} after {spent}{by}: line {self.line} of {self.mutant}"


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


def mutants_of(path: Path, rng: random.Random) -> Iterator[Mutant]:
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
    for node in _walk(ast.parse(text)):
        begin, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        whole = text[begin:end]
        after = _changed(node, whole, rng)
        if after is not None and after != whole:
            yield Mutant(name, begin, end, whole, after, node.lineno)


def _walk(node: ast.AST) -> Iterator[ast.expr]:
    """Yield expressions; not those in annotations, decorators, f-strings and patterns."""
    for key, value in ast.iter_fields(node):
        if key in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr | ast.pattern | ast.Raise):
                continue
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from _walk(child)


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
        if any(_is_text(side) for side in sides) or _names_types(sides, node.op):
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


def _names_types(sides: tuple[ast.expr, ...], op: ast.operator) -> bool:
    """Say whether an expression is a union of types."""
    return isinstance(op, ast.BitOr) and any(
        (isinstance(side, ast.Constant) and side.value is None)
        or (isinstance(side, ast.Name) and side.id in vars(builtins))
        for side in sides
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


def draw(rooms: list[str], each: int, seed: int) -> dict[str, list[Mutant]]:
    """Draw so many mutants from each room."""
    drawn = {}
    for room in rooms:
        rng = random.Random(f"{seed} {room}")
        everything = [one for path in files_of(room) for one in mutants_of(path, rng)]
        rng.shuffle(everything)
        kept: list[Mutant] = []
        for one in everything:
            if len(kept) == each:
                break
            if not any(one.overlaps(other) for other in kept):
                kept.append(one)
        drawn[room] = sorted(kept, key=lambda one: (one.path, one.start))
    return drawn


# What runs inside of pytest.


@dataclass
class Marks:
    """Records which tests reach the marks, how long each takes, and the first that fails."""

    wanted: list[str] | None
    test: str = ""
    stage: str = ""
    reached: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def mark(self, number: int) -> None:
        """Note that a mark was reached by the test that runs."""
        tests = self.reached.setdefault(str(number), [])
        # What a fixture does serves every test of its module.
        name = f"{self.test.split('::')[0]}::*" if self.stage == "setup" else self.test
        if name not in tests:
            tests.append(name)

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
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
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


def try_room(tree: Tree, room: str, mutants: list[Mutant]) -> Iterator[Verdict]:
    """Run the tests of a room with marks, then try each of its mutants."""
    originals = {one.path: tree.read(one.path) for one in mutants}
    for path, text in originals.items():
        marked = text
        # From the end on, so that places before stay as they are.
        for i, one in reversed(list(enumerate(mutants))):
            if one.path == path:
                marked = one.place(marked, f"({MARK}({i}) or ({one.before}))")
        tree.write(path, marked)
    base = tree.run(list(TESTS[room]), None, [], MOST_S)
    for path, text in originals.items():
        tree.write(path, text)
    if base is None or not base.get("seconds"):
        sys.exit(f"The tests of {room} do not run as they are, or take too long.")
    for name in base["failed"]:
        print(f"{room}: left out, for it fails without a mutant: {name}", flush=True)
    seconds = {name: base["seconds"][name] for name in base["seconds"].keys() - base["failed"]}
    for i, one in enumerate(mutants):
        wanted = _chosen(base["reached"].get(str(i), []), seconds)
        if not wanted:
            yield Verdict(one.name, one.line, 0, "not reached")
            continue
        tree.write(one.path, one.place(originals[one.path], one.after))
        began = time.monotonic()
        files = list(dict.fromkeys(name.split("::")[0] for name in wanted))
        limit = FACTOR * sum(seconds[name] for name in wanted) + SLACK_S
        found = tree.run(files, wanted, ["-x"], limit)
        tree.write(one.path, originals[one.path])
        took = time.monotonic() - began
        if found is None:
            yield Verdict(one.name, one.line, len(wanted), "out of time", seconds=took)
        elif found["code"] == NO_TESTS:
            sys.exit(f"None of the tests that reach a mutant of {room} was found again.")
        elif found["code"]:
            by = found["failed"][0] if found["failed"] else "the import"
            yield Verdict(one.name, one.line, len(wanted), "killed", by, took)
        else:
            yield Verdict(one.name, one.line, len(wanted), "survived", seconds=took)


def _chosen(reached: list[str], seconds: dict[str, float]) -> list[str]:
    """Return the tests that a mutant is tried on, the quickest first."""
    whole = {name.removesuffix("*") for name in reached if name.endswith("::*")}
    # What is reached while modules are imported may matter to any test.
    every = "" in reached or "::" in whole

    def reaches(name: str) -> bool:
        return every or name in reached or f"{name.split('::', maxsplit=1)[0]}::" in whole

    chosen, total = [], 0.0
    for name in sorted(filter(reaches, seconds), key=seconds.__getitem__):
        total += seconds[name]
        if total > LONGEST_S and chosen:
            break
        chosen.append(name)
    return chosen


def _flat(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 70 else f"{text[:34]} … {text[-34:]}"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]


HEAD = """# Tests of the tests

Small faults are put into the package, one at a time, and the tests of the room they are in must
find them: an operator, a comparison, a sign or a constant is changed (`a < b` into `a <= b` or
`a >= b`, `n` into `n + 1`, a decimal into its double). Mutants are drawn at random with a seed,
three or more from each room. Each is tried on the quickest tests of its own room that reach it, up
to {longest:.0f} seconds of them, and not on the rest of the suite. Files that need a graphics card
or run on the workers of a cluster, and C++, are left out. Files of selection models count to the
room `selection`.

Made by `make mutants` (`python tools/mutants.py`); `python tools/mutants.py rules noises --each 10`
tries some rooms and replaces their part of the table.
"""


def page(record: dict) -> str:
    """Return the table of rooms, and the survivors, as Markdown."""
    rooms, reasons = record["rooms"], record["reasons"]
    rows = ["| room | mutants | killed | survived |", "|---|--:|--:|--:|"]
    alive = []
    counts = {}
    for room, verdicts in rooms.items():
        left = [one for one in verdicts if one["fate"] in ("survived", "not reached")]
        counts[room] = (len(verdicts), len(verdicts) - len(left), len(left))
        alive += left
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    rows += [f"| {room} | {' | '.join(map(str, three))} |" for room, three in counts.items()]
    share = counts["all"][1] / counts["all"][0]
    rows += ["", f"{share:.0%} were killed by the tests of their own room."]
    untried = [room for room in TESTS if room not in rooms]
    rows += ["", f"Rooms that were not tried: {', '.join(untried)}."] if untried else []
    rows += ["", "## Survivors", "", "What is said of them comes from reading the code.", ""]
    for one in alive:
        path, change = one["mutant"].split(": ", 1)
        before, after = change.split(" → ")
        reason = reasons.get(one["mutant"], "Not looked at.")
        rows.append(f"* `{path}`, line {one['line']}: `{before}` → `{after}`. {reason}")
    rows += [] if alive else ["None."]
    head = HEAD.format(longest=LONGEST_S)
    return "\n".join([head, *rows]) + "\n"


def main() -> None:
    """Draw mutants, try them, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "rooms", nargs="*", help=f"rooms to try; all where none is named: {', '.join(TESTS)}"
    )
    parser.add_argument("--each", type=int, default=3, help="mutants per room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        sys.exit(run_inside(asked.inside))
    wrong = sorted(set(asked.rooms) - set(TESTS))
    if wrong:
        parser.error(f"there is no room {wrong[0]!r}; rooms are {', '.join(TESTS)}")
    drawn = draw(asked.rooms or list(TESTS), asked.each, asked.seed)
    if asked.list:
        for room, mutants in drawn.items():
            for one in mutants:
                print(f"{room}: line {one.line} of {one.name}")
        return
    with TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for room, mutants in drawn.items():
            verdicts = []
            for verdict in try_room(tree, room, mutants):
                print(f"{room}: {verdict}", flush=True)
                verdicts.append({**vars(verdict), "seconds": round(verdict.seconds)})
            record = json.loads(RECORD.read_text(encoding="utf-8"))
            tried = {**record["rooms"], room: verdicts}
            record["rooms"] = {one: tried[one] for one in TESTS if one in tried}
            text = json.dumps(record, indent=1, ensure_ascii=False)
            RECORD.write_text(text + "\n", encoding="utf-8")
            PAGE.write_text(page(record), encoding="utf-8")


if __name__ == "__main__":
    main()

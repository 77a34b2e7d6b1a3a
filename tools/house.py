"""Counts the house: mechanisms, lines, flags, imports, and what calls cost without a clock.

    python tools/house.py            today's numbers beside the record, tools/house.json
    python tools/house.py --lower    the same, and lower the record to them where they are below it
    python tools/house.py --write "code lines of Python"    write a number anew, up as well

No number may rise: ``tests/test_house_counts.py`` compares them with the record. A number that has
to rise is written anew by name, in a commit that says why.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import math
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "selfselect"
RECORD = Path(__file__).with_suffix(".json")
COMPOSES = ROOT / "tests" / "oracle" / "composes.json"
WALKS = Path(__file__).with_name("house_walks.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef

WIDTH = 100
"""Characters of a line. A longer one counts as several: the formatter leaves some as they are."""

MANY_PARAMETERS = 8

LOOSE = {
    "kernel calls": 0.1,
    "passes": 0.1,
    "memory": 0.1,
}
"""By which share a number whose name begins so may exceed the record: how many steps a search takes
depends on the last bits of the machine, and a peak on the versions of NumPy and pandas."""

ROOM_OF_PRESENT = 0.02
"""By which share the record of a large count may exceed what is there before it must be lowered."""


# the sources


@dataclass(frozen=True)
class Module:
    """A module of the package, parsed once."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        """Path within the package."""
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def room(self) -> str:
        """The folder in which it is, or its own name."""
        return self.path.relative_to(SOURCE).parts[0].removesuffix(".py")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """The classes at the top."""
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Functions at the top and methods, each with its name as an entry of a list of them."""
        found = []
        for node in self.tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            before = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            found += [
                (f"{self.name}:{before}{one.name}", one)
                for one in inner
                if isinstance(one, Function)
            ]
        return found


@cache
def modules() -> tuple[Module, ...]:
    """Return all modules of the package."""
    return tuple(Module(path) for path in sorted(SOURCE.rglob("*.py")))


def mentioned(node: ast.AST | None) -> set[str]:
    """Return the names in an expression, the last part of dotted ones, those in quotes too."""
    found: set[str] = set()
    for inner in ast.walk(node) if node is not None else ():
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            found.update(re.findall(r"\w+", inner.value))
    return found


@cache
def calls_in(node: ast.AST) -> tuple[ast.Call, ...]:
    """Return the calls in a function or class."""
    return tuple(one for one in ast.walk(node) if isinstance(one, ast.Call))


def arguments(function: Function) -> list[ast.arg]:
    """Return what a function takes, but for self."""
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return found[1:] if found and found[0].arg in ("self", "cls") else found


def called(node: ast.AST) -> str:
    """Return the last part of the name that a call calls; nothing for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return last_name(node.func)


def last_name(node: ast.AST) -> str:
    """Return the last name of an expression: `noise` of `fit.problem.noise`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def heirs(room: str, *roots: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a room that derive from one of `roots`, which are not among them."""
    classes = {
        one.name: one for module in modules() if module.room == room for one in module.classes
    }
    found: dict[str, ast.ClassDef] = {}
    while True:
        above = {*roots, *found}
        more = {
            name: one
            for name, one in classes.items()
            if name not in above and any(last_name(base) in above for base in one.bases)
        }
        if not more:
            return found
        found |= more


def where(node: ast.ClassDef) -> str:
    """Return the entry of a class."""
    module = next(one for one in modules() if node in one.tree.body)
    return f"{module.name}:{node.name}"


# mechanisms for one job, found by what they do


def builders() -> list[str]:
    """Find functions that make a `Design`: what all of a fit's rows are read into."""
    return [
        entry
        for module in modules()
        for entry, function in module.functions
        if any(called(node) == "Design" for node in calls_in(function))
    ]


def searches() -> list[str]:
    """Find solvers that end with several starts and go about it in their own way.

    Such a solver comes to a `StartRecord`, be it through functions and classes of its room; its own
    way is a `solve`, or another body for a private step of the solver that it derives from.
    """
    room = [module for module in modules() if module.room == "solvers"]
    tops = [
        node for one in room for node in one.tree.body if isinstance(node, Function | ast.ClassDef)
    ]
    bodies = {
        node: {one.name for one in node.body if isinstance(one, Function)}
        if isinstance(node, ast.ClassDef)
        else set()
        for node in tops
    }
    solvers = {node.name: node for node in tops if "solve" in bodies[node]}
    solvers |= heirs("solvers", *solvers)
    records, size = {"StartRecord"}, 0
    while len(records) > size:
        size = len(records)
        records |= {
            node.name
            for node in tops
            if node.name not in solvers and {called(one) for one in calls_in(node)} & records
        }
    above = {name: [last_name(base) for base in node.bases] for name, node in solvers.items()}
    keeps = {
        name for name, node in solvers.items() if {called(one) for one in calls_in(node)} & records
    }
    keeps |= set(heirs("solvers", *keeps))
    return sorted(
        where(solvers[name])
        for name in keeps
        if "solve" in bodies[solvers[name]]
        or any(
            step.startswith("_") and not step.startswith("__")
            for base in above[name]
            if base in solvers
            for step in bodies[solvers[name]] & bodies[solvers[base]]
        )
    )


def slopes() -> list[str]:
    """Find members of `moments/` that differentiate weighted averages of a row's moments.

    The contract's own body and one that only refuses are none.
    """
    members = heirs("moments", "Moments").values()
    return [
        f"{where(one)}.{method.name}"
        for one in members
        for method in one.body
        if isinstance(method, Function)
        and "weights" in {arg.arg for arg in arguments(method)}
        and ast.unparse(method.returns or ast.Constant(None)) == "tuple[Array, Array]"
        and any(isinstance(node, ast.Return) for node in ast.walk(method))
    ]


def row_terms() -> list[str]:
    """Find classes of what a row says, in its log-likelihood, chance, score and residual."""
    return [where(one) for one in heirs("likelihoods", "RowTerms").values()]


EVALUATIONS_OF_TYPES = [
    "likelihoods/mixed.py:Mixed.evaluate",
    "likelihoods/_mixed_boxes.py:BoxTypes.score_and_hessian",
    "likelihoods/mixed.py:evaluate_types",
]
"""Ways from parameters to score and Hessian of people of unobserved types."""


def functions_of_types() -> list[str]:
    """Find functions that take a curvature in modules that know where types are."""
    return [
        entry
        for module in modules()
        if module.room == "likelihoods" and {"TypesAt", "Components"} & mentioned(module.tree)
        for entry, function in module.functions
        if "curvature" in {arg.arg for arg in arguments(function)}
    ]


def summaries() -> list[str]:
    """Find functions that write estimates with their intervals on a page."""
    return [
        entry
        for module in modules()
        for entry, function in module.functions
        if "Page" in mentioned(function.returns)
        and {"level", "intervals"} <= {arg.arg for arg in arguments(function)}
        and any(called(node) == "Page" for node in calls_in(function))
    ]


COMPARISONS = [
    "choose.py:choose_alternatives",
    "noise_choice.py:choose_noise",
    "verdict/verdict.py:verdict",
    "results/restrictions.py:restrictions",
    "results/sensitivity.py:sensitivity",
    "results/overfitting.py:overfitted_test",
]
"""Ways to fit other models to the rows of a fit and to set them beside each other."""

FITTING = ("solvers", "engines", "selection", "_fit", "sklearn", "cli")
"""Rooms whose job is to fit; all others fit again."""


def fits_again() -> list[str]:
    """Find modules that fit once more what has been fitted: other models, other rows."""
    return [
        module.name
        for module in modules()
        if module.room not in FITTING
        and any(
            called(node) in ("choose_solver", "refit", "fit_design")
            or (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and called(node) == "fit"
            )
            or (
                called(node) == "solve"
                and "rng" in {one.arg for one in getattr(node, "keywords", ())}
            )
            for node in module.nodes
        )
    ]


def places_that_draw() -> list[str]:
    """Find functions that draw outcomes: by a noise or likelihood, or by numbers of their own.

    Noises, likelihoods and samplers draw for others; a function that hands its random numbers on
    to another function of this list is none.
    """
    own = ("noises", "likelihoods", "samplers")
    contracts = heirs("noises", "ABC", "Protocol") | heirs("likelihoods", "ABC")
    methods = {
        one.name
        for contract in contracts.values()
        for one in contract.body
        if isinstance(one, Function) and "rng" in {arg.arg for arg in arguments(one)}
    }

    def draws(node: ast.Call) -> bool:
        if isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            return bool(kinds_of(last_name(node.func.value), None) & {"noises", "likelihoods"})
        given = [one.value for one in node.keywords if one.arg == "outcome"]
        return any(last_name(one) == "rng" for value in given for one in ast.walk(value))

    return [
        entry
        for module in modules()
        if module.room not in own
        for entry, function in module.functions
        if any(draws(node) for node in calls_in(function))
    ]


JOBS: dict[str, Callable[[], list[str]]] = {
    "builders of a design": builders,
    "searches": searches,
    "slopes of averages": slopes,
    "classes of row terms": row_terms,
    "evaluations of types": lambda: list(EVALUATIONS_OF_TYPES),
    "functions that take a curvature where types are": functions_of_types,
    "summaries": summaries,
    "ways to compare models of the same rows": lambda: list(COMPARISONS),
    "modules that fit again": fits_again,
    "places that draw outcomes": places_that_draw,
}
"""What does one job; where a list is given, the line after it counts what a new one needs."""


def missing_entries() -> list[str]:
    """Return entries of the given lists that do not exist."""
    there = {entry for module in modules() for entry, _ in module.functions}
    return [entry for entry in (*EVALUATIONS_OF_TYPES, *COMPARISONS) if entry not in there]


# flags: what tells of which kind a member is

CABINETS = (
    "rules",
    "noises",
    "problem",
    "likelihoods",
    "moments",
    "engines",
    "samplers",
    "solvers",
)


def is_contract(node: ast.ClassDef) -> bool:
    """Say whether a class is abstract."""
    return bool({last_name(base) for base in node.bases} & {"ABC", "Protocol"})


@cache
def members(room: str) -> dict[str, ast.ClassDef]:
    """Return the contracts of a cabinet, what derives from them, and classes named after files."""
    found: dict[str, ast.ClassDef] = {}
    for module in modules():
        if module.room != room:
            continue
        stem = module.path.stem.replace("_", "").rstrip("s")
        found |= {
            one.name: one
            for one in module.classes
            if is_contract(one)
            or (
                not module.path.stem.startswith("_")
                and one.name.lower().startswith(stem)
                and not {last_name(base) for base in one.bases} & {"Enum", "NamedTuple"}
            )
        }
    return found | heirs(room, *found)


def without_classvar(annotation: ast.expr | None) -> str:
    """Return an annotation as text, what is in ClassVar where it stands in one."""
    text = ast.unparse(annotation) if annotation is not None else ""
    inside = re.fullmatch(r"(?:ClassVar|Final)\[(.*)\]", text)
    return inside.group(1) if inside else text


@cache
def words() -> frozenset[str]:
    """Return the names that stand for one of a few words, such as `Curvature`."""
    return frozenset(
        last_name(node.targets[0])
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Literal[")
    )


@cache
def attributes(room: str) -> dict[str, str]:
    """Return attributes and methods without arguments of a cabinet's members, with their types."""
    found: dict[str, str] = {}
    for node in members(room).values():
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                found.setdefault(one.target.id, without_classvar(one.annotation))
            elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
                found.setdefault(one.targets[0].id, type(getattr(one.value, "value", ...)).__name__)
            elif isinstance(one, Function) and not arguments(one) and not one.name.startswith("_"):
                found.setdefault(one.name, without_classvar(one.returns))
    return {name: type_ for name, type_ in found.items() if not name.startswith("_")}


def tells_a_kind(type_: str) -> bool:
    """Say whether values of a type are there to be told apart: truth values, words, classes."""
    return type_ == "bool" or type_ in words() or bool(re.match(r"(Literal|type)\[", type_))


@cache
def denotations() -> dict[str, Counter[str]]:
    """Count, for every name that is annotated anywhere, of which cabinet what it denotes is."""
    owners = {name: room for room in CABINETS for name in members(room)}
    found: dict[str, Counter[str]] = {}

    def note(name: str, annotation: ast.expr | None) -> None:
        types = mentioned(annotation)
        if types and types != {"Any"}:
            rooms = {owners[one] for one in types & set(owners)} or {""}
            found.setdefault(name, Counter()).update(rooms)

    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.arg):
                note(node.arg, node.annotation)
            elif isinstance(node, ast.AnnAssign):
                note(last_name(node.target), node.annotation)
            elif isinstance(node, Function):
                note(node.name, node.returns)
    return found


@cache
def kinds_of(name: str, annotation: str | None) -> frozenset[str]:
    """Return the cabinets of which what a name denotes may be.

    It is what an annotation says; else what such names are annotated as elsewhere, in a quarter of
    all places at least; else the cabinet whose member the name's last word is.
    """
    if annotation not in (None, "", "Any"):
        types = mentioned(ast.parse(annotation, mode="eval"))
        return frozenset(room for room in CABINETS if types & set(members(room)))
    counted = denotations().get(name, Counter())
    enough = 0.25 * sum(counted.values())
    found = {room for room, times in counted.items() if room and times >= enough}
    return frozenset(found | {room for room in CABINETS if name.endswith(room.rstrip("s"))})


def is_decided_on(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Say whether a branch depends on an expression: on its truth, or on which word it is."""
    above = parents[node]
    if isinstance(above, ast.If | ast.While | ast.IfExp | ast.Assert):
        return above.test is node
    if isinstance(above, ast.comprehension):
        return node in above.ifs
    if isinstance(above, ast.UnaryOp):
        return isinstance(above.op, ast.Not)
    if isinstance(above, ast.Match):
        return above.subject is node
    if isinstance(above, ast.Compare):
        others = [one for one in (above.left, *above.comparators) if one is not node]
        constants = [
            inner.value
            for one in others
            for inner in ast.walk(one)
            if isinstance(inner, ast.Constant)
        ]
        return any(one is None or isinstance(one, str) for one in constants)
    return isinstance(above, ast.BoolOp)


def annotations_around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> dict[str, str]:
    """Return what the parameters of the functions around a node are annotated as."""
    found: dict[str, str] = {}
    while node in parents:
        node = parents[node]
        if isinstance(node, Function):
            for one in arguments(node):
                if one.annotation is not None:
                    found.setdefault(one.arg, ast.unparse(one.annotation))
    return found


@cache
def questions(room: str) -> dict[str, str]:
    """Return the functions of a cabinet that take a member and nothing else, with their types."""
    return {
        one.name: without_classvar(one.returns)
        for module in modules()
        if module.room == room
        for one in module.tree.body
        if isinstance(one, Function) and len(arguments(one)) == 1
        if room in kinds_of(arguments(one)[0].arg, without_classvar(arguments(one)[0].annotation))
    }


def flag_reads() -> Counter[str]:
    """Count, per cabinet, the reads of flags of its members by other rooms.

    A flag is an attribute, a method without arguments, or a function of a member alone, that
    returns a truth value, one of a few words or a class; or on which a branch depends, whatever it
    returns.
    """
    found: Counter[str] = Counter()
    for module in modules():
        for node in module.nodes:
            base, name, value = _asked(node, module.parents)
            if base is None:
                continue
            around = annotations_around(node, module.parents) if isinstance(base, ast.Name) else {}
            denoted = last_name(base)
            for room in kinds_of(denoted, around.get(denoted)) - {module.room}:
                known = questions(room) if isinstance(node, ast.Call) else attributes(room)
                known = attributes(room) if called(node) == "getattr" else known
                if name in known and (
                    tells_a_kind(known[name]) or is_decided_on(value, module.parents)
                ):
                    found[room] += 1
                    break
    return found


def _asked(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> tuple[ast.AST | None, str, ast.AST]:
    """Return of what a node asks which attribute, and the expression that has its value."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        above = parents.get(node)
        if isinstance(above, ast.Call) and above.func is node:
            if above.args or above.keywords:
                return None, "", node
            return node.value, node.attr, above
        return node.value, node.attr, node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if (
            node.func.id == "getattr"
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
        ):
            return node.args[0], str(node.args[1].value), node
        if len(node.args) == 1 and not node.keywords:
            return node.args[0], node.func.id, node
    return None, "", node


# lines, names, and what the checks are told to overlook


def lines_of(text: str) -> int:
    """Count lines of code, a long one as often as it is too long."""
    return sum(math.ceil(len(line.rstrip()) / WIDTH) for line in text.splitlines() if line.strip())


def without_prose(module: Module) -> str:
    """Return a module's text without docstrings and comments."""
    rows = module.text.splitlines()
    for node in module.nodes:
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if (
                isinstance(one, ast.Expr)
                and isinstance(one.value, ast.Constant)
                and isinstance(one.value.value, str)
            ):
                assert one.end_lineno is not None
                for at in range(one.lineno - 1, one.end_lineno):
                    rows[at] = ""
    return "\n".join("" if row.lstrip().startswith("#") else row for row in rows)


def code_lines() -> int:
    """Count lines of Python without docstrings, comments and blanks.

    The formatter lays them out, `make lint` holds it to a width of 100, and what it is told to
    leave alone is counted with the ignores.
    """
    return sum(lines_of(without_prose(module)) for module in modules())


def other_lines(*endings: str) -> int:
    """Count lines of other languages without comments and blanks."""
    comments = re.compile(r"/\*.*?\*/|<!--.*?-->|(?<![:\"'])//[^\n]*", flags=re.DOTALL)
    files = (path for ending in endings for path in SOURCE.rglob(f"*.{ending}"))
    return sum(lines_of(comments.sub("", path.read_text(encoding="utf-8"))) for path in files)


def uses_of_any() -> int:
    """Count uses of `Any`, and of names that are another word for it."""
    aliases = {
        last_name(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and _is_any(node.value)
    }
    return sum(
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in {"Any", *aliases}
        for module in modules()
        for node in module.nodes
    )


def _is_any(node: ast.expr) -> bool:
    """Say whether a type is Any, or Any or something else."""
    if isinstance(node, ast.BinOp):
        return _is_any(node.left) or _is_any(node.right)
    return isinstance(node, ast.Name) and node.id == "Any"


def ignores() -> int:
    """Count comments that tell a check to look away: of types, of style, of layout."""
    ignoring = re.compile(r"#\s*(type:\s*ignore|noqa|fmt:\s*(skip|off)|pragma:\s*no cover)")
    return sum(
        bool(ignoring.search(token.string))
        for module in modules()
        if ignoring.search(module.text)
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
        if token.type == tokenize.COMMENT
    )


def borrowed_names() -> int:
    """Count names that a room takes from private modules of another, or that are private there."""
    return sum(
        any(part.startswith("_") for part in (*parts[2:], alias.name))
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module
        for parts in [node.module.split(".")]
        if parts[0] == "selfselect" and len(parts) > 1 and parts[1] != module.room
        for alias in node.names
    )


def wide_functions() -> int:
    """Count functions of eight or more parameters."""
    return sum(
        len(arguments(node)) >= MANY_PARAMETERS
        for module in modules()
        for node in module.nodes
        if isinstance(node, Function)
    )


def repeated_class_names() -> int:
    """Count names that more than one class has."""
    names = Counter(
        one.name for module in modules() for one in module.nodes if isinstance(one, ast.ClassDef)
    )
    return sum(times > 1 for times in names.values())


def refused_cells() -> int | None:
    """Count combinations that are refused: entries of "refused" in the table of what composes.

    None where there is no such table yet.
    """
    table = json.loads(COMPOSES.read_text(encoding="utf-8")) if COMPOSES.exists() else {}
    return len(table["refused"]) if "refused" in table else None


def counted() -> dict[str, int]:
    """Return what can be counted in the sources."""
    lines = [module.text.count("\n") for module in modules()]
    flags = flag_reads()
    found = {
        "code lines of Python": code_lines(),
        "lines of C++": other_lines("cpp", "hpp", "h"),
        "lines of CUDA": other_lines("cu", "cuh"),
        "lines of script, style and pages": other_lines("js", "css", "html"),
        "modules": len(modules()),
        "lines of the longest module": max(lines),
        **{f"reads of flags of {room}": flags[room] for room in CABINETS},
        "reads of flags": sum(flags.values()),
        "names that a room borrows from another": borrowed_names(),
        "Any": uses_of_any(),
        "cast": sum(called(node) == "cast" for module in modules() for node in module.nodes),
        "ignores": ignores(),
        "functions of eight or more parameters": wide_functions(),
        "class names used twice": repeated_class_names(),
    }
    refused = refused_cells()
    return found if refused is None else found | {"combinations that are refused": refused}


# all of them, and the record

Numbers = dict[str, Any]
"""By name a number, or the entries of a list whose length it is."""


def static() -> Numbers:
    """Return what the sources show."""
    return {**{job: find() for job, find in JOBS.items()}, **counted()}


def walks() -> Numbers:
    """Return what calls cost, from a fresh process with one thread."""
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(WALKS)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "SELFSELECT_PURE": ""},
    )
    return json.loads(ran.stdout)


def size(value: Any) -> float:
    """Return a number, or the length of a list."""
    return len(value) if isinstance(value, list) else value


def share(name: str) -> float:
    """Return by which share a number may exceed the record."""
    return next((loose for start, loose in LOOSE.items() if name.startswith(start)), 0.0)


def risen(today: Numbers, record: Numbers) -> list[str]:
    """Say which numbers exceed the record, and which it lacks."""
    said = []
    for name, value in today.items():
        if name not in record:
            said.append(f"{name}: {size(value):g}, and the record has no such number")
        elif size(value) > size(record[name]) * (1.0 + share(name)) + 1e-9:
            new = ""
            if isinstance(value, list):
                new = f" (new: {', '.join(sorted(set(value) - set(record[name])))})"
            said.append(f"{name}: {size(value):g}, was {size(record[name]):g}{new}")
    return said


def fallen(today: Numbers, record: Numbers) -> list[str]:
    """Say which numbers are so far below the record that it must be lowered."""
    said = []
    for name, value in today.items():
        if name in record:
            # Lists are exact; large counts may move a little from commit to commit.
            room = share(name) if share(name) else ROOM_OF_PRESENT
            least = 0.0 if isinstance(value, list) else room * size(record[name])
            if size(record[name]) - size(value) > least + 1e-9:
                said.append(f"{name}: {size(value):g}, the record says {size(record[name]):g}")
    return said


def read_record() -> Numbers:
    """Return the record; nothing where there is none."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def main() -> None:
    """Print all numbers, and write the record where that is asked for."""
    parser = argparse.ArgumentParser(description="Counts the house.")
    parser.add_argument("--lower", action="store_true", help="lower the record to today's numbers")
    parser.add_argument("--write", nargs="+", metavar="NAME", default=[], help="write these anew")
    asked = parser.parse_args()
    today, record = {**static(), **walks()}, read_record()
    for name in asked.write:
        if name not in today:
            parser.error(f"There is no number {name!r}. There are: {', '.join(today)}.")
    for name, value in today.items():
        before = f"   (record {size(record[name]):g})" if name in record else "   (no record)"
        same = name in record and size(record[name]) == size(value)
        print(f"{size(value):>10g}  {name}{'' if same else before}")
        for entry in value if isinstance(value, list) else ():
            print(f"{'':12}- {entry}")
    if asked.lower or asked.write:
        lowered = {
            name: value
            if name not in record
            or name in asked.write
            or (asked.lower and size(value) <= size(record[name]))
            else record[name]
            for name, value in today.items()
        }
        RECORD.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")
        record = lowered
    wrong = risen(today, record)
    if wrong:
        sys.exit("No number may rise:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()

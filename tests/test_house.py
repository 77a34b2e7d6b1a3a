"""The house stays in order: imports flow one way, public names exist and are documented."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import selfselect

SOURCE = Path(selfselect.__file__).parent

RANKS = [
    {"errors", "progress", "visible"},
    {"plain", "seeds", "threads"},
    {"kernels"},
    {"rules"},
    {"noises"},
    {"samplers"},
    {"data"},
    {"problem"},
    {"likelihoods"},
    {"moments"},
    {"engines"},
    {"solvers"},
    {"inference"},
    {"options"},
    {"results"},
    {"effects"},
    {"plots"},
    {"report"},
    {"explore"},
    {"simulators", "datasets"},
    {"posing"},
    {"_fit", "bounding"},
    {"selection"},
    {"multinomial"},
    {"choose", "noise_choice"},
    {"verdict"},
    {"sklearn"},
    {"cli"},
    {"__main__"},
]
"""A room may import from itself and from rooms of lower rank, never from its own rank or above."""

BELOW = {"report/page.py": "plain"}
"""Modules of a rank below their room's: the words in which every answer is written."""

WHEN_CALLED = {"problem/problem.py": {"likelihoods"}, "noise_choice.py": {"verdict"}}
"""Modules that import from higher rooms inside functions. The list may only become shorter: results
find what stands around them through a `LateModule`."""

CORE = {
    *("errors", "options", "plain", "progress", "seeds", "threads", "visible"),
    *("data", "problem", "rules", "noises", "likelihoods", "kernels", "moments"),
    *("engines", "samplers", "solvers", "inference", "results", "posing", "_fit"),
}
"""Rooms that a fit walks through, and what they share; all others stand around them."""

RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}

MODULES = sorted(SOURCE.rglob("*.py"))

TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

HOUSE = Path(__file__).parent.parent / "HOUSE.md"

CABINETS = (
    "rules",
    "noises",
    "noises/shapes",
    "samplers",
    "engines",
    "effects",
    "plots",
)

HELPERS = ("plots/svg.py",)
"""Files of a cabinet that other rooms share and that hold no member."""

LISTING = {"errors.py", "data/grammar.py"}
"""Modules that say what they offer: one is public, one holds names of another package."""

MOST_MODULES, MOST_LINES = 300, 600
"""Modules of the package, and lines of one: neighbours of one subject share a module."""


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def dotted(path):
    parts = ("selfselect", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def only_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def modules_in(node):
    """Yield the modules of the package that an import names, as paths: "report/page.py"."""
    names = []
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    named = (name.split(".")[1:] for name in names if name.startswith("selfselect."))
    for parts in (parts for parts in named if parts[0] != "__version__"):
        paths = ("/".join(parts[:n]) + ".py" for n in range(len(parts), 0, -1))
        yield next((path for path in paths if (SOURCE / path).exists()), parts[0])


def imports(node):
    """Yield all imports in a tree but those for types, and whether each is inside a function."""
    for inner in ast.iter_child_nodes(node):
        if not only_for_types(inner):
            inside = isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from ((module, inside) for module in modules_in(inner))
            yield from ((module, inside or deeper) for module, deeper in imports(inner))


def rank_of(name):
    room = name.split("/")[0].removesuffix(".py")
    return RANK[BELOW.get(name, room)]


def test_imports_flow_one_way():
    wrong, allowed = [], []
    for path in MODULES:
        if path.parent == SOURCE and path.name == "__init__.py":
            continue  # the package itself imports nothing until it is touched
        name, room = name_of(path), room_of(path)
        for other, inside in imports(TREES[path]):
            there = other.split("/")[0].removesuffix(".py")
            if there == room or rank_of(other) < rank_of(name):
                continue
            if inside and there in WHEN_CALLED.get(name, ()):
                allowed.append(name)
            else:
                wrong.append(f"{name} may not import from {other}")
    assert not wrong, "\n".join(wrong)
    assert set(allowed) == set(WHEN_CALLED), "the list of exceptions can be shorter"


def test_the_core_imports_nothing_that_stands_around_it():
    assert set(RANK) >= CORE
    wrong = [
        f"{name_of(path)} imports {other}"
        for path in MODULES
        if room_of(path) in CORE
        for other, _ in imports(TREES[path])
        if other.split("/")[0].removesuffix(".py") not in CORE and other not in BELOW
    ]
    assert not wrong, "\n".join(wrong)


def late_modules(tree):
    """Yield the names under which a module knows others, for types and when it runs."""
    for node in tree.body:
        if only_for_types(node):
            typed = {
                alias.asname or alias.name: alias.name
                if isinstance(inner, ast.Import)
                else f"{inner.module}.{alias.name}"
                for inner in node.body
                if isinstance(inner, ast.Import | ast.ImportFrom)
                for alias in inner.names
            }
            for inner in node.orelse:
                if isinstance(inner, ast.Assign) and calls(inner.value, "LateModule"):
                    yield inner.targets[0].id, inner.value.args[0].value, typed


def test_modules_found_when_called_are_those_that_types_are_read_from():
    found = [(path, *late) for path in MODULES for late in late_modules(TREES[path])]
    assert len(found) > 20
    wrong = [
        f"{name_of(path)}: {name} is {module} when called, and {typed.get(name)} for types"
        for path, name, module, typed in found
        if typed.get(name) != module
    ]
    assert not wrong, "\n".join(wrong)
    made = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(TREES[path])
        if calls(node, "LateModule")
    }
    assert made == {name_of(path) for path, *_ in found}


def test_every_room_has_its_rank():
    rooms = {room_of(path) for path in MODULES} - {"__init__"}
    assert rooms == set(RANK)


def test_every_module_begins_with_a_sentence():
    sentences = {path: ast.get_docstring(TREES[path]) or "" for path in MODULES}
    wrong = [
        name_of(path)
        for path, sentence in sentences.items()
        if not sentence or sentence.splitlines()[0][-1] not in ".:?"
    ]
    assert not wrong, "\n".join(wrong)


def test_public_names_exist_and_are_documented():
    wrong = []
    for path in MODULES:
        if path.name == "__init__.py":
            module = importlib.import_module(dotted(path))
            offered = getattr(module, "__all__", ())
            wrong += [
                f"{dotted(path)} has no {name}" for name in offered if not hasattr(module, name)
            ]
        wrong += [
            f"{dotted(path)}.{node.name} has no docstring"
            for node in TREES[path].body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    assert not wrong, "\n".join(wrong)


def test_only_packages_and_public_modules_list_what_they_offer():
    listing = {
        name_of(path)
        for path in MODULES
        for node in TREES[path].body
        if isinstance(node, ast.Assign) and names_in(node.targets[0]) == {"__all__"}
    }
    assert {name for name in listing if not name.endswith("__init__.py")} <= LISTING


def test_no_class_has_the_name_of_another():
    homes = {}
    for path in MODULES:
        for node in TREES[path].body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name_of(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_modules_are_few_and_none_is_too_long():
    assert len(MODULES) <= MOST_MODULES
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert {name_of(path): n for path, n in lines.items() if n > MOST_LINES} == {}


def test_the_library_does_not_print():
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not wrong, "\n".join(wrong)


def names_in(node):
    """Return the names that an expression mentions, the last part of dotted ones."""
    return {
        inner.id if isinstance(inner, ast.Name) else inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name | ast.Attribute)
    }


def calls(node, *functions):
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    )


def type_tests(tree):
    """Yield the line of every test of a type, and the names it is compared with."""
    tuples = {
        name: names_in(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in names_in(node.targets[0])
    }
    for node in ast.walk(tree):
        names = set()
        if calls(node, "isinstance", "issubclass"):
            names = names_in(node.args[1])
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(calls(side, "type") for side in sides):
                names = set().union(*map(names_in, sides))
        elif isinstance(node, ast.match_case):
            names = names_in(node.pattern)
        yield getattr(node, "lineno", 0), names.union(*(tuples.get(name, ()) for name in names))


def test_type_tests_of_rules_noises_and_likelihoods_stay_in_their_rooms():
    """Elsewhere code asks them what they can do, so that a new one is a file and no more."""
    rooms = ("rules", "noises", "likelihoods")
    classes = {
        node.name
        for path in MODULES
        if room_of(path) in rooms
        for node in TREES[path].body
        if isinstance(node, ast.ClassDef)
    }
    assert {"Maximum", "Correlated", "Normal", "Boxes"} <= classes
    wrong = [
        f"{name_of(path)}:{line} tests for {', '.join(sorted(names & classes))}"
        for path in MODULES
        if room_of(path) not in rooms and name_of(path) != "moments/choose.py"
        for line, names in type_tests(TREES[path])
        if names & classes
    ]
    assert not wrong, "\n".join(wrong)


def test_normal_tails_stay_in_their_rooms():
    """Elsewhere code asks a noise for its own distribution, so that noise need not be normal."""
    rooms = {"kernels", "noises", "likelihoods", "moments"}
    tails = re.compile(r"\b(?:ndtr|log_ndtr|mills_terms)\b")
    wrong = [
        f"{name_of(path)}:{number}"
        for path in MODULES
        if room_of(path) not in rooms
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if tails.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def squashed(name):
    return name.replace("_", "").lower()


def public_names(tree):
    """Return the names that a module binds and does not hide."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= names_in(node.targets[0])
    return {name for name in names if not name.startswith("_")}


def test_every_member_of_a_cabinet_is_named_after_its_file():
    wrong = []
    for path in MODULES:
        cabinet, name = path.parent.relative_to(SOURCE).as_posix(), path.stem
        helper = name.startswith("_") or name in ("base", "choose")
        if cabinet not in CABINETS or helper or name_of(path) in HELPERS:
            continue
        public = public_names(TREES[path])
        if cabinet == "noises/shapes":
            public = {type(importlib.import_module(dotted(path)).SHAPE).__name__}
        stem = squashed(name).removesuffix("s")
        if not any(squashed(member).startswith(stem) for member in public):
            wrong.append(f"{name_of(path)} offers {', '.join(sorted(public))}")
    assert not wrong, "\n".join(wrong)


def rooms_described():
    """Yield the folder or file of every row of the tables of rooms."""
    text = HOUSE.read_text(encoding="utf-8")
    table = text[text.index("## The rooms") :].split("\n## ")[0]
    for row in re.findall(r"^\| (`.*) \|$", table, flags=re.MULTILINE):
        yield row.split("|", maxsplit=1)[0].strip(" `")


def test_the_plan_of_the_house_names_every_room_and_no_other():
    described = list(rooms_described())
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    folders = {
        f"{path.parent.relative_to(SOURCE).as_posix()}/"
        for path in SOURCE.rglob("*/__init__.py")
        if set(path.parent.glob("*.py")) != {path} or set(path.parent.glob("*/__init__.py"))
    }
    assert set(described) == files | folders
    assert len(described) == len(set(described))


def test_folders_of_source_are_rooms_with_an_init():
    folders = {path.parent for path in MODULES}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_importing_the_package_loads_no_other_package():
    others = {"numpy", "pandas", "scipy", "formulaic", "torch"}
    code = f"import sys, selfselect; sys.exit(', '.join(sys.modules.keys() & {others}) or 0)"
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_package_lists_what_it_offers():
    assert set(selfselect.__all__) <= set(dir(selfselect))
    for name in selfselect.__all__:
        assert getattr(selfselect, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = selfselect.nothing


@pytest.mark.parametrize(
    "first",
    [
        "import selfselect._fit",
        "from selfselect._fit import fit_design",
        "import selfselect.cli.fit",
    ],
)
def test_fit_is_a_function_whoever_imports_its_module_first(first):
    code = f"{first}\nimport selfselect, inspect\nassert inspect.isfunction(selfselect.fit)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_function_that_uses_the_package_can_be_sent_to_a_worker():
    cloudpickle = pytest.importorskip("cloudpickle")
    code = (
        "import selfselect as ss\nimport cloudpickle\n"
        "def use():\n    return ss.fit.__name__, ss.noises.Independent().name\n"
        "assert cloudpickle.loads(cloudpickle.dumps(use))() == use()"
    )
    assert cloudpickle.loads(cloudpickle.dumps(selfselect)) is selfselect
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_what_is_optional_is_imported_in_one_room_only():
    optional = {
        "torch": {"kernels", "engines"},
        "sklearn": {"sklearn"},
        "matplotlib": {"plots"},
        "tqdm": {"progress"},
        "dask": {"engines"},
        "distributed": {"engines"},
    }
    wrong = []
    for path in MODULES:
        for node in ast.walk(TREES[path]):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                root = name.split(".")[0]
                if room_of(path) not in optional.get(root, {room_of(path)}):
                    wrong.append(f"{name_of(path)} imports {root}")
    assert not wrong, "\n".join(wrong)


def test_formulaic_is_imported_in_one_module_only():
    # Its modules import each other, so threads must not begin with different ones: see there.
    importing = set()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "formulaic" for name in names):
                importing.add(path.relative_to(SOURCE).as_posix())
    assert importing == {"data/grammar.py"}

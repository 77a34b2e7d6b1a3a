"""The house stays in order: imports flow one way, public names exist and are documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import selfselect

SOURCE = Path(selfselect.__file__).parent

RANKS = [
    {"errors", "progress", "threads"},
    {"plain", "seeds"},
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
    {"results"},
    {"effects"},
    {"plots"},
    {"report"},
    {"classics"},
    {"simulators", "datasets"},
    {"posing"},
    {"_fit"},
    {"choose"},
    {"sklearn"},
    {"cli"},
    {"__main__"},
]
"""A room may import from itself and from rooms of lower rank, never from its own rank or above."""

RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}

MODULES = sorted(SOURCE.rglob("*.py"))

OPTIONAL_MODULES = {"torch": ("torch_", "_torch_"), "triton": ("triton_",)}
"""Packages without which modules whose names begin so cannot be imported."""


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def dotted(path):
    parts = ("selfselect", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def only_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported_rooms(tree):
    """Yield the rooms imported when the module is loaded: not in functions, not for types."""
    for node in tree.body:
        if only_for_types(node):
            continue
        for inner in ast.walk(node) if isinstance(node, ast.If | ast.Try | ast.With) else [node]:
            if isinstance(inner, ast.ImportFrom) and inner.level == 0 and inner.module:
                if inner.module == "selfselect":
                    yield from (alias.name for alias in inner.names)
                elif inner.module.startswith("selfselect."):
                    yield inner.module.split(".")[1]
            elif isinstance(inner, ast.Import):
                for alias in inner.names:
                    if alias.name.startswith("selfselect."):
                        yield alias.name.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_flow_one_way(path):
    room = room_of(path)
    rank = RANK.get(room, -1)  # the package itself imports nothing until it is touched
    for other in imported_rooms(ast.parse(path.read_text(encoding="utf-8"))):
        assert other == room or RANK[other] < rank, f"{room} may not import from {other}"


def test_every_room_has_its_rank():
    rooms = {room_of(path) for path in MODULES} - {"__init__"}
    assert rooms == set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path):
    sentence = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert sentence, "a module begins with a sentence"
    assert sentence.splitlines()[0][-1] in ".:?"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_names_exist_and_are_documented(path):
    if path.name == "__main__.py":
        assert "__all__" not in path.read_text(encoding="utf-8")
        return
    for package, prefix in OPTIONAL_MODULES.items():
        if path.name.startswith(prefix):
            pytest.importorskip(package, reason=f"{package} is not installed")
    module = importlib.import_module(dotted(path))
    for name in getattr(module, "__all__", ()):
        member = getattr(module, name)
        if inspect.isclass(member) or inspect.isfunction(member):
            assert (member.__doc__ or "").strip(), f"{dotted(path)}.{name} has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_library_does_not_print(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print"


def test_folders_of_source_are_rooms_with_an_init():
    folders = {path.parent for path in MODULES}
    assert all((folder / "__init__.py").exists() for folder in folders)


@pytest.mark.parametrize("heavy", ["numpy", "pandas", "scipy", "formulaic", "torch"])
def test_importing_the_package_loads_nothing_heavy(heavy):
    code = f"import sys, selfselect; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
        "triton": {"kernels"},
        "torch": {"kernels", "engines"},
        "sklearn": {"sklearn"},
        "matplotlib": {"plots"},
        "tqdm": {"progress"},
        "dask": {"engines"},
        "distributed": {"engines"},
    }
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                root = name.split(".")[0]
                assert room_of(path) in optional.get(root, {room_of(path)}), (path, root)

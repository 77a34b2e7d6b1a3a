"""Runs a chosen subset of the tests with other versions of what the package stands on.

    python tools/versions.py lowest     the lowest versions that pyproject.toml declares
    python tools/versions.py pandas2    the newest versions, but pandas before 3
    python tools/versions.py pythons    every Python from 3.11 on that is installed

Environments are made in .envs/ and kept until what they hold changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".envs"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

EXTRAS = ("plot", "sklearn", "parquet", "dask")
"""Extras that are installed. PyTorch is left out for its size."""

TOOLS = ("hypothesis", "maketables", "mpmath", "polars", "pytest", "pytest-xdist")

OF_THEIR_TIME = ("pyparsing<3.3",)
"""What lowest versions need beside them, for they do not know what came after: matplotlib 3.8
calls functions of pyparsing that are deprecated by now."""

SUBSET = (
    "tests/data/test_columns.py",
    "tests/data/test_tables.py",
    "tests/data/test_long.py",
    "tests/engines/test_files.py",
    "tests/engines/test_memory.py",
    "tests/cli/test_main.py",
    "tests/cli/test_effects.py",
    "tests/effects/test_contract.py",
    "tests/kernels/test_joint.py",
    "tests/explore/test_write.py",
    "tests/plots",
    "tests/report/test_full_report.py",
    "tests/results/test_archive.py",
    "tests/results/test_predictions.py",
    "tests/results/test_tables.py",
    "tests/selection/test_result.py",
    "tests/test_sklearn.py",
)
"""Where tables, files, pages, pictures and the shell meet other packages."""

LEFT_OUT = (
    # scikit-learn's own battery, which differs from version to version.
    "tests/test_sklearn.py::test_every_check_of_scikit_learn_passes",
    # scikit-learn 1.6 checks with ten rows, too few for an alternative's six parameters.
    "tests/test_sklearn.py::test_with_labels_every_check_passes",
    # Prints a variance of 1e-16 at its boundary: rounding, which alignment in memory decides.
    "tests/cli/test_main.py::test_noise_has_a_name_and_a_scale[shared-shock]",
)


def lower_bounds() -> list[str]:
    """Return ``name==bound`` for every requirement of the package and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    pairs = [re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", one) for one in wanted]
    if None in pairs:
        sys.exit(f"A requirement is no lower bound: {wanted[pairs.index(None)]}.")
    return [f"{pair[1]}=={pair[2]}" for pair in pairs if pair]


def interpreter(version: str) -> str | None:
    """Return a Python of this version that runs, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for one in filter(None, found):
        asked = [str(one), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        if said.returncode == 0 and said.stdout.strip() == version:
            return str(one)
    return None


def environment(name: str, python: str, constraints: list[str]) -> Path:
    """Return the interpreter of an environment, made where there is none such."""
    home = ENVIRONMENTS / name
    inside, record = home / "bin" / "python", home / "made-of"
    made_of = "\n".join([python, *constraints, (ROOT / "pyproject.toml").read_text()])
    if record.exists() and record.read_text() == made_of:
        return inside
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(home)], check=True)
    limits = home / "constraints.txt"
    limits.write_text("\n".join(constraints) + "\n")
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["--constraint", str(limits), *TOOLS, "--editable", f"{ROOT}[{','.join(EXTRAS)}]"]
    subprocess.run([*install, *wanted], check=True)
    record.write_text(made_of)
    return inside


def run_tests(python: Path) -> int:
    """Run the subset and return pytest's exit code."""
    command = [str(python), "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider"]
    without = [f"--deselect={test}" for test in LEFT_OUT]
    return subprocess.run([*command, *without, *SUBSET], cwd=ROOT, check=False).returncode


def main(what: str) -> int:
    """Run the tests in one kind of environment; return how many of them failed."""
    if what == "lowest":
        return run_tests(environment(what, sys.executable, [*lower_bounds(), *OF_THEIR_TIME]))
    if what == "pandas2":
        return run_tests(environment(what, sys.executable, ["pandas<3"]))
    if what != "pythons":
        sys.exit(__doc__)
    failed = []
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not installed here, left out.")
            continue
        print(f"Python {version}:", flush=True)
        if run_tests(environment(f"python{version}", python, [])):
            failed.append(version)
    if failed:
        print(f"Failed with Python {', '.join(failed)}.")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))

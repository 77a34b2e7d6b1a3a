"""Builds the source distribution and the wheel, checks them, and tries every extra by itself.

    python tools/wheels.py [EXTRA ...]     extras to try; all of them where none is named

Both files are in dist/ afterwards. The wheel is built from the source distribution, twice and in
two places, and must come out the same to the last bit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
DIST, BUILDER = ROOT / "dist", ROOT / ".envs" / "build"

EXTRAS = ("none", "plot", "sklearn", "parquet", "all", "dask", "torch")

EPOCH = "315532800"
"""The time of every file in a wheel, the first that a zip file knows."""

IN_WHEEL = (
    r"selfselect/kernels/_native\.abi3\.so",
    r"selfselect-[\d.]+\.dist-info/licenses/LICENSE",
    r"selfselect-[\d.]+\.dist-info/licenses/NOTICE",
    r"selfselect-[\d.]+\.dist-info/entry_points\.txt",
)
"""What a wheel holds beside the files of the package."""

IN_SOURCE = (r"[^/]+/setup\.py", r"[^/]+/NOTICE")
NEITHER = r".*(__pycache__|\.pyc$|/tests/|/build/|\.orig$|\.egg-info/.*\.so$)"
ONLY_SOURCE = r".*\.(cpp|hpp)$"

METADATA = (
    "Author: the selfselect developers",
    "License-Expression: MIT",
    "Requires-Python: >=3.11",
    "Description-Content-Type: text/markdown",
)

MOST_KB = {"wheel": 2_000, "source": 1_500}
"""Sizes in kB from which something must have slipped in."""


def run(*command: object, **options: object) -> str:
    """Run a command and return what it printed; stop with all it said where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
    said: str = done.stdout
    return said


def new_environment(home: Path, *wanted: str, **options: object) -> Path:
    """Make an environment with some packages and return its interpreter."""
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    if wanted:
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, *wanted, **options)
    return python


def build() -> tuple[Path, Path]:
    """Build the source distribution, and the wheel of it; return both."""
    python = new_environment(BUILDER, "build")
    shutil.rmtree(DIST, ignore_errors=True)
    timed = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    run(python, "-m", "build", "--outdir", DIST, ROOT, env=timed)
    (source,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    with TemporaryDirectory() as elsewhere:
        with tarfile.open(source) as packed:
            packed.extractall(elsewhere, filter="data")
        (tree,) = Path(elsewhere).iterdir()
        run(python, "-m", "build", "--wheel", "--outdir", Path(elsewhere) / "dist", tree, env=timed)
        (again,) = (Path(elsewhere) / "dist").glob("*.whl")
        if again.read_bytes() != wheel.read_bytes():
            sys.exit(f"Two builds of the same tree differ: {differences(wheel, again)}.")
    return source, wheel


def differences(one: Path, other: Path) -> str:
    """Name the members in which two wheels differ."""
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        both = set(a.namelist()) & set(b.namelist())
        found = [name for name in names if name not in both or a.read(name) != b.read(name)]
    return ", ".join(found) or "the times or the order of their files"


def check(source: Path, wheel: Path) -> None:
    """Check what is in both files, what is not, the metadata and the sizes."""
    with tarfile.open(source) as packed:
        held = packed.getnames()
    with zipfile.ZipFile(wheel) as zipped:
        names = zipped.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = zipped.read(about).decode()
        module = zipped.read(next(name for name in names if name.endswith(".so")))
    wrong = [f"the wheel lacks {one}" for one in IN_WHEEL if not matching(one, names)]
    wrong += [f"the source lacks {one}" for one in IN_SOURCE if not matching(one, held)]
    package = package_files()
    compiled = matching(ONLY_SOURCE, package)
    wrong += [f"the wheel lacks {one}" for one in sorted({*package} - {*compiled} - {*names})]
    wrong += [f"the source lacks {one}" for one in package if not is_in_source(one, held)]
    wrong += [f"{name} slipped in" for name in matching(NEITHER, [*names, *held])]
    wrong += [f"{name} slipped into the wheel" for name in matching(ONLY_SOURCE, names)]
    wrong += [f"the metadata lacks {one!r}" for one in METADATA if one not in metadata]
    if not wheel.name.split("-", 2)[2].startswith("cp311-abi3-"):
        wrong.append(f"{wheel.name} is not for every Python from 3.11 on")
    if str(ROOT).encode() in module:
        wrong.append("the compiled module names the folder it was built in")
    sizes = {"wheel": wheel.stat().st_size / 1e3, "source": source.stat().st_size / 1e3}
    wrong += [f"the {one} has {size:.0f} kB" for one, size in sizes.items() if size > MOST_KB[one]]
    if wrong:
        sys.exit("\n".join(wrong))
    glibc = max(tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", module))
    for path in (source, wheel):
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, sha256 {digest(path)[:16]}…")
    print(f"Compiled module: {len(module) / 1e3:.0f} kB, for glibc {glibc[0]}.{glibc[1]} or later.")


def package_files() -> list[str]:
    """Return the files of the package that git tracks: modules, sources, data, styles, scripts."""
    listed = run("git", "ls-files", "src/selfselect", cwd=ROOT).splitlines()
    return [name.removeprefix("src/") for name in listed]


def is_in_source(name: str, held: list[str]) -> bool:
    """Say whether a file of the package is in the source distribution."""
    return any(one.endswith(f"/src/{name}") for one in held)


def matching(pattern: str, names: list[str]) -> list[str]:
    """Return the names that a pattern fits."""
    return [name for name in names if re.fullmatch(pattern, name)]


def digest(path: Path) -> str:
    """Return the digest of a file."""
    return sha256(path.read_bytes()).hexdigest()


def try_extra(wheel: Path, extra: str) -> None:
    """Install the wheel with one extra in a clean environment and use it."""
    wanted = str(wheel) if extra == "none" else f"{wheel}[{extra}]"
    with TemporaryDirectory() as folder:
        python = new_environment(Path(folder) / "env", wanted)
        print(smoke(python, extra, Path(folder)), end="", flush=True)


def try_without_compiler(source: Path) -> None:
    """Install the source distribution where nothing can be compiled."""
    none = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false"}
    with TemporaryDirectory() as folder:
        python = new_environment(Path(folder) / "env", "--no-cache-dir", str(source), env=none)
        print(smoke(python, "pure", Path(folder)), end="")
        many = "import selfselect as ss; data = ss.simulators.village(60_000, seed=1).data; "
        many += "ss.fit('income ~ height', data, chosen='job')"
        said = subprocess.run([python, "-c", many], capture_output=True, text=True, check=True)
        if "has no compiled kernels" not in said.stderr:
            sys.exit("A large fit without compiled kernels does not say so.")


def smoke(python: Path, extra: str, folder: Path) -> str:
    """Try an installation in a folder of its own, far from the sources."""
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    place = folder / "trial"
    place.mkdir()
    return run(python, "-W", "error", ROOT / "tools" / "smoke.py", extra, cwd=place, env=bare)


def main(extras: list[str]) -> None:
    """Build, check and try."""
    source, wheel = build()
    check(source, wheel)
    for extra in extras or EXTRAS:
        try_extra(wheel, extra)
    try_without_compiler(source)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A container may have no place to write, no home, no shared memory, and a user without a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import selfselect

CONFINED = """
import errno, os, pwd, sys, _multiprocessing

def confine(event, arguments):
    if event == "open":
        name, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and not str(name).startswith("/dev/null"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(name))
    elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink"):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

def nameless(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

def no_locks(*_, **__):
    raise FileNotFoundError(errno.ENOENT, "there is no /dev/shm")

pwd.getpwuid = nameless
_multiprocessing.SemLock = no_locks
sys.addaudithook(confine)

import selfselect as ss
village = ss.simulators.village(ROWS, seed=1).data
fit = ss.fit("income ~ height + weight", village, chosen="job")
"""
"""What a read-only file system does, from inside of the process: nothing can be opened to write."""


def run_confined(code: str, tmp_path: Path, n_rows: int = 2_000) -> str:
    """Run code in a bare environment on a read-only machine; return what it printed."""
    script = CONFINED.replace("ROWS", str(n_rows)) + code
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(selfselect.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", script],
        env=bare,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())
    return done.stdout


def test_all_but_files_and_pictures_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    code = """
print(fit.converged, len(str(fit.summary())) > 1000, len(fit.predict(village)))
print(len(str(fit.marginal_effects())) > 200)
small = village.iloc[:300]
print(ss.fit("income ~ height", small, chosen="job", covariance="bootstrap", seed=1).converged)
"""
    said = run_confined(code, tmp_path, n_rows=150_000)
    assert said.split() == ["True", "True", "150000", "True", "True"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fit.save('fit.json')", "ArchiveError: The fit could not be saved"),
        ("fit.report('fit.html')", "ReportError: The report could not be written"),
        (
            "ss.fit('income ~ height', village, chosen='job', checkpoint='c.json')",
            "ArchiveError: The checkpoint 'c.json' cannot be written",
        ),
        ("ss.plots.coefficients(fit)", "MissingDependencyError: Pictures need matplotlib, and"),
    ],
)
def test_what_needs_a_place_to_write_says_so(call: str, error: str, tmp_path: Path) -> None:
    code = f"""
import warnings
warnings.simplefilter("ignore")  # matplotlib's own, of its caches
try:
    {call}
except ss.errors.SelfSelectError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
    said = run_confined(code, tmp_path)
    assert said.startswith(error), said

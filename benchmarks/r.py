"""R, where Rscript is installed: packages, and scripts that are handed a table of numbers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

READ = """
arguments <- commandArgs(TRUE)
shape <- as.integer(arguments[2:3])
data <- matrix(readBin(arguments[1], "double", n = prod(shape)), nrow = shape[1])
"""


@cache
def installed(package: str) -> bool:
    if shutil.which("Rscript") is None:
        return False
    probe = ["Rscript", "-e", f"library({package})"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run(script: str, table: np.ndarray, *arguments: str) -> list[str]:
    """Return the lines a script prints, given `data` and what follows as ``arguments[4]`` on."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "data.bin"
        np.asfortranarray(table).ravel(order="F").tofile(source)
        shape = map(str, table.shape)
        done = subprocess.run(
            ["Rscript", "-e", READ + script, str(source), *shape, *arguments],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"R stopped: {done.stderr.strip()}")
    return done.stdout.strip().splitlines()

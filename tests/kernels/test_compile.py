"""Kept machine code: it must not outlive the files it was made of, nor bring others along."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from selfselect.kernels import _compile

NEVER_COMPILED = {"_fused.py", "_pairs.py", "joint.py", "tails.py"}
"""Hold only what happens before and after the compiled code."""


def files_behind(name: str) -> set[str]:
    """Return the kernels' files that a module imports, at any depth."""
    text = Path(import_module(f"selfselect.kernels.{name}").__file__ or "").read_text("utf-8")
    direct = set(re.findall(r"^from selfselect\.kernels\.(\w+) import", text, re.M))
    return {f"{other}.py" for other in direct}.union(*(files_behind(other) for other in direct))


KERNELS = {
    "fused_known": "_sum_blocks",
    "fused_unknown": "_sum_blocks",
    "ghk": "_simulate",
    "shared_shock": "_mix",
}


def test_the_digest_covers_every_file_kernels_are_made_of() -> None:
    behind = set().union(*(files_behind(name) for name in KERNELS))
    assert behind - NEVER_COMPILED == set(_compile._INGREDIENTS)


@pytest.mark.parametrize(("name", "kernel_name"), KERNELS.items())
def test_every_kernel_bears_the_digest(name: str, kernel_name: str) -> None:
    kernel = getattr(import_module(f"selfselect.kernels.{name}"), kernel_name)
    assert kernel.py_func.__qualname__.endswith(_compile._digest())


@pytest.mark.parametrize(
    ("name", "other"), [("fused_known", "fused_unknown"), ("fused_unknown", "fused_known")]
)
def test_one_kernel_is_had_without_the_other(name: str, other: str) -> None:
    package = "selfselect.kernels"
    code = f"import sys, {package}.{name}; sys.exit('{package}.{other}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

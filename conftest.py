"""Modules that need a package which is not installed are not searched for examples."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = {
    "torch": ("src/selfselect/kernels/torch_*.py", "src/selfselect/engines/*torch*.py"),
}

collect_ignore_glob = [
    pattern
    for package, patterns in NEEDED.items()
    for pattern in patterns
    if find_spec(package) is None
]

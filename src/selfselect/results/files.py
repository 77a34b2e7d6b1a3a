"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(target: Path, text: str) -> None:
    """Write text beside the target, then put it in its place; nothing is left of a failure."""
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        scratch.write_text(text, encoding="utf-8", errors="replace")
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise

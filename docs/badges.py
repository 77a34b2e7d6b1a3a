"""Badges of the README, made from what the project itself says: small SVG files, no network.

``python docs/badges.py`` writes them; a test compares them with what they are made from.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"

LETTER = 6.6
"""Width of a letter in pixels, about."""

SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{name}: {value}">
<title>{name}: {value}</title>
<rect width="{width}" height="20" rx="3" fill="#444"/>
<path d="M{left} 0h{inner}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{inner}z" fill="#1a5fa8"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{middle}" y="14">{name}</text>
<text x="{right}" y="14">{value}</text>
</g>
</svg>
"""


def facts() -> dict[str, str]:
    """Return what the badges say: Python versions and licence of the package, and its tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one)
        for one in project["classifiers"]
    ]
    versions = [one[1] for one in found if one]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    tests = sum(len(re.findall(r"^def test_", one.read_text("utf-8"), re.M)) for one in files)
    return {
        "python": " | ".join(versions),
        "licence": project["license"],
        # Rounded down, so that it stays true while tests are added.
        "tests": f"over {tests // 500 * 500:,}",
    }


def badge(name: str, value: str) -> str:
    """Return a badge as SVG."""
    left, rest = (round(LETTER * len(text)) + 12 for text in (name, value))
    return SVG.format(
        name=escape(name), value=escape(value), width=left + rest, left=left, inner=rest - 3,
        middle=left / 2, right=left + rest / 2,
    )  # fmt: skip


def main() -> None:
    """Write the badges."""
    for name, value in facts().items():
        target = IMAGES / f"badge-{name}.svg"
        target.write_text(badge(name, value), encoding="utf-8")
        print(f"Written: {target.name} ({value})")


if __name__ == "__main__":
    main()

"""Print the README's table of costs from the page of `make bench`: python -m benchmarks.readme."""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path("docs/studies/speed.md")

COLUMNS = {
    "`ss.fit` on a frame": "fit",
    "`ss.fit` on a frame and its page / statsmodels' OLS per group, with summaries": (
        "fit and page / statsmodels' OLS per group"
    ),
}
"""What the README quotes, and how it calls that."""


def table_of(page: str) -> str:
    """Return the lines of a page that the README quotes, one row per number of rows."""
    found: dict[int, dict[str, str]] = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) >= 3 and cells[0] in COLUMNS and cells[1].replace(",", "").isdecimal():
            found.setdefault(int(cells[1].replace(",", "")), {})[cells[0]] = cells[2]
    used = [work for work in COLUMNS if any(work in own for own in found.values())]
    lines = ["| rows | " + " | ".join(COLUMNS[work] for work in used) + " |"]
    lines.append("|---" * (len(used) + 1) + "|")
    for n_rows, own in sorted(found.items()):
        lines.append(f"| {n_rows:,} | " + " | ".join(own.get(work, "") for work in used) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    print(table_of(page.read_text(encoding="utf-8")))

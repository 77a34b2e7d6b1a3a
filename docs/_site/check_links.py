"""Check a built site: every link leads somewhere, and nothing is fetched from elsewhere.

Run by ``make docs``; exits with 1 and names what is broken.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken", "main"]

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """Collect a page's anchors, its links, and what it fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given and given.get("rel") != "canonical":
            self.fetched.append(given[FETCHED[tag]])


def broken(site: Path) -> list[str]:
    """Return a sentence for every link of the site that leads nowhere."""
    # What a theme keeps in _static are templates, not pages.
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): _Page(path) for path in paths}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for link in page.fetched:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or parts.netloc:
                found.append(f"{name} fetches {link} from the network")
            elif parts.scheme == "data" or not parts.path:
                continue
            elif not (path.parent / unquote(parts.path)).exists():
                found.append(f"{name} lacks {link}")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                found.append(f"{name} links to {link}, which is not there")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                found.append(f"{name} links to {link}, where there is no such place")
    return found


def main() -> int:
    """Check the site given on the command line."""
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        print(f"There is no site in {site}.")
        return 1
    found = broken(site)
    print("\n".join(found) or f"Every link in {site} leads somewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

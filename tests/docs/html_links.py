"""Whether every link, picture and anchor of a built site leads to something that is there; standard library only."""

from __future__ import annotations

import posixpath
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """Ids, targets of links, and what a browser fetches by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.update(value for value in (given.get("id"), given.get("name") if tag == "a" else None) if value)
        for name, value in attrs:
            if value is None or value.startswith("data:"):
                continue
            fetched = (tag, name) in _FETCHED or (
                (tag, name) == ("link", "href") and given.get("rel") not in ("canonical", "next", "prev")
            )
            if fetched:
                self.fetched.append(value)
            if fetched or name in ("href", "src"):
                self.targets.append(value)


def dangling(site: Path) -> list[str]:
    """``page: target`` for each link of a built site that leads nowhere, and for each thing fetched from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name}: fetches {target}" for target in page.fetched if urlsplit(target).netloc]
        for target in dict.fromkeys(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or name == "404.html":
                continue  # 404.html is shown at any address; mkdocs makes its links absolute
            there = path
            if parts.path:
                there = site / posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
                there = there / "index.html" if there.is_dir() else there
            if not there.is_file():
                found.append(f"{name}: {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].ids | {"__top"}:
                found.append(f"{name}: {target} (no such anchor)")
    return found


def reachable(site: Path, start: str = "index.html") -> set[str]:
    """Pages that a reader comes to by links from ``start``."""
    seen, waiting = {start}, [start]
    for name in waiting:
        for target in Page((site / name).read_text(encoding="utf-8")).targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or not parts.path.endswith(".html"):
                continue
            there = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            if there not in seen and (site / there).is_file():
                seen.add(there)
                waiting.append(there)
    return seen

"""The site's navigation is the tree under docs/: an added page stands in it by itself, in the order of file names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pages import headings

# The doors, in the order in which a reader comes to them; what is not named here follows, by name.
ORDER = (
    "index.md", "tutorial", "questions", "howto", "applications", "exercises.md", "reference", "rules", "measured",
    "how_it_works.md", "what_it_cant_see.md",
)  # fmt: skip
NAMES = {
    "tutorial": "Tutorial", "questions": "Questions", "howto": "How to", "applications": "Applications",
    "reference": "Reference", "rules": "Rules", "measured": "Measured",
}  # fmt: skip


def on_config(config: Any) -> Any:
    config.nav = nav(Path(config.docs_dir))
    return config


def nav(docs: Path) -> list[Any]:
    """mkdocs' ``nav`` of a folder: each folder a section, its index.md first."""
    first = {name: place for place, name in enumerate(ORDER)}
    entries = sorted(docs.iterdir(), key=lambda path: (first.get(path.name, len(first)), path.name))
    made: list[Any] = []
    for path in entries:
        if path.is_dir() and any(path.rglob("*.md")):
            rules = path.name == "rules"
            made.append({NAMES.get(path.name, _spoken(path.name)): by_rule(path, docs) if rules else _in(path, docs)})
        elif path.suffix == ".md":
            made.append(path.relative_to(docs).as_posix())
    return made


def _in(folder: Path, docs: Path) -> list[Any]:
    made: list[Any] = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.name != "index.md", path.name)):
        if path.is_dir() and any(path.rglob("*.md")):
            made.append({_spoken(path.name): _in(path, docs)})
        elif path.suffix == ".md":
            made.append(path.relative_to(docs).as_posix())
    return made


def by_rule(folder: Path, docs: Path) -> list[Any]:
    """The rules' pages under the categories of their index; a page that the index lacks stands at the end."""
    index = folder / "index.md"
    under = folder.relative_to(docs).as_posix()
    made: list[Any] = [f"{under}/index.md"]
    left = {path.name for path in folder.glob("*.md")} - {"index.md"}
    category: list[Any] = made
    text = index.read_text(encoding="utf-8")
    starts = {number: title for number, level, title in headings(text) if level == 2}
    for number, line in enumerate(text.split("\n"), 1):
        if number in starts:
            category = []
            made.append({starts[number].capitalize(): category})
        for page in re.findall(r"^\| \[GW\d+\]\((GW\d+\.md)\)", line):
            category.append(f"{under}/{page}")
            left.discard(page)
    return [*made, *(f"{under}/{page}" for page in sorted(left))]


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()

"""Links from pages to files of the repository that are no pages: each becomes a page with its source, under source/.

So a link such as ``../../examples/huber/mended.py`` works in a checkout and in the site. Markdown outside docs/ (the
README, CONTRIBUTING, an example's README) becomes a page too, and its links are followed; pictures are copied; of a
folder its files are listed.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel
from pages import links, prose

ROOT = Path(__file__).resolve().parents[2]
PICTURES = {".png", ".svg", ".jpg", ".jpeg", ".gif", ".html", ".pdf"}
KINDS = {".py": "python", ".pyi": "python", ".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml",
         ".sh": "sh", ".js": "javascript", ".css": "css"}  # fmt: skip
MOST_BYTES = 200_000  # a larger file is cut: nobody reads it on a page


def on_files(files: Any, config: Any) -> Any:
    """Publish what pages link to, and what that links to in turn."""
    docs = Path(config.docs_dir)
    root = _root(docs)
    ours = {file.src_uri for file in files}
    for file in [file for file in files if not file.is_documentation_page()]:
        if Path(file.src_uri).suffix not in PICTURES | {".css", ".js"}:  # it is shown as a page where it is linked
            files.remove(file)
    waiting = [docs / file.src_uri for file in files.documentation_pages()]
    known = set(waiting)
    for page in waiting:
        for link in links(page.read_text(encoding="utf-8")):
            path = _file(link.target, page)
            if path is None or path in known or not path.is_relative_to(root):
                continue
            uri = published(path, docs, root)
            if uri in ours or not path.exists():
                continue
            known.add(path)
            files.append(_generated(path, uri, root, config))
            if path.suffix == ".md" and path.is_file():
                waiting.append(path)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of a page lead to where their files stand in the site."""
    docs = Path(config.docs_dir)
    root = _root(docs)
    uri = page.file.src_uri
    if uri.startswith("source/") and not page.file.src_dir:
        source = next((path for path in _sources(uri, root) if path.is_file()), None)
        if source is None or source.suffix != ".md":
            return markdown
    else:
        source = docs / uri
    return rewritten(markdown, source, uri, docs, root)


def rewritten(markdown: str, source: Path, uri: str, docs: Path, root: Path) -> str:
    """``markdown`` of the file ``source``, shown as the page ``uri``, with links that hold there."""
    lines = markdown.split("\n")
    for number, line in prose(markdown):
        for link in links(line):
            path = _file(link.target, source)
            if path is None or not path.exists() or not path.is_relative_to(root):
                continue
            there = published(path, docs, root)
            if source.is_relative_to(docs) and not there.startswith("source/"):
                continue
            anchor = "#" + link.target.partition("#")[2] if "#" in link.target else ""
            new = posixpath.relpath(there, posixpath.dirname(uri) or ".") + anchor
            line = line.replace(f"]({link.target}", f"]({new}", 1)
        lines[number - 1] = line
    return "\n".join(lines)


def published(path: Path, docs: Path, root: Path) -> str:
    """Where a file of the repository stands in the site."""
    if path.is_relative_to(docs) and (path.suffix == ".md" or path.suffix in PICTURES):
        return path.relative_to(docs).as_posix()
    name = "source/" + path.relative_to(root).as_posix()
    if path.is_dir():
        return f"{name}/index.md" if not (path / "README.md").is_file() else f"{name}/README.md"
    return name if path.suffix == ".md" or path.suffix in PICTURES else f"{name}.md"


def _sources(uri: str, root: Path) -> tuple[Path, ...]:
    name = uri.removeprefix("source/")
    return root / name, root / name.removesuffix(".md")


def _file(target: str, page: Path) -> Path | None:
    """The file that a relative link names; ``None`` of an external link or an anchor of the page itself."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z][a-z+.-]*:|/", path, re.IGNORECASE):
        return None
    return Path(posixpath.normpath(page.parent.as_posix() + "/" + path))


def _root(docs: Path) -> Path:
    return docs.resolve().parent


def _generated(path: Path, uri: str, root: Path, config: Any) -> Any:
    level = InclusionLevel.NOT_IN_NAV
    if path.suffix in PICTURES:
        return File.generated(config, uri, abs_src_path=str(path), inclusion=level)
    if path.is_file() and path.suffix == ".md":
        return File.generated(config, uri, content=path.read_text(encoding="utf-8"), inclusion=level)
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        inside = (one for one in sorted(path.iterdir()) if not one.name.startswith((".", "__pycache__")))
        listed = "\n".join(f"- `{one.name}{'/' if one.is_dir() else ''}`" for one in inside)
        return File.generated(config, uri, content=f"# {name}/\n\n{listed}\n", inclusion=level)
    text = path.read_bytes()[:MOST_BYTES].decode(errors="replace").rstrip()
    cut = "\n\nOnly the beginning of this file is shown.\n" if path.stat().st_size > MOST_BYTES else "\n"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    front = "---\nsearch:\n  exclude: true\n---\n"
    kind = KINDS.get(path.suffix, "text")
    shown = f'{front}# {name}\n\n{fence} {{ .{kind} linenums="1" }}\n{text}\n{fence}\n{cut}'
    return File.generated(config, uri, content=shown, inclusion=level)

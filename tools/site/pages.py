"""What a Markdown page holds, read line by line: code blocks with what stands above them, links, headings.

Standard library only: the hooks of the site and the tests of the pages read pages by the same eyes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<kind>[^\s`]*)")
_COMMENT = re.compile(r"^<!-- *(?P<word>given|prints|raises|transcript:|output:|measured:)(?P<rest>.*?)(?P<end>-->)?$")
_LINK = re.compile(r"!?\[(?:[^\[\]`]|`[^`]*`|\[[^\[\]]*\])*\]\((?P<target><[^>]*>|[^()\s]+(?:\([^()]*\)[^()\s]*)*)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]: +(?P<target>\S+)")
_HEADING = re.compile(r"^(?P<level>#{1,6}) +(?P<text>.+?)(?: +#+)?$")
_ID = re.compile(r"\s*\{ *#(?P<id>[\w.-]+)[^}]*\}$")


@dataclass(frozen=True)
class Block:
    """A fenced block (or a given one), its line, the marker above it, and the markers it stands between."""

    kind: str
    text: str
    line: int
    marker: str = ""
    within: str = ""


@dataclass(frozen=True)
class Link:
    target: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page, in order; ``<!-- given`` blocks among them, of kind "given"."""
    lines = text.split("\n")
    at, within = 0, ""
    while at < len(lines):
        line, start = lines[at], at
        comment = _COMMENT.match(line.strip())
        fence = _FENCE.match(line)
        if comment and comment["word"] == "given":
            while at < len(lines) and lines[at].strip() != "-->":
                at += 1
            yield Block("given", "\n".join(lines[start + 1 : at]) + "\n", start + 2)
        elif comment and comment["word"].endswith(":"):
            within = comment["word"] + comment["rest"].rstrip()
        elif re.fullmatch(r"<!-- /(?:transcript|output|measured) -->", line.strip()):
            within = ""
        elif fence:
            close = re.compile(rf"^ *{fence['fence'][0]}{{{len(fence['fence'])},}} *$")
            at += 1
            while at < len(lines) and not close.match(lines[at]):
                at += 1
            indent = len(fence["indent"])
            body = "".join(one[indent:] + "\n" if one.strip() else "\n" for one in lines[start + 1 : at])
            above = lines[start - 1].strip() if start else ""
            marker = re.fullmatch(r"<!-- *(prints|raises +\w+|static: .+?) *-->", above)
            yield Block(fence["kind"], body, start + 2, marker[1] if marker else "", within)
        at += 1


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside code blocks and comments, with their numbers."""
    close: re.Pattern[str] | None = None
    comment = False
    for number, line in enumerate(text.split("\n"), 1):
        if close is not None:
            if close.match(line):
                close = None
            continue
        if comment or line.lstrip().startswith("<!--"):
            comment = "-->" not in line
            continue
        fence = _FENCE.match(line)
        if fence:
            close = re.compile(rf"^ *{fence['fence'][0]}{{{len(fence['fence'])},}} *$")
            continue
        yield number, line


def links(text: str) -> Iterator[Link]:
    """Targets of links and pictures, as written."""
    for number, line in prose(text):
        bare = re.sub(r"(`+)(?!`).*?\1", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", line)
        for found in (*_LINK.finditer(bare), *_REFERENCE.finditer(bare)):
            yield Link(unescape(found["target"].strip("<>")), number)


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Line, level and text of each heading."""
    for number, line in prose(text):
        found = _HEADING.match(line)
        if found:
            yield number, len(found["level"]), found["text"]


def anchors(text: str) -> set[str]:
    """The ids of a page's headings, as the site makes them and GitHub does."""
    seen: set[str] = set()
    for _, _, title in headings(text):
        given = _ID.search(title)
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", _ID.sub("", title))
        anchor = given["id"] if given else re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        base, count = anchor, 1
        while anchor in seen:
            anchor, count = f"{base}_{count}", count + 1
        seen.add(anchor)
    seen.update(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    seen.update(re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))  # what mkdocstrings puts there
    return seen

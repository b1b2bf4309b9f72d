"""A page as a program reads it: its elements, attributes, texts and scripts, refused if tags do not nest."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

INLINE = {"a", "b", "button", "code", "i", "kbd", "mark", "script", "span"}
VOID = {"br", "hr", "img", "input", "link", "meta"}


class Outline(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.marked: list[str] = []
        self.scripts: list[str] = []
        self.data: list[str] = []
        self.comments: list[str] = []
        self._open: list[tuple[str, dict[str, Any]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    @property
    def ids(self) -> list[str]:
        return [value for _, name, value in self.attributes if name == "id"]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag
        self.text += "" if tag in INLINE else " "

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            (self.data if attributes.get("type") == "application/json" else self.scripts).append(data)
            return
        if any(tag == "mark" for tag, _ in self._open):
            self.marked.append(data)
        if tag != "style":
            self.text += data

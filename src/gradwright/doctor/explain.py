"""A code, a name or a pasted error in; the rule's page out, as plain text. No torch is imported."""

from __future__ import annotations

import re

from gradwright.doctor.rules import LoadedRule, all_rules

_HEADS = ("What it finds", "Why it matters", "When it is fine", "The fix", "References")
_WORDS = {
    "expected": "expected",
    "got": "got",
    "function": "Function",
    "index": "index",
    "shape": "shape",
    "node": "operation",
    "output": "output",
    "version": "at version",
    "saved": "saved at version",
    "element": "element",
    "dtype": "dtype",
    "type": "tensor",
    "mode": "mode",
    "off": "mode",
    "vmapped": "Function",
}
_LAST_LINES = 400  # of a pasted traceback; the message stands at its end


def explain(text: str) -> str | None:
    """The page of the rule that ``text`` speaks of, headed by its code, name and severity; ``None`` if none is known.

    ``text`` is a code (in any case), a rule's name, a message of torch's, or a whole traceback, which is read from its
    end. Of a message, what the rule recognised in it is told too.

    >>> print(explain("gw613").splitlines()[0])
    GW613 backward-through-graph-twice (error)
    >>> explain("function FBackward returned an incorrect number of gradients (expected 2, got 1)").splitlines()[1]
    'recognised: Function F, expected 2, got 1'
    >>> explain("no such thing") is None
    True
    """
    asked = " ".join(text.split()).strip("`'\"")
    for rule in all_rules():
        if asked.lower() in (rule.rule.code.lower(), rule.rule.name):
            return _page(rule, "")
    recognised = _recognise(text)
    return None if recognised is None else _page(*recognised)


def page_of(code: str) -> str:
    """A rule's docstring by its code, "" of a code that no rule has.

    >>> page_of("GW901").splitlines()[0], page_of("GW000")
    ('What it finds', '')
    """
    return next((rule.page for rule in all_rules() if rule.rule.code == code), "")


def index() -> str:
    """Every rule in a line: code, name, severity, and the first sentence of what it finds."""
    rules = all_rules()
    width = max((len(rule.rule.name) for rule in rules), default=0)
    return "".join(
        f"{rule.rule.code}  {rule.rule.name:<{width}}  {rule.rule.severity:<7}  {summary(rule)}\n" for rule in rules
    )


def summary(rule: LoadedRule) -> str:
    """The first sentence of the page.

    >>> summary(next(rule for rule in all_rules() if rule.rule.code == "GW901"))
    'A script that ended with an exception which no other rule explains.'
    """
    text = " ".join(sections(rule.page).get("What it finds", "").split())
    return re.split(r"(?<=[.:])\s", text, maxsplit=1)[0].rstrip(":")


def sections(page: str) -> dict[str, str]:
    """A rule's docstring by section head; the text of each with its own line breaks, unindented.

    >>> sections("What it finds\\n    A fault.\\n\\nThe fix\\n    Mend it.")
    {'What it finds': 'A fault.', 'The fix': 'Mend it.'}
    """
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in page.splitlines():
        if line.strip() in _HEADS:
            current = found.setdefault(line.strip(), [])
        else:
            current.append(line.removeprefix("    "))
    return {head: "\n".join(lines).strip() for head, lines in found.items()}


def _recognise(text: str) -> tuple[LoadedRule, str] | None:
    """The rule whose message stands nearest to the end of the text: in a traceback, the exception that was raised last.

    Terminals and chats wrap lines, so the text is read as one line.
    """
    joined = " ".join(" ".join(text.splitlines()[-_LAST_LINES:]).split())
    best: tuple[int, LoadedRule, str] | None = None
    for rule in all_rules():
        for pattern in rule.rule.messages:
            for match in re.finditer(pattern, joined):
                if best is None or match.start() > best[0]:
                    best = match.start(), rule, _caught(match)
    return None if best is None else best[1:]


def _caught(match: re.Match[str]) -> str:
    caught = [(_WORDS[name], value) for name, value in match.groupdict().items() if value and name in _WORDS]
    return ", ".join(f"{word} {value}" for word, value in caught)


def _page(rule: LoadedRule, recognised: str) -> str:
    head = f"{rule.rule.code} {rule.rule.name} ({rule.rule.severity})\n"
    if recognised:
        head += f"recognised: {recognised}\n"
    parts = sections(rule.page)
    body = "\n\n".join(f"{name}\n{_indented(parts[name])}" for name in _HEADS if name in parts)
    return f"{head}\n{body}\n"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())

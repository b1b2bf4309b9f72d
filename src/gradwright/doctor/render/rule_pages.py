"""The docs' page of a rule and the index of all of them, made from the rule's own docstring and its cases.

Rules are handed in, not imported: this room knows them by their shape.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

HEADINGS = ("What it finds", "Why it matters", "When it is fine", "The fix", "References")

NOTICE = "<!-- Made by `python tools/generate.py` from the rule's docstring and its cases: edit those. -->"

_HEADING = re.compile(
    rf"^(?:#+ +|\*\*)?(?P<heading>{'|'.join(HEADINGS)})(?:\*\*)?(?:[.:]?(?P<end>)$|: +(?P<rest>\S.*)$)", re.IGNORECASE
)


class RuleData(Protocol):
    """What a page says of a rule beside its text."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def rewrite(self) -> str | None: ...
    @property
    def messages(self) -> tuple[str, ...]: ...
    @property
    def causes(self) -> tuple[str, ...]: ...


class RuleWithPage(Protocol):
    """A loaded rule: its data and its docstring."""

    @property
    def rule(self) -> RuleData: ...
    @property
    def page(self) -> str: ...


def rule_page(loaded: RuleWithPage, cases: Path) -> str:
    """The Markdown page of one rule; ``cases`` is the folder that may hold ``GW301/bad.py`` and ``GW301/good.py``."""
    rule = loaded.rule
    facts = [f"Category: {rule.category}", f"severity: {rule.severity}"]
    facts.append("a rewrite is tried and checked" if rule.rewrite else "no rewrite")
    parts = [NOTICE, f"# {rule.code} {rule.name}", " · ".join(facts)]
    if rule.causes:
        parts.append("Follows from " + ", ".join(f"[{code}]({code}.md)" for code in rule.causes) + ".")
    parts.append(body(loaded.page))
    if rule.messages:
        parts.append("## Messages it explains\n\n" + fenced("\n".join(rule.messages), ""))
    for title in ("Bad", "Good"):
        case = cases / rule.code / f"{title.lower()}.py"
        if case.is_file():
            parts.append(f"## {title}\n\n" + fenced(case.read_text(encoding="utf-8"), "python"))
    return "\n\n".join(part for part in parts if part) + "\n"


def rules_index(rules: Sequence[RuleWithPage]) -> str:
    """The Markdown index: a table per category, in the order of the codes."""
    parts = [NOTICE, "# Rules", "`gradwright explain GW301` shows a page in the terminal."]
    for category in dict.fromkeys(loaded.rule.category for loaded in rules):
        rows = ["| code | name | severity | finds |", "|---|---|---|---|"]
        rows += [_row(loaded) for loaded in rules if loaded.rule.category == category]
        parts.append(f"## {category}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _row(loaded: RuleWithPage) -> str:
    rule = loaded.rule
    finds = first_sentence(sections(loaded.page).get(HEADINGS[0], "") or loaded.page).replace("|", "\\|")
    return f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity} | {finds} |"


def sections(docstring: str) -> dict[str, str]:
    """A docstring by its headings, in its own order; what stands before the first one is under "".

    A heading stands alone on its line, or before a colon and its text; ``##``, ``**`` and an underline are allowed.

    >>> sections("Loops.\\n\\nWhat it finds\\n  A loop.\\n\\nThe fix: write one expression.\\n")
    {'': 'Loops.', 'What it finds': 'A loop.', 'The fix': 'write one expression.'}
    """
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(docstring).splitlines():
        heading = _HEADING.match(line)
        if heading:
            current = next(name for name in HEADINGS if name.lower() == heading["heading"].lower())
            found.setdefault(current, []).append(heading["rest"] or "")
        elif not (found[current] == [""] and re.fullmatch(r"[-=~]{3,}", line)):  # the underline of a heading
            found[current].append(line)
    texts = {name: inspect.cleandoc("\n" + "\n".join(lines)).strip("\n") for name, lines in found.items()}
    return {name: text for name, text in texts.items() if text.strip()}


def body(docstring: str) -> str:
    """The docstring as Markdown: headings, and reST's double backquotes and ``::`` as Markdown has them."""
    parts = []
    for name, text in sections(docstring).items():
        text = re.sub(r"``(?!`)(.+?)``", r"`\1`", text)
        text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
        parts.append(f"## {name}\n\n{text}" if name else text)
    return "\n\n".join(parts)


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence, on one line.

    >>> first_sentence("A loop over ``x[i].sum()`` that\\nnobody needs. More.")
    'A loop over `x[i].sum()` that nobody needs.'
    """
    line = " ".join(text.split("\n\n")[0].split()).replace("``", "`")
    end = re.search(r"[.!?](?= [A-Z`(])", line)
    return line[: end.end()] if end else line


def fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any run of backquotes inside.

    >>> print(fenced("x = 1", "python"))
    ```python
    x = 1
    ```
    """
    longest = max((len(run) for run in _runs_of_backquotes(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _runs_of_backquotes(text: str) -> Iterable[str]:
    return re.findall(r"`+", text)

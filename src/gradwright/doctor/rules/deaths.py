"""What the rules on autograd's errors share: a death that a rule's messages recognise, with its clues by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location


@dataclass(frozen=True)
class Death:
    """An exception and what the rule's pattern caught in its message."""

    fact: ScriptDied
    match: re.Match[str]

    def caught(self, group: str) -> str:
        """A named group of the pattern, "" if it took no part."""
        return self.match.groupdict().get(group) or ""

    def clue(self, name: str) -> str:
        """The first clue of that name, "" if there is none."""
        return next((text for key, text in self.fact.details if key == name), "")

    def clues(self, name: str) -> list[str]:
        return [text for key, text in self.fact.details if key == name]

    @property
    def expression(self) -> str:
        """The failing expression in backquotes, the failing line if only that is known."""
        text = self.clue("expression") or self.fact.line_text
        return f"`{text}`" if text else "the script"

    def where(self, subject: Subject) -> Location:
        return self.fact.cause or self.fact.location or subject.location


def deaths(rule: Rule, facts: Facts) -> Iterator[Death]:
    """The subject's exceptions that the rule explains."""
    for fact in facts.of(ScriptDied):
        match = rule.match(fact.message)
        if match is not None:
            yield Death(fact, match)


def bracketed(expression: str, otherwise: str) -> str:
    """The expression as something that a method can be called on; ``otherwise`` if there is none.

    >>> bracketed("a + b", "x"), bracketed("y[:3]", "x"), bracketed("", "x")
    ('(a + b)', 'y[:3]', 'x')
    """
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return otherwise
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    return expression if plain else f"({expression})"


def listed(items: list[str], most: int = 3) -> str:
    """``a; b; and 2 more``."""
    left = len(items) - most
    return "; ".join(items[:most]) + (f"; and {left} more" if left > 0 else "")


def sizes(text: str) -> tuple[int, ...]:
    """``"[64, 3]"`` as numbers; raises ``ValueError`` where a size is symbolic."""
    return tuple(int(item) for item in text.strip("[]() ").split(",") if item.strip())

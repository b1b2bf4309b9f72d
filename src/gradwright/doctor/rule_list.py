"""The rules as a list: what each finds, how bad that is, whether there may be a fix. No torch is imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.text import Text

from gradwright.doctor.explain import summary
from gradwright.doctor.render.layout import SEVERITY, Layout
from gradwright.doctor.rules import LoadedRule, all_rules
from gradwright.doctor.rules.rule import CATEGORIES
from gradwright.errors import UsageError


def rules_of(which: str) -> tuple[LoadedRule, ...]:
    """Those of a category, or whose code begins so; all for "". Raises: UsageError, if there are none.

    >>> [rule.rule.code for rule in rules_of("doctor")], len(rules_of("gw1")) < len(rules_of(""))
    (['GW901', 'GW902'], True)
    """
    word = which.strip()
    found = tuple(
        rule for rule in all_rules() if rule.rule.category == word.lower() or rule.rule.code.startswith(word.upper())
    )
    if not found:
        raise UsageError(f"no rule of {word!r}: name a category ({', '.join(CATEGORIES.values())}) or a code (GW3)")
    return found


def as_text(rules: Sequence[LoadedRule], *, width: int, color: bool) -> str:
    """Code, severity, name and whether a fix is tried; below, the first sentence of the rule's page."""
    layout = Layout(width=width, color=color)
    return layout.printed(_lines(layout, rules))


def _lines(layout: Layout, rules: Sequence[LoadedRule]) -> Iterator[Text]:
    category = ""
    for loaded in rules:
        rule = loaded.rule
        if rule.category != category:
            if category:
                yield Text()
            category = rule.category
            yield Text(category, "bold underline")
        fix = ("  fix", "green") if rule.rewrite else ""
        yield Text.assemble(
            (f"{rule.code}", "bold"), "  ", (f"{rule.severity:<7}", SEVERITY[rule.severity]), f"  {rule.name}", fix
        )
        yield from layout.hanging(Text(" " * 7), Text(summary(loaded), "dim"), 7)
    fixes = sum(loaded.rule.rewrite is not None for loaded in rules)
    yield Text()
    yield from layout.hanging(
        Text(),
        Text(f"{len(rules)} rules; for {fixes} a fix is tried (fix) · gradwright explain CODE says more"),
        2,
    )


def as_json(rules: Sequence[LoadedRule]) -> str:
    """One object per rule, in a list."""
    listed = [
        {
            "code": loaded.rule.code,
            "name": loaded.rule.name,
            "category": loaded.rule.category,
            "severity": loaded.rule.severity,
            "finds": summary(loaded),
            "fix": loaded.rule.rewrite is not None,
        }
        for loaded in rules
    ]
    return json.dumps(listed, indent=1, ensure_ascii=False) + "\n"

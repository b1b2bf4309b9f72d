"""The docs that are made from the rules: what a page holds, and that none has drifted."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from gradwright.doctor.render.rule_pages import body, fenced, rule_page, rules_index, sections
from gradwright.doctor.rules import LoadedRule
from gradwright.doctor.rules.rule import Rule

ROOT = Path(__file__).resolve().parents[3]

PAGE = """A loop over elements.

What it finds
    A loop whose body calls ``x[i]``, thus::

        for i in r: ...

Why it matters
--------------
Slow.

## The fix
One expression.
"""


def loaded(code: str = "GW301", page: str = PAGE, **fields) -> LoadedRule:
    rule = Rule(code, "python-loop-over-elements", "warning", (), **fields)
    return LoadedRule(rule, page, lambda subject, facts: iter(()), "module")


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate_under_test", ROOT / "tools" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def test_page_has_the_docstring_by_section_then_the_cases(tmp_path):
    (tmp_path / "GW301").mkdir()
    (tmp_path / "GW301" / "bad.py").write_text("slow()\n")
    text = rule_page(loaded(rewrite="compile_loop", messages=("a|b",), causes=("GW101",)), tmp_path)
    assert "# GW301 python-loop-over-elements\n\nCategory: speed · severity: warning · a rewrite is tried" in text
    assert "Follows from [GW101](GW101.md)." in text
    order = ["A loop over elements.", "## What it finds", "## Why it matters", "## The fix", "## Messages", "## Bad"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "```python\nslow()\n```" in text
    assert "## Good" not in text
    assert "-----" not in text
    assert text.endswith("\n")


def test_docstring_becomes_markdown():
    text = body(PAGE)
    assert "A loop whose body calls `x[i]`, thus:\n\n    for i in r: ..." in text


def test_headings_are_known_in_every_spelling_and_nothing_else_is():
    for heading in ("What it finds", "What it finds:", "## What it finds", "**What it finds**", "WHAT IT FINDS."):
        assert sections(f"{heading}\nA loop.\n") == {"What it finds": "A loop."}
    assert sections("What it finds: a loop.") == {"What it finds": "a loop."}
    assert sections("The fix is to write one expression.") == {"": "The fix is to write one expression."}


def test_index_has_a_row_for_each_rule_under_its_category():
    text = rules_index([loaded("GW101", "What it finds: a | b. More."), loaded("GW301")])
    assert text.index("## gradient") < text.index("[GW101](GW101.md)") < text.index("## speed")
    assert "| a \\| b. |" in text


def test_fence_is_longer_than_those_inside():
    assert fenced("```\nx\n```", "python").startswith("````python\n")


def test_generator_writes_then_agrees_then_notices_a_stale_page(generate, tmp_path, capsys):
    assert generate.main(["--check"], root=tmp_path) == 1
    assert "python tools/generate.py" in capsys.readouterr().out
    assert generate.main([], root=tmp_path) == 0
    assert generate.main(["--check"], root=tmp_path) == 0
    stale = tmp_path / "docs" / "rules" / "GW999.md"
    stale.write_text("a rule that is gone")
    (tmp_path / "docs" / "rules" / "index.md").write_text("changed by hand")
    capsys.readouterr()
    assert generate.main(["--check"], root=tmp_path) == 1
    said = capsys.readouterr().out
    assert "docs/rules/GW999.md: stale" in said
    assert "docs/rules/index.md: not what would be made now" in said
    assert generate.main([], root=tmp_path) == 0
    assert not stale.exists()
    assert generate.main(["--check"], root=tmp_path) == 0

"""``gradwright rules``: what is looked for."""

from __future__ import annotations

import json

import pytest

from gradwright.doctor.explain import summary
from gradwright.doctor.rules import all_rules


def test_every_rule_is_listed_with_what_it_finds(call):
    text = " ".join(call("rules").stdout.split())
    for loaded in all_rules():
        rule = loaded.rule
        fix = " fix" if rule.rewrite else ""
        assert f"{rule.code} {rule.severity} {rule.name}{fix} {summary(loaded)}" in text
    fixes = sum(loaded.rule.rewrite is not None for loaded in all_rules())
    assert f"{len(all_rules())} rules; for {fixes} a fix is tried" in text


@pytest.mark.parametrize(
    ("which", "codes"),
    [("speed", "GW3"), ("SPEED", "GW3"), ("GW3", "GW3"), ("gw30", "GW30"), ("GW301", "GW301"), ("", "GW")],
)
def test_a_category_or_a_beginning_narrows_the_list(which: str, codes: str, call):
    listed = json.loads(call("rules", which, "--format", "json").stdout)
    expected = [loaded.rule.code for loaded in all_rules() if loaded.rule.code.startswith(codes)]
    assert [rule["code"] for rule in listed] == expected


def test_the_json_says_of_each_what_the_table_does(call):
    (rule,) = json.loads(call("rules", "GW301", "--format", "json").stdout)
    loaded = next(loaded for loaded in all_rules() if loaded.rule.code == "GW301")
    assert rule == {
        "code": "GW301",
        "name": "python-loop-over-elements",
        "category": "speed",
        "severity": "warning",
        "finds": summary(loaded),
        "fix": True,
    }


def test_what_is_no_rule_is_wrong_usage(call):
    called = call("rules", "fast")
    assert called.exit_code == 2
    assert "no rule of 'fast': name a category (gradient, contract" in called.stderr

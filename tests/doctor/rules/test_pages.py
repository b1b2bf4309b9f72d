import re

import pytest

from gradwright.doctor.explain import sections
from gradwright.doctor.rules import all_rules

HEADS = ["What it finds", "Why it matters", "When it is fine", "The fix", "References"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.rule.code)
def test_every_rule_has_a_page_of_five_sections_in_order(rule):
    found = sections(rule.page)
    assert list(found) == HEADS
    assert all(found.values())


def test_codes_and_names_are_unique():
    rules = [rule.rule for rule in all_rules()]
    assert len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules)


def test_every_message_is_a_regular_expression():
    for rule in all_rules():
        for pattern in rule.rule.messages:
            re.compile(pattern)

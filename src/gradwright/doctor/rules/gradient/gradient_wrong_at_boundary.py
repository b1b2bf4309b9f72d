"""What it finds
    A Function whose backward gives NaN, inf or a wrong value at a boundary point (a zero, equal entries, a huge value,
    a mask that is all one way), although its forward is smooth there: differences in several directions at that very
    point are stable and add up. Points without a derivative (a kink, an infinite slope) are no finding.

Why it matters
    One such entry in one batch makes every weight NaN, and the script that trained for a day is lost at a padded row or
    an image that is black.

When it is fine
    Where the value can't occur, by construction of what comes before.

The fix
    Write the limit for that point with the safe double `where`: guard the input of the operation that fails, not only
    its result, because a NaN times zero is NaN.

References
    pytorch/pytorch#2421 (a NaN out of the branch not taken).
"""

from collections.abc import Iterator

from gradwright.doctor.rules.flaws import told
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import Flaw
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW103", "gradient-wrong-at-boundary", "error", needs=(Flaw,))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    yield from told(RULE, subject, facts)

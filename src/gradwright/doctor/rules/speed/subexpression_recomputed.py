"""What it finds
    The same expression of the same values, evaluated twice in one call, where the second time takes at least a tenth of
    the time of its function and 5 % of the watched time.

Why it matters
    An exponential, a softmax or a matrix product costs what it costs each time it is written.

When it is fine
    Where nothing is saved worth a name: then it is not reported. What is computed again in the backward, because
    keeping it would cost memory, is not reported either.

The fix
    A local name.

References
    none
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW307", "subexpression-recomputed", "warning", needs=(CostlyExpression,), rewrite="share_value")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in worth_a_word(facts, "recomputed"):
        line = cost.first.line if cost.first is not None else cost.location.line
        before = f"in line {line}" if line != cost.location.line else "earlier in this line"
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` is computed again: it was computed {before}",
            why=f"Nothing it reads has changed since, and it takes {of_the_time(cost)} (tried on {cost.tried_on}).",
            hints=["give it a name the first time"],
            evidence=[cost.id],
        )

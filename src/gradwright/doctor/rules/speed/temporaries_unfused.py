"""What it finds
    In the forward or backward of a Function, arithmetic that makes a tensor as large as its result on the way to it,
    where torch has one operation, or one in place, for the same: `2 * x * g`, `a + 2 * b`, `a + b * c`. It has to take
    at least a tenth of the time of its function and 5 % of the watched time.

Why it matters
    Large tensors are bound by memory: each temporary is allocated (page faults), written and read again.

When it is fine
    Where the tensors fit into the cache: then there is nothing to be gained, and it is not reported. It is information
    in any case.

The fix
    `(x * g).mul_(2)`: the product is nobody else's, so that it may be changed in place. `torch.add(a, b, alpha=2)` and
    `torch.addcmul(a, b, c)` are one pass. A long formula is one pass with `gw.elementwise`. Numbers that are near the
    end of their range overflow elsewhere than before: `2 * x` no longer is a number on the way.

References
    pytorch/pytorch#58648.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, size, times_the_minimum, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW308", "temporaries-unfused", "info", needs=(CostlyExpression,), rewrite="fuse_temporaries")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in worth_a_word(facts, "temporaries"):
        if subject.kind != "function":
            continue  # where a graph is recorded, the tensors on the way may be kept for it
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` makes {size(cost.extra_bytes)} of tensors on the way to its result",
            why=f"It moves {times_the_minimum(cost)} and takes {of_the_time(cost)} (tried on {cost.tried_on}).",
            hints=["multiply in place what is yours, or use torch.add with alpha, torch.addcmul, gw.elementwise"],
            evidence=[cost.id],
        )

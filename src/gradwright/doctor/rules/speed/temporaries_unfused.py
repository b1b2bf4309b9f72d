"""What it finds
    In the forward or backward of a Function, arithmetic that makes a tensor as large as its result on the way to it,
    where torch has one operation, or one in place, for the same: `2 * x * g`, `a + 2 * b`, `a + b * c`; or where it is
    a formula of four operations or more, of float32 or float64 on a CPU, that takes 40 % of the time of its function.
    Anything else has to take at least a tenth of it, and 5 % of the watched time.

Why it matters
    Large tensors are bound by memory: each temporary is allocated (page faults), written and read again.

When it is fine
    Where the tensors fit into the cache: then there is nothing to be gained, and it is not reported. It is information
    in any case.

The fix
    `(x * g).mul_(2)`: the product is nobody else's, so that it may be changed in place. `torch.add(a, b, alpha=2)` and
    `torch.addcmul(a, b, c)` are one pass. A formula is one pass with `gw.elementwise`, which compiles it at its first
    call (a second, once; the kernel is kept on disk). Numbers that are near the end of their range overflow elsewhere
    than before: `2 * x` no longer is a number on the way.

References
    pytorch/pytorch#58648.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, size, times_the_minimum, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

RULE = Rule("GW308", "temporaries-unfused", "info", needs=(CostlyExpression,), rewrite="fuse_temporaries")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    again = [cost.location for cost in worth_a_word(facts, "recomputed")]
    costs = list(worth_a_word(facts, "temporaries"))
    for cost in costs:
        if subject.kind != "function":
            continue  # where a graph is recorded, the tensors on the way may be kept for it
        if any(_holds(cost.location, other) for other in again):
            continue  # what is computed twice there is told of first
        if any(other is not cost and _holds(other.location, cost.location) for other in costs):
            continue  # it is part of a formula
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` makes {size(cost.extra_bytes)} of tensors on the way to its result",
            why=f"It moves {times_the_minimum(cost)} and takes {of_the_time(cost)} (tried on {cost.tried_on}).",
            hints=["multiply in place what is yours, or use torch.add with alpha, torch.addcmul, gw.elementwise"],
            evidence=[cost.id],
        )


def _holds(outer: Location, inner: Location) -> bool:
    """Whether a place lies in another of the same file."""
    first, last = (inner.line, inner.column), (inner.end_line, inner.end_column)
    around = (outer.line, outer.column) <= first and last <= (outer.end_line, outer.end_column)
    return inner.path == outer.path and around

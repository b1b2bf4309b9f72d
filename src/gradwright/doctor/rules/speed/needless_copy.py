"""What it finds
    A `clone()` that is only read, once, by something that makes new memory itself; and a `repeat()` along axes of
    length 1 that is only read. It has to take at least a tenth of the time of its function and 5 % of the watched time.

Why it matters
    The copy is allocated, written, read once and freed.

When it is fine
    A copy that is written into, returned, or kept is needed, and not reported; neither is a `contiguous()`, which does
    nothing where there is nothing to do.

The fix
    Drop the `clone()`; `expand()` instead of `repeat()`, which hands out a view.

References
    The documentation of `torch.Tensor.repeat` and `torch.Tensor.expand`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, size, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW309", "needless-copy", "warning", needs=(CostlyExpression,), rewrite="drop_copy")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in worth_a_word(facts, "copy"):
        repeats = not cost.text.endswith("clone()")
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` copies {size(cost.extra_bytes)} that are only read",
            why=f"What reads it makes new memory anyway. The copy takes {of_the_time(cost)} "
            f"(tried on {cost.tried_on}).",
            hints=["use expand, which hands out a view" if repeats else "leave the clone out"],
            evidence=[cost.id],
        )

"""What it finds
    A `clone()` that is only read, by something that makes new memory itself, whether it has a name or not; a `repeat()`
    along axes of length 1 and a `torch.tensor(t)` of a tensor that are only read; a `contiguous()` that copies on the
    way into a matrix product, which takes any layout. It has to take at least a tenth of the time of its function and
    5 % of the watched time.

Why it matters
    The copy is allocated, written, read once and freed.

When it is fine
    A copy that is written into, returned, or kept is needed, and not reported. Neither is a `contiguous()` that finds
    its tensor contiguous, which does nothing, or whose result's layout would be another one without it.

The fix
    Drop the `clone()` or `contiguous()`; `expand()` instead of `repeat()`, which hands out a view; `t.detach()` instead
    of `torch.tensor(t)`.

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
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` copies {size(cost.extra_bytes)} that are only read",
            why=f"What reads it makes new memory anyway. The copy takes {of_the_time(cost)} "
            f"(tried on {cost.tried_on}).",
            hints=[_hint(cost.text)],
            evidence=[cost.id],
        )


def _hint(text: str) -> str:
    for ending in ("clone()", "contiguous()"):
        if text.endswith(ending):
            return f"leave the {ending[:-2]} out"
    return "use expand, which hands out a view" if ".repeat(" in text else "use detach, which hands out a view"

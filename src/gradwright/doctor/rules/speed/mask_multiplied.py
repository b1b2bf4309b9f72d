"""What it finds
    A choice between tensors that is not written as one. A product with a mask, `g * (x > 0).float()`, that is NaN where
    the mask is False, at the inputs of a call. Or a write through a boolean mask of what is read through the same mask,
    `out[mask] = y[mask]`, where the mask has the shape of the tensors: it has to take at least a tenth of the time of
    its function and 5 % of the watched time.

Why it matters
    0 * inf and 0 * NaN are NaN: a mask that should keep a bad entry out lets it in. A boolean index is first searched
    for its True entries (on a GPU the processor waits for their number), then gathered from, then scattered to;
    `torch.where` reads, chooses and writes.

When it is fine
    A product with a mask where everything is finite; a mask of whole rows; a number as the value, which is no slower
    than a fill. None of these is reported. A write whose value is dear to compute, through a mask that is almost empty,
    may be: then the fix is no faster, and there is none.

The fix
    `torch.where(mask, g, 0)`, `out = torch.where(mask, y, out)`.

References
    pytorch/pytorch#15245.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import of_the_time, short, times_the_minimum, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyExpression
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW311", "mask-multiplied", "warning", needs=(CostlyExpression,), rewrite="select_by_mask")


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost in facts.of(CostlyExpression):
        if cost.spoilt:
            entries = "one entry" if cost.spoilt == 1 else f"{cost.spoilt} entries"
            yield RULE.finding(
                subject,
                at=cost.location,
                message=f"`{short(cost.text)}` is NaN at {entries} that its mask leaves out",
                why=f"0 * inf and 0 * NaN are NaN (tried on {cost.tried_on}).",
                hints=["torch.where(mask, value, 0) does not look at what the mask leaves out"],
                evidence=[cost.id],
            )
    for cost in worth_a_word(facts, "masked write"):
        yield RULE.finding(
            subject,
            at=cost.location,
            message=f"`{short(cost.text)}` searches, gathers and scatters where torch.where chooses",
            why=f"It moves {times_the_minimum(cost)} and takes {of_the_time(cost)} (tried on {cost.tried_on}).",
            hints=["torch.where(mask, y, out) reads and writes once"],
            evidence=[cost.id],
        )

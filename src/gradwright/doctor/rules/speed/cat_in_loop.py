"""What it finds
    A tensor that grows by `torch.cat` of itself and a new part, 16 times and more within a step, where nothing else
    uses what it was in between: found in the graph of a backward. It has to take 5 % of a step, as tried on this
    machine.

Why it matters
    Each call copies all that is there already: half the final size, times the number of parts.

When it is fine
    Where every intermediate tensor is used itself (a DenseNet's features, a sequence that is read while it is written),
    or the tensor is small: neither is reported. A loop for which array code was found is told as GW304.

The fix
    Append the parts to a list, and `torch.cat` (or `torch.stack`) it once behind the loop.

References
    The documentation of `torch.cat`.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration, size
from gradwright.doctor.rules.graph_costs import share_of_step, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyGraph, LoopShape, LoopsTreated
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW314", "cat-in-loop", "warning", needs=(CostlyGraph, LoopShape, LoopsTreated))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost, treated in worth_a_word(facts, "cat"):
        yield RULE.finding(
            subject,
            at=cost.location or subject.location,
            message=f"a tensor is grown by {cost.count} calls of cat: {size(cost.bytes)} are copied for a result of "
            f"shape {list(cost.shape)}",
            why=f"Each call copies what is there already: about {duration(cost.seconds)}, {share_of_step(cost)} (tried "
            f"on this machine; found at {cost.looks} steps, from step {cost.first} on).",
            hints=["append the parts to a list in the loop, and torch.cat the list once behind it"],
            evidence=[cost.id, treated.id],
        )

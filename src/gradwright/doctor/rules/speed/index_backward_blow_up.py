"""What it finds
    A tensor with a graph of which 64 entries, rows or slices and more are taken one by one, `x[i]` in a loop: found in
    the graph of a backward. The backward of all of them together has to take 5 % of a step, as tried on this machine.

Why it matters
    The backward of `x[i]` fills a tensor as large as `x` with zeros, writes one row of it, and adds it to what came
    from the other rows: the size of `x`, times the number of rows. Twice as many rows take four times as long.

When it is fine
    For few or small rows, and for chunks that are no small part of the whole: these are not reported. A loop for which
    array code was found is told as GW304.

The fix
    `for row in x.unbind(0):` instead of `for i in range(len(x)): x[i]`: one node, whose backward stacks the rows' own
    gradients once. `x.split(size)` for slices.

References
    pytorch/pytorch#63921: 13 to 142 ms for 200 to 1600 rows, where `unbind` takes 1 to 36.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration, size
from gradwright.doctor.rules.graph_costs import share_of_step, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyGraph, LoopShape, LoopsTreated
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW315", "index-backward-blow-up", "warning", needs=(CostlyGraph, LoopShape, LoopsTreated))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost, treated in worth_a_word(facts, "entries"):
        text = f"`{cost.text}`" if cost.text else "a loop"
        same = len(cost.other) == len(cost.shape)
        axis = _axis(cost)
        yield RULE.finding(
            subject,
            at=cost.location or subject.location,
            message=f"{text} takes {cost.count} {'slices' if same else 'entries'} of one tensor of shape "
            f"{list(cost.shape)}, one by one: their backward fills {size(cost.bytes)} with zeros",
            why=f"Each {'slice' if same else 'entry'} has a backward as large as the whole tensor: about "
            f"{duration(cost.seconds)} together, {share_of_step(cost)} (tried on this machine; found at {cost.looks} "
            f"steps, from step {cost.first} on).",
            hints=[
                f"take them apart once, before the loop: x.{'split(size' if same else 'unbind('}{axis}), whose "
                "backward puts the gradients together once"
            ],
            evidence=[cost.id, treated.id],
        )


def _axis(cost: CostlyGraph) -> str:
    """The axis along which the entries lie, as an argument; of slices the last one, that of the size goes before."""
    if len(cost.other) == len(cost.shape):
        differs = [axis for axis, (one, other) in enumerate(zip(cost.shape, cost.other, strict=True)) if one != other]
        return f", {differs[0]}" if differs and differs[0] else ""
    for axis in range(len(cost.shape)):
        if cost.shape[:axis] + cost.shape[axis + 1 :] == cost.other:
            return str(axis)
    return "0"

"""What it finds
    A matrix product with a diagonal matrix that was made of a vector, `torch.diag(v) @ b`: found in the graph of a
    backward, where the vector has a gradient. It has to take 5 % of a step more than the rows' or columns' own product
    with the vector, as tried on this machine.

Why it matters
    All but one of n entries of each row are zero: the product multiplies n times as many numbers as there are, and the
    backward makes two matrices of that size of which the diagonal is kept.

When it is fine
    For small matrices: they are not reported.

The fix
    `v[:, None] * b` for `torch.diag(v) @ b`, `b * v` for `b @ torch.diag(v)`.

References
    The documentation of `torch.diag_embed`; ScalingIntelligence/KernelBench#21.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.costs import duration
from gradwright.doctor.rules.graph_costs import share_of_step, worth_a_word
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import CostlyGraph, LoopsTreated
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW316", "dense-structured-matrix", "warning", needs=(CostlyGraph, LoopsTreated))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for cost, treated in worth_a_word(facts, "diagonal"):
        text = f"`{cost.text}`" if cost.text else "a product"
        yield RULE.finding(
            subject,
            at=cost.location or subject.location,
            message=f"{text} multiplies with a diagonal matrix of shape {list(cost.shape)}",
            why=f"All but its diagonal is zero: with the zeros it takes about {duration(cost.seconds)} more than "
            f"without, {share_of_step(cost)} (forward and backward, tried on this machine; found at {cost.looks} steps,"
            f" from step {cost.first} on).",
            hints=[
                "scale the rows: v[:, None] * b instead of torch.diag(v) @ b"
                if cost.dim == 0
                else "scale the columns: b * v instead of b @ torch.diag(v)"
            ],
            evidence=[cost.id, treated.id],
        )

"""What it finds
    A backward that starts from a tensor with no history: a loss made anew from its own value, as
    `torch.tensor(loss, requires_grad=True)`, `loss.detach().requires_grad_()` or `Variable(loss.data, ...)` make it,
    and optimizer steps that follow. Also a term of the loss that was computed from `autograd.grad` without
    `create_graph=True`, as a gradient penalty is: it has no history either.

Why it matters
    `requires_grad` makes the tensor a leaf, so that backward raises no error; but nothing is behind it. No parameter
    gets a gradient, and the steps change nothing, or follow gradients of something else. A penalty without a history is
    a number that is added to the loss: it is seen in what is printed, and has no effect.

When it is fine
    A backward that starts from such a tensor in some steps only (a batch without a single term, whose loss is a plain
    zero) is not reported, and neither is a term that was detached, or a weight made of gradients: a factor, no term.

The fix
    Call backward on the loss as it was computed; `create_graph=True` for gradients that are part of a loss. Where an
    error says that it does not require a gradient, the cut is further up (GW612).

References
    The documentation of torch.tensor and of Tensor.requires_grad_.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ConstantTerm, LeafRoots
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule("GW621", "loss-without-history", "error", needs=(LeafRoots, ConstantTerm))


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for roots in facts.of(LeafRoots):
        if roots.leaf_calls < roots.calls or roots.steps < 1:
            continue
        made = f" by `{roots.made_by}`" if roots.made_by else ""
        if roots.behind:
            start = f"All that is behind what backward at {subject.location} starts from is a leaf that is new each "
            start += (
                f"time{f', in `{roots.made_by}`' if made else ''}: so in {roots.leaf_calls} of {roots.calls} graphs"
            )
        else:
            start = f"What backward at {subject.location} starts from is a leaf, made{made}: it has no grad_fn in "
            start += f"{roots.leaf_calls} of {roots.calls} calls"
        yield RULE.finding(
            subject,
            at=roots.made_at or subject.location,
            message="the loss is made anew, without its history: backward reaches no parameter",
            why=f"{start}, and {roots.steps} optimizer step{'s' * (roots.steps != 1)} came right after.",
            hints=[
                "call backward on the loss itself: requires_grad=True makes a leaf, and hides that the graph is gone",
                "for printing, loss.item() beside it",
            ],
            evidence=[roots.id],
        )
    for term in facts.of(ConstantTerm):
        yield RULE.finding(
            subject,
            at=term.made_at or subject.location,
            message="a term of the loss is made of gradients without create_graph: it has no history and no effect",
            why=f"What this autograd.grad returned was added to the loss at {term.added_at}, where it has no grad_fn: "
            "backward treats it as a number, and no parameter gets a gradient of it.",
            hints=["create_graph=True in this call", "or .detach() the term, if it is only to be printed"],
            evidence=[term.id],
        )

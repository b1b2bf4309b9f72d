"""What it finds
    `autograd.grad` asked with respect to a tensor that the output does not depend on, or that requires no gradient:
    "One of the differentiated Tensors appears to not have been used in the graph".

Why it matters
    The tensor given is not the one that the forward used. Often it was made anew (a slice, a reshape, a move to
    another device, a copy) after or beside the one that the forward took, or the graph was cut between the two.

When it is fine
    Where an input really plays no part: `allow_unused=True` gives `None` for it, `materialize_grads=True` zeros.

The fix
    Give `autograd.grad` the very tensor object that went into the forward, and let it require a gradient before
    that: `x_part = x[:, :1]`, then compute from `x_part`, then `grad(y, x_part)`. Or differentiate with respect to
    `x` and take the slice of the gradient.

References
    torch.autograd.grad in the PyTorch documentation.
"""

from collections.abc import Iterator

from gradwright.doctor.rules.deaths import deaths, listed
from gradwright.doctor.rules.rule import Facts, Rule
from gradwright.doctor.session.facts import ScriptDied
from gradwright.doctor.session.model import Finding, Subject

RULE = Rule(
    "GW616",
    "differentiated-tensor-unused",
    "error",
    needs=(ScriptDied,),
    messages=(
        r"The differentiated Tensor at index (?P<index>\d+) appears to not have been used in the graph",
        r"One of the differentiated (?:Tensors|Variables) appears to not have been used in the graph",
        r"One of the differentiated (?:Tensors|Variables) does (?P<untracked>not require grad)",
    ),
)


def judge(subject: Subject, facts: Facts) -> Iterator[Finding]:
    for death in deaths(RULE, facts):
        index = death.caught("index")
        unused = listed(death.clues("unused")) or (f"the input at index {index}" if index else "one of the inputs")
        output = death.clue("output") or "the output"
        untracked = bool(death.caught("untracked"))
        fresh = death.clue("fresh")
        hints = []
        if fresh:
            hints.append(f"`{fresh}` makes a new tensor here, after the forward: name it first, and compute from that")
        if untracked:
            hints.append("call .requires_grad_() on it before the forward uses it")
        else:
            hints.append(
                "differentiate with respect to the very tensor that the forward was given, not a copy or a slice"
            )
            hints.append("allow_unused=True where it really plays no part: its gradient is then None")
        yield RULE.finding(
            subject,
            at=death.where(subject),
            message=f"{death.expression}: {unused} "
            + ("requires no gradient" if untracked else f"plays no part in {output}"),
            why="Torch follows the graph back from the output; "
            + ("it keeps none for a tensor that requires no gradient." if untracked else "this tensor is not on it."),
            hints=hints,
            evidence=[death.fact.id],
        )
